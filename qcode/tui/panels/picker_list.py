"""The list of a picker: rows with columns, groups with headings, and a highlight that follows the mouse.

`PickerList` paints the visible rows. It has no focus and handles no keys; `picker.Finder` moves its highlight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from qcode.text.clean import one_line
from qcode.text.match import match
from qcode.tui.shared_widgets import chosen_style, overflow_mark
from qcode.tui.transcript.line import shorten, shorten_start, shorten_title, shorten_to_words

_LABEL_SHARE = 0.6
SCREEN_SHARE, _LOW_SCREEN_SHARE = 0.55, 0.45
"""The share of the screen that a list takes at most."""
_FULL_HEIGHT = 24
"""On a screen with fewer rows the list takes `_LOW_SCREEN_SHARE`: a low, narrow screen needs rows for wrapped hints."""
_MIN_APP_ROWS = 6
"""Fewer rows of the app above a long list say nothing, so a list with `fills_screen` takes them."""
_GAP_CELLS = 2
_MARK_CELLS = 4
"""The width of the marks before a label: highlighted, in use."""
MIN_LABEL = 20
"""The default of `min_label`, in cells."""
_MIN_DETAIL_CELLS = 12
_MIN_LINES = 2
_MIN_PINNED_LINES = 4
"""A list with fewer lines does not keep the heading of a scrolled group in view."""
_CUT_TIME = re.compile(r" at…$")
"""Matches the word before a time that was cut: `added by you at…`."""


LabelCut: TypeAlias = Literal["letters", "words", "start"]
"""How a label is cut: anywhere, as in a command; between words, as in a title; or at its start, as in a path."""
_CUTS: Mapping[LabelCut, Callable[[str, int], str]] = {
    "letters": shorten,
    "words": shorten_title,
    "start": shorten_start,
}


@dataclass(frozen=True, slots=True)
class PickerRow:
    """A row of a picker."""

    id: str
    label: str
    """The first column. If it is too long, it is cut as `cut` names."""
    detail: str = ""
    """A description in the last column. In a narrow list it is cut between words; a fact belongs in a cell."""
    is_current: bool = False
    """This value is in use; the row gets a mark."""
    cells: tuple[str, ...] = ()
    """The columns between label and detail, described by `Column`s."""
    search_text: str = ""
    """Hidden text that the filter also searches."""
    group: str = ""
    """The heading under which the rows of one group are listed."""
    is_dim: bool = False
    """The row is muted, because picking it needs another step first, such as a key."""
    is_summary: bool = False
    """The row is not one of the listed things, such as `All changes` above the changes. It is not counted."""
    cut: LabelCut = "letters"
    names: tuple[str, ...] = ()
    """If the filter is the start of one of these names, the row comes before all others."""


def count_rows(rows: Sequence[PickerRow]) -> int:
    """Return the number of rows, without summaries."""
    return sum(not row.is_summary for row in rows)


def time_labels(times: Sequence[str]) -> list[str]:
    """Format ISO 8601 times in local time: `14:03`, or `Nov 20 14:03` if they are on several days; "" if invalid."""
    local_times = [_local_time(time) for time in times]
    days = {time.date() for time in local_times if time is not None}
    time_format = "%H:%M" if len(days) < 2 else "%b %d %H:%M"
    return ["" if time is None else time.strftime(time_format) for time in local_times]


def _local_time(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time).astimezone()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of cells. In a narrow list, the columns with the lowest `weight` are dropped."""

    title: str
    weight: int = 0
    is_number: bool = True
    min_width: int = 0
    """The number of cells to which texts may be cut before the column is dropped; 0: they are never cut."""


@dataclass(frozen=True, slots=True)
class _ColumnWidths:
    """The width of each column, for one width of the list."""

    label: int
    cells: Mapping[int, int]
    """The widths of the columns between label and detail, by index. Dropped columns are missing."""
    detail: int


@dataclass(frozen=True, slots=True)
class _TextWidths:
    """The widths of the texts of all rows."""

    label: int = 0
    """The width of the widest label."""
    cells: tuple[int, ...] = ()
    """The width of each column with its title; 0 for a column without cells."""
    detail: int = 0
    """The width of the widest detail."""
    usual_detail: int = 0
    """The width that suffices for three quarters of the rows, at least `_MIN_DETAIL_CELLS` if any row has a detail."""

    @classmethod
    def of(cls, rows: Sequence[PickerRow], columns: Sequence[Column]) -> _TextWidths:
        label = max((cell_len(one_line(row.label)) for row in rows), default=0)
        cells = [
            max((cell_len(row.cells[index]) for row in rows if index < len(row.cells)), default=0)
            for index in range(len(columns))
        ]
        with_titles = tuple(
            max(cell, cell_len(column.title)) if cell else 0 for cell, column in zip(cells, columns, strict=True)
        )
        details = sorted(cell_len(one_line(row.detail)) for row in rows) or [0]
        widest, third_quartile = details[-1], details[(len(details) - 1) * 3 // 4]
        usual = max(third_quartile, min(widest, _MIN_DETAIL_CELLS))
        return cls(label, with_titles, widest, usual)


class PickerList(Widget):
    """The list of rows, of which one is highlighted. It scrolls so that the highlight is in view."""

    @dataclass
    class Clicked(Message):
        """The user clicked a row."""

        index: int

    @dataclass
    class Hovered(Message):
        """The mouse moved to another row."""

        index: int

    def __init__(self, columns: Sequence[Column] = (), *, min_label: int = MIN_LABEL, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[PickerRow] = ()
        self.index = 0
        self.rows_around = 0
        """The number of rows that other widgets of the screen need; the list takes at most the others."""
        self.fills_screen = False
        """A long list leaves only as many rows to the app above it as are enough to recognize it, or none."""
        self._columns = tuple(columns)
        self._min_label = min_label
        """The width that the columns leave to the labels, unless all labels are narrower."""
        self._query = ""
        self._lines: list[int | str] = []  # all lines: the index of a row, or the heading of a group
        self._first = 0  # the index of the first line in view
        self._shown_lines: list[int | str] = []
        self._text_widths = _TextWidths()

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        return self.rows[self.index] if self.rows else None

    @property
    def page(self) -> int:
        """The number of rows that a page key moves."""
        return max(1, self._view_lines - 1)

    @property
    def _view_lines(self) -> int:
        """The number of lines in view. If not all lines fit, the last row of the widget shows the overflow instead."""
        height = max(1, self.size.height - self._header_rows(self.size.width))
        return height - (1 < height < len(self._lines))

    def set_rows(self, rows: Sequence[PickerRow], query: str, index: int) -> None:
        """Show `rows`, the matches of `query`, with the row at `index` highlighted."""
        self.rows = rows
        self._query = query
        self.index = max(0, min(index, len(rows) - 1))
        self._lines = []
        for position, row in enumerate(rows):
            if row.group and (position == 0 or rows[position - 1].group != row.group):
                self._lines.append(row.group)
            self._lines.append(position)
        self._text_widths = _TextWidths.of(rows, self._columns)
        self.refresh(layout=True)

    def move_to(self, index: int) -> None:
        self.index = max(0, min(index, len(self.rows) - 1))
        self.refresh()

    def get_content_height(self, container: object, viewport: Size, width: int) -> int:
        """Return the height of all rows, at most a share of the screen, so that the app stays visible above the list.

        The limit is not a style, because Textual ignores the `max-height` of a widget inside two containers.
        """
        share = SCREEN_SHARE if viewport.height >= _FULL_HEIGHT else _LOW_SCREEN_SHARE
        share_rows = int(viewport.height * share)
        free_rows = viewport.height - self.rows_around
        takes_all = self.fills_screen and free_rows - share_rows < _MIN_APP_ROWS
        max_height = max(_MIN_LINES, free_rows if takes_all else min(share_rows, free_rows))
        return max(1, min(len(self._lines) + self._header_rows(width), max_height))

    def render(self) -> Content:
        width = self.size.width
        if not self.rows:
            return Content("")
        widths = self._column_widths(width)
        header = [self._header(widths, width)] if self._header_rows(width) else []
        lines = self._scrolled_lines(self._view_lines)
        if isinstance(lines[-1], str):
            lines.pop()  # a heading whose rows are all below
        self._shown_lines = lines
        content = [*header, *(self._line(line, widths, width) for line in lines)]
        if len(lines) < len(self._lines):
            row_indexes = [line for line in lines if isinstance(line, int)]
            first = row_indexes[0] if row_indexes else 0
            shown = self.rows[first : first + len(row_indexes)]
            mark = overflow_mark(count_rows(self.rows[:first]), count_rows(shown), count_rows(self.rows))
            content.append(Content.styled(" " * _MARK_CELLS + mark, "$muted").truncate(width, ellipsis=True))
        return Content("\n").join(content)

    def _scrolled_lines(self, height: int) -> list[int | str]:
        """Return the lines to show. The heading of the first row stays in view when its group scrolls."""
        first = self._lines[self._scrolled_to(height)]
        is_pinned = height >= _MIN_PINNED_LINES and isinstance(first, int) and bool(self.rows[first].group)
        self._first = self._scrolled_to(height - is_pinned)
        first = self._lines[self._first]
        if is_pinned and isinstance(first, int):
            return [self.rows[first].group, *self._lines[self._first : self._first + height - 1]]
        return self._lines[self._first : self._first + height]

    def _scrolled_to(self, height: int) -> int:
        """Return the index of the first line to show.

        Scroll as little as possible. Example: lines 2 to 5 of 10 are visible. A move to line 6 shows lines 3 to 6, and
        a move to line 1 then shows lines 1 to 4. The first row also scrolls its heading into view.
        """
        highlighted = self._lines.index(self.index)
        top = 0 if self.index == 0 else highlighted
        return max(highlighted - height + 1, min(self._first, top, len(self._lines) - height), 0)

    def _row_at(self, y: int) -> int | None:
        """Return the index of the row at a line of the widget, None for a heading or a blank line."""
        position = y - self._header_rows(self.size.width)
        line = self._shown_lines[position] if 0 <= position < len(self._shown_lines) else ""
        return line if isinstance(line, int) else None

    def on_click(self, event: events.Click) -> None:
        if (index := self._row_at(event.y)) is not None:
            self.post_message(self.Clicked(index))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if (index := self._row_at(event.y)) not in (None, self.index):
            self.post_message(self.Hovered(index))

    def cuts_details(self, width: int) -> bool:
        """Return whether a list of `width` cells cuts or drops details."""
        return self._column_widths(width).detail < self._text_widths.detail

    def _column_widths(self, width: int) -> _ColumnWidths:
        total = max(1, width - _MARK_CELLS)
        texts = self._text_widths
        cells = self._cell_widths(total - min(texts.label, self._min_label))
        remaining = total - sum(cell_width + _GAP_CELLS for cell_width in cells.values())
        # A label gets its share, and the cells that most details do not need: one long detail must not cut all labels.
        label = max(int(remaining * _LABEL_SHARE), remaining - _GAP_CELLS - texts.usual_detail)
        label = min(texts.label, label)
        detail = min(texts.detail, remaining - label - _GAP_CELLS)
        if texts.detail == 0 or detail < min(texts.detail, _MIN_DETAIL_CELLS):
            # There are no details, or they would be cut too much to be read: the label gets their cells.
            label, detail = min(texts.label, remaining), 0
        return _ColumnWidths(max(1, label), cells, detail)

    def _cell_widths(self, free_width: int) -> dict[int, int]:
        """Return the widths of the columns between label and detail, by index.

        The most important columns take their width first. A column that does not fit is cut or dropped.
        """
        widths: dict[int, int] = {}
        full_widths = self._text_widths.cells
        for index in sorted(range(len(full_widths)), key=lambda index: -self._columns[index].weight):
            full_width, min_width = full_widths[index], self._columns[index].min_width
            if not full_width:
                continue  # a column without cells
            cell_width = min(full_width, free_width - _GAP_CELLS)
            if cell_width < (min(full_width, min_width) if min_width else full_width):
                break
            widths[index] = cell_width
            free_width -= cell_width + _GAP_CELLS
        return dict(sorted(widths.items()))

    def _header_rows(self, width: int) -> int:
        """Return 1 if the list has a row of column titles; 0 if no column has a title or fits into `width` cells."""
        return int(any(self._columns[index].title for index in self._column_widths(width).cells))

    def _header(self, widths: _ColumnWidths, width: int) -> Content:
        cells = [
            _aligned(self._columns[index].title, cell_width, self._columns[index])
            for index, cell_width in widths.cells.items()
        ]
        text = " " * (_MARK_CELLS + widths.label) + "".join(" " * _GAP_CELLS + cell for cell in cells)
        return Content.styled(text.rstrip(), "$muted").truncate(width, ellipsis=True)

    def _line(self, line: int | str, widths: _ColumnWidths, width: int) -> Content:
        """Paint a line of `_lines`: the heading of a group, or a row."""
        if isinstance(line, str):
            return Content.styled(shorten_title(line, width), "bold $muted")
        row, is_chosen = self.rows[line], line == self.index
        label = self._underlined(_CUTS[row.cut](row.label, widths.label))
        style = "$muted" if row.is_dim else ""
        if is_chosen:
            style = chosen_style(self)
        content = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"),
            ("● " if row.is_current else "  ", "$text-success"),
            label.stylize_before(style),
            " " * (widths.label - label.cell_length),
        )
        for index, cell_width in widths.cells.items():
            cell = row.cells[index] if index < len(row.cells) else ""
            content = Content.assemble(
                content, " " * _GAP_CELLS, (_aligned(cell, cell_width, self._columns[index]), "$muted")
            )
        if row.detail and widths.detail > 0:
            detail = _CUT_TIME.sub("…", shorten_to_words(row.detail, widths.detail))
            content = Content.assemble(content, " " * _GAP_CELLS, (detail, "$muted"))
        return content.rstrip().truncate(width, ellipsis=True)

    def _underlined(self, label: str) -> Content:
        """Return `label` with the letters that match the query underlined."""
        content = Content(label)
        for word in self._query.split():
            word_match = match(word, label)
            for position in word_match.positions if word_match is not None else ():
                content = content.stylize("underline", position, position + 1)
        return content


def _aligned(text: str, cells: int, column: Column) -> str:
    text = shorten_to_words(text, cells) if text else ""
    spaces = " " * (cells - cell_len(text))
    return spaces + text if column.is_number else text + spaces
