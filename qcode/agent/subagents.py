"""Sub-agents: turns inside a turn, each with a separate transcript and at most the rights of the conversation.

`Subagents` runs the sub-agents of one turn, a few at a time, and routes decisions to them. `SubagentRun` is one
sub-agent, with the same engine, driver and tools as the conversation. The user answers its approvals in the
conversation, and its events are forwarded as `AgentEvent`. The result of a sub-agent is its last reply, shortened if
long, or the reason why there is no reply.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.approvals import PendingCalls
from qcode.agent.checkpoints.checkpoints import Checkpoints
from qcode.agent.driver import Driver, SwitchResult
from qcode.agent.models.client import Clients, ModelClient
from qcode.agent.outcomes import subagent_incomplete_reason
from qcode.agent.permissions import Permissions
from qcode.agent.sessions.session import Session
from qcode.agent.subagent_kinds import SubagentKind
from qcode.agent.toolbox import Toolbox
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    AskApproval,
    Compact,
    CompactionSettings,
    Confirm,
    Confirmed,
    HookStopped,
    NoModelLeft,
    RecordRequests,
    SwitchModel,
    TurnSettings,
    UserSubmitted,
)
from qcode.engine.model_facts import Learn
from qcode.engine.turn import Turn
from qcode.protocol.approvals import CallApproval, Decision, ImpossibleCall, RepeatedCall, ToolApproval
from qcode.protocol.errors import ProviderError
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    Notice,
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
from qcode.protocol.messages import Message, ToolCall, ToolResult, user
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.protocol.tools import SKILL_TOOL, SMALL_MODEL, Refused, ToolOutcome
from qcode.safety.policy import Policy
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.tools.output import OutputCollector
from qcode.tools.subagent import SubagentTool, Task
from qcode.tools.tool import failed
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.hooks.session import HookScope, SessionHooks

MAX_CONCURRENT = 4


class Subagents:
    """The sub-agents of one turn. `clients` connects the small model, if one is configured."""

    def __init__(
        self, tool: SubagentTool, kinds: tuple[SubagentKind, ...], parent: ParentTurn, clients: Clients
    ) -> None:
        self._tool = tool
        self._kinds = {kind.name: kind for kind in kinds}
        self._parent = parent
        self._clients = clients
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._running_agents: list[SubagentRun] = []

    async def run(self, call: ToolCall, arguments: JsonObject) -> ToolOutcome:
        """Run a sub-agent for a call, once a slot is free; its answer is the result."""
        try:
            task = self._tool.task(arguments)
            kind = self._kinds[task.kind]
            client = self._client(task.model or kind.model)
        except (Refused, ValueError) as error:
            return failed(str(error))
        parent = self._parent
        async with self._slots:
            run = SubagentRun(parent, call, task, kind, client, self._settings(client, kind))
            self._running_agents.append(run)
            try:
                ended = await run.run_task()
            finally:
                self._running_agents.remove(run)
        limit = parent.toolbox.max_output_chars
        outcome = outcome_of(ended, max_chars=limit, folder=lambda: parent.toolbox.workspace.scratch)
        return replace(outcome, files_without_diff=run.changed_files)

    def answer(self, approval_id: str, decision: Decision) -> bool:
        """Pass a decision to the sub-agent that asked; return False if no sub-agent asked."""
        return any(run.answer(approval_id, decision) for run in self._running_agents)

    def halt(self) -> None:
        """End all sub-agents, because the turn is cancelled; count their usage before the turn ends."""
        for run in self._running_agents:
            run.halt()

    def settle_by_mode(self) -> None:
        """Settle open approvals of sub-agents by the current mode (plan mode denies changes)."""
        for run in self._running_agents:
            run.settle_by_mode()

    def _client(self, model: str) -> ModelClient:
        """Return the model of a sub-agent: the small model, or the model of the conversation."""
        small = self._clients.small() if model == SMALL_MODEL else None
        if small is None:
            return self._parent.client
        if self._parent.turn.settings.max_budget_usd is not None and small.price is None:
            raise ValueError(
                f"agent: the price of {small.name} is unknown, so the budget cannot be enforced; use model same"
            )
        return small

    def _settings(self, client: ModelClient, kind: SubagentKind) -> TurnSettings:
        """Return the settings of a sub-agent's turn; `SubagentRun` adds the system prompt and the tools."""
        settings = self._parent.turn.settings
        effort = settings.effort if client is self._parent.client else None
        output = self._clients.output_settings_of(client, kind.output)
        return TurnSettings(system="", tools=(), effort=effort, output=output, max_budget_usd=settings.max_budget_usd)


_HIDDEN_EVENTS = (TextDelta, ReasoningDelta, ToolCallProgress, ToolOutput)
"""Events of a sub-agent that are not forwarded."""


@dataclass(frozen=True, slots=True)
class ParentTurn:
    """The turn that starts sub-agents, and the objects that they share with it."""

    turn: Turn
    driver: Driver
    client: ModelClient
    toolbox: Toolbox
    session: Session
    checkpoints: Checkpoints
    permissions: Permissions
    """Holds the current policy."""
    accept_changes: Callable[[frozenset[str]], AbstractContextManager[None]]
    """Returns the context manager for the run of a call; the argument are the files that the user approved."""
    hooks: SessionHooks | None = None


class SubagentRun:
    """One sub-agent. `client` is its model. The methods from `judge` on implement `Services` for its driver."""

    def __init__(
        self,
        parent: ParentTurn,
        call: ToolCall,
        task: Task,
        kind: SubagentKind,
        client: ModelClient,
        settings: TurnSettings,
    ) -> None:
        self._parent = parent
        self._call_id = call.call_id
        self._changed_files: dict[str, None] = {}
        self._task = task
        self._kind = kind
        self._client = client
        self._toolbox = parent.toolbox.for_subagent(lambda path, access: self._policy.judge_file(path, access))
        self._calls = PendingCalls(
            self._toolbox, parent.checkpoints.watch_changes, parent.accept_changes, parent.permissions
        )
        self._open_approvals: dict[str, str] = {}
        """The open approvals: the id of each call in this sub-agent, by the id that the conversation shows."""
        self._hooks: HookScope | None = None
        specs = kind.select_tools(client.tools(self._toolbox, self._policy))
        settings = replace(
            settings,
            system=client.prompts.subagent_system(
                client.name, kind.prompt, has_skills=any(spec.name == SKILL_TOOL for spec in specs)
            ),
            tools=specs,
            retries=client.retries.unattended,
            max_turns=kind.max_turns,
            compaction=CompactionSettings(writer=None),  # the model of the sub-agent writes its summaries
            fallback=None,
            check=None,
        )
        model = parent.turn.model if client is parent.client else client.known_model()
        tally = parent.turn.tally.for_subagent(settings, model.facts.price, call.call_id)
        self._turn = Turn(settings, model, (), client.counter(), tally=tally)
        self._toolbox.transcript = lambda: self._turn.messages
        confirm = None if parent.hooks is None else self._use_hooks(parent.hooks)
        self._driver = Driver(self._turn, client.observed_provider, self, confirm=confirm)

    def _use_hooks(self, hooks: SessionHooks) -> Callable[[Confirm], Awaitable[Confirmed]] | None:
        """Run the hooks in this sub-agent. Return the function that asks them whether it may end, if there are any."""
        from qcode.agent.hooks.calls import CallHooks

        self._hooks = scope = hooks.scope.for_subagent(self._call_id, self._kind.name)
        self._calls.hooks = CallHooks(
            scope, self._toolbox, self._toolbox.workspace.root, self._stop_by_hook, lambda: self._policy
        )
        if not scope.has("SubagentStop"):
            return None
        # The turn asks this function before it ends, which is the step "stop".
        self._turn.settings = replace(self._turn.settings, steps_to_confirm=frozenset({"stop"}))
        return scope.confirm_subagent_stop

    def _stop_by_hook(self, stopped: HookStopped) -> None:
        """End the turn of this sub-agent, and the turn that waits for it."""
        self._driver.put_input(stopped)
        self._parent.driver.put_input(stopped)

    @property
    def _policy(self) -> Policy:
        return self._kind.limit_policy(self._parent.permissions.policy)

    @property
    def changed_files(self) -> tuple[str, ...]:
        """The files that its calls have changed, named as in diffs, in the order of their first change."""
        return tuple(self._changed_files)

    async def run_task(self) -> TurnEnded:
        """Run the task and return its last event. Cancelling ends it at once; the messages so far are stored."""
        ended: TurnEnded | None = None
        context = [] if self._hooks is None else await self._hooks.run_subagent_start()
        skills = await self._toolbox.preload_skills(self._kind.skills)
        for problem in skills.problems:
            await self._parent.driver.show(Notice("warning", f"sub-agent {self._kind.name}: {problem}"))
        task = Message("user", (*skills.texts, *context, *user(self._task.prompt).blocks))
        async with aclosing(self._driver.run(UserSubmitted(task))) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
                if isinstance(event, ReplyFinished):
                    self._client.record_reply_length(event, self._turn.settings.output)
                await self._forward(event)
        assert ended is not None  # the last event of a driver that was not cancelled
        return ended

    def halt(self) -> None:
        """Send no further request; the usage of the running request is counted."""
        self._driver.halt()

    def answer(self, approval_id: str, decision: Decision) -> bool:
        """Settle an approval of this sub-agent; return False if it has no open approval with this id."""
        call_id = self._open_approvals.pop(approval_id, None)
        if call_id is None:
            return False
        settled = self._calls.settle_answer(call_id, decision)
        if settled is None:
            return False
        self._driver.put_input(settled)
        return True

    def settle_by_mode(self) -> None:
        """Settle open approvals of this sub-agent by the current mode (plan mode denies changes)."""
        self._calls.settle_by_mode(self._policy, self._driver.put_input)

    async def _forward(self, event: TurnEvent) -> None:
        show = self._parent.driver.show
        if isinstance(event, ApprovalRequested):
            approval = event.approval
            # Other approvals come from tools that ask the user, which sub-agents do not have.
            assert isinstance(approval, (ToolApproval, RepeatedCall, ImpossibleCall))
            renamed_call = self._with_inner_id(approval.call)
            self._open_approvals[renamed_call.call_id] = approval.id
            await show(ApprovalRequested(replace(approval, call=renamed_call, agent=self._task.description)))
        elif not isinstance(event, _HIDDEN_EVENTS):
            await show(AgentEvent(self._call_id, self._with_inner_ids(event)))
        if isinstance(event, UsageUpdated):
            await show(self._parent.turn.usage_event)
        for warning in self._calls.take_warnings():
            await show(Notice("warning", warning))

    def _with_inner_ids(self, event: TurnEvent) -> TurnEvent:
        match event:
            case ToolStarted() | ToolFinished():
                return replace(event, call=self._with_inner_id(event.call))
            case ReplyFinished(message=Message() as message) | ResultsCommitted(message=message):
                return replace(event, message=self._message_with_inner_ids(message))
            case _:
                return event

    def _message_with_inner_ids(self, message: Message) -> Message:
        blocks = tuple(
            replace(block, call_id=inner_id(self._call_id, block.call_id))
            if isinstance(block, (ToolCall, ToolResult))
            else block
            for block in message.blocks
        )
        return replace(message, blocks=blocks)

    def _with_inner_id(self, call: ToolCall) -> ToolCall:
        return replace(call, call_id=inner_id(self._call_id, call.call_id))

    async def judge(self, request: AskApproval) -> ApprovalAnswered | CallApproval:
        return await self._calls.judge(self._policy, request)

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        resolved = self._calls.pop(call, arguments)
        started_at = time.monotonic()
        outcome = await self._calls.run(self._policy, resolved, output, self._client.model.name)
        if outcome.diff:
            from qcode.text.diff import file_diffs  # loads with the first change

            self._changed_files.update((file.path, None) for file in file_diffs([outcome.diff]))
        self._changed_files.update(dict.fromkeys(outcome.files_without_diff))
        return await self._calls.with_hook_text(call, resolved, outcome, time.monotonic() - started_at)

    def append(self, effect: Append) -> None:
        self._parent.session.append_inner(self._call_id, effect.message, effect.attempts)
        if self._hooks is not None:
            self._hooks.record(effect.message)

    def record_requests(self, effect: RecordRequests) -> None:
        self._parent.session.record_requests(effect.attempts)

    def store_compaction(self, effect: Compact) -> None:
        """Store nothing: the turn holds the compacted messages, and the file has all messages."""
        self._toolbox.forget_instructions()

    def learn(self, effect: Learn) -> None:
        self._client.learn(effect)

    async def switch_model(self, effect: SwitchModel) -> SwitchResult:
        """Keep the model: only the conversation uses fallback models."""
        return SwitchResult(NoModelLeft())

    def record_intent(self, call: ToolCall) -> None:
        self._parent.session.record_inner_intent(self._call_id, call)
        self._parent.session.sync()

    async def explain(self, error: ProviderError) -> ProviderError:
        return await self._client.explain(error)


def outcome_of(ended: TurnEnded, *, max_chars: int, folder: Callable[[], Path]) -> ToolOutcome:
    """Return the result of the call that started a sub-agent.

    An answer longer than `max_chars` is shortened in the middle, and stored in full in a file. Only then is `folder`
    called, which returns the folder of this file.
    """
    reason = subagent_incomplete_reason(ended)
    summary = f"{summary_of(ended)}: {reason}" if reason else summary_of(ended)
    if not ended.text.strip():
        return failed(f"The sub-agent gave no answer: {reason or 'its last reply had no text.'}", summary)
    collector = OutputCollector(max_chars, folder)
    collector.add(ended.text.encode("utf-8", "replace"))
    text = collector.close()
    if not reason:
        return ToolOutcome(text, summary=summary)
    return ToolOutcome(f"[Not a finished answer: {reason}]\n\n{text}", is_error=True, summary=summary)


def summary_of(ended: TurnEnded) -> str:
    """Return the number of steps and tokens of a turn, in a few words."""
    steps = count_text(ended.replies, "step")
    tokens = (ended.usage.input or 0) + (ended.usage.output or 0)
    return f"{steps}, {tokens:,} tokens" if tokens else steps
