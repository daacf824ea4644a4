"""The events of a turn. A front end sees nothing but one stream of `TurnEvent` values.

Order within a turn: `TurnStarted`, then for each step `StepStarted`, deltas, `ReplyFinished`, and for each call
`ToolStarted` … `ToolFinished`; last `TurnEnded`. Text deltas contain no repetition at a seam. Block numbers are those
of the assembled reply: a continuation keeps the number of the block that it continues. A `Retry` that is not a
continuation discards the deltas of the step so far; `PartialRestored` replaces them with its text.
"""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.protocol.approvals import CallApproval
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.messages import Block, Message, ToolCall
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, StopReason, TextDelta, WebSearched
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.json import JsonObject
from qcode.values import dataclass

Level: TypeAlias = Literal["info", "warning", "error"]
CallState: TypeAlias = Literal["done", "failed", "denied", "rejected", "cancelled"]
AttemptKind: TypeAlias = Literal["first", "escalated", "continuation", "nudge", "resume", "repair", "summary"]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began with the prompt that the user typed. `attached` precedes it in the message."""

    prompt: str
    attached: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The request for a reply is about to be sent. Steps are counted from 1 within a turn."""

    step: int


@dataclass(frozen=True, slots=True)
class ToolCallProgress:
    """The model is writing a call; `size` is the number of argument characters received."""

    block: int
    call_id: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt at the same reply begins."""

    is_continuation: bool
    """Keep the shown text and append to it; otherwise the reply starts over."""
    reason: str
    """`max_tokens`, `transport`, `thinking`, `call`, `context` or `fallback`.

    `call`: a call, or the rest of one, is requested again. `context`: the window was full and the conversation was
    compacted. `fallback`: another model takes over.
    """
    attempt: int
    """Counts from 1 among the attempts with this reason."""
    max_tokens: int
    """The output cap of the attempt."""


@dataclass(frozen=True, slots=True)
class PartialRestored:
    """The new attempt failed, or was interrupted by the user: the reply is restored to `text` and `reasoning`."""

    text: str
    reasoning: str = ""
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One request of a reply, stored with the message. A `summary` is a request of a compaction."""

    kind: AttemptKind
    max_tokens: int
    stop: str
    usage: Usage
    is_discarded: bool = False
    is_retry: bool = False
    """The request repeated or continued a failed one."""
    is_unanswered: bool = False
    """The host sent no reply, so the request cost nothing."""
    model: str = ""
    """`provider/model`; empty for the model of the session."""
    damaged_events: int = 0
    """The number of events skipped in the stream. If it is not 0, the text may have gaps."""


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """The end of a reply, exactly one per reply."""

    stop: StopReason | None
    """None if the reply was cancelled or its stream broke."""
    raw_stop: str
    parts: int
    """The number of attempts from which the text was joined; 1 if it was not truncated."""
    message: Message | None
    """The committed message; None if nothing was committed."""
    attempts: tuple[AttemptRecord, ...] = ()
    note: str = ""
    """A text for the user, which is never part of the text that the model sees."""


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """The turn waits for the user until `Conversation.answer` is called with the id of the approval."""

    approval: CallApproval


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call started. `is_backgroundable`: the user may move it to the background (`Conversation.background`)."""

    call: ToolCall
    is_backgroundable: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A running call printed `text`."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has its result."""

    call: ToolCall
    """The call as it ran; see `is_revised`."""
    outcome: ToolOutcome
    state: CallState
    """`denied`: by the user, a rule or a hook. `rejected`: never run for another reason, such as invalid arguments."""
    seconds: float | None = None
    """The run time; None if the call did not run or the time is unknown."""
    is_revised: bool = False
    """The user or a hook edited the call before it ran, and `call` has the edited arguments."""


@dataclass(frozen=True, slots=True)
class ResultsCommitted:
    """All calls of a step have their results, which are in `message`."""

    message: Message


@dataclass(frozen=True, slots=True)
class SteeringAdded:
    """A message that the user sent during the turn was added to the transcript before the next step.

    `attached` precedes it.
    """

    text: str
    attached: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of one model (`provider/model`) in a turn; `cost` is None if a price is unknown."""

    model: str
    usage: Usage
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class UsageUpdated:
    """The usage of all requests of the turn so far; `context_tokens` is the last known size of the transcript."""

    usage: Usage
    cost: Decimal | None
    context_tokens: int
    context_window: int
    by_model: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits `seconds` before the next attempt. `attempt` counts from 1; `status` is the failure's, if any."""

    seconds: float
    why: str
    attempt: int = 1
    status: int | None = None


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The turn stopped at a rate limit that ends in `seconds`; `error` has the time.

    `is_question`: the turn waits for the answer to a `LimitApproval`. Otherwise it waits for the end of the limit, then
    sends the same request again; the event is repeated every minute.
    """

    error: ErrorInfo
    seconds: float
    is_question: bool = False


@dataclass(frozen=True, slots=True)
class ModelFellBack:
    """The rest of the turn uses another model, because the first one failed with `error`. Names are `provider/model`.

    `error` is None if the first model was skipped because its limit has not ended yet. It is also None if
    `has_returned`: the turn waited for the limit of `to_model`, which has ended.
    """

    from_model: str
    to_model: str
    error: ErrorInfo | None
    has_returned: bool = False


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """Compaction of the conversation begins.

    `cause`: `threshold` (the window is nearly full), `full` (it had no room for the reply), `asked` (by the user).
    """

    cause: Literal["threshold", "full", "asked"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was compacted. Token counts are for the whole prompt, as far as known.

    `kind`: `output` (old tool output was dropped) or `summary` (a summary replaced older messages).
    """

    before_tokens: int
    after_tokens: int
    kind: Literal["output", "summary"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user. `is_once`: it is shown only once in a conversation."""

    level: Level
    text: str
    is_once: bool = False


@dataclass(frozen=True, slots=True)
class HookStarted:
    """A hook has been running for some seconds. `hook` is the event that it handles, `command` its command line."""

    hook: str
    command: str


@dataclass(frozen=True, slots=True)
class HookEnded:
    """A hook ran."""

    hook: str
    """The event that the hook handles."""
    command: str
    """Its command line."""
    tool_use_id: str
    """The id of the call that the hook was about; empty if there is none."""
    exit_code: int | None
    """None for a function, and for a command that did not start or timed out."""
    seconds: float
    decision: Literal["none", "allow", "ask", "deny", "stop"]
    """The effective answer of the hook. `stop` ends the turn."""
    failure: str = ""
    """The reason why the hook failed; empty if it succeeded."""


@dataclass(frozen=True, slots=True)
class StopReasonObserved:
    """An attempt ended. `raw` is the provider's own stop reason, `turn` and `step` are counted from 1."""

    provider: str
    model: str
    reason: StopReason
    raw: str
    turn: int
    step: int


@dataclass(frozen=True, slots=True)
class OutputEscalated:
    """A truncated reply is requested again: the output cap was `from_tokens` and is now `to_tokens`."""

    from_tokens: int
    to_tokens: int


@dataclass(frozen=True, slots=True)
class ContinuationAttempt:
    """A continuation starts. `output_tokens` and `output_chars` are totals of the reply so far.

    `tokens_left` is the unused part of the reply's budget.
    """

    index: int
    output_tokens: int
    output_chars: int
    tokens_left: int


@dataclass(frozen=True, slots=True)
class ContinuationTerminated:
    """A reply that had been truncated is over; `completed`: it is complete now, otherwise the reason why it is not."""

    reason: Literal[
        "completed", "retry_limit", "budget_exhausted", "no_progress", "safety_blocked", "cancelled", "error"
    ]


@dataclass(frozen=True, slots=True)
class ToolPayloadRepair:
    """A call arrived incomplete or unreadable. `issue` is the fault: `cut_arguments`, `malformed_call` or another one.

    `attempted`: the model was, or will be, asked for the call again or for the rest of it.
    """

    issue: str
    attempted: bool
    succeeded: bool


RequestCause: TypeAlias = Literal["initial", "escalations", "continuations", "repairs", "retries", "compactions"]


@dataclass(frozen=True, slots=True)
class ApiCalls:
    """The number of requests by cause. `initial` counts one per reply, `compactions` requests for a summary."""

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
    """A call that the user, a rule or a hook denied; `reason` may be empty."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A call of a one-way tool. `emitted_at` is in seconds since the start of the turn.

    `arguments` is the raw text if it is not a JSON object.
    """

    name: str
    arguments: JsonObject | str
    emitted_at: float


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event from the turn of a sub-agent; `call_id` is the call that started it.

    Deltas are omitted. `ApprovalRequested` is never wrapped, because it is an event of the conversation. The call ids
    in `event` are made by `inner_id`, so they are unique in the conversation.
    """

    call_id: str
    event: TurnEvent


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    outcome: Outcome
    stop: StopReason | None
    raw_stop: str
    text: str
    """The answer of the turn, complete or not."""
    replies: int
    """The number of model replies."""
    usage: Usage
    cost: Decimal | None
    api_calls: ApiCalls
    discarded_output_tokens: int = 0
    denials: tuple[Denial, ...] = ()
    signals: tuple[Signal, ...] = ()
    limit: Limit | None = None
    """The limit that ended the turn, or None."""
    error: ErrorInfo | None = None
    is_answered: bool = field(default=True)
    """The last reply had text."""
    seconds: float | None = None
    """The duration of the turn without the time in which it only waited for the user; None if unknown."""
    whole_text: str = ""
    """The text of all replies, joined with blank lines, so it also has the text before tool calls."""
    by_model: tuple[ModelUsage, ...] = ()
    """The usage of each model that the turn used, sub-agents and summaries included."""


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
    | LimitReached
    | ModelFellBack
    | CompactionStarted
    | Compacted
    | Notice
    | HookStarted
    | HookEnded
    | StopReasonObserved
    | OutputEscalated
    | ContinuationAttempt
    | ContinuationTerminated
    | ToolPayloadRepair
    | AgentEvent
    | TurnEnded
)


def inner_id(call_id: str, inner: str) -> str:
    """Return the id in the conversation of a sub-agent's call `inner`; `call_id` is the call of the sub-agent."""
    return f"{call_id}/{inner}"
