"""Applies the cursor movements in output, such as those of a progress bar, as a terminal does. Pure."""

from __future__ import annotations

import unicodedata
from typing import TypeAlias

from qcode.text.pattern import lazy_pattern

_REDRAWS = lazy_pattern(r"\r[^\r]|\x08|\x1b\[\d*[CDG]|\x1b\[[12]K")
"""Matches a character or sequence that moves the cursor back, or erases text before it."""
# One of: a cursor movement or erasure, another escape sequence (which is dropped), or text.
_TOKEN = lazy_pattern(
    r"(?P<move>\r|\x08|\t|\x1b\[(?P<count>\d{0,4})(?P<command>[CDGK]))"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
    r"|(?P<text>[ -~]+|.)",
)
_WITHOUT_CELL = ("Cc", "Cf", "Me", "Mn")
"""The Unicode categories of characters that join the character before them."""
_TAB_COLUMNS = 8
RedrawnCell: TypeAlias = tuple[str, int]
"""The text of a column, and the index of its character in the line.

The second column of a wide character has an empty text.
"""
_EMPTY_CELL: RedrawnCell = (" ", -1)
"""A skipped or erased column."""
_MAX_COLUMNS = 1_000
"""A cursor movement stops at this column, because it would only fill memory. Text may be longer."""


def is_redrawn(line: str) -> bool:
    """Return whether a line moves the cursor back over its text."""
    return ("\r" in line or "\x08" in line or "\x1b[" in line) and _REDRAWS.search(line) is not None


def redrawn(text: str) -> str:
    """Return output with the last state of each line, without escape sequences in the lines that were redrawn.

    For example, `10%\\r100%` becomes `100%`, and `working\\rdone` becomes `doneing`, as on a terminal.
    """
    if "\r" not in text and "\x08" not in text and "\x1b[" not in text:
        return text
    return "\n".join(_redrawn_line(line) if is_redrawn(line) else line for line in text.split("\n"))


def _redrawn_line(line: str) -> str:
    return "".join(cell_text for cell_text, _ in redrawn_cells(line))


_MIN_REDUCED = 4_096
"""The minimum number of characters of an unfinished line that is reduced."""
_MAX_LINE = 65_536
"""An unfinished line with more characters after its reduction is returned at once."""


class RedrawnStream:
    """A filter that applies `redrawn` to output in chunks of any size. It holds an unfinished line back."""

    def __init__(self) -> None:
        self._line = ""
        self._next_size = _MIN_REDUCED
        """The size at which the unfinished line is reduced again. This size doubles, so that the cost is linear."""

    def add(self, text: str) -> str:
        """Add output; return the lines that it completes."""
        self._line += text
        end = self._line.rfind("\n", len(self._line) - len(text)) + 1
        complete = redrawn(self._line[:end])
        self._line = self._line[end:]
        if end:
            self._next_size = _MIN_REDUCED
        if len(self._line) >= self._next_size:
            self._line = reduced_line(self._line)
            self._next_size = max(_MIN_REDUCED, 2 * len(self._line))
            if len(self._line) >= _MAX_LINE:
                return complete + self.end()
        return complete

    def end(self) -> str:
        """Return the unfinished line, and start another line."""
        line = redrawn(self._line)
        self._line = ""
        self._next_size = _MIN_REDUCED
        return line


def reduced_line(line: str) -> str:
    """Return an equivalent of an unfinished line with fewer characters.

    Whatever text follows, `redrawn` returns the same for both. Only the text before the last carriage return is
    reduced: after that character the cursor is in the first column.
    """
    end = line.rfind("\r")
    return redrawn(line[:end]) + line[end:] if end > 0 else line


def redrawn_cells(line: str) -> list[RedrawnCell]:
    """Return the columns of a line after all cursor movements. A skipped or erased column has the index -1."""
    cells: list[RedrawnCell] = []
    column = 0
    for match in _TOKEN.finditer(line):
        if text := match["text"]:
            column = _write(cells, column, text, match.start())
        elif match["move"]:
            column = _move(cells, column, match["command"] or match["move"], match["count"] or "")
    while cells and _is_skipped(cells[-1]):
        cells.pop()
    return cells


def _write(cells: list[RedrawnCell], column: int, text: str, position: int) -> int:
    """Write ASCII text or one other character from `column` on, and return the next column.

    `position` is the index of the text in its line.
    """
    if text.isascii():
        written = [(char, at) for at, char in enumerate(text, position) if char.isprintable()]
    elif unicodedata.category(text) in _WITHOUT_CELL:
        if 0 < column <= len(cells):
            before, at = cells[column - 1]
            cells[column - 1] = (before + text, at)
        return column
    else:
        is_wide = unicodedata.east_asian_width(text) in "WF"
        written = [(text, position), ("", position)] if is_wide else [(text, position)]
    if not written:
        return column
    end = column + len(written)
    cells.extend(_EMPTY_CELL for _ in range(column - len(cells)))
    # Half of a wide character cannot stay: its other half becomes a space.
    if 0 < column < len(cells) and _is_second_half(cells[column]):
        cells[column - 1] = (" ", position)
    if end < len(cells) and _is_second_half(cells[end]):
        cells[end] = (" ", position)
    cells[column:end] = written
    return end


def _is_skipped(cell: RedrawnCell) -> bool:
    """Return whether a column was skipped or erased."""
    _, index = cell
    return index < 0


def _is_second_half(cell: RedrawnCell) -> bool:
    """Return whether a column is the second one of a wide character."""
    text, _ = cell
    return text == ""


def _move(cells: list[RedrawnCell], column: int, command: str, count: str) -> int:
    """Move the cursor or erase text, and return the new column.

    `command` is a control character, or the last letter of an escape sequence. `count` is the number in the escape
    sequence; it may be empty.
    """
    number = int(count or 0)
    start = column
    match command:
        case "\r":
            return 0
        case "\x08":
            return max(0, column - 1)
        case "D":
            return max(0, column - max(1, number))
        case "\t":
            column += _TAB_COLUMNS - column % _TAB_COLUMNS
        case "C":
            column += max(1, number)
        case "G":
            column = max(1, number) - 1
        case _:  # K
            return _erase(cells, column, number)
    # In a long line, the cursor may be beyond the maximum already; it must not jump back over the text.
    return min(column, max(start, _MAX_COLUMNS))


def _erase(cells: list[RedrawnCell], column: int, part: int) -> int:
    """Erase a part of the line, and return the column of the cursor.

    `part` is the number before `K`: 0 from the cursor to the end, 1 from the start to the cursor, 2 the whole line.
    """
    if part == 0:
        del cells[column:]
        return column
    if part == 2 or column + 1 >= len(cells):
        cells.clear()  # the next character fills the columns before it with spaces
    else:
        cells[: column + 1] = [_EMPTY_CELL] * (column + 1)
    return min(column, _MAX_COLUMNS)
