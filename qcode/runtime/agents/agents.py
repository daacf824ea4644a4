"""The sub-agents of one turn: which there can be, how many work at once, and whose question an answer is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from qcode.engine.turn_settings import TurnSettings
from qcode.protocol.conversation import Answer
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolOutcome
from qcode.runtime.agents.kinds import Kind
from qcode.runtime.agents.outcome import outcome_of
from qcode.runtime.agents.run import AgentRun, Parent
from qcode.runtime.reached import Reached
from qcode.runtime.surroundings import Connected
from qcode.tools.agent import SMALL, Agent
from qcode.tools.refusal import Refused
from qcode.tools.tool import failed

MOST_AT_ONCE = 4


class Agents:
    """`small` gives the model for plain work, None where there is no other; it may raise `ValueError`."""

    def __init__(
        self, tool: Agent, kinds: tuple[Kind, ...], parent: Parent, small: Callable[[], Connected | None]
    ) -> None:
        self._tool = tool
        self._kinds = {kind.name: kind for kind in kinds}
        self._parent = parent
        self._small = small
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._running: list[AgentRun] = []

    async def run(self, call: ToolCall, arguments: JsonObject) -> ToolOutcome:
        """Have a sub-agent do what a call asks for, once there is room for it; its answer is the result."""
        try:
            task = self._tool.task(arguments)
            kind = self._kinds[task.kind]
            reached = self._reached(task.model or kind.model)
        except (Refused, ValueError) as error:
            return failed(str(error))
        parent = self._parent
        async with self._room:
            run = AgentRun(parent, call, task, kind, reached, self._settings(reached))
            self._running.append(run)
            try:
                ended = await run.whole()
            finally:
                self._running.remove(run)
        return outcome_of(ended, most=parent.toolbox.max_output_chars, folder=lambda: parent.toolbox.workspace.scratch)

    def answer(self, call_id: str, answer: Answer) -> bool:
        """Pass on an answer; return whether somebody here had asked."""
        return any(run.answer(call_id, answer) for run in self._running)

    def halt(self) -> None:
        """The turn is being cancelled: all end, and what they have used is counted before it does."""
        for run in self._running:
            run.halt()

    def _reached(self, model: str) -> Reached:
        """Return the model of a sub-agent: one of those the person chose."""
        parent = self._parent.reached
        small = self._small() if model == SMALL else None
        if small is None:
            return parent
        if self._parent.turn.settings.max_budget_usd is not None and small.model.facts.price is None:
            raise ValueError(f"agent: the price of {small.name} is not known, so no budget can be held; use model same")
        return Reached(parent.wiring, small)

    def _settings(self, reached: Reached) -> TurnSettings:
        settings = self._parent.turn.settings
        is_same = reached.connected is self._parent.reached.connected
        return TurnSettings("", (), settings.effort if is_same else None, max_budget_usd=settings.max_budget_usd)
