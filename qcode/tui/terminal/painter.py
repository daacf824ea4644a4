"""Writes a frame to the terminal as the difference from what the terminal shows.

`Painter` keeps the cells on screen. Rows that only moved are moved by the terminal (scroll region). In the other rows,
only the cells that differ are written. Textual writes whole rows, about ten times as many bytes for a streamed reply.
`textual_internals` takes the frames from Textual; this module uses no private member of it.

Example: a reply grows by one row, and rows 2 to 20 move up. The output is `CSI 1;20 r`, a line feed on row 20, `CSI r`
and the new row, instead of 20 rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len, split_graphemes
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

MIN_SCROLL_GAIN = 60
"""The minimum number of cells that a scroll must save; its sequences are about 25 bytes long."""
MAX_GAP = 4
"""Unchanged cells that are written again because moving the cursor over them costs as much."""
MIN_ERASED = 5
"""Blanks at the end of a change that are erased instead of written."""
MIN_SKIPPED = 11
"""The same within a change, after which the cursor must also move over them."""

_SURE_RANGES = (
    " ~\u00a0\u00ac\u00ae\u02ff\u0370\u0377\u037a\u037f\u0384\u0482\u048a\u052f\u2010\u2015\u2018\u2027"
    "\u2030\u203b\u203d\u2048\u204a\u205e\u2190\u2193\u2200\u22ff\u2500\u25a9\u25ac\u25b5\u25b7\u25bf"
    "\u25c1\u25fa\u2800\u28ff\u3001\u3029\u3041\u3096\u309b\u30ff\u4e00\u9fff\uac00\ud7a3\uff01\uff60"
)
"""Ranges (first and last) of characters with the same width in every terminal. Emoji and combining marks are not among
them. A regular expression of these ranges would take 5 ms to compile, before the first paint.
"""
MAX_COLUMN = 1 << 16


class CellStyle(NamedTuple):
    """The style of a cell: its SGR parameters, and the parameters of OSC 8 if it belongs to a link."""

    sgr: str = ""
    link: str = ""


PLAIN = CellStyle()
RESET = "\x1b[m"  # ends every style, as a program that uses the terminal after a frame needs it

Part: TypeAlias = tuple[int, int, Strip]
"""A part of a frame: row, column and contents."""
Run: TypeAlias = tuple[str, CellStyle, int]
"""Text in one style, and its width in cells."""


class _Span:
    """Cells `x` to `end` of a row, with their segments. Its runs are computed when they are needed."""

    __slots__ = ("_runs", "_text", "end", "segments", "x")

    def __init__(self, x: int, end: int, segments: Sequence[Segment], runs: Sequence[Run] | None = None) -> None:
        self.x = x
        self.end = end
        self.segments = segments
        self._runs = runs
        self._text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join([segment.text for segment in self.segments])
        return self._text

    def runs(self, colors: ColorSystem) -> Sequence[Run]:
        if self._runs is None:
            self._runs = _runs(self.segments, self.end - self.x, colors)
        return self._runs


_Row: TypeAlias = dict[int, _Span]
"""The spans of a row by their column, in order and without gaps."""


class _Scroll(NamedTuple):
    """Rows `top` to `bottom` move up by `shift` rows, down if it is negative."""

    top: int
    bottom: int
    shift: int


class Painter:
    """The cells that the terminal shows, and the output that changes them to the next frame.

    `erases_color`: the terminal gives erased cells the current background.
    """

    def __init__(self, *, erases_color: bool) -> None:
        self._erases_color = erases_color
        self._width = 0
        self._rows: list[_Row | None] = []
        self._pen: CellStyle | None = None

    def forget(self) -> bool:
        """Write the next frame completely, because another program may have changed the screen.

        Return whether the screen was known.
        """
        was_known = bool(self._rows)
        self._rows, self._pen = [], None
        return was_known

    def knows(self, width: int, height: int) -> bool:
        """Whether the contents of a screen of this size are known."""
        return width == self._width and height == len(self._rows)

    def paint(self, width: int, height: int, parts: Iterable[Part], console: Console) -> str:
        """Return the output that shows `parts`. They must cover the screen if it is not known."""
        before = self._rows if self.knows(width, height) else [None] * height
        pen, self._rows, self._pen = self._pen, [], None  # unknown after an error
        changed = _changed(before, parts)
        colors = COLOR_SYSTEMS[console.color_system or "truecolor"]
        output = _Output(width, colors, pen=pen, erases_color=self._erases_color)
        scroll = _find_scroll(before, changed)
        rows = list(before)
        if scroll is not None:
            output.scroll(scroll)
            rows = _scrolled(before, scroll)
            for y in range(scroll.top, scroll.bottom + 1):
                changed.setdefault(y, [])
        painted = {y: _overlay(before[y], spans, width, output.colors) for y, spans in sorted(changed.items())}
        if scroll is not None:
            output.clear({y: row for y, row in painted.items() if rows[y] is None})
        for y, row in painted.items():
            output.row(y, row, rows[y])
            rows[y] = row
        self._width, self._rows = width, rows
        self._pen, data = output.end()
        return data


def _changed(rows: Sequence[_Row | None], parts: Iterable[Part]) -> dict[int, list[_Span]]:
    """Return the spans of each row that `rows` do not show already."""
    changed: dict[int, list[_Span]] = {}
    for y, x, strip in parts:
        if not 0 <= y < len(rows):
            continue
        row = rows[y]
        old_cell = row.get(x) if row is not None else None
        end, segments = x + strip.cell_length, list(strip)
        if x < end and (old_cell is None or old_cell.end != end or old_cell.segments != segments):
            changed.setdefault(y, []).append(_Span(x, end, segments))
    return changed


def _overlay(before: _Row | None, spans: Sequence[_Span], width: int, colors: ColorSystem) -> _Row:
    """Return the row `before` with `spans` over it."""
    if before is None:
        before = {0: _Span(0, width, (), [(" " * width, PLAIN, width)])}
    row = before.copy() if spans else before
    for span in spans:
        new = span if span.end <= width else _cut_span(span, span.x, width, colors)
        old = row.get(new.x)
        if old is None or old.end != new.end:
            for other in [other for other in row.values() if other.x < new.end and other.end > new.x]:
                del row[other.x]
                if other.x < new.x:
                    row[other.x] = _cut_span(other, other.x, new.x, colors)
                if other.end > new.end:
                    row[new.end] = _cut_span(other, new.end, other.end, colors)
            row = dict(sorted([*row.items(), (new.x, new)]))
        row[new.x] = new
    return row


def _cut_span(span: _Span, start: int, end: int, colors: ColorSystem) -> _Span:
    """Return a part of a span, which counts as different from every other one. Half a wide character is a blank."""
    texts, pens = _cells(span.runs(colors))
    cut = slice(start - span.x, end - span.x)
    part = texts[cut]
    if not part[0]:
        part[0] = " "
    if texts[cut.stop : cut.stop + 1] == [""]:
        part[-1] = " "
    return _Span(start, end, (), _group_runs(part, pens[cut]))


def _runs(segments: Iterable[Segment], width: int, colors: ColorSystem) -> list[Run]:
    """Return segments as runs of together exactly `width` cells."""
    runs: list[Run] = []
    total = 0
    for text, style, _ in segments:
        if text:
            pen = _pen_of(style, colors) if style is not None else PLAIN
            cells = len(text) if text.isascii() else cell_len(text)
            runs.append((text, pen if text.strip(" ") else _blank_pen(pen), cells))
            total += cells
    if total < width:
        runs.append((" " * (width - total), PLAIN, width - total))
    elif total > width:
        return list(_cut_span(_Span(0, total, (), runs), 0, width, colors).runs(colors))
    return runs


@lru_cache(maxsize=4096)
def _pen_of(style: Style, colors: ColorSystem) -> CellStyle:
    link = f"id={style.link_id};{style.link}" if style.link else ""
    return CellStyle(Strip.render_ansi(style, colors), link)


def _cells(runs: Iterable[Run]) -> tuple[list[str], list[CellStyle]]:
    """Return the text and the style of each cell; the second cell of a wide character has an empty text."""
    texts: list[str] = []
    pens: list[CellStyle] = []
    for text, pen, width in runs:
        pens += [pen] * width
        if text.isascii():
            texts += text
            continue
        for start, end, cells in split_graphemes(text)[0]:
            if cells:
                texts += [text[start:end], *([""] * (cells - 1))]
            elif texts:
                # A combining mark at the start of a run belongs to the last character of the one before it.
                texts[-1 if texts[-1] else -2] += text[start:end]
    return texts, pens


def _group_runs(texts: Sequence[str], pens: Sequence[CellStyle]) -> list[Run]:
    """Return cells as runs; blanks are separate from other text."""
    runs: list[Run] = []
    start = 0
    for (is_blank, pen), group in groupby(zip(map(" ".__eq__, texts), pens, strict=True)):
        count = len(list(group))
        runs.append(("".join(texts[start : start + count]), _blank_pen(pen) if is_blank else pen, count))
        start += count
    return runs


# Finding a scroll

_LOST = -100
"""The gain of a row that has not changed, if it has to be written because of a scroll."""


def _find_scroll(before: Sequence[_Row | None], changed: Mapping[int, Sequence[_Span]]) -> _Scroll | None:
    """Return the scroll that leaves the least to write, None if none saves much."""
    if len(changed) < 3 or None in before:
        return None
    # Rows are compared by their widest span, without style: the transcript, but not the scroll bar beside it.
    x = Counter(max(spans, key=lambda span: span.end - span.x).x for spans in changed.values()).most_common(1)[0][0]
    old = [row[x].text if row is not None and x in row else "" for row in before]
    new = old.copy()
    for y, spans in changed.items():
        new[y] = next((span.text for span in spans if span.x == x), old[y])
    weights = {y: len(new[y].rstrip()) for y in changed}
    shift = _most_common_shift(old, new, weights)
    if not shift:
        return None
    gain, first, last = _best_run([_gain(old, new, weights, y, shift) for y in range(len(old))])
    new_rows = range(last + 1, last + shift + 1) if shift > 0 else range(first + shift, first)
    if gain + sum(_LOST for y in new_rows if y not in weights) < MIN_SCROLL_GAIN:
        return None
    return _Scroll(min(first, first + shift), max(last, last + shift), shift)


def _most_common_shift(old: Sequence[str], new: Sequence[str], weights: Mapping[int, int]) -> int:
    """Return by how many rows most of the text has moved up; 0 if it has not."""
    rows: dict[str, list[int]] = {}
    for y, text in enumerate(old):
        rows.setdefault(text, []).append(y)
    shifts: Counter[int] = Counter()
    for y, weight in weights.items():
        old_rows = rows.get(new[y], ())
        # A text in many rows, such as a rule, says little about where it came from.
        if weight and len(old_rows) <= 4:
            for old_row in old_rows:
                shifts[old_row - y] += weight
    return shifts.most_common(1)[0][0] if shifts else 0


def _gain(old: Sequence[str], new: Sequence[str], weights: Mapping[int, int], y: int, shift: int) -> int:
    """Return the cells that a scroll by `shift` saves in row `y`."""
    is_there = 0 <= y + shift < len(old) and old[y + shift] == new[y]
    if y in weights:
        return weights[y] if is_there else 0
    return 0 if is_there else _LOST


def _best_run(gains: Sequence[int]) -> tuple[int, int, int]:
    """Return the largest sum of consecutive gains, and the first and last index of it."""
    best = (0, 0, 0)
    total = first = 0
    for index, gain in enumerate(gains):
        if total <= 0:
            total, first = 0, index
        total += gain
        if total > best[0]:
            best = (total, first, index)
    return best


def _scrolled(rows: Sequence[_Row | None], scroll: _Scroll) -> list[_Row | None]:
    """Return `rows` after the terminal has scrolled; the new rows are unknown."""
    region = list(rows[scroll.top : scroll.bottom + 1])
    unknown: list[_Row | None] = [None] * abs(scroll.shift)
    moved = region[scroll.shift :] + unknown if scroll.shift > 0 else unknown + region[: scroll.shift]
    return [*rows[: scroll.top], *moved, *rows[scroll.bottom + 1 :]]


# Finding the cells that differ


def _differences(row: _Row, old: _Row, width: int, colors: ColorSystem) -> list[tuple[int, Sequence[Run]]]:
    """Return what to write so that the terminal shows `row` instead of `old`: columns and runs."""
    pairs: list[tuple[_Span, _Span]] = []
    for x, span in row.items():
        other = old.get(x)
        if other is None or other.end != span.end:
            pairs = [(_merge_row(row, width, colors), _merge_row(old, width, colors))]
            break
        if span is not other and span.segments != other.segments:
            pairs.append((span, other))
    changes = [change for span, other in pairs for change in _span_differences(span, other, colors)]
    if not changes:
        return []
    last, runs = changes[-1]
    unsure = min(_first_unsure(row, colors), _first_unsure(old, colors))
    if last + sum(cells for _, _, cells in runs) <= unsure:
        return changes
    # No later character is certain to be in its column: write the rest of the row.
    start = min(unsure, changes[0][0])
    return [(start, _cut_span(_merge_row(row, width, colors), start, width, colors).runs(colors))]


def _merge_row(row: _Row, width: int, colors: ColorSystem) -> _Span:
    return _Span(0, width, (), [run for span in row.values() for run in span.runs(colors)])


@lru_cache(maxsize=4096)
def _is_sure(character: str) -> bool:
    # In a range, the next greater limit is its end; at its end it is the one after.
    return bisect_right(_SURE_RANGES, character) % 2 == 1 or character in _SURE_RANGES


def _first_unsure(row: _Row, colors: ColorSystem) -> int:
    """Return the first column with a character of uncertain width, 0 if it takes no cell (U+200B)."""
    for span in row.values():
        column = span.x
        for text, _, cells in span.runs(colors):
            if not text.isascii() and not all(map(_is_sure, text)):
                texts, _ = _cells([(text, PLAIN, cells)])
                return next((column + at for at, value in enumerate(texts) if not all(map(_is_sure, value))), 0)
            column += cells
    return MAX_COLUMN


def _span_differences(span: _Span, old_span: _Span, colors: ColorSystem) -> list[tuple[int, Sequence[Run]]]:
    """Return the cells of `span` that differ from `old_span`, which has the same columns."""
    new, old = span.runs(colors), old_span.runs(colors)
    first = last = 0
    column = span.x
    shorter = min(len(new), len(old))
    while first < shorter and new[first] == old[first]:
        column += new[first][2]
        first += 1
    while last < shorter - first and new[-1 - last] == old[-1 - last]:
        last += 1
    texts, pens = _cells(new[first : len(new) - last])
    old_texts, old_pens = _cells(old[first : len(old) - last])
    cells = zip(texts, old_texts, pens, old_pens, strict=True)
    differing = [
        at
        for at, (text, other, pen, before) in enumerate(cells)
        if text != other
        or (pen is not before and pen != before and (text != " " or _blank_pen(pen) != _blank_pen(before)))
    ]
    ranges: list[list[int]] = []
    for at in differing:
        if ranges and at - ranges[-1][1] <= MAX_GAP:
            ranges[-1][1] = at + 1
        else:
            ranges.append([at, at + 1])
    changes: list[tuple[int, Sequence[Run]]] = []
    for start, end in ranges:
        # The second cell of a wide character does not differ.
        while end < len(texts) and not texts[end]:
            end += 1
        changes.append((column + start, _group_runs(texts[start:end], pens[start:end])))
    return changes


# Output


class _Output:
    """Collects escape sequences and text. `pen` is the style that is set in the terminal before, None if unknown.

    The style stays set after a frame, because the next one mostly begins with it.
    """

    def __init__(self, width: int, colors: ColorSystem, *, pen: CellStyle | None, erases_color: bool) -> None:
        self.colors = colors
        self._width = width
        self._erases_color = erases_color
        self._pieces: list[str] = [] if pen is not None else [RESET]
        self._pen = pen or PLAIN
        self._row = self._column = -1
        self._clear_style: CellStyle | None = None  # the style of the new rows, if they were cleared together

    def scroll(self, scroll: _Scroll) -> None:
        """Move rows with the scroll region, by the sequences that every terminal has."""
        top, bottom = scroll.top + 1, scroll.bottom + 1
        move = f"\x1b[{bottom}H" + "\n" * scroll.shift if scroll.shift > 0 else f"\x1b[{top}H" + "\x1bM" * -scroll.shift
        self._pieces.append(f"\x1b[{top};{bottom}r{move}\x1b[r")

    def clear(self, rows: Mapping[int, _Row]) -> None:
        """Clear `rows` together if that is shorter, as for code on another background than its margins."""
        runs = [[run for span in row.values() for run in span.runs(self.colors)] for row in rows.values()]
        fills = {_blank_pen(row[0][1]) for row in runs}
        fill = next(iter(fills), PLAIN)
        others = sum(any(_blank_pen(pen) != fill for _, pen, _ in row[:-1]) for row in runs)
        if len(fills) != 1 or others < 2 or not self._can_erase(fill):
            return
        for y in rows:
            self._clear_row(y, fill)
        self._clear_style = fill

    def _clear_row(self, y: int, fill: CellStyle) -> None:
        self._move(y, 0)
        self._use(_over_blank(self._pen, fill))
        self._pieces.append("\x1b[K")

    def row(self, y: int, row: _Row, old: _Row | None) -> None:
        """Write the cells of `row` that differ from what the terminal shows there."""
        if old is None:
            self._fresh_row(y, [run for span in row.values() for run in span.runs(self.colors)])
        elif row is not old:
            for column, runs in _differences(row, old, self._width, self.colors):
                self._move(y, column)
                self._write(runs)

    def _fresh_row(self, y: int, runs: Sequence[Run]) -> None:
        """Write a row of unknown contents: clear it in the style of its end, and write what is not blank then.

        Example: a row of 120 cells with the text `done` is `CSI K`, a blank, and `done`.
        """
        fill = self._clear_style
        if fill is None:
            fill = _blank_pen(runs[-1][1])
            if not (runs[-1][0].endswith(" ") and self._can_erase(fill)):
                self._move(y, 0)
                self._write(runs)
                return
            self._clear_row(y, fill)
        column = 0
        for index, (text, pen, cells) in enumerate(runs):
            is_like_fill = _blank_pen(pen) == fill
            blanks = len(text) - len(text.rstrip(" ")) if is_like_fill else 0
            if blanks < cells:
                self._skip_blanks(y, column, fill)
                if not text.isascii() and not all(map(_is_sure, text)):
                    self._write(runs[index:])
                    return
                self._write([(text[: len(text) - blanks], pen, cells - blanks)])
            column += cells

    def _skip_blanks(self, y: int, column: int, fill: CellStyle) -> None:
        """Move the cursor to `column`, over cells that are blank in the style `fill`."""
        gap = column - self._column
        if 0 < gap <= MAX_GAP and self._row == y:
            self._use(_over_blank(self._pen, fill))
            self._pieces.append(" " * gap)
            self._column = column
        else:
            self._move(y, column)

    def end(self) -> tuple[CellStyle, str]:
        """Return the style that is set after the output, which is never a link, and the output."""
        self._use(CellStyle(self._pen.sgr))
        return self._pen, "".join(self._pieces)

    def _move(self, y: int, column: int) -> None:
        """Move the cursor."""
        if (y, column) == (self._row, self._column):
            return
        if column and y == self._row:
            move = f"\x1b[{column - self._column}C"
        elif not column and y == self._row + 1 and self._row >= 0:
            move = "\r\n"
        else:
            move = f"\x1b[{y + 1};{column + 1}H" if column else f"\x1b[{y + 1}H"
        self._pieces.append(move)
        self._row, self._column = y, column

    def _write(self, runs: Sequence[Run]) -> None:
        """Write `runs` at the cursor."""
        text, pen, cells = runs[-1]
        visible = text.rstrip(" ")
        if visible and len(text) - len(visible) >= MIN_ERASED:
            blanks = len(text) - len(visible)
            runs = [*runs[:-1], (visible, pen, cells - blanks), (" " * blanks, _blank_pen(pen), blanks)]
        last = len(runs) - 1
        for index, (text, pen, cells) in enumerate(runs):
            if text[0] != " " or text.strip(" "):
                self._use(pen)
                self._pieces.append(text)
                if not text.isascii() and not all(map(_is_sure, text)):
                    self._row = -1  # the column of the cursor is not certain
            else:
                self._use(_over_blank(self._pen, pen))
                if not self._can_erase(pen) or cells < (MIN_ERASED if index == last else MIN_SKIPPED):
                    self._pieces.append(text)
                elif index == last:
                    self._pieces.append("\x1b[K" if self._column + cells == self._width else f"\x1b[{cells}X")
                    return
                else:
                    self._pieces.append(f"\x1b[{cells}X\x1b[{cells}C")
            self._column += cells

    def _can_erase(self, pen: CellStyle) -> bool:
        return not pen.link and _attributes(pen.sgr).keys() <= ({"bg"} if self._erases_color else set())

    def _use(self, pen: CellStyle) -> None:
        """Change to the style `pen`."""
        if pen != self._pen:
            self._pieces.append(_change(self._pen, pen))
            self._pen = pen


_OFF = {
    "1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29", "21": "24",
    "51": "54", "52": "54", "53": "55", "fg": "39", "bg": "49",
}  # fmt: skip
"""The parameter that ends each attribute."""
_UNSEEN_ON_BLANKS = frozenset({"1", "2", "3", "5", "6", "8", "fg"})


@lru_cache(maxsize=4096)
def _attributes(sgr: str) -> Mapping[str, str]:
    """Return the attributes that SGR parameters set, with the parameters of each."""
    attributes: dict[str, str] = {}
    numbers = iter(sgr.split(";") if sgr else ())
    for number in numbers:
        if number in ("38", "48"):
            kind = next(numbers)
            color = [next(numbers) for _ in range(1 if kind == "5" else 3)]
            attributes["fg" if number == "38" else "bg"] = ";".join((number, kind, *color))
        elif number in _OFF:
            attributes[number] = number
        elif number not in ("39", "49"):
            attributes["bg" if int(number) in (*range(40, 48), *range(100, 108)) else "fg"] = number
    return attributes


@lru_cache(maxsize=4096)
def _blank_pen(pen: CellStyle) -> CellStyle:
    """Return the simplest style in which a blank looks as it does with `pen`."""
    attributes = _attributes(pen.sgr)
    if pen.link or not attributes.keys() <= _UNSEEN_ON_BLANKS | {"bg"}:
        return pen
    return CellStyle(attributes.get("bg", ""))


@lru_cache(maxsize=4096)
def _over_blank(current: CellStyle, blank: CellStyle) -> CellStyle:
    """Return the style closest to `current` in which a blank looks as it does with `blank`."""
    seen = _attributes(_blank_pen(current).sgr)
    if blank.link or current.link or not seen.keys() | _attributes(blank.sgr).keys() <= {"bg"}:
        return blank
    attributes = {name: value for name, value in _attributes(current.sgr).items() if name != "bg"}
    return CellStyle(";".join([*attributes.values(), *_attributes(blank.sgr).values()]))


@lru_cache(maxsize=4096)
def _change(before: CellStyle, after: CellStyle) -> str:
    """Return the shortest sequence that changes one style to another."""
    link = f"\x1b]8;{after.link or ';'}\x1b\\" if before.link != after.link else ""
    old, new = _attributes(before.sgr), _attributes(after.sgr)
    if old == new:
        return link
    ended = {_OFF[name] for name in old if name not in new}
    started = [value for name, value in new.items() if old.get(name) != value or _OFF[name] in ended]
    change = ";".join([*sorted(ended), *started])
    afresh = ";".join(["0", *new.values()]) if new else ""
    return f"{link}\x1b[{min(change, afresh, key=len)}m"


def erases_color(environ: Mapping[str, str]) -> bool:
    """Whether the terminal gives erased cells the current background color; GNU Screen and Emacs do not."""
    kind = environ.get("TERM", "").partition("-")[0]
    return kind not in ("dumb", "eterm", "unknown") and not (kind == "screen" and not environ.get("TMUX"))
