"""What a provider reports while a reply streams, why a reply stopped, and how a turn ended.

A healthy stream is `ReplyStarted`, then blocks, then exactly one `ReplyEnded`, its last event. `ReplyEnded` is
emitted at the end of the stream and not on the chunk that carries the reason, because usage may come after it.
Blocks are numbered in order of appearance from 0 within one attempt. A failure is never an event: the stream raises
a `ProviderError`, also if it ends without its terminal event. A `StopReason` is the model's, an `Outcome` is ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from qcode.protocol.messages import Opaque
from qcode.protocol.usage import Usage
from qcode.values import dataclass


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
    """The web searches that the model's host ran for this reply, and the pages that the reply cites."""

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


class StopReason(StrEnum):
    """A provider's stop reason in one vocabulary; the raw string travels beside it."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    REFUSAL = "refusal"
    PAUSED = "paused"
    MALFORMED_CALL = "malformed_call"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a turn ended, in the words of the Agent Client Protocol, and `error` for what it has no word for."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class Limit(StrEnum):
    """Which limit of a turn was reached, where the outcome is `max_turn_requests`."""

    TURNS = "max_turns"
    TOOL_CALLS = "max_tool_calls"
    COST = "max_budget_usd"
