"""Several turns in one run: `--input-format stream-json`, with an input line and a `result` for each turn.

Every message produces exactly one `result`, and an invalid line a `result` with an error, so callers never block.
Lines have the format that other tools write: messages of Anthropic's API in an envelope with a `type`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from qcode.agent import outcomes
from qcode.agent.permissions import why_not_read
from qcode.headless.input_lines import ControlRequest, InputLine, InvalidLine, UserMessage, read_line
from qcode.headless.interrupts import Interrupts
from qcode.headless.lines import encode, init_line, line_without_turn, replayed_line
from qcode.headless.run import RESULT_TIMEOUT_S, Run, RunOutput
from qcode.protocol.approvals import NO_OPTIONS, TurnOptions, TurnPrompt
from qcode.protocol.errors import ErrorInfo, ExitCode, QcodeError
from qcode.protocol.messages import Block
from qcode.streams import REQUEST_OVERHEAD_BYTES, OutputLostError, StdinReader
from qcode.text.json import JsonObject

if TYPE_CHECKING:
    from qcode.agent.agent import Agent

MESSAGE_OVERHEAD_BYTES = 1_000
"""The bytes to `hold` for each queued message in addition to its line."""
COMPACT = "/compact"
NOTHING_ARRIVED = "there is no prompt: no message arrived on standard input"


class _CancelledMessage:
    """A message that was interrupted before its turn began. The model never gets it."""


QueuedInput: TypeAlias = UserMessage | InvalidLine | _CancelledMessage


async def run_exchange(
    agent: Agent,
    descriptor: int,
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    turn: TurnOptions = NO_OPTIONS,
    first_bytes: bytes = b"",
) -> int:
    """Run a turn for each message on `descriptor` until its end; return the exit code of the last turn.

    `turn` are the options of each turn, `first_bytes` is the input that was read before. A signal ends the running turn
    and then the run.
    """
    return await Exchange(RunOutput.of(agent, stdout, stderr, turn)).serve(descriptor, first_bytes)


class Exchange:
    """Runs the turns of the input lines, one after the other. Control requests are answered at once.

    The `init` line is written once, before the first turn or result.
    """

    def __init__(self, output: RunOutput) -> None:
        self._output = output
        self._has_init = False
        self._queued: deque[QueuedInput] = deque()
        self._queue_changed = asyncio.Event()
        self._stop_requested = asyncio.Event()
        self._end_reason: str | None = None
        """Why the input has ended, empty for its regular end; None while more input may follow."""
        self._current_run: Run | None = None
        self._expansion: asyncio.Task[TurnPrompt] | None = None
        """Expands the prompt of the next turn; it may run a command, or wait for a tool server."""
        self._reader: StdinReader | None = None
        self._line_count = 0
        self._has_result = False
        """A result was written, so the run can end without another one."""
        self._finish_tasks: set[asyncio.Task[None]] = set()
        self._interrupts = Interrupts(cancel=self._cancel, force=self._force, flush=self._flush)

    async def serve(self, descriptor: int, first_bytes: bytes = b"") -> int:
        """Run until the input ends, a signal arrives, or stdout cannot be written; return the exit code."""
        try:
            return await self._serve(descriptor, first_bytes)
        except OutputLostError as lost:
            self._output.agent.conversation.cancel()
            return await self._output.report_lost_output(lost)

    async def _serve(self, descriptor: int, first_bytes: bytes) -> int:
        code: int | None = None
        with self._interrupts.end_at_signals():
            await self._unless_stopped(self._begin())
            self._reader = StdinReader(
                descriptor, on_line=self._handle_line, on_end=self._input_ended, first_bytes=first_bytes
            )
            while await self._wait_for_input():
                # The message stays in the queue meanwhile, so that an interrupt finds it.
                await self._unless_stopped(self._write_init())
                if self._interrupts.number is not None:
                    break
                if not self._queued:  # a host withdrew its messages
                    continue
                incoming = self._queued.popleft()
                self._release_queued(incoming)
                code = await self._run_input(incoming)
            if self._interrupts.number is None:
                await self._unless_stopped(self._output.end_session(self._output.write_message))
        if self._interrupts.number is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._output.write(self._missing_result()), RESULT_TIMEOUT_S)
            return outcomes.signal_code(self._interrupts.number)
        if self._end_reason:
            return await self._run_input(InvalidLine(f"cannot read standard input: {self._end_reason}"))
        if code is None:
            return await self._report_no_message()
        return code

    async def _begin(self) -> None:
        """Prepare the conversation before the input is read; a subclass may override it."""

    async def _write_init(self) -> None:
        """Write the `init` line before the first turn."""
        if not self._has_init:
            await self._output.agent.toolbox.wait_for_servers()
            self._has_init = True
            await self._output.write_header()

    async def _report_no_message(self) -> int:
        """Report that the input had no message, and return the exit code."""
        await self._output.stderr.write_line(NOTHING_ARRIVED)
        await self._write_result_without_turn(ErrorInfo("usage", NOTHING_ARRIVED))
        return ExitCode.USAGE

    def _handle_line(self, line: bytes | None) -> None:
        """Queue a message, or answer a control request. `line` is None if it was too long."""
        self._line_count += 1
        incoming = InvalidLine("it is too long") if line is None else self._parse(line)
        match incoming:
            case None:
                return
            case ControlRequest():
                self._handle_control(incoming)
            case InvalidLine(reason=reason):
                self._enqueue(InvalidLine(f"line {self._line_count} of standard input is invalid: {reason}"))
            case UserMessage():
                self._enqueue(replace(incoming, size=len(line or b"")))
        self._queue_changed.set()

    def _enqueue(self, incoming: UserMessage | InvalidLine) -> None:
        self.hold(incoming.size + MESSAGE_OVERHEAD_BYTES)
        self._queued.append(incoming)

    def _release_queued(self, incoming: QueuedInput) -> None:
        """Release the bytes of a message that left the queue."""
        if not isinstance(incoming, _CancelledMessage):
            self.release(incoming.size + MESSAGE_OVERHEAD_BYTES)

    def hold(self, size: int) -> None:
        """Count bytes of input as not yet handled. While there are too many, the reader pauses."""
        if self._reader is not None:
            self._reader.hold(size)

    def release(self, size: int) -> None:
        """Count held bytes as handled."""
        if self._reader is not None:
            self._reader.release(size)

    def _parse(self, line: bytes) -> InputLine | None:
        """Parse a line; return None if the exchange has nothing to do for it."""
        return read_line(line)

    def _input_ended(self, reason: str) -> None:
        """Store why no more input follows, and wake the loop that runs the queued turns."""
        self._end_reason = reason
        self._queue_changed.set()

    def _handle_control(self, control: ControlRequest) -> None:
        """Carry out a control request, and respond if the request has an id."""
        if control.subtype == "interrupt":
            if self._current_run is not None:
                self._current_run.cancel()
            elif self._expansion is not None:
                self._expansion.cancel()
            elif self._queued:
                self._release_queued(self._queued[0])
                self._queued[0] = _CancelledMessage()
        if control.request_id is None:
            return
        response: JsonObject
        if control.subtype == "interrupt":
            response = {"subtype": "success", "request_id": control.request_id}
        else:
            text = f'"{control.subtype[:80]}" is not supported; only interrupt is'
            response = {"subtype": "error", "request_id": control.request_id, "error": text}
        # Write only what fits without blocking; the next write reports a lost reader.
        with contextlib.suppress(OutputLostError):
            self._output.stderr.clear_status_now()
            if not self._output.pipe.push(encode({"type": "control_response", "response": response})):
                self.hold(REQUEST_OVERHEAD_BYTES)
                task = asyncio.get_running_loop().create_task(self._finish_writing())
                self._finish_tasks.add(task)
                task.add_done_callback(self._finish_tasks.discard)

    async def _finish_writing(self) -> None:
        """Write the pending part of a response as soon as the reader accepts it."""
        with contextlib.suppress(OutputLostError):
            await self._output.pipe.write(b"")
        self.release(REQUEST_OVERHEAD_BYTES)

    async def _wait_for_input(self) -> bool:
        """Wait for a message or an invalid line; return False at the end of the input or after a signal."""
        while self._interrupts.number is None:
            if self._queued:
                return True
            if self._end_reason is not None:
                return False
            self._queue_changed.clear()
            await self._queue_changed.wait()
        return False

    async def _run_input(self, incoming: QueuedInput) -> int:
        """Run the turn of a message, or report an invalid line; return the exit code."""
        match incoming:
            case InvalidLine(reason=reason):
                await self._output.stderr.write_line(reason)
                await self._write_result_without_turn(ErrorInfo("bad_input", reason))
                return ExitCode.BAD_INPUT
            case _CancelledMessage():
                await self._write_result_without_turn(None)
                return ExitCode.INTERRUPTED
            case UserMessage():
                if self._output.agent.context.options.replay_user_messages:
                    replayed = replayed_line(incoming.line, self._output.agent.conversation.session_id)
                    await self._unless_stopped(self._output.write(encode(replayed)))
                prompt = await self._expanded(incoming, self._output.turn)
                if isinstance(prompt, int):
                    return prompt
                self._current_run = Run(replace(self._output, turn=prompt.options))
                try:
                    return await self._current_run.run_turn(prompt.text, self._interrupts)
                finally:
                    self._current_run = None
                    self._has_result = True

    async def _expanded(self, message: UserMessage, options: TurnOptions) -> TurnPrompt | int:
        """Attach the blocks of a message and the files that it mentions, and return its prompt.

        If the prompt cannot be sent, write its result and return the exit code.
        """
        self._expansion = asyncio.get_running_loop().create_task(self._expand(message, options))
        try:
            await asyncio.wait({self._expansion})
            if self._expansion.cancelled():
                await self._write_result_without_turn(None)
                return ExitCode.INTERRUPTED
            prompt = self._expansion.result()
        except QcodeError as problem:
            await self._output.stderr.write_line(str(problem))
            await self._write_result_without_turn(problem.info)
            return problem.exit_code
        finally:
            self._expansion.cancel()
            self._expansion = None
        self._output.agent.conversation.attach((*message.attached, *prompt.attached))
        return prompt

    async def _expand(self, message: UserMessage, options: TurnOptions) -> TurnPrompt:
        """Expand the command or skill of a message, and read the files and resources that it mentions.

        A message with `client_composed` stays as it is. Raise `QcodeError` if the skill, or a command in its text, may
        not run, or if a tool server has no such prompt.
        """
        agent = self._output.agent
        prompt = message.prompt
        if message.line.get("client_composed") is True:
            return TurnPrompt(prompt, replace(options, finds_files=False))
        # A model of the command line takes precedence over the model of a command or skill.
        is_model_fixed = bool(agent.context.options.model)
        match = agent.custom_commands().match_command(prompt) if prompt.startswith("/") else None
        if match is not None:
            command, arguments = match
            options = replace(
                options,
                model="" if is_model_fixed else command.model,
                output=command.output,
                external_spans=command.project_ranges(arguments),
                shown_prompt=prompt,
            )
            prompt = command.expand(arguments)
        elif agent.skills is not None and prompt.partition(" ")[0] != COMPACT:
            skill_match = agent.skills.match_typed(prompt)
            if skill_match is not None:
                of_skill = await agent.skill_prompt(skill_match.skill, skill_match.arguments)
                model = "" if is_model_fixed else of_skill.options.model
                prompt = of_skill.text
                options = replace(of_skill.options, model=model, is_append_only=options.is_append_only)
        blocks = await self._mentioned_files(prompt, options)
        # `finds_files` also turns on the mentions of tool servers. The files are read already.
        options = replace(options, finds_files=True, typed_text=None)
        expanded = await agent.toolbox.expand_prompt(TurnPrompt(prompt, options, blocks))
        return replace(expanded, options=replace(expanded.options, finds_files=False))

    async def _mentioned_files(self, prompt: str, options: TurnOptions) -> tuple[Block, ...]:
        """Return the files that the prompt mentions as `@path`, and report those that cannot be attached."""
        if "@" not in prompt:
            return ()
        from qcode.agent.context.attachments import attach_mentions

        agent = self._output.agent
        policy = agent.conversation.policy
        mentioned = attach_mentions(
            prompt,
            agent.context.folder,
            options.external_spans,
            lambda path: why_not_read(policy, path),
            agent.toolbox.names_resource,
        )
        for problem in mentioned.problems:
            await self._report_problem(problem)
        return mentioned.blocks

    async def _report_problem(self, text: str) -> None:
        """Tell the user of the run about a problem with a prompt."""
        await self._output.stderr.write_line(text)

    async def _write_result_without_turn(self, error: ErrorInfo | None) -> None:
        """Write the result of a line that started no turn; an `error` of None means that it was interrupted."""
        self._has_result = True
        await self._unless_stopped(self._output.write(self._result_without_turn(error)))

    def _result_without_turn(self, error: ErrorInfo | None) -> bytes:
        """Return the result line, after the `init` line if that is not written yet."""
        result = encode(line_without_turn(error, self._output.agent.conversation.session_id))
        if self._has_init:
            return result
        self._has_init = True
        return encode(init_line(self._output.init_facts())) + result

    def _missing_result(self) -> bytes:
        """Return the result of a run that a signal ended before its first result; otherwise nothing."""
        return b"" if self._has_result else self._result_without_turn(None)

    def _cancel(self) -> None:
        if self._current_run is not None:
            self._current_run.cancel()
        else:
            self._force()

    def _force(self) -> None:
        if self._current_run is not None:
            self._current_run.force()
        if self._expansion is not None:
            self._expansion.cancel()
        self._stop_requested.set()
        self._queue_changed.set()

    def _flush(self) -> None:
        if self._current_run is not None:
            self._current_run.flush()
            return
        self._output.stderr.clear_status_now()
        with contextlib.suppress(OutputLostError):
            self._output.pipe.push(self._missing_result())

    async def _unless_stopped(self, writing: Coroutine[None, None, None]) -> None:
        """Await `writing` until it is done or a signal arrives. The next write completes an interrupted one."""
        work = asyncio.ensure_future(writing)
        stopped = asyncio.ensure_future(self._stop_requested.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not work.done():
                work.cancel()
        if work.done():
            work.result()
