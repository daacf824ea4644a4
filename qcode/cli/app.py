"""Opens the app. What its first paint shows is gathered here; everything behind it is made while the person looks.

That is `opening`'s, which loads the rooms below: they take longer to load than the first paint.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from qcode import __version__
from qcode.agent.choices import Choices
from qcode.agent.context.instructions import Instructions, load_instructions
from qcode.agent.context.project import read_head
from qcode.agent.models.selection import Selection, begin_with
from qcode.agent.options import Options, RunContext
from qcode.cli.context import run_context
from qcode.cli.terminal import Left, short, working_folder
from qcode.protocol.errors import QcodeError
from qcode.tui.app import QcodeApp
from qcode.tui.setup import AppSetup, Opening

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.conversation import Conversation

DEMO_NOTE = (
    "This is the built-in demo model: it works offline and plays every feature. /help demo lists what to ask.",
    "For a real model: /connect adds a key, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
)

LEFT = 130


def run_app(arguments: Options) -> int:
    """Open the app, after asking on the terminal what has to be known before, and return its exit code."""
    folder = working_folder(arguments.cwd)
    try:
        context = run_context(arguments, folder, is_attended=True)
        selection = begin_with(context)
    except Left:
        return LEFT
    instructions = load_instructions(folder, context.root, context.paths.config_dir, is_trusted=context.is_trusted)
    first = _first(context, selection, instructions)
    door = Door(context, selection, first)
    try:
        if arguments.chooses_session or context.settings.ui.linear or os.environ.get("TERM") == "dumb":
            return _opened_first(door)
        opening = Opening(selection.name, context.settings.permissions.mode, door.try_to_open)
        code = QcodeApp(opening, setup=first).run(mouse=context.settings.ui.mouse)
        if door.failure is not None:
            raise door.failure
        return code
    finally:
        door.close()


def _opened_first(door: Door) -> int:
    """Run the app on a conversation that is there before it: a question on the terminal belongs to that."""
    try:
        conversation, setup = door.open()
    except Left:
        return LEFT
    if door.context.settings.ui.linear or os.environ.get("TERM") == "dumb":
        from qcode.tui.linear import run_linear

        return run_linear(conversation, setup)
    return QcodeApp(conversation, setup=setup).run(mouse=door.context.settings.ui.mouse)


class Door:
    """Opens the conversation behind the first paint, once. Owns it until `close`; `failure` is what kept it shut."""

    def __init__(self, context: RunContext, selection: Selection, first: AppSetup) -> None:
        self.context = context
        self.failure: QcodeError | None = None
        self._selection = selection
        self._first = first
        self._agent: Agent | None = None

    def open(self) -> tuple[Conversation, AppSetup]:
        """Return the conversation and what the app is told about it; raise `QcodeError` or `Left`."""
        from qcode.cli.opening import opened, setup_of

        self._agent = agent = opened(self.context, self._selection)
        return agent.conversation, setup_of(self.context, agent, self._first)

    def try_to_open(self) -> tuple[Conversation, AppSetup] | None:
        """Return the same, None where it cannot be; the app then has nothing to show."""
        try:
            return self.open()
        except QcodeError as failure:
            self.failure = failure
            return None

    def close(self) -> None:
        if self._agent is not None:
            self._agent.conversation.release()


def _first(context: RunContext, selection: Selection, instructions: Instructions) -> AppSetup:
    """Return what the first paint shows."""
    settings = context.settings
    is_demo = selection.spec.name == "demo"
    return AppSetup(
        version=__version__,
        cwd=short(context.folder),
        model_note=(f"{selection.name} ({selection.note})", *(DEMO_NOTE if is_demo else ())),
        instructions=tuple(file.shown for file in instructions.files),
        theme=settings.ui.theme or Choices(context.paths.state_dir).theme or "auto",
        git_branch=read_head(context.root).branch,
        user_themes=context.paths.config_dir / "themes",
        history_file=context.paths.state_dir / "history.jsonl",
        has_title=settings.ui.title,
        has_bell=settings.ui.bell,
        show_thinking=settings.ui.show_thinking,
        max_continuations=settings.output.max_continuations,
        painted=_freeze,
        problem="no key" if is_demo and settings.model is None else "",
        report=lambda failure: _report(failure, context),
        is_kept=context.options.keeps_session,
    )


def _report(failure: BaseException, context: RunContext) -> str:
    from qcode.agent.crash import report_crash

    return report_crash(failure, context.env)


def _freeze() -> None:
    """Look for garbage from now on, but not in what was made for the start: that stays to the end."""
    gc.freeze()
    gc.enable()
