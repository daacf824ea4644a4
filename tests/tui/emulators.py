"""Two terminal emulators for the app's output: a strict one that measures text as qcode does, and the package pyte."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyte
from rich.cells import split_graphemes

SEQUENCE = re.compile(
    r"\x1b(?:\[(?P<args>[0-9;]*)(?P<end>[A-Za-z])|\]8;(?P<link>.*?)\x1b\\|\](?P<other>[^\x07\x1b]*)\x07|(?P<index>M))|(?P<control>[\r\n])"
)
Cell = tuple[str, frozenset[tuple[str, str]], str]


class Screen:
    """The screen of a terminal that measures text as qcode does. An unknown sequence fails the test."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.x = self.y = 0
        self.top, self.bottom = 0, height - 1
        self.style: dict[str, str] = {}
        self.link = ""
        self.rows = [self._blank() for _ in range(height)]

    def _blank(self) -> list[Cell]:
        return [self._cell(" ")] * self.width

    def _cell(self, text: str) -> Cell:
        """Return a cell with its visible attributes: blanks have no foreground."""
        seen = self.style
        if text == " " and not seen.keys() & {"4", "7", "9", "21", "53"} and not self.link:
            seen = {name: value for name, value in seen.items() if name == "bg"}
        return text, frozenset(seen.items()), self.link

    def feed(self, output: str) -> None:
        at = 0
        for match in SEQUENCE.finditer(output):
            self._draw(output[at : match.start()])
            at = match.end()
            if match["link"] is not None:
                # Without the id, which Rich draws at random for each style.
                self.link = match["link"].partition(";")[2]
            elif match["other"] is not None:
                continue  # such as the title
            elif match["index"]:
                self._reverse_index()
            elif match["control"]:
                self._control(match["control"])
            else:
                self._run(match["end"], [int(number) for number in match["args"].split(";") if number])
        self._draw(output[at:])
        assert not self.link
        assert (self.top, self.bottom) == (0, self.height - 1)

    def _control(self, control: str) -> None:
        if control == "\r":
            self.x = 0
        elif self.y == self.bottom:
            del self.rows[self.top]
            self.rows.insert(self.bottom, self._blank())
        else:
            self.y = min(self.y + 1, self.height - 1)

    def _reverse_index(self) -> None:
        if self.y == self.top:
            del self.rows[self.bottom]
            self.rows.insert(self.top, self._blank())
        else:
            self.y = max(0, self.y - 1)

    def _run(self, end: str, numbers: list[int]) -> None:
        match end:
            case "H":
                y, x = [*numbers, 1, 1][:2] if len(numbers) != 1 else (numbers[0], 1)
                self.x, self.y = min(x, self.width) - 1, min(y, self.height) - 1
            case "C":
                self.x = min(self.x + max(1, *numbers, 1), self.width - 1)  # 0 is 1
            case "X":
                self._put([" "] * min((numbers or [1])[0], self.width - self.x))
            case "K":
                self._put([" "] * (self.width - self.x))
            case "r":
                self.top, self.bottom = (numbers[0] - 1, numbers[1] - 1) if numbers else (0, self.height - 1)
                self.x = self.y = 0
            case "m":
                self._style(iter(numbers or [0]))
            case _:
                raise AssertionError(f"unknown sequence {numbers} {end}")

    def _style(self, numbers: Iterator[int]) -> None:
        off = {22: "1 2", 23: "3", 24: "4 21", 25: "5 6", 27: "7", 28: "8", 29: "9", 39: "fg", 49: "bg", 55: "53"}
        for number in numbers:
            if number == 0:
                self.style = {}
            elif number in off:
                self.style = {name: value for name, value in self.style.items() if name not in off[number].split()}
            elif number in (38, 48):
                kind = next(numbers)
                color = [next(numbers) for _ in range(1 if kind == 5 else 3)]
                self.style["fg" if number == 38 else "bg"] = str((kind, color))
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self.style["fg"] = str(number)
            elif 40 <= number <= 47 or 100 <= number <= 107:
                self.style["bg"] = str(number)
            else:
                self.style[str(number)] = ""

    def _put(self, texts: list[str]) -> int:
        """Replace cells from the cursor on. Half of a wide character becomes a blank."""
        row, start, end = self.rows[self.y], self.x, min(self.width, self.x + len(texts))
        if row[start][0] == "" and start:
            row[start - 1] = (" ", *row[start - 1][1:])
        if end < self.width and row[end][0] == "":
            row[end] = (" ", *row[end][1:])
        row[start:end] = [self._cell(text) for text in texts[: end - start]]
        return end

    def _draw(self, text: str) -> None:
        for start, end, cells in split_graphemes(text)[0]:
            if cells:
                assert self.x < self.width, "text behind the end of the row"
                self.x = self._put([text[start:end], *[""] * (cells - 1)])
            else:
                at = self.x - 1
                at -= self.rows[self.y][at][0] == ""
                cell = self.rows[self.y][at]
                self.rows[self.y][at] = (cell[0] + text[start:end], *cell[1:])


class Pyte:
    """The emulator `pyte`. It does not support links, dim and overline, and has its own rules for the width of text."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self.screen)
        self._stream.feed("\x1b[?7l")

    def feed(self, output: str) -> None:
        self._stream.feed(output)

    @property
    def rows(self) -> list[list[pyte.screens.Char]]:
        return rows_of(self.screen)


def rows_of(screen: pyte.Screen) -> list[list[pyte.screens.Char]]:
    """Return the cells of a screen with their visible attributes."""
    return [[seen(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)]


def seen(cell: pyte.screens.Char) -> pyte.screens.Char:
    """Return a cell with its visible attributes. The foreground of a blank is not visible."""
    if cell.data == " " and not (cell.underscore or cell.reverse or cell.strikethrough):
        return pyte.screens.Char(" ", bg=cell.bg)
    return cell
