"""Runs the conversation with a host: its messages in order, and its control requests at any time.

A message waits until the turn before it has ended. After the end of the input, queued messages still run, and calls
that need an approval are denied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from qcode.headless.exchange import COMPACT, Exchange, QueuedInput
from qcode.headless.host import requests
from qcode.headless.host.approvals import HostApprovals
from qcode.headless.host.handshake import Handshake, success_response
from qcode.headless.host.lines import HostLines, encode_bounded, host_init, host_result
from qcode.headless.host.link import HostLink
from qcode.headless.host.wire import HostError, HostWire
from qcode.headless.input_lines import ControlRequest, InputLine, InvalidLine, UserMessage, read_line
from qcode.headless.lines import encode, line_without_turn, replayed_line
from qcode.headless.run import Run, RunOutput
from qcode.headless.stderr import StderrWriter
from qcode.protocol.approvals import CallApproval, TurnOptions, TurnPrompt
from qcode.protocol.errors import ErrorInfo, ExitCode
from qcode.protocol.events import Notice, TurnEvent
from qcode.protocol.messages import Text
from qcode.streams import REQUEST_OVERHEAD_BYTES
from qcode.text.clean import shown_line, single_spaced
from qcode.text.json import Json, JsonObject, parse_object

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.models.client import ModelClient

MAX_INVALID = 20
"""The maximum number of reports of invalid lines; each report waits for the host to read it."""


async def run_host(
    agent: Agent,
    handshake: Handshake,
    link: HostLink,
    descriptor: int,
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    first_bytes: bytes = b"",
    notices: tuple[str, ...] = (),
) -> int:
    """Serve a host whose handshake was answered, until its input ends; return the exit code of the last turn.

    `link` gets the wire, for the servers and hooks in the host's process. `first_bytes` is the input that was read
    before, including the handshake. `notices` are lines for the user.
    """
    output = replace(RunOutput.of(agent, stdout, stderr), stderr=_SilentWriter(stderr, has_live_line=False))
    return await HostSession(output, handshake, link, notices).serve(descriptor, first_bytes)


class _SilentWriter(StderrWriter):
    """A writer that writes nothing: the SDKs pass stderr on to the terminal of their user."""

    async def _send(self, data: bytes) -> None:
        return


class HostSession(Exchange):
    """The loop over the lines of a host."""

    def __init__(self, output: RunOutput, handshake: Handshake, link: HostLink, notices: tuple[str, ...] = ()) -> None:
        super().__init__(output)
        self.agent = output.agent
        self._link = link
        self.wire = HostWire(output.write)
        link.wire = self.wire
        self.handshake = handshake
        self.controls = requests.RunControls(output.agent, self.wire, self._end_turn)
        self._conversation = output.agent.conversation
        self._first_model = self._conversation.model
        self._first_effort = self._conversation.effort
        self._notices = list(notices)
        if handshake.notice:
            self._notices.append(handshake.notice)
        self._last_init: JsonObject = {}
        self._pending_uuids: list[str] = []
        """The ids of messages that wait for a turn."""
        self._prompt_numbers: dict[str, int] = {}
        """The number of the prompt in the session, by the id of a message."""
        self._answer_tasks: dict[asyncio.Task[None], Json] = {}
        """The tasks that answer control requests, each with the id of its request. A host may use an id again."""
        self._model_connections: set[asyncio.Future[ModelClient]] = set()
        options = output.agent.context.options
        self.approvals = HostApprovals(
            self.wire,
            output.agent.permissions,
            self.controls,
            is_asking=options.permission_prompt_tool is not None,
        )
        self._echoes_messages = options.replay_user_messages
        self._has_handshake = False
        self._invalid_count = 0

    async def _begin(self) -> None:
        if self.handshake.title and not self._conversation.messages:
            self._conversation.session.set_title(self.handshake.title)

    async def _write_init(self) -> None:
        """Write `init` before the first turn, and before a turn if it has changed."""
        await self.agent.toolbox.wait_for_servers()
        facts = self._output.init_facts()
        servers = tuple((name, requests.server_state(state)) for name, state in facts.mcp_servers)
        skills = (name for name in facts.skills if name not in facts.commands)
        names = (*facts.commands, *skills, *requests.prompt_names(self.agent))
        line = host_init(replace(facts, mcp_servers=servers, commands=names), self.controls.names, self.controls.mode)
        without_uuid: JsonObject = {**line, "uuid": ""}
        if without_uuid != self._last_init:
            self._last_init = without_uuid
            await self._output.write(encode(line))
        self._has_init = True
        while self._notices:
            self.controls.notice(Notice("warning", self._notices.pop(0)))

    async def _report_no_message(self) -> int:
        return ExitCode.OK

    def _parse(self, line: bytes) -> InputLine | None:
        value = parse_object(line.decode("utf-8-sig", "replace")) or {}
        match value:
            case {"type": "control_response"}:
                self.wire.resolve(value.get("response"))
                return None
            case {"type": "control_cancel_request"}:
                self._withdraw(value.get("request_id"))
                return None
            case {"type": "user" | "control_request"}:
                return read_line(line)
            case {"type": str()}:
                return None  # such as keep_alive
            case _ if not line.strip():
                return None
            case _:
                self._report_invalid_line()
                return None

    def _report_invalid_line(self) -> None:
        self._invalid_count += 1
        if self._invalid_count > MAX_INVALID:
            return
        text = f"line {self._line_count} of standard input is not a JSON object with a type"
        if self._invalid_count == MAX_INVALID:
            text += "; further ones are not reported"
        self.controls.notice(Notice("warning", text))

    def _input_ended(self, reason: str) -> None:
        self.wire.close()
        super()._input_ended(reason)

    def _withdraw(self, request_id: Json) -> None:
        """Cancel a request of either side, because the host no longer wants an answer, or sends none."""
        if isinstance(request_id, str):
            self.wire.cancel(request_id)
        for task, answered_id in self._answer_tasks.items():
            if answered_id == request_id:
                task.cancel()

    def _handle_control(self, control: ControlRequest) -> None:
        """Answer a control request in a task. Until it is answered, `hold` counts its bytes as not yet handled."""
        if not self._has_handshake and control.subtype == "initialize":
            self._has_handshake = True  # the handshake itself, which is answered already
            return
        task = asyncio.get_running_loop().create_task(self._answer_control(control))
        self._answer_tasks[task] = control.request_id
        size = REQUEST_OVERHEAD_BYTES + len(str(control.request))
        self.hold(size)
        task.add_done_callback(lambda _: self.release(size))
        task.add_done_callback(self._answer_tasks.pop)

    async def _answer_control(self, control: ControlRequest) -> None:
        """Answer a control request; the answer to a failed one is an error."""
        try:
            answer = await self._perform_control(control.subtype, control.request)
        except (ValueError, HostError) as refusal:
            await self._refuse(control.request_id, single_spaced(str(refusal), 1_000))
        except Exception as failure:  # noqa: BLE001 - a failure in one request must not end the conversation
            await self._refuse(control.request_id, f"internal error: {type(failure).__name__}")
        else:
            await self._respond(control.request_id, answer)

    async def _respond(self, request_id: Json, answer: JsonObject) -> None:
        await self.wire.send(success_response(request_id, answer))

    async def _refuse(self, request_id: Json, text: str) -> None:
        response: JsonObject = {"subtype": "error", "request_id": request_id, "error": text}
        await self.wire.send({"type": "control_response", "response": response})

    async def _perform_control(self, subtype: str, request: JsonObject) -> JsonObject:
        """Carry out a control request and return its answer. Raise `ValueError` or `HostError` with the reason."""
        match subtype:
            case "initialize":
                raise ValueError("initialize was already sent")
            case "interrupt":
                return self._interrupt(cancels_queue=request.get("cancel_queued") is True)
            case "set_permission_mode":
                mode = request.get("mode")
                self.controls.set_mode(mode if isinstance(mode, str) else "")
                return {"mode": self.controls.mode}
            case "set_model":
                return await self._set_model(request.get("model"))
            case "set_max_thinking_tokens":
                budget = request.get("max_thinking_tokens")
                effort = self._first_effort if budget is None else requests.effort_of(budget)
                self._conversation.effort = effort
                return {}
            case "get_context_usage":
                return requests.context_usage(self.agent)
            case "rewind_files":
                return await self._rewind(request)
            case "mcp_message":
                return await self._link.receive(request)
            case "mcp_set_servers":
                return await requests.set_servers(self.agent, request, self._link.connections)
            case "mcp_status" | "mcp_reconnect" | "mcp_toggle":
                return await requests.server_request(self.agent, subtype, request)
            case _:
                raise ValueError(f'"{shown_line(subtype, 80)}" is not supported')

    def _end_turn(self) -> None:
        self.agent.toolbox.cancel_reading()
        if self._expansion is not None:
            self._expansion.cancel()
        if self._current_run is not None:
            self._current_run.cancel()

    def _interrupt(self, *, cancels_queue: bool) -> JsonObject:
        """End the turn; return the answer with the ids of queued messages. With `cancels_queue`, drop the messages."""
        self._end_turn()
        waiting = [queued for queued in self._queued if isinstance(queued, UserMessage)]
        uuids = [_uuid(queued) for queued in waiting]
        ids: list[Json] = [uuid for uuid in uuids if uuid]
        if not cancels_queue:
            return {"still_queued": ids}
        for queued in waiting:
            self._queued.remove(queued)
            self._release_queued(queued)
        return {"still_queued": [], "cancelled": ids}

    async def _set_model(self, model: Json) -> JsonObject:
        """Switch the model from the next turn on; return the answer with its name."""
        if model is not None and not isinstance(model, str):
            raise ValueError("model must be a name or null")
        name = self._first_model if model in (None, "", "default", "inherit") else str(model)
        # Reading a key from the keyring may take seconds. A message that is sent meanwhile waits.
        connecting = asyncio.ensure_future(asyncio.to_thread(self.agent.connect_model, name))
        self._model_connections.add(connecting)
        connecting.add_done_callback(self._model_connections.discard)
        self._conversation.set_model(await connecting)
        return {"model": self._conversation.model}

    async def _rewind(self, request: JsonObject) -> JsonObject:
        """Restore the files as they were before the turn of a message; return the answer with the changed files.

        A file that something else has changed since is not restored; the answer names it as an error.
        """
        number = self._prompt_numbers.get(str(request.get("user_message_id")))
        if number is None:
            return {"canRewind": False, "error": "no turn of this run has a message with this uuid"}
        checkpoints = self._conversation.checkpoints
        try:
            plan = await checkpoints.plan_rewind(number, "files")
            files: list[Json] = [file.path for file in plan.files if not file.refusal and not file.doubt]
            if request.get("dry_run") is True:
                return {"canRewind": True, "filesChanged": files}
            report = await checkpoints.perform(plan)
        except ValueError as refusal:
            return {"canRewind": False, "error": str(refusal)}
        problems = [*(f"{file.path} {file.doubt}" for file in plan.doubtful), *report.problems]
        answer: JsonObject = {"canRewind": True, "filesChanged": files}
        if problems:
            answer["error"] = "; ".join(problems)
        return answer

    async def _run_input(self, incoming: QueuedInput) -> int:
        match incoming:
            case UserMessage():
                return await self._run_message(incoming)
            case InvalidLine(reason=reason):
                await self._write_result_without_turn(ErrorInfo("bad_input", reason))
                return ExitCode.BAD_INPUT
            case _:
                return ExitCode.INTERRUPTED

    async def _run_message(self, message: UserMessage) -> int:
        """Run the turn of a message, or keep the message for the next turn (`shouldQuery`); return the exit code."""
        uuid = _uuid(message)
        if uuid:
            self._pending_uuids.append(uuid)
        if self._echoes_messages:
            await self._output.write(encode_bounded(replayed_line(message.line, self._conversation.session_id)))
        if message.line.get("shouldQuery") is False:  # the next message that is sent to the model includes it
            self._conversation.attach(message.attached)
            if message.prompt:
                self._conversation.attach((Text(message.prompt),))
            return ExitCode.OK
        prompt = await self._expanded(message, TurnOptions(is_append_only=True))
        if isinstance(prompt, int):
            self._pending_uuids.clear()
            return prompt
        return await self._run_turn(prompt, is_composed=message.line.get("client_composed") is True)

    async def _run_turn(self, prompt: TurnPrompt, *, is_composed: bool) -> int:
        if self._model_connections:
            await asyncio.wait(self._model_connections)
        uuids = tuple(self._pending_uuids)
        self._pending_uuids.clear()
        output = replace(self._output, turn=prompt.options)
        run = HostRun(output, self, uuids, is_composed=is_composed)
        self._current_run = run
        try:
            return await run.run_turn(prompt.text, self._interrupts)
        finally:
            run.stop_asking()
            self._current_run = None
            self._has_result = True
            run.record_prompts()

    def record_prompts(self, uuids: Sequence[str], first: int) -> None:
        """Remember the ids of the messages that led to the prompts from index `first` on, for `rewind_files`."""
        for added in self._conversation.checkpoints.rewind_points()[first:]:
            self._prompt_numbers.update(dict.fromkeys(uuids, added.number))

    async def _report_problem(self, text: str) -> None:
        self.controls.notice(Notice("warning", text))

    def _result_without_turn(self, error: ErrorInfo | None) -> bytes:
        line = line_without_turn(error, self._conversation.session_id)
        return encode(host_result(line, self.controls.names, ()))


def _uuid(message: UserMessage) -> str:
    uuid = message.line.get("uuid")
    return uuid if isinstance(uuid, str) else ""


class HostRun(Run):
    """A turn for a host. `uuids` are the ids of its messages. If `is_composed`, commands in it are not expanded."""

    def __init__(
        self, output: RunOutput, session: HostSession, uuids: tuple[str, ...], *, is_composed: bool = False
    ) -> None:
        self._session = session
        self._is_composed = is_composed
        self._uuids = uuids
        self._earlier_prompts = len(output.agent.conversation.checkpoints.rewind_points())
        self._question_tasks: set[asyncio.Task[None]] = set()
        super().__init__(output)

    def stream_lines(self) -> HostLines:
        session, context = self._session, self._output.agent.context
        return HostLines(
            self._conversation.session_id,
            self._conversation.model,
            session.controls.names,
            has_deltas=context.options.include_partial_messages,
            forwards_subagent_text=session.handshake.forwards_subagent_text,
            mode=lambda: session.controls.mode,
            max_retries=context.settings.network.max_retries,
        )

    def encode(self, line: JsonObject) -> bytes:
        return encode_bounded(line)

    def record_prompts(self) -> None:
        self._session.record_prompts(self._uuids, self._earlier_prompts)

    def adapt_result(self, line: JsonObject) -> JsonObject:
        self.record_prompts()  # a host may rewind to this turn as soon as it has read the result
        return host_result(line, self._session.controls.names, self._uuids)

    def events(self, prompt: str) -> AsyncGenerator[TurnEvent, None]:
        word, _, focus = prompt.partition(" ")
        if word == COMPACT and not self._is_composed:
            return self._conversation.compact(focus.strip())
        return super().events(prompt)

    async def _handle_event(self, event: TurnEvent) -> None:
        await super()._handle_event(event)
        self._session.controls.report_mode_change()

    def approve(self, approval: CallApproval) -> None:
        task = asyncio.get_running_loop().create_task(self._ask_host(approval))
        self._question_tasks.add(task)
        task.add_done_callback(self._question_tasks.discard)

    async def _ask_host(self, approval: CallApproval) -> None:
        self.answer(approval, await self._session.approvals.decide(approval))

    def cancel(self) -> None:
        super().cancel()
        self.stop_asking()

    def stop_asking(self) -> None:
        """Withdraw all open questions."""
        for task in self._question_tasks:
            task.cancel()

    async def _write_result(self) -> None:
        if self._question_tasks:  # some hosts read only to the result, so they must see withdrawals before it
            self.stop_asking()
            await asyncio.wait(self._question_tasks)
            await self._session.wire.flush()
        await super()._write_result()
