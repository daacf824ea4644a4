"""The text that a user types while a question is open, and whether the next key continues it or answers.

A user who is typing when a question opens must not answer it by accident. Keys in the first `GUARD_SECONDS` go to the
draft in the prompt, which the panel shows. So does each key that follows another one within this time. After a pause,
keys answer. An editing key, a paste, a key that selects no choice, or two quick characters start typing. From then on
every key is text, until an arrow key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.cells import cell_len

from qcode.text.clean import LINE_BREAK, show_hidden
from qcode.text.sentences import capitalized
from qcode.tui.prompt.editing import EDITING_ACTIONS
from qcode.tui.prompt.prompt import NEW_LINE_KEYS
from qcode.tui.transcript.line import Span, clusters, style_of
from qcode.values import dataclass

if TYPE_CHECKING:
    from textual import events
    from textual.timer import Timer

    from qcode.tui.panels.choices import Option
    from qcode.tui.prompt.prompt import Prompt

GUARD_SECONDS = 0.3
"""For this time after a question has opened, and after each key typed for the draft, keys do not answer."""
HOLD_SECONDS = 0.3
"""The time after which the letter or number of a choice answers, if no other key follows."""
BURST_SECONDS = 0.02
"""Keys that follow each other within this time are a burst: a pasted text, which no user can type so fast."""
_MIN_DRAFT_CELLS = 20
"""The minimum width of the draft; if less is free, its label and its hint are shortened."""
_CURSOR = "▏"
"""The cursor in the row of the draft."""


@dataclass(frozen=True, slots=True)
class HeldKey:
    """A key that answers unless more text follows.

    The letter or number of a choice answers after `HOLD_SECONDS`, Enter after `BURST_SECONDS`.
    """

    key: str
    time: float
    option: Option
    index_before: int
    """The index of the choice that was highlighted before the key."""

    def is_in_burst_with(self, event: events.Key) -> bool:
        """Return whether a key is in the same burst: a paste that the terminal sent as keys, such as `y` and Enter."""
        return event.time - self.time < BURST_SECONDS


class HeldKeys:
    """Holds one key at a time; `choose` gets its option after a pause."""

    def __init__(
        self, set_timer: Callable[[float, Callable[[], None]], Timer], choose: Callable[[Option], None]
    ) -> None:
        self._set_timer = set_timer
        self._choose = choose
        self._held: HeldKey | None = None
        self._timer: Timer | None = None

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def hold(self, event: events.Key, option: Option, index_before: int) -> None:
        """Hold a key; choose `option` at once if the pause is 0, as in tests."""
        self._held = HeldKey(event.key, event.time, option, index_before)
        if pause := BURST_SECONDS if event.key == "enter" else HOLD_SECONDS:
            self._timer = self._set_timer(pause, self._choose_held)
        else:
            self._choose_held()

    def end(self) -> HeldKey | None:
        """Stop holding the key and return it; return None if none was held."""
        held, self._held = self._held, None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        return held

    def _choose_held(self) -> None:
        if held := self.end():
            self._choose(held.option)


def key_after_escape(key: str, *, is_writing_text: bool) -> str:
    """Return `2` for the key Alt+2, which may also be Escape and `2` pressed quickly; empty for other keys.

    While a text is written, only digits count, because Alt with a letter moves the cursor in the text.
    """
    if not key.startswith("alt+"):
        return ""
    character = key.removeprefix("alt+")
    may_answer = character.isdigit() or not is_writing_text
    return character if len(character) == 1 and may_answer else ""


class TypedDraft:
    """The draft in the hidden prompt."""

    def __init__(self, clock: Callable[[], float], prompt: Prompt) -> None:
        self._clock = clock
        self._prompt = prompt
        self._guarded_until = 0.0
        self._initial_text = ""  # the draft before its first change; if it is restored, the draft is unchanged again
        self._kept_text = ""  # the text typed before the question or under the guard; it does not belong to an answer
        self._pending_breaks = 0  # the latest Enter keys: line breaks if more text follows them without a pause
        self.is_changed = False
        """The draft was changed since the question opened. Enter must not answer then."""
        self.is_writing = False
        """A key that was not under the guard changed the draft: the user is typing on purpose.

        Letters and digits are then text, too. The `y` of a slowly typed "why" thus approves nothing.
        """

    @property
    def is_guarded(self) -> bool:
        """Whether a key comes too early to be meant as an answer."""
        return self._clock() < self._guarded_until

    @property
    def is_being_typed(self) -> bool:
        """Whether the draft has just been changed, so that the next key continues it."""
        return self.is_changed and self.is_guarded

    def open(self) -> None:
        """Guard a question that has just opened."""
        self.guard()
        self.forget_changes()

    def guard(self) -> None:
        """Guard against answers by the keys that follow now."""
        self._guarded_until = self._clock() + GUARD_SECONDS

    def end(self) -> None:
        """End the typing: keys answer again, and the text stays in the prompt."""
        self.forget_changes()
        self._guarded_until = 0.0

    def forget_changes(self) -> None:
        """Treat the draft as if it had been written before the question."""
        self.is_changed = self.is_writing = False

    def take_answer(self) -> str:
        """Remove the typed answer from the prompt and return it. Labels of pastes and images are not expanded.

        A draft that the prompt had before the answer stays there, unless it was changed.
        """
        text = self._prompt.text
        kept = self._kept_text if text.startswith(self._kept_text) else ""
        self._prompt.replace_text(kept)
        self.forget_changes()
        return text[len(kept) :]

    def type_key(self, event: events.Key, *, is_early: bool) -> None:
        """Type a key into the prompt. `is_early`: the key came too early to be an answer.

        An Enter between keys without a pause is a line break of a pasted text.
        """
        breaks = self._pending_breaks if self.is_being_typed else 0
        self._pending_breaks = breaks + 1 if event.key == "enter" and self.is_being_typed else 0
        is_writing = self.is_writing or not is_early
        if not self.is_writing:
            self._kept_text = self._prompt.text
        self.guard()
        if event.is_printable and event.character:
            self.insert("\n" * breaks + event.character)
            self.is_writing = is_writing
        elif self._edit(event.key):
            self.is_changed = self._prompt.text not in ("", self._initial_text)
            self.is_writing = is_writing and self.is_changed

    def insert(self, text: str) -> None:
        """Add typed text, after which every key is text."""
        self._begin()
        self._prompt.insert(text)

    def add_held(self, held: HeldKey) -> None:
        """Add a held key that was typed as text. Enter was the line break before a pasted text, and is dropped."""
        if held.key == "enter":
            self.guard()
        else:
            self.insert(held.key)

    def paste(self, text: str) -> None:
        """Add a paste, after which every key is text."""
        self._begin()
        self._prompt.paste_text(text)

    def _begin(self) -> None:
        if not self.is_changed:
            self._initial_text = self._prompt.text
        if not self.is_writing:
            self._kept_text = self._prompt.text
        self.is_changed = self.is_writing = True

    def _edit(self, key: str) -> bool:
        """Edit the draft with a key of the prompt; return False if there is no draft or the key does not edit."""
        action = EDITING_ACTIONS.get(key)
        if not self._prompt.text or (action is None and key not in NEW_LINE_KEYS):
            return False
        if not self.is_changed:
            # An edit of text from before the question counts as a change, unless it empties the prompt.
            self._initial_text = ""
        if action is None:
            self._prompt.insert("\n")
        else:
            getattr(self._prompt, f"action_{action}")()
        return True

    def spans(self, width: int, *, is_typing: bool, answer_caption: str, has_choices: bool) -> tuple[Span, ...]:
        """Return the row of the draft for a width in cells; empty if the prompt is empty."""
        text, cursor = self._prompt.text, self._prompt.cursor_index
        if answer_caption and text.startswith(self._kept_text):
            text, cursor = text[len(self._kept_text) :], max(0, cursor - len(self._kept_text))
        return draft_spans(
            text,
            cursor,
            width,
            is_typing=is_typing,
            answer_caption=answer_caption,
            is_changed=self.is_changed,
            has_choices=has_choices,
        )


def cursor_cell(draft: Sequence[Span]) -> int:
    """Return the cell of the cursor in the row of a draft, -1 if there is no draft."""
    if not draft:
        return -1
    (label, _), (shown, _), _ = draft
    return cell_len(label + shown.partition(_CURSOR)[0])


def draft_spans(
    text: str,
    cursor: int,
    width: int,
    *,
    is_typing: bool = False,
    answer_caption: str = "",
    is_changed: bool = False,
    has_choices: bool = True,
) -> tuple[Span, ...]:
    """Return the row of the draft in the hidden prompt, with a label that shows whether keys are text or answers.

    `answer_caption`: a label such as "typing an answer" if Enter moves the draft into the text field of the question;
    empty if the draft is for the next message. `is_changed`: the draft was changed since the question opened, so the
    row says that keys answer again.
    """
    if not text:
        return ()
    # Pairs of label and hint, the longest first.
    captions = [("Kept for your next message: ", "  numbers and letters answer" if is_changed else ""), ("Kept: ", "")]
    if is_typing:
        captions = [("Typing your next message: ", "  ↑ or ↓ to answer"), ("Next message: ", "  ↑↓ answer")]
    if answer_caption:
        captions = [(f"{capitalized(answer_caption)}: ", "  Enter use it · ↑↓ choose"), ("Typing: ", "  Enter use it")]
    fitting = (caption for caption in captions if width - len("".join(caption)) >= _MIN_DRAFT_CELLS)
    label, hint = next(fitting, captions[-1])
    hint = hint if has_choices else ""
    shown = _text_around_cursor(text, cursor, max(8, width - len(label) - len(hint)))
    return (label, style_of("dim")), (shown, style_of()), (hint, style_of("dim"))


def _text_around_cursor(text: str, cursor: int, width: int) -> str:
    """Return a draft in one line of at most `width` cells around its cursor: `say hel▏o` for `say helo`."""
    before, after = (
        show_hidden(part.replace("\n", LINE_BREAK).replace("\t", " ")) for part in (text[:cursor], text[cursor:])
    )
    parts = list(clusters(f"{before}{_CURSOR}{after}" if after else before))
    offsets = [0, *accumulate(map(cell_len, parts))]  # the cells before each part, and of all
    first_cell = cell_len(before) - width // 2 if after else offsets[-1]
    start = bisect_left(offsets, max(0, min(first_cell, offsets[-1] - width)))
    end = bisect_right(offsets, offsets[start] + width) - 1
    shown = parts[start:end]
    if start:
        shown[0] = "…"
    if end < len(parts):
        shown[-1] = "…"
    return "".join(shown)
