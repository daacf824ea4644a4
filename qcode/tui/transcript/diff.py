"""Renders a unified diff as rows with line numbers, and marks the words that changed inside a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from qcode.text.diff import diff_lines
from qcode.tui.transcript.line import Line, Span, crop, ink, prefix, tidy, wrap
from qcode.values import dataclass

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_LINE = 600
_MIN_SIMILARITY = 0.4

Kind = Literal["add", "remove", "same", "hunk", "file"]
_SIGN = {"add": "+", "remove": "-", "same": " "}


@dataclass(slots=True)
class DiffRow:
    """One line of a diff. `number` is its line in the new file, or in the old file for a removed line.

    `changed` are the character ranges that differ from the line on the other side of the change.
    """

    kind: Kind
    text: str
    number: int = 0
    changed: tuple[tuple[int, int], ...] = ()


def parse_diff(diff: str) -> list[DiffRow]:
    """Return the rows of a unified diff; any other text is returned as unchanged lines without numbers."""
    rows: list[DiffRow] = []
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind == "outside":
            rows.extend(_outside(line.text))
        elif line.kind == "hunk":
            rows.append(DiffRow("hunk", tidy(line.text.split("@@", 2)[2].strip())))
        elif line.kind != "note":
            rows.append(DiffRow(line.kind, tidy(line.text[1:]), line.number))
    _mark_words(rows)
    return rows


def _outside(line: str) -> Iterator[DiffRow]:
    """Yield the row of a line between hunks: the new file name, or any text that is not a header."""
    if line.startswith("+++ ") and line != "+++ /dev/null":
        yield DiffRow("file", tidy(line[4:].split("\t")[0]).removeprefix("b/"))
    elif not line.startswith(("--- ", "+++ ", "\\", "diff --git", "index ")) and line:
        yield DiffRow("same", tidy(line))


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


def _solid(words: Sequence[str]) -> list[str]:
    """Return the words without white space, which all lines share and which says nothing about similarity."""
    return [word for word in words if not word.isspace()]


def _compare(before: DiffRow, after: DiffRow) -> None:
    if max(len(before.text), len(after.text)) > _MAX_LINE:
        return
    old, new = _WORD.findall(before.text), _WORD.findall(after.text)
    if SequenceMatcher(None, _solid(old), _solid(new), autojunk=False).ratio() < _MIN_SIMILARITY:
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    before.changed = tuple(_range(old, start, end) for _, start, end, _, _ in changes if end > start)
    after.changed = tuple(_range(new, start, end) for _, _, _, start, end in changes if end > start)


def _range(words: Sequence[str], start: int, end: int) -> tuple[int, int]:
    begin = sum(map(len, words[:start]))
    return begin, begin + sum(map(len, words[start:end]))


def render_diff(rows: Sequence[DiffRow], width: int) -> list[Line]:
    """Return screen rows. File names are shown only if the diff covers several files."""
    digits = len(str(max((row.number for row in rows), default=0)))
    has_names = sum(row.kind == "file" for row in rows) > 1
    lines: list[Line] = []
    for row in rows:
        if row.kind == "file":
            if has_names:
                lines += [Line((piece,)) for piece in [(crop(row.text, width), ink("diff-hunk"))]]
        elif row.kind == "hunk":
            if lines and not (has_names and lines[-1].spans[0][1] == ink("diff-hunk")):
                text = crop(f"{'⋮':>{digits}} {row.text}".rstrip(), width)
                lines.append(Line(((text, ink("diff-hunk")),), is_mark=True))
        else:
            lines += _render_row(row, digits, width)
    return lines


def _render_row(row: DiffRow, digits: int, width: int) -> list[Line]:
    paint = ink() if row.kind == "same" else ink(f"diff-{row.kind}")
    number = ink(*paint.slots, "diff-number")
    label = f"{row.number or '':>{digits}} {_SIGN[row.kind]} "
    room = width - len(label)
    if room < 8:
        label, room = f"{_SIGN[row.kind]} ", max(1, width - 2)
    lines = prefix(wrap(_spans(row), room, is_code=True), (label, number), (" " * len(label), number))
    for line in lines:
        line.fill = paint
    return lines


def _spans(row: DiffRow) -> list[Span]:
    if row.kind == "same":
        return [(row.text, ink())]
    plain, strong = ink(f"diff-{row.kind}"), ink(f"diff-{row.kind}", f"diff-{row.kind}-word")
    spans: list[Span] = []
    position = 0
    for start, end in row.changed:
        spans += [(row.text[position:start], plain), (row.text[start:end], strong)]
        position = end
    spans.append((row.text[position:], plain))
    return [span for span in spans if span[0]]
