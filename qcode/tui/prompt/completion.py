"""Completes the command or the mention at the cursor of the prompt: what the menu offers, and what a choice replaces.

`menu` paints the choices, and has the pure functions for mentions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qcode.tui.prompt.menu import Mention, MenuItem, file_choices, mention_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widgets.text_area import Location

    from qcode.tui.prompt.editing import EditingArea
    from qcode.tui.prompt.menu import CompletionMenu, CompletionSources


class _PromptState(NamedTuple):
    text: str
    cursor: Location


class _Completed(NamedTuple):
    """The part of the prompt that a choice of the menu replaces."""

    start: Location
    end: Location
    is_mention: bool
    """It is a mention (`@path`), not a command."""


class Completion:
    """The completion of one prompt, which calls `update` after each change of its text or its cursor.

    `may_offer` returns whether completions may be offered now.
    """

    def __init__(self, prompt: EditingArea, menu: CompletionMenu, may_offer: Callable[[], bool]) -> None:
        self._prompt = prompt
        self._menu = menu
        self._may_offer = may_offer
        self.sources: CompletionSources | None = None
        """The functions that return completions; None until the commands are loaded."""
        self._dismissed_text = ""  # the text for which the menu stays closed
        self._offered_state = _PromptState("", (0, 0))  # at the last update
        self._mention_state: _PromptState | None = None  # after the last mention that was completed
        self._completed: _Completed | None = None

    @property
    def is_mention(self) -> bool:
        """Whether the menu completes a mention, not a command."""
        return self._completed is not None and self._completed.is_mention

    @property
    def typed_text(self) -> str | None:
        """The text that a choice would replace, None before the first completion."""
        completed = self._completed
        return None if completed is None else self._prompt.get_text_range(completed.start, completed.end)

    @property
    def is_after_mention(self) -> bool:
        """Whether a mention was just completed, and neither text nor cursor has changed since."""
        return self._state == self._mention_state

    @property
    def _state(self) -> _PromptState:
        return _PromptState(self._prompt.text, self._prompt.cursor_location)

    def dismiss(self, text: str) -> None:
        """Close the menu, and keep it closed while `text` is the text of the prompt."""
        self._dismissed_text = text
        self._menu.close()

    def update(self, *, has_new_files: bool = False) -> None:
        """Offer completions for the text at the cursor. `has_new_files`: the file index has changed since."""
        if self.sources is None or (self._state == self._offered_state and not has_new_files):
            return
        self._offered_state = self._state
        prompt = self._prompt
        prompt.suggestion = self.sources.hint(prompt.text) if prompt.cursor_location == prompt.document.end else ""
        if not self._may_offer() or prompt.text == self._dismissed_text:
            self._menu.close()
            return
        self._dismissed_text = ""
        row, column = prompt.cursor_location
        mention = mention_at(prompt.document[row], column) if prompt.selection.is_empty else None
        if mention is None:
            self._offer_commands(self.sources)
        else:
            self._offer_paths(self.sources, mention, has_new_files=has_new_files)

    def _offer_commands(self, sources: CompletionSources) -> None:
        text = self._prompt.text
        self._completed = _Completed((0, 0), self._prompt.document.end, is_mention=False)
        typed_argument = text.partition(" ")[2].strip()
        is_name = " " not in text
        # After `/model ` no choice is highlighted, so that Enter sends the command without an argument.
        self._menu.offer(sources.commands(text), is_first_chosen=is_name or bool(typed_argument))

    def _offer_paths(self, sources: CompletionSources, mention: Mention, *, has_new_files: bool) -> None:
        """Offer the files, and the resources of tool servers, that match a mention in the line of the cursor."""
        is_new_mention = not (self._menu.is_open and self.is_mention) and not has_new_files
        row, _ = self._prompt.cursor_location
        self._completed = _Completed((row, mention.start), (row, mention.end), is_mention=True)
        files = sources.files(mention.query, is_new_mention)
        rows = (*sources.resources(mention.query), *file_choices(files.matches))
        self._menu.offer(rows, is_first_chosen=True, keeps_chosen=has_new_files)

    def accept(self, choice: MenuItem) -> None:
        """Insert a choice in place of the text that it completes, with a space after a complete mention."""
        if self._completed is None:
            return
        text = choice.text
        if self._completed.is_mention and choice.is_complete:
            row, column = self._completed.end
            text += "" if self._prompt.document[row][column:].startswith(" ") else " "
        elif choice.is_complete:
            text = text.rstrip()
        self._prompt.replace_in_one_step(text, self._completed.start, self._completed.end)
        if self._completed.is_mention and text.endswith(" "):
            self._mention_state = self._state
