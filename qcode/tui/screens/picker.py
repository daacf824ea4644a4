"""A list to pick from: a field that filters it, two columns, keys at the foot. Other pickers are made of this one.

A picker knows rows and nothing about what they stand for: it is dismissed with the id of a row, with None where it was
left. What should happen while rows are looked at goes into `show_row`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from qcode.tui.fuzzy import match, rank
from qcode.tui.text import one_line, shorten

_LABEL_SHARE = 0.6
_GAP = 2


@dataclass(frozen=True, slots=True)
class Row:
    """Something to pick. `label` and `detail` are its columns; `is_current` marks the one in use."""

    id: str
    label: str
    detail: str = ""
    is_current: bool = False


class PickerList(Widget):
    """The rows that fit, one of them highlighted. It takes no focus: the screen moves it."""

    @dataclass
    class Clicked(Message):
        """A row was clicked."""

        index: int

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()
        self._query = ""
        self.index = 0
        self._first = 0
        self._label_cells = 0

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
        return self.rows[self.index] if self.rows else None

    def offer(self, rows: Sequence[Row], query: str, index: int) -> None:
        """Show `rows`, which `query` has found, with the one at `index` highlighted."""
        self.rows, self._query = rows, query
        self.index = max(0, min(index, len(rows) - 1))
        self._label_cells = max((Content(one_line(row.label)).cell_length for row in rows), default=0)
        self.refresh(layout=True)

    def move_to(self, index: int) -> None:
        self.index = max(0, min(index, len(self.rows) - 1))
        self.refresh()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self.rows))

    def render(self) -> Content:
        height, width = max(1, self.size.height), self.size.width
        if not self.rows:
            return Content("")
        self._first = max(self.index - height + 1, min(self._first, self.index, len(self.rows) - height), 0)
        shown = range(self._first, min(len(self.rows), self._first + height))
        return Content("\n").join([self._line(self.rows[index], width, index == self.index) for index in shown])

    def on_click(self, event: events.Click) -> None:
        index = self._first + event.y
        if index < len(self.rows):
            self.post_message(self.Clicked(index))

    def _line(self, row: Row, width: int, is_chosen: bool) -> Content:
        room = max(1, width - 4)
        cells = min(self._label_cells, int(room * _LABEL_SHARE)) if any(row.detail for row in self.rows) else room
        label = self._found(shorten(row.label, max(1, cells)))
        line = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"),
            ("● " if row.is_current else "  ", "$text-success"),
            label.stylize_before("bold $text-accent" if is_chosen else ""),
        )
        rest = room - cells - _GAP
        if row.detail and rest > 0:
            line = Content.assemble(
                line, " " * (cells - label.cell_length + _GAP), (shorten(row.detail, rest), "$muted")
            )
        return line.truncate(width, ellipsis=True)

    def _found(self, label: str) -> Content:
        """Return `label` with the letters underlined that the query has found in it."""
        content = Content(label)
        for word in self._query.split():
            found = match(word, label)
            for place in found.places if found is not None else ():
                content = content.stylize("underline", place, place + 1)
        return content


class Picker(ModalScreen[str]):
    """Shows `rows` under `title`; the current one is highlighted first. `empty` is what to say where there are none.

    A subclass adds keys with `BINDINGS` and names them in `KEYS` for the foot. `compose_more` puts widgets below the
    list. Rows may change at any time through `set_rows`.
    """

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys of a subclass and what they do, for the foot."""
    ENTER: ClassVar[str] = "choose"
    """What Enter does, for the foot."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Leave", priority=True, show=False),
        Binding("up,ctrl+p", "move(-1)", "Up", priority=True, show=False),
        Binding("down,ctrl+n", "move(1)", "Down", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
        Binding("ctrl+home", "first", "First", priority=True, show=False),
        Binding("ctrl+end", "last", "Last", priority=True, show=False),
    ]

    def __init__(self, title: str, rows: Sequence[Row], *, empty: str = "There is nothing to choose from.") -> None:
        super().__init__()
        self.heading = title
        self._rows = tuple(rows)
        self._empty = empty
        self._list = PickerList()
        self._shown: Row | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="picker-title", markup=False)
            yield Input(placeholder="Type to filter", id="picker-query", compact=True)
            yield self._list
            yield Static(id="picker-empty", markup=False)
            yield from self.compose_more()
            yield Static(id="picker-foot", markup=False)

    def compose_more(self) -> ComposeResult:
        """Yield what a subclass shows between the list and the foot."""
        yield from ()

    def show_row(self, row: Row | None) -> None:
        """`row` is highlighted now; None where the filter leaves none. The first one comes once the screen is up."""

    @property
    def row(self) -> Row | None:
        """The highlighted row."""
        return self._list.row

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that the filter leaves, in the order they are shown."""
        return tuple(self._list.rows)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the highlight stays on the row with the same id, else at the same height."""
        kept, index = self.row, self._list.index
        self._rows = tuple(rows)
        self._filter(kept.id if kept is not None else None, index)

    def on_mount(self) -> None:
        current = next((row.id for row in self._rows if row.is_current), None)
        self._filter(current, 0)
        self.query_one("#picker-query", Input).focus()

    def on_resize(self) -> None:
        self._paint_frame()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "picker-query":
            event.stop()
            self._filter(None, 0)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "picker-query":
            event.stop()
            self._choose()

    def on_picker_list_clicked(self, event: PickerList.Clicked) -> None:
        """The first click shows a row, one on the row that is shown takes it."""
        event.stop()
        if event.index == self._list.index:
            self._choose()
        else:
            self._move_to(event.index)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(1)

    def action_leave(self) -> None:
        """Clear the filter; where there is none, close without a choice."""
        query = self.query_one("#picker-query", Input)
        if query.value:
            query.value = ""
        else:
            self.dismiss(None)

    def action_move(self, step: int) -> None:
        self._move_to(self._list.index + step)

    def action_page(self, step: int) -> None:
        self._move_to(self._list.index + step * max(1, self._list.size.height - 1))

    def action_first(self) -> None:
        self._move_to(0)

    def action_last(self) -> None:
        self._move_to(len(self._list.rows) - 1)

    def _choose(self) -> None:
        if self.row is not None:
            self.dismiss(self.row.id)

    def _move_to(self, index: int) -> None:
        self._list.move_to(index)
        self._tell()

    def _filter(self, keep: str | None, index: int) -> None:
        """Show the rows that fit what is typed; highlight the row with the id `keep`, else the one at `index`."""
        query = self.query_one("#picker-query", Input).value
        rows = self._rows
        if query.strip():
            rows = tuple(rows[found] for found in rank(query, [(row.label, row.detail) for row in rows]))
        at = next((place for place, row in enumerate(rows) if row.id == keep), index)
        self._list.offer(rows, query, at)
        self._paint_frame()
        self._tell()

    def _tell(self) -> None:
        if self.row != self._shown:
            self._shown = self.row
            self.show_row(self.row)

    def _paint_frame(self) -> None:
        """Show the title with how many rows there are, the empty state, and as many keys as fit."""
        shown, count = len(self._list.rows), len(self._rows)
        number = f"{shown} of {count}" if shown != count else str(count)
        title = Content.assemble((self.heading, "bold"), (f"  {number}", "$muted"))
        self.query_one("#picker-title", Static).update(title)
        nothing = self.query_one("#picker-empty", Static)
        nothing.display = not shown
        self._list.display = bool(shown)
        said = "Nothing matches. Esc clears the filter." if count else self._empty
        nothing.update(Content.styled(said, "$muted"))
        keys = [("Enter", self.ENTER), ("Esc", "leave"), *self.KEYS, ("↑↓", "move")]
        self.query_one("#picker-foot", Static).update(foot(keys, self.size.width - 4))


def foot(keys: Sequence[tuple[str, str]], width: int) -> Content:
    """Return as many `keys` with what they do as fit `width`, at least the first."""
    line = Content("")
    for key, does in keys:
        part = Content.assemble((key, "bold"), (f" {does}", "$muted"))
        longer = Content.assemble(line, ("  ·  ", "$muted"), part) if line else part
        if line and longer.cell_length > width:
            break
        line = longer
    return line
