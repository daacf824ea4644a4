"""One sub-agent at work: a turn and a driver of its own, over the same tools, with the rights of the moment.

What it asks the person goes out as a question of the conversation; what it does goes out as `AgentEvent`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from qcode.engine.effects import Append, ApprovalAnswered, Compact, Learn, UserSubmitted
from qcode.engine.room import CompactionSettings
from qcode.engine.turn import Turn
from qcode.engine.turn_settings import TurnSettings
from qcode.protocol.conversation import Answer
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    ReplyFinished,
    ResultsCommitted,
    ToolCallProgress,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    UsageUpdated,
    inner_id,
)
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Message, ToolCall, ToolResult, user
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.values import dataclass
from qcode.runtime.agents.kinds import MOST_STEPS, Kind
from qcode.runtime.checkpoints.keeper import Checkpoints
from qcode.runtime.driver import Driver
from qcode.runtime.judged import JudgedCalls
from qcode.runtime.permissions import Permissions
from qcode.runtime.reached import Reached
from qcode.runtime.store.session import Session
from qcode.runtime.toolbox import Toolbox
from qcode.safety.policy import Policy
from qcode.tools.agent import Task

_UNSHOWN = (TextDelta, ReasoningDelta, ToolCallProgress, ToolOutput)


@dataclass(frozen=True, slots=True)
class Parent:
    """The turn that starts sub-agents, and what they share with it. `permissions` gives the rights of the moment."""

    turn: Turn
    driver: Driver
    reached: Reached
    toolbox: Toolbox
    session: Session
    checkpoints: Checkpoints
    permissions: Permissions


class AgentRun:
    """The `Services` of its own driver. `reached` is the model it works with, `window` how much its server gives."""

    def __init__(
        self, parent: Parent, call: ToolCall, task: Task, kind: Kind, reached: Reached, settings: TurnSettings
    ) -> None:
        self._parent = parent
        self._call_id = call.call_id
        self._task = task
        self._kind = kind
        self._reached = reached
        self._toolbox = parent.toolbox.beside(lambda path, access: self._policy.judge_file(path, access))
        self._calls = JudgedCalls(
            self._toolbox, parent.checkpoints.watched, reached.wiring.approved, parent.permissions
        )
        self._open: dict[str, str] = {}
        specs = kind.offered(reached.tools(self._toolbox, self._policy))
        settings = replace(
            settings,
            system=reached.connected.agent_system(kind.role),
            tools=specs,
            output=reached.connected.output,
            retries=reached.connected.retries,
            max_turns=MOST_STEPS,
            compaction=CompactionSettings(None),
            check=None,
        )
        is_same = reached.connected is parent.reached.connected
        model = parent.turn.model if is_same else reached.known()
        tally = parent.turn.tally.inside(settings, model.facts.price, call.call_id)
        self._turn = Turn(settings, model, (), reached.counter(), tally=tally)
        self._driver = Driver(self._turn, reached.provider, self)

    @property
    def _policy(self) -> Policy:
        return self._kind.limited(self._parent.permissions.policy)

    async def whole(self) -> TurnEnded:
        """Work through the task; return how that ended. Cancelling ends it at once, with what it did on disk."""
        ended: TurnEnded | None = None
        async with aclosing(self._driver.run(UserSubmitted(user(self._task.prompt)))) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
                await self._tell(event)
        assert ended is not None  # the last event of a driver that was not cancelled
        return ended

    def halt(self) -> None:
        """Let nothing more be asked for; what the request under way has used is counted."""
        self._driver.halt()

    def answer(self, call_id: str, answer: Answer) -> bool:
        """Pass on an answer to a question of this one; return whether it was its."""
        inner = self._open.pop(call_id, None)
        settled = None if inner is None else self._calls.answered(inner, answer)
        if settled is not None:
            self._driver.give(settled)
        return settled is not None

    async def _tell(self, event: TurnEvent) -> None:
        show = self._parent.driver.show
        if isinstance(event, ApprovalRequested):
            named = self._named(event.call)
            self._open[named.call_id] = event.call.call_id
            await show(replace(event, call=named, agent=self._task.description))
        elif not isinstance(event, _UNSHOWN):
            await show(AgentEvent(self._call_id, self._renamed(event)))
        if isinstance(event, UsageUpdated):
            await show(self._parent.turn.usage)

    def _renamed(self, event: TurnEvent) -> TurnEvent:
        match event:
            case ToolStarted() | ToolFinished():
                return replace(event, call=self._named(event.call))
            case ReplyFinished(message=Message() as message) | ResultsCommitted(message=message):
                return replace(event, message=self._with_names(message))
            case _:
                return event

    def _with_names(self, message: Message) -> Message:
        blocks = tuple(
            replace(block, call_id=inner_id(self._call_id, block.call_id))
            if isinstance(block, (ToolCall, ToolResult))
            else block
            for block in message.blocks
        )
        return replace(message, blocks=blocks)

    def _named(self, call: ToolCall) -> ToolCall:
        return replace(call, call_id=inner_id(self._call_id, call.call_id))

    # What the driver asks for

    async def judge(self, call: ToolCall, arguments: JsonObject, repeats: int) -> ApprovalAnswered | ApprovalRequested:
        return await self._calls.judge(self._policy, call, arguments, repeats)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        judged = self._calls.take(call, arguments)
        return await self._calls.run(self._policy, judged, output, self._reached.connected.model.name)

    def append(self, effect: Append) -> None:
        self._parent.session.append_inner(self._call_id, effect.message, effect.attempts)

    def take_compaction(self, effect: Compact) -> None:
        """What it goes on with is held by its turn; its file has all of it."""

    def learn(self, effect: Learn) -> None:
        self._reached.learn(effect)

    def about_to_run(self, call: ToolCall) -> None:
        self._parent.session.intend_inner(self._call_id, call)
        self._parent.session.sync()

    async def explain(self, error: ProviderError) -> ProviderError:
        return await self._reached.explain(error)
