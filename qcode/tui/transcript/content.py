"""The ordered entries of the transcript, and the live ones among them. Independent of screens, sizes and scrolling.

The live blocks are those since the last `settle`: text, reasoning, and cards of calls that are still being received.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from qcode.tui.transcript.entries import (
    Attached,
    Divider,
    Entry,
    Foldable,
    NoticeEntry,
    PromptEntry,
    ReplyEntry,
    SupersededEntry,
    Thinking,
    WelcomeEntry,
)
from qcode.tui.transcript.line import ink

if TYPE_CHECKING:
    from qcode.protocol.events import Level
    from qcode.tui.transcript.cards import Card, CardUpdate

Thoughts = Literal["folded", "expanded", "hidden"]

_PROMPT = (PromptEntry, Attached)
_NOTICE_MARKS = {"info": "• ", "warning": "! ", "error": "✗ "}


class Replaced(NamedTuple):
    """Removed entries. The entries from the index `at` on show the same rows, or new rows one for one."""

    at: int
    entries: Sequence[Entry]


class Content:
    """The entries of a transcript. `take_changed` returns the first entry that must be laid out again.

    While a new attempt replaces a reply, `held` is the rest of the old text. The new attempt is above it, from
    the index `held_at` on. `arrivals` counts additions to replies and cards, and errors, for the label that reports new
    text below.
    """

    def __init__(self, clock: Callable[[], float], thinking: Thoughts = "folded") -> None:
        self.thinking: Thoughts = thinking
        self.entries: list[Entry] = []
        self.is_unfolded = False
        self.arrivals = 0
        self.held: SupersededEntry | None = None
        self.held_at = 0
        self._clock = clock
        self._first_changed: int | None = None
        self._has_moved = False
        self._replaced: Replaced | None = None
        self._cards: dict[str, Card] = {}
        self._last_card: Card | None = None
        self._running_entries: set[Entry] = set()
        self._live: list[Entry] = []
        self._text: ReplyEntry | None = None
        self._thinking: Thinking | None = None
        self._is_continued = False

    @property
    def live_text(self) -> str:
        """The text of the reply that is being received, without marks."""
        return "".join(entry.source() for entry in self._live if isinstance(entry, ReplyEntry))

    def take_changed(self) -> int | None:
        """Return the index of the first entry changed since the last call, None if none was."""
        changed, self._first_changed = self._first_changed, None
        return changed

    @property
    def has_moved(self) -> bool:
        """Whether entries were removed or inserted between others since the last `take_moved`."""
        return self._has_moved

    def take_moved(self) -> bool:
        has_moved, self._has_moved = self._has_moved, False
        return has_moved

    def take_replaced(self) -> Replaced | None:
        """Return the entries replaced since the last call, if any."""
        replaced, self._replaced = self._replaced, None
        return replaced

    @property
    def has_running(self) -> bool:
        return bool(self._running_entries)

    def add_welcome(self, lines: Sequence[str]) -> None:
        self._add(WelcomeEntry(lines))

    def add_user(self, text: str) -> None:
        # Only once: it makes the positions of all entries stale.
        if self.entries and isinstance(self.entries[0], WelcomeEntry) and self.entries[0].collapse():
            self._mark_changed(0)
        self._add(PromptEntry(text, ink("user-band", "user"), "> ", ink("user-band", "user-mark")))

    def add_attached(self, lines: Sequence[str]) -> None:
        """Add what a prompt attaches, directly below it."""
        self._add(Attached("\n".join(lines), ink("dim"), "+ "), gap=0)

    def add_notice(self, level: Level, text: str) -> None:
        """Add a notice; a repeated one is counted in the last. A warning after a prompt is directly below it."""
        last = self.entries[-1] if self.entries else None
        # The notice of an error often takes the place of the reply.
        self.arrivals += level == "error"
        if isinstance(last, NoticeEntry) and last.repeats(level, text):
            self._touch(last)
        else:
            is_about_prompt = level == "warning" and isinstance(last, _PROMPT)
            self._add(NoticeEntry(level, text, _NOTICE_MARKS[level]), gap=0 if is_about_prompt else 1)

    def append_text(self, text: str) -> None:
        if not text:
            return
        self._end_thinking()
        if self._text is None:
            self._text = ReplyEntry()
            self._add_live(self._text)
        self._is_continued = False
        self.arrivals += 1
        self._extend_text(self._text, text)

    def _extend_text(self, entry: ReplyEntry, text: str) -> None:
        """Add text to a live entry, and the entries in which it continues below it."""
        following = entry.append(text)
        self._touch(entry)
        at = self._index(entry) + 1
        for index, part in enumerate(following, at):
            self._text = part
            self._live.append(part)
            self._add(part, gap=0, at=index)

    def append_reasoning(self, text: str) -> None:
        """Start or extend reasoning. Text after it starts a new block, unless a mark was added to the text."""
        if not text or self.thinking == "hidden":
            return
        if not self._is_continued:
            self._text = None
        if self._thinking is None:
            self._thinking = Thinking(self._clock)
            self._thinking.is_unfolded = self.thinking == "expanded"
            self._running_entries.add(self._thinking)
            self._add_live(self._thinking)
        self.arrivals += 1
        self._thinking.append(text)
        self._touch(self._thinking)

    def end_reasoning(self, seconds: float) -> None:
        """End the reasoning, which took `seconds`."""
        if self._thinking is not None:
            self._thinking.finish_after(seconds)
            self._end_thinking()

    def add_mark(self, text: str) -> None:
        """Add a mark inside the live text, which continues below it, or as a separate row if there is no live text."""
        if self._text is None:
            self._add(Divider(text), gap=0)
            return
        self._is_continued = True
        self._text.mark(text)
        self._touch(self._text)

    def settle(self) -> None:
        """Close the live blocks."""
        self._end_thinking()
        for entry in self._live:
            if isinstance(entry, ReplyEntry):
                entry.settle()
                self._touch(entry)
        self.end_hold()
        self._forget_live()

    def restart(self, label: str) -> None:
        """Mark the live blocks as old text, which the new attempt replaces row by row."""
        at, old = self._take_live()
        if not old:
            self._add(Divider(label), gap=0)
            return
        self.held, self.held_at = SupersededEntry(old, label), at
        self._replaced = Replaced(at, old)
        self.entries.insert(at, self.held)
        self._mark_changed(at)

    def restore(self, text: str, reasoning: str = "") -> None:
        """Replace the live blocks with this text, which becomes live."""
        at, old = self._take_live()
        self._replaced = Replaced(at, old)
        if reasoning and self.thinking != "hidden":
            thinking = Thinking(self._clock)
            thinking.append(reasoning)
            thinking.finish()
            thinking.unfold(self.thinking == "expanded")
            self._add_live(thinking, at)
            at += 1
        if text:
            self._text = ReplyEntry()
            self._add_live(self._text, at)
            self._extend_text(self._text, text)

    def end_hold(self) -> None:
        """Remove the rest of the old text."""
        if self.held is not None:
            self._remove(self.held)
            self.held = None

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        """Add a card in the state `waiting`. A later call with the same id gets a new card."""
        self._end_thinking()
        self._text = None
        self._is_continued = False
        # Imported with the first call, because the first paint needs no card.
        from qcode.tui.transcript.cards import Card

        card = self._last_card = Card(name, argument, self._clock)
        self._cards[call_id] = card
        at = len(self.entries) if self.held is None else self.entries.index(self.held)
        above = self.entries[at - 1] if at else None
        is_grouped = card.is_reading and isinstance(above, Card) and above.is_reading
        self._add(card, gap=0 if is_grouped else 1, at=at)

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        """Change a card, unless it was removed with its attempt. Raise `ValueError` for an unknown state."""
        from qcode.tui.transcript.cards import STATES

        if update.state is not None and update.state not in STATES:
            raise ValueError(f"a card has no state {update.state!r}; it is one of {', '.join(STATES)}")
        card = self._cards.get(call_id)
        if card is None:
            return
        self.arrivals += card is self._last_card
        card.change(update)
        if card.state != "writing":
            self._live = [entry for entry in self._live if entry is not card]
        elif card not in self._live:
            self._live.append(card)
        (self._running_entries.add if card.state == "running" else self._running_entries.discard)(card)
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
        at = 0
        if self.entries and isinstance(self.entries[0], WelcomeEntry):
            self.entries[0].collapse()
            at, earlier.entries[0].gap = 1, 1
        elif self.entries:
            self.entries[0].gap = 1
        self.entries[at:at] = earlier.entries
        self.held_at += len(earlier.entries)
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

    def _end_thinking(self) -> None:
        thinking, self._thinking = self._thinking, None
        if thinking is None:
            return
        thinking.finish()
        self._running_entries.discard(thinking)
        self._touch(thinking)

    def _take_live(self) -> tuple[int, list[Entry]]:
        """Remove the live blocks and the rest of an earlier restart; return their first index, and the blocks."""
        old = [*self._live, *([self.held] if self.held is not None else [])]
        at = min((self.entries.index(entry) for entry in old), default=len(self.entries))
        self._cards = {call_id: card for call_id, card in self._cards.items() if card not in old}
        for entry in old:
            self._running_entries.discard(entry)
            self._remove(entry)
        self.held = None
        self._forget_live()
        return at, old

    def _forget_live(self) -> None:
        self._live = []
        self._text = None
        self._thinking = None
        self._is_continued = False

    def _add_live(self, entry: Entry, at: int | None = None) -> None:
        self._live.append(entry)
        self._add(entry, at=at if self.held is None else self.entries.index(self.held))

    def _add(self, entry: Entry, *, gap: int = 1, at: int | None = None) -> None:
        index = len(self.entries) if at is None else at
        entry.gap = gap if index else 0
        if isinstance(entry, Foldable):
            entry.is_unfolded |= self.is_unfolded
            self.arrivals += 1
        self._has_moved |= index < len(self.entries)
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
