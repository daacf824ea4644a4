"""The text field of the approval panel, in which the user writes an answer or a reason.

The panel decides when the field is open, and which keys it gets. The field knows to which approval its text belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message

from qcode import values
from qcode.tui.prompt.editing import EditingArea
from qcode.tui.prompt.labels import Pastes, clean_paste
from qcode.tui.prompt.prompt import NEW_LINE_KEYS


@values.dataclass(slots=True)
class MovedDraft:
    """The draft that Enter moved from the prompt into the text field."""

    field_text: str
    prompt_text: str
    """The text as it was in the prompt, with the labels of attachments."""
    pending_breaks: int = 1
    """The Enter keys of the same burst so far: line breaks of a pasted text, if more of it follows."""


class AnswerField(EditingArea):
    """The field for an answer or a reason, edited like the prompt. It may have several lines; long pastes are folded.

    `intercept` is called first with each key and paste, and returns whether it has handled it. `pastes` are those of
    the prompt, so that a text with a folded paste can move between the two.
    """

    @dataclass
    class Sent(Message):
        """The user pressed Enter. `text` has every paste expanded."""

        text: str

    class Left(Message):
        """The user moved back to the choices."""

    def __init__(
        self, intercept: Callable[[events.Key | events.Paste], bool], pastes: Pastes, *, id: str | None = None
    ) -> None:
        self._pastes = pastes
        self._intercept = intercept
        self.approval_id = ""
        """The id of the approval to which the text belongs; empty if it belongs to none."""
        self.moved_draft: MovedDraft | None = None
        """The draft that was moved into the field; None without one, and once the text is sent."""
        super().__init__(self._pastes.labels, placeholder="", id=id)

    @property
    def whole_text(self) -> str:
        """The text with every paste expanded."""
        return self._pastes.expand(self.text)

    @property
    def unsent_text(self) -> str:
        """The text to return to the prompt. A moved draft that was not edited has the labels of its attachments."""
        moved = self.moved_draft
        return moved.prompt_text if moved is not None and moved.field_text == self.text else self.whole_text

    def begin(self, approval_id: str, placeholder: str) -> None:
        """Take the text for an approval. The field keeps its text if that belongs to the same approval."""
        self.placeholder = placeholder
        if approval_id != self.approval_id:
            self.approval_id = approval_id
            self.text = ""
            self.moved_draft = None

    def add_draft(self, text: str, prompt_text: str) -> None:
        """Add the draft of the prompt to the text. In `text`, the labels of its attachments are replaced."""
        self.text = "\n".join(filter(None, (self.text, text)))
        self.moved_draft = MovedDraft(text, prompt_text)

    def continue_burst(self, event: events.Key | events.Paste) -> bool:
        """Handle a key or a paste that follows the Enter of a moved draft without a pause; return whether it is done.

        Such an Enter and the text after it are a paste that the terminal sent as keys. An Enter is therefore a line
        break, which is inserted when more text follows.
        """
        moved = self.moved_draft
        if moved is None:
            return False
        if isinstance(event, events.Key) and event.key == "enter":
            moved.pending_breaks += 1
            return True
        if moved.pending_breaks and (isinstance(event, events.Paste) or event.is_printable):
            self.replace_in_one_step("\n" * moved.pending_breaks, *sorted(self.selection))
            moved.pending_breaks = 0
        return False

    def on_key(self, event: events.Key) -> None:
        row, column = self.cursor_location
        is_escaped = event.key == "enter" and self.document[row][:column].endswith("\\")
        if self._intercept(event):
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
        if not self._intercept(event):
            self.replace_in_one_step(self._pastes.fold(clean_paste(event.text)), *sorted(self.selection))
