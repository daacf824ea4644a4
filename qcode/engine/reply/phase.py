"""The phase of a reply, and its result: values that can be printed and compared, without a stored function.

Between two inputs a reply is `Unsent`, `Streaming`, `Backoff`, `NeedsRoom` or `Finished`; `Closed` and `Reopened`
last only while an input is handled. What follows from a phase is in `reply` and `failures`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.engine.ledger import RequestCause
from qcode.engine.reply.assembler import CallState, ReplyShape
from qcode.engine.reply.attempt import Attempt
from qcode.engine.reply.recovery import Termination
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Limit, StopReason
from qcode.values import dataclass

Ending: TypeAlias = Literal["done", "calls", "paused", "cut", "refused", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call of the committed reply; `raw` is its argument text as it came, `cap` the cap it was asked for under."""

    call: ToolCall
    state: CallState
    raw: str
    cap: int


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """`message` is None where nothing worth storing came. `limit` is the one of the prompt that ended it."""

    ending: Ending
    stop: StopReason | None
    raw_stop: str
    message: Message | None
    calls: tuple[JudgedCall, ...] = ()
    error: ErrorInfo | None = None
    note: str = ""
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class Unsent:
    """No request was sent yet."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """One request is under way; `cause` is what the ledger counted it as."""

    attempt: Attempt
    cause: RequestCause


@dataclass(frozen=True, slots=True)
class Closed:
    """The attempt ended or broke, and what follows is being decided."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Reopened:
    """What replaced this attempt came to nothing: `recovery` decides on it once more."""

    attempt: Attempt
    shape: ReplyShape


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting before the next request: the same again, or one that continues the text that was shown."""

    then: Literal["replay", "continue"]
    failed: Attempt


@dataclass(frozen=True, slots=True)
class NeedsRoom:
    """The window is full. `fallback` is the end of the reply if the conversation cannot be compacted.

    `attempt` is the closed attempt that met the end of the window, None if its text is part of the reply already.
    """

    fallback: Fallback
    attempt: Attempt | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply takes nothing more."""

    result: ReplyResult


ReplyPhase: TypeAlias = Unsent | Streaming | Closed | Reopened | Backoff | NeedsRoom | Finished


@dataclass(frozen=True, slots=True)
class AbortAfter:
    """The host refused the prompt as too long: end with this error, or truncated if there is text to keep."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class EndWithoutRoom:
    """The window leaves too little for a reply to `request`, which was not sent."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class KeepTruncated:
    """The model stopped at the end of the window, or no continuation fits: end with the text as it is."""

    stop: StopReason
    raw_stop: str
    why: Termination
    note: str


Fallback: TypeAlias = AbortAfter | EndWithoutRoom | KeepTruncated
