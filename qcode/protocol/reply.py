"""The events of a streaming reply, the stop reasons of replies, and the outcomes of turns.

A complete stream begins with `ReplyStarted` and ends with exactly one `ReplyEnded`. Between them are the events of
blocks, and also reports of usage, searches and unreadable events. `ReplyEnded` is emitted at the end of the stream, not
with the chunk that carries the stop reason, because usage may follow that chunk.
Blocks are numbered from 0 in order of appearance within one attempt. A failure is not an event: the stream raises a
`ProviderError`, also if it ends without its terminal event. The provider determines a `StopReason`, qcode an `Outcome`.
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
    """The host accepted the request."""

    model: str
    """The model as the host names it, empty if it does not."""
    response_id: str
    """The host's id of the reply, empty if it sends none."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A text to append to a block of the reply."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """Reasoning to append to a block of the reply."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The model begins a call."""

    block: int
    call_id: str
    name: str
    is_from_text: bool = False
    """The host sent the call as text, and qcode recognized it."""


@dataclass(frozen=True, slots=True)
class ToolArgsDelta:
    """A fragment of a call's raw argument JSON, which is not parsed before the reply has ended."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class BlockEnded:
    """The provider reports a block as complete."""

    block: int
    opaque: Opaque | None = None
    """A signature or encrypted data that belongs to this block."""


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
class TextCallsRecognized:
    """The calls that follow were recognized in the text of the reply, because the host did not send them as calls."""

    form: str
    """The format of the calls in the text."""
    is_first: bool
    """This model has not used the format before."""


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The end of a stream."""

    stop: StopReason
    raw_stop: str
    """The provider's own stop reason, empty if it sent null."""
    detail: str = ""
    """The explanation that came with the stop reason."""


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
    | TextCallsRecognized
    | ReplyEnded
)


class StopReason(StrEnum):
    """A provider's stop reason, normalized; the raw string is kept with it."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    REFUSAL = "refusal"
    """The reply was refused or filtered."""
    PAUSED = "paused"
    """The reply is unfinished, and the provider continues it if qcode sends it back."""
    MALFORMED_CALL = "malformed_call"
    """The provider could not parse a call of the model."""
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
    """Why an answer is invalid, and how to ask for another one."""

    reason: str
    """One line for the user."""
    request: str
    """The message that asks the model for another answer."""


AnswerCheck: TypeAlias = Callable[[str], InvalidAnswer | None]
"""Checks a complete final answer; returns None if it is valid. Pure."""
