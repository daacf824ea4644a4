"""Finds text in a column of entries, also in folded entries and across wrapped rows. Does not import Textual."""

from __future__ import annotations

import re
from collections.abc import Sequence

from qcode.tui.transcript.entries import Entry, Foldable
from qcode.tui.transcript.line import GAP_CLASS, Line
from qcode.tui.transcript.pane import Column
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class Hit:
    """A match, in rows of the unfolded `entry`."""

    entry: Entry
    row: int
    start: int
    end_row: int
    end: int


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern for `text`, ignoring case and the amount of white space; None if `text` is blank."""
    words = text.split()
    return re.compile(f"{GAP_CLASS}+".join(map(re.escape, words)), re.IGNORECASE) if words else None


def find_all(column: Column, text: str) -> list[Hit]:
    """Return all matches from top to bottom. All entries of `column` must be laid out."""
    pattern = pattern_of(text)
    if pattern is None:
        return []
    hits: list[Hit] = []
    for entry in column.entries:
        rows = entry.shown_rows()
        if isinstance(entry, Foldable) and not entry.is_unfolded and pattern.search(entry.source()):
            rows = entry.full_rows(column.width)
        hits += [Hit(entry, *place) for place in places_in(rows, pattern)]
    return hits


def places_in(rows: Sequence[Line], pattern: re.Pattern[str]) -> list[tuple[int, int, int, int]]:
    """Return each match as start row, start character, end row, end character. A match may cross a wrap."""
    places: list[tuple[int, int, int, int]] = []
    begin = 0
    while begin < len(rows):
        end = begin + 1
        while end < len(rows) and rows[end].joint is not None:
            end += 1
        places += _in_line(rows, begin, end, pattern)
        begin = end
    return places


def _in_line(rows: Sequence[Line], begin: int, end: int, pattern: re.Pattern[str]) -> list[tuple[int, int, int, int]]:
    """Return the matches in one source line, which fills the rows from `begin` to `end`."""
    if end == begin + 1:
        text, lead = rows[begin].text, rows[begin].lead
        return [(begin, found.start(), begin, found.end()) for found in pattern.finditer(text, lead)]
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for index in range(begin, end):
        joint = rows[index].joint or "" if index > begin else ""
        starts.append(length + len(joint))
        parts += [joint, rows[index].text[rows[index].lead :]]
        length += len(joint) + len(parts[-1])

    def place(at: int) -> tuple[int, int]:
        step = max(index for index, start in enumerate(starts) if start <= at or index == 0)
        row = rows[begin + step]
        return begin + step, min(row.lead + at - starts[step], len(row.text))

    return [(*place(found.start()), *place(found.end())) for found in pattern.finditer("".join(parts))]
