"""What the session changed in files: every diff, one under another, to read and scroll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.protocol.rewinding import FileDiff
from qcode.tui.figures import count_text
from qcode.tui.preview import preview_content
from qcode.tui.text import one_line

_MOST_CHARS = 400_000


class ChangesScreen(ModalScreen[None]):
    """Arrows and PgUp/PgDn scroll; Esc, q or Enter closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,ctrl+c", "dismiss(None)", "Close", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
    ]

    def __init__(self, changes: Sequence[FileDiff]) -> None:
        super().__init__()
        self._changes = tuple(changes)

    def compose(self) -> ComposeResult:
        head = f"Changed in this session: {count_text(len(self._changes), 'file')}"
        with Vertical(id="changes"):
            yield Static(Content.assemble((head, "bold"), ("  Esc closes", "$muted")), markup=False)
            with VerticalScroll(id="changes-scroll"):
                yield Static(changes_content(self._changes), id="changes-text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#changes-scroll").focus()

    def action_scroll(self, step: int) -> None:
        self.query_one("#changes-scroll", VerticalScroll).scroll_relative(y=step, animate=False)


def changes_content(changes: Sequence[FileDiff]) -> Content:
    """Return the diffs. Of very much only the beginning is shown, and that is said."""
    parts: list[Content] = []
    room = _MOST_CHARS
    for change in changes:
        note = f"  {one_line(change.note)}" if change.note else ""
        parts.append(Content.assemble((one_line(change.path), "bold"), (note, "$muted")))
        if change.diff:
            parts.append(preview_content(change.diff[:room]))
            room -= len(change.diff)
        if room <= 0:
            parts.append(Content.styled("The rest is too much to show; use git diff.", "$text-warning"))
            break
        parts.append(Content(""))
    return Content("\n").join(parts) if parts else Content("Nothing was changed.")
