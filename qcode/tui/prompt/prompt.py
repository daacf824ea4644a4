"""The prompt widget: folds pastes, holds images, recalls and searches the history, drives the completion menu.

It posts the submitted text; the app decides whether that text is a prompt, a command or steering. Editing is in
`editing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from textual import events, on
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from qcode.tui.prompt.completion import Completion
from qcode.tui.prompt.editing import EditingArea
from qcode.tui.prompt.history import UnsentPrompt
from qcode.tui.prompt.labels import MAX_UNFOLDED_CHARS, Asides, Images, Pastes, clean_paste, image_paths, label_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text as RichText

    from qcode.agent.context.pictures import Picture
    from qcode.protocol.messages import Block, Text
    from qcode.tui.prompt.history import HistorySearch, PromptHistory
    from qcode.tui.prompt.menu import CompletionMenu, CompletionSources, MenuItem
    from qcode.tui.prompt.vim.keys import VimKeys

# Textual reports xterm's own encoding of Shift+Enter, Ctrl+Enter and Alt+Enter as "shift+\r", "ctrl+\r" and "\r".
NEW_LINE_KEYS = frozenset({"shift+enter", "alt+enter", "ctrl+j", "ctrl+enter", "shift+\r", "ctrl+\r", "\r"})

_DRAFT_SECONDS = 0.5
"""Seconds from a change until the draft is saved."""

PromptKind: TypeAlias = Literal["prompt", "shell"]


class Prompt(EditingArea):
    """A text area that submits its text. Submitting clears it; `put_back` restores a text that was rejected."""

    # These messages are not dataclasses: to define a dataclass takes almost a millisecond at each start.

    class ScrollRequested(Message):
        """Home or End was pressed in the empty prompt, where they scroll the transcript."""

        def __init__(self, *, to_end: bool) -> None:
            super().__init__()
            self.to_end = to_end

    class Submitted(Message):
        """The user sent the prompt."""

        def __init__(self, text: str, typed_text: str, attached: tuple[Block, ...] = ()) -> None:
            super().__init__()
            self.text = text
            """The text with pastes expanded."""
            self.typed_text = typed_text
            """The text as it was on the screen, with labels for pastes, side questions and images."""
            self.attached = attached
            """The side questions and images."""

    class KindChanged(Message):
        """The prompt now holds a shell line (`!…`), or no longer does."""

        def __init__(self, kind: PromptKind) -> None:
            super().__init__()
            self.kind = kind

    class EarlierPromptRequested(Message):
        """The user pressed Up in an empty prompt, to edit the last queued prompt or recall an older one."""

    def __init__(
        self,
        menu: CompletionMenu,
        search: HistorySearch,
        history: PromptHistory,
        show_vim: Callable[[str], None],
        *,
        id: str | None = None,
    ) -> None:
        self.pastes = Pastes()
        self.images = Images()
        self.asides = Asides()
        self._label_kinds = self.pastes.labels, self.images.labels, self.asides.labels
        self._vim: VimKeys | None = None
        self._show_vim = show_vim
        """Shows the mode of vim with the keys of an unfinished command; an empty text without vim mode."""
        super().__init__(*self._label_kinds, placeholder="Ask · / commands · @ files · ? keys", id=id)
        self.prompt_history = history
        self.show_hint: Callable[[str], None] = lambda text: None  # shows a short message below the prompt
        self.drop_attachment: Callable[[], None] = lambda: None  # removes the last attachment of the next prompt
        self.queued_texts: Callable[[], Sequence[str]] = lambda: ()
        """Returns the queued prompts as the user typed them. They are stored after the text of the draft."""
        self.answer_text: Callable[[], str] = lambda: ""
        """Returns the unsent text in the text field of a question. It is stored before the text of the draft."""
        self.attached_texts: Callable[[], Sequence[str]] = lambda: ()
        """Returns the attached output of commands, without secrets, which is stored with the draft."""
        self.restore_attached: Callable[[tuple[str, ...]], None] = lambda texts: None
        self.editor_key = ""  # the key that opens the external editor
        self.is_emptied_by_undo = False  # whether an undo emptied the prompt, and it is still empty
        self._is_draft_scheduled = False  # whether a timer will save the draft
        self._menu = menu
        menu.on_pick = self._press_enter
        self._search = search
        self._completion = Completion(self, menu, self._takes_completions)
        self._refilled_text = ""  # the last text of `refill`
        self._kind: PromptKind = "prompt"

    def set_sources(self, sources: CompletionSources) -> None:
        """Use the completions of `sources` from now on, and offer them for the current text."""
        self._completion.sources = sources
        self.update_menu()

    @property
    def is_empty(self) -> bool:
        return not self.text

    @property
    def whole_text(self) -> str:
        """The text with every paste expanded, for the editor."""
        return self.pastes.expand(self.text)

    @property
    def portable_text(self) -> str:
        """The text for use in another session, without labels."""
        return self._without_labels(self.text)

    def _without_labels(self, text: str) -> str:
        # Pastes are expanded last, because text in a paste that looks like a label stays as it is.
        return self.pastes.expand(self.images.with_file_mentions(self.asides.without_labels(text)))

    @property
    def unsent_asides(self) -> tuple[Text, ...]:
        """The side questions whose labels are in the prompt, in the queue, or in the text field of a question."""
        return self.asides.blocks_in("\n".join((self.answer_text(), self.text, *self.queued_texts())))

    def save_draft(self) -> None:
        """Store all unsent text and the attached output, so that the next start can restore them after a crash.

        A text that is only an API key is not stored.
        """
        from qcode.safety.redaction import is_secret  # not needed for the first paint

        self._is_draft_scheduled = False
        # The queued prompts are stored as typed, so that their `/commands` and mentions still work after a restart.
        texts = list(map(self._without_labels, (self.text, self.answer_text(), *self.queued_texts())))
        # A text that still has a label of a side question is nothing but labels. They are stored with the output.
        texts = [text for text in texts if text and not is_secret(text) and not self.asides.labels.labels_in(text)]
        self.prompt_history.draft_file.save(UnsentPrompt("\n\n".join(texts), tuple(self.attached_texts())))

    def restore_draft(self) -> bool:
        """Restore the draft and the attached output of a killed or crashed process, unless the prompt has text.

        Return whether a text was restored.
        """
        unsent = self.prompt_history.draft_file.take_abandoned() if self.is_empty else UnsentPrompt()
        if unsent.attached:
            self.restore_attached(unsent.attached)
        if unsent.text:
            self.replace_text(unsent.text)
        return bool(unsent.text)

    def put_back(self, typed: str) -> None:
        """Restore a rejected text in front of any text typed since."""
        self.replace_text(typed + (f"\n{self.text}" if self.text else ""))

    def add_below(self, text: str) -> None:
        """Add a text on a new line after the text of the prompt."""
        self.replace_text(f"{self.text}\n{text}" if self.text else text)

    def refill(self, text: str) -> None:
        """Show a text that was sent before, selected: typing replaces it, an arrow key or End keeps it for editing.

        Without the selection, a command typed next, such as `/redo`, would be appended and sent to the model.
        """
        self.replace_text(text)
        self.close_menu()
        self.update_menu()
        if self.is_commanding:
            return  # in vim's normal mode keys are commands, so no text can be appended by mistake
        if self._vim is not None:
            self._vim.reset()
        self.selection = Selection((0, 0), self.document.end)
        self._refilled_text = self.text

    @property
    def is_refilled(self) -> bool:
        """Whether the text is that of `refill`, still selected and unchanged."""
        is_selected = sorted(self.selection) == [(0, 0), self.document.end]
        return bool(self.text) and self.text == self._refilled_text and is_selected

    def replace_text(self, text: str) -> None:
        """Show `text`, folded if it is too long to lay out; undo restores the previous text."""
        self._set_text(text if len(text) <= MAX_UNFOLDED_CHARS else self.pastes.fold(text))

    def use_vim(self, is_on: bool) -> None:
        """Switch vim mode on, in insert mode, or off."""
        if is_on == (self._vim is not None):
            return
        if not is_on:
            self._vim = None
            self.notify_style_update()
            self._show_vim("")
            return
        from qcode.tui.prompt.vim.keys import VimKeys

        self._vim = VimKeys(
            self,
            self._label_kinds,
            recall_older=self.recall_queued_or_older,
            recall_newer=self.recall_newer,
            show_label=self._show_vim,
        )

    @property
    def has_vim(self) -> bool:
        return self._vim is not None

    @property
    def is_commanding(self) -> bool:
        """Whether keys are vim's commands: normal or visual mode."""
        return self._vim is not None and not self._vim.is_inserting

    def escape_vim(self) -> bool:
        """Handle Esc in vim mode: leave insert or visual mode, or cancel a command; return False if none applies."""
        if self._vim is None or not self.has_focus:
            return False
        if self._vim.is_inserting:
            self.close_menu()
        return self._vim.escape()

    def end_selection(self) -> None:
        """Clear the selection, and leave visual mode."""
        if self._vim is not None and self._vim.is_visual:
            self._vim.escape()
        self.selection = Selection.cursor(self.cursor_location)

    @property
    def selected_text(self) -> str:
        """The selected text, also in visual mode."""
        return (self._vim.selected_text if self._vim is not None else "") or super().selected_text

    def validate_selection(self, selection: Selection) -> Selection:
        selection = super().validate_selection(selection)
        if self._vim is not None and self.is_commanding and selection.is_empty:
            # In normal mode the cursor is on a character, never after the last one of a line.
            return Selection.cursor(self._vim.clamp(selection.end))
        return selection

    def get_line(self, line_index: int) -> RichText:
        """Return a line to paint, with the selection of vim's visual mode highlighted."""
        line = super().get_line(line_index)
        selected = self._vim.selected_columns(line_index) if self._vim is not None else None
        if selected is not None:
            style = self.get_component_rich_style("text-area--selection")
            if line.plain:
                line.stylize(style, *selected)
            else:
                line.append(" ", style)
        return line

    def action_undo(self) -> None:
        if self._vim is not None:
            self._vim.undo()
        else:
            super().action_undo()
        self.is_emptied_by_undo = self.is_empty

    def undo_deletion(self) -> bool:
        """Undo the deletion that emptied the prompt; return False without one. Sending cannot be undone."""
        if not self.is_empty or self._vim is not None or not self.history.undo_stack:
            return False
        self.action_undo()
        return True

    def action_redo(self) -> None:
        if self._vim is not None:
            self._vim.undo(is_redo=True)
        else:
            super().action_redo()

    def _insert(self, text: str) -> None:
        """Insert `text` at the cursor, or in place of the selection, as a paste would."""
        if text:
            self.replace_in_one_step(text, *sorted(self.selection))

    def clear_into_history(self) -> None:
        """Clear the prompt and add its text to the history, so that Up restores it."""
        self._remember(self.text)
        self._set_text("")

    def close_menu(self) -> bool:
        """Hide the menu until the text changes; return whether it was open."""
        was_open = self._menu.is_open
        self._completion.dismiss(self.text)
        return was_open

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Return whether a key types text before any binding is tried.

        In an empty prompt, the bindings of punctuation come first: `?` shows the list of keys. `/` has no binding, so
        it is typed.
        """
        if self.is_empty and character is not None and not character.isalnum():
            return False
        return super().check_consume_key(key, character)

    @on(TextArea.Changed)
    def schedule_draft(self) -> None:
        """Save the draft `_DRAFT_SECONDS` after a change; remove it at once if there is no text anymore."""
        if self.is_empty and not self.answer_text():
            self.save_draft()
        elif not self._is_draft_scheduled:
            self._is_draft_scheduled = True
            self.set_timer(_DRAFT_SECONDS, self.save_draft)

    def on_unmount(self) -> None:
        self.save_draft()

    @on(TextArea.Changed)
    def _update_after_change(self) -> None:
        """Update the kind of the prompt and the menu."""
        if not self.is_empty:
            self.is_emptied_by_undo = False
        kind: PromptKind = "shell" if self.text.startswith("!") else "prompt"
        if kind != self._kind:
            self._kind = kind
            self.post_message(self.KindChanged(kind))
        self.update_menu()

    @on(TextArea.SelectionChanged)
    def _offer_at_cursor(self) -> None:
        self.update_menu()

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def _follow_in_vim(self) -> None:
        if self._vim is not None:
            self._vim.follow()

    def on_key(self, event: events.Key) -> None:
        """Handle the keys that do not edit. App bindings such as Shift+Tab come first."""
        row, column = self.cursor_location
        if event.key in ("enter", "tab"):
            # Keys that arrive in one read are handled before `Changed`, so the menu may not know the text yet.
            self.update_menu()
        if self._search.is_open and self._press_in_search(event):
            pass
        elif event.key in ("home", "end") and self.is_empty:
            self.post_message(self.ScrollRequested(to_end=event.key == "end"))
        elif self._vim is not None and self._vim.press(event.key, event.character):
            pass
        elif event.key in ("backspace", "ctrl+h") and self.is_empty:
            self.drop_attachment()
        elif event.key == "enter":
            self._press_enter()
        elif event.key in NEW_LINE_KEYS:
            if self.is_refilled:
                self.move_cursor(self.document.end)
            self._insert("\n")
            self.scroll_cursor_visible()
        elif event.key == "tab":
            self._press_tab()
        elif event.character == ":" and self._completion.is_after_mention:
            self.replace_in_one_step(":", (row, column - 1), (row, column))  # `@cart.py:`, for a range of lines
        else:
            return
        event.stop()
        event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Insert a paste, folded if it is large. A paste never sends the prompt."""
        event.stop()
        event.prevent_default()
        self.paste_text(event.text)

    def paste_text(self, text: str) -> None:
        """Insert a paste: labels if it consists of image paths, otherwise text, folded if it is long."""
        self.leave_search(keeps_match=True)
        text = clean_paste(text)
        paths = image_paths(text)
        sources = self._completion.sources
        if not (paths and sources is not None and self.add_pictures(sources.pictures(paths))):
            self._insert(self.pastes.fold(text))

    def add_pictures(self, pictures: tuple[Picture, ...]) -> bool:
        """Insert a label for each image; return whether there were any."""
        self._insert("".join(f"{self.images.label(picture)} " for picture in pictures))
        return bool(pictures)

    def add_aside(self, question: str, block: Text) -> None:
        """Insert a label for a side question."""
        self._insert(f"{self.asides.label(question, block)} ")

    def action_cursor_up(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(-1)
        elif select or not self.navigator.is_first_wrapped_line(self.cursor_location):
            super().action_cursor_up(select)
        else:
            self.recall_queued_or_older()

    def action_cursor_down(self, select: bool = False) -> None:
        if self._menu.is_open and not select:
            self._menu.move(1)
        elif select or not self.navigator.is_last_wrapped_line(self.cursor_location):
            super().action_cursor_down(select)
        else:
            self.recall_newer()

    def recall_queued_or_older(self) -> None:
        """Ask the app for the last queued prompt if this prompt is empty; otherwise show an older one."""
        if self.is_empty:
            self.post_message(self.EarlierPromptRequested())
        else:
            self.recall_older()

    def recall_newer(self) -> None:
        self._show_recalled(self.prompt_history.newer(), is_older=False)

    def recall_older(self) -> None:
        self._show_recalled(self.prompt_history.older(self.text), is_older=True)

    def _press_enter(self, clicked: MenuItem | None = None) -> None:
        """Insert the completion that was `clicked` or is highlighted; send the prompt if it is then complete."""
        chosen = clicked or (self._menu.chosen if self._menu.is_open else None)
        typed = self._completion.typed_text
        if chosen is not None and typed is not None:
            if chosen.text.rstrip() != typed.rstrip():
                self._completion.accept(chosen)
                if self._completion.is_mention or not chosen.is_complete:
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
        typed = self.text
        if not typed.strip():
            return
        self._remember(typed)
        self.text = ""  # this also clears the undo stack
        if self._vim is not None:
            self._vim.reset()
        self._menu.close()
        attached: tuple[Block, ...] = (*self.asides.blocks_in(typed), *self.images.images_in(typed))
        text = self.pastes.expand(self.asides.without_labels(typed))
        self.post_message(self.Submitted(text, typed, attached))

    def _remember(self, typed: str) -> None:
        # A later run does not know the labels of this one.
        self.prompt_history.add(typed, self._without_labels(typed))

    def update_menu(self, *, has_new_files: bool = False) -> None:
        """Offer completions for the text at the cursor. `has_new_files`: the file index has changed since."""
        self._completion.update(has_new_files=has_new_files)

    def _takes_completions(self) -> bool:
        """Return whether completions may be offered: keys are typed into this prompt, and it has no shell line."""
        is_hidden = self.screen.has_class("-asking")  # a question is shown in place of the prompt
        return self._kind != "shell" and not (is_hidden or self._search.is_open or self.is_commanding)

    def _press_tab(self) -> None:
        if self._search.is_open:
            self.leave_search(keeps_match=True)
        elif self._menu.is_open:
            chosen = self._menu.chosen or self._menu.choices[0]
            if self._completion.is_mention:
                self._completion.accept(chosen)
            else:
                self._set_text(chosen.text)
        else:
            self._expand_paste()

    def _expand_paste(self) -> None:
        """Show the text of the last folded paste before the cursor, otherwise of the first one after it."""
        ranges = [
            ((row, start), (row, end))
            for row in range(self.document.line_count)
            for start, end in label_spans(self.document[row], self.pastes.labels)
        ]
        if not ranges:
            return
        before_cursor = [(start, end) for start, end in ranges if end <= self.cursor_location]
        start, end = before_cursor[-1] if before_cursor else ranges[0]
        text = self.pastes.expand(self.get_text_range(start, end))
        if len(text) <= MAX_UNFOLDED_CHARS:
            self.replace_in_one_step(text, start, end)
        else:
            self.show_hint(f"too long to show here; {self.editor_key or '/editor'} opens it")

    def search_history(self) -> None:
        """Start a search, or move to an older match."""
        if self._search.is_open:
            self._search.move(1)
            self._show_match()
        else:
            self._menu.close()
            self._search.open(self.text)

    def leave_search(self, *, keeps_match: bool = False) -> bool:
        """End the search and show the text before it, or its match if `keeps_match`; return whether there was one."""
        if not self._search.is_open:
            return False
        self._search.close()
        if not keeps_match:
            self._drop_shown_match()
        self._completion.dismiss(self.text)
        return True

    def _press_in_search(self, event: events.Key) -> bool:
        """Use a key during a search; return False if the prompt must use it.

        Every key that neither moves nor types ends the search and keeps the match. Enter and Tab do no more than that.
        """
        if event.key in ("up", "down", "ctrl+s"):
            self._search.move(1 if event.key == "up" else -1)
            self._show_match()
        elif event.key in ("backspace", "ctrl+h") or event.is_printable:
            words = self._search.words[:-1]
            if event.is_printable:
                words = self._search.words + (event.character or "")
            self._search.set_matches(words, self.prompt_history.matches(words) if words else ())
            self._show_match()
        else:
            self.leave_search(keeps_match=True)
            return event.key in ("enter", "tab")
        return True

    def _show_match(self) -> None:
        """Show the match in place of the previous one, so that one undo restores the draft."""
        self._drop_shown_match()
        if self._search.match is not None:
            self._set_text(self._search.match)

    def _drop_shown_match(self) -> None:
        if self.text != self._search.draft:
            self.undo()

    def _show_recalled(self, text: str | None, *, is_older: bool) -> None:
        """Show an entry of the history so that the same key, Up or Down, shows the next entry.

        Up needs the cursor on the first line, Down on the last one.
        """
        if text is None:
            return
        self._completion.dismiss(text)
        self._set_text(text)
        if is_older:
            self.move_cursor((0, len(self.document[0])))

    def _set_text(self, text: str) -> None:
        self.replace_in_one_step(text, (0, 0), self.document.end)
        self.update_menu()
