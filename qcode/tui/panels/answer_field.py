"""The text field of a question: an answer or a reason of the user, edited like the prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from qcode.tui.prompt.editing import EditingArea
from qcode.tui.prompt.labels import Pastes, clean_paste
from qcode.tui.prompt.prompt import NEW_LINE_KEYS


class AnswerField(EditingArea):
    """A text that the user writes in a question, edited like the prompt. Several lines are kept, long pastes folded.

    `takes_early` gets each key and each paste first and returns whether it belongs to the draft of the prompt.
    """

    @dataclass
    class Sent(Message):
        """The user pressed Enter. `text` has every paste expanded."""

        text: str

    class Left(Message):
        """The user moved back to the choices."""

    def __init__(self, takes_early: Callable[[events.Key | events.Paste], bool], *, id: str | None = None) -> None:
        self._pastes = Pastes()
        self._takes_early = takes_early
        super().__init__(self._pastes.labels, placeholder="", id=id)

    @property
    def whole_text(self) -> str:
        """The text with every paste expanded."""
        return self._pastes.expand(self.text)

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._place_cursor)

    def _place_cursor(self, _screen: object) -> None:
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset

    def on_key(self, event: events.Key) -> None:
        row, column = self.cursor_location
        is_escaped = event.key == "enter" and self.document[row][:column].endswith("\\")
        if self._takes_early(event):
            pass
        elif is_escaped:
            self.replace("\n", (row, column - 1), (row, column))
        elif event.key in NEW_LINE_KEYS:
            self.replace_in_one_step("\n", *sorted(self.selection))
        elif event.key == "enter":
            self.post_message(self.Sent(self.whole_text.strip()))
        elif event.key in ("tab", "shift+tab"):
            self.post_message(self.Left())
        else:
            return
        event.stop()
        event.prevent_default()

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up; from the first row, to the choices above."""
        if select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self.post_message(self.Left())

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if not self._takes_early(event):
            self.replace_in_one_step(self._pastes.fold(clean_paste(event.text)), *sorted(self.selection))
