"""Opens the app, or its linear mode. The data for the first paint is read here; the app opens the agent later.

Separate from `main`, which every start imports, because this module imports the app.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from qcode.agent.context.instructions import load_instructions
from qcode.agent.context.project import read_head
from qcode.agent.models.selection import DEMO, RESUMED, Selection, select_at_start, select_for_resume
from qcode.agent.options import CHOOSE, LATEST, Options, RunContext
from qcode.cli.context import run_context, with_chosen_session
from qcode.cli.terminal import InputEnded, ask_choice, short_path, working_folder
from qcode.cli.trust import TrustAnswer, TrustQuestion, ask_in_lines
from qcode.config.paths import HISTORY_NAME
from qcode.protocol.errors import ExitCode
from qcode.tui.app import AppOptions, QcodeApp
from qcode.tui.welcome import Welcome

DEMO_NOTE = (
    "This is the built-in demo model: it works offline and plays every feature. /help demo lists what to ask.",
    "For a real model: /connect adds a key, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
)

_BUSY_SESSION_CHOICES = """\
  1  Continue in a copy
  2  Start a new session"""


def run_app(options: Options) -> int:
    """Ask the questions that must come before the app, open it, and return its exit code."""
    folder = working_folder(options.cwd)
    drafts: list[str] = []

    def ask_trust(question: TrustQuestion) -> TrustAnswer:
        return _ask_trust(replace(options, cwd=folder), question, drafts.append)

    try:
        context = run_context(options, folder, is_attended=True, ask_trust=ask_trust)
        if _is_linear(context):
            context = with_chosen_session(context)
        busy_session = _busy_session(context)
        if busy_session and _is_linear(context):
            context = _ask_about_busy_session(context, busy_session)
        elif busy_session:  # the app asks
            context = replace(context, options=replace(context.options, resume=None))
        is_resuming = context.options.resume is not None
        selection = select_for_resume(context) if is_resuming else select_at_start(context, has_demo=True)
    except InputEnded:
        return ExitCode.INTERRUPTED
    picks_session = context.options.resume == CHOOSE
    if picks_session:
        context = replace(context, options=replace(context.options, resume=None))
    welcome = _welcome(context, selection)
    if _is_linear(context):
        from qcode.tui.linear.app import run_linear

        return run_linear(context, selection, welcome)
    app_options = AppOptions(
        history_file=_history_file(context),
        on_first_paint=_freeze,
        draft="".join(drafts),
        picks_session=picks_session,
        busy_session=busy_session,
    )
    return QcodeApp(context, selection, welcome, app_options).run(mouse=context.settings.ui.mouse)


def _busy_session(context: RunContext) -> str:
    """Return the id of the session to resume if another process has it open, otherwise an empty text."""
    options = context.options
    if options.resume in (None, CHOOSE) or options.fork_session or options.no_session:
        return ""
    from qcode.agent.sessions.store import SessionStore

    store = SessionStore(context.paths.state_dir, context.root)
    session_id = store.latest() if options.resume == LATEST else store.find(options.resume or "")
    if session_id is None or store.holder(session_id) is None:
        return ""
    return session_id


def _ask_about_busy_session(context: RunContext, session_id: str) -> RunContext:
    """Ask in linear mode how to continue, and return the context for the answer; raise `InputEnded`."""
    from qcode.agent.sessions.file import open_elsewhere_text
    from qcode.agent.sessions.store import SessionStore

    holder = SessionStore(context.paths.state_dir, context.root).holder(session_id)
    if holder is None:  # closed meanwhile
        return context
    text = f"Session {session_id} is {open_elsewhere_text(holder)}.\n{_BUSY_SESSION_CHOICES}"
    continues_in_copy = ask_choice(text, "Which? [1] ", {"1": True, "2": False}, default="1")
    if continues_in_copy:
        return replace(context, options=replace(context.options, resume=session_id, fork_session=True))
    return replace(context, options=replace(context.options, resume=None))


def _is_linear(context: RunContext) -> bool:
    return context.settings.ui.linear or os.environ.get("TERM") == "dumb"


def _ask_trust(options: Options, question: TrustQuestion, keep_draft: Callable[[str], None]) -> TrustAnswer:
    """Ask in a panel, or in lines in linear mode, before the folder's settings are read.

    `keep_draft` gets the text that the user typed into the prompt meanwhile. If the user quits, the text is stored for
    the next start, unless the run stores nothing; raise `InputEnded`.
    """
    context = RunContext.read(options, dict(os.environ), is_attended=True, judge_trust=lambda *_: False)
    if _is_linear(context):
        return ask_in_lines(question)
    from qcode.protocol.approvals import Allow
    from qcode.tui.panels.choices import FolderTrust
    from qcode.tui.prompt.history import PromptHistory
    from qcode.tui.screens.trust import TrustApp

    is_stored = not options.no_session
    history = PromptHistory(_history_file(context), short_path(context.folder), is_stored=is_stored)
    app = TrustApp(context, FolderTrust(question.question, question.facts), history=history)
    exit_code = app.ask(mouse=context.settings.ui.mouse)
    if exit_code:
        raise SystemExit(exit_code)
    keep_draft(app.draft)
    match app.answer:
        case None:
            raise InputEnded
        case Allow(scope="folder"):
            return "always"
        case Allow():
            return "once"
        case _:
            return "restricted"


def _welcome(context: RunContext, selection: Selection) -> Welcome:
    """Return the facts that the app shows before the first prompt."""
    instructions = load_instructions(
        context.folder, context.root, context.user_folder, reads_project=context.reads_project, home=context.home
    )
    has_demo_note = selection.spec.name == DEMO and selection.note != RESUMED
    return Welcome(
        (f"{selection.name} ({selection.note})", *(DEMO_NOTE if has_demo_note else ())),
        short_path(context.folder),
        read_head(context.root).branch,
        tuple(short_path(Path(file.label)) for file in instructions.files),
    )


def _history_file(context: RunContext) -> Path:
    """Return the file of the sent prompts; the drafts are stored beside it."""
    return context.paths.state_dir / HISTORY_NAME


def _freeze() -> None:
    """Enable garbage collection, except for the objects created at startup, which live until exit."""
    gc.freeze()
    # Every frame creates thousands of objects that live for a few frames. With Python's default of 700 new objects,
    # collections take a tenth of the CPU time of a streamed reply; with this threshold, a twentieth.
    gc.set_threshold(5000, 20, 20)
    gc.enable()
