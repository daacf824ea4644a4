"""A provider that injects faults into another one, from a seed, so that a failing run can be repeated.

The faults are those of real hosts: chunks of any size, refused requests, dropped streams, missing usage, and unknown or
wrong stop reasons.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import (
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    UsageReported,
)

_REFUSALS = (ErrorKind.RATE_LIMIT, ErrorKind.OVERLOADED, ErrorKind.SERVER, ErrorKind.TIMEOUT, ErrorKind.CONNECTION)
_KNOWN_STOPS = (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.MAX_TOKENS)


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each fault happens, from 0 (never) to 1 (always)."""

    split: float = 0.5
    """For each delta, and again for the second part: it is split in two."""
    fail: float = 0.0
    """For each reply: the request is refused before the first event."""
    drop: float = 0.0
    """For each reply: the connection breaks."""
    no_usage: float = 0.0
    """For each reply: usage is not reported."""
    unknown_stop: float = 0.0
    """For each reply: the stop reason is a word that qcode does not know."""
    wrong_stop: float = 0.0
    """For each reply: the stop reason is a known word, but not the right one."""


class ChaosProvider:
    """Passes on the replies of `inner` with faults at `rates`. After `max_breaks` it refuses and drops no more."""

    def __init__(
        self, inner: Provider, seed: int, rates: Rates | None = None, *, max_breaks: int | None = None
    ) -> None:
        self.name = inner.name
        self.host = inner.host
        self.injected: list[str] = []
        """The names of the faults so far, as in `Rates`."""
        self._inner = inner
        self._random = random.Random(seed)
        self._rates = rates or Rates()
        self._remaining_breaks = max_breaks

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        if self._may_break(self._rates.fail, "fail"):
            kind = self._random.choice(_REFUSALS)
            raise ProviderError(kind, f"chaos: {kind}", retry_after=0.0 if kind is ErrorKind.RATE_LIMIT else None)
        drops_at = self._random.randrange(1, 12) if self._may_break(self._rates.drop, "drop") else None
        withholds_usage = self._happens(self._rates.no_usage, "no_usage")
        sent = 0
        inner = self._inner.stream(request)
        try:
            async for event in inner:
                if isinstance(event, UsageReported) and withholds_usage:
                    continue
                for piece in self._pieces(self._with_wrong_stop(event)):
                    if sent == drops_at or (drops_at and isinstance(piece, ReplyEnded)):
                        raise ProviderError(ErrorKind.CONNECTION, "chaos: the connection was lost")
                    yield piece
                    sent += 1
        finally:
            close = getattr(inner, "aclose", None)
            if close is not None:
                await close()

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return await self._inner.model_names()

    async def close(self) -> None:
        await self._inner.close()

    def _with_wrong_stop(self, event: ReplyEvent) -> ReplyEvent:
        if not isinstance(event, ReplyEnded):
            return event
        if self._happens(self._rates.unknown_stop, "unknown_stop"):
            return ReplyEnded(StopReason.UNKNOWN, "something_new")
        if self._happens(self._rates.wrong_stop, "wrong_stop"):
            return ReplyEnded(self._random.choice(_KNOWN_STOPS), "not_true")
        return event

    def _pieces(self, event: ReplyEvent) -> Iterator[ReplyEvent]:
        if not isinstance(event, TextDelta | ReasoningDelta | ToolArgsDelta) or len(event.text) < 2:
            yield event
            return
        text = event.text
        while len(text) > 1 and self._happens(self._rates.split, ""):
            index = self._random.randrange(1, len(text))
            yield replace(event, text=text[:index])
            text = text[index:]
        yield replace(event, text=text)

    def _may_break(self, rate: float, fault: str) -> bool:
        if self._remaining_breaks == 0 or not self._happens(rate, fault):
            return False
        if self._remaining_breaks is not None:
            self._remaining_breaks -= 1
        return True

    def _happens(self, rate: float, fault: str) -> bool:
        """Decide whether a fault happens, and record it if it has a name."""
        happens = self._random.random() < rate
        if happens and fault:
            self.injected.append(fault)
        return happens
