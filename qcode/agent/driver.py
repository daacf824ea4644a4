"""The async loop of a turn: performs the effects that the engine returns, and feeds the results back.

`Driver` owns cancellation: every task that it starts ends before `run` does. `Services` judge calls and store messages.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    CancelRequested,
    Compact,
    Confirm,
    Confirmed,
    Effect,
    Emit,
    EndTurn,
    HookStopped,
    Input,
    ModelSwitched,
    NoModelLeft,
    RateLimitAnswered,
    RecordRequests,
    ReplyFailed,
    RunTool,
    SendRequest,
    SteerQueued,
    StopRequest,
    SwitchModel,
    ToolEnded,
    Wait,
    WaitElapsed,
)
from qcode.engine.model_facts import Learn
from qcode.engine.turn import Turn
from qcode.protocol.approvals import CallApproval
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import (
    ApprovalRequested,
    HookEnded,
    HookStarted,
    LimitReached,
    Notice,
    ToolOutput,
    TurnEvent,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Limit, ReplyEnded
from qcode.protocol.tools import ToolOutcome
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.protocol.provider import Provider

MAX_QUEUED_EVENTS = 512


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """The input for the turn after a switch of the model, and the provider that gets the next requests."""

    result: ModelSwitched | NoModelLeft
    provider: Provider | None = None
    """None if no model is left."""


class Services(Protocol):
    """The effects that a driver delegates to the conversation or to a sub-agent.

    The driver awaits the async methods in tasks. The other methods must not block.
    """

    async def judge(self, request: AskApproval) -> ApprovalAnswered | CallApproval:
        """Return the verdict of the rules, or the approval that the user must decide."""
        ...

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        """Run an approved call; cancelling the task stops what it runs."""
        ...

    def append(self, effect: Append) -> None:
        """Store a message of the turn."""
        ...

    def record_requests(self, effect: RecordRequests) -> None:
        """Store requests that belong to no message."""
        ...

    def store_compaction(self, effect: Compact) -> None:
        """Store the messages that replace the conversation after a compaction."""
        ...

    def learn(self, effect: Learn) -> None:
        """Store a limit or another fact about the host that a reply revealed."""
        ...

    async def switch_model(self, effect: SwitchModel) -> SwitchResult:
        """Connect the next fallback model."""
        ...

    def record_intent(self, call: ToolCall) -> None:
        """Write the records that must be on disk before a tool runs."""
        ...

    async def explain(self, error: ProviderError) -> ProviderError:
        """Return the error with help for the user, such as the nearest model names."""
        ...


def start_timer(seconds: float | None, cancel: Callable[[Limit], None]) -> Callable[[], object]:
    """Call `cancel` after `seconds` (None: never); return a function that stops the timer."""
    if seconds is None:
        return lambda: None
    return asyncio.get_running_loop().call_later(seconds, cancel, Limit.TIME).cancel


class _OpenRequest:
    """A request in flight."""

    def __init__(self) -> None:
        self.is_sent = False  # whether the provider was called, so the host may have received the request
        self.task: asyncio.Task[None] | None = None


class _RequestInput(NamedTuple):  # cheaper than a dataclass, and there is one for each delta
    """An input with the request that caused it. The input is dropped if that request was stopped meanwhile."""

    request: _OpenRequest
    incoming: Input


@dataclass(frozen=True, slots=True)
class _DirectEvent:
    """An event for the front end that bypasses the turn."""

    event: TurnEvent


def _random() -> float:
    import random  # loads with the first failure

    return random.random()  # noqa: S311  # spreads retries, not for security


class Driver:
    """The loop of one turn. `summary_provider` writes the summaries of a compaction, by default `provider`.

    `confirm` returns whether the turn may end or compact now; without it, the turn always may.
    `clock` and `wall_clock` return seconds, `random_fraction` random numbers in [0, 1) that spread retries.
    """

    def __init__(
        self,
        turn: Turn,
        provider: Provider,
        services: Services,
        *,
        summary_provider: Provider | None = None,
        confirm: Callable[[Confirm], Awaitable[Confirmed]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        random_fraction: Callable[[], float] | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._turn = turn
        self._provider = provider
        self._summary_provider = summary_provider or provider
        self._services = services
        self._confirm = confirm
        self._clock = clock
        self._random_fraction = random_fraction or _random
        self._wall_clock = wall_clock
        self._inputs: asyncio.Queue[Input | _DirectEvent | _RequestInput] = asyncio.Queue(MAX_QUEUED_EVENTS)
        self._urgent: deque[Input] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unqueued_events: list[TurnEvent] = []
        """The events of `show` that wait for space in the queue, or whose task was cancelled during that wait."""
        self._judging: dict[str, asyncio.Task[None]] = {}  # the running `_judge` tasks, in the order of the calls
        self._open_request: _OpenRequest | None = None
        self._limit_time = 0.0  # the time of the last `LimitReached`

    def put_input(
        self, incoming: CancelRequested | SteerQueued | ApprovalAnswered | RateLimitAnswered | AskApproval | HookStopped
    ) -> None:
        """Pass an input from outside to the turn, before all queued inputs. `AskApproval` is performed at once."""
        if isinstance(incoming, AskApproval):
            self._perform(incoming)
            return
        self._urgent.append(incoming)
        if not self._inputs.full():
            self._inputs.put_nowait(_WAKE)

    async def show(self, event: TurnEvent) -> None:
        """Queue an event from a tool, in order with the other events; wait while the reader is behind."""
        self._unqueued_events.append(event)
        await self._inputs.put(_DirectEvent(event))
        self._unqueued_events.remove(event)

    def take_notices(self) -> list[Notice | HookStarted | HookEnded]:
        """Remove and return the notices and hook events that were queued, or waited for it, when the turn ended."""
        queued = [self._inputs.get_nowait() for _ in range(self._inputs.qsize())]
        events = [item.event for item in queued if isinstance(item, _DirectEvent)]
        events += self._unqueued_events
        return [event for event in events if isinstance(event, (Notice, HookStarted, HookEnded))]

    def halt(self) -> None:
        """Cancel silently: commit the text that was shown, and emit no further events. Safe to call twice."""
        for effect in self._turn.handle(CancelRequested(is_unsent=self._is_unsent), self._clock()):
            if isinstance(effect, (Append, RecordRequests, Learn)):
                self._perform(effect)

    def withdraw_steering(self, text: str) -> SteerQueued | None:
        """Remove and return the last steering message with this text; None if the turn has already added it."""
        for index in range(len(self._urgent) - 1, -1, -1):
            incoming = self._urgent[index]
            if isinstance(incoming, SteerQueued) and incoming.text == text:
                del self._urgent[index]
                return incoming
        return self._turn.withdraw_steering(text)

    async def run(self, first: Input) -> AsyncGenerator[TurnEvent, None]:
        """Yield the events of the turn; closing the iterator early cancels the turn and keeps the text so far."""
        incoming: Input | _DirectEvent = first
        try:
            while True:
                if isinstance(incoming, _DirectEvent):
                    if incoming is not _WAKE:
                        yield incoming.event
                else:
                    for effect in self._turn.handle(incoming, self._clock()):
                        if isinstance(effect, Emit):
                            if isinstance(effect.event, LimitReached):
                                self._limit_time = self._wall_clock()
                            yield effect.event
                        elif isinstance(effect, EndTurn):
                            return
                        else:
                            self._perform(effect)
                incoming = await self._next_input()
        finally:
            self.halt()
            await self._stop_tasks()

    async def _next_input(self) -> Input | _DirectEvent:
        """Return the next input, urgent inputs first. A cancellation also cancels the tasks of the turn."""
        if self._urgent:
            incoming = self._urgent.popleft()
        else:
            queued = await self._next_queued()
            if not self._urgent:
                return queued
            # The urgent input arrived while this method waited. The queued event was removed from the queue, so it is
            # handled first, unless the urgent input is a cancellation, which drops the event.
            if queued is not _WAKE and not isinstance(self._urgent[0], CancelRequested):
                return queued
            incoming = self._urgent.popleft()
        if isinstance(incoming, CancelRequested):
            for task in self._tasks:
                task.cancel()
            return replace(incoming, is_unsent=self._is_unsent)
        if isinstance(incoming, RateLimitAnswered):
            return replace(incoming, seconds=max(0.0, self._wall_clock() - self._limit_time))
        return incoming

    async def _next_queued(self) -> Input | _DirectEvent:
        """Wait for the next input, and skip inputs of a request that was stopped."""
        while True:
            queued = await self._inputs.get()
            if not isinstance(queued, _RequestInput):
                return queued
            if queued.request is self._open_request:
                return queued.incoming

    def _perform(self, effect: Effect) -> None:
        match effect:
            case SendRequest():
                self._open_request = open_request = _OpenRequest()
                provider = self._summary_provider if effect.is_summary else self._provider
                open_request.task = self._start_task(self._receive(open_request, provider, effect.request))
            case StopRequest():
                stopped, self._open_request = self._open_request, None
                if stopped is not None and stopped.task is not None:
                    stopped.task.cancel()
            case RunTool():
                self._services.record_intent(effect.call)
                self._start_task(self._run_tool(effect))
            case AskApproval():
                call_id = effect.call.call_id
                earlier = tuple(self._judging.values())
                self._judging[call_id] = self._start_task(self._judge(effect, earlier))
                self._judging[call_id].add_done_callback(lambda _: self._judging.pop(call_id, None))
            case Confirm():
                self._start_task(self._confirm_step(effect))
            case SwitchModel():
                self._start_task(self._switch_model(effect))
            case Wait():
                self._start_task(self.pause(effect.seconds))
            case Append():
                self._services.append(effect)
            case RecordRequests():
                self._services.record_requests(effect)
            case Compact():
                self._services.store_compaction(effect)
            case Learn():
                self._services.learn(effect)
            case Emit() | EndTurn():
                raise AssertionError("performed by the loop itself")

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _receive(self, open_request: _OpenRequest, provider: Provider, request: ModelRequest) -> None:
        """Queue the events of a reply, each with its request: see `_next_queued`."""
        is_ended = False
        open_request.is_sent = True
        try:
            async for event in provider.stream(request):
                is_ended = isinstance(event, ReplyEnded)
                await self._inputs.put(_RequestInput(open_request, event))
            if not is_ended:
                raise ProviderError(ErrorKind.CONNECTION, f"{provider.name}: the reply ended without a stop reason")
        except ProviderError as error:
            explained = await self._services.explain(error)
            await self._inputs.put(_RequestInput(open_request, ReplyFailed(explained, self._random_fraction())))
        except Exception as error:  # noqa: BLE001 - a bug in a provider ends the turn, not the app
            internal = ProviderError(ErrorKind.INTERNAL, f"internal error: {type(error).__name__}: {error}")
            await self._inputs.put(_RequestInput(open_request, ReplyFailed(internal, self._random_fraction())))

    async def _run_tool(self, effect: RunTool) -> None:
        call_id = effect.call.call_id
        loop = asyncio.get_running_loop()

        def show(text: str) -> None:
            event = _DirectEvent(ToolOutput(call_id, text))
            loop.call_soon_threadsafe(self._put_unless_full, event)

        try:
            outcome = await self._services.run_tool(effect.call, effect.arguments, show)
        except Exception as error:  # noqa: BLE001 - a bug in a tool fails its call, not the turn
            outcome = ToolOutcome(f"Internal error in the tool: {type(error).__name__}: {error}", is_error=True)
        await asyncio.sleep(0)  # its last output is still queued, and must precede its result
        await self._inputs.put(ToolEnded(call_id, outcome))

    def _put_unless_full(self, event: _DirectEvent) -> None:
        """Queue live output, which is for display only; drop the output if the reader is too slow."""
        if not self._inputs.full():
            self._inputs.put_nowait(event)

    async def _judge(self, effect: AskApproval, earlier: Collection[asyncio.Task[None]]) -> None:
        """Judge a call. If it asks the user, it asks after the calls before it, whose tasks are `earlier`."""
        try:
            verdict = await self._services.judge(effect)
        except Exception as error:  # noqa: BLE001 - a call that cannot be judged must not run
            reason = f"the permission check failed ({type(error).__name__}: {error})"
            verdict = ApprovalAnswered(effect.call.call_id, is_allowed=False, reason=reason)
        if isinstance(verdict, ApprovalAnswered):
            await self._inputs.put(verdict)
            return
        if earlier:
            await asyncio.wait(earlier)
        await self._inputs.put(_DirectEvent(ApprovalRequested(verdict)))

    async def _confirm_step(self, effect: Confirm) -> None:
        try:
            confirmed = Confirmed() if self._confirm is None else await self._confirm(effect)
        except Exception as error:  # noqa: BLE001 - a bug in the hooks must not block the turn
            text = f"Internal error in the hooks: {type(error).__name__}: {error}"
            await self._inputs.put(_DirectEvent(Notice("error", text)))
            confirmed = Confirmed()
        await self._inputs.put(confirmed)

    async def _switch_model(self, effect: SwitchModel) -> None:
        switch = await self._services.switch_model(effect)
        if switch.provider is not None:
            self._provider = switch.provider
        await self._inputs.put(switch.result)

    async def pause(self, seconds: float) -> None:
        """Wait, then queue the elapsed wall-clock time: the clock of the event loop stops while the machine sleeps."""
        started_at = self._wall_clock()
        await asyncio.sleep(seconds)
        await self._inputs.put(WaitElapsed(max(seconds, self._wall_clock() - started_at)))

    @property
    def _is_unsent(self) -> bool:
        """Whether the last request has not been sent yet."""
        return self._open_request is not None and not self._open_request.is_sent

    async def _stop_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


_WAKE = _DirectEvent(ToolOutput("", ""))
"""Wakes the loop, which then handles the urgent inputs; it is never shown."""
