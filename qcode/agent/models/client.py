"""A connected model as a turn uses it: provider, facts, prompt, learned limits, debug log, counter.

`Connected` is the model as it was wired, `Reached` with what its host taught. `Models` are those beside the one in
use: borrowed for a turn, for summaries, retired. `Preparation` finds out the window of a local model and the size of
the prompt before the first request, and ends the instant the turn is cancelled. `facts_of` is the catalog with the
configuration on top. An "unknown model" error gets the nearest names that the host serves.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from qcode.agent.models.limits import LimitStore
from qcode.agent.permissions import Origins
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.agent.subagent_kinds import KINDS, Kind
from qcode.agent.toolbox import Toolbox
from qcode.config.settings import ModelSettings, Output
from qcode.engine.caps import OutputSettings, room_for_prompt
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import AnswerCheck
from qcode.engine.model_facts import KnownModel, Learn
from qcode.protocol.approvals import ApprovalMode, Spans
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import ApiCalls, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.messages import Block
from qcode.protocol.model import Effort, ModelFacts, ModelRequest, RetrySettings
from qcode.protocol.provider import Provider
from qcode.protocol.reply import Outcome
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.sdk import run_aside
from qcode.safety.policy import Policy
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.telemetry import DebugLog
    from qcode.providers.local import LocalWindow, WindowQuestion
    from qcode.providers.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class Connected:
    """A model that can be talked to, as the composition root made it. `system` is its prompt in a mode.

    `agent_system` is its prompt as a sub-agent with a certain role. `hosted` are tools that its host runs itself.
    `window` asks a local server how large a context it gives, where nothing else says that.
    """

    provider: Provider
    model: KnownModel
    system: Callable[[ApprovalMode], str]
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    window: WindowQuestion | None = None
    agent_system: Callable[[str], str] = lambda role: role
    hosted: tuple[ToolSpec, ...] = ()

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
    session file for a model's name; `mentioned` gives the files that a prompt names, and a line for each that is
    not attached; its second argument are the parts of the prompt that a file of the project wrote. `sessions` are
    those of this folder, None where none are kept. `summarizer` gives the model that writes summaries, None: the
    conversation's own; it may raise `ValueError` with one line. `instruction_chars` says how much of the system
    prompt comes from instruction files, `origins` where the rules of `policy` were written. `is_attended`: a person
    can answer, so a plan can be put to them. `approved` wraps the run of a call that a person approved for the
    files it is given. `tuned` gives the output settings of a model's name with the keys of one turn on top; answers
    pass `check`. `kinds` are those of the sub-agents that the toolbox offers.
    """

    connect: Callable[[str], Connected]
    new_session: Callable[[str], Session]
    toolbox: Toolbox
    policy: Policy
    limits: LimitStore
    prompt_limits: PromptLimits = field(default_factory=PromptLimits)
    effort: Effort | None = None
    debug_log: DebugLog | None = None
    mentioned: Callable[[str, Spans], tuple[tuple[Block, ...], tuple[str, ...]]] = lambda typed, foreign: ((), ())
    tokens: Callable[[], TokenCounter] | None = None
    sessions: SessionStore | None = None
    summarizer: Callable[[], Connected | None] = lambda: None
    instruction_chars: Callable[[], int] = lambda: 0
    check: AnswerCheck | None = None
    approved: Callable[[frozenset[str]], AbstractContextManager[None]] = lambda targets: nullcontext()
    kinds: tuple[Kind, ...] = KINDS
    tuned: Callable[[str, Mapping[str, object]], OutputSettings] = lambda name, given: OutputSettings()
    origins: Origins = field(default_factory=Origins)
    is_attended: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    wiring: Wiring
    connected: Connected

    def known(self, window: int | None = None) -> KnownModel:
        """Return all that is known of the model now; `window` is what its server says itself."""
        model = self.connected.model
        host = self.wiring.limits.knowledge(self.connected.provider.host, model.name)
        # What the server says now is worth more than what it once taught.
        return replace(model, host=replace(host, window=window or host.window))

    def tools(self, toolbox: Toolbox, policy: Policy) -> tuple[ToolSpec, ...]:
        """Return every tool the model is offered, those that its host runs itself last."""
        hosted = self.connected.hosted if policy.lets_host_search else ()
        return (*toolbox.specs(self.connected.model.name), *hosted)

    def learn(self, effect: Learn) -> None:
        host, model = self.connected.provider.host, self.connected.model.name
        knowledge = self.wiring.limits.knowledge(host, model).with_fact(effect)
        self.wiring.limits.remember(host, model, knowledge)

    async def explain(self, error: ProviderError) -> ProviderError:
        """Return the error with what helps a person."""
        if error.kind is not ErrorKind.UNKNOWN_MODEL:
            return error
        return await with_nearest_models(error, self.connected.provider, self.connected.model.name)

    @property
    def provider(self) -> Provider:
        """The provider, with what is asked of it in the debug log."""
        log, provider = self.wiring.debug_log, self.connected.provider
        if log is None:
            return provider
        from qcode.agent.telemetry import LoggedProvider

        return LoggedProvider(provider, log)

    def counter(self) -> PromptCounter:
        tokens = self.wiring.tokens
        return PromptCounter(None if tokens is None else lambda text: tokens().count(text))


ASK_TIMEOUT_S = 10.0
"""The provider's SDK may have to load first, which takes seconds on a busy machine."""
MAX_NAMES = 3


async def with_nearest_models(error: ProviderError, provider: Provider, model: str) -> ProviderError:
    """Return `error` with the nearest model names in its message; the error itself where the host names none."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            names = await provider.model_names()
    except (ProviderError, TimeoutError):
        return error
    nearest = difflib.get_close_matches(model, names, n=MAX_NAMES, cutoff=0.3) or list(names[:MAX_NAMES])
    if not nearest:
        return error
    found = ", ".join(f"{provider.name}/{name}" for name in nearest)
    return ProviderError(
        error.kind,
        f"{error.message.rstrip('. ')}; nearest: {found}",
        status=error.status,
        request_id=error.request_id,
        code=error.code,
        param=error.param,
    )


class Models:
    """Owns every connection but that of the model in use."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._retired: list[Provider] = []
        self._borrowed: dict[str, Connected] = {}
        self._summarizer: Connected | None = None

    def retire(self, provider: Provider) -> None:
        """Keep a connection that is not used any more, to be closed with the others."""
        self._retired.append(provider)

    def borrow(self, name: str, current: Connected) -> Connected:
        """Return the model of one turn; raise `ValueError` with one line where there is none of that name."""
        if name in ("", current.name):
            return current
        if name not in self._borrowed:
            self._borrowed[name] = self._wiring.connect(name)
        return self._borrowed[name]

    def writer(self) -> tuple[Connected | None, tuple[str, ...]]:
        """Return the model for summaries where it is another one, and a complaint where it cannot be had."""
        if self._summarizer is None:
            try:
                self._summarizer = self._wiring.summarizer()
            except ValueError as error:
                return None, (f"small_model: {error}",)
        return self._summarizer, ()

    def small(self) -> Connected | None:
        """Return the model for small tasks, None where none is set or it cannot be had."""
        small, _ = self.writer()
        return None if small is None else replace(small, provider=Reached(self._wiring, small).provider)

    async def close(self) -> None:
        others = (*self._borrowed.values(), *((self._summarizer,) if self._summarizer is not None else ()))
        for provider in (*self._retired, *(one.provider for one in others)):
            await provider.close()


def refused_turn(prompt: str, why: str) -> tuple[TurnEvent, ...]:
    """Return the events of a turn that cannot begin, because its model cannot be had."""
    error = ErrorInfo(ErrorKind.UNKNOWN_MODEL, why)
    ended = TurnEnded(Outcome.ERROR, None, "", "", 0, Usage(), None, ApiCalls(), error=error, is_answered=False)
    return TurnStarted(prompt), ended


class Preparation:
    """For one model. `window` is what its server said so far, None where it did not."""

    def __init__(self, name: str, question: WindowQuestion | None, tokens: Callable[[], TokenCounter] | None) -> None:
        self.window: int | None = None
        self._name = name
        self._question = question
        self._tokens = tokens
        self._asking: asyncio.Task[LocalWindow | None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """End what is under way: the turn goes on with what is known."""
        for task in (self._asking, self._settling, self._counting):
            if task is not None:
                task.cancel()

    async def ask(self) -> str:
        """Ask for the window where it is not known yet; return a warning where it is small, else an empty text."""
        if self.window is not None or self._question is None or self._question.is_settled:
            return ""
        self._asking = asyncio.ensure_future(self._question.ask())
        await _over(self._asking)
        found = None if self._asking.cancelled() else self._asking.result()
        if found is None:
            return ""
        self.window = found.tokens
        if not found.is_small:
            return ""
        return (
            f"{self._name} runs with a context window of {found.tokens:,} tokens, which is little for work on code: "
            f"{found.advice}"
        )

    async def settle(self, work: Coroutine[None, None, None]) -> None:
        """Wait for what else a turn needs; a cancelled turn goes on without it."""
        self._settling = asyncio.ensure_future(work)
        await _over(self._settling)
        if not self._settling.cancelled():
            self._settling.result()

    async def count(self, request: ModelRequest, model: KnownModel, counter: PromptCounter) -> None:
        """Have the prompt counted beside the loop where its bytes leave open whether it fits."""
        tokens = self._tokens
        if tokens is None or counter.bound_of(request) <= room_for_prompt(request.max_tokens, model.window):
            return

        async def counted() -> None:
            await run_aside(lambda: tokens().load() and counter.size_of(request, enough=0))

        self._counting = asyncio.ensure_future(counted())
        await _over(self._counting)


async def _over(task: asyncio.Task[LocalWindow | None] | asyncio.Task[None]) -> None:
    """Wait until `task` is over, in whatever way; it does not outlive the wait."""
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()


def output_settings(output: Output, override: int | None) -> OutputSettings:
    """Return the settings of the configuration in the words of the engine."""
    return OutputSettings(
        override=override,
        can_escalate=output.escalate,
        max_continuations=output.max_continuations,
        policy=output.policy,
        tool_call_repair=output.tool_call_repair,
        max_tool_repair_attempts=output.max_tool_repair_attempts,
        max_total_completion_tokens=output.max_total_completion_tokens,
        max_total_output_chars=output.max_total_output_chars,
        min_escalation_gain=output.min_escalation_gain,
    )


def facts_of(provider: str, model: str, given: ModelSettings | None) -> ModelFacts:
    """Return what is known of a model: the catalog's facts with the configuration's on top."""
    if provider == "demo":
        from qcode.providers.demo.provider import DEMO_FACTS

        facts = DEMO_FACTS
    else:
        from qcode.providers import catalog

        facts = catalog.lookup(provider, model) or ModelFacts()
    if given is None:
        return facts
    return ModelFacts(
        context_window=given.context_window or facts.context_window,
        max_output_tokens=given.max_output_tokens or facts.max_output_tokens,
        price=given.price or facts.price,
        prefill=_or(given.prefill, facts.prefill),
        images=facts.images if given.images is None else given.images,
        thinking=_or(given.thinking, facts.thinking),
        inline_thinking=_or(given.inline_thinking, facts.inline_thinking),
        text_tool_calls=_or(given.text_tool_calls, facts.text_tool_calls),
        web_search=facts.web_search if given.web_search is None else given.web_search,
    )


def _or(given: bool | None, known: bool) -> bool:
    return known if given is None else given
