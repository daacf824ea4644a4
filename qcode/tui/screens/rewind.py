"""The questions of `/rewind`, `/undo` and `/redo`.

They ask for the message to rewind to, what to rewind (conversation, files or both), and what to do about files that
were changed outside qcode. The module loads when the first of them opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.text.clean import one_line, plain_line, visible
from qcode.text.numbers import count_text
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens.control_text import clock_texts
from qcode.tui.screens.picker import Picker
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import FilePlan, RewindPlan, RewindPoint

_MAX_SHOWN_FILES = 4
_MAX_SHOWN_DOUBTS = 6
_MAX_NAME = 18


class RewindPicker(Picker):
    """Picks one of the user's messages, latest first; the result is its number."""

    ENTER = "select"

    def __init__(self, messages: Sequence[RewindPoint], highlighted: str = "") -> None:
        times = clock_texts([message.at for message in messages])
        timed = enumerate(zip(messages, times, strict=True), start=1)
        rows = [message_row(message, turn, time) for turn, (message, time) in timed][::-1]
        title = "Rewind to the state before a message"
        super().__init__(title, rows, empty="No messages yet.", highlighted=highlighted)


class RewindScopePicker(Picker):
    """Picks what to rewind: `both`, `conversation` or `files`. `messages` are those that the rewind removes."""

    ESCAPE = "back"

    def __init__(self, messages: Sequence[RewindPoint]) -> None:
        files = {name for message in messages for name in message.files}
        removed = f"removes {count_text(len(messages), 'turn')}"
        restored = f"restores {count_text(len(files), 'file')}"
        rows = [
            PickerRow("both", "Conversation and files", f"{removed}; {restored}"),
            PickerRow("conversation", "Conversation only", f"{removed}; files stay unchanged"),
            PickerRow("files", "Files only", f"{restored}; conversation stays unchanged"),
        ]
        if not files:
            rows = [PickerRow("conversation", "Conversation", f"{removed}; no files were changed")]
        super().__init__(f"Rewind to the state before “{one_line(messages[0].text, 40)}”", rows)


class OutsideChangesPicker(Picker):
    """Asks about files that were changed outside qcode: `skip` leaves them unchanged, `overwrite` restores them too.

    `can_go_back`: Esc returns to the previous question; otherwise it cancels.
    """

    IS_QUESTION = True

    def __init__(self, plan: RewindPlan, *, can_go_back: bool) -> None:
        self._plan = plan
        doubts = plan.doubtful
        self._file_words = (
            shorten(visible(doubts[0].path), _MAX_NAME) if len(doubts) == 1 else f"these {len(doubts)} files"
        )
        self._can_go_back = can_go_back
        rows = [
            PickerRow("skip", f"Keep {self._file_words} as {'it is' if len(doubts) == 1 else 'they are'}"),
            PickerRow("overwrite", f"{'Change' if plan.is_redo else 'Restore'} {self._file_words} too"),
        ]
        question = f"keep or {'change' if plan.is_redo else 'restore'} {self._file_words}?"
        super().__init__(f"{plan.summary.partition(':')[0]}: {question}", rows)

    def compose_more(self) -> ComposeResult:
        width = max(20, self.app.size.width - 4)
        yield Static(doubt_lines(self._plan.doubtful, width), id="rewind-doubts", markup=False)
        yield Static(id="rewind-effect", markup=False)

    def keys(self) -> Sequence[tuple[str, str]]:
        escape = "back" if self._can_go_back else "change nothing"
        return (("Enter", self.ENTER), ("Esc", escape), ("↑↓", "move"))

    def show_row(self, row: PickerRow | None) -> None:
        """Show what the highlighted answer does to the files and to the conversation."""
        if row is not None:
            self.query_one("#rewind-effect", Static).update(
                "\n".join(effect_lines(self._plan, row.id, self._file_words))
            )


def effect_lines(plan: RewindPlan, answer: str, file_words: str) -> tuple[str, str]:
    """Return what an answer does to the files and to the conversation; `file_words` names the `doubtful` files."""
    other_count = sum(not file.refusal for file in plan.files) - len(plan.doubtful)
    others, verb = count_text(other_count, "other file"), "changed" if plan.is_redo else "restored"
    if answer == "overwrite":
        files = f"{verb}: {file_words}" + (f" and {others}" if other_count else "")
        files += f"; {'/undo' if plan.is_redo else '/redo'} restores the current content"
    else:
        files = f"unchanged: {file_words}" + (f"; {others} {verb}" if other_count else "")
    moved = f"{plan.removed} {'removed' if plan.messages > 0 else 'restored'}"
    conversation = moved if plan.removed else "unchanged"
    return f"Files: {files}.", f"Conversation: {conversation}."


def message_row(message: RewindPoint, turn: int, time: str) -> PickerRow:
    names = [name.rpartition("/")[2] for name in message.files]
    more = f" +{len(names) - _MAX_SHOWN_FILES}" if len(names) > _MAX_SHOWN_FILES else ""
    detail = (f"turn {turn}", ", ".join(names[:_MAX_SHOWN_FILES]) + more, time)
    return PickerRow(str(message.number), plain_line(message.text, 120) or "(empty)", " · ".join(filter(None, detail)))


def doubt_lines(doubts: Sequence[FilePlan], width: int) -> Content:
    """Return the files with the reason for each, as many as fit."""
    lines = [
        Content.styled(shorten(f"{visible(plan.path)} {plan.doubt}", width), "$text-warning")
        for plan in doubts[:_MAX_SHOWN_DOUBTS]
    ]
    if len(doubts) > _MAX_SHOWN_DOUBTS:
        lines.append(Content.styled(f"and {len(doubts) - _MAX_SHOWN_DOUBTS} more", "$muted"))
    return Content("\n").join(lines)
