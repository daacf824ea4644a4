"""One session of an editor: its queued prompts, the running turn, approvals, and cancellation.

A prompt is answered once, after all updates of its turn. A cancelled prompt is answered within a second, even if a tool
does not stop.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from qcode.acp import approvals, commands
from qcode.acp.cards import text_content
from qcode.acp.prompt import PromptBlocks, PromptInput, prompt_input, read_prompt
from qcode.acp.settings import SessionSettings
from qcode.acp.updates import MAX_CHUNK_CHARS, ClientFeatures, TurnView, chunk, replay, usage_update
from qcode.acp.wire import AUTH_REQUIRED, INTERNAL_ERROR, EditorWire, MethodResult, WireError
from qcode.agent.agent import Agent
from qcode.agent.outcomes import incomplete_reason, stops_turn, summary
from qcode.agent.permissions import why_not_read
from qcode.agent.sessions.replay import ReplayedPrompt, ReplayItem, replay_messages
from qcode.protocol.approvals import LIMIT_ID, CallApproval, Decision, Deny, ServerApproval, TurnOptions
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    ApprovalRequested,
    LimitReached,
    Notice,
    ToolFinished,
    TurnEnded,
    TurnEvent,
)
from qcode.protocol.reply import Outcome
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qcode.agent.models.client import ModelClient

CANCEL_S = 0.8
"""The time in seconds after which a cancelled prompt is answered even if its turn has not ended."""
END_S = 0.5
"""How long the turn of a session that is closed may take to end by itself."""


@dataclass(frozen=True, slots=True)
class EditorClient:
    """The connection of a session, and the features of its client."""

    wire: EditorWire
    features: ClientFeatures
    has_forms: bool = False


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings that the client shows."""

    mode: str
    model: str
    effort: str | None
    is_trusted: bool


class PendingPrompt:
    """A queued or running prompt."""

    def __init__(self, blocks: PromptBlocks) -> None:
        self.blocks = blocks
        self.is_cancelled = False
        self.answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        """The response to the request with this prompt."""

    def finish(self, result: JsonObject | WireError) -> None:
        """Answer the prompt, unless it is already answered."""
        if self.answer.done():
            return
        if isinstance(result, WireError):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class EditorSession:
    """A session of an editor. It owns its agent until `close`."""

    def __init__(
        self, agent: Agent, client: EditorClient, settings: SessionSettings, problems: tuple[str, ...] = ()
    ) -> None:
        """Use an open agent. `problems` has a line for each invalid tool server of the client."""
        self.agent = agent
        self.settings = settings
        self.folder = agent.context.folder
        self._client = client
        self._queued_prompts: deque[PendingPrompt] = deque()
        self._current_prompt: PendingPrompt | None = None
        self._worker: asyncio.Task[None] | None = None
        """Runs the queued prompts; None or done while there are none."""
        self._question_tasks: set[asyncio.Task[Any]] = set()
        self._view: TurnView | None = None
        self._sent_settings = self._current_settings()
        self._title = ""
        self._last_commands_update: JsonObject = {}
        self._force_timer: asyncio.TimerHandle | None = None
        """Answers a cancelled prompt if its turn does not end in time."""
        self._title_tasks: set[asyncio.Task[None]] = set()
        self._model_lock = asyncio.Lock()
        """Held during a change of the model, so that the last request wins and a prompt waits for it."""
        self.commands = commands.SessionCommands(agent)
        self._own_text_count = 0
        """The number of texts of qcode itself, for their message ids."""
        start_warnings = (notice.text for notice in agent.start_notices() if notice.level != "info")
        self._opening_notices = [*problems, *start_warnings]
        """Warnings for the first turn."""

    @property
    def session_id(self) -> str:
        return self.agent.conversation.session_id

    def send(self, update: JsonObject) -> None:
        self._client.wire.notify("session/update", {"sessionId": self.session_id, "update": update})

    def opening_state(self) -> JsonObject:
        """Return the modes and the options, for the response to the request that opens the session."""
        return {"modes": self.settings.modes(), "configOptions": self.settings.options()}

    def announce(self) -> None:
        """Start the tool servers, and send the updates that follow the response: commands, usage, title."""
        self._send_commands()
        if self.agent.servers is not None:
            self.agent.servers.start(self._send_commands)
        conversation = self.agent.conversation
        spent = self._session_cost()
        report = conversation.context_report() if conversation.messages else None
        if report is not None:
            self.send(usage_update(report.used, report.window, spent))
        self._send_title()

    def _send_commands(self) -> None:
        """Send the list of commands if it changed."""
        update = self.commands.available_commands_update()
        if update != self._last_commands_update:
            self._last_commands_update = update
            self.send(update)

    def replay(self) -> None:
        """Send the whole conversation again."""
        replay(self._stored_items(), str(self.folder), self.send)

    def _stored_items(self) -> Iterator[tuple[int, ReplayItem]]:
        """Yield the items of the stored conversation, each with the number of the prompt of its turn."""
        history = self.agent.conversation.session.history
        numbers = history.all_numbers()
        stored = [history.stored[number] for number in numbers]
        prompt_numbers = {
            id(message.entry.message): number
            for number, message in zip(numbers, stored, strict=True)
            if message.is_turn_start
        }
        turn = 0
        for item in replay_messages(stored):
            if isinstance(item, ReplayedPrompt):
                turn = prompt_numbers.get(id(item.message), turn)
            yield turn, item

    async def prompt(self, blocks: Json) -> MethodResult:
        """Queue a prompt and return its answer."""
        prompt = PendingPrompt(read_prompt(blocks))
        self._queued_prompts.append(prompt)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._run_queued_prompts())
        try:
            return MethodResult(await asyncio.shield(prompt.answer), self._after_turn)
        except asyncio.CancelledError:
            # `$/cancel_request` of this prompt, or the end of the process.
            self._cancel(prompt)
            return MethodResult(await prompt.answer)

    def cancel(self) -> None:
        """Cancel the turn and every queued prompt; without a turn, do nothing."""
        for prompt in list(self._queued_prompts):
            self._cancel(prompt)
        if self._current_prompt is not None:
            self._cancel(self._current_prompt)

    def _cancel(self, prompt: PendingPrompt) -> None:
        """Cancel a prompt. A queued prompt is answered at once, the current one when its turn ends."""
        prompt.is_cancelled = True
        if prompt is not self._current_prompt:
            with suppress(ValueError):
                self._queued_prompts.remove(prompt)
            prompt.finish(self._response_without_turn(Outcome.CANCELLED))
            return
        self._stop_asking()
        self.agent.conversation.cancel()
        if self._force_timer is None:
            self._force_timer = asyncio.get_running_loop().call_later(CANCEL_S, self._answer_late, prompt)

    def _answer_late(self, prompt: PendingPrompt) -> None:
        """Answer a cancelled prompt whose turn did not end in time."""
        if self._view is not None:
            self._view.end()
            self._view = None
        prompt.finish(self._response_without_turn(Outcome.CANCELLED))

    async def close(self) -> None:
        """Cancel everything and release the session."""
        self.cancel()
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=END_S)
            self._worker.cancel()
        for task in (*self._question_tasks, *self._title_tasks):
            task.cancel()
        await self.agent.close()

    async def _run_queued_prompts(self) -> None:
        """Run the queued prompts, one after the other."""
        while self._queued_prompts:
            prompt = self._queued_prompts.popleft()
            self._current_prompt = prompt
            try:
                async with self._model_lock:
                    pass  # wait for the changes of the model so far
                await self._run_prompt(prompt)
            except asyncio.CancelledError:
                prompt.finish(self._response_without_turn(Outcome.CANCELLED))
                raise
            except WireError as error:
                prompt.finish(error)
            except Exception as failure:  # noqa: BLE001 - the edge of a turn: a bug ends it, not the process
                text = self.agent.report_crash(failure)
                prompt.finish(WireError(INTERNAL_ERROR, text))
            finally:
                self._current_prompt = None
                self._stop_asking()
                if self._force_timer is not None:
                    self._force_timer.cancel()
                    self._force_timer = None

    async def _ask_about_servers(self, prompt: PendingPrompt) -> None:
        """Ask the user to approve tool servers of the project, and changed tools, before a turn that could use them."""
        servers = self.agent.servers
        if servers is None:
            return
        servers.start(self._send_commands)
        await self.agent.toolbox.wait_for_servers()
        for approval in servers.approvals():
            decision = await self._ask_about_server(approval)
            if decision is None or isinstance(decision, approvals.CancelTurn):
                self._cancel(prompt)
                return
            servers.answer(approval.id, decision)
        await self.agent.toolbox.wait_for_servers()

    async def _ask_about_server(self, approval: ServerApproval) -> Decision | approvals.CancelTurn | None:
        """Return the decision about a tool server; None if the prompt was cancelled meanwhile."""
        card: JsonObject = {
            "toolCallId": f"server-{approval.id[:16]}",
            "title": approval.question,
            "kind": "other",
            "status": "pending",
            "content": [text_content(approval.detail)],
            "rawInput": {"server": approval.server},
        }
        options = approvals.options_of(approval)
        asking = approvals.ask_permission(self.session_id, card, options, self._client.wire.ask)
        question = asyncio.ensure_future(asking)
        self._question_tasks.add(question)
        question.add_done_callback(self._question_tasks.discard)
        await asyncio.wait([question])  # unlike `await question`, it does not raise if the question is cancelled
        return None if question.cancelled() else question.result()

    async def _run_prompt(self, prompt: PendingPrompt) -> None:
        """Run the command or the turn of a prompt, and answer it."""
        await self._ask_about_servers(prompt)
        if prompt.answer.done() or prompt.is_cancelled:
            prompt.finish(self._response_without_turn(Outcome.CANCELLED))
            return
        command = self.commands.match_command(prompt.blocks.first_text)
        if command is not None:
            await self._run_command(command, prompt)
            return
        policy = self.agent.conversation.policy
        content = await asyncio.to_thread(
            prompt_input, prompt.blocks, self.folder, lambda path: why_not_read(policy, path)
        )
        await self._submit(prompt, content, TurnOptions())

    async def _run_command(self, command: commands.TypedCommand, prompt: PendingPrompt) -> None:
        match await self.commands.run(command):
            case commands.CommandOutput(text=text):
                self._send_text(text)
                self._send_changed_settings()
                prompt.finish(self._response_without_turn(Outcome.END_TURN))
            case commands.CompactCommand(focus=focus):
                await self._send_turn(self.agent.conversation.compact(focus), prompt)
            case commands.PromptCommand(text=text, options=options):
                await self._submit(prompt, PromptInput(text, attached=()), options)

    async def _submit(self, prompt: PendingPrompt, content: PromptInput, options: TurnOptions) -> None:
        options = replace(options, is_append_only=True)
        events = self.agent.conversation.submit(content.text, content.attached, options)
        await self._send_turn(events, prompt, content.notices)

    async def _send_turn(
        self, events: AsyncGenerator[TurnEvent, None], prompt: PendingPrompt, notices: tuple[str, ...] = ()
    ) -> None:
        """Send the events of a turn, after `notices`, and answer its prompt at the last event."""
        history = self.agent.conversation.session.history
        cost_before = self._session_cost()
        turn_before = history.latest
        turn = turn_before
        has_run_call = False
        is_refused = False
        try:
            async for event in events:
                if self._view is None and not prompt.answer.done():
                    turn = history.latest
                    key: int | str = turn
                    if turn <= turn_before:
                        key = f"{turn_before}c"  # a compaction adds no prompt, so it has no number
                    self._view = TurnView(key, str(self.folder), self._client.features, self.send, cost_before)
                    self._begin_turn(self._view, prompt, notices)
                if isinstance(event, ToolFinished) and event.state in ("done", "failed"):
                    has_run_call = True
                if self._view is not None:
                    self._handle_event(event, self._view, prompt)
                if isinstance(event, TurnEnded):
                    self._end_turn(event, prompt)
                    is_refused = event.outcome is Outcome.REFUSAL
                await self._client.wire.wait_until_writable()
        finally:
            await events.aclose()
            self._view = None
        prompt.finish(WireError(INTERNAL_ERROR, "the turn stopped unexpectedly"))
        if is_refused and not has_run_call and turn > turn_before:
            await self._forget_turn(turn)

    def _begin_turn(self, view: TurnView, prompt: PendingPrompt, notices: tuple[str, ...]) -> None:
        """Send the warnings before the first event, and cancel the turn if its prompt was cancelled before it."""
        for line in (*self._opening_notices, *notices):
            view.send_event(Notice("warning", line))
        self._opening_notices = []
        if prompt.is_cancelled:
            self.agent.conversation.cancel()

    def _end_turn(self, ended: TurnEnded, prompt: PendingPrompt) -> None:
        """Answer a prompt after the last event of its turn."""
        notices = self._view.notices if self._view is not None else []
        self._view = None
        self._stop_asking()
        self._send_changed_settings()
        prompt.finish(self._response(ended, notices))

    async def _forget_turn(self, turn: int) -> None:
        """Omit a refused turn from later requests, as the protocol requires; the session file keeps the turn."""
        checkpoints = self.agent.conversation.checkpoints
        with suppress(ValueError):
            await checkpoints.perform(await checkpoints.plan_rewind(turn, "conversation"))

    def _handle_event(self, event: TurnEvent, view: TurnView, prompt: PendingPrompt) -> None:
        """Send the updates of an event, and ask the client about an approval."""
        view.send_event(event)
        match event:
            case ApprovalRequested(approval=approval):
                question = asyncio.get_running_loop().create_task(self._ask_about_call(approval, view, prompt))
                self._question_tasks.add(question)
                question.add_done_callback(self._question_tasks.discard)
            case LimitReached(is_question=True):
                self.agent.conversation.answer(LIMIT_ID, Deny())
            case _:
                pass
        self._send_changed_settings()

    async def _ask_about_call(self, approval: CallApproval, view: TurnView, prompt: PendingPrompt) -> None:
        """Ask the client about a call, and pass its decision to the conversation."""
        client = self._client
        conversation = self.agent.conversation
        card = view.card_of(approval.call)
        decision = await approvals.ask(
            approval,
            card,
            self.session_id,
            str(self.folder),
            client.wire.ask,
            has_forms=client.has_forms,
        )
        if isinstance(decision, approvals.CancelTurn) or stops_turn(approval, decision):
            self._cancel(prompt)  # before the answer, which may end the turn with an error
            conversation.answer(approval.id, Deny())
            return
        conversation.answer(approval.id, decision)
        self._send_changed_settings()

    def _stop_asking(self) -> None:
        for task in self._question_tasks:
            task.cancel()

    def _response_without_turn(self, outcome: Outcome) -> JsonObject | WireError:
        """Return the response to a prompt that did not begin a turn, or whose turn did not end in time."""
        return self._response(TurnEnded.without_reply(outcome, cost=Decimal(0)), notices=[])

    def _response(self, ended: TurnEnded, notices: list[str]) -> JsonObject | WireError:
        """Return the response to a prompt, or the error if its turn failed."""
        model = self.agent.conversation.model
        if self.agent.context.options.verbose:
            sys.stderr.write(f"qcode: {self.session_id}: {ended.outcome}, {summary(ended)}\n")
        if ended.outcome is Outcome.ERROR:
            return _failure(ended.error, incomplete_reason(ended))
        provider, _, name = model.partition("/")
        metadata: JsonObject = {
            "rawStopReason": ended.raw_stop,
            "provider": provider,
            "model": name,
            "usage": {
                "inputTokens": ended.usage.input,
                "outputTokens": ended.usage.output,
                "cacheReadTokens": ended.usage.cache_read,
                "cacheWriteTokens": ended.usage.cache_write,
                "reasoningTokens": ended.usage.reasoning,
            },
            "apiCalls": ended.api_calls.total,
            "costUsd": None if ended.cost is None else float(ended.cost),
            "numTurns": ended.replies,
            "denials": [
                {"tool": one_line(denial.call.name, 200), "reason": one_line(denial.reason, 400)}
                for denial in ended.denials[:100]
            ],
        }
        if ended.signals:
            metadata["signals"] = [{"name": signal.name, "arguments": signal.arguments} for signal in ended.signals]
        why = incomplete_reason(ended)
        if why:
            metadata["shortfall"] = one_line(why, 1_000)
        if notices:
            metadata["notices"] = [*notices[-20:]]
        return {"stopReason": str(ended.outcome), "_meta": {"qcode": metadata}}

    def _send_text(self, text: str) -> None:
        """Send a text of qcode itself, such as the result of a command."""
        self._own_text_count += 1
        for start in range(0, len(text), MAX_CHUNK_CHARS):
            message_id = f"command-{self._own_text_count}"
            self.send(chunk("agent_message_chunk", text[start : start + MAX_CHUNK_CHARS], message_id))

    def _current_settings(self) -> _Settings:
        conversation = self.agent.conversation
        is_trusted = self.agent.permissions.is_trusted
        return _Settings(self.settings.mode, conversation.model, conversation.effort, is_trusted)

    def _send_changed_settings(self) -> None:
        """Send the mode and the options if the mode, the model, the effort or the trust has changed."""
        settings = self._current_settings()
        sent = self._sent_settings
        if settings == sent:
            return
        self._sent_settings = settings
        if self._view is not None:
            self._view.flush()
        if settings.mode != sent.mode:
            self.send({"sessionUpdate": "current_mode_update", "currentModeId": settings.mode})
        self.send({"sessionUpdate": "config_option_update", "configOptions": self.settings.options()})

    def apply_client_change(self, change: Callable[[], None]) -> Callable[[], None]:
        """Make a change that the client requested; return the function that sends the updates after the response."""
        change()
        return self._send_changed_settings

    async def change_model(self, name: str) -> Callable[[], None]:
        """Switch the model for the next turn, like `apply_client_change`. Later changes and prompts wait."""
        async with self._model_lock:
            connecting = asyncio.ensure_future(asyncio.to_thread(self.settings.connect_model, name))
            connecting.add_done_callback(_mark_as_retrieved)
            client = await asyncio.shield(connecting)
            if client is not None:
                self.agent.conversation.set_model(client)
        return self._send_changed_settings

    def _session_cost(self) -> Decimal | None:
        """Return the cost of the session so far in US dollars, None if a part of it is unknown."""
        costs = [used.cost for used in self.agent.conversation.usage()]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        return sum(known, Decimal(0))

    def _after_turn(self) -> None:
        """Send the title. If the session has none yet, create one with the model in the background."""
        self._send_title()
        title_task = asyncio.get_running_loop().create_task(self._make_title())
        self._title_tasks.add(title_task)
        title_task.add_done_callback(self._title_tasks.discard)

    async def _make_title(self) -> None:
        if await self.agent.sessions.make_title() is not None:
            self._send_title()

    def _send_title(self) -> None:
        title = one_line(self.agent.sessions.title, 200)
        if title and title != self._title:
            self._title = title
            self.send({"sessionUpdate": "session_info_update", "title": title})


def _mark_as_retrieved(connecting: asyncio.Future[ModelClient | None]) -> None:
    """Read the error of a connection. Otherwise, asyncio would log it if the client has cancelled its request."""
    if not connecting.cancelled():
        connecting.exception()


def _failure(error: ErrorInfo | None, text: str) -> WireError:
    """Return the error for a turn that failed; `text` is its message."""
    info = error or ErrorInfo(str(ErrorKind.INTERNAL), text)
    code = AUTH_REQUIRED if info.kind in (ErrorKind.NO_CREDENTIAL, ErrorKind.AUTH) else INTERNAL_ERROR
    return WireError(code, one_line(text, 1_000), info)
