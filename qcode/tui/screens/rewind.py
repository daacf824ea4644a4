"""The screens of `/rewind` and `/diff`: pick an earlier message, and show the changes of the session.

The pickers ask for a message, for the scope (conversation, files or both), and about files that were changed outside
qcode. `ChangesScreen` shows every diff of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.text.clean import one_line, visible_rows
from qcode.text.numbers import count_text
from qcode.tui.panels.approval import preview_content
from qcode.tui.screens.picker import Picker, PickerRow
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import FileDiff, FilePlan, OwnMessage, RewindPlan

_MAX_SHOWN_FILES = 4
_MAX_SHOWN_DOUBTS = 6


class RewindPicker(Picker):
    """Picks one of the user's messages, latest first; the id is its number."""

    ENTER = "select"

    def __init__(self, messages: Sequence[OwnMessage]) -> None:
        rows = [message_row(message) for message in reversed(messages)]
        super().__init__("Rewind to before", rows, empty="No messages yet.")


class WhatPicker(Picker):
    """Picks what to rewind: `both`, `conversation` or `files`."""

    def __init__(self, message: OwnMessage) -> None:
        files = count_text(len(message.files), "file") if message.files else "no file changes"
        rows = [
            PickerRow("both", "Conversation and files", f"{files}; later turns too"),
            PickerRow("conversation", "Conversation only", "files stay unchanged"),
            PickerRow("files", "Files only", "conversation stays unchanged"),
        ]
        super().__init__(f"Rewind to before “{one_line(message.text, 40)}”", rows)


class DoubtPicker(Picker):
    """Asks about files that were changed outside qcode: `skip` leaves them, `overwrite` restores them, too."""

    def __init__(self, plan: RewindPlan) -> None:
        self._doubts = plan.doubtful
        rows = [
            PickerRow("skip", "Leave these files unchanged", "rewind the others"),
            PickerRow("overwrite", "Restore them too", "their current content is kept: redo restores it"),
        ]
        super().__init__(plan.summary, rows)

    def compose_more(self) -> ComposeResult:
        yield Static(doubt_lines(self._doubts, max(20, self.app.size.width - 4)), id="rewind-doubts", markup=False)


def message_row(message: OwnMessage) -> PickerRow:
    names = [name.rpartition("/")[2] for name in message.files]
    more = f" +{len(names) - _MAX_SHOWN_FILES}" if len(names) > _MAX_SHOWN_FILES else ""
    return PickerRow(
        str(message.number), one_line(message.text, 120) or "(empty)", ", ".join(names[:_MAX_SHOWN_FILES]) + more
    )


def doubt_lines(doubts: Sequence[FilePlan], width: int) -> Content:
    """Return the files with the reason for each, as many as fit."""
    lines = [
        Content.styled(shorten(f"{one.path} {one.doubt}", width), "$text-warning") for one in doubts[:_MAX_SHOWN_DOUBTS]
    ]
    if len(doubts) > _MAX_SHOWN_DOUBTS:
        lines.append(Content.styled(f"and {len(doubts) - _MAX_SHOWN_DOUBTS} more", "$muted"))
    return Content("\n").join(lines)


_MAX_CHARS = 400_000


class ChangesScreen(ModalScreen[None]):
    """Shows the diffs. Arrows and PgUp/PgDn scroll; Esc, q or Enter closes."""

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
            yield Static(Content.assemble((head, "bold"), ("  Esc close", "$muted")), markup=False)
            with VerticalScroll(id="changes-scroll"):
                yield Static(changes_content(self._changes), id="changes-text", markup=False)

    def on_mount(self) -> None:
        self.query_one("#changes-scroll").focus()

    def action_scroll(self, step: int) -> None:
        self.query_one("#changes-scroll", VerticalScroll).scroll_relative(y=step, animate=False)


def changes_content(changes: Sequence[FileDiff]) -> Content:
    """Return the diffs. A very long text is truncated, with a note at its end."""
    parts: list[Content] = []
    room = _MAX_CHARS
    for change in changes:
        note = f"  {one_line(change.note)}" if change.note else ""
        parts.append(Content.assemble((one_line(change.path), "bold"), (note, "$muted")))
        if change.diff:
            parts.append(preview_content(visible_rows(change.diff[:room])))
            room -= len(change.diff)
        if room <= 0:
            parts.append(Content.styled("Too large to show in full; use git diff.", "$text-warning"))
            break
        parts.append(Content(""))
    return Content("\n").join(parts) if parts else Content("Nothing was changed.")
