"""The screen of `/diff`: shows the changes of each turn, and undoes a single file or hunk.

The first row is the difference between the start of the session and now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from qcode.agent.checkpoints.turn_changes import NO_CHANGES, ChangeHunk, TurnChanges, TurnFile, size_text
from qcode.text.clean import more_chars, one_line, plain_line, visible, visible_rows
from qcode.text.numbers import count_text
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import SCREEN_SHARE, PickerRow
from qcode.tui.panels.preview import Rows
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.screens.picker import ListScreen
from qcode.tui.transcript.diff import parse_diff, render_diff
from qcode.tui.transcript.line import Line, style_of, wrap
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import SessionFileDiff

MAX_CHARS = 400_000
"""The maximum length of the diffs that are shown at once."""
ALL_CHANGES = "all"
"""The id of the first row, which shows all changes of the session."""
_PREVIEW_ROWS, _SHORT_PREVIEW_ROWS = 8, 4
"""The maximum height of the preview; the lower one if the list needs the other rows."""
_MIN_HEIGHT, _FULL_HEIGHT = 16, 24
"""A screen with fewer rows than `_MIN_HEIGHT` has no preview; with fewer than `_FULL_HEIGHT`, a short one."""
_ROWS_AROUND = 6
"""The rows of the screen besides the list and the preview, with margins."""
_SIDE_CELLS = 4
"""The number of columns beside the preview."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """A part that can be undone: a file of a turn, or one hunk of a file."""

    prompt_number: int
    """The message number of the prompt of the turn."""
    file: TurnFile
    hunk: int | None = None
    """The index of the hunk, None for the whole file."""

    @property
    def diff(self) -> str:
        for hunk in self.file.hunks:
            if hunk.index == self.hunk:
                return hunk.diff
        return self.file.diff

    @property
    def note(self) -> str:
        """The reason why there is no diff, as a sentence; empty if there is one."""
        # "a new empty file" becomes "New empty file."
        note = "" if self.diff else one_line(self.file.note)
        return f"{capitalized(note.removeprefix('is ').removeprefix('a '))}." if note else ""


@dataclass(frozen=True, slots=True)
class ChangesSource:
    """The operations on the session that the screen needs."""

    undo: Callable[[ChangePart], Awaitable[str]]
    """Undoes a part and returns a line for the user; raises `ValueError` with the reason if it cannot be undone."""
    read: Callable[[], Awaitable[tuple[Sequence[SessionFileDiff], Sequence[TurnChanges]]]]
    """Returns the changes of the session, and those of each turn, the oldest first."""


class ChangesScreen(ListScreen[None]):
    """A list of the turns with their files and hunks, the latest turn first.

    Enter shows the diff of a row, Ctrl+X undoes the file or hunk.
    """

    ENTER = "show"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("Ctrl+X", "undo"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+x", "undo", "Undo", priority=True, show=False)]

    def __init__(self, changes: Sequence[SessionFileDiff], turns: Sequence[TurnChanges], source: ChangesSource) -> None:
        self._changes = changes
        self._turns = turns
        self._source = source
        self._parts = parts_of(turns)
        self._longest_preview = 0  # the number of rows of the longest preview, at `_measured_width`
        self._measured_width = 0
        self._is_undoing = False
        super().__init__("Changes", change_rows(changes, turns), empty=NO_CHANGES)

    def compose_more(self) -> ComposeResult:
        yield Static(id="changes-message", markup=False)
        yield Static(id="changes-preview", markup=False)

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self.query_one("#changes-message").display = False

    def on_resize(self) -> None:
        # Textual also calls the `on_resize` of the base class.
        self.show_row(self.row)

    @property
    def _preview_rows(self) -> int:
        """The height of the preview, the same for each row: the list must not move while the user moves in it.

        This is the height of the longest preview, but a list that would scroll gets some of these rows.
        """
        width, height = self.size
        if height < _MIN_HEIGHT:
            return 0
        if self._measured_width != width:
            self._longest_preview = self._measure_previews()
            self._measured_width = width
        rows = self.finder.all_rows
        headings = {row.group for row in rows}
        list_rows = min(len(rows) + len(headings), int(height * SCREEN_SHARE))
        is_short = height < _FULL_HEIGHT or list_rows + _ROWS_AROUND + _PREVIEW_ROWS > height
        return min(self._longest_preview, _SHORT_PREVIEW_ROWS if is_short else _PREVIEW_ROWS)

    def _measure_previews(self) -> int:
        """Return the number of rows of the longest preview, at most `_PREVIEW_ROWS`."""
        longest = 0
        for part in (None, *self._parts.values()):
            if longest < _PREVIEW_ROWS:
                longest = max(longest, len(self._preview_lines(part)))
        return min(longest, _PREVIEW_ROWS)

    def _preview_lines(self, part: ChangePart | None, *, from_change: bool = False) -> list[Line]:
        """Return the rows of the diff of a part, or of all changes; `from_change` as in `diff_rows`."""
        width = max(10, self.size.width - _SIDE_CELLS)
        if part is None:
            return changes_lines(self._changes, width, from_change=from_change)
        return diff_rows(part.diff, width, part.note, from_change=from_change)

    def rows_below(self) -> int:
        preview_rows = self._preview_rows
        rows = 1 + preview_rows if preview_rows else 0  # with a margin
        if self.query_one("#changes-message").display:
            rows += 2
        return rows

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys that work on the highlighted row: without undo if the row is neither a file nor a hunk."""
        keys = super().keys()
        is_part = self.row is not None and self.row.id in self._parts
        return keys if is_part else [key for key in keys if key not in self.KEYS]

    def show_row(self, row: PickerRow | None) -> None:
        self.show_title_and_keys()
        preview = self.query_one("#changes-preview", Static)
        part = self._parts.get(row.id) if row is not None else None
        max_rows = self._preview_rows
        preview.display = row is not None and max_rows > 0
        if not preview.display:
            return
        lines = self._preview_lines(part)
        if len(lines) > max_rows:
            more = f"… {len(lines) - max_rows + 1} more rows · Enter shows all"
            lines = self._preview_lines(part, from_change=True)[: max_rows - 1]
            lines += wrap([(more, style_of("dim"))], self.size.width - _SIDE_CELLS)[:1]
        blank_rows = [Line()] * (max_rows - len(lines))
        preview.update(Rows([*lines, *blank_rows], preview))

    def select(self, row: PickerRow) -> None:
        part = self._parts.get(row.id)
        if part is None:
            heading = f"Changed in this session: {count_text(len(self._changes), 'file')}"
            self.app.push_screen(PagerScreen(heading, partial(changes_lines, self._changes)))
        else:
            self.app.push_screen(
                PagerScreen(visible(part.file.label), lambda width: diff_rows(part.diff, width, part.note))
            )

    def action_undo(self) -> None:
        """Undo the highlighted file or hunk."""
        part = self._parts.get(self.row.id) if self.row is not None else None
        if part is None:
            self._show_message("Select a file or a hunk; /undo undoes a whole turn.", is_refused=True)
        elif not self._is_undoing:  # a second press must not cancel the first: the row still shows what it undoes
            self._is_undoing = True
            self._undo(part)

    @work(group="undo")
    async def _undo(self, part: ChangePart) -> None:
        try:
            report = await self._source.undo(part)
            changes, turns = await self._source.read()
        except ValueError as refusal:
            self._show_message(str(refusal), is_refused=True)
            return
        finally:
            self._is_undoing = False
        if self.is_attached:
            self._changes = changes
            self._turns = turns
            self._parts = parts_of(turns)
            self._measured_width = 0
            self.set_rows(change_rows(changes, turns), self._row_after(part))
            self._show_message(report)

    def _row_after(self, part: ChangePart) -> str:
        """Return the row to highlight after `part` was undone; empty for the default.

        After a hunk, this is the next hunk of the same file, otherwise the file itself. So a second Ctrl+X never undoes
        a part of another file.
        """
        if part.hunk is None:
            return ""
        file_row_id = ""
        for row_id, other in self._parts.items():
            is_same_turn = other.prompt_number == part.prompt_number
            if not is_same_turn or other.file.real_path != part.file.real_path:
                continue
            if other.hunk is None:
                file_row_id = row_id
            elif other.hunk > part.hunk:
                return row_id
        return file_row_id

    def _show_message(self, text: str, *, is_refused: bool = False) -> None:
        style = "$text-warning" if is_refused else "$text-success"
        message = self.query_one("#changes-message", Static)
        message.display = True
        message.update(Content.styled(one_line(text, 400), style))
        self.show_title_and_keys()


def parts_of(turns: Sequence[TurnChanges]) -> dict[str, ChangePart]:
    """Return the parts that can be undone, by the ids of their rows. A file with a single hunk is one part."""
    parts: dict[str, ChangePart] = {}
    for turn in turns:
        for index, file in enumerate(turn.files):
            parts[f"{turn.number}/{index}"] = ChangePart(turn.number, file)
            if len(file.hunks) > 1:
                for hunk in file.hunks:
                    parts[f"{turn.number}/{index}/{hunk.index}"] = ChangePart(turn.number, file, hunk.index)
    return parts


def change_rows(changes: Sequence[SessionFileDiff], turns: Sequence[TurnChanges]) -> list[PickerRow]:
    """Return the row of all changes, then the rows of each turn's files and hunks, the latest turn first.

    The list is empty if every change has been undone.
    """
    if not changes and not any(turn.files for turn in turns):
        return []
    rows = [
        PickerRow(ALL_CHANGES, "All changes", count_text(len(changes), "file"), group="This session", is_summary=True)
    ]
    for turn in reversed(turns):
        group = f"Turn {turn.position}: {plain_line(turn.text, 100) or '(empty)'}"
        for index, file in enumerate(turn.files):
            row_id = f"{turn.number}/{index}"
            prompt = turn.text[:500]
            rows.append(
                PickerRow(row_id, visible(file.label), size_text(file), group=group, search_text=prompt, cut="start")
            )
            if len(file.hunks) > 1:
                rows += [hunk_row(f"{row_id}/{hunk.index}", hunk, group) for hunk in file.hunks]
    return rows


def hunk_row(row_id: str, hunk: ChangeHunk, group: str) -> PickerRow:
    """Return the row of a hunk: its position, its first changed line, and its size."""
    _header, *lines = hunk.diff.split("\n")
    changed_texts = [line[1:].strip() for line in lines if line.startswith(("+", "-"))]
    texts = [text for text in changed_texts if text]
    label = f"  line {hunk.line}: {one_line(texts[0] if texts else '', 60)}"
    return PickerRow(row_id, label, f"+{hunk.added} -{hunk.removed}", group=group)


def changes_lines(changes: Sequence[SessionFileDiff], width: int, *, from_change: bool = False) -> list[Line]:
    """Return the rows of the diffs, each as in `diff_rows`. A very long text is truncated, with a note at its end."""
    lines: list[Line] = []
    remaining_chars = MAX_CHARS
    for change in changes:
        if lines:
            lines.append(Line())
        note = f"  {one_line(change.note)}" if change.note else ""
        lines += wrap([(visible(change.path), style_of("strong")), (note, style_of("dim"))], width)
        if change.diff:
            lines += _diff_lines(change.diff[:remaining_chars], width, from_change=from_change)
            remaining_chars -= len(change.diff)
        if remaining_chars <= 0:
            break
    lines += _cut_note(sum(len(change.diff) for change in changes) - MAX_CHARS, width)
    return lines or wrap([("Nothing was changed.", style_of())], width)


def diff_rows(diff: str, width: int, note: str = "", *, from_change: bool = False) -> list[Line]:
    """Return the rows of one diff, truncated after `MAX_CHARS` characters, or of the note if there is no diff.

    With `from_change`, the first row is the first changed line: an extract of three rows must show more than context.
    """
    if not diff:
        return wrap([(one_line(note) or "Nothing to compare.", style_of("dim"))], width)
    lines = _diff_lines(diff[:MAX_CHARS], width, from_change=from_change)
    return [*lines, *_cut_note(len(diff) - MAX_CHARS, width)]


def _diff_lines(diff: str, width: int, *, from_change: bool) -> list[Line]:
    rows = parse_diff(visible_rows(diff))
    if from_change:
        changed_indexes = [index for index, row in enumerate(rows) if row.kind in ("add", "remove")]
        rows = rows[changed_indexes[0] :] if changed_indexes else rows
    return render_diff(rows, width)


def _cut_note(omitted_chars: int, width: int) -> list[Line]:
    """Return the note for diffs that have more than `MAX_CHARS` characters, otherwise no row."""
    if omitted_chars <= 0:
        return []
    return wrap([(more_chars(omitted_chars, "; use git diff"), style_of("notice-warning"))], width)
