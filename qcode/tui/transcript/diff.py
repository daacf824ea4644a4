"""Renders a unified diff as rows with line numbers, highlights their code, and marks the words that changed.

Cards, approvals and `/diff` show every diff through `render_diff`: on a wide screen with the old text beside the new
one. Code is highlighted when rows are first rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from qcode.text.clean import show_hidden
from qcode.text.diff import diff_lines
from qcode.text.numbers import count_text
from qcode.tui.transcript.code import Highlighter, language_of, with_slot
from qcode.tui.transcript.line import Line, Span, add_slot, crop, ink, prefix, tidy, wrap
from qcode.values import dataclass

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_LINE = 600
_MIN_SIMILARITY = 0.4
_MAX_HIGHLIGHTED = 2_000
"""Rows of one diff that are highlighted; more would delay the first paint of a large diff."""

MIN_SIDE_BY_SIDE = 136
"""Cells of a row from which old and new text are side by side: those of a card on a screen of 141 columns."""
_BETWEEN = " │ "
_MIN_BOTH_SIDES = 3

Kind = Literal["add", "remove", "same", "hunk", "file"]
_SIGN = {"add": "+", "remove": "-", "same": " "}


@dataclass(slots=True)
class DiffRow:
    """One line of a diff. `number` is its line in the new file, or in the old file for a removed line.

    `old` is the line of an unchanged row in the old file.

    `changed` are the character ranges that differ from the line on the other side of the change. `has_line_end`: the
    line ends with a line break. `code` are the highlighted spans of `text`, None until it is rendered.
    """

    kind: Kind
    text: str
    number: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    has_line_end: bool = True
    old: int = 0
    code: list[Span] | None = None


def parse_diff(diff: str) -> list[DiffRow]:
    """Return the rows of a unified diff; any other text is returned as unchanged lines without numbers."""
    rows: list[DiffRow] = []
    old = ""
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind == "outside":
            if line.text.startswith("--- "):
                old = _name(line.text)
            rows.extend(_row_outside_hunks(line.text, old))
        elif line.kind == "hunk":
            rows.append(DiffRow("hunk", _shown(line.text.split("@@", 2)[2].strip())))
        elif line.kind != "note":
            rows.append(DiffRow(line.kind, _shown(line.text[1:]), line.number, old=line.old))
        elif rows:
            rows[-1].has_line_end = False
    _mark_words(rows)
    return rows


def _shown(line: str) -> str:
    """Return a line for the screen, with bidi marks and other invisible characters as escapes."""
    return tidy(show_hidden(line.removesuffix("\r")))


def _row_outside_hunks(line: str, old: str) -> Iterator[DiffRow]:
    """Yield the row of a line between hunks: a file name, or any text that is not a header.

    `old` is the name on the `---` line before it. Example: `--- a/x` and `+++ /dev/null` are one row, `x (deleted)`.
    """
    if line.startswith("+++ "):
        new = _name(line)
        yield DiffRow("file", new if old in (new, "") else f"{old} (deleted)" if not new else f"{old} → {new}")
    elif not line.startswith(("--- ", "\\", "diff --git", "index ")) and line:
        yield DiffRow("same", _shown(line))


def _name(line: str) -> str:
    """Return the file name on a `---` or `+++` line; empty for `/dev/null`."""
    name = _shown(line[4:].split("\t")[0])
    return "" if name == "/dev/null" else name.removeprefix("a/" if line.startswith("-") else "b/")


def _mark_words(rows: Sequence[DiffRow]) -> None:
    """Compare each removed line with the added line at the same position of the change."""
    index = 0
    while index < len(rows):
        removed = _run(rows, index, "remove")
        added = _run(rows, index + len(removed), "add")
        for before, after in zip(removed, added, strict=False):
            _compare(before, after)
        index += max(1, len(removed) + len(added))


def _run(rows: Sequence[DiffRow], start: int, kind: Kind) -> Sequence[DiffRow]:
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return rows[start:end]


def _without_blanks(words: Sequence[str]) -> list[str]:
    """Return the words without white space, which all lines share and which says nothing about similarity."""
    return [word for word in words if not word.isspace()]


def _compare(before: DiffRow, after: DiffRow) -> None:
    if max(len(before.text), len(after.text)) > _MAX_LINE:
        return
    old, new = _WORD.findall(before.text), _WORD.findall(after.text)
    if SequenceMatcher(None, _without_blanks(old), _without_blanks(new), autojunk=False).ratio() < _MIN_SIMILARITY:
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    before.changed = tuple(_ranges(old, [(start, end) for _, start, end, _, _ in changes]))
    after.changed = tuple(_ranges(new, [(start, end) for _, _, _, start, end in changes]))


def _ranges(words: Sequence[str], changes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the characters of the changed words, without the blanks around them."""
    for start, end in changes:
        while start < end and words[start].isspace():
            start += 1
        while start < end and words[end - 1].isspace():
            end -= 1
        if start < end:
            begin = sum(map(len, words[:start]))
            yield begin, begin + sum(map(len, words[start:end]))


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
    return result[:-1] if result and result[-1].kind == "hunk" else result


def changed_rows(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """Return the rows without unchanged lines, from the first changed one."""
    changed = near_changes(rows, 0)
    return changed[next((index for index, row in enumerate(changed) if row.kind in ("add", "remove")), 0) :]


def both_sides(rows: Sequence[DiffRow], height: int) -> Sequence[DiffRow]:
    """Return `rows`; if the first `height` add no line, half of these rows and then the first added lines.

    With 9 rows, 100 replaced lines show 4 removed ones, `96 more removed lines`, and 4 added ones. Less than 3 rows
    have no space for both.
    """
    kinds = [row.kind for row in rows]
    first = next((kinds.index(kind) for kind in ("add", "remove") if kind in kinds), 0)
    if first < height or (height < _MIN_BOTH_SIDES and rows and rows[0].kind == "remove"):
        return rows
    head = rows[: (height - 1) // 2]
    head = head[:-1] if head and head[-1].kind == "hunk" else head
    skipped = sum(row.kind == "remove" for row in rows[len(head) : first])
    mark = DiffRow("hunk", count_text(skipped, "more removed line"))
    return [*head, mark, *rows[first : first + height - len(head) - 1]]


@dataclass(slots=True)
class DiffCount:
    """The files of several diffs, each once, and their added and removed lines."""

    files: set[str] = field(default_factory=set)
    added: int = 0
    removed: int = 0

    def add(self, diff: str) -> None:
        for line in diff_lines(diff.split("\n")):
            if line.kind == "outside" and line.text.startswith(("+++ ", "--- ")) and "/dev/null" not in line.text:
                self.files.add(line.text[4:].split("\t")[0].partition("/")[2])
            self.added += line.kind == "add"
            self.removed += line.kind == "remove"


def render_diff(rows: Sequence[DiffRow], width: int) -> list[Line]:
    """Return screen rows. File names are shown only if the diff covers several files."""
    digits = len(str(max((max(row.number, row.old) for row in rows), default=0)))
    has_names = sum(row.kind == "file" for row in rows) > 1
    is_wide = width >= MIN_SIDE_BY_SIDE and {"add", "remove"} <= {row.kind for row in rows}
    _highlight(rows)
    lines: list[Line] = []
    index = 0
    while index < len(rows):
        row = rows[index]
        used = 1
        if row.kind == "file":
            if has_names:
                lines += [Line((piece,)) for piece in [(crop(row.text, width), ink("diff-hunk"))]]
        elif row.kind == "hunk":
            if lines and not (has_names and lines[-1].spans[0][1] == ink("diff-hunk")):
                text = crop(f"{'⋮':>{digits}} {row.text}".rstrip(), width)
                lines.append(Line(((text, ink("diff-hunk")),), is_decoration=True))
        elif is_wide and row.number:
            removed = _run(rows, index, "remove")
            added = _run(rows, index + len(removed), "add")
            used = len(removed) + len(added) or 1
            pairs = zip_longest(removed, added) if removed or added else [(row, row)]
            lines += [line for before, after in pairs for line in _side_by_side(before, after, digits, width)]
        else:
            lines += _render_row(row, row.number, digits, width)
        index += used
    return lines


def _side_by_side(before: DiffRow | None, after: DiffRow | None, digits: int, width: int) -> list[Line]:
    """Return the rows of a line of the old text with the one of the new text that is beside it.

    Only the new text is copied; the search finds both.
    """
    half = (width - len(_BETWEEN)) // 2
    old = [] if before is None else _render_row(before, before.old or before.number, digits, half)
    new = [] if after is None else _render_row(after, after.number, digits, width - len(_BETWEEN) - half)
    lines: list[Line] = []
    for left, right in zip_longest(old, new):
        spans = () if left is None else left.spans
        cells = half if left is None else half - left.width
        blank: Span = (" " * max(0, cells), ink() if left is None else left.fill)
        spans = (*spans, blank, (_BETWEEN, ink("rule")))
        start = sum(len(text) for text, _ in spans)
        searched = None if left is None or before is after else left.lead
        if right is None:
            lines.append(Line(spans, start, is_decoration=True, search_start=searched))
        else:
            lead = start + right.lead
            lines.append(Line((*spans, *right.spans), lead, right.joint, right.fill, search_start=searched))
    return lines


def _render_row(row: DiffRow, line_number: int, digits: int, width: int) -> list[Line]:
    paint = ink() if row.kind == "same" else ink(f"diff-{row.kind}")
    number = ink(*paint.slots, "diff-number")
    label = f"{line_number or '':>{digits}} {_SIGN[row.kind]} "
    room = width - len(label)
    if room < 8:
        label, room = f"{_SIGN[row.kind]} ", max(1, width - 2)
    lines = prefix(wrap(_spans(row), room, is_code=True), (label, number), (" " * len(label), number))
    for line in lines:
        line.fill = paint
    return lines


def _spans(row: DiffRow) -> list[Span]:
    """Return the code in its own colors, on the background of the change, with the changed words marked.

    The slot of the change comes last, so in a theme that sets its foreground that color wins.
    """
    slot = f"diff-{row.kind}"
    code = row.code or [(row.text, ink())]
    if row.kind != "same":
        code = [(text, add_slot(paint, slot)) for text, paint in code]
        for start, end in row.changed:
            code = with_slot(code, start, end, f"{slot}-word")
    if not row.has_line_end:
        code = [*code, ("  no line break", ink("diff-number") if row.kind == "same" else ink(slot, "diff-number"))]
    return [span for span in code if span[0]]


def _highlight(rows: Sequence[DiffRow]) -> None:
    """Highlight the rows that were never rendered, each hunk as the code before and after the change."""
    name = ""
    hunk: list[DiffRow] = []
    for row in (*rows[:_MAX_HIGHLIGHTED], DiffRow("file", "")):
        if row.kind in ("file", "hunk"):
            _highlight_hunk(hunk, name)
            hunk = []
            name = row.text.rpartition(" → ")[2].removesuffix(" (deleted)") if row.kind == "file" else name
        else:
            hunk.append(row)


def _highlight_hunk(hunk: Sequence[DiffRow], name: str) -> None:
    if not name or all(row.code is not None for row in hunk):
        return
    highlighter = Highlighter(language_of(name))
    for kind in ("remove", "add"):
        side = [row for row in hunk if row.kind in ("same", kind)]
        for row, spans in zip(side, highlighter.highlight_block([row.text for row in side]), strict=True):
            row.code = [(text, ink(*paint.slots[1:])) for text, paint in spans]
