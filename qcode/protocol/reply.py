"""What a provider says while a reply streams.

A healthy stream is `ReplyStarted`, then blocks, then exactly one `ReplyEnded`, its last event. `ReplyEnded` is
emitted at the end of the stream and not on the chunk that carries the reason, because usage may come after it.
Blocks are numbered in order of appearance from 0 within one attempt. A failure is never an event: it is a
`ProviderError` raised by the stream; a stream that ends without its terminal event raises one too.
"""

from __future__ import annotations

from typing import TypeAlias

from qcode.protocol.messages import Opaque
from qcode.protocol.stops import StopReason
from qcode.protocol.usage import Usage
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    model: str
    response_id: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    block: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A piece of a call's raw argument JSON; it stays raw text until the reply has ended."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class BlockEnded:
    """A block is complete as far as the provider says; `opaque` belongs to that block."""

    block: int
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Cumulative counts of this request so far: a later report replaces an earlier one, field by field."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Source:
    """A page that a reply rests on."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class WebSearched:
    """What the host of the model searched the web for in this reply, and the pages that the reply cites."""

    queries: tuple[str, ...]
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """`raw_stop` is the provider's own word (empty when it sent null), `detail` what it said beside it."""

    stop: StopReason
    raw_stop: str
    detail: str = ""


ReplyEvent: TypeAlias = (
    ReplyStarted
    | TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolArgsDelta
    | BlockEnded
    | UsageReported
    | WebSearched
    | ReplyEnded
)
