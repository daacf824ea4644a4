"""Opens the app. What its first paint shows is gathered here; everything behind it is made while the person looks.

That is `opening`'s, which loads the rooms below: they take longer to load than the first paint.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from qcode import __version__
from qcode.cli.arguments import Arguments
from qcode.cli.asking import Left
from qcode.cli.beginning import begin_with
from qcode.cli.failure import StartError
from qcode.cli.folder import short, working_folder
from qcode.cli.selection import Selection
from qcode.cli.surroundings import Surroundings, surroundings
from qcode.runtime.briefing.head import read_head
from qcode.runtime.briefing.instructions import Instructions, load_instructions
from qcode.runtime.choices import Choices
from qcode.tui.app import QcodeApp
from qcode.tui.setup import AppSetup, Opening

if TYPE_CHECKING:
    from qcode.cli.wiring import Wired
    from qcode.protocol.conversation import Conversation

DEMO_NOTE = (
    "This is the built-in demo model: it works offline and plays every feature. /help demo lists what to ask.",
    "For a real model: /connect adds a key, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY.",
)

LEFT = 130


def run_app(arguments: Arguments) -> int:
    """Open the app, after asking on the terminal what has to be known before, and return its exit code."""
    folder = working_folder(arguments.cwd)
    try:
        around = surroundings(arguments, folder, is_attended=True)
        selection = begin_with(around)
    except Left:
        return LEFT
    instructions = load_instructions(folder, around.root, around.paths.config_dir, is_trusted=around.is_trusted)
    first = _first(around, selection, instructions)
    door = Door(around, selection, first)
    try:
        if arguments.chooses_session or around.settings.ui.linear or os.environ.get("TERM") == "dumb":
            return _opened_first(door)
        opening = Opening(selection.name, around.settings.permissions.mode, door.try_to_open)
        code = QcodeApp(opening, setup=first).run(mouse=around.settings.ui.mouse)
        if door.failure is not None:
            raise door.failure
        return code
    finally:
        gc.enable()
        door.close()


def _opened_first(door: Door) -> int:
    """Run the app on a conversation that is there before it: a question on the terminal belongs to that."""
    try:
        conversation, setup = door.open()
    except Left:
        return LEFT
    if door.around.settings.ui.linear or os.environ.get("TERM") == "dumb":
        from qcode.tui.linear import run_linear

        return run_linear(conversation, setup)
    return QcodeApp(conversation, setup=setup).run(mouse=door.around.settings.ui.mouse)


class Door:
    """Opens the conversation behind the first paint, once. Owns it until `close`; `failure` is what kept it shut."""

    def __init__(self, around: Surroundings, selection: Selection, first: AppSetup) -> None:
        self.around = around
        self.failure: StartError | None = None
        self._selection = selection
        self._first = first
        self._ready: Wired | None = None

    def open(self) -> tuple[Conversation, AppSetup]:
        """Return the conversation and what the app is told about it; raise `StartError` or `Left`."""
        from qcode.cli.opening import opened, setup_of

        self._ready = ready = opened(self.around, self._selection)
        return ready.conversation, setup_of(self.around, ready, self._first)

    def try_to_open(self) -> tuple[Conversation, AppSetup] | None:
        """Return the same, None where it cannot be; the app then has nothing to show."""
        try:
            return self.open()
        except StartError as failure:
            self.failure = failure
            return None

    def close(self) -> None:
        if self._ready is not None:
            self._ready.conversation.release()


def _first(around: Surroundings, selection: Selection, instructions: Instructions) -> AppSetup:
    """Return what the first paint shows."""
    settings = around.settings
    is_demo = selection.spec.name == "demo"
    return AppSetup(
        version=__version__,
        cwd=short(around.folder),
        model_note=(f"{selection.name} ({selection.note})", *(DEMO_NOTE if is_demo else ())),
        instructions=tuple(file.shown for file in instructions.files),
        theme=settings.ui.theme or Choices(around.paths.state_dir).theme or "auto",
        git_branch=read_head(around.root).branch,
        user_themes=around.paths.config_dir / "themes",
        history_file=around.paths.state_dir / "history.jsonl",
        has_title=settings.ui.title,
        has_bell=settings.ui.bell,
        show_thinking=settings.ui.show_thinking,
        max_continuations=settings.output.max_continuations,
        painted=_freeze,
        problem="no key" if is_demo and settings.model is None else "",
        report=lambda failure: _report(failure, around),
        is_kept=around.arguments.keeps_session,
    )


def _report(failure: BaseException, around: Surroundings) -> str:
    from qcode.cli.crash import report_crash

    return report_crash(failure, around.env)


def _freeze() -> None:
    """Look for garbage from now on, but not in what was made for the start: that stays to the end."""
    gc.freeze()
    gc.enable()
