"""The inputs of a turn, its effects, its settings, and the check of its answer.

The driver performs the effects in order and feeds the results back as inputs. `Review` checks the final answer with a
given function (for example, against a JSON schema) and counts the attempts.
"""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.model_facts import KnownModel, Learn
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import AttemptRecord, TurnEvent
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import Effort, ModelRequest, RetrySettings
from qcode.protocol.reply import AnswerCheck, InvalidAnswer, Limit, ReplyEvent
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.text.json import JsonObject
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class UserSubmitted:
    message: Message


@dataclass(frozen=True, slots=True)
class CompactRequested:
    """The user requests a compaction; the turn does nothing else. `focus` says what the summary must keep."""

    focus: str = ""


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """The stream of the current attempt raised. `jitter` is a random number in [0, 1)."""

    error: ProviderError
    jitter: float


@dataclass(frozen=True, slots=True)
class ToolEnded:
    call_id: str
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The verdict on a call, from a rule or the user."""

    call_id: str
    is_allowed: bool
    reason: str = ""
    """The reason of a denial, which is sent to the model."""
    text: str = ""
    """The user's answer to a question. It becomes the result of the call, which then does not run."""
    summary: str = ""
    """The line that the user sees instead of `text` or `reason`; empty: the user sees the same text."""
    diff: str = ""
    """The denied change, for the user only."""
    edited_arguments: JsonObject | None = None
    """Replaces the model's arguments; None: they are unchanged."""
    editor: Literal["user", "hook"] = "user"
    """The author of `edited_arguments`."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer of the hooks to `Confirm`. A `reason` prevents the step; an empty one permits it.

    If the step is the end of the turn, the reason becomes the next message to the model. `is_final`: the turn ends in
    any case.
    """

    reason: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class HookStopped:
    """A hook ends the turn after the running calls. `reason` is for the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class SteerQueued:
    """A message from the user while the turn runs. `attached` is placed before the text."""

    text: str
    attached: tuple[Block, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.attached, Text(self.text))


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user cancels the turn, or its time is over (`limit`).

    `is_unsent`: the last `SendRequest` was not sent yet and will not be.
    """

    is_unsent: bool = False
    limit: Limit | None = None


@dataclass(frozen=True, slots=True)
class WaitElapsed:
    """A wait is over. It took `seconds`, more than requested if the machine was asleep."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitAnswered:
    """The user's answer to a `LimitReached` that is a question."""

    waits: bool


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """The next fallback model is connected: the rest of the turn uses it. `skipped_models` lists models that failed."""

    model: KnownModel
    settings: TurnSettings
    counter: PromptCounter
    skipped_models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoModelLeft:
    """No fallback model is left. `skipped_models` has a line with the reason for each model that failed to connect.

    `limit` is the error of the failed model whose limit ends first; None if that is the model of the last failure, or
    if no end is known.
    """

    skipped_models: tuple[str, ...] = ()
    limit: ErrorInfo | None = None


Input: TypeAlias = (
    UserSubmitted
    | CompactRequested
    | ReplyEvent
    | ReplyFailed
    | ToolEnded
    | ApprovalAnswered
    | SteerQueued
    | CancelRequested
    | WaitElapsed
    | LimitAnswered
    | ModelSwitched
    | NoModelLeft
    | Confirmed
    | HookStopped
)


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Stream a reply and feed its events back; at most one request is in flight.

    `is_summary`: send it to the model that writes summaries, which may be a different one on a different host.
    """

    request: ModelRequest
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Close the stream of the current request and feed back none of its later events."""


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """Connect the next fallback model after `error`, and feed `ModelSwitched` or `NoModelLeft` back.

    `has_waited`: the limit that `NoModelLeft` named has ended, so its model is the next one.
    """

    error: ErrorInfo
    has_waited: bool = False


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run an approved call and feed `ToolEnded` back."""

    call: ToolCall
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Judge a call by the rules, ask the user if they require it, and feed `ApprovalAnswered` back.

    `repeats` is how often in a row the same call gave the same result, or 0 below the limit. If it is not 0, the user
    is asked, even if a rule allows the call. `obstacle` is the reason why the call cannot run, empty if it can. If it
    is set, the user is asked whether the model may try again.
    """

    call: ToolCall
    arguments: JsonObject
    repeats: int = 0
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Ask the hooks about a step of the turn, and feed `Confirmed` back.

    `stop`: the turn is about to end with the answer `text`; `is_again`: a hook has already continued this turn.
    `compact`: the conversation is about to be compacted, at the user's request if `is_asked`; `text` says what the
    summary must keep.
    """

    step: Literal["stop", "compact"]
    text: str = ""
    is_again: bool = False
    is_asked: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Feed `WaitElapsed` back after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    event: TurnEvent


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a message to the transcript and the session file.

    `attempts` is stored with it; `mark` is a note that only the user sees.
    """

    message: Message
    attempts: tuple[AttemptRecord, ...] = ()
    mark: str = ""


@dataclass(frozen=True, slots=True)
class RecordRequests:
    """Store the requests of a reply that is not committed, so that the session counts their usage."""

    attempts: tuple[AttemptRecord, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """Replace the transcript: each part is the index of a message that stays, or a message that replaces others."""

    parts: tuple[int | Message, ...]


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over; stop whatever still runs. `TurnEnded` was emitted just before."""


Effect: TypeAlias = (
    SendRequest
    | StopRequest
    | SwitchModel
    | RunTool
    | AskApproval
    | Confirm
    | Wait
    | Emit
    | Append
    | RecordRequests
    | Compact
    | Learn
    | EndTurn
)


MAX_ANSWER_TRIES = 3


class Review:
    """The checks of one turn's answers. `problem` is the fault of the last answer, None if it was valid."""

    def __init__(self, check: AnswerCheck | None) -> None:
        self.problem: InvalidAnswer | None = None
        self.tries = 0
        self._check = check

    def asks_again(self, answer: str) -> bool:
        """Check an answer that would end the turn; return whether the model gets another attempt."""
        if self._check is None:
            return False
        self.tries += 1
        self.problem = self._check(answer)
        return self.problem is not None and self.tries < MAX_ANSWER_TRIES

    @property
    def notice(self) -> str:
        reason = self.problem.reason if self.problem else ""
        return f"The answer did not match ({reason}). Retrying ({self.tries + 1} of {MAX_ANSWER_TRIES})."

    @property
    def error(self) -> ErrorInfo | None:
        """The error with which the turn ends, None if its last answer is valid."""
        if self.problem is None:
            return None
        text = f"No valid answer after {MAX_ANSWER_TRIES} attempts. Last error: {self.problem.reason}"
        return ErrorInfo(ErrorKind.STRUCTURED_OUTPUT, text)


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The settings of a turn.

    A limit is None if it is not set. `compaction` is None if automatic compaction is off, `check` if every answer is
    valid, `fallback` if there is no other model to try.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_turns: int | None = None
    tells_turns: bool = False
    """The user set `max_turns`, so a note tells the model how many turns are left."""
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    has_strict_tools: bool = False
    """A call of an unknown tool fails the turn at once."""
    allows_calls: bool = True
    """False: the tools are only sent to describe the calls of the history."""
    compaction: CompactionSettings | None = None
    fallback: Fallback | None = None
    check: AnswerCheck | None = None
    confirms: frozenset[Literal["stop", "compact"]] = frozenset()
    """The steps that the hooks are asked about."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The user configured fallback models, for the case that this model is overloaded, unreachable or at a limit.

    `on_quota`: they are also used if the account has no credit left.
    """

    on_quota: bool = False


COMPACT_AT = 0.8
"""Share of the context window at which a conversation is compacted automatically."""


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings of automatic compaction: it starts when the prompt fills `share` of the context window.

    `writer` is the model that writes summaries, None for the model of the conversation.
    """

    writer: KnownModel | None = None
    share: float = COMPACT_AT
