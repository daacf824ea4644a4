"""The ordered entries of the transcript, and the live ones among them. Independent of screens, sizes and scrolling.

The live blocks are those since the last `settle`: text, reasoning, and cards of calls that are still being received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from qcode.tui.transcript.entries import (
    AttachmentsEntry,
    DividerEntry,
    Entry,
    Foldable,
    NoticeEntry,
    PromptEntry,
    ReasoningEntry,
    ReplyEntry,
    SupersededEntry,
    WelcomeEntry,
)
from qcode.tui.transcript.line import style_of

if TYPE_CHECKING:
    from qcode.protocol.events import Level
    from qcode.tui.transcript.cards import Card, CardUpdate

ThinkingMode = Literal["folded", "expanded", "hidden"]
"""How finished reasoning is shown."""

_PROMPT_ENTRIES = (PromptEntry, AttachmentsEntry)
_NOTICE_SYMBOLS = {"info": "• ", "warning": "! ", "error": "✗ "}


class Replacement(NamedTuple):
    """A replacement of live entries by others with the same text. A user who reads them stays at the same row."""

    first_index: int
    """The index of the first new entry, which is that of the first removed one."""
    entries: Sequence[Entry]
    """The removed entries."""


class Content:
    """The entries of a transcript. `take_changed` returns the first entry that must be laid out again."""

    def __init__(self, clock: Callable[[], float], thinking: ThinkingMode = "folded") -> None:
        self.thinking: ThinkingMode = thinking
        self.entries: list[Entry] = []
        self.is_unfolded = False
        self.fold_key = "Ctrl+O"
        """The key that unfolds, which reasoning shows; empty if no key does."""
        self.addition_count = 0
        """A count of new cards and errors, and of additions to replies, to reasoning and to the last card. If it grows
        while the user reads elsewhere, a label reports new text below."""
        self.superseded: SupersededEntry | None = None
        """The old text below a new attempt, which replaces it row by row; None if there is no such text."""
        self.new_attempt_index = 0
        """The index of the first entry of the new attempt, if `superseded` is not None."""
        self._clock = clock
        self._first_changed: int | None = None
        self._has_moved = False
        self._replaced: Replacement | None = None
        self._cards: dict[str, Card] = {}
        self._last_card: Card | None = None
        self._running_entries: set[Entry] = set()
        self._live: list[Entry] = []
        self._text: ReplyEntry | None = None
        self._reasoning: ReasoningEntry | None = None
        # Whether a mark was the last addition to the live text. Reasoning after it does not end the text block.
        self._is_continued = False

    @property
    def live_text(self) -> str:
        """The text of the reply that is being received, without marks."""
        return "".join(entry.source() for entry in self._live if isinstance(entry, ReplyEntry))

    def take_changed(self) -> int | None:
        """Return the index of the first entry changed since the last call, None if none was."""
        changed = self._first_changed
        self._first_changed = None
        return changed

    @property
    def has_moved(self) -> bool:
        """Whether entries were removed or inserted between others since the last `take_moved`."""
        return self._has_moved

    def take_moved(self) -> bool:
        """Return `has_moved`, and reset it."""
        has_moved = self._has_moved
        self._has_moved = False
        return has_moved

    def take_replaced(self) -> Replacement | None:
        """Return the entries replaced since the last call, if any."""
        replaced = self._replaced
        self._replaced = None
        return replaced

    @property
    def has_running(self) -> bool:
        """Whether an entry shows elapsed time, which `tick` updates."""
        return bool(self._running_entries)

    def add_welcome(self, lines: Sequence[str]) -> None:
        self._add(WelcomeEntry(lines))

    def change_welcome(self, lines: Sequence[str]) -> None:
        """Show other welcome lines unless the conversation has begun."""
        if self.entries and isinstance(self.entries[0], WelcomeEntry) and self.entries[0].change(lines):
            self._mark_changed(0)

    def add_user(self, text: str) -> None:
        # The welcome collapses once, with the first prompt: a change at the top makes the positions of all entries
        # stale.
        if self.entries and isinstance(self.entries[0], WelcomeEntry) and self.entries[0].collapse():
            self._mark_changed(0)
        self._add(PromptEntry(text, style_of("user-band", "user"), "> ", style_of("user-band", "user-mark")))

    def add_attached(self, lines: Sequence[str]) -> None:
        """Add the attachments of the last prompt, directly below it."""
        self._add(AttachmentsEntry("\n".join(lines), style_of("dim"), "+ "), gap=0)

    def withdraw_prompt(self) -> None:
        """Remove the last prompt, its attachments, the warning about it and its closing line. Other notices stay."""
        prompt_indexes = [index for index, entry in enumerate(self.entries) if isinstance(entry, PromptEntry)]
        if not prompt_indexes:
            return
        for entry in self.entries[prompt_indexes[-1] :]:
            is_warning_about_prompt = isinstance(entry, NoticeEntry) and not entry.gap
            if is_warning_about_prompt or isinstance(entry, (*_PROMPT_ENTRIES, DividerEntry)):
                self._remove(entry)
        first = self.entries[0] if self.entries else None
        has_prompt = any(isinstance(entry, PromptEntry) for entry in self.entries)
        if isinstance(first, WelcomeEntry) and not has_prompt and first.collapse(is_collapsed=False):
            self._mark_changed(0)

    def add_notice(self, level: Level, text: str) -> None:
        """Add a notice, or count it in the last entry if that is the same notice.

        A warning after a prompt is about the prompt, so no blank row separates the two.
        """
        last = self.entries[-1] if self.entries else None
        if level == "error":  # it often arrives instead of a reply, so it counts as one
            self.addition_count += 1
        if isinstance(last, NoticeEntry) and last.count_repetition(level, text):
            self._touch(last)
        else:
            is_about_prompt = level == "warning" and isinstance(last, _PROMPT_ENTRIES)
            self._add(NoticeEntry(level, text, _NOTICE_SYMBOLS[level]), gap=0 if is_about_prompt else 1)

    def append_text(self, text: str) -> None:
        if not text:
            return
        self._end_reasoning()
        if self._text is None:
            self._text = ReplyEntry()
            self._add_live(self._text)
        self._is_continued = False
        self.addition_count += 1
        self._extend_text(self._text, text)

    def _extend_text(self, entry: ReplyEntry, text: str) -> None:
        """Add text to a live entry. A long text continues in new entries below it."""
        following = entry.append(text)
        self._touch(entry)
        start = self._index(entry) + 1
        for index, part in enumerate(following, start):
            self._text = part
            self._live.append(part)
            self._add(part, gap=0, index=index)

    def append_reasoning(self, text: str) -> None:
        """Start or extend reasoning. Text after it starts a new block, unless the text before it ended with a mark."""
        if not text or self.thinking == "hidden":
            return
        if not self._is_continued:
            self._text = None
        if self._reasoning is None:
            self._reasoning = ReasoningEntry(self._clock, self.fold_key)
            self._reasoning.is_unfolded = self.thinking == "expanded"
            self._running_entries.add(self._reasoning)
            self._add_live(self._reasoning)
        self.addition_count += 1
        self._reasoning.append(text)
        self._touch(self._reasoning)

    def end_reasoning(self, seconds: float) -> None:
        """End the reasoning, which took `seconds`."""
        if self._reasoning is not None:
            self._reasoning.finish_after(seconds)
            self._end_reasoning()

    def add_mark(self, text: str) -> None:
        """Add a mark, such as `continued 1/3`, inside the live text, which continues below it.

        Without live text, the mark is a separate row.
        """
        if self._text is None:
            self._add(DividerEntry(text), gap=0)
            return
        self._is_continued = True
        self._text.mark(text)
        self._touch(self._text)

    def settle(self) -> None:
        """End the live blocks, and remove the text of a superseded attempt."""
        self._end_reasoning()
        for entry in self._live:
            if isinstance(entry, ReplyEntry):
                entry.settle()
                self._touch(entry)
        self.drop_superseded()
        self._forget_live()

    def restart(self, label: str) -> None:
        """Make the live blocks old text, which the new attempt replaces row by row. `label` is shown between both."""
        removed = self._take_live()
        if not removed.entries:
            self._add(DividerEntry(label), gap=0)
            return
        self._replaced = removed
        self.superseded = SupersededEntry(removed.entries, label)
        self.new_attempt_index = removed.first_index
        self.entries.insert(removed.first_index, self.superseded)
        self._mark_changed(removed.first_index)

    def restore(self, text: str, reasoning: str = "") -> None:
        """Replace the live blocks with this text, which becomes live."""
        self._replaced = self._take_live()
        index = self._replaced.first_index
        if reasoning and self.thinking != "hidden":
            entry = ReasoningEntry(self._clock, self.fold_key)
            entry.append(reasoning)
            entry.finish()
            entry.unfold(self.thinking == "expanded")
            self._add_live(entry, index)
            index += 1
        if text:
            self._text = ReplyEntry()
            self._add_live(self._text, index)
            self._extend_text(self._text, text)

    def drop_superseded(self) -> None:
        """Remove the old text below the new attempt, if there is any."""
        if self.superseded is not None:
            self._remove(self.superseded)
            self.superseded = None

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        """Add a card in the state `waiting`. A later call with the same id gets a new card."""
        self._end_reasoning()
        self._text = None
        self._is_continued = False
        # Imported with the first call, because the first paint needs no card.
        from qcode.tui.transcript.cards import Card

        card = self._last_card = Card(name, argument, self._clock)
        self._cards[call_id] = card
        index = len(self.entries) if self.superseded is None else self.entries.index(self.superseded)
        above = self.entries[index - 1] if index else None
        is_grouped = card.is_read_only and isinstance(above, Card) and above.is_read_only
        self._add(card, gap=0 if is_grouped else 1, index=index)

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        """Change a card, unless it was removed with its attempt. Raise `ValueError` for an unknown state."""
        from qcode.tui.transcript.cards import STATES

        if update.state is not None and update.state not in STATES:
            raise ValueError(f"a card has no state {update.state!r}; it is one of {', '.join(STATES)}")
        card = self._cards.get(call_id)
        if card is None:
            return
        if card is self._last_card:  # output of an earlier card appears above the end, so it is not new text below
            self.addition_count += 1
        card.change(update)
        # A call that is still being written is removed with its attempt; a complete one stays.
        if card.state != "writing":
            self._live = [entry for entry in self._live if entry is not card]
        elif card not in self._live:
            self._live.append(card)
        if card.state == "running":
            self._running_entries.add(card)
        else:
            self._running_entries.discard(card)
        self._touch(card)

    def tick(self) -> None:
        """Update the elapsed time on running cards and live reasoning."""
        for entry in self._running_entries:
            entry.touch()
            self._touch(entry)

    def insert_earlier(self, earlier: Content) -> None:
        """Insert the entries of `earlier`, which must not be used afterwards, above all others but the welcome."""
        if not earlier.entries:
            return
        if earlier.is_unfolded != self.is_unfolded:
            earlier.toggle_folds()
        index = 0
        if self.entries and isinstance(self.entries[0], WelcomeEntry):
            self.entries[0].collapse()
            earlier.entries[0].gap = 1
            index = 1
        elif self.entries:
            self.entries[0].gap = 1
        self.entries[index:index] = earlier.entries
        self.new_attempt_index += len(earlier.entries)
        self._has_moved = True
        self._mark_changed(0)

    def toggle_folds(self) -> None:
        self.is_unfolded = not self.is_unfolded
        for entry in self.entries:
            if isinstance(entry, Foldable):
                entry.unfold(self.is_unfolded)
        self._first_changed = 0

    def unfold(self, entry: Foldable, is_unfolded: bool) -> None:
        """Unfold one entry, or fold it again."""
        entry.unfold(is_unfolded)
        self._touch(entry)

    def _end_reasoning(self) -> None:
        entry = self._reasoning
        self._reasoning = None
        if entry is None:
            return
        entry.finish()
        self._running_entries.discard(entry)
        self._touch(entry)

    def _take_live(self) -> Replacement:
        """Remove the live blocks and the old text of an earlier restart, and return them."""
        old: list[Entry] = list(self._live)
        if self.superseded is not None:
            old.append(self.superseded)
        index = min((self.entries.index(entry) for entry in old), default=len(self.entries))
        self._cards = {call_id: card for call_id, card in self._cards.items() if card not in old}
        for entry in old:
            self._running_entries.discard(entry)
            self._remove(entry)
        self.superseded = None
        self._forget_live()
        return Replacement(index, old)

    def _forget_live(self) -> None:
        self._live = []
        self._text = None
        self._reasoning = None
        self._is_continued = False

    def _add_live(self, entry: Entry, index: int | None = None) -> None:
        self._live.append(entry)
        self._add(entry, index=index if self.superseded is None else self.entries.index(self.superseded))

    def _add(self, entry: Entry, *, gap: int = 1, index: int | None = None) -> None:
        index = len(self.entries) if index is None else index
        entry.gap = gap if index else 0
        if isinstance(entry, Foldable):
            entry.is_unfolded = entry.is_unfolded or self.is_unfolded
            self.addition_count += 1
        if index < len(self.entries):
            self._has_moved = True
        self.entries.insert(index, entry)
        self._mark_changed(index)

    def _remove(self, entry: Entry) -> None:
        index = self._index(entry)
        del self.entries[index]
        self._has_moved = True
        self._mark_changed(index)

    def _touch(self, entry: Entry) -> None:
        self._mark_changed(self._index(entry))

    def _index(self, entry: Entry) -> int:
        """Return the index of `entry`, searching from the end, where most changes happen."""
        index = len(self.entries) - 1
        while self.entries[index] is not entry:
            index -= 1
        return index

    def _mark_changed(self, index: int) -> None:
        self._first_changed = index if self._first_changed is None else min(self._first_changed, index)
