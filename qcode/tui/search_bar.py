"""The field between transcript and prompt that searches the transcript while it is typed into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from qcode.tui.field import Field
from qcode.tui.transcript import Found

_ROOM_FOR_KEYS = 72


class Searchable(Protocol):
    """The transcript, as far as a search needs it."""

    def begin_search(self) -> None: ...
    def search(self, text: str) -> Found: ...
    def search_on(self, *, is_upwards: bool = True) -> Found: ...
    def end_search(self, *, is_going_back: bool) -> None: ...


class SearchField(Field):
    """What to look for. Its keys go from one place to the next."""

    @dataclass
    class Moved(Message):
        """Another place is wanted."""

        is_upwards: bool

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,enter", "go(True)", "Earlier", show=False),
        Binding("down,shift+enter", "go(False)", "Later", show=False),
    ]

    def action_go(self, is_upwards: bool) -> None:
        self.post_message(self.Moved(is_upwards))


class SearchBar(Horizontal):
    """One row: the field, which place of how many, the keys. Hidden while closed; focus is the app's to give back."""

    @dataclass
    class Closed(Message):
        """The search is over."""

    def __init__(self, transcript: Searchable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._transcript = transcript
        self._last = ""
        self.found = Found()
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static("Find ", id="search-mark", markup=False)
        yield SearchField(id="search-field", compact=True)
        yield Static(id="search-count", markup=False)

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self) -> None:
        """Begin a search, with what was looked for last ready to be replaced."""
        self.display = True
        self._transcript.begin_search()
        field = self._field
        field.value = self._last
        field.select_on_focus = True
        field.focus()
        self._show(self._transcript.search(self._last))

    def close(self, *, is_going_back: bool) -> bool:
        """End the search where it is or, `is_going_back`, where it began; return whether it was open."""
        if not self.is_open:
            return False
        self._last = self._field.value
        self.display = False
        self._transcript.end_search(is_going_back=is_going_back)
        self.post_message(self.Closed())
        return True

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self._show(self._transcript.search(event.value))

    def on_search_field_moved(self, event: SearchField.Moved) -> None:
        event.stop()
        if self._field.value.strip():
            self._show(self._transcript.search_on(is_upwards=event.is_upwards))

    def on_resize(self, _event: events.Resize) -> None:
        if self.is_open:
            self._show(self.found)

    @property
    def _field(self) -> SearchField:
        return self.query_one(SearchField)

    def _show(self, found: Found) -> None:
        self.found = found
        if not self._field.value.strip():
            said = Content("")
        elif found.count:
            said = Content(f"{found.number} of {found.count}")
        else:
            said = Content.styled("nothing found", "$text-warning")
        keys = "  ↑↓ next  Esc back  Ctrl+F stay" if self.size.width >= _ROOM_FOR_KEYS else "  Esc back"
        self.query_one("#search-count", Static).update(Content.assemble(said, (keys, "$muted")))
