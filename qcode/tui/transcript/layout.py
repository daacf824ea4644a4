"""The rows of a transcript: the position of every entry, and a position to read at.

The height of an entry far from the view is an estimate, and is made exact before it comes into view. `pane` paints the
rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from qcode.tui.transcript.entries import Entry
from qcode.tui.transcript.line import Line
from qcode.values import dataclass


@dataclass(slots=True)
class ReadingPosition:
    """A row of an entry, at which the user reads."""

    entry: Entry
    row: int
    """The index of the row in the entry, the blank rows above the entry included."""
    letters_above: int | None = None
    """The number of letters and digits in the rows above, by which the row is found at another width. Example: 50
    letters are above row 2 at a width of 40. At a width of 20, the next letter is in row 4 or 5."""

    def is_in_row(self, row: int) -> bool:
        """Return whether the first letter at this position is in `row` of the last layout."""
        letters, entry = self.letters_above, self.entry
        return letters is not None and entry.letters_above(row) <= letters < entry.letters_above(row + 1)


class EntryRow(NamedTuple):
    """A row of an entry."""

    entry_index: int
    row: int
    """The index of the row in the entry."""


class RowLayout:
    """The positions of `entries` at one width, in rows from the top.

    `_bottoms` has, for each entry, the rows down to its end. Example: heights of 3, 1 and 4 rows give [3, 4, 8]. Row 5
    is in the third entry, the first one whose bottom exceeds 5. This entry starts at row 4, so it is its row 1.
    An entry that cannot be laid out is shown as plain text; `report` gets the first error of each, and may raise it.
    """

    def __init__(self, entries: Sequence[Entry], report: Callable[[Exception], None]) -> None:
        self.entries = entries
        self.width = 1
        self._report = report
        self._bottoms: list[int] = []
        self._current_count = 0  # the number of entries at the start whose `_bottoms` are current
        self._changed_rows: list[EntryRow] = []
        """For each entry laid out since the last call of `take_first_changed_row`, the first row that may be new."""

    def invalidate(self, index: int) -> None:
        """Recompute the heights of the entry `index` and those after it when they are needed next."""
        self._current_count = min(self._current_count, index)

    @property
    def height(self) -> int:
        """The number of rows of all entries."""
        self._update_bottoms()
        return self._bottoms[-1] if self._bottoms else 0

    def top(self, index: int) -> int:
        """Return the first row of an entry."""
        self._update_bottoms()
        return self._bottoms[index - 1] if index else 0

    def find(self, y: int) -> EntryRow:
        """Return the row of an entry at row `y`, which is clamped. There must be entries."""
        self._update_bottoms()
        y = max(0, min(y, self.height - 1))
        index = min(bisect_right(self._bottoms, y), len(self.entries) - 1)
        return EntryRow(index, y - self.top(index))

    def line(self, y: int) -> Line | None:
        """Return the line at row `y`, None if there is none or it is not laid out yet."""
        if not 0 <= y < self.height:
            return None
        index, row = self.find(y)
        return self.entries[index].line(row, self.width)

    def lines(self, start: int, end: int) -> Iterator[Line]:
        """Yield the lines of the rows from `start` up to `end`, laying them out as needed."""
        index = self.find(start).entry_index if self.entries else 0
        while index < len(self.entries) and self.top(index) < end:
            top = self.top(index)
            self.lay_out(index)
            yield from self.entries[index].shown_rows()[max(0, start - top) : max(0, end - top)]
            index += 1

    def lay_out(self, index: int) -> None:
        """Make the rows of an entry exact."""
        entry = self.entries[index]
        if not entry.is_laid_out(self.width):
            self._changed_rows.append(EntryRow(index, self._update(entry)))
            self.invalidate(index)

    def _update(self, entry: Entry) -> int:
        """Update the rows of an entry; return the index of the first one that may have changed."""
        if not entry.is_plain:
            try:
                return entry.update(self.width)
            except Exception as error:  # noqa: BLE001  # the app's edge: whatever a text breaks, it stays readable
                self._report(error)
        entry.show_plainly(self.width)
        return 0

    def take_first_changed_row(self) -> int | None:
        """Return the first row that was laid out again since the last call, None if none was."""
        changed_rows = self._changed_rows
        self._changed_rows = []
        return min((self.top(index) + row for index, row in changed_rows if index < len(self.entries)), default=None)

    def lay_out_all(self) -> None:
        """Make all entries exact."""
        for index in range(len(self.entries)):
            self.lay_out(index)

    def lay_out_down(self, index: int, rows: int) -> None:
        """Lay out entries from `index` downwards until they fill `rows`."""
        while index < len(self.entries) and rows > 0:
            self.lay_out(index)
            rows -= self.entries[index].height(self.width)
            index += 1

    def lay_out_up(self, index: int, rows: int) -> None:
        """Lay out entries upwards from the one before `index` until they fill `rows`."""
        while index > 0 and rows > 0:
            index -= 1
            self.lay_out(index)
            rows -= self.entries[index].height(self.width)

    def index(self, entry: Entry) -> int | None:
        """Return the index of `entry`, None if it was removed. Searches from the end, where most changes happen."""
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index] is entry:
                return index
        return None

    def _update_bottoms(self) -> None:
        """Compute the stale part of `_bottoms`."""
        count = len(self.entries)
        is_current = self._current_count >= count and len(self._bottoms) == count
        if is_current:
            return
        start = min(self._current_count, count)
        del self._bottoms[start:]
        above = self._bottoms[-1] if self._bottoms else 0
        heights = [entry.height(self.width) for entry in self.entries[start:]]
        self._bottoms += [above + bottom for bottom in accumulate(heights)]
        self._current_count = count
