"""The screens of `/rewind`: pick an earlier message.

They ask which message, what of it (conversation, files or both), and what to do about files that were changed outside
qcode. Separate from the commands, because it loads when it opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.text.clean import one_line, plain_line
from qcode.text.numbers import count_text
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens.picker import Picker
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import FilePlan, RewindPlan, RewindPoint

_MAX_SHOWN_FILES = 4
_MAX_SHOWN_DOUBTS = 6


class RewindPicker(Picker):
    """Picks one of the user's messages, latest first; the id is its number."""

    ENTER = "select"

    def __init__(self, messages: Sequence[RewindPoint], highlighted: str = "") -> None:
        rows = [message_row(message) for message in reversed(messages)]
        title = "Rewind to the state before a message"
        super().__init__(title, rows, empty="No messages yet.", highlighted=highlighted)


class RewindScopePicker(Picker):
    """Picks what to rewind: `both`, `conversation` or `files`. `messages` begin with the one to rewind to."""

    ESCAPE = "back"

    def __init__(self, messages: Sequence[RewindPoint]) -> None:
        files = {name for message in messages for name in message.files}
        removed = f"removes {count_text(len(messages), 'turn')}"
        restored = f"restores {count_text(len(files), 'file')}" if files else "no files were changed"
        rows = [
            PickerRow("both", "Conversation and files", f"{removed}; {restored}"),
            PickerRow("conversation", "Conversation only", f"{removed}; files stay unchanged"),
            PickerRow("files", "Files only", f"{restored}; conversation stays unchanged"),
        ]
        super().__init__(f"Rewind to the state before “{one_line(messages[0].text, 40)}”", rows)


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


def message_row(message: RewindPoint) -> PickerRow:
    names = [name.rpartition("/")[2] for name in message.files]
    more = f" +{len(names) - _MAX_SHOWN_FILES}" if len(names) > _MAX_SHOWN_FILES else ""
    return PickerRow(
        str(message.number), plain_line(message.text, 120) or "(empty)", ", ".join(names[:_MAX_SHOWN_FILES]) + more
    )


def doubt_lines(doubts: Sequence[FilePlan], width: int) -> Content:
    """Return the files with the reason for each, as many as fit."""
    lines = [
        Content.styled(shorten(f"{plan.path} {plan.doubt}", width), "$text-warning")
        for plan in doubts[:_MAX_SHOWN_DOUBTS]
    ]
    if len(doubts) > _MAX_SHOWN_DOUBTS:
        lines.append(Content.styled(f"and {len(doubts) - _MAX_SHOWN_DOUBTS} more", "$muted"))
    return Content("\n").join(lines)
