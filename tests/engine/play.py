"""Plays a turn without I/O: scripted attempts in, all effects of the turn out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, get_args

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    Compact,
    Effect,
    Emit,
    EndTurn,
    Input,
    ReplyFailed,
    RunTool,
    SendRequest,
    StopRequest,
    ToolEnded,
    TurnSettings,
    UserSubmitted,
    Wait,
    WaitElapsed,
)
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.turn import Turn
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import (
    ContinuationTerminated,
    PartialRestored,
    ReplyFinished,
    Retry,
    TurnEnded,
    TurnEvent,
)
from qcode.protocol.messages import Message, user
from qcode.protocol.model import ModelFacts, ModelRequest
from qcode.protocol.reply import (
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import FileAccess, ToolOutcome, ToolSpec
from qcode.protocol.usage import Usage

EventT = TypeVar("EventT")
Script: TypeAlias = "list[ReplyEvent | ProviderError]"

WRITES = FileAccess("write", lambda _: ())
READ = ToolSpec("read", "Read.", {"type": "object", "required": ["path"]}, is_read_only=True)
WRITE = ToolSpec("write", "Write.", {"type": "object", "required": ["path", "content"]}, safety=WRITES)
SHELL = ToolSpec("shell", "Run.", {"type": "object", "required": ["command"]})
NOTE = ToolSpec("note", "Signal.", {"type": "object"}, is_one_way=True)
TOOLS = (READ, WRITE, SHELL, NOTE)


def text(*pieces: str, stop: StopReason = StopReason.END_TURN, output: int | None = 10, raw: str = "") -> Script:
    """Return a text reply in these pieces."""
    script: Script = [ReplyStarted("m", "r1"), *(TextDelta(0, piece) for piece in pieces)]
    return [*script, *ended(stop, output, raw)]


def cut(*pieces: str, output: int | None = None) -> Script:
    """Return a truncated text; without `output` no usage is reported."""
    return text(*pieces, stop=StopReason.MAX_TOKENS, output=output)


def thinking(pieces: str, stop: StopReason = StopReason.MAX_TOKENS) -> Script:
    return [ReplyStarted("m", "r1"), ReasoningDelta(0, pieces), *ended(stop, None)]


def calls(
    *pairs: tuple[str, str], stop: StopReason = StopReason.TOOL_USE, output: int | None = 10, before: str = ""
) -> Script:
    """Return a reply of calls, each a name and its raw arguments; ids are `c0`, `c1`, ..."""
    script: Script = [ReplyStarted("m", "r1")]
    if before:
        script.append(TextDelta(0, before))
    for index, (name, raw) in enumerate(pairs):
        block = index + bool(before)
        script += [ToolCallStarted(block, f"c{index}", name), ToolArgsDelta(block, raw)]
    return [*script, *ended(stop, output)]


def ended(stop: StopReason, output: int | None, raw: str = "") -> Script:
    usage: Script = [] if output is None else [UsageReported(Usage(input=100, output=output))]
    return [*usage, ReplyEnded(stop, raw or str(stop))]


def broken(*events: ReplyEvent, kind: ErrorKind = ErrorKind.CONNECTION, message: str = "dropped") -> Script:
    """Return a stream that fails after these events."""
    return [*events, ProviderError(kind, message)]


def refused(message: str, kind: ErrorKind = ErrorKind.BAD_REQUEST) -> Script:
    return [ProviderError(kind, message, status=400)]


@dataclass
class Played:
    """The result of a played turn. `shown` is the text that a front end shows after the events of the last step."""

    requests: list[ModelRequest] = field(default_factory=list)
    events: list[TurnEvent] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ran: list[RunTool] = field(default_factory=list)
    asked: list[AskApproval] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    learned: list[Learn] = field(default_factory=list)
    compacted: list[Compact] = field(default_factory=list)
    sent: list[SendRequest] = field(default_factory=list)
    is_over: bool = False

    @property
    def caps(self) -> list[int]:
        return [request.max_tokens for request in self.requests]

    @property
    def end(self) -> TurnEnded:
        (end,) = [event for event in self.events if isinstance(event, TurnEnded)]
        return end

    @property
    def shown(self) -> str:
        return shown_text(self.events)

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]


def shown_text(events: Sequence[TurnEvent]) -> str:
    """Follow the events as a front end does; return the text shown for the last step."""
    from qcode.protocol.events import StepStarted

    shown = ""
    for event in events:
        if isinstance(event, StepStarted) or (isinstance(event, Retry) and not event.is_continuation):
            shown = ""
        elif isinstance(event, TextDelta):
            shown += event.text
        elif isinstance(event, PartialRestored):
            shown = event.text
    return shown


class Player:
    """Drives a turn with scripts, one per request. `interrupt` may replace any input."""

    def __init__(
        self,
        *scripts: Script,
        facts: ModelFacts | None = None,
        output: OutputSettings | None = None,
        settings: TurnSettings | None = None,
        history: Sequence[Message] = (),
        model: KnownModel | None = None,
    ) -> None:
        self.played = Played()
        self._scripts = list(scripts)
        known = model or KnownModel("test", "m", facts or ModelFacts())
        chosen = settings or TurnSettings("Be brief.", TOOLS, output=output or OutputSettings())
        self.turn = Turn(chosen, known, history, PromptCounter())
        self._inputs: list[Input] = []
        self.allows: Callable[[AskApproval], bool] = lambda asked: True
        self.outcome: Callable[[RunTool], ToolOutcome] = lambda run: ToolOutcome(f"ran {run.call.name}")

    def play(self, prompt: str = "go") -> Played:
        self.give(UserSubmitted(user(prompt)))
        while self._inputs:
            self.give(self._inputs.pop(0))
        return self.played

    def play_until(self, kind: type[EventT]) -> Played:
        """Play until the first event of this kind, and leave the rest queued."""
        self.give(UserSubmitted(user("go")))
        while not self.played.of(kind) and self._inputs:
            self.give(self._inputs.pop(0))
        return self.played

    def give(self, given: Input) -> None:
        for effect in self.turn.handle(given):
            self._perform(effect)

    def step(self) -> bool:
        """Feed the next queued input; return False if there is none."""
        if not self._inputs:
            return False
        self.give(self._inputs.pop(0))
        return True

    def drop_queued(self) -> None:
        self._inputs.clear()

    def _perform(self, effect: Effect) -> None:
        played = self.played
        assert not played.is_over, f"an effect after the end: {effect}"
        match effect:
            case Emit():
                played.events.append(effect.event)
            case SendRequest():
                played.requests.append(effect.request)
                played.sent.append(effect)
                assert self._scripts, f"an unexpected request: {effect.request.messages[-1]}"
                self._queue(self._scripts.pop(0))
            case StopRequest():
                self._inputs = [given for given in self._inputs if not _is_of_a_stream(given)]
            case RunTool():
                played.ran.append(effect)
                self._inputs.append(ToolEnded(effect.call.call_id, self.outcome(effect)))
            case AskApproval():
                played.asked.append(effect)
                self._inputs.append(ApprovalAnswered(effect.call.call_id, self.allows(effect)))
            case Wait():
                played.waits.append(effect.seconds)
                self._inputs.append(WaitElapsed(effect.seconds))
            case Append():
                played.messages.append(effect.message)
            case Compact():
                played.compacted.append(effect)
            case Learn():
                played.learned.append(effect)
            case EndTurn():
                played.is_over = True

    def _queue(self, script: Script) -> None:
        for item in script:
            if isinstance(item, ProviderError):
                self._inputs.append(ReplyFailed(item, 0.5))
            else:
                self._inputs.append(item)


def _is_of_a_stream(given: Input) -> bool:
    return isinstance(given, (ReplyFailed, *get_args(ReplyEvent)))


def reasons(played: Played) -> list[str]:
    """Return why recovery ended, for each truncated reply."""
    return [event.reason for event in played.events if isinstance(event, ContinuationTerminated)]


def retries(played: Played) -> list[tuple[bool, str]]:
    """Return for each retry whether it continues, and its reason."""
    return [(event.is_continuation, event.reason) for event in played.events if isinstance(event, Retry)]


def finished(played: Played) -> ReplyFinished:
    """Return how the only reply of the turn finished."""
    (event,) = [event for event in played.events if isinstance(event, ReplyFinished)]
    return event


def play(*scripts: Script, **options: object) -> Played:
    """Play one turn to its end."""
    return Player(*scripts, **options).play()  # type: ignore[arg-type]  # options are the player's own keywords
