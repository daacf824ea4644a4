"""Says outside the screen how the session stands: the terminal's title, a bell, a notification of the desktop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.tui import terminal
from qcode.tui.text import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.tui.setup import AppSetup
    from qcode.tui.turns import State

_MARKS: dict[State, str] = {"idle": "", "working": "… ", "asking": "? "}
_CALLS: dict[State, str] = {"idle": "qcode: the turn has ended", "asking": "qcode: a question waits for you"}
_TITLE_CELLS = 50


class Announcer:
    """`write` takes sequences for the terminal; `ring` calls the person, with a text where nobody is looking."""

    def __init__(self, setup: AppSetup, write: Callable[[str], None], ring: Callable[[str], None]) -> None:
        self._setup = setup
        self._write = write
        self._ring = ring
        self._state: State = "idle"
        self._title = ""

    def begin(self) -> None:
        """Take the title over."""
        if self._setup.has_title:
            self._write(terminal.SAVE_TITLE)
        self._show()

    def end(self) -> None:
        """Give the title back as it was."""
        if self._setup.has_title:
            self._write(terminal.RESTORE_TITLE)

    def announce(self, state: State) -> None:
        """Show the state in the title, and ring where something waits for the person."""
        self._state = state
        self._show()
        if self._setup.has_bell and state != "working":
            self._ring(_CALLS[state])

    def name(self, title: str) -> None:
        """Show what the session is called; empty: it has no name yet."""
        if title != self._title:
            self._title = title
            self._show()

    def _show(self) -> None:
        if self._setup.has_title:
            folder = one_line(self._setup.cwd).rstrip("/").rpartition("/")[2]
            name = shorten(self._title, _TITLE_CELLS) if self._title else "qcode"
            self._write(terminal.set_title(f"{_MARKS[self._state]}{name}{f' · {folder}' if folder else ''}"))
