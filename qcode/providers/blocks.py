"""Numbering the blocks of one reply and keeping their text whole; what every decoder writes its events with.

Pure. A character outside the BMP that a server split into two deltas (as JSON escapes of its halves) is put back
together, so that no event carries half a character.
"""

from __future__ import annotations

from enum import Enum

from qcode.protocol.messages import Opaque
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEvent,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
)


class Kind(Enum):
    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"


class BlockWriter:
    """Blocks in order of appearance from 0. Text and reasoning written by `flow` share one open block at a time."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, Kind] = {}
        self._held: dict[int, str] = {}
        self._opaque: dict[int, Opaque] = {}
        self._flowing: int | None = None

    @property
    def count(self) -> int:
        """How many blocks have begun."""
        return self._next

    def flow(self, kind: Kind, text: str, *, is_signed: bool = False) -> list[ReplyEvent]:
        """Append to the open block of `kind`, beginning one where another kind is open; empty text begins none.

        `is_signed`: the text carries a signature, so even an empty one needs a block to hang it on.
        """
        if not text and not is_signed:
            return []
        events: list[ReplyEvent] = []
        if self._flowing is None or self._open[self._flowing] is not kind:
            events += self.end_flow()
            self._flowing = self.begin(kind)
            if not text:
                events += self.name(self._flowing)
        return events + self.write(self._flowing, text)

    def sign(self, opaque: Opaque) -> None:
        """Attach `opaque` to the block text is flowing into."""
        if self._flowing is not None:
            self._opaque[self._flowing] = opaque

    def end_flow(self) -> list[ReplyEvent]:
        block, self._flowing = self._flowing, None
        return [] if block is None else self.end(block)

    def begin(self, kind: Kind) -> int:
        block, self._next = self._next, self._next + 1
        self._open[block] = kind
        return block

    def begin_call(self, call_id: str, name: str) -> tuple[int, list[ReplyEvent]]:
        """Begin a call; the flowing block, if any, ends before it."""
        events = self.end_flow()
        block = self.begin(Kind.CALL)
        return block, [*events, ToolCallStarted(block, call_id, name)]

    def write(self, block: int, text: str) -> list[ReplyEvent]:
        """Append to an open block; text for a block that has ended is dropped."""
        kind = self._open.get(block)
        if kind is None:
            return []
        text = self._whole(block, text)
        return [_delta(kind, block, text)] if text else []

    def name(self, block: int) -> list[ReplyEvent]:
        """Return the empty delta that says what kind of block `block` is, where it may stay without text."""
        return [_delta(self._open[block], block, "")]

    def end(self, block: int, opaque: Opaque | None = None) -> list[ReplyEvent]:
        """End a block once; ending it again does nothing."""
        kind = self._open.pop(block, None)
        if kind is None:
            return []
        if block == self._flowing:
            self._flowing = None
        events: list[ReplyEvent] = []
        if self._held.pop(block, ""):
            events.append(_delta(kind, block, "\N{REPLACEMENT CHARACTER}"))
        events.append(BlockEnded(block, opaque or self._opaque.pop(block, None)))
        return events

    def end_all(self) -> list[ReplyEvent]:
        self._flowing = None
        return [event for block in sorted(self._open) for event in self.end(block)]

    def _whole(self, block: int, text: str) -> str:
        if text.isascii() and not self._held:
            return text
        text = self._held.pop(block, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[block] = text[-1]
            text = text[:-1]
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text


class PrefilledSpace:
    """White space that was taken off the end of a prefill because the host refuses it there.

    Where the reply begins with it, it is dropped: the text so far ends with it already.
    """

    def __init__(self, space: str) -> None:
        self._space = space

    def cut(self, text: str) -> str:
        """Return the next piece of the reply's text without what of the white space it repeats."""
        while self._space and text:
            if text[0] != self._space[0]:
                self._space = ""
            else:
                self._space, text = self._space[1:], text[1:]
        return text


def _delta(kind: Kind, block: int, text: str) -> ReplyEvent:
    match kind:
        case Kind.TEXT:
            return TextDelta(block, text)
        case Kind.REASONING:
            return ReasoningDelta(block, text)
        case Kind.CALL:
            return ToolArgsDelta(block, text)
