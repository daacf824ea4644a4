"""Renders a unified diff as rows with line numbers, highlights their code, and marks the words that changed.

Cards, approvals and `/diff` show every diff through `render_diff`: on a wide screen with the old text beside the new
one. Code is highlighted when rows are first rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from qcode.text.clean import show_hidden
from qcode.text.diff import diff_lines, file_diffs
from qcode.text.numbers import count_text
from qcode.tui.transcript.code import Highlighter, add_slot_to_range, language_of, without_band
from qcode.tui.transcript.line import Line, Span, add_slot, crop, prefix, style_of, tidy, wrap
from qcode.values import dataclass

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_COMPARED_CHARS = 600
"""In a longer line, changed words are not marked: the comparison would take long."""
_MIN_SIMILARITY = 0.4
"""The similarity of two lines (0 to 1) from which their changed words are marked; below it, most words differ."""
_MAX_HIGHLIGHTED_ROWS = 2_000
"""Only this many rows of a diff are highlighted; more would delay the first paint of a large diff."""

MIN_SIDE_BY_SIDE_CELLS = 136
"""The minimum width at which old and new text are side by side: that of a diff in a card on 141 columns."""
_COLUMN_SEPARATOR = " │ "
_MIN_ROWS_FOR_BOTH = 3
"""The minimum height in which removed and added lines of one change can both be shown."""

Kind = Literal["add", "remove", "same", "hunk", "file"]
_SIGN = {"add": "+", "remove": "-", "same": " "}


@dataclass(slots=True)
class DiffRow:
    """One line of a diff, without its sign."""

    kind: Kind
    text: str
    """The line of the file; of a hunk, the text after its `@@`; of a file, its name."""
    number: int = 0
    """The line number in the new file, or in the old file for a removed line; 0 if it is unknown."""
    changed: tuple[tuple[int, int], ...] = ()
    """The ranges of characters that differ between a removed line and the added line that replaces it."""
    has_line_end: bool = True
    """The line ends with a line break."""
    old_number: int = 0
    """The line number of an unchanged row in the old file."""
    code: list[Span] | None = None
    """The highlighted spans of `text`; None until the row is rendered."""


def parse_diff(diff: str) -> list[DiffRow]:
    """Return the rows of a unified diff; any other text is returned as unchanged lines without numbers."""
    rows: list[DiffRow] = []
    old_name = ""
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind == "outside":
            if line.text.startswith("--- "):
                old_name = _file_name(line.text)
            rows.extend(_row_outside_hunks(line.text, old_name))
        elif line.kind == "hunk":
            rows.append(DiffRow("hunk", _shown(line.text.split("@@", 2)[2].strip())))
        elif line.kind != "note":
            rows.append(DiffRow(line.kind, _shown(line.text[1:]), line.number, old_number=line.old_number))
        elif rows:
            rows[-1].has_line_end = False  # the note "\ No newline at end of file"
    _mark_words(rows)
    return rows


def _shown(line: str) -> str:
    """Return a line for the screen, with bidi marks and other invisible characters as escapes."""
    return tidy(show_hidden(line.removesuffix("\r")))


def _row_outside_hunks(line: str, old_name: str) -> Iterator[DiffRow]:
    """Yield the row of a line between hunks: a file name, or any text that is not a header.

    `old_name` is the name on the `---` line before it. Example: `--- a/x` and `+++ /dev/null` are one row,
    `x (deleted)`.
    """
    if line.startswith("+++ "):
        new_name = _file_name(line)
        if old_name in (new_name, ""):
            yield DiffRow("file", new_name)
        else:
            yield DiffRow("file", f"{old_name} → {new_name}" if new_name else f"{old_name} (deleted)")
    elif not line.startswith(("--- ", "\\", "diff --git", "index ")) and line:
        yield DiffRow("same", _shown(line))


def _file_name(line: str) -> str:
    """Return the file name on a `---` or `+++` line; empty for `/dev/null`."""
    name = _shown(line[4:].split("\t")[0])
    return "" if name == "/dev/null" else name.removeprefix("a/" if line.startswith("-") else "b/")


def _mark_words(rows: Sequence[DiffRow]) -> None:
    """Mark the words that differ between each removed line and the added line at the same position of the change."""
    index = 0
    while index < len(rows):
        removed = _rows_of_kind(rows, index, "remove")
        added = _rows_of_kind(rows, index + len(removed), "add")
        for before, after in zip(removed, added, strict=False):
            _compare(before, after)
        index += max(1, len(removed) + len(added))


def _rows_of_kind(rows: Sequence[DiffRow], start: int, kind: Kind) -> Sequence[DiffRow]:
    """Return the rows from `start` up to the first one of another kind."""
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return rows[start:end]


def _without_blanks(words: Sequence[str]) -> list[str]:
    """Return the words without the white space between them, which would make any two lines look similar."""
    return [word for word in words if not word.isspace()]


def _compare(before: DiffRow, after: DiffRow) -> None:
    """Set `changed` of a removed line and the added line that replaces it, unless the two are too different."""
    if max(len(before.text), len(after.text)) > _MAX_COMPARED_CHARS:
        return
    old = _WORD.findall(before.text)
    new = _WORD.findall(after.text)
    if SequenceMatcher(None, _without_blanks(old), _without_blanks(new), autojunk=False).ratio() < _MIN_SIMILARITY:
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            before.changed += _range_of_words(old, old_start, old_end)
            after.changed += _range_of_words(new, new_start, new_end)


def _range_of_words(words: Sequence[str], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the range of characters of the words from `start` up to `end`, without the blanks around them.

    Return nothing if there is no other word.
    """
    while start < end and words[start].isspace():
        start += 1
    while start < end and words[end - 1].isspace():
        end -= 1
    if start == end:
        return ()
    first_character = sum(map(len, words[:start]))
    return ((first_character, first_character + sum(map(len, words[start:end]))),)


def near_changes(rows: Sequence[DiffRow], context: int) -> list[DiffRow]:
    """Return the rows without the unchanged lines that are more than `context` lines away from a change."""
    near: set[int] = set()
    for index, row in enumerate(rows):
        if row.kind in ("add", "remove"):
            near.update(range(index - context, index + context + 1))
    result: list[DiffRow] = []
    for index, row in enumerate(rows):
        if row.kind == "hunk" and result and result[-1].kind == "hunk":
            result[-1] = row
        elif row.kind != "same" or index in near:
            result.append(row)
        elif result and result[-1].kind not in ("hunk", "file"):
            result.append(DiffRow("hunk", ""))
    if result and result[-1].kind == "hunk":
        result.pop()  # no line follows it
    return result


def changed_rows(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """Return the rows without unchanged lines, from the first changed one."""
    changed = near_changes(rows, context=0)
    for index, row in enumerate(changed):
        if row.kind in ("add", "remove"):
            return changed[index:]
    return changed


def with_added_in_view(rows: Sequence[DiffRow], height: int) -> Sequence[DiffRow]:
    """Return `rows`, but if the first `height` rows would show no added line, leave out removed lines.

    Example: for 100 replaced lines and a height of 9, the result is 4 removed lines, a row that says `96 more removed
    lines`, and 4 added lines.
    """
    if has_added_in_view(rows, height):
        return rows
    first_needed = _first_added(rows)
    head = rows[: (height - 1) // 2]
    if head and head[-1].kind == "hunk":
        head = head[:-1]
    skipped = sum(row.kind == "remove" for row in rows[len(head) : first_needed])
    mark = DiffRow("hunk", count_text(skipped, "more removed line"))
    return [*head, mark, *rows[first_needed : first_needed + height - len(head) - 1]]


def has_added_in_view(rows: Sequence[DiffRow], height: int) -> bool:
    """Return whether the first `height` rows show an added line; True also if they are too few to show both kinds."""
    is_too_low = height < _MIN_ROWS_FOR_BOTH and bool(rows) and rows[0].kind == "remove"
    return _first_added(rows) < height or is_too_low


def _first_added(rows: Sequence[DiffRow]) -> int:
    """Return the index of the first added line; without one, of the first removed line; 0 without a change."""
    kinds = [row.kind for row in rows]
    if "add" in kinds:
        return kinds.index("add")
    return kinds.index("remove") if "remove" in kinds else 0


@dataclass(slots=True)
class DiffCount:
    """The number of added and removed lines in several diffs, the paths of their files, and those without a diff."""

    files: set[str] = field(default_factory=set)
    """The paths; a moved file has only its new one."""
    added: int = 0
    removed: int = 0
    has_diff: bool = False
    """Whether lines were counted. Those of a file that a command changed are unknown."""

    def add(self, diff: str) -> None:
        for file in file_diffs([diff]):
            self.has_diff = True
            self.files.add(file.path)
            self.added += file.added
            self.removed += file.removed


def line_number_digits(rows: Sequence[DiffRow]) -> int:
    """Return the number of digits of the largest line number."""
    largest = max((max(row.number, row.old_number) for row in rows), default=0)
    return len(str(largest))


def render_diff(rows: Sequence[DiffRow], width: int, digits: int = 0) -> list[Line]:
    """Return `rows` as screen rows. File names are shown only if the diff covers several files.

    Line numbers have a column of `digits`, or of the width of the largest one. For an extract, pass the digits of the
    whole diff, so that its rows are equal to those of the whole.
    """
    digits = digits or line_number_digits(rows)
    shows_names = sum(row.kind == "file" for row in rows) > 1
    is_wide = width >= MIN_SIDE_BY_SIDE_CELLS and {"add", "remove"} <= {row.kind for row in rows}
    _highlight(rows)
    lines: list[Line] = []
    index = 0
    while index < len(rows):
        row = rows[index]
        consumed = 1  # the number of diff rows that these screen rows show
        if row.kind == "file":
            if shows_names:
                lines.append(Line(((crop(row.text, width), style_of("diff-hunk")),)))
        elif row.kind == "hunk":
            is_below_name = shows_names and bool(lines) and lines[-1].spans[0][1] == style_of("diff-hunk")
            if lines and not is_below_name:
                text = crop(f"{'⋮':>{digits}} {row.text}".rstrip(), width)
                lines.append(Line(((text, style_of("diff-hunk")),), is_decoration=True))
        elif is_wide and row.number:
            removed = _rows_of_kind(rows, index, "remove")
            added = _rows_of_kind(rows, index + len(removed), "add")
            if removed or added:
                consumed = len(removed) + len(added)
                for before, after in zip_longest(removed, added):
                    lines += _side_by_side(before, after, digits, width)
            else:
                lines += _side_by_side(row, row, digits, width)
        else:
            lines += _render_row(row, row.number, digits, width)
        index += consumed
    return lines


def _side_by_side(before: DiffRow | None, after: DiffRow | None, digits: int, width: int) -> list[Line]:
    """Return the screen rows of an old line and the new line beside it; None if there is no such line.

    Only the new text is copied; the search finds both.
    """
    left_width = (width - len(_COLUMN_SEPARATOR)) // 2
    right_width = width - len(_COLUMN_SEPARATOR) - left_width
    old = [] if before is None else _render_row(before, before.old_number or before.number, digits, left_width)
    new = [] if after is None else _render_row(after, after.number, digits, right_width)
    lines: list[Line] = []
    for left, right in zip_longest(old, new):
        left = left or Line()
        blank: Span = (" " * max(0, left_width - left.width), left.fill)
        spans = (*left.spans, blank, (_COLUMN_SEPARATOR, style_of("rule")))
        right_start = sum(len(text) for text, _ in spans)
        # An unchanged line is on both sides, and must be found only once.
        search_start = None if not left.spans or before is after else left.lead
        if right is None:
            lines.append(Line(spans, right_start, is_decoration=True, search_start=search_start))
        else:
            lead = right_start + right.lead
            lines.append(Line((*spans, *right.spans), lead, right.joint, right.fill, search_start=search_start))
    return lines


def _render_row(row: DiffRow, line_number: int, digits: int, width: int) -> list[Line]:
    """Return the screen rows of one line, with `line_number` right-aligned to `digits` and its sign before it."""
    style = style_of() if row.kind == "same" else style_of(f"diff-{row.kind}")
    label_style = style_of(*style.slots, "diff-number")
    label = f"{line_number or '':>{digits}} {_SIGN[row.kind]} "
    text_width = width - len(label)
    if text_width < 8:
        label, text_width = f"{_SIGN[row.kind]} ", max(1, width - 2)
    wrapped = wrap(_spans(row), text_width, is_code=True)
    lines = prefix(wrapped, (label, label_style), (" " * len(label), label_style))
    for line in lines:
        line.fill = style
    return lines


def _spans(row: DiffRow) -> list[Span]:
    """Return the code in its own colors, on the background of the change, with the changed words marked.

    The slot of the change is on top: if a theme gives it a text color, that color replaces those of the code.
    """
    slot = f"diff-{row.kind}"
    code = row.code or [(row.text, style_of())]
    if row.kind != "same":
        code = [(text, add_slot(style, slot)) for text, style in code]
        for start, end in row.changed:
            code = add_slot_to_range(code, start, end, f"{slot}-word")
    if not row.has_line_end:
        note_style = style_of("diff-number") if row.kind == "same" else style_of(slot, "diff-number")
        code = [*code, ("  no line break", note_style)]
    return [(text, style) for text, style in code if text]


def _highlight(rows: Sequence[DiffRow]) -> None:
    """Set `code` of the rows that were never rendered."""
    file_name = ""
    hunk: list[DiffRow] = []
    # The row after the last one stands for the end, so that the loop highlights the last hunk, too.
    for row in (*rows[:_MAX_HIGHLIGHTED_ROWS], DiffRow("file", "")):
        if row.kind in ("file", "hunk"):
            _highlight_hunk(hunk, file_name)
            hunk = []
            if row.kind == "file":
                file_name = row.text.rpartition(" → ")[2].removesuffix(" (deleted)")
        else:
            hunk.append(row)


def _highlight_hunk(hunk: Sequence[DiffRow], file_name: str) -> None:
    """Highlight the old code of a hunk, then its new code: each is code of the language, both together are not."""
    if not file_name or all(row.code is not None for row in hunk):
        return
    highlighter = Highlighter(language_of(file_name))
    for kind in ("remove", "add"):
        side = [row for row in hunk if row.kind in ("same", kind)]
        for row, spans in zip(side, highlighter.highlight_block([row.text for row in side]), strict=True):
            row.code = without_band(spans)
