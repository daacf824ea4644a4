"""Going back: which message, what of it, and what to do about files that somebody else changed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.protocol.rewinding import FilePlan, OwnMessage, RewindPlan
from qcode.tui.figures import count_text
from qcode.tui.screens.picker import Picker, Row
from qcode.tui.text import one_line, shorten

_FILES = 4
_DOUBTS = 6


class RewindPicker(Picker):
    """Picks one of the person's messages, the latest first; its number is the id."""

    ENTER = "go back to before it"

    def __init__(self, messages: Sequence[OwnMessage]) -> None:
        rows = [message_row(message) for message in reversed(messages)]
        super().__init__("Rewind to before", rows, empty="Nothing was said yet.")


class WhatPicker(Picker):
    """Picks what goes back: `both`, `conversation` or `files`."""

    def __init__(self, message: OwnMessage) -> None:
        files = count_text(len(message.files), "file") if message.files else "no files were changed right after it"
        rows = [
            Row("both", "Conversation and files", f"{files}; later turns too"),
            Row("conversation", "Conversation only", "files stay as they are"),
            Row("files", "Files only", "the conversation stays"),
        ]
        super().__init__(f"Rewind to before “{one_line(message.text, 40)}”", rows)


class DoubtPicker(Picker):
    """Asks about files that are not as qcode left them: `skip` leaves them, `overwrite` puts them back, too."""

    def __init__(self, plan: RewindPlan) -> None:
        self._doubts = plan.doubtful
        rows = [
            Row("skip", "Leave these files as they are", "the rest goes on"),
            Row("overwrite", "Put them back as well", "what they are now is kept: the opposite step brings it back"),
        ]
        super().__init__(plan.summary, rows)

    def compose_more(self) -> ComposeResult:
        yield Static(doubt_lines(self._doubts, max(20, self.app.size.width - 4)), id="rewind-doubts", markup=False)


def message_row(message: OwnMessage) -> Row:
    names = [name.rpartition("/")[2] for name in message.files]
    more = f" +{len(names) - _FILES}" if len(names) > _FILES else ""
    return Row(str(message.number), one_line(message.text, 120) or "(empty)", ", ".join(names[:_FILES]) + more)


def doubt_lines(doubts: Sequence[FilePlan], width: int) -> Content:
    """Return the files with what is the matter, as many as there is room for."""
    lines = [Content.styled(shorten(f"{one.path} {one.doubt}", width), "$text-warning") for one in doubts[:_DOUBTS]]
    if len(doubts) > _DOUBTS:
        lines.append(Content.styled(f"and {len(doubts) - _DOUBTS} more", "$muted"))
    return Content("\n").join(lines)
