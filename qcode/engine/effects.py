"""The inputs of a turn, its effects, its settings, the check of its answer, and its queue of steering messages.

The driver performs the effects in order and feeds the results back as inputs. `Review` checks the final answer with a
given function (for example, against a JSON schema) and counts the attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.model_facts import KnownModel, Learn
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import AttemptRecord, SteeringAdded, TurnEvent
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
    """The user requests a compaction; the turn does nothing else."""

    focus: str = ""
    """The user's wish for what the summary must keep."""


@dataclass(frozen=True, slots=True)
class ReplyFailed:
    """The stream of the current attempt raised `error`."""

    error: ProviderError
    jitter: float
    """A random number in [0, 1), for the delay before a retry."""


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
    """The user's answer to a question; it is the result of the call, which does not run."""
    summary: str = ""
    """The line that the user sees instead of `text` or `reason`; empty: the user sees the same text."""
    diff: str = ""
    """The denied change, for the user only."""
    is_declined: bool = False
    """The user denied the call, not a rule."""
    edited_arguments: JsonObject | None = None
    """Replaces the model's arguments; None: they are unchanged."""
    editor: Literal["user", "hook"] = "user"
    """The author of `edited_arguments`."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer of the hooks to `Confirm`."""

    reason: str = ""
    """The reason why a hook prevents the step; empty: the step is permitted.

    If the step is the end of the turn, the reason becomes the next message to the model.
    """
    is_final: bool = False
    """The turn ends even if there is a reason."""


@dataclass(frozen=True, slots=True)
class HookStopped:
    """A hook ends the turn after the running calls."""

    reason: str
    """The text that the user sees."""


@dataclass(frozen=True, slots=True)
class SteerQueued:
    """A message from the user while the turn runs."""

    text: str
    attached: tuple[Block, ...] = ()
    """Attachments, placed before the text."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.attached, Text(self.text))


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user cancels the turn, or its time is over."""

    is_unsent: bool = False
    """The last `SendRequest` was not sent yet and will not be."""
    limit: Limit | None = None
    """The time limit that is reached; None if the user cancels."""


@dataclass(frozen=True, slots=True)
class WaitElapsed:
    """A wait is over."""

    seconds: float = 0.0
    """The duration of the wait: more than requested if the machine was asleep."""


@dataclass(frozen=True, slots=True)
class RateLimitAnswered:
    """The user's answer to a `LimitReached` that is a question."""

    should_wait: bool
    """The user wants to wait for the end of the limit."""
    seconds: float = 0.0
    """The seconds for which the question was open; they are part of the wait."""


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """The next fallback model is connected, and the turn continues with it."""

    model: KnownModel
    settings: TurnSettings
    counter: PromptCounter
    skipped_models: tuple[str, ...] = ()
    """A line with the reason for each model that failed to connect."""


@dataclass(frozen=True, slots=True)
class NoModelLeft:
    """No fallback model is left."""

    skipped_models: tuple[str, ...] = ()
    """A line with the reason for each model that failed to connect."""
    limit: ErrorInfo | None = None
    """The error of the model whose rate limit ends first.

    None if the model that failed last is that model, or if no end is known.
    """


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
    | RateLimitAnswered
    | ModelSwitched
    | NoModelLeft
    | Confirmed
    | HookStopped
)


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Stream a reply and feed its events back; at most one request is in flight."""

    request: ModelRequest
    is_summary: bool = False
    """The request goes to the model that writes summaries, which may be on another host."""


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Close the stream of the current request and feed back none of its later events."""


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """Connect the next fallback model, and feed `ModelSwitched` or `NoModelLeft` back."""

    error: ErrorInfo
    """The failure of the current model."""
    has_waited: bool = False
    """The turn waited until the rate limit in `NoModelLeft` ended, so the model with that limit is the next one."""


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run an approved call and feed `ToolEnded` back."""

    call: ToolCall
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Judge a call by the rules, ask the user if they require it, and feed `ApprovalAnswered` back."""

    call: ToolCall
    arguments: JsonObject
    repeats: int = 0
    """How often in a row the same call gave the same result, or 0 below the limit.

    If it is not 0, the user is asked, even if a rule allows the call.
    """
    obstacle: str = ""
    """The reason why the call cannot run, empty if it can.

    If it is set, the user is asked whether the model may try again.
    """


@dataclass(frozen=True, slots=True)
class Confirm:
    """Ask the hooks about a step of the turn, and feed `Confirmed` back."""

    step: Literal["stop", "compact"]
    """`stop`: the turn is about to end. `compact`: the conversation is about to be compacted."""
    text: str = ""
    """For `stop` the answer of the turn, for `compact` the user's wish for the content of the summary."""
    is_again: bool = False
    """For `stop`: a hook has already continued this turn."""
    is_asked: bool = False
    """For `compact`: the user requested the compaction."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Feed `WaitElapsed` back after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    event: TurnEvent


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a message to the transcript and the session file."""

    message: Message
    attempts: tuple[AttemptRecord, ...] = ()
    """The attempts at the reply, which are stored with the message."""
    note: str = ""
    """A note that only the user sees."""


@dataclass(frozen=True, slots=True)
class RecordRequests:
    """Store the requests of a reply that is not committed, so that the session counts their usage."""

    attempts: tuple[AttemptRecord, ...]


@dataclass(frozen=True, slots=True)
class Compact:
    """Replace the transcript: each item is the index of a message that stays, or a message that replaces others."""

    items: tuple[int | Message, ...]


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over: stop all effects that still run. `TurnEnded` was emitted just before."""


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
"""How many answers are checked before the turn fails."""


class Review:
    """The checks of one turn's answers."""

    def __init__(self, check: AnswerCheck | None) -> None:
        self.problem: InvalidAnswer | None = None
        """The fault of the last answer, None if it was valid or not checked."""
        self.tries = 0
        """How many answers were checked."""
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


class Steering:
    """The queue of messages that the user sent while the turn runs. Falsy if it is empty."""

    def __init__(self) -> None:
        self._queued: list[SteerQueued] = []

    def __bool__(self) -> bool:
        return bool(self._queued)

    def add(self, steering: SteerQueued) -> None:
        self._queued.append(steering)

    def remove(self, text: str) -> SteerQueued | None:
        """Remove and return the last message with this text; None if there is none."""
        for index in range(len(self._queued) - 1, -1, -1):
            if self._queued[index].text == text:
                return self._queued.pop(index)
        return None

    def drain(self, before: Sequence[Block] = ()) -> tuple[Message, list[Effect]]:
        """Empty the queue into one message, after the blocks in `before`; return it with its events."""
        drained = self._queued
        self._queued = []
        blocks = [block for steering in drained for block in steering.blocks]
        message = Message("user", (*before, *blocks))
        return message, [Emit(SteeringAdded(steering.text, steering.attached)) for steering in drained]


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The settings of a turn. A limit is None if it is not set."""

    system: str
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_turns: int | None = None
    shows_turns_left: bool = False
    """The user set `max_turns`, so the model gets a note with the number of remaining turns."""
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    has_strict_tools: bool = False
    """A call of an unknown tool fails the turn at once."""
    allows_calls: bool = True
    """The model may make calls. If False, tools are sent only to describe the calls of the history."""
    compaction: CompactionSettings | None = None
    """The settings of automatic compaction, None if it is off."""
    fallback: Fallback | None = None
    """The settings of the fallback models, None if there are no such models."""
    check: AnswerCheck | None = None
    """Checks each final answer; None: every answer is valid."""
    steps_to_confirm: frozenset[Literal["stop", "compact"]] = frozenset()
    """The steps that the hooks are asked about."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The settings of the fallback models, which replace a model that is overloaded, unreachable or at a limit."""

    on_quota: bool = False
    """The fallback models are also used if the account has no credit left."""


COMPACT_AT = 0.8
"""The share of the context window at which a conversation is compacted automatically."""


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings of automatic compaction."""

    writer: KnownModel | None = None
    """The model that writes summaries, None for the model of the conversation."""
    share: float = COMPACT_AT
    """Compaction starts when the prompt fills this share of the context window."""
