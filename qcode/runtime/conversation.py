"""One session with one model: what a front end submits to, answers, steers and cancels.

Keeps the transcript, the session file, the rules and what the host taught; each turn gets a fresh engine and driver.
The composition root wires it and is the only one that knows which provider, tools and folders these are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from decimal import Decimal

from qcode.engine.caps import OutputSettings, caps_for
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    CancelRequested,
    Learn,
    SteerQueued,
    UserSubmitted,
)
from qcode.engine.knowledge import KnownModel
from qcode.engine.retries import RetrySettings
from qcode.engine.review import AnswerCheck
from qcode.engine.turn import Turn, TurnSettings
from qcode.protocol.conversation import NO_OPTIONS, Answer, ApprovalMode, TurnOptions
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import ApiCalls, ApprovalRequested, Notice, SteeringAdded, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import Effort, ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.stops import Outcome
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.providers.local import WindowQuestion
from qcode.runtime.debug_log import DebugLog, LoggedProvider
from qcode.runtime.driver import Driver
from qcode.runtime.limits import LimitStore
from qcode.runtime.metrics import RecoveryMetrics
from qcode.runtime.preparing import Preparation, TokenCounting
from qcode.runtime.store.session import Session
from qcode.runtime.suggestions import with_nearest_models
from qcode.runtime.toolbox import Toolbox
from qcode.safety.policy import Policy
from qcode.safety.verdict import Level


@dataclass(frozen=True, slots=True)
class Connected:
    """A model that can be talked to, as the composition root made it. `system` is its prompt in a mode.

    `window` asks a local server how large a context it gives, where nothing else says that.
    """

    provider: Provider
    model: KnownModel
    system: Callable[[ApprovalMode], str]
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    window: WindowQuestion | None = None

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
    cannot be attached. `tuned` gives a model's output settings with the keys of one turn on top; answers pass `check`.
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
    tokens: TokenCounting | None = None
    tuned: Callable[[str, Mapping[str, object]], OutputSettings] = lambda name, given: OutputSettings()
    check: AnswerCheck | None = None


class Conversation:
    """The real `protocol.conversation.Conversation`. Owns its session file and provider until `close`."""

    def __init__(
        self, wiring: Wiring, connected: Connected, session: Session, messages: tuple[Message, ...] = ()
    ) -> None:
        self._wiring = wiring
        self._connected = connected
        self._session = session
        self._messages = list(messages)
        self._policy = wiring.policy
        self._counter = self._new_counter()
        self._turns = 0
        self._driver: Driver | None = None
        self._open_rules: dict[str, str] = {}
        self._spelled: dict[str, tuple[str, JsonObject]] = {}
        self._levels: dict[str, Level | None] = {}
        self._retired: list[Provider] = []
        self._attached: tuple[Block, ...] = ()
        self.metrics = RecoveryMetrics()
        self._preparation = self._new_preparation()
        self._steered: list[tuple[str, tuple[Block, ...]]] = []
        self._complaints: list[str] = []
        self._borrowed: dict[str, Connected] = {}
        self._own: Connected | None = None

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

    @property
    def takes_images(self) -> bool:
        return self._connected.model.facts.images is not False

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Put these blocks (files, images) before the next prompt."""
        self._attached = (*self._attached, *blocks)

    async def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent, None]:
        if self._driver is not None:
            raise RuntimeError("a turn is already running")
        try:
            borrowed = self._borrow(options.model)
        except ValueError as refusal:
            for event in _refused(prompt, str(refusal)):
                yield self._seen(event)
            return
        self._turns += 1
        self._own = self._connected if borrowed is not self._connected else None
        self._use(borrowed)
        settings = self._turn_settings(options)
        turn = Turn(settings, self._known_model(), self._messages, self._counter, number=self._turns)
        log = self._wiring.debug_log
        provider = self._connected.provider
        self._driver = Driver(turn, provider if log is None else LoggedProvider(provider, log), self)
        message = Message("user", (*self._taken(prompt, attached), Text(prompt)))
        try:
            self._complaints += await self._prepare(turn, settings, message)
            async with aclosing(self._driver.run(UserSubmitted(message))) as events:
                async for event in events:
                    if isinstance(event, TurnEnded):
                        self._session.sync()
                    for warning in self._session.take_warnings():
                        yield self._seen(Notice("warning", warning))
                    if isinstance(event, SteeringAdded):
                        self._forget_steered(event.text)
                    yield self._seen(event)
                    while self._complaints and not isinstance(event, TurnEnded):
                        yield self._seen(Notice("warning", self._complaints.pop(0)))
        finally:
            self._driver = None
            self._open_rules.clear()
            self._spelled.clear()
            self._levels.clear()
            self._complaints.clear()
            self._attached = (*(block for _, kept in self._steered for block in kept), *self._attached)
            self._steered.clear()
            if self._own is not None:
                self._use(self._own)
                self._own = None
            self._session.sync()

    def answer(self, call_id: str, answer: Answer) -> None:
        rule = self._open_rules.pop(call_id, None)
        if rule is None or self._driver is None:
            return
        if answer.is_allowed and answer.scope == "always" and rule:
            self._policy = self._policy.with_allow(rule)
        self._driver.give(ApprovalAnswered(call_id, answer.is_allowed, answer.reason, answer.text))

    def steer(self, text: str, attached: tuple[Block, ...] = ()) -> None:
        if self._driver is not None:
            self._steered.append((text, self._attached))
            self._driver.give(SteerQueued(text, self._taken(text, attached)))

    def unsteer(self, text: str) -> bool:
        taken_back = self._driver.withdraw(text) if self._driver is not None else None
        if taken_back is not None:
            self._attached = (*self._forget_steered(text), *self._attached)
        return taken_back is not None

    def cancel(self) -> None:
        if self._driver is not None:
            self._driver.give(CancelRequested())
            self._preparation.cancel()

    def clear(self) -> None:
        self._session.close()
        self._session = self._wiring.new_session(self.model)
        self._messages = []
        self._counter = self._new_counter()
        self._turns = 0

    def set_model(self, name: str) -> None:
        connected = self._wiring.connect(name)
        if self._own is not None:
            self._retired.append(self._own.provider)
            self._own = connected
            return
        self._retired.append(self._connected.provider)
        self._use(connected)

    def trust_folder(self) -> None:
        """Let rules and modes hold from the next call on: the person trusts the folder."""
        self._policy = self._policy.with_trust()

    def set_mode(self, mode: ApprovalMode) -> None:
        self._policy = self._policy.with_mode(mode)

    async def close(self) -> None:
        """Release the session file and every connection; nothing may be submitted after this."""
        self.release()
        for provider in (*self._retired, self._connected.provider):
            await provider.close()

    def release(self) -> None:
        """Let go of all files, for a program that ends now and takes its connections with it; safe to call twice."""
        self._session.close()
        self._wiring.toolbox.close()
        if self._wiring.debug_log is not None:
            self._wiring.debug_log.close()

    # What the driver asks for

    async def judge(self, call: ToolCall, arguments: JsonObject, repeats: int) -> ApprovalAnswered | ApprovalRequested:
        toolbox = self._wiring.toolbox
        # What is judged and shown is what runs, also where files that it depends on change in between.
        name, arguments = self._spelled[call.call_id] = await toolbox.spelled_out(call.name, arguments)
        # A verdict may look at the disk, and ask bash and git.
        verdict = await asyncio.to_thread(self._policy.judge, name, arguments)
        if verdict.is_allowed:
            # A yes of the person is to the command as it is shown, without walls.
            self._levels[call.call_id] = verdict.confinement
        is_question = toolbox.asks_person(call.name)
        if verdict.verdict == "deny" or (verdict.verdict == "allow" and not repeats and not is_question):
            return ApprovalAnswered(call.call_id, verdict.verdict == "allow", verdict.reason)
        preview = await toolbox.preview(name, arguments)
        if preview.refusal and not repeats:
            return ApprovalAnswered(call.call_id, is_allowed=True)
        if is_question and not repeats:
            self._open_rules[call.call_id] = ""
            return ApprovalRequested(call, preview.question, preview.detail, kind="question", choices=preview.choices)
        if repeats:
            self._open_rules[call.call_id] = ""
            question = f"The same {call.name} call has brought the same result {repeats} times in a row. Run it again?"
            return ApprovalRequested(call, question, preview.detail or preview.refusal, kind="repeat")
        self._open_rules[call.call_id] = verdict.proposed_rule
        return ApprovalRequested(call, preview.question, preview.detail, verdict.proposed_rule)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        name, spelled = self._spelled.pop(call.call_id, (call.name, arguments))
        return await self._wiring.toolbox.run(name, spelled, output, self._levels.pop(call.call_id, None))

    def append(self, effect: Append) -> None:
        self._messages.append(effect.message)
        self._session.append(effect.message, effect.attempts, effect.mark)

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

    def _new_counter(self) -> PromptCounter:
        tokens = self._wiring.tokens
        return PromptCounter(tokens.count if tokens is not None else None)

    def _new_preparation(self) -> Preparation:
        return Preparation(self.model, self._connected.window, self._wiring.tokens)

    async def _prepare(self, turn: Turn, settings: TurnSettings, message: Message) -> tuple[str, ...]:
        """Find out what the first request of a turn has to fit into; return warnings for the person."""
        preparation = self._preparation
        warning = await preparation.ask()
        turn.model = model = self._known_model()
        cap = caps_for(settings.output, model.output_limit).first
        request = ModelRequest(model.name, settings.system, (*self._messages, message), settings.tools, cap)
        await preparation.count(request, model, self._counter)
        return (warning,) if warning else ()

    def _known_model(self) -> KnownModel:
        model = self._connected.model
        host = self._wiring.limits.knowledge(self._connected.provider.host, model.name)
        # What the server says now is worth more than what it once taught.
        return replace(model, host=replace(host, window=self._preparation.window or host.window))

    def _taken(self, text: str, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return what goes before `text`: what was kept for it, its images, and the files it names."""
        mentioned, complaints = self._wiring.mentioned(text)
        self._complaints += complaints
        kept, self._attached = self._attached, ()
        return (*kept, *attached, *mentioned)

    def _forget_steered(self, text: str) -> tuple[Block, ...]:
        """Steering with this text waits no longer; return what was kept for it."""
        for index in range(len(self._steered) - 1, -1, -1):
            if self._steered[index][0] == text:
                return self._steered.pop(index)[1]
        return ()

    def _borrow(self, name: str) -> Connected:
        """Return the model of one turn; raise `ValueError` with one line where there is none of that name."""
        if name in ("", self._connected.name):
            return self._connected
        if name not in self._borrowed:
            self._borrowed[name] = self._wiring.connect(name)
            self._retired.append(self._borrowed[name].provider)
        return self._borrowed[name]

    def _use(self, connected: Connected) -> None:
        """Go on with another model, and say so in the session; nothing happens where it is the one in use."""
        if connected is self._connected:
            return
        self._connected = connected
        self._counter = self._new_counter()
        self._preparation = self._new_preparation()
        self._session.switch_model(connected.name)

    def _turn_settings(self, options: TurnOptions) -> TurnSettings:
        wiring, connected = self._wiring, self._connected
        output = wiring.tuned(connected.name, options.output) if options.output else connected.output
        limits = wiring.prompt_limits
        return TurnSettings(
            connected.system(self.mode),
            wiring.toolbox.specs(connected.model.name),
            wiring.effort,
            output,
            connected.retries,
            limits.max_turns,
            limits.max_tool_calls,
            limits.max_budget_usd,
            wiring.check,
        )

    def _seen(self, event: TurnEvent) -> TurnEvent:
        self.metrics.observe(event, self.model, time.monotonic())
        log = self._wiring.debug_log
        if log is not None:
            log.event(event)
            if isinstance(event, TurnEnded):
                log.metrics(self.metrics.as_json())
        return event


def _refused(prompt: str, why: str) -> tuple[TurnEvent, ...]:
    """Return the events of a turn that cannot begin."""
    error = ErrorInfo(ErrorKind.UNKNOWN_MODEL, why)
    ended = TurnEnded(Outcome.ERROR, None, "", "", 0, Usage(), None, ApiCalls(), error=error, is_answered=False)
    return TurnStarted(prompt), ended
