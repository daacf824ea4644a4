"""A field that filters rows, and the rows below it: what everything that is picked in the app is picked with.

Typing filters, arrows and the mouse move, Enter takes. Esc is left to whoever shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from qcode.tui.field import Field
from qcode.tui.fuzzy import fold, rank
from qcode.tui.screens.rows import Column, PickerList, Row

Unlisted: TypeAlias = Callable[[str, Sequence[Row]], tuple[Row, bool] | None]
"""Makes a row of what is typed where it stands for something no list has; True: it goes before the others."""


class Finder(Vertical):
    """Shows the rows of `offer`.

    `empty` is what to say where there are none, `missed` where the filter leaves none. `unlisted` may add a row.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", "Up", priority=True, show=False),
        Binding("down,ctrl+n", "move(1)", "Down", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
        Binding("home,ctrl+home", "first", "First", priority=True, show=False),
        Binding("end,ctrl+end", "last", "Last", priority=True, show=False),
    ]

    @dataclass
    class Picked(Message):
        """A row was taken."""

        row: Row

    @dataclass
    class Missed(Message):
        """Enter was pressed where what was typed leaves no row."""

        typed: str

    @dataclass
    class Moved(Message):
        """Another row is highlighted; None where there is none."""

        row: Row | None

    @dataclass
    class Filtered(Message):
        """Other rows are shown, or as many rows of another list."""

    def __init__(self, columns: Sequence[Column] = (), *, empty: str = "", id: str | None = None) -> None:
        super().__init__(id=id)
        self.empty = empty
        self.missed = "Nothing matches what you typed."
        self.unlisted: Unlisted = lambda typed, rows: None
        self._all: tuple[Row, ...] = ()
        self._is_loose = True
        self._list = PickerList(columns)
        self._shown: str | None = ""

    def compose(self) -> ComposeResult:
        yield Field(placeholder="Type to filter", classes="finder-query", compact=True)
        yield self._list
        yield Static(classes="finder-empty", markup=False)

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
        return self._list.row

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that the filter leaves, in the order they are shown."""
        return tuple(self._list.rows)

    @property
    def index(self) -> int:
        return self._list.index

    @property
    def count(self) -> int:
        """How many rows there are without the filter."""
        return len(self._all)

    @property
    def typed(self) -> str:
        return self._query.value

    @property
    def _query(self) -> Input:
        return self.query_one(".finder-query", Input)

    def offer(self, rows: Sequence[Row], highlighted: str = "", *, is_loose: bool = True) -> None:
        """Show `rows` unfiltered with one highlighted: the one with this id, else the current one, else the first.

        `is_loose` False: the filter keeps only labels that hold what is typed, in one piece.
        """
        self._all, self._is_loose = tuple(rows), is_loose
        with self.prevent(Input.Changed):
            self._query.value = ""
        wanted = highlighted or next((row.id for row in rows if row.is_current), "")
        self._filter(wanted, 0)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the highlight stays on the row with the same id, else at the same height."""
        kept = self.row
        self._all = tuple(rows)
        self._filter(kept.id if kept is not None else "", self._list.index)

    def clear_filter(self) -> bool:
        """Show all rows; return whether there was a filter."""
        had = bool(self.typed)
        self._query.value = ""
        return had

    def take_focus(self) -> None:
        self._query.focus()

    def choose(self) -> None:
        """Take the highlighted row."""
        self.post_message(self.Picked(self.row) if self.row is not None else self.Missed(self.typed))

    def move_to(self, index: int) -> None:
        self._list.move_to(index)
        self._tell()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        kept = "" if self.typed.strip() else next((row.id for row in self._all if row.is_current), "")
        self._filter(kept, 0)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.choose()

    def on_picker_list_clicked(self, event: PickerList.Clicked) -> None:
        """The first click shows a row, one on the row that is shown takes it."""
        event.stop()
        if event.index == self._list.index:
            self.choose()
        else:
            self.move_to(event.index)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_to(self._list.index - 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_to(self._list.index + 1)

    def action_move(self, step: int) -> None:
        """Move around the ends, as in every menu of the app."""
        if self._list.rows:
            self.move_to((self._list.index + step) % len(self._list.rows))

    def action_page(self, step: int) -> None:
        self.move_to(self._list.index + step * self._list.page)

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self._list.rows) - 1)

    def _filter(self, keep: str, index: int) -> None:
        """Show the rows that fit what is typed; highlight the row with the id `keep`, else the one at `index`."""
        rows = tuple(self._found())
        at = next((place for place, row in enumerate(rows) if row.id == keep), index)
        self._list.offer(rows, self.typed if self._is_loose else "", at)
        nothing = self.query_one(".finder-empty", Static)
        nothing.display, self._list.display = not rows, bool(rows)
        said = self.missed if self._all else self.empty
        nothing.update(Content.styled(said, "$muted"))
        self.post_message(self.Filtered())
        self._tell()

    def _found(self) -> Sequence[Row]:
        query = self.typed.strip()
        if not query:
            return self._all
        if not self._is_loose:
            return [row for row in self._all if query.lower() in row.label.lower()]
        found = [self._all[at] for at in rank(query, [_searched(row, query) for row in self._all])]
        # Rows of a group stay together, the group with the best of them first.
        order = {group: place for place, group in reversed([*enumerate(row.group for row in found)])}
        found.sort(key=lambda row: order[row.group])
        added = self.unlisted(query, self._all)
        if added is not None:
            row, is_first = added
            found.insert(0 if is_first else len(found), row)
        return found

    def _tell(self) -> None:
        shown = self.row.id if self.row is not None else None
        if shown != self._shown:
            self._shown = shown
            self.post_message(self.Moved(self.row))


def _searched(row: Row, query: str) -> tuple[str, ...]:
    """Return the parts of a row that `query` is looked for in: letters in order find a label, and whole words the rest.

    In a sentence almost any few letters are to be found in order.
    """
    words = fold(query).split()
    rest = [part for part in (row.also, row.detail) if any(word in fold(part) for word in words)]
    return (row.label, *rest)
