"""A full-screen pager, for a question that does not fit, the diffs of a session, or the output of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.tui.panels.preview import Rows
from qcode.tui.shared_widgets import hanging_rows, key_hints
from qcode.tui.transcript.line import Line, shorten, style_of, wrap

_SIDE_CELLS = 3
"""Cells of a row that the padding and the scroll bar take."""
_GAP = "  "
_MIN_TITLE = 8


def hanging_lines(text: str, width: int) -> list[Line]:
    """Return the rows of a sanitized text. In lines with two columns, the second column is wrapped and indented."""
    rows = (row for line in text.split("\n") for row in hanging_rows(line, width))
    return [line for row in rows for line in wrap([(row, style_of())], width)]


class PagerScreen(ModalScreen[None]):
    """Shows rows under a title.

    Arrows, PgUp/PgDn, Home and End scroll; Esc, q, Enter or Ctrl+O closes. A subclass adds keys with `BINDINGS` and
    returns them from `keys`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,ctrl+c,ctrl+o", "dismiss(None)", "Close", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._heading = title
        self._lines = lines
        """Returns the rows for a width in cells."""

    def compose(self) -> ComposeResult:
        with Vertical(id="pager"):
            yield Static(id="pager-title", markup=False)
            with VerticalScroll(id="pager-scroll"):
                yield Static(id="pager-text", markup=False)
            yield Static(id="pager-foot", markup=False)

    def on_mount(self) -> None:
        self.query_one("#pager-scroll").focus()

    def on_resize(self, event: events.Resize) -> None:
        self.show_title(self._heading)
        self.show_lines()

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the additional keys of a subclass and their actions, for the key hints."""
        return ()

    def show_title(self, heading: str, note: str = "") -> None:
        """Show the title with `note` after it, and the keys."""
        self._heading = heading
        width = max(1, self.size.width - _SIDE_CELLS)
        note_content = Content.styled(note, "$text-success")
        title_width = width - note_content.cell_length - len(_GAP)
        title = Content("")
        if title_width >= _MIN_TITLE:
            title = Content.assemble((shorten(heading, title_width), "bold"), _GAP)
        self.query_one("#pager-title", Static).update(Content.assemble(title, note_content).truncate(width))
        keys = (("Esc", "close"), *self.keys(), ("↑↓ PgUp PgDn", "scroll"))
        self.query_one("#pager-foot", Static).update(key_hints(keys, width))

    def show_lines(self) -> None:
        """Show the rows at the current width, which may have changed."""
        text = self.query_one("#pager-text", Static)
        text.update(Rows(self._lines(max(1, self.size.width - _SIDE_CELLS)), text))

    def action_scroll(self, step: int) -> None:
        self.query_one("#pager-scroll", VerticalScroll).scroll_relative(y=step, animate=False)
