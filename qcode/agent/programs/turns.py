"""The turns of an agent for a Python program, each a stream of events.

`results` has the result of a turn and its errors. The callback of the agent decides the approvals of a turn; without a
callback they are decided as in pipe mode.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, get_args

from qcode.agent.options import check_limits
from qcode.agent.outcomes import AnswerSoFar, decision_without_user, incomplete_reason, stops_turn, subtype
from qcode.agent.programs.answer_schema import AnswerType
from qcode.agent.programs.faults import describe_fault, is_fault
from qcode.agent.programs.results import Result
from qcode.protocol.approvals import (
    LIMIT_ID,
    AcceptPlan,
    Allow,
    Answer,
    Approval,
    ApprovalMode,
    CallApproval,
    Decision,
    Deny,
    Revise,
    TurnOptions,
)
from qcode.protocol.errors import UsageError
from qcode.protocol.events import (
    AgentEvent,
    ApiCalls,
    ApprovalRequested,
    LimitReached,
    Notice,
    ReplyFinished,
    ToolFinished,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.messages import Block, Image, Text
from qcode.protocol.reply import Outcome
from qcode.protocol.usage import Usage
from qcode.text.clean import one_line
from qcode.text.diff import file_diffs
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qcode.agent.conversation import Conversation
    from qcode.agent.toolbox import Toolbox

ValueT = TypeVar("ValueT")
_BUSY = (
    "a turn of this agent is running: an agent runs one turn at a time, "
    "and a turn that was left without `async with` runs until the agent is closed"
)


@dataclass(frozen=True, slots=True)
class File:
    """A text or image file to attach to a prompt. A relative path is relative to the folder of the agent."""

    path: str | Path


Prompt: TypeAlias = str | Sequence[Text | Image | File]


class TurnFields(TypedDict, total=False):
    """Options of one turn, which override the options of the agent."""

    permission_mode: ApprovalMode
    model: str
    max_turns: int
    max_tool_calls: int
    max_budget_usd: Decimal | float
    max_output_tokens: int


class AgentTurns:
    """The turns of one agent, one at a time.

    `approve` decides approvals; without it they are decided as in pipe mode (`decision_without_user`).
    """

    def __init__(
        self,
        conversation: Conversation,
        toolbox: Toolbox,
        folder: Path,
        approve: Callable[[Approval], Awaitable[Decision]] | None,
    ) -> None:
        self.conversation = conversation
        self.toolbox = toolbox
        self.folder = folder
        self.approve = approve
        self.running: TurnStream | None = None
        self.is_closed = False

    def stream(self, prompt: Prompt, output: object, fields: TurnFields, *, append_only: bool) -> TurnStream:
        """Return a turn that starts when its first event is read."""
        return TurnStream(self, prompt, None if output is None else AnswerType(output), fields, append_only=append_only)

    def cancel(self) -> None:
        """Cancel the running turn; the text so far is kept."""
        if self.running is None:
            self.conversation.cancel()
        else:
            self.running.cancel()

    async def close(self) -> None:
        """End the running turn; no other turn can start after this."""
        self.is_closed = True
        if self.running is not None:
            await self.running.aclose()


class TurnStream:
    """A turn as an async iterator of its events. An `async with` block cancels the turn if it is left early.

    `result` is available after the turn has ended.
    """

    def __init__(
        self,
        turns: AgentTurns,
        prompt: Prompt,
        answer_type: AnswerType | None,
        fields: TurnFields,
        *,
        append_only: bool,
    ) -> None:
        self._turns = turns
        self._conversation = turns.conversation
        self._prompt = prompt
        self._answer_type = answer_type
        self._fields = fields
        self._append_only = append_only
        self._is_cancelled = False
        self._has_begun = False
        self._answer = AnswerSoFar()
        self._diffs: list[str] = []
        self._latest_usage = UsageUpdated(Usage(), None, 0, 0)
        self._reply_count = 0
        self._end_event: TurnEnded | None = None
        self._result: Result[Any] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        """The tasks of running approvals, and of the start of tool servers."""
        self._notices: deque[Notice] = deque()
        """Notices about failed approvals, to be yielded after the current event."""
        self._steering_texts: list[str] = []
        """The steering messages from before the start of the turn."""
        self._started_at = time.monotonic()
        self._read_lock = asyncio.Lock()
        self._events = self._run()

    @property
    def result(self) -> Result[Any]:
        """The result; raise `UsageError` while the turn runs."""
        if self._result is None:
            raise UsageError("the turn is not over: read its events to the end, or leave its block")
        return self._result

    @property
    def ended(self) -> TurnEnded:
        """The last event of the turn; raise `UsageError` while the turn runs."""
        if self._result is None or self._end_event is None:
            raise UsageError("the turn is not over: read its events to the end, or leave its block")
        return self._end_event

    @property
    def note(self) -> str:
        """Why the turn has no complete answer, in one line; empty if it has one."""
        return "" if self._end_event is None else incomplete_reason(self._end_event)

    def steer(self, text: str) -> None:
        """Add a message to the turn before its next step; ignored once the turn is over."""
        if self._has_begun:
            self._conversation.steer(text)
        else:
            self._steering_texts.append(text)

    def cancel(self) -> None:
        """Cancel the turn; the text so far is kept, and the events end with `TurnEnded`."""
        self._is_cancelled = True
        for task in self._tasks:
            task.cancel()
        if self._turns.running is self:  # also before the turn starts: hooks may run, or a tool server be read
            self._conversation.cancel()

    async def aclose(self) -> None:
        """End the turn if it still runs, and wait until all of its work has ended. No event follows."""
        if self._read_lock.locked():
            self.cancel()  # another task waits for an event
        async with self._read_lock:
            await self._events.aclose()
        self._conclude()

    async def __aenter__(self) -> TurnStream:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[TurnEvent]:
        return self

    async def __anext__(self) -> TurnEvent:
        async with self._read_lock:
            return await self._events.__anext__()

    async def _run(self) -> AsyncGenerator[TurnEvent, None]:
        """Run the turn and yield its events; raise `UsageError` if another turn runs or an option is invalid."""
        turns, conversation = self._turns, self._conversation
        if turns.is_closed:
            raise UsageError("this agent is closed: open another one")
        if conversation.is_busy or turns.running is not None:
            raise UsageError(_BUSY)
        turns.running = self
        self._started_at = time.monotonic()
        mode = conversation.mode
        try:
            await self._start_servers()
            if "permission_mode" in self._fields:
                conversation.set_mode(_checked_mode(self._fields["permission_mode"]))
            prompt = _read_prompt(self._prompt, self._turns.folder)
            options = self._options(prompt.text)
            instructions = "" if self._answer_type is None else f"\n\n{self._answer_type.schema.instructions}"
            async with aclosing(
                conversation.submit(f"{prompt.text}{instructions}", prompt.attached, options)
            ) as events:
                async for event in events:
                    self._record(event)
                    yield event
                    while self._notices:
                        yield self._notices.popleft()
        finally:
            turns.running = None
            for task in self._tasks:
                task.cancel()
            # Do not reset a mode that an accepted plan has set.
            if "permission_mode" in self._fields and conversation.mode == self._fields["permission_mode"]:
                conversation.set_mode(mode)
            self._conclude()

    async def _start_servers(self) -> None:
        """Start the tool servers, and ask the program about those that wait for an approval."""
        toolbox = self._turns.toolbox
        await asyncio.wait({self._start_task(toolbox.wait_for_servers())})  # `cancel` ends this wait at once
        servers = toolbox.servers
        if servers is None:
            return
        if self._is_cancelled:
            await servers.wait_until_started(0)  # the cancelled turn does not wait either
            return
        for approval in servers.approvals():
            task = self._start_task(self._decide(approval))
            await asyncio.wait({task})
            servers.answer(approval.id, Deny() if task.cancelled() else task.result())
        await asyncio.wait({self._start_task(servers.wait_until_started())})

    def _options(self, prompt: str) -> TurnOptions:
        """Return the options for the conversation; raise `UsageError` for an unknown or invalid option."""
        fields = self._fields
        unknown = next((name for name in fields if name not in TurnFields.__annotations__), None)
        if unknown is not None:
            known_names = ", ".join(TurnFields.__annotations__)
            raise UsageError(f"{unknown} is not an option of a turn; the options are {known_names}")
        check_limits(fields)
        budget, max_tokens = fields.get("max_budget_usd"), fields.get("max_output_tokens")
        model = fields.get("model") or ""
        if not isinstance(model, str):
            raise UsageError("the model of a turn is named as PROVIDER/MODEL")
        return TurnOptions(
            model=model,
            output={} if max_tokens is None else {"max_tokens": max_tokens},
            shown_prompt=prompt if self._answer_type is not None else "",
            is_append_only=self._append_only,
            finds_files=False,
            max_turns=fields.get("max_turns"),
            max_tool_calls=fields.get("max_tool_calls"),
            max_budget_usd=None if budget is None else Decimal(str(budget)),
            check=None if self._answer_type is None else self._answer_type.schema.validate,
        )

    def _record(self, event: TurnEvent) -> None:
        """Collect the facts for the result, and start approvals."""
        self._answer.observe(event)
        match event:
            case TurnStarted():
                self._begin()
            case ApprovalRequested(approval=approval):
                self._ask(approval)
            case LimitReached(is_question=True):
                # A program decides with `wait_for_limit` whether to wait.
                self._conversation.answer(LIMIT_ID, Deny())
            case ToolFinished(outcome=made, state="done") | AgentEvent(event=ToolFinished(outcome=made, state="done")):
                self._diffs.append(made.diff)  # empty for a call that changed no file
            case ReplyFinished():
                self._reply_count += 1
            case UsageUpdated():
                self._latest_usage = event
            case TurnEnded():
                self._end_event = event
            case _:
                pass

    def _begin(self) -> None:
        """Apply steering and a cancellation that were requested before the turn started."""
        self._has_begun = True
        for text in self._steering_texts:
            self._conversation.steer(text)
        if self._is_cancelled:
            self._conversation.cancel()

    def _ask(self, approval: CallApproval) -> None:
        if self._turns.approve is None:
            self._conversation.answer(approval.id, decision_without_user(approval))
            return

        async def answer() -> None:
            decision = await self._decide(approval)
            if stops_turn(approval, decision):
                self._conversation.cancel()
            else:
                self._conversation.answer(approval.id, decision)

        self._start_task(answer())

    def _start_task(self, work: Coroutine[Any, Any, ValueT]) -> asyncio.Task[ValueT]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _decide(self, approval: Approval) -> Decision:
        """Return the decision of the program; if its callback fails, deny and add a notice."""
        if self._turns.approve is None:
            return Deny()
        try:
            decision: object = await self._turns.approve(approval)
        except BaseException as fault:  # the program's own code: its failure is a denial
            if not is_fault(fault):
                raise
            return self._failed_approval(f"approve: {describe_fault(fault)}")
        match decision:
            case Allow() | Deny(message=str()) | Answer(text=str()) | AcceptPlan() | Revise(text=str()):
                return decision
            case Deny() | Answer() | Revise():
                return self._failed_approval(f"approve returned {type(decision).__name__} without a text")
            case _:
                return self._failed_approval(f"approve returned {type(decision).__name__} and not a decision")

    def _failed_approval(self, reason: str) -> Deny:
        self._notices.append(Notice("error", f"{one_line(reason)}; the call was denied"))
        return Deny("the approval failed")

    def _conclude(self) -> None:
        """Create the result, once."""
        if self._result is not None:
            return
        ended = self._end_event = self._end_event or self._unfinished_end()
        output = None
        if self._answer_type is not None and subtype(ended) == "success":
            output = self._answer_type.value(ended.text)
        self._result = Result(
            text=ended.text,
            output=output,
            outcome=ended.outcome,
            stop=ended.stop,
            raw_stop=ended.raw_stop,
            usage=ended.usage,
            cost=ended.cost,
            api_calls=ended.api_calls,
            discarded_output_tokens=ended.discarded_output_tokens,
            denials=ended.denials,
            signals=ended.signals,
            changes=file_diffs(self._diffs),
            session_id=self._conversation.session_id,
            num_turns=ended.replies,
            duration=time.monotonic() - self._started_at,
            error=ended.error,
        )

    def _unfinished_end(self) -> TurnEnded:
        """Return a `TurnEnded` for a turn whose events were not read to the end."""
        text, spent = self._answer.text, self._latest_usage
        return TurnEnded(
            Outcome.CANCELLED, stop=None, raw_stop="", text=text, replies=self._reply_count, usage=spent.usage,
            cost=spent.cost, api_calls=ApiCalls(initial=self._reply_count), is_answered=bool(text.strip()),
            whole_text=self._answer.whole_text, signals=self._conversation.signals() if self._has_begun else (),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ReadPrompt:
    """A prompt as the conversation gets it."""

    text: str
    attached: tuple[Block, ...]
    """The images and files of the prompt."""


def _read_prompt(prompt: Any, folder: Path) -> _ReadPrompt:  # the program may pass anything
    """Return the text, images and files of a prompt; raise `UsageError` for an empty or invalid one."""
    parts = (Text(prompt),) if isinstance(prompt, str) else prompt
    if not isinstance(parts, Sequence):
        raise UsageError(_PROMPT_PARTS)
    texts: list[str] = []
    attached: list[Block] = []
    for part in parts:
        match part:
            case Text(text=str() as text):
                texts.append(text)
            case Image(media_type=str(), data=str()):
                attached.append(part)
            case Image():
                raise UsageError("the data of an Image is the file as base64 text")
            case File(path=str() | Path() as path):
                from qcode.agent.context.attachments import attach_files

                attached += attach_files((Path(path),), "", folder)
            case _:
                raise UsageError(_PROMPT_PARTS)
    if not attached and not any(text.strip() for text in texts):
        raise UsageError("the prompt is empty")
    return _ReadPrompt("\n\n".join(texts), tuple(attached))


_PROMPT_PARTS = "a prompt is a string, or a list of Text, Image and File"


def _checked_mode(mode: ApprovalMode) -> ApprovalMode:
    if mode not in get_args(ApprovalMode):
        raise UsageError(f"permission_mode must be one of {', '.join(get_args(ApprovalMode))}")
    return mode
