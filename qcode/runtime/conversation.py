"""One session with one model: what a front end submits to, answers, steers and cancels.

Keeps the transcript, the session file, the rules and what the host taught; each turn gets a fresh engine and driver.
The composition root wires it and is the only one that knows which provider, tools and folders these are.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from decimal import Decimal

from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter, estimate_message
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    CancelRequested,
    Compact,
    CompactRequested,
    Learn,
    SteerQueued,
    UserSubmitted,
)
from qcode.engine.knowledge import KnownModel
from qcode.engine.retries import RetrySettings
from qcode.engine.room import CompactionSettings
from qcode.engine.turn import Turn, TurnSettings
from qcode.protocol.conversation import Answer, ApprovalMode
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import ApprovalRequested, Notice, ToolFinished, TurnEnded, TurnEvent
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Block, Message, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort
from qcode.protocol.provider import Provider
from qcode.protocol.reports import ContextReport, TurnUsage
from qcode.protocol.tools import ToolOutcome
from qcode.runtime.checkpoints.keeper import Checkpoints
from qcode.runtime.debug_log import DebugLog, LoggedProvider
from qcode.runtime.driver import Driver
from qcode.runtime.library import Library
from qcode.runtime.limits import LimitStore
from qcode.runtime.metrics import RecoveryMetrics
from qcode.runtime.reports import context_report, earlier_usage, turn_usage
from qcode.runtime.store.session import Session
from qcode.runtime.store.store import SessionStore
from qcode.runtime.suggestions import with_nearest_models
from qcode.runtime.toolbox import Toolbox
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules


@dataclass(frozen=True, slots=True)
class Connected:
    """A model that can be talked to, as the composition root made it. `system` is its prompt in a mode."""

    provider: Provider
    model: KnownModel
    system: Callable[[ApprovalMode], str]
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)

    @property
    def name(self) -> str:
        return f"{self.model.provider}/{self.model.name}"


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Limits of one prompt; None where there is none."""

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a conversation is made of beside its model.

    `connect` makes a model of a name, raising `ValueError` with one line where it cannot; `new_session` opens a
    session file for a model's name; `mentioned` gives the files that a typed prompt names, and a line for each that
    cannot be attached. `sessions` are those of this folder, None where none are kept. `summarizer` gives the model that
    writes summaries and titles, None: the conversation's own; it may raise `ValueError` with one line.
    `instruction_chars` is how much of the system prompt comes from instruction files.
    """

    connect: Callable[[str], Connected]
    new_session: Callable[[str], Session]
    toolbox: Toolbox
    policy: Policy
    limits: LimitStore
    prompt_limits: PromptLimits = field(default_factory=PromptLimits)
    effort: Effort | None = None
    debug_log: DebugLog | None = None
    mentioned: Callable[[str], tuple[tuple[Block, ...], tuple[str, ...]]] = lambda typed: ((), ())
    sessions: SessionStore | None = None
    summarizer: Callable[[], Connected | None] = lambda: None
    instruction_chars: int = 0


class Conversation:
    """The real `protocol.conversation.Conversation`. Owns its session file and provider until `close`."""

    def __init__(
        self, wiring: Wiring, connected: Connected, session: Session, messages: tuple[Message, ...] = ()
    ) -> None:
        self._wiring = wiring
        self._connected = connected
        self._policy = wiring.policy
        self._retired: list[Provider] = []
        self._driver: Driver | None = None
        self._summarizer: Connected | None = None
        self._checkpoints = Checkpoints(
            wiring.toolbox.workspace, session, moved=self._moved, is_busy=lambda: self.is_busy
        )
        self._library = Library(self, wiring.sessions, wiring.toolbox.workspace.root)
        self._is_opening = False
        self.metrics = RecoveryMetrics()
        self._begin(session, messages)
        self._open_rules: dict[str, str] = {}
        self._attached: tuple[Block, ...] = ()

    def _begin(self, session: Session, messages: tuple[Message, ...] = ()) -> None:
        """Go on with a session; `messages` are what is known where its file does not have them."""
        entries = session.entries()
        self._session = session
        self._messages = [entry.message for entry in entries] or list(messages)
        self._numbers = [entry.numbers for entry in entries] or [()] * len(messages)
        self._counter = PromptCounter()
        self._turns = 0
        price = self._connected.model.facts.price
        ever = (stored.entry for _, stored in sorted(session.line.stored.items()))
        self._usage = earlier_usage(ever, self.model, price)

    @property
    def session_id(self) -> str:
        return self._session.session_id

    @property
    def model(self) -> str:
        return self._connected.name

    @property
    def mode(self) -> ApprovalMode:
        return self._policy.mode

    @property
    def policy(self) -> Policy:
        """The rules as they are now, with the mode and the answers of the person."""
        return self._policy

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Put these blocks (files, images) before the next prompt."""
        self._attached = (*self._attached, *blocks)

    async def submit(self, prompt: str) -> AsyncGenerator[TurnEvent, None]:
        mentioned, complaints = self._wiring.mentioned(prompt)
        attached, self._attached = (*self._attached, *mentioned), ()
        message = Message("user", (*attached, Text(prompt)))
        async with aclosing(self._run(UserSubmitted(message), prompt, complaints)) as events:
            async for event in events:
                yield event

    async def compact(self, focus: str = "") -> AsyncGenerator[TurnEvent, None]:
        """Shorten what is sent of the conversation; the last event is `TurnEnded` as for a turn."""
        async with aclosing(self._run(CompactRequested(focus), "/compact", ())) as events:
            async for event in events:
                yield event

    async def _run(
        self, first: UserSubmitted | CompactRequested, prompt: str, complaints: tuple[str, ...]
    ) -> AsyncGenerator[TurnEvent, None]:
        if self._driver is not None:
            raise RuntimeError("a turn is already running")
        self._turns += 1
        self._is_opening = isinstance(first, UserSubmitted)
        writer, problem = self._writer()
        turn = Turn(self._turn_settings(writer), self._known_model(), self._messages, self._counter, number=self._turns)
        summaries = None if writer is None else self._logged(writer.provider)
        self._driver = Driver(turn, self._logged(self._connected.provider), self, writer=summaries)
        await self._checkpoints.settle()
        complaints = (*complaints, *problem)
        try:
            async with aclosing(self._driver.run(first)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded):
                        self._session.sync()
                        self._usage.append(turn_usage(prompt, self.model, event))
                    for warning in (*self._session.take_warnings(), *self._checkpoints.take_warnings()):
                        yield self._seen(Notice("warning", warning))
                    self._keep_result(event)
                    yield self._seen(event)
                    for complaint in complaints:
                        yield self._seen(Notice("warning", complaint))
                    complaints = ()
        finally:
            self._driver = None
            self._open_rules.clear()
            self._session.sync()

    def answer(self, call_id: str, answer: Answer) -> None:
        rule = self._open_rules.pop(call_id, None)
        if rule is None or self._driver is None:
            return
        if answer.is_allowed and answer.scope == "always" and rule:
            self._policy = self._policy.with_allow(rule)
        self._driver.give(ApprovalAnswered(call_id, answer.is_allowed, answer.reason))

    def steer(self, text: str) -> None:
        if self._driver is not None:
            self._driver.give(SteerQueued(text))

    def cancel(self) -> None:
        if self._driver is not None:
            self._driver.give(CancelRequested())

    def clear(self) -> None:
        self.open_session(self._wiring.new_session(self.model))

    @property
    def library(self) -> Library:
        return self._library

    @property
    def rewinds(self) -> Checkpoints:
        return self._checkpoints

    @property
    def reports(self) -> Conversation:
        return self

    def context(self) -> ContextReport:
        connected, specs = self._connected, self._wiring.toolbox.specs
        system, briefed = connected.system(self.mode), self._wiring.instruction_chars
        return context_report(
            self._known_model(), system, briefed, specs, self._messages, self._counter, connected.output
        )

    def usage(self) -> tuple[TurnUsage, ...]:
        return tuple(self._usage)

    @property
    def session(self) -> Session:
        return self._session

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs."""
        return self._driver is not None

    def open_session(self, session: Session) -> None:
        """Leave the session that is open and go on with another one."""
        self._session.close()
        self._checkpoints.follow(session)
        self._begin(session)

    def _moved(self) -> None:
        """The session is at another point now: hold the messages it consists of there."""
        entries = self._session.entries()
        self._messages = [entry.message for entry in entries]
        self._numbers = [entry.numbers for entry in entries]
        self._counter.context_tokens = sum(estimate_message(message) for message in self._messages)

    def set_model(self, name: str) -> None:
        connected = self._wiring.connect(name)
        self._retired.append(self._connected.provider)
        self._connected = connected
        self._counter = PromptCounter()
        self._session.switch_model(connected.name)

    def trust_folder(self) -> None:
        """Let rules and modes hold from the next call on: the person trusts the folder."""
        self._policy = self._policy.with_trust()

    def set_mode(self, mode: ApprovalMode) -> None:
        self._policy = self._policy.with_mode(mode)

    async def close(self) -> None:
        """Release the session file and every connection; nothing may be submitted after this."""
        self.release()
        summaries = () if self._summarizer is None else (self._summarizer.provider,)
        for provider in (*self._retired, *summaries, self._connected.provider):
            await provider.close()

    def release(self) -> None:
        """Let go of all files, for a program that ends now and takes its connections with it; safe to call twice."""
        self._session.close()
        self._checkpoints.close()
        self._wiring.toolbox.close()
        if self._wiring.debug_log is not None:
            self._wiring.debug_log.close()

    # What the driver asks for

    async def judge(self, call: ToolCall, arguments: JsonObject) -> ApprovalAnswered | ApprovalRequested:
        verdict = self._policy.judge(call.name, arguments)
        if verdict.verdict != "ask":
            return ApprovalAnswered(call.call_id, verdict.verdict == "allow", verdict.reason)
        preview = await self._wiring.toolbox.preview(call.name, arguments)
        if preview.refusal:
            return ApprovalAnswered(call.call_id, is_allowed=True)
        self._open_rules[call.call_id] = verdict.proposed_rule
        return ApprovalRequested(call, preview.question, preview.detail, verdict.proposed_rule)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        work = self._wiring.toolbox.run(call.name, arguments, output)
        return await (self._checkpoints.watched(work) if self._may_change_files(call, arguments) else work)

    def append(self, effect: Append) -> None:
        number = self._session.append(effect.message, effect.attempts, effect.mark, is_own=self._is_opening)
        self._is_opening = False
        self._messages.append(effect.message)
        self._numbers.append((number,))

    def take_compaction(self, effect: Compact) -> None:
        parts = [self._numbers[part] if isinstance(part, int) else part for part in effect.parts]
        self._numbers = self._session.compact(parts)
        self._messages = [self._messages[part] if isinstance(part, int) else part for part in effect.parts]

    def learn(self, effect: Learn) -> None:
        host, model = self._connected.provider.host, self._connected.model.name
        knowledge = self._wiring.limits.knowledge(host, model).with_fact(effect)
        self._wiring.limits.remember(host, model, knowledge)

    def about_to_run(self, call: ToolCall) -> None:
        self._session.intend(call)
        self._session.sync()

    async def explain(self, error: ProviderError) -> ProviderError:
        if error.kind is not ErrorKind.UNKNOWN_MODEL:
            return error
        return await with_nearest_models(error, self._connected.provider, self._connected.model.name)

    def _may_change_files(self, call: ToolCall, arguments: JsonObject) -> bool:
        """Say whether only a look can find what a call changes in files: tools that write tell it themselves."""
        spec = next((spec for spec in self._wiring.toolbox.specs if spec.name == call.name), None)
        if spec is None or spec.is_read_only or spec.writes_files:
            return False
        plain = replace(self._policy, mode="default", rules=Rules.of(), is_trusted=True)
        return not plain.judge(call.name, arguments).is_allowed

    def _keep_result(self, event: TurnEvent) -> None:
        """Have the result of a call on the disk while other calls of its step are still to run."""
        if isinstance(event, ToolFinished):
            call, outcome = event.call, event.outcome
            self._session.record_result(
                ToolResult(call.call_id, call.name, outcome.content, outcome.is_error, outcome.images)
            )

    def _writer(self) -> tuple[Connected | None, tuple[str, ...]]:
        """Return the model for summaries where it is another one, and a complaint where it cannot be had."""
        if self._summarizer is None:
            try:
                self._summarizer = self._wiring.summarizer()
            except ValueError as error:
                return None, (f"small_model: {error}",)
        return self._summarizer, ()

    def _logged(self, provider: Provider) -> Provider:
        log = self._wiring.debug_log
        return provider if log is None else LoggedProvider(provider, log)

    def _known_model(self) -> KnownModel:
        model = self._connected.model
        return replace(model, host=self._wiring.limits.knowledge(self._connected.provider.host, model.name))

    def _turn_settings(self, writer: Connected | None) -> TurnSettings:
        wiring, connected = self._wiring, self._connected
        limits = wiring.prompt_limits
        return TurnSettings(
            connected.system(self.mode),
            wiring.toolbox.specs,
            wiring.effort,
            connected.output,
            connected.retries,
            limits.max_turns,
            limits.max_tool_calls,
            limits.max_budget_usd,
            CompactionSettings(None if writer is None else writer.model),
        )

    def _seen(self, event: TurnEvent) -> TurnEvent:
        self.metrics.observe(event, self.model, time.monotonic())
        log = self._wiring.debug_log
        if log is not None:
            log.event(event)
            if isinstance(event, TurnEnded):
                log.metrics(self.metrics.as_json())
        return event
