"""Inputs of a turn, the effects it asks for, its settings, and the check of its answer.

The driver performs effects in order and feeds the results back as inputs. An effect says what is wanted, never how.
`Review` checks the answer of a turn with a function it is given (a JSON schema, say) and counts the tries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from decimal import Decimal
from typing import TypeAlias

from qcode.engine.caps import OutputSettings
from qcode.engine.compaction import COMPACT_AT
from qcode.engine.model_facts import KnownModel, Learn
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import AttemptRecord, TurnEvent
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import Effort, ModelRequest, RetrySettings
from qcode.protocol.reply import ReplyEvent
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.text.json import JsonObject
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class UserSubmitted:
    message: Message


@dataclass(frozen=True, slots=True)
class CompactRequested:
    """The person asks for a compaction; the turn is that and nothing else. `focus` is what to pay attention to."""

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
    """The verdict on a call, from a rule or a person. `reason` goes to the model with a denial.

    `text` is the result of the call itself, which then does not run: what a person answered to a question.
    """

    call_id: str
    is_allowed: bool
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class SteerQueued:
    """What the person says while the turn runs. `attached` goes before the text."""

    text: str
    attached: tuple[Block, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (*self.attached, Text(self.text))


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """`is_unsent`: the request asked for last has not left, and will not."""

    is_unsent: bool = False


@dataclass(frozen=True, slots=True)
class WaitElapsed:
    pass


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
)


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Stream a reply and feed its events back; at most one request is under way.

    `is_summary`: it is for the model that writes summaries, which may be another one on another host.
    """

    request: ModelRequest
    is_summary: bool = False


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Close the stream of the request under way; nothing it still gives may be fed back."""


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run an approved call and feed `ToolEnded` back."""

    call: ToolCall
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Judge a call by the rules, ask the person where they say so, and feed `ApprovalAnswered` back.

    `repeats` is how often in a row the same call has just brought the same result, 0 for few: then ask in any case.
    """

    call: ToolCall
    arguments: JsonObject
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Feed `WaitElapsed` back after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    event: TurnEvent


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a message to the transcript and the session file. `attempts` is kept beside it, `mark` is for people."""

    message: Message
    attempts: tuple[AttemptRecord, ...] = ()
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Compact:
    """Let the transcript go on with these: messages that stay, by their position in it, and what stands for others."""

    parts: tuple[int | Message, ...]


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over; whatever still runs is to be stopped. `TurnEnded` was emitted just before."""


Effect: TypeAlias = SendRequest | StopRequest | RunTool | AskApproval | Wait | Emit | Append | Compact | Learn | EndTurn


MAX_ANSWER_TRIES = 3


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why an answer does not do: `reason` in one line for a person, `request` is what the model is sent."""

    reason: str
    request: str


AnswerCheck: TypeAlias = Callable[[str], Complaint | None]
"""Takes a whole, final answer; None where nothing is wrong with it. Pure: the same text, the same complaint."""


class Review:
    """The tries of one turn. `complaint` is what is wrong with the answer that was looked at last."""

    def __init__(self, check: AnswerCheck | None) -> None:
        self.complaint: Complaint | None = None
        self.tries = 0
        self._check = check

    def asks_again(self, answer: str) -> bool:
        """Look at an answer that would end the turn; return whether the model gets another try."""
        if self._check is None:
            return False
        self.tries += 1
        self.complaint = self._check(answer)
        return self.complaint is not None and self.tries < MAX_ANSWER_TRIES

    @property
    def notice(self) -> str:
        reason = self.complaint.reason if self.complaint else ""
        return f"the answer does not do: {reason}; asking again, try {self.tries + 1} of {MAX_ANSWER_TRIES}"

    @property
    def error(self) -> ErrorInfo | None:
        """What the turn ends with where its answer does not do."""
        if self.complaint is None:
            return None
        text = f"no answer did in {MAX_ANSWER_TRIES} tries; the last one: {self.complaint.reason}"
        return ErrorInfo(ErrorKind.STRUCTURED_OUTPUT, text)


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What a turn runs with. The limits are None where the person set none, `compaction` where it never compacts, and
    `check` where any answer will do."""

    system: str
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    compaction: CompactionSettings | None = None
    check: AnswerCheck | None = None


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """`writer` writes summaries, None: the model of the conversation. `share` of the window is when it begins."""

    writer: KnownModel | None = None
    share: float = COMPACT_AT
