"""Where everything is: entries above one another, laid out only near what is looked at.

Heights elsewhere are estimates; they become exact before they come into view, and the place on screen is kept while
they do. Rows and entries only: no Textual here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from qcode.tui.transcript.entries import Entry
from qcode.tui.transcript.line import Line

_WORD = re.compile(r"[\w./~@:-]*\w[\w/~@-]*")


@dataclass(slots=True)
class Place:
    """A row of an entry. `letters` is how much text of the entry comes before it: what stays when rows change."""

    entry: Entry
    row: int
    letters: int | None = None


class Column:
    """The rows of `entries` at one width."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.width = 1
        self._bottoms: list[int] = []
        self._valid = 0
        self._fresh: list[tuple[int, int]] = []

    def invalidate(self, index: int) -> None:
        """Heights from the entry `index` on may have changed."""
        self._valid = min(self._valid, index)

    @property
    def height(self) -> int:
        self._sum()
        return self._bottoms[-1] if self._bottoms else 0

    def top(self, index: int) -> int:
        """Return the first row of an entry."""
        self._sum()
        return self._bottoms[index - 1] if index else 0

    def find(self, y: int) -> tuple[int, int]:
        """Return the entry at row `y` and the row inside it; the nearest where there is none. There must be entries."""
        self._sum()
        y = max(0, min(y, self.height - 1))
        index = min(bisect_right(self._bottoms, y), len(self.entries) - 1)
        return index, y - self.top(index)

    def line(self, y: int) -> Line | None:
        """Return the line at row `y`, None where nothing is or where it is not laid out yet."""
        if not 0 <= y < self.height:
            return None
        index, row = self.find(y)
        return self.entries[index].line(row, self.width)

    def lines(self, start: int, end: int) -> Iterator[Line]:
        """Yield the lines of rows `start` to `end`, laid out as needed."""
        index = self.find(start)[0] if self.entries else 0
        while index < len(self.entries) and self.top(index) < end:
            top = self.top(index)
            self.lay_out(index)
            yield from self.entries[index].shown_rows()[max(0, start - top) : max(0, end - top)]
            index += 1

    def lay_out(self, index: int) -> None:
        """Make the rows of an entry exact."""
        entry = self.entries[index]
        if not entry.is_laid_out(self.width):
            self._fresh.append((index, entry.update(self.width)))
            self.invalidate(index)

    def take_fresh(self) -> int | None:
        """Return the first row that was laid out anew since the last call, None where none was."""
        fresh, self._fresh = self._fresh, []
        return min((self.top(index) + row for index, row in fresh if index < len(self.entries)), default=None)

    def lay_out_all(self) -> None:
        """Make all entries exact."""
        for index in range(len(self.entries)):
            self.lay_out(index)

    def lay_out_down(self, index: int, rows: int) -> None:
        """Make entries exact from `index` down until they fill `rows`."""
        while index < len(self.entries) and rows > 0:
            self.lay_out(index)
            rows -= self.entries[index].height(self.width)
            index += 1

    def lay_out_up(self, index: int, rows: int) -> None:
        """Make entries exact from before `index` up until they fill `rows`."""
        while index > 0 and rows > 0:
            index -= 1
            self.lay_out(index)
            rows -= self.entries[index].height(self.width)

    def index(self, entry: Entry) -> int | None:
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index] is entry:
                return index
        return None

    def _sum(self) -> None:
        count = len(self.entries)
        if self._valid >= count == len(self._bottoms):
            return
        start = min(self._valid, count)
        del self._bottoms[start:]
        above = self._bottoms[-1] if self._bottoms else 0
        heights = [entry.height(self.width) for entry in self.entries[start:]]
        self._bottoms += [above + bottom for bottom in accumulate(heights)]
        self._valid = count


def letters(rows: Sequence[Line]) -> int:
    """Return how many letters and digits are in `rows`: about the same at every width."""
    return sum(character.isalnum() for line in rows for character in line.text)


def row_of(rows: Sequence[Line], count: int) -> int:
    """Return the row in which the letter after the first `count` stands."""
    seen = 0
    for index, line in enumerate(rows):
        seen += sum(character.isalnum() for character in line.text)
        if seen > count:
            return index
    return max(0, len(rows) - 1)


def word_at(line: Line, index: int) -> tuple[int, int]:
    """Return the range of the word at a character of `line`; of that character alone where no word is."""
    text = line.text
    for match in _WORD.finditer(text):
        if match.start() <= index < match.end():
            return match.span()
    return index, min(index + 1, len(text))
