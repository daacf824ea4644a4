"""Breaking text into rows by terminal cells: at words, between wide characters, inside words that are too long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from rich.cells import cell_len

from qcode.tui.transcript.line import Line, Span

_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
)
_CLOSING = "、。，．：；！？）］｝」』】〉》〕々ー"
_PLAIN_WORD = re.compile("[^ ]+ *| +")
_JOINER = "\u200d"

Range = tuple[int, int, int]


def clusters(text: str) -> Iterator[str]:
    """Yield what must stay in one piece: a character with its combining marks, selectors and joined characters."""
    begin = 0
    for index in range(1, len(text)):
        character = text[index]
        if text[index - 1] == _JOINER or character == _JOINER or cell_len(character) == 0:
            continue
        yield text[begin:index]
        begin = index
    if text:
        yield text[begin:]


@cache
def _word() -> re.Pattern[str]:
    """Return what finds words among wide characters; it is too large to be compiled where every text is plain."""
    return re.compile(rf"[{_WIDE}][{_CLOSING}]* *|[^ {_WIDE}]+[{_CLOSING}]* *| +")


def break_text(text: str, width: int) -> list[Range]:
    """Return rows of one line of text as `(start, end, next)`: `text[end:next]` is the space a break swallowed.

    A row is at most `width` cells, unless a single character is wider than that. There is always one row.
    """
    if cell_len(text) <= width:
        return [(0, len(text), len(text))]
    rows: list[Range] = []
    start = end = used = 0
    for match in (_PLAIN_WORD if text.isascii() else _word()).finditer(text):
        begin, word = match.start(), match.group()
        bare = word.rstrip(" ")
        cells = cell_len(bare)
        if used and used + cells > width:
            rows.append((start, end, begin))
            start, used = begin, 0
        if cells > width:
            for cut in _cuts(bare, width):
                rows.append((start, begin + cut, begin + cut))
                start = begin + cut
            used = cell_len(text[start : begin + len(bare)])
        else:
            used += cells
        used += len(word) - len(bare)
        end = begin + len(bare)
    rows.append((start, max(start, end), len(text)))
    return rows


def break_cells(text: str, width: int) -> list[Range]:
    """Return rows of one line of text cut at the width wherever that falls, for code: nothing is swallowed."""
    if cell_len(text) <= width:
        return [(0, len(text), len(text))]
    edges = [0, *_cuts(text, width), len(text)]
    return [(start, end, end) for start, end in pairwise(edges)]


def _cuts(text: str, width: int) -> list[int]:
    """Return the indexes where `text` has to be cut, its ends not among them."""
    if text.isascii():
        return list(range(max(1, width), len(text), max(1, width)))
    cuts: list[int] = []
    position = used = 0
    for cluster in clusters(text):
        cells = cell_len(cluster)
        if used and used + cells > width:
            cuts.append(position)
            used = 0
        used += cells
        position += len(cluster)
    return cuts


def wrap(spans: Sequence[Span], width: int, *, is_code: bool = False) -> list[Line]:
    """Return the rows of `spans`; a newline in their text is a line break that stays."""
    lines: list[Line] = []
    for written in _split_lines(spans):
        text = "".join([piece for piece, _ in written])
        rows = break_cells(text, width) if is_code else break_text(text, width)
        if len(rows) == 1 and rows[0][1] == len(text):
            lines.append(Line(tuple(written)))
            continue
        joint: str | None = None
        for row, pieces in zip(rows, _slice(written, rows), strict=True):
            lines.append(Line(pieces, joint=joint))
            joint = text[row[1] : row[2]]
    return lines


def _split_lines(spans: Sequence[Span]) -> list[list[Span]]:
    lines: list[list[Span]] = [[]]
    for text, paint in spans:
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, paint))
        lines.extend([(piece, paint)] if piece else [] for piece in others)
    return lines


def _slice(spans: Sequence[Span], rows: Sequence[Range]) -> list[tuple[Span, ...]]:
    """Cut `spans` at the edges of `rows`, in one pass."""
    result: list[tuple[Span, ...]] = []
    index = offset = 0
    for start, end, _ in rows:
        pieces: list[Span] = []
        while index < len(spans) and offset + len(spans[index][0]) <= start:
            offset += len(spans[index][0])
            index += 1
        at, cursor = offset, index
        while cursor < len(spans) and at < end:
            text, paint = spans[cursor]
            piece = text[max(0, start - at) : end - at]
            if piece:
                pieces.append((piece, paint))
            at += len(text)
            cursor += 1
        result.append(tuple(pieces))
    return result


def crop(text: str, width: int) -> str:
    """Return `text` in at most `width` cells, with an ellipsis where something was left off."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    kept, used = 0, 1
    for cluster in clusters(text):
        used += cell_len(cluster)
        if used > width:
            break
        kept += len(cluster)
    return text[:kept] + "…"
