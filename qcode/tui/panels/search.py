"""The search field between transcript and prompt, which searches the transcript as the user types.

Loaded after the first paint; the search itself is in `transcript.transcript`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import Worker

from qcode.tui.messages import SearchClosed
from qcode.tui.shared_widgets import SteadyInput, mount_parts
from qcode.tui.transcript.transcript import SearchPosition, Transcript

_MIN_CELLS_FOR_KEYS = 72
_SLICE_S = 0.01
"""A search runs for this time, and then pauses for the same time, so that keys are handled and frames are painted."""
_SHOW_BUSY_AFTER_S = 0.2
"""A search that takes longer shows `searching…`."""


class SearchField(SteadyInput):
    """The search text. Its keys move between matches."""

    @dataclass
    class Moved(Message):
        """The user asked for the previous match (`is_upwards`) or the next one."""

        is_upwards: bool

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,enter", "go(True)", "Earlier", show=False),
        Binding("down,shift+enter", "go(False)", "Later", show=False),
    ]

    def action_go(self, is_upwards: bool) -> None:
        self.post_message(self.Moved(is_upwards))


class SearchBar(Horizontal):
    """The search bar: field, position such as `3 of 12`, keys. Hidden while closed; the app moves the focus back."""

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._transcript = transcript
        self._last_text = ""
        self._worker: Worker[None] | None = None
        self._pending_moves: list[bool] = []  # moves while the search runs, True for upwards
        self.position = SearchPosition()
        self.stay_key = "Ctrl+F"
        """The key that closes the bar and stays at the match; empty if there is none."""
        self._field = SearchField(id="search-field", compact=True)
        self._count = Static(id="search-count", markup=False)
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self) -> None:
        """Start a search. The previous search text is selected, so that typing replaces it."""
        mount_parts(self, Static("Find ", id="search-mark", markup=False), self._field, self._count)
        self.display = True
        self._transcript.begin_search()
        self._field.value = self._last_text
        self._field.select_on_focus = True
        self._field.focus()
        self._begin_search(self._last_text)

    def close(self, *, returns_to_start: bool) -> bool:
        """End the search and return whether it was open.

        `returns_to_start`: scroll back to the position at which the search started.
        """
        if not self.is_open:
            return False
        self._stop_search()
        self._last_text = self._field.value
        self.display = False
        self._transcript.end_search(returns_to_start=returns_to_start)
        self.post_message(SearchClosed())
        return True

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self._begin_search(event.value)

    def _begin_search(self, text: str) -> None:
        self._stop_search()
        self._worker = self._run_search(text)

    def _stop_search(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        self._worker = None
        self._pending_moves = []

    @work(exit_on_error=False, group="search")
    async def _run_search(self, text: str) -> None:
        """Search once the typed letter is painted, and show the position."""
        painted = asyncio.Event()
        self.call_after_refresh(painted.set)
        await painted.wait()
        if text.strip():
            await self._prepare_search(text)
        position = self._transcript.search(text)
        for is_upwards in self._pending_moves:
            position = self._transcript.search_next(is_upwards=is_upwards)
        self._worker = None
        self._pending_moves = []
        self._show_position(position)

    async def _prepare_search(self, text: str) -> None:
        """Search every entry, in slices: a long transcript takes seconds. `search` then only collects the matches."""
        start = slice_start = monotonic()
        for _ in self._transcript.search_steps(text):
            if monotonic() - slice_start > _SLICE_S:
                if monotonic() - start > _SHOW_BUSY_AFTER_S:
                    self._show_count(Content.styled("searching…", "$muted"))
                await asyncio.sleep(_SLICE_S)
                slice_start = monotonic()

    @on(Worker.StateChanged)
    def _end_failed_search(self, event: Worker.StateChanged) -> None:
        """Raise the error of a failed search here, so that the app reports it and continues."""
        if event.worker is self._worker and event.worker.error is not None:
            self._stop_search()
            self._show_count(Content(""))
            raise event.worker.error

    @on(SearchField.Moved)
    def _search_next(self, event: SearchField.Moved) -> None:
        event.stop()
        if self._worker is not None:
            self._pending_moves.append(event.is_upwards)
        elif self._field.value.strip():
            self._show_position(self._transcript.search_next(is_upwards=event.is_upwards))

    def on_resize(self, _event: events.Resize) -> None:
        if self.is_open:
            self._show_position(self.position)

    def _show_position(self, position: SearchPosition) -> None:
        self.position = position
        if not self._field.value.strip():
            content = Content("")
        elif position.count:
            content = Content(f"{position.number} of {position.count}")
        else:
            content = Content.styled("no match", "$text-warning")
        self._show_count(content)

    def _show_count(self, content: Content) -> None:
        has_space = self.size.width >= _MIN_CELLS_FOR_KEYS
        stay = f" · {self.stay_key} close and stay" if self.stay_key else ""
        keys = f"↑↓ next · Esc close{stay}" if has_space else "Esc close"
        self._count.update(Content.assemble(content, (f"  {keys}", "$muted")))
