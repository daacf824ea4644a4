"""The events of a turn. A front end sees a turn only as a stream of `TurnEvent` values.

Order within a turn: `TurnStarted`, then for each step `StepStarted`, deltas, `ReplyFinished`, and for each call
`ToolStarted` … `ToolFinished`; last `TurnEnded`. Text deltas contain no repetition at a seam. Block numbers are those
of the assembled reply: a continuation keeps the number of the block that it continues. A `Retry` that is not a
continuation discards the deltas of the step so far; `PartialRestored` replaces them with its text.
"""

from __future__ import annotations

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
DECLINED = "declined"
"""The summary of a call that the user denied, not a rule or a hook."""
AttemptKind: TypeAlias = Literal["first", "escalated", "continuation", "nudge", "resume", "repair", "summary"]
"""The purpose of a request.

`escalated`: the same request with a larger output cap. `continuation`: the rest of a text. `nudge`: an answer, after
the reasoning used up the output cap. `resume`: the rest of a truncated call. `repair`: a call that can be parsed.
"""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began."""

    prompt: str
    """The text that the user typed."""
    attached: tuple[Block, ...] = ()
    """Attachments, which precede the prompt in the message."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The request for a reply is about to be sent. Steps are counted from 1 within a turn."""

    step: int


@dataclass(frozen=True, slots=True)
class ToolCallProgress:
    """The model is writing a call."""

    block: int
    call_id: str
    name: str
    size: int
    """The number of argument characters received so far."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt at the same reply begins."""

    is_continuation: bool
    """The new attempt continues the shown text; otherwise the reply starts over."""
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
    """The new attempt failed, or the user interrupted it: the reply is restored to this text."""

    text: str
    reasoning: str = ""
    is_interrupted: bool = False
    """The user interrupted the new attempt."""


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
    truncated_call_tokens: int = 0
    """The output tokens of a call that the output limit truncated, so that it never ran; estimated."""


CANCELLED_NOTE = "Interrupted."
"""The note of a reply that was cancelled."""


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """The end of a reply, exactly one per reply."""

    stop: StopReason | None
    """The stop reason, None if the reply was cancelled or its stream broke."""
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
    """A call started."""

    call: ToolCall
    is_backgroundable: bool = False
    """The user may move the call to the background (`Conversation.background`)."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A running call printed text."""

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
    """All calls of a step have their results."""

    message: Message
    """The message that contains the results."""


@dataclass(frozen=True, slots=True)
class SteeringAdded:
    """A message that the user sent during the turn was added to the transcript before the next step."""

    text: str
    attached: tuple[Block, ...] = ()
    """Attachments, which precede the text in the message."""


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of one model in a turn."""

    model: str
    """`provider/model`."""
    usage: Usage
    cost: Decimal | None
    """The cost in USD, None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class UsageUpdated:
    """The usage of all requests of the turn so far."""

    usage: Usage
    cost: Decimal | None
    """The cost in USD, None if a price is unknown."""
    context_tokens: int
    """The last known size of the transcript in tokens."""
    context_window: int
    """The context window of the model in tokens."""
    by_model: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits before the next attempt."""

    seconds: float
    reason: str
    """The message of the failure that caused the wait."""
    attempt: int = 1
    """The number of failures in a row, from 1."""
    status: int | None = None
    """The HTTP status of the failure, if any."""
    max_retries: int = 0
    """The number of retries after failures in a row; 0 if it is unknown."""

    @property
    def why(self) -> str:
        """The former name of `reason`."""
        return self.reason


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The turn stopped at a rate limit."""

    error: ErrorInfo
    """The failure, with the time at which the limit ends."""
    seconds: float
    """The remaining wait."""
    is_question: bool = False
    """The turn waits for the answer to a `RateLimitApproval`.

    Otherwise it waits for the end of the limit, then sends the same request again; the event is repeated every minute.
    """


@dataclass(frozen=True, slots=True)
class ModelFellBack:
    """The turn continues with another model, because `from_model` failed."""

    from_model: str
    """`provider/model`, as `to_model`."""
    to_model: str
    error: ErrorInfo | None
    """The failure of `from_model`.

    None if that model was skipped because its limit has not ended yet, or if `has_returned` is True.
    """
    has_returned: bool = False
    """The turn returns to `to_model`, because its rate limit has ended."""


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    """Compaction of the conversation begins."""

    cause: Literal["threshold", "full", "asked"]
    """`threshold`: the window is nearly full. `full`: the window had no room for the reply. `asked`: by the user."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The conversation was compacted. Token counts are for the whole prompt, as far as known."""

    before_tokens: int
    after_tokens: int
    kind: Literal["output", "summary"]
    """`output`: old tool output was dropped. `summary`: a summary replaced older messages."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user."""

    level: Level
    text: str
    is_once: bool = False
    """A front end shows the text only once in a conversation."""


@dataclass(frozen=True, slots=True)
class HookStarted:
    """A hook has been running for some seconds."""

    hook: str
    """The event that the hook handles."""
    command: str
    """The command line of the hook."""


@dataclass(frozen=True, slots=True)
class HookEnded:
    """A hook ran."""

    hook: str
    """The event that the hook handles."""
    command: str
    """The command line of the hook."""
    tool_use_id: str
    """The id of the call that the hook was about; empty if there is none."""
    exit_code: int | None
    """The exit code of the command; None for a function, and for a command that did not start or timed out."""
    seconds: float
    decision: Literal["none", "allow", "ask", "deny", "stop"]
    """The effective answer of the hook. `stop` ends the turn."""
    failure: str = ""
    """The reason why the hook failed; empty if it succeeded."""


@dataclass(frozen=True, slots=True)
class StopReasonObserved:
    """An attempt ended."""

    provider: str
    model: str
    reason: StopReason
    raw: str
    """The provider's own stop reason."""
    turn: int
    """The number of the turn in the session, from 1."""
    step: int
    """The number of the step in the turn, from 1."""


@dataclass(frozen=True, slots=True)
class OutputEscalated:
    """A truncated reply is requested again with a larger output cap."""

    from_tokens: int
    """The cap of the truncated attempt."""
    to_tokens: int
    """The new cap."""


@dataclass(frozen=True, slots=True)
class ContinuationAttempt:
    """A continuation starts."""

    index: int
    """Counts the continuations of the reply from 1."""
    output_tokens: int
    """The tokens of the reply so far, over all its attempts."""
    output_chars: int
    """The characters of its text so far."""
    tokens_left: int
    """The unused part of the reply's token budget."""


@dataclass(frozen=True, slots=True)
class ContinuationTerminated:
    """A reply that had been truncated is over."""

    reason: Literal[
        "completed", "retry_limit", "budget_exhausted", "no_progress", "safety_blocked", "cancelled", "error"
    ]
    """`completed`: the reply is complete now. The other values say why it is not."""


@dataclass(frozen=True, slots=True)
class ToolPayloadRepair:
    """A call arrived incomplete or unreadable."""

    issue: str
    """The fault: `cut_arguments`, `malformed_arguments`, `damaged_arguments` or `malformed_call`."""
    attempted: bool
    """The model was asked to send the call again or to complete it, or the next request will ask for that."""
    succeeded: bool
    """The call was completed, or was sent again and could be parsed."""


RequestCause: TypeAlias = Literal["initial", "escalations", "continuations", "repairs", "retries", "compactions"]


@dataclass(frozen=True, slots=True)
class ApiCalls:
    """The number of requests by cause."""

    initial: int = 0
    """One for each reply."""
    escalations: int = 0
    continuations: int = 0
    repairs: int = 0
    retries: int = 0
    compactions: int = 0
    """The requests for a summary."""

    @property
    def total(self) -> int:
        recovery = self.escalations + self.continuations + self.repairs + self.retries
        return self.initial + recovery + self.compactions


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that the user, a rule or a hook denied."""

    call: ToolCall
    reason: str
    """The reason for the denial, which may be empty."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A call of a one-way tool."""

    name: str
    arguments: JsonObject | str
    """The raw text if it is not a JSON object."""
    emitted_at: float
    """The time in seconds since the start of the turn."""


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """An event from the turn of a sub-agent.

    Deltas are omitted. `ApprovalRequested` is never wrapped, because it is an event of the conversation.
    """

    call_id: str
    """The call that started the sub-agent."""
    event: TurnEvent
    """The event of the sub-agent, with call ids from `inner_id`, which are unique in the conversation."""


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
    is_answered: bool = True
    """The last reply had text."""
    seconds: float | None = None
    """The duration of the turn without the time in which it only waited for the user; None if unknown."""
    whole_text: str = ""
    """The text of all replies, joined with blank lines, so it also has the text before tool calls."""
    by_model: tuple[ModelUsage, ...] = ()
    """The usage of each model that the turn used, sub-agents and summaries included."""
    note: str = ""
    """Explains to the user why the answer is truncated or refused, or why qcode stopped the turn; or empty."""
    truncated_call_tokens: int = 0
    """The output tokens of calls that an output limit truncated, so that they never ran; estimated.

    They are not part of `discarded_output_tokens`, because the rest of their reply is kept.
    """

    @classmethod
    def without_reply(
        cls, outcome: Outcome, *, cost: Decimal | None = None, error: ErrorInfo | None = None
    ) -> TurnEnded:
        """Return the end of a turn in which no model replied."""
        return cls(
            outcome,
            stop=None,
            raw_stop="",
            text="",
            replies=0,
            usage=Usage(),
            cost=cost,
            api_calls=ApiCalls(),
            error=error,
            is_answered=False,
        )


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
    """Return an id that is unique in the conversation, for the call `inner` of the sub-agent that `call_id` started."""
    return f"{call_id}/{inner}"
