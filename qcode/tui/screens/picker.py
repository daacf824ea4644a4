"""The base of all pickers: a modal screen with title, filter, rows and the available keys.

Derive from `ListScreen` and override `select` to react to Enter, and `show_row` to react to the highlight. The result
of a `Picker` is the id of the picked row, or None if the user closed it. `Finder` combines filter and rows; its screen
handles Esc.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from qcode.text.clean import one_line
from qcode.text.match import fold, rank
from qcode.tui.messages import QUESTION_WAITING, QuestionWaiting
from qcode.tui.panels.picker_list import MIN_LABEL, Column, PickerList, PickerRow, count_rows
from qcode.tui.shared_widgets import SteadyInput, key_hints
from qcode.tui.transcript.line import break_text, shorten_to_rows

Result = TypeVar("Result")

FIELD_KEYS = (("Enter", "save"), ("Esc", "cancel"))
"""The keys of a list screen while a value is typed in a field below the list."""
NO_MATCH = "No match. Esc clears the filter."
_MAX_KEY_ROWS = 3
_FIXED_ROWS = 4
"""The title, the filter with its margin, and the margin of the key hints."""
_LOW_FIXED_ROWS = 2
"""The same on a low screen, without margins."""
_MIN_NORMAL_HEIGHT = 20
"""A screen with fewer rows is low."""
_SIDE_CELLS = 4
"""The bar and the blank cells at both sides of the screen."""
_MAX_DESCRIPTION_ROWS = 4
_MIN_HEIGHT = 14
"""On a screen with fewer rows the key hints get one row."""


@dataclass(frozen=True)
class UnlistedRow:
    """A row for the filter text itself, such as a model that the user typed in full and no provider lists."""

    row: PickerRow
    is_first: bool
    """The row comes before the rows that match the filter, not after them."""


class Finder(Vertical):
    """A filter field above a list of rows. Without a filter field, the finder itself has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", "Up", priority=True, show=False),
        Binding("down,ctrl+n", "move(1)", "Down", priority=True, show=False),
        Binding("pageup", "page(-1)", "Page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "Page down", priority=True, show=False),
        Binding("home,ctrl+home", "first", "First", priority=True, show=False),
        Binding("end,ctrl+end", "last", "Last", priority=True, show=False),
        Binding("enter", "pick", "Select", show=False),
    ]

    @dataclass
    class Picked(Message):
        """The user picked a row."""

        row: PickerRow

    @dataclass
    class Highlighted(Message):
        """Another row is highlighted, or none."""

        row: PickerRow | None

    @dataclass
    class Filtered(Message):
        """The visible rows have changed."""

    def __init__(
        self,
        columns: Sequence[Column] = (),
        *,
        min_label: int = MIN_LABEL,
        empty: str = "",
        has_filter: bool = True,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.empty = empty
        """The message if there are no rows."""
        self._has_filter = has_filter
        self.can_focus = not has_filter
        self.no_match = NO_MATCH
        """The message if no row matches the filter."""
        self.needs_word_start = False
        """The filter matches only starts of words. Otherwise letters in order match: `mdl` finds `model`."""
        self.unlisted_row: Callable[[str, Sequence[PickerRow]], UnlistedRow | None] = lambda text, rows: None
        """Gets the filter text and all rows; may return a row to add."""
        self._all_rows: tuple[PickerRow, ...] = ()
        self._list = PickerList(columns, min_label=min_label)
        self._shown_row_id: str | None = ""
        """The id of the row in the last `Highlighted`; None if there was no row, empty before the first message."""

    def compose(self) -> ComposeResult:
        if self._has_filter:
            yield SteadyInput(placeholder="Type to filter", classes="finder-filter", compact=True)
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
        """The position of the highlighted row among `rows`."""
        return self._list.index

    @property
    def all_rows(self) -> tuple[PickerRow, ...]:
        """The rows without the filter."""
        return self._all_rows

    @property
    def filter_text(self) -> str:
        """The text in the filter field, empty if there is no field."""
        return self._filter_field.value if self._has_filter else ""

    @property
    def _filter_field(self) -> Input:
        return self.query_one(".finder-filter", Input)

    def cuts_details(self, width: int) -> bool:
        """Return whether a list of `width` cells cuts or drops details."""
        return self._list.cuts_details(width)

    def leave_rows(self, count: int, *, fills_screen: bool) -> None:
        """Leave `count` rows of the screen to the widgets around the list.

        `fills_screen`: a long list leaves only the rows of the app that are enough to recognize it, or none.
        """
        if (count, fills_screen) != (self._list.rows_around, self._list.fills_screen):
            self._list.rows_around = count
            self._list.fills_screen = fills_screen
            self._list.refresh(layout=True)

    def reset(self, rows: Sequence[PickerRow], highlighted: str = "") -> None:
        """Clear the filter and show `rows`; highlight the row with this id, otherwise the row in use or the first."""
        self._all_rows = tuple(rows)
        with self.prevent(Input.Changed):
            self.clear_filter()
        self._filter(highlighted or self._id_in_use(), fallback_index=0)

    def _id_in_use(self) -> str:
        """Return the id of the row that is in use, such as the current model; empty if there is none."""
        return next((row.id for row in self._all_rows if row.is_current), "")

    def set_rows(self, rows: Sequence[PickerRow], highlighted: str = "") -> None:
        """Replace the rows, and highlight the row with this id.

        Otherwise the highlight stays on the row with the same id, or at the same position.
        """
        selected = highlighted or (self.row.id if self.row is not None else "")
        self._all_rows = tuple(rows)
        self._filter(selected, fallback_index=self._list.index)

    def clear_filter(self) -> bool:
        """Clear the filter text; return whether there was any."""
        had_text = bool(self.filter_text)
        if self._has_filter:
            self._filter_field.value = ""
        return had_text

    def set_filter(self, text: str) -> None:
        """Write `text` into the filter field."""
        self._filter_field.value = text
        self._filter_field.cursor_position = len(text)

    def take_focus(self) -> None:
        if self._has_filter:
            self._filter_field.focus()
        else:
            self.focus()

    def pick(self) -> None:
        """Pick the highlighted row; without a match, do nothing."""
        if self.row is not None:
            self.post_message(self.Picked(self.row))

    def move_to(self, index: int) -> None:
        self._list.move_to(index)
        self._post_highlighted()

    @on(Input.Changed)
    def _filter_by_text(self, event: Input.Changed) -> None:
        event.stop()
        # While the user types, the best match is highlighted; after the filter is cleared, the row in use.
        has_filter_text = bool(self.filter_text.strip())
        self._filter("" if has_filter_text else self._id_in_use(), fallback_index=0)

    @on(Input.Submitted)
    def _pick_by_enter(self, event: Input.Submitted) -> None:
        event.stop()
        self.pick()

    @on(PickerList.Clicked)
    def _pick_clicked(self, event: PickerList.Clicked) -> None:
        event.stop()
        self.move_to(event.index)
        self.pick()

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

    def action_pick(self) -> None:
        self.pick()

    def action_page(self, step: int) -> None:
        self.move_to(self._list.index + step * self._list.page)

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self._list.rows) - 1)

    def _filter(self, highlighted: str, *, fallback_index: int) -> None:
        """Show the rows that match the filter; highlight the row with this id, otherwise that at `fallback_index`."""
        rows = tuple(self._matching_rows())
        ids = [row.id for row in rows]
        index = ids.index(highlighted) if highlighted in ids else fallback_index
        self._list.set_rows(rows, self.filter_text, index)
        placeholder = self.query_one(".finder-empty", Static)
        placeholder.display = not rows
        self._list.display = bool(rows)
        message = self.no_match if self._all_rows else self.empty
        placeholder.update(Content.styled(message, "$muted"))
        self.post_message(self.Filtered())
        self._post_highlighted()

    def _matching_rows(self) -> Sequence[PickerRow]:
        query = self.filter_text.strip()
        if not query:
            return self._all_rows
        rows = [row for row in self._all_rows if not self.needs_word_start or _starts_words(row, query)]
        positions = rank(query, [_matching_fields(row, query) for row in rows])
        matches = [rows[position] for position in positions]
        # A row with a name that starts with the query comes before all others, which keep their order.
        name_start = fold(query)
        matches.sort(key=lambda row: not any(name.startswith(name_start) for name in row.names))
        # Rows of a group stay together; the group with the best match comes first.
        groups = list(dict.fromkeys(row.group for row in matches))
        matches.sort(key=lambda row: groups.index(row.group))
        unlisted = self.unlisted_row(query, self._all_rows)
        if unlisted is not None:
            matches.insert(0 if unlisted.is_first else len(matches), unlisted.row)
        return matches

    def _post_highlighted(self) -> None:
        row_id = self.row.id if self.row is not None else None
        if row_id != self._shown_row_id:
            self._shown_row_id = row_id
            self.post_message(self.Highlighted(self.row))


def _matching_fields(row: PickerRow, query: str) -> tuple[str, ...]:
    """Return the fields of a row in which the letters of `query` are searched.

    The label is always one of them. Another field is one only if it contains a word of the query unbroken, because a
    few letters in order occur in almost any sentence: `ro` in "the diffs of the session, grouped by file".
    """
    words = fold(query).split()
    other_fields = [text for text in (row.search_text, row.detail) if any(word in fold(text) for word in words)]
    return (row.label, *other_fields)


def _starts_words(row: PickerRow, query: str) -> bool:
    """Return whether each word of `query` is the start of a word in `row`."""
    text = fold(f"{row.label} {row.search_text} {row.detail}")
    return all(re.search(rf"(?<!\w){re.escape(word)}", text) for word in fold(query).split())


class ListScreen(ModalScreen[Result], Generic[Result]):
    """A modal list of `rows` under `title`. The row with the id `highlighted` is selected, otherwise the row in use.

    A subclass adds keys with `BINDINGS` and lists them in `KEYS`. `compose_more` adds widgets below the list.
    `set_rows` may replace the rows at any time.
    """

    KEYS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Additional keys of a subclass and their actions, for the key hints."""
    ENTER: ClassVar[str] = "select"
    """The effect of Enter in one word or two, for the key hints."""
    ESCAPE: ClassVar[str] = "close"
    """The effect of Esc with an empty filter, for the key hints."""
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    """The columns of the rows' cells."""
    MIN_LABEL: ClassVar[int] = MIN_LABEL
    """The width that the columns leave to the labels, unless all labels are narrower."""
    HAS_DESCRIPTION: ClassVar[bool] = False
    """The description of the highlighted row is always shown, and not only if the list cuts details."""
    MAX_DESCRIPTION_ROWS: ClassVar[int] = _MAX_DESCRIPTION_ROWS
    """The maximum height of the description. A subclass sets a lower one if Enter opens the whole text."""
    FILLS_SCREEN: ClassVar[bool] = False
    """A long list covers the whole app if only a few rows of it would be left. `rows_below` must be exact."""
    IS_QUESTION: ClassVar[bool] = False
    """The title is a question with a few fixed answers, which need neither a filter nor a count."""

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
        self._initial_row_id = highlighted
        self._description_rows = 0
        self._is_question_waiting = False
        self.finder = Finder(
            self.COLUMNS,
            min_label=self.MIN_LABEL,
            empty=empty,
            has_filter=not self.IS_QUESTION,
            id="picker-finder",
        )

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="picker-title", classes="-question" if self.IS_QUESTION else "", markup=False)
            yield self.finder
            yield Static(id="picker-description", markup=False)
            yield from self.compose_more()
            yield Static(id="picker-foot", markup=False)

    def compose_more(self) -> ComposeResult:
        """Yield the widgets of a subclass below the list."""
        yield from ()

    def rows_below(self) -> int:
        """Return the number of rows, with margins, that the widgets of `compose_more` need at most."""
        return 0

    @property
    def is_low(self) -> bool:
        """Whether the screen has so few rows that the panel has no blank rows: the class `-low` in the styles."""
        return self.size.height < _MIN_NORMAL_HEIGHT

    def show_row(self, row: PickerRow | None) -> None:
        """React to a new highlighted row, None if no row matches the filter. Also called when the screen opens."""

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        return self.finder.row

    @property
    def rows(self) -> tuple[PickerRow, ...]:
        """The rows that match the filter, in the order they are shown."""
        return self.finder.rows

    def set_rows(self, rows: Sequence[PickerRow], highlighted: str = "") -> None:
        """Replace the rows, see `Finder.set_rows`."""
        self.finder.set_rows(rows, highlighted)

    def on_mount(self) -> None:
        self.finder.reset(self._rows, self._initial_row_id)
        self.finder.take_focus()

    def on_resize(self) -> None:
        self._show_description()
        self.show_title_and_keys()

    @on(Finder.Filtered)
    def _show_filtered(self, event: Finder.Filtered) -> None:
        event.stop()
        self._show_description()
        self.show_title_and_keys()

    @on(Finder.Highlighted)
    def _show_highlighted(self, event: Finder.Highlighted) -> None:
        event.stop()
        # The event may arrive after the screen was closed.
        if self.is_current:
            self._show_description()
            self.show_row(event.row)

    @on(Finder.Picked)
    def _select_picked(self, event: Finder.Picked) -> None:
        event.stop()
        self.select(event.row)

    def action_leave(self) -> None:
        """Clear the filter; without one, close without a choice."""
        if not self.finder.clear_filter():
            self.dismiss(None)

    def select(self, row: PickerRow) -> None:
        """React to Enter on `row`."""
        raise NotImplementedError

    def describe(self, row: PickerRow) -> str:
        """Return the description of `row`, which is shown below the list."""
        return row.detail

    def _show_description(self) -> None:
        """Show the description of the highlighted row, in as many rows as the longest one of the list needs.

        The height is the same for each row: the list must not move while the user moves in it.
        """
        description = self.query_one("#picker-description", Static)
        width = max(1, self.size.width - _SIDE_CELLS)
        texts = [one_line(self.describe(row)) for row in self.rows]
        if not self.HAS_DESCRIPTION and not self.finder.cuts_details(width):
            texts = []
        needed_rows = max((len(break_text(text, width)) for text in texts if text), default=0)
        rows = min(needed_rows, self.MAX_DESCRIPTION_ROWS)
        self._description_rows = rows
        description.display = rows > 0
        description.styles.height = rows
        if rows and self.row is not None:
            text = shorten_to_rows(self.describe(self.row), width, rows)
            description.update(Content.styled(text, "$muted"))

    def is_counted(self, row: PickerRow) -> bool:
        """Return whether the number in the title includes this row. Summaries are never counted."""
        return True

    def title_note(self) -> str:
        """Return a note after the number of rows in the title."""
        return ""

    @on(QuestionWaiting)
    def _note_question(self, event: QuestionWaiting) -> None:
        self._is_question_waiting = event.is_waiting
        self.show_title_and_keys()

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the keys with their actions for the key hints, the most important first."""
        escape = "clear" if self.finder.filter_text else self.ESCAPE
        # Both keys close a list without choices, such as the list of `/permissions`. Then only Esc is named.
        enter = [("Enter", self.ENTER)] if escape != self.ENTER else []
        return (*enter, ("Esc", escape), *self.KEYS, ("↑↓", "move"))

    def show_title_and_keys(self) -> None:
        """Show the title with the number of rows, and as many keys as fit."""
        count = count_rows([row for row in self.rows if self.is_counted(row)])
        total = count_rows([row for row in self.finder.all_rows if self.is_counted(row)])
        number = f"{count} of {total}" if count != total else str(total)
        note = QUESTION_WAITING if self._is_question_waiting else self.title_note()
        has_number = total > 0 and not self.IS_QUESTION
        title = Content.assemble((self.heading, "bold"), (f"  {number}" if has_number else "", "$muted"))
        with_note = Content.assemble(title, (f"  ·  {note}", "$muted"))
        if note and with_note.cell_length + _SIDE_CELLS <= self.size.width:
            title = with_note
        self.query_one("#picker-title", Static).update(title)
        rows = 1 if self.size.height < _MIN_HEIGHT else _MAX_KEY_ROWS
        hints = key_hints(self.keys(), self.size.width - _SIDE_CELLS, rows)
        self.query_one("#picker-foot", Static).update(hints)
        description_rows = self._description_rows + 1 if self._description_rows else 0  # with a margin
        fixed_rows = _LOW_FIXED_ROWS if self.is_low and self.FILLS_SCREEN else _FIXED_ROWS
        rows_around = fixed_rows + hints.plain.count("\n") + 1 + description_rows + self.rows_below()
        self.finder.leave_rows(rows_around, fills_screen=self.FILLS_SCREEN)


class Picker(ListScreen[str]):
    """A list screen whose result is the id of the picked row."""

    def select(self, row: PickerRow) -> None:
        self.dismiss(row.id)
