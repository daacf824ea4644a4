"""A cursor that moves by vim's motions. It stores the wanted column and the last `f` or `t` search."""

from __future__ import annotations

from typing import Literal

from qcode.tui.prompt.vim import motions, operators
from qcode.tui.prompt.vim.grammar import VimCommand
from qcode.tui.prompt.vim.motions import (
    Find,
    Motion,
    first_non_blank,
    is_line_end,
    line_end,
    line_start,
    normal_cursor,
)
from qcode.tui.prompt.vim.objects import Extent, text_object


class MovingCursor:
    """A text with a cursor."""

    def __init__(self, width: motions.Width) -> None:
        self.text = ""
        self.cursor = 0
        self.wanted_column: int | None = None
        """The column that `j` and `k` keep, None for the column of the cursor."""
        self._width = width
        self._find: Find | None = None
        """The last search, which `;` and `,` repeat."""

    @property
    def is_visual(self) -> bool:
        """Whether the cursor may rest on line ends."""
        return False

    def motion(self, command: VimCommand) -> Motion | None:
        """Return the position and range of a motion, None if it fails.

        The cursor is not moved, except if an operator's `b` or `ge` fails. `f` and `t` are stored for `;` and `,`.
        """
        name, count = command.name, command.count or 1
        if name in ("h", "l", "0", "^", "$", "_", "+", "-", "j", "k", "gg", "G"):
            return self._line_motion(command, count)
        if name in ("{", "}"):
            return motions.paragraph_motion(self.text, self.cursor, 1 if name == "}" else -1, count)
        if name == "%" and command.count is not None:
            # `50%` is the line at 50 percent of the text, rounded up.
            number = (count * (self.text.count("\n") + 1) + 99) // 100
            return Motion(operators.go_to_line(self.text, number), is_lines=True)
        if name == "%":
            match = motions.matching_bracket(self.text, self.cursor)
            return None if match is None else Motion(match, is_inclusive=True)
        if name in ("f", "F", "t", "T", ";", ","):
            return self._find_motion(command, count)
        if name[0] in ("i", "a"):  # such as `iw` or `a(`
            return self._object_motion(command, count)
        return self._word_motion(command, count)

    def _line_motion(self, command: VimCommand, count: int) -> Motion | None:
        text, index, name = self.text, self.cursor, command.name
        if name == "h":
            if index == line_start(text, index) and not command.operator:
                return None
            return Motion(max(line_start(text, index), index - count))
        if name == "l":
            last = line_end(text, index)
            if not command.operator and not self.is_visual:
                last = max(line_start(text, index), last - 1)
            return Motion(min(last, index + count)) if index < last or command.operator else None
        if name == "0":
            return Motion(line_start(text, index))
        if name == "^":
            return Motion(first_non_blank(text, index))
        if name in ("gg", "G"):
            number = command.count or (1 if name == "gg" else None)  # None: the last line
            return Motion(operators.go_to_line(text, number), is_lines=True)
        start = self._line_reached_by(name, count)
        if start is None:
            return None
        if name == "$":
            end = line_end(text, start)
            return Motion(end if self.is_visual else max(start, end - 1), is_inclusive=True)
        if name in ("j", "k"):
            return Motion(self._at_wanted_column(start), is_lines=True)
        return Motion(first_non_blank(text, start), is_lines=True)

    def _line_reached_by(self, name: str, count: int) -> int | None:
        """Return the start of the line that `$`, `_`, `+`, `-`, `j` or `k` reaches, None if there is no such line."""
        lines_down = -count  # `-` and `k` go up
        if name in ("$", "_"):
            lines_down = count - 1  # `2$` is in the next line
        elif name in ("+", "j"):
            lines_down = count
        if lines_down == 0:
            return line_start(self.text, self.cursor)
        return motions.lines_below(self.text, self.cursor, lines_down)

    def _at_wanted_column(self, start: int) -> int:
        if self.wanted_column is None:
            self.wanted_column = motions.column_of(self.text, self.cursor, self._width)
        return motions.index_at_column(self.text, start, self.wanted_column, self._width, is_visual=self.is_visual)

    def _word_motion(self, command: VimCommand, count: int) -> Motion | None:
        text, index, name = self.text, self.cursor, command.name
        is_big = name[-1].isupper()
        if name in ("b", "B", "ge", "gE"):
            is_end = name[0] == "g"
            move = motions.previous_word_end if is_end else motions.previous_word_start
            word = move(text, index, count, is_big=is_big)
            # With fewer words before the cursor, `3b` moves as far as it can. `d3b` does the same, and deletes nothing.
            if command.operator and not word.is_complete:
                self.cursor = normal_cursor(text, word.position)
                return None
            return Motion(word.position, is_inclusive=is_end)
        # `cw` on a word acts as `ce`; at the end of the word it changes only the last letter.
        is_change = command.operator == "c" and name in ("w", "W")
        acts_as_ce = is_change and not is_line_end(text, index) and text[index] not in " \t"
        if name in ("e", "E") or acts_as_ce:
            word = motions.next_word_end(text, index, count, is_big=is_big, may_stay=acts_as_ce)
            is_inclusive = True
        else:
            has_operator = bool(command.operator)
            word = motions.next_word_start(text, index, count, is_big=is_big, stops_at_line_end=has_operator)
            is_inclusive = False
        end = word.position
        # A motion that would reach the `\n` of a line with text stays on the last character, and takes it.
        if end > index and is_line_end(text, end) and end > line_start(text, end) and not self.is_visual:
            end, is_inclusive = end - 1, True
        return Motion(end, is_inclusive)

    def _find_motion(self, command: VimCommand, count: int) -> Motion | None:
        is_repeated = command.name in (";", ",")
        if is_repeated:
            find = self._find
            if find is not None and command.name == ",":
                find = find.reversed
        else:
            step: Literal[1, -1] = 1 if command.name in ("f", "t") else -1
            find = Find(command.argument, step, is_until=command.name in ("t", "T"))
            self._find = find
        if find is None:
            return None
        index = motions.find_in_line(self.text, self.cursor, find, count, is_repeated=is_repeated)
        return None if index is None else Motion(index, is_inclusive=find.step > 0)

    def _object_motion(self, command: VimCommand, count: int) -> Motion | None:
        extent: Extent | None = text_object(
            self.text, self.cursor, command.name[1], count, is_around=command.name[0] == "a"
        )
        if extent is None:
            return None
        return Motion(extent.end, is_inclusive=extent.is_inclusive, is_lines=extent.is_lines, start=extent.start)
