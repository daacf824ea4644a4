"""A list to pick from over the foot of the app: title, finder, keys at the foot. Other pickers are made of this one.

A picker knows rows and nothing about what they stand for: it is dismissed with the id of a row, with None where it was
left. What should happen while rows are looked at goes into `show_row`, what Enter does into `take`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.tui.screens.finder import Finder
from qcode.tui.screens.rows import Column, Row

__all__ = ["Column", "ListScreen", "Picker", "Row", "foot"]

Result = TypeVar("Result")


class ListScreen(ModalScreen[Result], Generic[Result]):
    """Shows `rows` under `title`, first that with the id `highlighted`, else the current one.

    `empty` is what to say where there are none.

    A subclass adds keys with `BINDINGS` and names them in `KEYS` for the foot. `compose_more` puts widgets below the
    list. Rows may change at any time through `set_rows`.
    """

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys of a subclass and what they do, for the foot."""
    ENTER: ClassVar[str] = "choose"
    """What Enter does, for the foot."""
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    """The columns of the rows' cells."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Leave", priority=True, show=False),
    ]

    def __init__(
        self,
        title: str,
        rows: Sequence[Row],
        *,
        empty: str = "There is nothing to choose from.",
        highlighted: str = "",
    ) -> None:
        super().__init__(classes="picker-screen")
        self.heading = title
        self._rows = tuple(rows)
        self._wanted = highlighted
        self.finder = Finder(self.COLUMNS, empty=empty, id="picker-finder")

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="picker-title", markup=False)
            yield self.finder
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
        return self.finder.row

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that the filter leaves, in the order they are shown."""
        return self.finder.rows

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the highlight stays on the row with the same id, else at the same height."""
        self.finder.set_rows(rows)

    def on_mount(self) -> None:
        self.finder.offer(self._rows, self._wanted)
        self.finder.take_focus()

    def on_resize(self) -> None:
        self.paint_frame()

    def on_finder_filtered(self, event: Finder.Filtered) -> None:
        event.stop()
        self.paint_frame()

    def on_finder_moved(self, event: Finder.Moved) -> None:
        event.stop()
        # It may arrive when the screen was left already.
        if self.is_current:
            self.show_row(event.row)

    def on_finder_picked(self, event: Finder.Picked) -> None:
        event.stop()
        self.take(event.row)

    def action_leave(self) -> None:
        """Clear the filter; where there is none, close without a choice."""
        if not self.finder.clear_filter():
            self.dismiss(None)

    def take(self, row: Row) -> None:
        """Enter was pressed on `row`."""
        raise NotImplementedError

    def title_note(self) -> str:
        """Return what stands behind the number of rows in the title."""
        return ""

    def paint_frame(self) -> None:
        """Show the title with how many rows there are, and as many keys as fit."""
        shown, count = len(self.rows), self.finder.count
        number = f"{shown} of {count}" if shown != count else str(count)
        note = self.title_note()
        title = Content.assemble((self.heading, "bold"), (f"  {number}", "$muted"))
        if note and title.cell_length + len(note) + 9 <= self.size.width:
            title = Content.assemble(title, (f"  ·  {note}", "$muted"))
        self.query_one("#picker-title", Static).update(title)
        keys = [("Enter", self.ENTER), ("Esc", "clear" if self.finder.typed else "leave"), *self.KEYS, ("↑↓", "move")]
        self.query_one("#picker-foot", Static).update(foot(keys, self.size.width - 4))


class Picker(ListScreen[str]):
    """A list screen that is dismissed with the id of the row that was taken."""

    def take(self, row: Row) -> None:
        self.dismiss(row.id)


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
