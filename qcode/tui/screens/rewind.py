"""The questions of `/rewind`, `/undo` and `/redo`.

They ask for the message to rewind to, for the scope (conversation, files or both), and whether to restore files that
were changed outside qcode. The module loads when the first question opens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.text.clean import plain_line, quoted_line, visible
from qcode.text.numbers import count_text
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import Column, PickerRow, time_labels
from qcode.tui.screens.picker import Picker
from qcode.tui.shared_widgets import hanging_rows
from qcode.tui.transcript.line import shorten_start

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import FilePlan, RewindPlan, RewindPoint

_MAX_SHOWN_FILES = 4
_MAX_DOUBT_ROWS = 7
_MAX_LABEL_CHARS = 400
"""The list cuts a message to its width. This limit, wider than a screen, keeps the layout of a long paste fast."""
_SIDE_CELLS = 4
"""Cells at both sides of the screen."""
_MARK_CELLS = 4
"""Cells before the label of a row."""


class RewindPicker(Picker):
    """Picks one of the user's messages, latest first; the result is its number."""

    ENTER = "select"
    COLUMNS = (Column("", weight=1), Column("", weight=2))

    def __init__(self, messages: Sequence[RewindPoint], highlighted: str = "") -> None:
        times = time_labels([message.timestamp for message in messages])
        rows = [
            message_row(message, turn, time)
            for turn, (message, time) in enumerate(zip(messages, times, strict=True), start=1)
        ]
        title = "Rewind to the state before a message"
        super().__init__(title, rows[::-1], empty="No messages yet.", highlighted=highlighted)


class RewindScopePicker(Picker):
    """Picks the scope of a rewind: `both`, `conversation` or `files`. `messages` are those that the rewind removes."""

    ESCAPE = "back"

    def __init__(self, messages: Sequence[RewindPoint]) -> None:
        # A file that the first of these turns with it created is deleted by the rewind.
        is_created: dict[str, bool] = {}
        for message in messages:
            for name in message.files:
                is_created.setdefault(name, name in message.created)
        deleted_count = sum(is_created.values())
        removed = f"removes {count_text(len(messages), 'turn')}"
        effects = (("restores", len(is_created) - deleted_count), ("deletes", deleted_count))
        restored = ", ".join(f"{verb} {count_text(count, 'file')}" for verb, count in effects if count)
        rows = [
            PickerRow("both", "Conversation and files", f"{removed}; {restored}"),
            PickerRow("conversation", "Conversation only", f"{removed}; files stay unchanged"),
            PickerRow("files", "Files only", f"{restored}; conversation stays unchanged"),
        ]
        if not is_created:
            rows = [PickerRow("conversation", "Conversation", f"{removed}; no files were changed")]
        super().__init__(f"Rewind to the state before {quoted_line(messages[0].text, 40)}", rows)


class OutsideChangesPicker(Picker):
    """Asks about files that were changed outside qcode: `skip` leaves them unchanged, `overwrite` restores them too.

    `can_go_back`: Esc returns to the previous question; otherwise it cancels.
    """

    IS_QUESTION = True

    def __init__(self, plan: RewindPlan, *, can_go_back: bool) -> None:
        self._plan = plan
        self._can_go_back = can_go_back
        super().__init__(self._question("it"), self._answers("it"))

    def on_mount(self) -> None:
        """Name the files instead of `it`, because the width of the screen is known now; a path is shortened to it.

        Textual calls this before `on_mount` of the base class.
        """
        doubts = self._plan.doubtful
        names = f"these {len(doubts)} files"
        if len(doubts) == 1:
            other_cells = max(len(self._question("")), *(len(row.label) + _MARK_CELLS for row in self._answers("")))
            names = shorten_start(visible(doubts[0].path), self.app.size.width - _SIDE_CELLS - other_cells)
        self.heading = self._question(names)
        self._rows = tuple(self._answers(names))

    @property
    def _verb(self) -> str:
        """The word for the effect of the answer `overwrite` on the files."""
        if self._plan.is_redo:
            return "change"
        return "delete" if all(file.action == "delete" for file in self._plan.doubtful) else "restore"

    def _question(self, names: str) -> str:
        return f"{self._plan.summary.partition(':')[0]}: keep or {self._verb} {names}?"

    def _answers(self, names: str) -> list[PickerRow]:
        state = "as it is" if len(self._plan.doubtful) == 1 else "as they are"
        return [
            PickerRow("skip", f"Keep {names} {state}"),
            PickerRow("overwrite", f"{self._verb.capitalize()} {names} too"),
        ]

    def compose_more(self) -> ComposeResult:
        width = max(20, self.app.size.width - _SIDE_CELLS)
        yield Static(doubt_lines(self._plan.doubtful, width), id="rewind-doubts", markup=False)
        yield Static(id="rewind-effect", markup=False)

    def keys(self) -> Sequence[tuple[str, str]]:
        escape = "back" if self._can_go_back else "change nothing"
        return (("Enter", self.ENTER), ("Esc", escape), ("↑↓", "move"))

    def show_row(self, row: PickerRow | None) -> None:
        """Show the effect of the highlighted answer on the files and on the conversation."""
        if row is not None:
            self.query_one("#rewind-effect", Static).update(effect_text(self._plan, row.id))


def effect_text(plan: RewindPlan, answer: str) -> str:
    """Return the effect of an answer on the conversation and on the files, as a sentence."""
    kept_files = () if answer == "overwrite" else plan.doubtful
    kept_count = len(kept_files)
    changed = [file for file in plan.files if not file.refusal and file not in kept_files]
    deleted_count = 0 if plan.is_redo else sum(file.action == "delete" for file in changed)
    changed_count = len(changed) - deleted_count
    effects = []
    if plan.removed:
        effects.append(f"{'removes' if plan.is_removing else 'brings back'} {plan.removed}")
    if changed_count:
        effects.append(f"{'changes' if plan.is_redo else 'restores'} {count_text(changed_count, 'file')}")
    if deleted_count:
        effects.append(f"deletes {count_text(deleted_count, 'file')}")
    *first, last = effects or ["changes nothing"]
    effect = capitalized(f"{', '.join(first)} and {last}" if first else last)
    if kept_count:
        state = "stays as it is" if kept_count == 1 else "stay as they are"
        return f"{effect}; {count_text(kept_count, 'file')} {state}."
    return f"{effect}. {plan.reverting_command} brings back the current content."


def message_row(message: RewindPoint, turn: int, time: str) -> PickerRow:
    """Return the row of a message: its text, its turn, its time, and the names of the files that the turn changed."""
    names = [name.rpartition("/")[2] for name in message.files]
    more = f" +{len(names) - _MAX_SHOWN_FILES}" if len(names) > _MAX_SHOWN_FILES else ""
    files = ", ".join(names[:_MAX_SHOWN_FILES]) + more
    detail = f"changed {files}" if files else ""
    label = plain_line(message.text, _MAX_LABEL_CHARS) or "(empty)"
    return PickerRow(str(message.number), label, detail, cells=(f"turn {turn}", time), cut="words")


def doubt_lines(doubts: Sequence[FilePlan], width: int) -> Content:
    """Return the files with the reason for each in full, as many as fit."""
    lines: list[str] = []
    for index, plan in enumerate(doubts):
        rows = list(hanging_rows(f"{shorten_start(visible(plan.path), width)} {plan.doubt}", width))
        if index and len(lines) + len(rows) > _MAX_DOUBT_ROWS:
            more = Content.styled(f"\nand {len(doubts) - index} more", "$muted")
            return Content.styled("\n".join(lines), "$text-warning") + more
        lines += rows
    return Content.styled("\n".join(lines), "$text-warning")
