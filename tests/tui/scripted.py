"""A conversation that plays lists of events, stops at gates, and records its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from qcode.agent.checkpoints.checkpoints import Checkpoints
from qcode.agent.checkpoints.rewind import RewindPlan, RewindPoint, RewindReport, RewindScope, SessionFileDiff
from qcode.agent.context.system_prompt import PendingAttachments
from qcode.agent.context.window import ContextReport
from qcode.agent.conversation import Conversation
from qcode.agent.hooks.session import SessionHooks
from qcode.agent.models.client import ModelClient
from qcode.agent.sessions.export import ExportRequest
from qcode.agent.sessions.history import HistoryEntry, StoredMessage, is_a_prompt
from qcode.agent.sessions.library import SessionInfo, SessionLibrary
from qcode.agent.toolbox import BackgroundCalls
from qcode.agent.usage import RecoveryMetrics, TurnUsage
from qcode.protocol.approvals import NO_OPTIONS, ApprovalMode, Decision, TurnOptions
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import ApiCalls, ReplyFinished, StepStarted, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.messages import Block, MentionedFiles, Message, Text, ToolCall, assistant, user
from qcode.protocol.model import Effort
from qcode.protocol.reply import Limit, Outcome, StopReason, TextDelta
from qcode.protocol.usage import Usage


@dataclass
class Gate:
    """A point in a script where the turn waits. It sets `reached` when it waits."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        self.opened.set()


@dataclass(frozen=True)
class UntilAnswered:
    """A point in a script where the turn waits for the answer to a call."""

    call_id: str


Step = TurnEvent | Gate | UntilAnswered | Exception
Script = Iterable[Step]

STORED_AT = "2026-11-20T14:03:00"
"""When the messages of a scripted conversation were stored, in local time."""


class ScriptedConversation(Conversation):
    """Plays `scripts` in order, one for each turn; further turns end immediately."""

    session_id = "s1"
    model = ""
    mode: ApprovalMode = "default"
    messages: tuple[Message, ...] = ()
    supports_images = True
    background: ScriptedBackground
    library: ScriptedLibrary

    def __init__(
        self,
        *scripts: Script,
        model: str = "demo/scripted",
        mode: ApprovalMode = "default",
        messages: tuple[Message, ...] = (),
    ) -> None:
        self._scripts = list(scripts)
        self.model = model
        self.mode = mode
        self.messages = messages
        self.hooks: SessionHooks | None = None
        self.prompts: list[str] = []
        self.answers: list[tuple[str, Decision]] = []
        self.steered: list[str] = []
        self.delivered_steering: set[str] = set()
        """The steering messages that the model already has; the test adds them."""
        self.attached_blocks: tuple[Block, ...] = ()
        """The blocks that `attach` got, before a prompt."""
        self.attachments = PendingAttachments(lambda text, external_spans: MentionedFiles())
        self.prompt_attachments: list[tuple[Block, ...]] = []
        """The blocks that `submit` got with each prompt."""
        self.options: list[TurnOptions] = []
        self.metrics = RecoveryMetrics()
        self.background = ScriptedBackground()
        self.checkpoints: Checkpoints = ScriptedCheckpoints()
        self.library = ScriptedLibrary()
        self.thinking_models: tuple[str, ...] = ()
        self.effort: Effort | None = None
        self.used: tuple[TurnUsage, ...] = ()
        self.cancels = 0
        self.clears = 0
        self._is_playing = False
        self._answered = asyncio.Event()
        self._cancelled = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        return self._is_playing

    @property
    def supports_reasoning(self) -> bool:
        return self.model in self.thinking_models

    @property
    def stored_messages(self) -> tuple[StoredMessage, ...]:
        return tuple(
            StoredMessage(HistoryEntry(message, timestamp=STORED_AT), is_a_prompt(message)) for message in self.messages
        )

    def context_report(self) -> ContextReport:
        return ContextReport(self.model, 100_000, 1_000, 0, 1_000, 100 * len(self.messages), 0, 8_000)

    def usage(self) -> tuple[TurnUsage, ...]:
        return self.used

    def attach(self, blocks: tuple[Block, ...]) -> None:
        self.attached_blocks += blocks
        self.attachments.attach(blocks)

    async def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent]:
        self.prompts.append(prompt)
        self.attachments.take_blocks(prompt, attached)
        self.prompt_attachments.append(attached)
        self.options.append(options)
        self._cancelled = asyncio.Event()
        before = len(self.answers)
        script = self._scripts.pop(0) if self._scripts else [ended()]
        self._is_playing = True
        try:
            yield TurnStarted(prompt)
            async for event in self._play(script, before):
                yield event
        finally:
            self._is_playing = False

    async def _play(self, script: Script, before: int) -> AsyncGenerator[TurnEvent]:
        """Yield the events of `script`, for a turn before which `before` answers were given."""
        for step in script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, Gate):
                step.reached.set()
                await self._either(step.opened)
            elif isinstance(step, UntilAnswered):
                while step.call_id not in dict(self.answers[before:]) and not self._cancelled.is_set():
                    await self._either(self._answered)
                    self._answered.clear()
            else:
                yield step
            if self._cancelled.is_set():
                yield ended(Outcome.CANCELLED)
                return

    async def compact(self, focus: str = "") -> AsyncGenerator[TurnEvent]:
        self.prompts.append(f"/compact {focus}".rstrip())
        yield ended()

    def answer(self, approval_id: str, decision: Decision) -> None:
        self.answers.append((approval_id, decision))
        self._answered.set()

    def steer(self, text: str, attached: tuple[Block, ...] = ()) -> None:
        self.steered.append(text)

    def withdraw_steering(self, text: str) -> bool:
        if text not in self.steered or text in self.delivered_steering:
            return False
        self.steered.remove(text)
        return True

    def cancel(self, limit: Limit | None = None) -> None:
        self.cancels += 1
        self._cancelled.set()

    def clear(self) -> None:
        self.clears += 1
        self.messages = ()

    def set_model(self, name: str | ModelClient) -> None:
        assert isinstance(name, str)
        if "/" not in name:
            raise ValueError(f"No model is called {name!r}; demo/scripted is near.")
        self.model = name

    def set_mode(self, mode: ApprovalMode) -> None:
        self.mode = mode

    async def _either(self, event: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._cancelled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class ScriptedBackground(BackgroundCalls):
    """Records the calls that the user moves to the background."""

    calls: tuple[str, ...] = ()
    """The running calls that can be moved to the background."""

    def __init__(self) -> None:
        self.moved: list[str] = []
        self.refusal = ""
        """The error of `move`; empty for none."""

    def move(self, call_id: str) -> None:
        if self.refusal:
            raise ValueError(self.refusal)
        self.moved.append(call_id)

    @contextmanager
    def track_call(self, call_id: str, name: str) -> Iterator[asyncio.Event | None]:
        yield None


class ScriptedLibrary(SessionLibrary):
    """A library with one session."""

    title = ""
    """The title of the session."""

    def __init__(self) -> None:
        self.next_title = ""
        """The title that `make_title` gives to an untitled session."""
        self.title_usage: TurnUsage | None = None
        """The usage of `make_title`; None if it makes no title."""

    def latest(self) -> str | None:
        return "s1"

    async def make_title(self) -> TurnUsage | None:
        if self.title_usage is not None and not self.title:
            self.title = self.next_title
            return self.title_usage
        return None

    def sessions(self) -> tuple[SessionInfo, ...]:
        return ()

    def preview(self, session_id: str) -> tuple[Message, ...]:
        return ()

    def passages(self, text: str, session_ids: Iterable[str]) -> dict[str, str]:
        return {}

    def rename(self, session_id: str, title: str) -> None:
        self.title = title

    def delete(self, session_id: str) -> None:
        raise ValueError("There is one session only.")

    def resume(self, session_id: str) -> tuple[str, ...]:
        raise ValueError("There is one session only.")

    def fork(self, session_id: str = "") -> str:
        raise ValueError("There is one session only.")

    def export(self, request: ExportRequest) -> str:
        return ""


class ScriptedCheckpoints(Checkpoints):
    """A history without anything to rewind to."""

    def __init__(self) -> None:
        pass

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        return ()

    async def plan_undo(self) -> RewindPlan:
        raise ValueError("There is nothing to undo yet.")

    async def plan_redo(self) -> RewindPlan:
        raise ValueError("There is nothing to redo.")

    async def plan_rewind(self, number: int, what: RewindScope) -> RewindPlan:
        raise ValueError("That message is no longer in this conversation.")

    async def perform(self, plan: RewindPlan, overwrite: Collection[str] = ()) -> RewindReport:
        raise NotImplementedError("there is no plan")

    async def file_changes(self) -> tuple[SessionFileDiff, ...]:
        return ()


class FixedClock:
    """A clock that the test moves."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def call(name: str = "shell", arguments: str = '{"command": "ls -la"}', call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def reply(
    text: str, *calls: ToolCall, stop: StopReason = StopReason.END_TURN, parts: int = 1, note: str = ""
) -> ReplyFinished:
    return ReplyFinished(stop, stop.value, parts, assistant(Text(text), *calls), note=note)


def says(text: str) -> list[TurnEvent]:
    """Return the events of one step with the reply `text`."""
    return [StepStarted(1), TextDelta(0, text), reply(text)]


def ended(
    outcome: Outcome = Outcome.END_TURN,
    *,
    error: str = "",
    limit: Limit | None = None,
    usage: Usage | None = None,
    cost: str | None = "0.0021",
    api_calls: ApiCalls | None = None,
    discarded: int = 0,
) -> TurnEnded:
    return TurnEnded(
        outcome,
        StopReason.END_TURN,
        "stop",
        "",
        1,
        usage or Usage(1_200, 300),
        Decimal(cost) if cost is not None else None,
        api_calls or ApiCalls(initial=1),
        discarded_output_tokens=discarded,
        limit=limit,
        error=ErrorInfo("auth", error) if error else None,
    )


def said(text: str) -> tuple[Message, ...]:
    return (user("hello"), assistant(Text(text)))
