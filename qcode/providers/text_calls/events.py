"""The events of a reply with calls written as text become those of a reply with calls. Pure.

Blocks are numbered anew, because a call splits the text it stands in. Calls a provider gives as such pass through.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from dataclasses import replace

from qcode.protocol.errors import ProviderError
from qcode.protocol.messages import Opaque
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.stops import StopReason
from qcode.providers.history import mint_call_id
from qcode.providers.text_calls.reading import WrittenCall
from qcode.providers.text_calls.text_filter import Piece, TextCalls, Visible

_CUTS = (StopReason.MAX_TOKENS, StopReason.CONTEXT_WINDOW_EXCEEDED, StopReason.REFUSAL)


class CallEvents:
    """Fed with the events of one reply. `tag` makes the ids of calls unique in a conversation; `cap` is the output
    cap of the request: a reply that used all of it was cut, whatever its stop reason says.
    """

    def __init__(self, calls: TextCalls, *, tag: str = "0", cap: int | None = None) -> None:
        self._calls = calls
        self._tag = tag
        self._cap = cap
        self._response_id = ""
        self._output: int | None = None
        self._next = 0
        self._numbers: dict[int, int] = {}
        # The provider's text blocks, the one that the filter reads now, and the end of it once it came.
        self._sources: set[int] = set()
        self._source: int | None = None
        self._source_ended: BlockEnded | None = None
        # Our number of the text block that is open, None between a call and the text behind it.
        self._text: int | None = None
        self._minted = 0
        self._is_last_complete = True

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Return what becomes of one event."""
        match event:
            case TextDelta():
                return self._take_text(event)
            case ReasoningDelta() | ToolArgsDelta():
                before, number = self._number(event.block)
                return [*before, replace(event, block=number)]
            case ToolCallStarted():
                before, number = self._number(event.block)
                self._is_last_complete = True
                return [*before, replace(event, block=number)]
            case BlockEnded():
                return self._end_block(event)
            case ReplyEnded():
                return self._end(event)
            case UsageReported():
                self._output = self._output if event.usage.output is None else event.usage.output
            case ReplyStarted():
                self._response_id = event.response_id
        return [event]

    def break_off(self) -> list[ReplyEvent]:
        """Return what is still held when the stream breaks: nothing that arrived is lost, an open call is cut."""
        self._source_ended = None
        return self._events_of(self._calls.flush(is_cut=True), ends_cut_call=False)

    def _take_text(self, event: TextDelta) -> list[ReplyEvent]:
        before = self._end_source() if self._source not in (None, event.block) or self._source_ended else []
        self._source = event.block
        self._sources.add(event.block)
        return [*before, *self._events_of(self._calls.feed(event.text))]

    def _number(self, block: int) -> tuple[list[ReplyEvent], int]:
        """Return the new number of a block that is no text; a new block begins only behind all text before it."""
        number = self._numbers.get(block)
        if number is not None:
            return [], number
        before = self._end_source()
        self._numbers[block] = number = self._begin()
        return before, number

    def _end_block(self, event: BlockEnded) -> list[ReplyEvent]:
        if event.block == self._source:
            # What is held is decided by what comes next: the end of the reply may say that it was cut.
            self._source_ended = event
            return []
        if event.block in self._sources:
            return [] if event.opaque is None else self._signed(event.opaque)
        before, number = self._number(event.block)
        return [*before, replace(event, block=number)]

    def _end_source(self, *, is_cut: bool = False) -> list[ReplyEvent]:
        """End the text block that is read, with all that is still held of it."""
        events = self._events_of(self._calls.flush(is_cut=is_cut))
        ended, self._source, self._source_ended = self._source_ended, None, None
        opaque = ended.opaque if ended else None
        if self._text is None and opaque is not None:
            return [*events, *self._signed(opaque)]
        return events + self._end_text(opaque)

    def _end(self, event: ReplyEnded) -> list[ReplyEvent]:
        is_cut = event.stop in _CUTS or (
            self._cap is not None and self._output is not None and self._output >= self._cap
        )
        events = self._end_source(is_cut=is_cut)
        if event.stop is StopReason.END_TURN:
            if self._minted and self._is_last_complete:
                event = replace(event, stop=StopReason.TOOL_USE)
            elif self._calls.ends_rejected and not self._minted:
                reason = self._calls.rejected[-1].reason if self._calls.rejected else "it cannot be read"
                event = replace(event, stop=StopReason.MALFORMED_CALL, detail=f"a call written as text: {reason}")
        return [*events, event]

    def _events_of(self, pieces: Iterable[Piece], *, ends_cut_call: bool = True) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for piece in pieces:
            if isinstance(piece, Visible):
                if self._text is None:
                    self._text = self._begin()
                events.append(TextDelta(self._text, piece.text))
                continue
            for call in piece.calls:
                events += self._end_text()
                events += self._call_events(call, ends=call.is_complete or ends_cut_call)
        return events

    def _call_events(self, call: WrittenCall, *, ends: bool) -> list[ReplyEvent]:
        self._minted += 1
        self._is_last_complete = call.is_complete
        number = self._begin()
        call_id = mint_call_id(f"{self._tag}t", self._response_id, self._minted)
        events: list[ReplyEvent] = [ToolCallStarted(number, call_id, call.name)]
        if call.arguments:
            events.append(ToolArgsDelta(number, call.arguments))
        return [*events, BlockEnded(number)] if ends else events

    def _begin(self) -> int:
        number, self._next = self._next, self._next + 1
        return number

    def _signed(self, opaque: Opaque) -> list[ReplyEvent]:
        """Return a block without text, to hang on what the provider wants back."""
        number = self._begin()
        return [TextDelta(number, ""), BlockEnded(number, opaque)]

    def _end_text(self, opaque: Opaque | None = None) -> list[ReplyEvent]:
        number, self._text = self._text, None
        return [] if number is None else [BlockEnded(number, opaque)]


async def as_event_stream(
    events: AsyncIterable[ReplyEvent], calls: TextCalls, *, tag: str = "0", cap: int | None = None
) -> AsyncIterator[ReplyEvent]:
    """Yield the events of a reply with the calls in its text as calls; see `CallEvents`.

    A stream that fails gives what is held first, then fails.
    """
    made = CallEvents(calls, tag=tag, cap=cap)
    try:
        async for event in events:
            for changed in made.feed(event):
                yield changed
    except ProviderError:
        for held in made.break_off():
            yield held
        raise
