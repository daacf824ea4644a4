"""What goes into a turn and what it asks for: `Turn.handle(Input) -> list[Effect]`.

The driver performs effects in order and feeds what comes of them back. An effect says what is wanted, never how.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.engine.learned import LearnedLimit
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import Attempt, TurnEvent
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEvent
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.values import dataclass


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
    attempts: tuple[Attempt, ...] = ()
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Compact:
    """Let the transcript go on with these: messages that stay, by their position in it, and what stands for others."""

    parts: tuple[int | Message, ...]


@dataclass(frozen=True, slots=True)
class Learn:
    """Remember something about this model on this host, across runs; `refuses_marks` for the running turn only."""

    fact: LearnedLimit | Literal["silently_capped", "refuses_prefill", "refuses_images", "refuses_marks"]


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over; whatever still runs is to be stopped. `TurnEnded` was emitted just before."""


Effect: TypeAlias = SendRequest | StopRequest | RunTool | AskApproval | Wait | Emit | Append | Compact | Learn | EndTurn
