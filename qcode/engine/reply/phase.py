"""The phases of a reply, and its result, as values that can be printed and compared.

Between two inputs a reply is `Unsent`, `Streaming`, `Backoff`, `AtRateLimit`, `NeedsModel`, `NeedsCompaction` or
`Finished`; `Closed` and `Reopened` exist only while an input is handled. `reply` and `failures` decide which phase
follows.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.engine.effects import ReplyFailed
from qcode.engine.reply.assembler import ArgumentState, ReplyShape
from qcode.engine.reply.attempt import Attempt
from qcode.engine.reply.recovery import Termination
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import RequestCause
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Limit, StopReason
from qcode.values import dataclass

Ending: TypeAlias = Literal["done", "calls", "paused", "cut", "refused", "failed", "cancelled"]
"""How a reply ended. `paused`: the provider completes it after qcode sends it back. `cut`: it stays truncated."""


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call of the committed reply: complete, incomplete, malformed or damaged."""

    call: ToolCall
    state: ArgumentState
    raw: str
    """The argument text as received."""
    cap: int
    """The output cap of the request in tokens."""
    escalates_next_request: bool = False
    """The next request has a larger cap, so the model may send a truncated call again unchanged."""
    can_raise_cap: bool = False
    """A higher --max-output-tokens would have let the call be longer."""


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """The result of a reply."""

    ending: Ending
    stop: StopReason | None
    raw_stop: str
    message: Message | None
    """The message to store, None if there is nothing to store."""
    calls: tuple[ReceivedCall, ...] = ()
    error: ErrorInfo | None = None
    note: str = ""
    """Explains to the user why the reply is incomplete."""
    limit: Limit | None = None
    """The limit for the whole prompt (replies, tool calls, cost, time) that ended the reply, or None."""
    escalates_next_request: bool = False
    """The next request has the larger cap, because this reply could not be escalated."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """No request has been sent."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """One request is in flight."""

    attempt: Attempt
    cause: RequestCause
    """The cause under which the request was counted in the turn's totals (`engine.ledger`)."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The attempt ended or failed, and the next action is being decided."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Reopened:
    """The attempt that replaced an earlier one failed, and `recovery` decides again about the earlier one."""

    attempt: Attempt
    """The earlier attempt."""
    shape: ReplyShape


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waiting before the next request."""

    then: Literal["replay", "continue"]
    """`replay`: the same request is sent again. `continue`: the next request continues the shown text."""
    failed_attempt: Attempt


@dataclass(frozen=True, slots=True)
class AtRateLimit:
    """The reply waits for the end of a rate limit, or for the user's decision about this wait."""

    after_wait: Backoff | NeedsModel
    """The phase after the wait.

    `Backoff`: a request is sent. `NeedsModel`: the limit belongs to a model that failed earlier in the turn, and that
    model continues.
    """
    error: ErrorInfo
    seconds_left: float
    """The remaining wait."""
    is_question: bool
    """The user has not yet decided whether to wait."""


@dataclass(frozen=True, slots=True)
class NeedsModel:
    """The model failed and is not retried; another model may continue the reply."""

    failure: ReplyFailed
    """The failure of the model."""
    attempt: Attempt
    """The closed attempt that failed; another model continues its text."""
    has_waited: bool = False
    """The turn waited until the rate limit of the next model ended."""


@dataclass(frozen=True, slots=True)
class NeedsCompaction:
    """The window is full, and the turn compacts the conversation."""

    fallback: CompactionFallback
    """How the reply ends if the conversation cannot be compacted."""
    attempt: Attempt | None
    """The closed attempt that filled the window, None if its text is already part of the reply."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply is over and ignores every input."""

    result: ReplyResult


ReplyPhase: TypeAlias = (
    Unsent | Streaming | Closed | Reopened | Backoff | AtRateLimit | NeedsModel | NeedsCompaction | Finished
)


@dataclass(frozen=True, slots=True)
class EndWithError:
    """The provider refused the prompt as too long: end with this error, or as truncated if a truncated text stays."""

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class EndUnsent:
    """The window leaves too few tokens for a reply: end without sending the request."""

    request: ModelRequest


@dataclass(frozen=True, slots=True)
class KeepTruncated:
    """The model stopped at the end of the window, or no continuation fits: end and keep the text so far."""

    stop: StopReason
    raw_stop: str
    termination: Termination
    note: str


CompactionFallback: TypeAlias = EndWithError | EndUnsent | KeepTruncated
