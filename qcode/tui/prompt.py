"""The prompt: where a person writes. It edits text, folds pastes, walks history and drives the slash menu.

It posts `Submitted` and nothing else; what a text means (prompt, command, steering) is the app's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from qcode.tui.completion import Choice
from qcode.tui.pastes import Pastes, normalize_newlines
from qcode.tui.prompt_history import PromptHistory
from qcode.tui.slash_menu import SlashMenu

# The last two are what xterm-style terminals send for Shift+Enter and Alt+Enter.
NEW_LINE_KEYS = frozenset({"shift+enter", "alt+enter", "ctrl+j", "ctrl+enter", "shift+\r", "\r"})


class Prompt(TextArea):
    """A text area that sends. The text is cleared when it is sent; `put_back` returns what was not taken."""

    @dataclass
    class Submitted(Message):
        """`text` is what is meant, pastes whole; `shown` is what stood in the prompt."""

        text: str
        shown: str

    def __init__(
        self,
        menu: SlashMenu,
        history: PromptHistory,
        choices: Callable[[str], tuple[Choice, ...]],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(
            soft_wrap=True,
            compact=True,
            highlight_cursor_line=False,
            show_line_numbers=False,
            placeholder="Ask · / commands · ? keys",
            id=id,
        )
        self.cursor_blink = False
        self.sent = history
        self.pastes = Pastes()
        self._menu = menu
        self._choices = choices
        self._dismissed = ""

    @property
    def is_empty(self) -> bool:
        return not self.text

    def put_back(self, shown: str) -> None:
        """Return text that was not taken, before anything typed since."""
        self._show(shown + (f"\n{self.text}" if self.text else ""))

    def submit(self, text: str) -> None:
        """Send `text`, which was typed elsewhere, as if it had been typed here."""
        self.sent.add(text)
        self.post_message(self.Submitted(text, text))

    def stash(self) -> None:
        """Clear the prompt; Up brings the text back."""
        self.sent.add(self.pastes.expand(self.text))
        self._show("")

    def close_menu(self) -> bool:
        """Hide the slash menu until the text changes; return whether it was open."""
        was_open = self._menu.is_open
        self._dismissed = self.text
        self._menu.close()
        return was_open

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Leave signs to the app's bindings while the prompt is empty, so that `?` can show the keys."""
        if self.is_empty and character is not None and not character.isalnum():
            return False
        return super().check_consume_key(key, character)

    def on_text_area_changed(self) -> None:
        self._offer()

    def on_key(self, event: events.Key) -> None:
        """Handle the keys that are not editing. Shift+Tab and the like are bindings of the app and come first."""
        if event.key == "enter":
            self._enter()
        elif event.key in NEW_LINE_KEYS:
            self.insert("\n")
            self.scroll_cursor_visible()
        elif event.key == "tab":
            self._tab()
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Insert what was pasted, folded when it is big; a paste never sends."""
        event.stop()
        event.prevent_default()
        self._replace_selection(self.pastes.fold(normalize_newlines(event.text)))

    def action_paste(self) -> None:
        self._replace_selection(self.pastes.fold(normalize_newlines(self.app.clipboard)))

    def action_cursor_up(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(-1)
        elif select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self._walk(self.sent.older(self.text), is_older=True)

    def action_cursor_down(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(1)
        elif select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self._walk(self.sent.newer(), is_older=False)

    def action_delete_left(self) -> None:
        """Delete a folded paste as one; otherwise a character."""
        label = self._label_before_cursor()
        if label and self.selection.is_empty:
            row, column = self.cursor_location
            self.delete((row, column - len(label)), (row, column))
        else:
            super().action_delete_left()

    def _enter(self) -> None:
        chosen = self._menu.chosen if self._menu.is_open else None
        if chosen is not None and chosen.text.rstrip() != self.text.rstrip():
            if not chosen.is_complete:
                self._show(chosen.text)
                return
            self._show(chosen.text.rstrip())
        elif self._ends_in_backslash():
            row, column = self.cursor_location
            self.replace("\n", (row, column - 1), (row, column))
            return
        self._send()

    def _ends_in_backslash(self) -> bool:
        row, column = self.cursor_location
        return column > 0 and column == len(self.document[row]) and self.document[row].endswith("\\")

    def _send(self) -> None:
        shown = self.text
        if not shown.strip():
            return
        text = self.pastes.expand(shown)
        self.sent.add(text)
        self._show("")
        self.post_message(self.Submitted(text, shown))

    def _tab(self) -> None:
        label = self._label_before_cursor()
        if self._menu.is_open:
            chosen = self._menu.chosen or self._menu.choices[0]
            self._show(chosen.text)
        elif label:
            row, column = self.cursor_location
            self.replace(self.pastes.expand(label), (row, column - len(label)), (row, column))

    def _label_before_cursor(self) -> str:
        row, column = self.cursor_location
        return self.pastes.label_before(self.document[row][:column])

    def _walk(self, text: str | None, *, is_older: bool) -> None:
        """Show an entry of the history, the cursor where the next press goes on walking."""
        if text is None:
            return
        self._dismissed = text
        self._show(text)
        if is_older:
            self.move_cursor((0, len(self.document[0])))

    def _show(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)
        self._offer()

    def _replace_selection(self, text: str) -> None:
        if text:
            start, end = self.selection
            self.move_cursor(self.replace(text, start, end, maintain_selection_offset=False).end_location)

    def _offer(self) -> None:
        if self.text == self._dismissed:
            self._menu.close()
            return
        self._dismissed = ""
        typed_argument = self.text.partition(" ")[2].strip()
        is_name = " " not in self.text
        self._menu.offer(self._choices(self.text), is_first_chosen=is_name or bool(typed_argument))
