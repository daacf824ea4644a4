"""The rows of every list to pick from, and the widget that paints as many as fit. Knows nothing of what they stand for.

It takes no focus and no keys: `finder` moves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from qcode.tui.fuzzy import match
from qcode.tui.text import one_line, shorten

_LABEL_SHARE = 0.6
_SCREEN_SHARE = 0.55
_GAP = 2
_MARKS = 4
_LEAST_LABEL = 20
_LEAST_TEXT = 9
_LEAST_DETAIL = 12


@dataclass(frozen=True, slots=True)
class Row:
    """Something to pick. `label` and `detail` are its columns; `is_current` marks the one in use.

    `cells` are columns between them, as the list was given `Column`s. `also` is found by the filter and not shown.
    Rows of one `group` stand together below it as a heading. `is_dim`: it can be picked, but not used as it is.
    """

    id: str
    label: str
    detail: str = ""
    is_current: bool = False
    cells: tuple[str, ...] = ()
    also: str = ""
    group: str = ""
    is_dim: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of cells. Where room is short text is cut, then the columns of the lowest `weight` are left out."""

    title: str
    weight: int = 0
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class _Shape:
    """How wide each part is at one width; columns that do not fit are not in `cells`."""

    label: int
    cells: Mapping[int, int]
    detail: int


class PickerList(Widget):
    """The rows that fit, one of them highlighted."""

    @dataclass
    class Clicked(Message):
        """A row was clicked."""

        index: int

    def __init__(self, columns: Sequence[Column] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.index = 0
        self._columns = tuple(columns)
        self._has_head = any(column.title for column in columns)
        self._query = ""
        self._lines: list[int | str] = []
        self._first = 0
        self._widest: tuple[int, tuple[int, ...], bool] = (0, (), False)

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
        return self.rows[self.index] if self.rows else None

    @property
    def page(self) -> int:
        """How far a page goes."""
        return max(1, self.size.height - 1 - self._has_head)

    def offer(self, rows: Sequence[Row], query: str, index: int) -> None:
        """Show `rows`, which `query` has found, with the one at `index` highlighted."""
        self.rows, self._query = rows, query
        self.index = max(0, min(index, len(rows) - 1))
        self._lines = []
        for place, row in enumerate(rows):
            if row.group and (place == 0 or rows[place - 1].group != row.group):
                self._lines.append(row.group)
            self._lines.append(place)
        self._widest = _widest(rows, self._columns)
        self.refresh(layout=True)

    def move_to(self, index: int) -> None:
        self.index = max(0, min(index, len(self.rows) - 1))
        self.refresh()

    def get_content_height(self, container: object, viewport: Size, width: int) -> int:
        """Return the height of all rows, or of a little more than half the screen: the app goes on above it.

        Not as a style: Textual forgets the largest height of a widget two containers down.
        """
        return max(1, min(len(self._lines) + self._has_head, int(viewport.height * _SCREEN_SHARE)))

    def render(self) -> Content:
        width = self.size.width
        if not self.rows:
            return Content("")
        shape = self._shape(width)
        head = [self._head(shape, width)] if self._has_head else []
        height = max(1, self.size.height - len(head))
        at = self._lines.index(self.index)
        # The heading of the first row comes into view with it.
        top = 0 if self.index == 0 else at
        self._first = max(at - height + 1, min(self._first, top, len(self._lines) - height), 0)
        shown = self._lines[self._first : self._first + height]
        return Content("\n").join([*head, *(self._line(line, shape, width) for line in shown)])

    def on_click(self, event: events.Click) -> None:
        place = self._first + event.y - self._has_head
        line = self._lines[place] if 0 <= place < len(self._lines) else ""
        if isinstance(line, int):
            self.post_message(self.Clicked(line))

    def _shape(self, width: int) -> _Shape:
        room = max(1, width - _MARKS)
        longest, cells, has_detail = self._widest
        kept: dict[int, int] = {}
        left = room - min(longest, _LEAST_LABEL)
        for at in sorted(range(len(cells)), key=lambda at: -self._columns[at].weight):
            room_for_it = min(cells[at], left - _GAP)
            least = cells[at] if self._columns[at].is_number else min(cells[at], _LEAST_TEXT)
            if cells[at] and room_for_it >= least:
                kept[at] = room_for_it
                left -= room_for_it + _GAP
        spent = sum(cells + _GAP for cells in kept.values())
        label = max(1, min(longest, int((room - spent) * _LABEL_SHARE)))
        detail = room - label - spent - _GAP
        if not has_detail or detail < _LEAST_DETAIL:
            label, detail = max(1, min(longest, room - spent)), 0
        return _Shape(label, dict(sorted(kept.items())), detail)

    def _head(self, shape: _Shape, width: int) -> Content:
        cells = [_aligned(self._columns[at].title, room, self._columns[at]) for at, room in shape.cells.items()]
        text = " " * (_MARKS + shape.label) + "".join(" " * _GAP + cell for cell in cells)
        return Content.styled(text.rstrip(), "$muted").truncate(width, ellipsis=True)

    def _line(self, line: int | str, shape: _Shape, width: int) -> Content:
        if isinstance(line, str):
            return Content.styled(shorten(line, width), "bold $muted")
        row, is_chosen = self.rows[line], line == self.index
        label = self._found(shorten(row.label, shape.label))
        style = "bold $text-accent" if is_chosen else "$muted" if row.is_dim else ""
        content = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"),
            ("● " if row.is_current else "  ", "$text-success"),
            label.stylize_before(style),
            " " * (shape.label - label.cell_length),
        )
        for at, room in shape.cells.items():
            cell = row.cells[at] if at < len(row.cells) else ""
            content = Content.assemble(content, " " * _GAP, (_aligned(cell, room, self._columns[at]), "$muted"))
        if row.detail and shape.detail > 0:
            content = Content.assemble(content, " " * _GAP, (shorten(row.detail, shape.detail), "$muted"))
        return content.rstrip().truncate(width, ellipsis=True)

    def _found(self, label: str) -> Content:
        """Return `label` with the letters underlined that the query has found in it."""
        content = Content(label)
        for word in self._query.split():
            found = match(word, label)
            for place in found.places if found is not None else ():
                content = content.stylize("underline", place, place + 1)
        return content


def _widest(rows: Sequence[Row], columns: Sequence[Column]) -> tuple[int, tuple[int, ...], bool]:
    """Return how wide label and cells would be, each cell 0 where no row has one, and whether there is a detail."""
    label = max((cell_len(one_line(row.label)) for row in rows), default=0)
    cells = [
        max((cell_len(row.cells[at]) for row in rows if at < len(row.cells)), default=0) for at in range(len(columns))
    ]
    wide = tuple(max(cell, cell_len(column.title)) if cell else 0 for cell, column in zip(cells, columns, strict=True))
    return label, wide, any(row.detail for row in rows)


def _aligned(text: str, cells: int, column: Column) -> str:
    text = shorten(text, cells) if text else ""
    spaces = " " * (cells - cell_len(text))
    return spaces + text if column.is_number else text + spaces
