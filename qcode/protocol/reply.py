"""The events of a streaming reply, the reasons why a reply stopped, and the outcomes of a turn.

A complete stream is `ReplyStarted`, then blocks, then exactly one `ReplyEnded` as its last event. `ReplyEnded` is
emitted at the end of the stream, not with the chunk that carries the stop reason, because usage may follow that chunk.
Blocks are numbered from 0 in order of appearance within one attempt. A failure is not an event: the stream raises a
`ProviderError`, also if it ends without its terminal event. A `StopReason` comes from the provider, an `Outcome` from
qcode.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from qcode.protocol.messages import Opaque
from qcode.protocol.usage import Usage
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ReplyStarted:
    """The host accepted the request. `model` and `response_id` are as the host names them, empty if it does not."""

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
    """The model begins a call. `is_from_text`: the host sent it as text, and qcode recognized it."""

    block: int
    call_id: str
    name: str
    is_from_text: bool = False


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A fragment of a call's raw argument JSON, which is not parsed before the reply has ended."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class BlockEnded:
    """The provider reports a block as complete. `opaque` belongs to that block."""

    block: int
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class EventDamaged:
    """An event of the stream could not be read, so text or a fragment of a call is missing."""


@dataclass(frozen=True, slots=True)
class UsageReported:
    """Cumulative counts of this request so far: a later report replaces an earlier one, field by field."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Source:
    """A web page that a reply cites."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class WebSearched:
    """The web searches that the model's host ran for this reply, and the pages that the reply cites."""

    queries: tuple[str, ...]
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class TextCallRead:
    """The host sent the next calls as text, in the format `form`. `is_first`: the format is new for this model."""

    form: str
    is_first: bool


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The end of a stream. `raw_stop` is the provider's own stop reason, empty if it sent null.

    `detail` is the explanation that came with it.
    """

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
    | EventDamaged
    | UsageReported
    | WebSearched
    | TextCallRead
    | ReplyEnded
)


class StopReason(StrEnum):
    """A provider's stop reason, normalized; the raw string is kept with it.

    `REFUSAL`: the reply was refused or filtered. `PAUSED`: the provider wants the reply back, to continue it.
    `MALFORMED_CALL`: the provider could not parse a call of the model.
    """

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    REFUSAL = "refusal"
    PAUSED = "paused"
    MALFORMED_CALL = "malformed_call"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """The outcome of a turn, in the terms of the Agent Client Protocol, plus `error`."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class Limit(StrEnum):
    """The limit that was reached, if the outcome is `max_turn_requests`."""

    TURNS = "max_turns"
    TOOL_CALLS = "max_tool_calls"
    COST = "max_budget_usd"
    TIME = "timeout"


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """The fault of an invalid answer: `reason` is one line for the user, `request` is the message to the model."""

    reason: str
    request: str


AnswerCheck: TypeAlias = Callable[[str], InvalidAnswer | None]
"""Checks a complete final answer; returns None if it is valid. Pure."""
