"""A text over the whole screen, to scroll: all of a question that does not fit, or every diff of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.tui.panels.preview import Rows
from qcode.tui.transcript.line import Line

_SIDE_CELLS = 3
"""Cells of a row that the padding and the scroll bar take."""


class PagerScreen(ModalScreen[None]):
    """Arrows, PgUp/PgDn, Home and End scroll; Esc, q, Enter or Ctrl+O closes. `lines` returns the rows at a width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,ctrl+c,ctrl+o", "dismiss(None)", "Close", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._head = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(id="pager"):
            yield Static(Content.assemble((self._head, "bold"), ("  Esc close", "$muted")), markup=False)
            with VerticalScroll(id="pager-scroll"):
                yield Static(id="pager-text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#pager-scroll").focus()

    def on_resize(self, event: events.Resize) -> None:
        text = self.query_one("#pager-text", Static)
        text.update(Rows(self._lines(max(1, event.size.width - _SIDE_CELLS)), text))

    def action_scroll(self, step: int) -> None:
        self.query_one("#pager-scroll", VerticalScroll).scroll_relative(y=step, animate=False)
