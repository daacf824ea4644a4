"""The base of all pickers: a modal screen with title, filter, rows and the available keys.

A picker is generic: its result is the id of a row, or None if the user closed it. Override `show_row` to react to the
highlight, and `take` to react to Enter. `Finder` combines filter and rows; it leaves Esc to its screen. `PickerList`
paints the visible rows and takes neither focus nor keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeAlias, TypeVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from qcode.text.clean import one_line
from qcode.text.match import fold, match, rank
from qcode.tui.transcript.line import shorten
from qcode.tui.widgets import SteadyInput, foot, overflow_mark

Result = TypeVar("Result")


_FOOT_ROWS, _MIN_HEIGHT = 3, 14
"""On a lower screen the keys have one row."""
_LABEL_SHARE = 0.6
_SCREEN_SHARE, _LOW_SCREEN_SHARE = 0.55, 0.45
_FULL_HEIGHT = 24
"""On a lower screen the list leaves more rows to the description and the keys, which wrap if it is narrow, too."""
_GAP = 2
_MARKS = 4
_MIN_LABEL = 20
_MIN_TEXT = 9
_MIN_DETAIL = 12
_MIN_PINNED = 4
"""A list with fewer lines has no room for the heading of a group that scrolls."""


@dataclass(frozen=True, slots=True)
class PickerRow:
    """A row of a picker. `label` and `detail` are its first and last column; `is_current` marks the one in use.

    `cells` are the columns between them, described by `Column`s. The filter also searches the hidden text `also`. Rows
    of one `group` are listed together under that heading. `is_dim`: it can be picked, but needs another step first. A
    row with one of `names` that starts with the filter comes before all others.
    """

    id: str
    label: str
    detail: str = ""
    is_current: bool = False
    cells: tuple[str, ...] = ()
    also: str = ""
    group: str = ""
    is_dim: bool = False
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of cells. In a narrow list text is cut first, then the columns with the lowest `weight` are dropped."""

    title: str
    weight: int = 0
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class _Shape:
    """The width of each part at one width of the list. Dropped columns are not in `cells`."""

    label: int
    cells: Mapping[int, int]
    detail: int


class PickerList(Widget):
    """The visible rows, one of them highlighted."""

    @dataclass
    class Clicked(Message):
        """The user clicked a row."""

        index: int

    @dataclass
    class Hovered(Message):
        """The mouse moved to another row."""

        index: int

    def __init__(self, columns: Sequence[Column] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[PickerRow] = ()
        self.index = 0
        self._columns = tuple(columns)
        self._has_head = any(column.title for column in columns)
        self._query = ""
        self._lines: list[int | str] = []
        self._first = 0
        self._shown_lines: list[int | str] = []
        self._max_widths: tuple[int, tuple[int, ...], bool] = (0, (), False)

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        return self.rows[self.index] if self.rows else None

    @property
    def page(self) -> int:
        """The number of rows that a page key moves."""
        return max(1, self._room - 1)

    @property
    def _room(self) -> int:
        """The number of lines that fit. If that is not all of them, the last row says so."""
        height = max(1, self.size.height - self._has_head)
        return height - (1 < height < len(self._lines))

    def offer(self, rows: Sequence[PickerRow], query: str, index: int) -> None:
        """Show `rows`, the matches of `query`, with the one at `index` highlighted."""
        self.rows, self._query = rows, query
        self.index = max(0, min(index, len(rows) - 1))
        self._lines = []
        for position, row in enumerate(rows):
            if row.group and (position == 0 or rows[position - 1].group != row.group):
                self._lines.append(row.group)
            self._lines.append(position)
        self._max_widths = _max_widths(rows, self._columns)
        self.refresh(layout=True)

    def move_to(self, index: int) -> None:
        self.index = max(0, min(index, len(self.rows) - 1))
        self.refresh()

    def get_content_height(self, container: object, viewport: Size, width: int) -> int:
        """Return the height of all rows, at most a little more than half the screen, so the app stays visible above.

        Not as a style: Textual loses `max-height` of a widget two containers down.
        """
        share = _SCREEN_SHARE if viewport.height >= _FULL_HEIGHT else _LOW_SCREEN_SHARE
        return max(1, min(len(self._lines) + self._has_head, int(viewport.height * share)))

    def render(self) -> Content:
        width = self.size.width
        if not self.rows:
            return Content("")
        shape = self._shape(width)
        head = [self._head(shape, width)] if self._has_head else []
        lines = self._shown_lines = self._scrolled_lines(self._room)
        content = [*head, *(self._line(line, shape, width) for line in lines)]
        if len(lines) < len(self._lines):
            shown = [line for line in lines if isinstance(line, int)]
            mark = overflow_mark(shown[0] if shown else 0, len(shown), len(self.rows))
            content.append(Content.styled(" " * _MARKS + mark, "$muted").truncate(width, ellipsis=True))
        return Content("\n").join(content)

    def _scrolled_lines(self, height: int) -> list[int | str]:
        """Return the lines to show. The heading of the first row stays in view when its group scrolls."""
        first = self._lines[self._scrolled_to(height)]
        is_pinned = height >= _MIN_PINNED and isinstance(first, int) and bool(self.rows[first].group)
        self._first = self._scrolled_to(height - is_pinned)
        first = self._lines[self._first]
        if is_pinned and isinstance(first, int):
            return [self.rows[first].group, *self._lines[self._first : self._first + height - 1]]
        return self._lines[self._first : self._first + height]

    def _scrolled_to(self, height: int) -> int:
        """Return the first line to show.

        Scroll as little as possible. With 10 lines, 4 of them visible from line 2 on, moving to line 6 shows lines 3 to
        6, and moving back to line 1 shows lines 1 to 4. The first row also scrolls its heading into view.
        """
        at = self._lines.index(self.index)
        top = 0 if self.index == 0 else at
        return max(at - height + 1, min(self._first, top, len(self._lines) - height), 0)

    def _row_at(self, y: int) -> int | None:
        """Return the index of the row at a line of the widget, None for a heading or a blank."""
        at = y - self._has_head
        line = self._shown_lines[at] if 0 <= at < len(self._shown_lines) else ""
        return line if isinstance(line, int) else None

    def on_click(self, event: events.Click) -> None:
        if (index := self._row_at(event.y)) is not None:
            self.post_message(self.Clicked(index))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if (index := self._row_at(event.y)) not in (None, self.index):
            self.post_message(self.Hovered(index))

    def _shape(self, width: int) -> _Shape:
        room = max(1, width - _MARKS)
        longest, cells, has_detail = self._max_widths
        heights: dict[int, int] = {}
        # The most important columns take their width first. A number that does not fit is dropped, a text is cut.
        left = room - min(longest, _MIN_LABEL)
        for at in sorted(range(len(cells)), key=lambda at: -self._columns[at].weight):
            room_for_it = min(cells[at], left - _GAP)
            least = cells[at] if self._columns[at].is_number else min(cells[at], _MIN_TEXT)
            if cells[at] and room_for_it >= least:
                heights[at] = room_for_it
                left -= room_for_it + _GAP
        spent = sum(cells + _GAP for cells in heights.values())
        label = max(1, min(longest, int((room - spent) * _LABEL_SHARE)))
        detail = room - label - spent - _GAP
        if not has_detail or detail < _MIN_DETAIL:
            label, detail = max(1, min(longest, room - spent)), 0
        return _Shape(label, dict(sorted(heights.items())), detail)

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
        """Return `label` with the letters that match the query underlined."""
        content = Content(label)
        for word in self._query.split():
            found = match(word, label)
            for place in found.places if found is not None else ():
                content = content.stylize("underline", place, place + 1)
        return content


def _max_widths(rows: Sequence[PickerRow], columns: Sequence[Column]) -> tuple[int, tuple[int, ...], bool]:
    """Return the widest label, the widest cell of each column (0 if it is empty), and whether there are details."""
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


Unlisted: TypeAlias = Callable[[str, Sequence[PickerRow]], tuple[PickerRow, bool] | None]
"""Makes a row of typed text that is not in the list, such as a model's name; True puts it before the others."""


class Finder(Vertical):
    """A filter with the rows of `offer` below it.

    `empty` is the message if there are no rows, `missed` if none matches the filter. `unlisted` may add a row. Without
    the filter the rows take the focus.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", "Up", priority=True, show=False),
        Binding("down,ctrl+n", "move(1)", "Down", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
        Binding("home,ctrl+home", "first", "First", priority=True, show=False),
        Binding("end,ctrl+end", "last", "Last", priority=True, show=False),
        Binding("enter", "choose", "Select", show=False),
    ]

    @dataclass
    class Picked(Message):
        """The user picked a row."""

        row: PickerRow

    @dataclass
    class Missed(Message):
        """The user pressed Enter with a filter that matches nothing."""

        typed_text: str

    @dataclass
    class Moved(Message):
        """Another row is highlighted, or none."""

        row: PickerRow | None

    @dataclass
    class Filtered(Message):
        """The visible rows have changed."""

    def __init__(
        self, columns: Sequence[Column] = (), *, empty: str = "", has_filter: bool = True, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.empty = empty
        self._has_filter = has_filter
        self.can_focus = not has_filter
        self.missed = "No match. Esc clears the filter."
        self.unlisted: Unlisted = lambda typed, rows: None
        self._all: tuple[PickerRow, ...] = ()
        self._is_loose = True
        self._list = PickerList(columns)
        self._shown_row_id: str | None = ""

    def compose(self) -> ComposeResult:
        if self._has_filter:
            yield SteadyInput(placeholder="Type to filter", classes="finder-query", compact=True)
        yield self._list
        yield Static(classes="finder-empty", markup=False)

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        return self._list.row

    @property
    def rows(self) -> tuple[PickerRow, ...]:
        """The rows that match the filter, in the order they are shown."""
        return tuple(self._list.rows)

    @property
    def index(self) -> int:
        return self._list.index

    @property
    def count(self) -> int:
        """The number of rows without the filter."""
        return len(self._all)

    @property
    def typed(self) -> str:
        return self._query.value if self._has_filter else ""

    @property
    def _query(self) -> Input:
        return self.query_one(".finder-query", Input)

    def offer(self, rows: Sequence[PickerRow], highlighted: str = "", *, is_loose: bool = True) -> None:
        """Show `rows` unfiltered; highlight the row with this id, otherwise the current one, otherwise the first.

        `is_loose` False: the filter keeps only rows that contain the typed text as one piece.
        """
        self._all, self._is_loose = tuple(rows), is_loose
        with self.prevent(Input.Changed):
            self.clear_filter()
        selected = highlighted or next((row.id for row in rows if row.is_current), "")
        self._filter(selected, 0)

    def set_rows(self, rows: Sequence[PickerRow]) -> None:
        """Replace the rows. The highlight stays on the row with the same id, otherwise at the same position."""
        selected = self.row
        self._all = tuple(rows)
        self._filter(selected.id if selected is not None else "", self._list.index)

    def clear_filter(self) -> bool:
        """Clear the filter; return whether there was one."""
        had = bool(self.typed)
        if self._has_filter:
            self._query.value = ""
        return had

    def take_focus(self) -> None:
        (self._query if self._has_filter else self).focus()

    def choose(self) -> None:
        """Pick the highlighted row."""
        self.post_message(self.Picked(self.row) if self.row is not None else self.Missed(self.typed))

    def move_to(self, index: int) -> None:
        self._list.move_to(index)
        self._post_filtered()

    @on(Input.Changed)
    def _filter_by_typed(self, event: Input.Changed) -> None:
        event.stop()
        current = "" if self.typed.strip() else next((row.id for row in self._all if row.is_current), "")
        self._filter(current, 0)

    @on(Input.Submitted)
    def _choose_by_enter(self, event: Input.Submitted) -> None:
        event.stop()
        self.choose()

    @on(PickerList.Clicked)
    def _choose_clicked(self, event: PickerList.Clicked) -> None:
        event.stop()
        self.move_to(event.index)
        self.choose()

    @on(PickerList.Hovered)
    def _highlight_hovered(self, event: PickerList.Hovered) -> None:
        event.stop()
        self.move_to(event.index)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_to(self._list.index - 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_to(self._list.index + 1)

    def action_move(self, step: int) -> None:
        """Move the highlight, wrapping around at the ends as in every menu of the app."""
        if self._list.rows:
            self.move_to((self._list.index + step) % len(self._list.rows))

    def action_choose(self) -> None:
        self.choose()

    def action_page(self, step: int) -> None:
        self.move_to(self._list.index + step * self._list.page)

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self._list.rows) - 1)

    def _filter(self, keep: str, index: int) -> None:
        """Show the rows that match the filter; highlight the row with the id `keep`, otherwise the one at `index`."""
        rows = tuple(self._found())
        at = next((position for position, row in enumerate(rows) if row.id == keep), index)
        self._list.offer(rows, self.typed if self._is_loose else "", at)
        nothing = self.query_one(".finder-empty", Static)
        nothing.display, self._list.display = not rows, bool(rows)
        message = self.missed if self._all else self.empty
        nothing.update(Content.styled(message, "$muted"))
        self.post_message(self.Filtered())
        self._post_filtered()

    def _found(self) -> Sequence[PickerRow]:
        query = self.typed.strip()
        if not query:
            return self._all
        if not self._is_loose:
            return [row for row in self._all if query.lower() in f"{row.label}\n{row.also}".lower()]
        found = [self._all[at] for at in rank(query, [_matching_fields(row, query) for row in self._all])]
        start = fold(query)
        found.sort(key=lambda row: not any(name.startswith(start) for name in row.names))
        # Rows of a group stay together; the group with the best match comes first.
        order = {group: place for place, group in reversed([*enumerate(row.group for row in found)])}
        found.sort(key=lambda row: order[row.group])
        added = self.unlisted(query, self._all)
        if added is not None:
            row, is_first = added
            found.insert(0 if is_first else len(found), row)
        return found

    def _post_filtered(self) -> None:
        row_id = self.row.id if self.row is not None else None
        if row_id != self._shown_row_id:
            self._shown_row_id = row_id
            self.post_message(self.Moved(self.row))


def _matching_fields(row: PickerRow, query: str) -> tuple[str, ...]:
    """Return the fields of a row that match `query`: letters in order for a label, whole words for other text.

    Almost any few letters occur in order in a sentence: `ro` is in "the diffs of the session, grouped by file".
    """
    words = fold(query).split()
    rest = [part for part in (row.also, row.detail) if any(word in fold(part) for word in words)]
    return (row.label, *rest)


class ListScreen(ModalScreen[Result], Generic[Result]):
    """A modal list of `rows` under `title`. The row with the id `highlighted` is selected, otherwise the current one.

    `empty` is the message if there are no rows. A subclass adds keys with `BINDINGS` and lists them in `KEYS`.
    `compose_more` adds widgets below the list. `set_rows` may replace the rows at any time.
    """

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Additional keys of a subclass and their actions, for the last line."""
    ENTER: ClassVar[str] = "select"
    """The action of Enter, for the last line."""
    ESCAPE: ClassVar[str] = "close"
    """The action of Esc without a filter, for the last line."""
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    """The columns of the rows' cells."""
    IS_QUESTION: ClassVar[bool] = False
    """Whether the title is a question with a few fixed answers, which need neither a filter nor a count."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "leave", "Leave", priority=True, show=False)]

    def __init__(
        self,
        title: str,
        rows: Sequence[PickerRow],
        *,
        empty: str = "Nothing to choose from.",
        highlighted: str = "",
    ) -> None:
        super().__init__(classes="picker-screen")
        self.heading = title
        self._rows = tuple(rows)
        self._first_highlight = highlighted
        self.finder = Finder(self.COLUMNS, empty=empty, has_filter=not self.IS_QUESTION, id="picker-finder")

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="picker-title", classes="-question" if self.IS_QUESTION else "", markup=False)
            yield self.finder
            yield from self.compose_more()
            yield Static(id="picker-foot", markup=False)

    def compose_more(self) -> ComposeResult:
        """Yield the widgets of a subclass below the list."""
        yield from ()

    def show_row(self, row: PickerRow | None) -> None:
        """React to the highlighted row, None if no row matches the filter. Called once when the screen opens."""

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        return self.finder.row

    @property
    def rows(self) -> tuple[PickerRow, ...]:
        """The rows that match the filter, in the order they are shown."""
        return self.finder.rows

    def set_rows(self, rows: Sequence[PickerRow]) -> None:
        """Replace the rows. The highlight stays on the row with the same id, otherwise at the same position."""
        self.finder.set_rows(rows)

    def on_mount(self) -> None:
        self.finder.offer(self._rows, self._first_highlight)
        self.finder.take_focus()

    def on_resize(self) -> None:
        self.paint_frame()

    @on(Finder.Filtered)
    def _count_rows(self, event: Finder.Filtered) -> None:
        event.stop()
        self.paint_frame()

    @on(Finder.Moved)
    def _highlight(self, event: Finder.Moved) -> None:
        event.stop()
        # The event may arrive after the screen was closed.
        if self.is_current:
            self.show_row(event.row)

    @on(Finder.Picked)
    def _take_picked(self, event: Finder.Picked) -> None:
        event.stop()
        self.select(event.row)

    def action_leave(self) -> None:
        """Clear the filter; without one, close without a choice."""
        if not self.finder.clear_filter():
            self.dismiss(None)

    def select(self, row: PickerRow) -> None:
        """React to Enter on `row`."""
        raise NotImplementedError

    def shown_count(self, total: int) -> int:
        """Return the number of rows as shown in the title."""
        return total

    def title_note(self) -> str:
        """Return a note after the number of rows in the title."""
        return ""

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys with their actions for the last line, the most important first."""
        escape = "clear" if self.finder.typed else self.ESCAPE
        enter = [("Enter", self.ENTER)] if escape != self.ENTER else []
        return (*enter, ("Esc", escape), *self.KEYS, ("↑↓", "move"))

    def paint_frame(self) -> None:
        """Show the title with the number of rows, and as many keys as fit."""
        total, count = len(self.rows), self.finder.count
        if total == count:
            total = count = self.shown_count(count)
        number = f"{total} of {count}" if total != count else str(count)
        note = self.title_note()
        title = Content.assemble((self.heading, "bold"), ("" if self.IS_QUESTION else f"  {number}", "$muted"))
        if note and title.cell_length + len(note) + 9 <= self.size.width:
            title = Content.assemble(title, (f"  ·  {note}", "$muted"))
        self.query_one("#picker-title", Static).update(title)
        rows = 1 if self.size.height < _MIN_HEIGHT else _FOOT_ROWS
        self.query_one("#picker-foot", Static).update(foot(self.keys(), self.size.width - 4, rows))


FIELD_KEYS = (("Enter", "save"), ("Esc", "cancel"))
"""The keys of a list screen while a value is typed in a field below the list."""


class Picker(ListScreen[str]):
    """A list screen whose result is the id of the picked row."""

    def select(self, row: PickerRow) -> None:
        self.dismiss(row.id)
