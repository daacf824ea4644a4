"""What a front end sees of a turn: one stream of `TurnEvent` values, nothing else.

Order within a turn: `TurnStarted`, then for each step `StepStarted`, deltas, `ReplyFinished`, and for each call
`ToolStarted` ... `ToolFinished`; last `TurnEnded`. Text deltas are clean of seams. Block numbers are those of the
assembled reply: a continuation goes on in the block it continues. A `Retry` that is no continuation takes back the
deltas of the step so far; `PartialRestored` puts its text in their place.
"""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.protocol.approvals import CallApproval
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, StopReason, TextDelta, WebSearched
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.json import JsonObject
from qcode.values import dataclass

Level: TypeAlias = Literal["info", "warning", "error"]
AttemptKind: TypeAlias = Literal["first", "escalated", "continuation", "nudge", "resume", "repair"]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    prompt: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A request for a reply is about to be sent; steps count from 1 within a turn."""

    step: int


@dataclass(frozen=True, slots=True)
class ToolCallProgress:
    """A call is being written; `size` is how many characters of arguments have arrived."""

    block: int
    call_id: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt at the same reply begins.

    `reason`: `max_tokens`, `transport`, `thinking`, `call` (a call is asked for again, or its rest) or `context` (the
    window was full and the conversation was compacted). `attempt` counts from 1 within its kind.
    `is_continuation`: keep what was shown and append; otherwise the reply starts over.
    """

    is_continuation: bool
    reason: str
    attempt: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class PartialRestored:
    """The new attempt came to nothing: `text` (and `reasoning`) is what the reply holds again, and is kept."""

    text: str
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One request of a reply, as kept beside the stored message."""

    kind: AttemptKind
    max_tokens: int
    stop: str
    usage: Usage
    is_discarded: bool = False


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """A reply is decided; exactly one per reply. `message` is what was committed, None if nothing was.

    `stop` is None where no reason ever came: the reply was cancelled, or its stream died. `parts` is of how many
    attempts the text was joined (1: it was never cut). `note` is for people and never part of the text the model sees.
    """

    stop: StopReason | None
    raw_stop: str
    parts: int
    message: Message | None
    attempts: tuple[AttemptRecord, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """The turn waits for the user, until `Conversation.answer` is called with the id of the approval."""

    approval: CallApproval


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call runs. `can_go_on`: the person may let it go on in the background (`Conversation.background`)."""

    call: ToolCall
    can_go_on: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result. `state`: `done`, `failed`, `denied` (by a person or a rule), `rejected` (never run)."""

    call: ToolCall
    outcome: ToolOutcome
    state: Literal["done", "failed", "denied", "rejected", "cancelled"]


@dataclass(frozen=True, slots=True)
class ResultsCommitted:
    """All calls of a step have their results: `message` is the user message that carries them."""

    message: Message


@dataclass(frozen=True, slots=True)
class SteeringAdded:
    """What the person typed meanwhile joined the transcript before the next step."""

    text: str


@dataclass(frozen=True, slots=True)
class UsageUpdated:
    """The sum over all requests of the turn so far; `context_tokens` is the size of the transcript as last known."""

    usage: Usage
    cost: Decimal | None
    context_tokens: int
    context_window: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits `seconds` before trying again; `attempt` counts from 1."""

    seconds: float
    why: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """Older parts of the conversation are about to be shortened.

    `cause`: `threshold` (the window is nearly full), `full` (there was no room to go on), `asked` (by the person).
    """

    cause: Literal["threshold", "full", "asked"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was shortened. Tokens are of the whole prompt, as far as known.

    `kind`: old tool output was left out, or a summary stands in the place of older messages.
    """

    before_tokens: int
    after_tokens: int
    kind: Literal["output", "summary"]


@dataclass(frozen=True, slots=True)
class Notice:
    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class StopReasonObserved:
    provider: str
    model: str
    reason: StopReason
    raw: str
    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class OutputEscalated:
    from_tokens: int
    to_tokens: int


@dataclass(frozen=True, slots=True)
class ContinuationAttempt:
    """`output_tokens` and `output_chars` are sums over the reply; `tokens_left` is what its budget still holds."""

    index: int
    output_tokens: int
    output_chars: int
    tokens_left: int


@dataclass(frozen=True, slots=True)
class ContinuationTerminated:
    reason: Literal[
        "completed", "retry_limit", "budget_exhausted", "no_progress", "safety_blocked", "cancelled", "error"
    ]


@dataclass(frozen=True, slots=True)
class ToolPayloadRepair:
    issue: str
    attempted: bool
    succeeded: bool


@dataclass(frozen=True, slots=True)
class ApiCalls:
    """Requests by cause; `initial` is one for each reply. `compactions` asked for a summary of the conversation."""

    initial: int = 0
    escalations: int = 0
    continuations: int = 0
    repairs: int = 0
    retries: int = 0
    compactions: int = 0

    @property
    def total(self) -> int:
        recovery = self.escalations + self.continuations + self.repairs + self.retries
        return self.initial + recovery + self.compactions


@dataclass(frozen=True, slots=True)
class Denial:
    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A one-way tool the model called. `emitted_at` is seconds since the turn began."""

    name: str
    arguments: JsonObject
    emitted_at: float


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """Something that happened in the turn of a sub-agent; `call_id` is the call that started it.

    Deltas are left out, and so is `ApprovalRequested`, which is an event of the conversation like any other. The ids
    of calls inside are those of `inner_id`, so that no two of a conversation are the same.
    """

    call_id: str
    event: TurnEvent


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over. `text` is its answer, complete or not; `replies` the number of model replies.

    `is_answered`: the last reply of the turn had text. `limit` says which limit ended it, if one did.
    """

    outcome: Outcome
    stop: StopReason | None
    raw_stop: str
    text: str
    replies: int
    usage: Usage
    cost: Decimal | None
    api_calls: ApiCalls
    discarded_output_tokens: int = 0
    denials: tuple[Denial, ...] = ()
    signals: tuple[Signal, ...] = ()
    limit: Limit | None = None
    error: ErrorInfo | None = None
    is_answered: bool = field(default=True)


TurnEvent: TypeAlias = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ReasoningDelta
    | WebSearched
    | ToolCallProgress
    | Retry
    | PartialRestored
    | ReplyFinished
    | ApprovalRequested
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | ResultsCommitted
    | SteeringAdded
    | UsageUpdated
    | Waiting
    | CompactionStarted
    | Compacted
    | Notice
    | StopReasonObserved
    | OutputEscalated
    | ContinuationAttempt
    | ContinuationTerminated
    | ToolPayloadRepair
    | AgentEvent
    | TurnEnded
)


def inner_id(call_id: str, inner: str) -> str:
    """Return the id by which a call of the sub-agent that `call_id` started is known outside of it."""
    return f"{call_id}/{inner}"
