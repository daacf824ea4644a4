"""The prompt widget: folds pastes, holds images, walks and searches the history, drives the menu.

It posts what the user means and nothing else; the app decides what a text does (prompt, command, steering).
Editing is in `editing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from textual import events, on
from textual.message import Message
from textual.widgets import TextArea

from qcode import values
from qcode.tui.prompt.editing import EditingArea
from qcode.tui.prompt.labels import MAX_UNFOLDED_CHARS, Images, Pastes, image_paths, pasted
from qcode.tui.prompt.menu import file_choices, mention_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.agent.context.file_index import FileMatches
    from qcode.agent.context.pictures import Picture
    from qcode.protocol.messages import Image
    from qcode.tui.prompt.history import HistorySearch, PromptHistory
    from qcode.tui.prompt.menu import MenuItem, SlashMenu

# Shift+Enter as xterm-style terminals send it, and Alt+Enter in plain ones.
NEW_LINE_KEYS = frozenset({"shift+enter", "alt+enter", "ctrl+j", "ctrl+enter", "shift+\r", "\r"})

Kind: TypeAlias = Literal["prompt", "shell"]


@values.dataclass(frozen=True, slots=True)
class Sources:
    """What the prompt asks for while a person types.

    commands  the rows for what is typed
    files     what matches a mention; True where it was just begun, so that the folder is looked at again
    pictures  the images of pasted paths; empty where they are not all images
    """

    commands: Callable[[str], tuple[MenuItem, ...]]
    files: Callable[[str, bool], FileMatches]
    pictures: Callable[[tuple[str, ...]], tuple[Picture, ...]]


class Prompt(EditingArea):
    """A text area that sends. The text is cleared when it is sent; `put_back` returns what was not taken."""

    @dataclass
    class Submitted(Message):
        """`text` is what is meant, pastes whole; `shown` is what stood in the prompt, with the labels of `images`."""

        text: str
        shown: str
        images: tuple[Image, ...] = ()

    @dataclass
    class KindChanged(Message):
        """What stands in the prompt now is a line for the shell, or no longer is."""

        kind: Kind

    class TakeBack(Message):
        """Up was pressed on an empty prompt: what is queued may come back, else the history is walked."""

    def __init__(
        self, menu: SlashMenu, search: HistorySearch, history: PromptHistory, *, id: str | None = None
    ) -> None:
        self.pastes = Pastes()
        self.images = Images()
        super().__init__(
            self.pastes.labels, self.images.labels, placeholder="Ask · / commands · @ files · ? keys", id=id
        )
        self.sent = history
        self._menu = menu
        self._search = search
        self._sources: Sources | None = None
        self._dismissed = ""
        self._offered: tuple[str, tuple[int, int]] = ("", (0, 0))
        self._range: tuple[tuple[int, int], tuple[int, int]] | None = None
        self._is_mention = False
        self._kind: Kind = "prompt"

    def use(self, sources: Sources) -> None:
        """Complete with these from now on, what stands here already too."""
        self._sources = sources
        self.offer()

    @property
    def is_empty(self) -> bool:
        return not self.text

    @property
    def whole_text(self) -> str:
        """What stands in the prompt with every paste in full, for the editor."""
        return self.pastes.expand(self.text)

    def put_back(self, shown: str) -> None:
        """Return text that was not taken, before anything typed since."""
        self._show(shown + (f"\n{self.text}" if self.text else ""))

    def submit(self, text: str) -> None:
        """Send `text`, which was typed elsewhere, as if it had been typed here."""
        self.sent.add(text)
        self.post_message(self.Submitted(text, text))

    def replace_text(self, text: str) -> None:
        """Show `text`, folded where it is too long to lay out; undo brings back what was there."""
        self._show(text if len(text) <= MAX_UNFOLDED_CHARS else self.pastes.fold(text))

    def _insert(self, text: str) -> None:
        """Put `text` where the cursor is, as a paste would."""
        if text:
            self.edit_as_one(text, *sorted(self.selection))

    def stash(self) -> None:
        """Clear the prompt; Up brings the text back."""
        self._remember(self.text)
        self._show("")

    def close_menu(self) -> bool:
        """Hide the menu until the text changes; return whether it was open."""
        was_open = self._menu.is_open
        self._dismissed = self.text
        self._menu.close()
        return was_open

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Leave signs to the app's bindings while the prompt is empty, so that `?` can show the keys."""
        if self.is_empty and character is not None and not character.isalnum():
            return False
        return super().check_consume_key(key, character)

    # What comes from Textual

    @on(TextArea.Changed)
    def _note_kind(self) -> None:
        kind: Kind = "shell" if self.text.startswith("!") else "prompt"
        if kind != self._kind:
            self._kind = kind
            self.post_message(self.KindChanged(kind))
        self.offer()

    @on(TextArea.SelectionChanged)
    def _offer_at_cursor(self) -> None:
        self.offer()

    def on_key(self, event: events.Key) -> None:
        """Handle the keys that are not editing. Shift+Tab and the like are bindings of the app and come first."""
        if event.key in ("enter", "tab"):
            # Of what was typed in one go the menu has not heard yet.
            self.offer()
        if self._search.is_open and self._search_key(event):
            pass
        elif event.key == "enter":
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
        self.paste_text(event.text)

    def paste_text(self, text: str) -> None:
        """Put in what was pasted: a label for each image where it is paths of images, folded where it is long."""
        self.leave_search(takes=True)
        text = pasted(text)
        paths = image_paths(text)
        if not (paths and self._sources is not None and self.add_pictures(self._sources.pictures(paths))):
            self._insert(self.pastes.fold(text))

    def add_pictures(self, pictures: tuple[Picture, ...]) -> bool:
        """Put in a label for each image, return whether there was any."""
        self._insert("".join(f"{self.images.label(picture)} " for picture in pictures))
        return bool(pictures)

    def action_cursor_up(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(-1)
        elif select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        elif self.is_empty:
            self.post_message(self.TakeBack())
        else:
            self.walk_older()

    def action_cursor_down(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(1)
        elif select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self._walk(self.sent.newer(), is_older=False)

    def walk_older(self) -> None:
        self._walk(self.sent.older(self.text), is_older=True)

    # Sending

    def _enter(self) -> None:
        chosen = self._menu.chosen if self._menu.is_open else None
        if chosen is not None and self._range is not None:
            typed = self.get_text_range(*self._range)
            if chosen.text.rstrip() != typed.rstrip():
                self._accept(chosen)
                if self._is_mention or not chosen.is_complete:
                    return
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
        self._remember(shown)
        self.text = ""
        self._menu.close()
        self.post_message(self.Submitted(self.pastes.expand(shown), shown, self.images.within(shown)))

    def _remember(self, shown: str) -> None:
        self.sent.add(shown, self.images.lasting(self.pastes.expand(shown)))

    # The menu

    def offer(self, *, is_news: bool = False) -> None:
        """Bring the menu up to date; `is_news`: more files are known than when it was last."""
        place = (self.text, self.cursor_location)
        if self._sources is None or (place == self._offered and not is_news):
            return
        self._offered = place
        if self.text == self._dismissed or self._search.is_open or self._kind == "shell":
            self._menu.close()
            return
        self._dismissed = ""
        row, column = self.cursor_location
        mention = mention_at(self.document[row], column) if self.selection.is_empty else None
        if mention is not None:
            is_begun = not (self._menu.is_open and self._is_mention) and not is_news
            self._is_mention = True
            self._range = (row, mention.start), (row, mention.end)
            found = self._sources.files(mention.query, is_begun)
            self._menu.offer(file_choices(found.matches), is_first_chosen=True, keeps_chosen=is_news)
            return
        self._range, self._is_mention = ((0, 0), self.document.end), False
        typed_argument = self.text.partition(" ")[2].strip()
        is_name = " " not in self.text
        self._menu.offer(self._sources.commands(self.text), is_first_chosen=is_name or bool(typed_argument))

    def _accept(self, choice: MenuItem) -> None:
        if self._range is None:
            return
        start, end = self._range
        text = choice.text
        if self._is_mention and choice.is_complete and self.document[end[0]][end[1] : end[1] + 1] != " ":
            text += " "
        self.edit_as_one(text if self._is_mention or not choice.is_complete else text.rstrip(), start, end)

    def _tab(self) -> None:
        label = self.label_at(self.cursor_location, is_before=True)
        row = self.cursor_location[0]
        if self._search.is_open:
            self.leave_search(takes=True)
        elif self._menu.is_open:
            chosen = self._menu.chosen or self._menu.choices[0]
            if self._is_mention:
                self._accept(chosen)
            else:
                self._show(chosen.text)
        elif label is not None:
            whole = self.pastes.expand(self.document[row][label[0] : label[1]])
            if len(whole) <= MAX_UNFOLDED_CHARS:
                self.edit_as_one(whole, (row, label[0]), (row, label[1]))

    # History

    def search_history(self) -> None:
        """Begin to search, or go on to an older match."""
        if self._search.is_open:
            self._search.step(1)
            self._show_match()
        else:
            self._menu.close()
            self._search.open(self.text)

    def leave_search(self, *, takes: bool = False) -> bool:
        """End the search, with what was found or what was there before; return whether there was one."""
        if not self._search.is_open:
            return False
        match = self._search.match
        self._search.close()
        if not takes or match is None:
            self._show(self._search.draft)
        self._dismissed = self.text
        return True

    def _search_key(self, event: events.Key) -> bool:
        """Take a key as a part of the search; return False for one that is for the prompt again."""
        words = self._search.words
        if event.key in ("enter", "tab"):
            self.leave_search(takes=True)
        elif event.key in ("up", "down", "ctrl+s"):
            self._search.step(1 if event.key == "up" else -1)
            self._show_match()
        elif event.key in ("backspace", "ctrl+h") or event.is_printable:
            words = words + (event.character or "") if event.is_printable else words[:-1]
            self._search.look_for(words, self.sent.matches(words) if words else ())
            self._show_match()
        else:
            self.leave_search(takes=True)
            return False
        return True

    def _show_match(self) -> None:
        self._show(self._search.match if self._search.match is not None else self._search.draft)

    def _walk(self, text: str | None, *, is_older: bool) -> None:
        """Show an entry of the history, the cursor where the next press goes on walking."""
        if text is None:
            return
        self._dismissed = text
        self._show(text)
        if is_older:
            self.move_cursor((0, len(self.document[0])))

    def _show(self, text: str) -> None:
        self.edit_as_one(text, (0, 0), self.document.end)
        self.offer()
