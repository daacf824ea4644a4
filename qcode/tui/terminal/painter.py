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
from textual.strip import Strip

from qcode.tui.terminal.cell_style import (
    PLAIN,
    CellStyle,
    attributes_of,
    blank_style,
    change_style,
    nearest_blank_style,
    style_of,
)

MIN_SCROLL_GAIN = 60
"""The minimum number of cells that a scroll must save; its sequences are about 25 bytes long."""
MAX_GAP = 4
"""The maximum number of unchanged cells that are written again, because moving the cursor over them costs as much."""
MIN_ERASED = 5
"""The minimum number of blanks at the end of a change that are erased and not written."""
MIN_SKIPPED = 11
"""The minimum number of blanks inside a change that are erased: larger, because the cursor must also pass them."""

_SURE_RANGES = (
    " ~\u00a0\u00ac\u00ae\u02ff\u0370\u0377\u037a\u037f\u0384\u0482\u048a\u052f\u2010\u2015\u2018\u2027"
    "\u2030\u203b\u203d\u2048\u204a\u205e\u2190\u2193\u2200\u22ff\u2500\u25a9\u25ac\u25b5\u25b7\u25bf"
    "\u25c1\u25fa\u2800\u28ff\u3001\u3029\u3041\u3096\u309b\u30ff\u4e00\u9fff\uac00\ud7a3\uff01\uff60"
)
"""Ranges (first and last) of characters with the same width in every terminal. Emoji and combining marks are not among
them. A regular expression of these ranges would take 5 ms to compile, before the first paint.
"""
MAX_COLUMN = 1 << 16
"""The column after every screen, for a row in which every width is certain."""

RESET = "\x1b[m"
"""Ends every style, for a program that uses the terminal after a frame."""

Part: TypeAlias = tuple[int, int, Strip]
"""A part of a frame: row, column and contents."""
Run: TypeAlias = tuple[str, CellStyle, int]
"""Text in one style, and its width in cells."""


class _Span:
    """The cells of a row from column `x` up to `end`, with their segments. Runs are computed when they are needed."""

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
            self._runs = _runs_of(self.segments, self.end - self.x, colors)
        return self._runs


_Row: TypeAlias = dict[int, _Span]
"""The spans of a row by their first column, in order and without gaps."""


class _Scroll(NamedTuple):
    """A scroll of some rows of the screen.

    Example: `_Scroll(0, 19, 1)` moves the rows 1 to 19 up by one row. Row 0 is lost, and row 19 must be written.
    """

    top: int
    """The first row of the region that scrolls."""
    bottom: int
    """The last row of the region."""
    shift: int
    """The number of rows by which text moves up; negative if it moves down."""


class Painter:
    """The cells that the terminal shows, and the output that changes them to the next frame.

    `erases_color`: the terminal gives erased cells the current background.
    """

    def __init__(self, *, erases_color: bool) -> None:
        self._erases_color = erases_color
        self._width = 0
        self._rows: list[_Row | None] = []
        self._terminal_style: CellStyle | None = None

    def forget(self) -> bool:
        """Write the next frame completely, because another program may have changed the screen.

        Return whether the screen was known.
        """
        was_known = bool(self._rows)
        self._rows, self._terminal_style = [], None
        return was_known

    def knows(self, width: int, height: int) -> bool:
        """Return whether the contents of a screen of this size are known."""
        return width == self._width and height == len(self._rows)

    def paint(self, width: int, height: int, parts: Iterable[Part], console: Console) -> str:
        """Return the output that shows `parts`. They must cover the screen if it is not known."""
        before = self._rows if self.knows(width, height) else [None] * height
        terminal_style = self._terminal_style
        self._rows, self._terminal_style = [], None  # after an error below, nothing is known about the screen
        changed = _changed(before, parts)
        colors = COLOR_SYSTEMS[console.color_system or "truecolor"]
        output = _Output(width, colors, terminal_style=terminal_style, erases_color=self._erases_color)
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
            output.write_row(y, row, rows[y])
            rows[y] = row
        self._width, self._rows = width, rows
        self._terminal_style, data = output.end()
        return data


def _changed(rows: Sequence[_Row | None], parts: Iterable[Part]) -> dict[int, list[_Span]]:
    """Return the spans of each row that `rows` do not show already."""
    changed: dict[int, list[_Span]] = {}
    for y, x, strip in parts:
        if not 0 <= y < len(rows):
            continue
        row = rows[y]
        old_span = row.get(x) if row is not None else None
        end, segments = x + strip.cell_length, list(strip)
        if x < end and (old_span is None or old_span.end != end or old_span.segments != segments):
            changed.setdefault(y, []).append(_Span(x, end, segments))
    return changed


def _overlay(before: _Row | None, spans: Sequence[_Span], width: int, colors: ColorSystem) -> _Row:
    """Return the row `before` with `spans` over it.

    Example: a span of columns 10 to 20 over a row with spans 0 to 79 and 79 to 80 gives the spans 0 to 10, 10 to 20,
    20 to 79 and 79 to 80.
    """
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
    """Return the columns from `start` up to `end` of a span, without segments, so that it equals no span of a frame.

    A wide character that the cut would halve becomes a blank.
    """
    texts, styles = _split_into_cells(span.runs(colors))
    cut = slice(start - span.x, end - span.x)
    cut_texts = texts[cut]
    # An empty text is the second cell of a wide character: its first cell is before the cut, or inside its end.
    if not cut_texts[0]:
        cut_texts[0] = " "
    if texts[cut.stop : cut.stop + 1] == [""]:
        cut_texts[-1] = " "
    return _Span(start, end, (), _group_runs(cut_texts, styles[cut]))


def _runs_of(segments: Iterable[Segment], width: int, colors: ColorSystem) -> list[Run]:
    """Return `segments` as runs that fill `width` cells: longer text is cut, shorter text is padded with blanks."""
    runs: list[Run] = []
    total = 0
    for text, rich_style, _ in segments:
        if text:
            style = style_of(rich_style, colors) if rich_style is not None else PLAIN
            # `cell_len` and `split_graphemes` disagree about a joiner at the start of a text.
            cells = split_graphemes(text)[1] if "\u200d" in text else cell_len(text)
            if cells or not runs:
                runs.append((text, style if text.strip(" ") else blank_style(style), cells))
            else:
                # Characters without width belong to the last character of the run before.
                last_text, last_style, last_cells = runs[-1]
                runs[-1] = (last_text + text, last_style, last_cells)
            total += cells
    if total < width:
        runs.append((" " * (width - total), PLAIN, width - total))
    elif total > width:
        return list(_cut_span(_Span(0, total, (), runs), 0, width, colors).runs(colors))
    return runs


def _split_into_cells(runs: Iterable[Run]) -> tuple[list[str], list[CellStyle]]:
    """Return the text and the style of each cell; the second cell of a wide character has an empty text.

    Example: the texts of a run "a漢b" of 4 cells are "a", "漢", "" and "b".

    Characters without width are in the cell before them; at the start of the row they are in the cell after them. Each
    run takes the number of cells it states, even if its characters would have another width next to each other.
    """
    texts: list[str] = []
    styles: list[CellStyle] = []
    leading = ""  # the characters without width at the start of the row
    for text, style, width in runs:
        styles += [style] * width
        if not leading and len(text) == width and text.isascii():
            texts += text
            continue
        if not width:
            leading += text
            continue
        run_end = len(texts) + width
        for start, end, cells in split_graphemes(text)[0]:
            if cells:
                texts += [leading + text[start:end], *([""] * (cells - 1))]
                leading = ""
            elif texts:
                # The last cell with a character: the first one of a wide character, whose second cell is empty.
                texts[-1 if texts[-1] else -2] += text[start:end]
            else:
                leading += text[start:end]
        texts += [" "] * (run_end - len(texts))
        if len(texts) > run_end:
            texts[run_end - 1 :] = ["".join(texts[run_end - 1 :])]
    return texts, styles


def _group_runs(texts: Sequence[str], styles: Sequence[CellStyle]) -> list[Run]:
    """Return cells as runs; blanks are separate from other text."""
    runs: list[Run] = []
    start = 0
    for (is_blank, style), group in groupby(zip(map(" ".__eq__, texts), styles, strict=True)):
        count = len(list(group))
        runs.append(("".join(texts[start : start + count]), blank_style(style) if is_blank else style, count))
        start += count
    return runs


_LOST_ROW_GAIN = -100
"""The gain of a row that a scroll moves although the frame does not change it: the row must be written again."""


def _find_scroll(before: Sequence[_Row | None], changed: Mapping[int, Sequence[_Span]]) -> _Scroll | None:
    """Return the scroll that leaves the least to write, None if none saves much.

    Example: a reply grows at the bottom of 20 rows. Rows 0 to 18 of the new frame have the text of the old rows 1 to
    19, so they gain their lengths by a shift of 1. The scroll is `_Scroll(0, 19, 1)`, and row 19 is written.
    """
    if len(changed) < 3 or None in before:
        return None
    # Rows are compared by the text of their widest span: that of the transcript, not of the scroll bar beside it.
    widest_spans = (max(spans, key=lambda span: span.end - span.x) for spans in changed.values())
    ((x, _count),) = Counter(span.x for span in widest_spans).most_common(1)
    old = [row[x].text if row is not None and x in row else "" for row in before]
    new = old.copy()
    for y, spans in changed.items():
        new[y] = next((span.text for span in spans if span.x == x), old[y])
    weights = {y: len(new[y].rstrip()) for y in changed}
    shift = _most_common_shift(old, new, weights)
    if not shift:
        return None
    gain, first, last = _best_range([_row_gain(old, new, weights, y, shift) for y in range(len(old))])
    # The rows that the scroll leaves blank: below the range if its text moves up, above it if the text moves down.
    new_rows = range(last + 1, last + shift + 1) if shift > 0 else range(first + shift, first)
    if gain + sum(_LOST_ROW_GAIN for y in new_rows if y not in weights) < MIN_SCROLL_GAIN:
        return None
    return _Scroll(min(first, first + shift), max(last, last + shift), shift)


def _most_common_shift(old: Sequence[str], new: Sequence[str], weights: Mapping[int, int]) -> int:
    """Return by how many rows most of the text has moved up; 0 if it has not."""
    rows_of_text: dict[str, list[int]] = {}
    for y, text in enumerate(old):
        rows_of_text.setdefault(text, []).append(y)
    shifts: Counter[int] = Counter()
    for y, weight in weights.items():
        old_rows = rows_of_text.get(new[y], ())
        # If many old rows have this text, as for a rule, the row that has moved is uncertain.
        if weight and len(old_rows) <= 4:
            for old_row in old_rows:
                shifts[old_row - y] += weight
    return shifts.most_common(1)[0][0] if shifts else 0


def _row_gain(old: Sequence[str], new: Sequence[str], weights: Mapping[int, int], y: int, shift: int) -> int:
    """Return the cells that a scroll by `shift` saves in row `y`."""
    is_right_after_scroll = 0 <= y + shift < len(old) and old[y + shift] == new[y]
    if y in weights:
        return weights[y] if is_right_after_scroll else 0
    return 0 if is_right_after_scroll else _LOST_ROW_GAIN


def _best_range(gains: Sequence[int]) -> tuple[int, int, int]:
    """Return the largest sum of consecutive gains, and the first and last index of it.

    Example: `_best_range([5, -100, 30, 40, 0])` is `(70, 2, 3)`.
    """
    best_total = best_first = best_last = 0
    total = first = 0
    for index, gain in enumerate(gains):
        if total <= 0:
            total, first = 0, index
        total += gain
        if total > best_total:
            best_total, best_first, best_last = total, first, index
    return best_total, best_first, best_last


def _scrolled(rows: Sequence[_Row | None], scroll: _Scroll) -> list[_Row | None]:
    """Return `rows` after the terminal has scrolled; the new rows are unknown."""
    region = list(rows[scroll.top : scroll.bottom + 1])
    unknown: list[_Row | None] = [None] * abs(scroll.shift)
    moved = region[scroll.shift :] + unknown if scroll.shift > 0 else unknown + region[: scroll.shift]
    return [*rows[: scroll.top], *moved, *rows[scroll.bottom + 1 :]]


def _differences(row: _Row, old: _Row, width: int, colors: ColorSystem) -> list[tuple[int, Sequence[Run]]]:
    """Return what to write so that the terminal shows `row` instead of `old`: columns and runs."""
    pairs: list[tuple[_Span, _Span]] = []  # new and old spans of the same columns
    for x, span in row.items():
        old_span = old.get(x)
        if old_span is None or old_span.end != span.end:
            pairs = [(_merge_row(row, width, colors), _merge_row(old, width, colors))]
            break
        if span is not old_span and span.segments != old_span.segments:
            pairs.append((span, old_span))
    changes = [change for span, old_span in pairs for change in _span_differences(span, old_span, colors)]
    if not changes:
        return []
    first_column, _ = changes[0]
    last_column, last_runs = changes[-1]
    unsure = min(_first_unsure(row, colors), _first_unsure(old, colors))
    if last_column + sum(cells for _, _, cells in last_runs) <= unsure:
        return changes
    # A character of uncertain width precedes the last change, and everything after it may be in another column than
    # planned: write the row from there, or from the first change, to its end.
    start = min(unsure, first_column)
    return [(start, _cut_span(_merge_row(row, width, colors), start, width, colors).runs(colors))]


def _merge_row(row: _Row, width: int, colors: ColorSystem) -> _Span:
    """Return the spans of a row as one span."""
    return _Span(0, width, (), [run for span in row.values() for run in span.runs(colors)])


@lru_cache(maxsize=4096)
def _is_sure(character: str) -> bool:
    """Return whether `character` has the same width in every terminal."""
    # In a range, an odd number of limits is not after the character: for "b", only the " " of " ~". For the last
    # character of a range the number is even, so it is looked up.
    return bisect_right(_SURE_RANGES, character) % 2 == 1 or character in _SURE_RANGES


def _first_unsure(row: _Row, colors: ColorSystem) -> int:
    """Return the first column with a character of uncertain width."""
    for span in row.values():
        runs = span.runs(colors)
        if not all(text.isascii() or all(map(_is_sure, text)) for text, _, _ in runs):
            texts, _ = _split_into_cells(runs)
            unsure = (index for index, text in enumerate(texts) if not all(map(_is_sure, text)))
            return span.x + next(unsure, 0)
    return MAX_COLUMN


def _span_differences(span: _Span, old_span: _Span, colors: ColorSystem) -> list[tuple[int, Sequence[Run]]]:
    """Return the cells of `span` that differ from `old_span`, which has the same columns, as columns and runs.

    Example: `2 of 10 files` in column 5 becomes `4 of 11 files`. The result is `4` in column 5 and `1` in column 11.
    Changes with at most `MAX_GAP` cells between them are one run, with these cells.
    """
    new, old = span.runs(colors), old_span.runs(colors)
    equal_at_start = equal_at_end = 0  # the numbers of equal runs
    column = span.x
    shorter = min(len(new), len(old))
    while equal_at_start < shorter and new[equal_at_start] == old[equal_at_start]:
        _, _, width = new[equal_at_start]
        column += width
        equal_at_start += 1
    while equal_at_end < shorter - equal_at_start and new[-1 - equal_at_end] == old[-1 - equal_at_end]:
        equal_at_end += 1
    texts, styles = _split_into_cells(new[equal_at_start : len(new) - equal_at_end])
    old_texts, old_styles = _split_into_cells(old[equal_at_start : len(old) - equal_at_end])
    ranges: list[list[int]] = []  # start and end
    for index, (text, old_text, style, old_style) in enumerate(zip(texts, old_texts, styles, old_styles, strict=True)):
        if text == old_text:
            if style is old_style or style == old_style:
                continue
            if text == " " and blank_style(style) == blank_style(old_style):
                continue
        if ranges and index - ranges[-1][1] <= MAX_GAP:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])
    changes: list[tuple[int, Sequence[Run]]] = []
    for start, end in ranges:
        # The second cell of a wide character has an empty text. It is written with the first one.
        while end < len(texts) and not texts[end]:
            end += 1
        changes.append((column + start, _group_runs(texts[start:end], styles[start:end])))
    return changes


class _Output:
    """Collects the escape sequences and the text of a frame.

    `terminal_style` is the style that is set in the terminal before the frame, None if unknown. The style stays set
    after a frame, because the next one mostly begins with it.
    """

    def __init__(
        self, width: int, colors: ColorSystem, *, terminal_style: CellStyle | None, erases_color: bool
    ) -> None:
        self.colors = colors
        self._width = width
        self._erases_color = erases_color
        self._chunks: list[str] = [] if terminal_style is not None else [RESET]
        self._terminal_style = terminal_style or PLAIN
        self._row = self._column = -1  # the position of the cursor; -1 if unknown
        self._clear_style: CellStyle | None = None  # the style of the new rows, if they were cleared together

    def scroll(self, scroll: _Scroll) -> None:
        """Move rows with the scroll region, by the sequences that every terminal has."""
        top, bottom = scroll.top + 1, scroll.bottom + 1
        move_up = f"\x1b[{bottom}H" + "\n" * scroll.shift
        move_down = f"\x1b[{top}H" + "\x1bM" * -scroll.shift
        move = move_up if scroll.shift > 0 else move_down
        self._chunks.append(f"\x1b[{top};{bottom}r{move}\x1b[r")

    def clear(self, rows: Mapping[int, _Row]) -> None:
        """Clear `rows` together, in the style of their start, if at least two of them have text on another background.

        Example: rows of code, whose margins have the color of the screen. If each row was cleared just before it is
        written, the style would change more often.
        """
        styles_of_rows = [
            [blank_style(style) for span in row.values() for _, style, _ in span.runs(self.colors)]
            for row in rows.values()
        ]
        fills = {styles[0] for styles in styles_of_rows}
        if len(fills) != 1:
            return
        (fill,) = fills
        mixed_rows = sum(any(style != fill for style in styles[:-1]) for styles in styles_of_rows)
        if mixed_rows < 2 or not self._can_erase(fill):
            return
        for y in rows:
            self._clear_row(y, fill)
        self._clear_style = fill

    def _clear_row(self, y: int, fill: CellStyle) -> None:
        self._move(y, 0)
        self._set_style(nearest_blank_style(self._terminal_style, fill))
        self._chunks.append("\x1b[K")

    def write_row(self, y: int, row: _Row, old: _Row | None) -> None:
        """Write the cells of `row` that differ from what the terminal shows there."""
        if old is None:
            self._write_new_row(y, [run for span in row.values() for run in span.runs(self.colors)])
        elif row is not old:
            for column, runs in _differences(row, old, self._width, self.colors):
                self._move(y, column)
                self._write(runs)

    def _write_new_row(self, y: int, runs: Sequence[Run]) -> None:
        """Write a row whose contents on the screen are unknown: clear it, and write the text that is not blank.

        It is cleared in the style of its end. Example: ` done` in a row of 120 cells is `CSI K`, a blank and `done`.
        """
        fill = self._clear_style
        if fill is None:
            last_text, last_style, _ = runs[-1]
            fill = blank_style(last_style)
            if not (last_text.endswith(" ") and self._can_erase(fill)):
                self._move(y, 0)
                self._write(runs)
                return
            self._clear_row(y, fill)
        column = 0
        for index, (text, style, cells) in enumerate(runs):
            is_like_fill = blank_style(style) == fill
            blanks = len(text) - len(text.rstrip(" ")) if is_like_fill else 0
            if blanks < cells:
                self._skip_blanks(y, column, fill)
                if not text.isascii() and not all(map(_is_sure, text)):
                    self._write(runs[index:])
                    return
                self._write([(text[: len(text) - blanks], style, cells - blanks)])
            column += cells

    def _skip_blanks(self, y: int, column: int, fill: CellStyle) -> None:
        """Move the cursor to `column`, over cells that are blank in the style `fill`."""
        gap = column - self._column
        if 0 < gap <= MAX_GAP and self._row == y:
            self._set_style(nearest_blank_style(self._terminal_style, fill))
            self._chunks.append(" " * gap)
            self._column = column
        else:
            self._move(y, column)

    def end(self) -> tuple[CellStyle, str]:
        """Return the style that is set after the output, which is never a link, and the output."""
        self._set_style(CellStyle(self._terminal_style.sgr))
        return self._terminal_style, "".join(self._chunks)

    def _move(self, y: int, column: int) -> None:
        """Move the cursor to row `y` and `column`, by the shortest sequence."""
        if (y, column) == (self._row, self._column):
            return
        if column and y == self._row:
            move = f"\x1b[{column - self._column}C"
        elif not column and y == self._row + 1 and self._row >= 0:
            move = "\r\n"
        else:
            move = f"\x1b[{y + 1};{column + 1}H" if column else f"\x1b[{y + 1}H"
        self._chunks.append(move)
        self._row, self._column = y, column

    def _write(self, runs: Sequence[Run]) -> None:
        """Write `runs` at the cursor."""
        text, style, cells = runs[-1]
        visible = text.rstrip(" ")
        if visible and len(text) - len(visible) >= MIN_ERASED:
            blanks = len(text) - len(visible)
            runs = [*runs[:-1], (visible, style, cells - blanks), (" " * blanks, blank_style(style), blanks)]
        last = len(runs) - 1
        for index, (text, style, cells) in enumerate(runs):
            if text[0] != " " or text.strip(" "):  # it is not blank; the first test decides most texts
                self._set_style(style)
                self._chunks.append(text)
                if not text.isascii() and not all(map(_is_sure, text)):
                    self._row = -1  # the column of the cursor is not certain
            else:
                self._set_style(nearest_blank_style(self._terminal_style, style))
                if not self._can_erase(style) or cells < (MIN_ERASED if index == last else MIN_SKIPPED):
                    self._chunks.append(text)
                elif index == last:
                    self._chunks.append("\x1b[K" if self._column + cells == self._width else f"\x1b[{cells}X")
                    return
                else:
                    self._chunks.append(f"\x1b[{cells}X\x1b[{cells}C")
            self._column += cells

    def _can_erase(self, style: CellStyle) -> bool:
        return not style.link and attributes_of(style.sgr).keys() <= ({"bg"} if self._erases_color else set())

    def _set_style(self, style: CellStyle) -> None:
        """Change to the style `style`."""
        if style != self._terminal_style:
            self._chunks.append(change_style(self._terminal_style, style))
            self._terminal_style = style


def erases_color(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal gives erased cells the current background color; GNU Screen and Emacs do not."""
    kind = environ.get("TERM", "").partition("-")[0]
    return kind not in ("dumb", "eterm", "unknown") and not (kind == "screen" and not environ.get("TMUX"))
