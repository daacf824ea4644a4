"""Runs one turn of a conversation and writes its output.

`lines` defines the JSON lines, `agent.outcomes` the exit codes and messages, `Interrupts` the handling of Ctrl+C.
The prompt is the piped input, limited in size, followed by the typed text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from qcode import __version__
from qcode.agent import outcomes
from qcode.agent.outcomes import UNAPPROVED, AnswerSoFar, decision_without_user, denial_line, incomplete_reason, summary
from qcode.headless.interrupts import Interrupts
from qcode.headless.lines import InitFacts, encode, init_line, result_line, signal_arguments, structured_answer
from qcode.headless.stderr import (
    Meter,
    Progress,
    StderrWriter,
    can_erase,
    server_messages,
    verbose_message,
    warning_message,
)
from qcode.protocol.approvals import (
    LIMIT_ID,
    NO_OPTIONS,
    CallApproval,
    Decision,
    Deny,
    PlanApproval,
    ToolApproval,
    TurnOptions,
    mode_label,
)
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode
from qcode.protocol.events import (
    ApiCalls,
    ApprovalRequested,
    Denial,
    LimitReached,
    ReplyFinished,
    StepStarted,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.reply import Limit, Outcome
from qcode.protocol.usage import Usage
from qcode.streams import OutputLostError, Pipe
from qcode.text.clean import clean
from qcode.text.json import JsonObject
from qcode.text.numbers import duration_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.options import OutputFormat
    from qcode.headless.stream import StreamLines

TIMEOUT_GRACE_S = 2.0
"""Seconds that a turn gets after the limit of `--timeout` to stop the processes of its tools."""
RESULT_TIMEOUT_S = 0.25
"""Seconds that a reader has to accept the result of an interrupted turn."""


async def run_headless(
    agent: Agent,
    prompt: str,
    *,
    stdout: BinaryIO,
    stderr: BinaryIO,
    turn: TurnOptions = NO_OPTIONS,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run one turn and return the exit code; stdout is UTF-8 in every locale.

    `turn` are the options that a custom command sets. `clock` returns monotonic seconds.

    Calls that need an approval are denied. SIGINT, SIGTERM and SIGHUP cancel the turn: this function writes the output
    so far and returns 130 or 143 within a second. In the JSON formats it always writes exactly one `result`, also if
    its task is cancelled, or if it raises the exception of an internal error.
    """
    output = RunOutput.of(agent, stdout, stderr, turn, clock)
    run = Run(output, is_only_turn=True)
    interrupts = Interrupts(cancel=run.cancel, force=run.force, flush=run.flush)
    try:
        with interrupts.end_at_signals():
            return await run.run_turn(prompt, interrupts)
    except OutputLostError as lost:
        agent.conversation.cancel()
        return await output.report_lost_output(lost)


@dataclass(frozen=True, slots=True)
class RunOutput:
    """The agent of a run, the streams for its output, and the format."""

    agent: Agent
    format: OutputFormat
    pipe: Pipe
    stderr: StderrWriter
    turn: TurnOptions
    clock: Callable[[], float]
    is_stdout_tty: bool

    @classmethod
    def of(
        cls,
        agent: Agent,
        stdout: BinaryIO,
        stderr: BinaryIO,
        turn: TurnOptions = NO_OPTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> RunOutput:
        """Return the output to two streams, in the format of the agent's options."""
        writer = StderrWriter(stderr, has_live_line=can_erase(stderr))
        return cls(agent, agent.context.options.output_format, Pipe(stdout), writer, turn, clock, stdout.isatty())

    @property
    def is_verbose(self) -> bool:
        return self.agent.context.options.verbose

    async def write_header(self) -> None:
        """Write the `init` line of stream-json, and with `-v` the model and the mode, before the first turn."""
        agent, conversation = self.agent, self.agent.conversation
        await agent.toolbox.wait_for_servers()
        if self.format == "stream-json":
            await self.write(encode(init_line(self.init_facts())))
        if self.is_verbose:
            note = f" ({agent.selection.note})" if agent.selection.note else ""
            mode = mode_label(conversation.mode)
            await self.stderr.write_line(f"model {conversation.model}{note}, permission mode {mode}")

    def init_facts(self) -> InitFacts:
        """Return the current content of the `init` line."""
        agent, conversation = self.agent, self.agent.conversation
        statuses = agent.servers.statuses() if agent.servers is not None else ()
        return InitFacts(
            session_id=conversation.session_id,
            cwd=str(agent.context.folder),
            model=conversation.model,
            tools=tuple(tool.name for tool in conversation.tools),
            permission_mode=conversation.mode,
            version=__version__,
            mcp_servers=tuple((status.name, status.state) for status in statuses),
            commands=tuple(command.name for command in agent.custom_commands().commands),
            agents=tuple(kind.name for kind in conversation.kinds) if agent.toolbox.subagent_tool is not None else (),
            skills=() if agent.skills is None else tuple(skill.handle for skill in agent.skills.for_user),
        )

    async def write(self, data: bytes) -> None:
        """Erase the progress line and write to stdout; raise `OutputLostError`."""
        await self.stderr.clear_status()
        await self.pipe.write(data)

    async def write_message(self, event: TurnEvent) -> None:
        """Write the message of an event to stderr: a warning, or with `-v` the progress."""
        text = warning_message(event) or (verbose_message(event) if self.is_verbose else "")
        if text:
            await self.stderr.write_line(text)

    async def end_session(self, report: Callable[[TurnEvent], Awaitable[None]]) -> None:
        """Run the hooks of the end of the session; `report` gets their events."""
        hooks = self.agent.conversation.hooks
        if hooks is None:
            return
        await hooks.end()
        for event in hooks.take_held_events():
            await report(event)

    async def report_lost_output(self, error: OutputLostError) -> int:
        """Return the exit code after a failed write; report it unless the reader just closed the pipe."""
        if error.is_reader_gone:
            return ExitCode.READER_GONE
        await self.stderr.write_line(f"cannot write to standard output: {error}")
        return ExitCode.FAILED


class Run:
    """A running turn and its output."""

    def __init__(self, output: RunOutput, *, is_only_turn: bool = False) -> None:
        self._conversation = conversation = output.agent.conversation
        self._output = output
        self._format = output.format
        self._pipe = output.pipe
        self._stderr = output.stderr
        from qcode.agent.usage import ModelSpending  # slow to import; the conversation needs it too

        self._answer = AnswerSoFar()
        self._spending = ModelSpending(conversation.model, lambda: conversation.client.known_model().output_limit)
        self._lines = self.stream_lines()
        self._meter = Meter(output.clock)
        self._progress = Progress()
        self._denied_calls: list[ToolCall] = []
        self._is_in_tools = False
        """The calls of the current step are being approved or run."""
        self._notice_texts: set[str] = set()
        self._replies = 0
        self._latest_usage = UsageUpdated(Usage(), cost=None, context_tokens=0, context_window=0)
        self._end_event: TurnEnded | None = None  # None until the turn has ended, or was ended by force
        self._has_result = False  # the result was passed to `Pipe`
        self._is_concluded = False  # the result and the messages for the user were written
        self._is_only_turn = is_only_turn
        self._writes_header = is_only_turn
        """The header is still to be written, before the turn begins. Several turns share a header that exists then."""
        self._is_cancelled = False
        self._is_forced = asyncio.Event()
        self._is_out_of_time = False
        self._server_messages: deque[str] = deque()

    def stream_lines(self) -> StreamLines | None:
        """Return the converter of events to lines; None if the format is not stream-json."""
        if self._format != "stream-json":
            return None
        from qcode.headless.stream import StreamLines

        has_deltas = self._output.agent.context.options.include_partial_messages
        return StreamLines(self._conversation.session_id, self._conversation.model, has_deltas=has_deltas)

    def cancel(self) -> None:
        """Cancel the turn. If it has not begun, cancel it as soon as it begins."""
        self._is_cancelled = True
        self._conversation.cancel()

    def force(self) -> None:
        """End the turn without waiting for it."""
        self._is_forced.set()

    def _cancel_at_timeout(self) -> None:
        """Cancel the turn at the limit of `--timeout`. End it by force if it has not begun or does not end in time."""
        self._is_out_of_time = True
        self._conversation.cancel(Limit.TIME)
        has_begun = not self._writes_header
        asyncio.get_running_loop().call_later(TIMEOUT_GRACE_S if has_begun else 0.0, self._is_forced.set)

    async def run_turn(self, prompt: str, interrupts: Interrupts) -> int:
        """Run the turn to its end, write its output, and return its exit code."""
        work = asyncio.ensure_future(self._run_and_write(prompt))
        force = asyncio.ensure_future(self._is_forced.wait())
        status_task = asyncio.ensure_future(self._refresh_status())
        timeout_s = self._output.agent.context.timeout_s(self._output.turn)
        loop = asyncio.get_running_loop()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._cancel_at_timeout)
        try:
            await asyncio.wait({work, force}, return_when=asyncio.FIRST_COMPLETED)
            ended = work.result() if work.done() else await self._interrupt(work)
        except asyncio.CancelledError:
            with contextlib.suppress(OutputLostError):
                await self._interrupt(work)
            raise
        finally:
            status_task.cancel()
            force.cancel()
            if timer is not None:
                timer.cancel()
            self._stderr.clear_status_now()
        was_interrupted = ended.outcome is Outcome.CANCELLED or not self._is_concluded
        if interrupts.number is not None and was_interrupted:
            return outcomes.signal_code(interrupts.number)
        return outcomes.exit_code(ended)

    async def _run_and_write(self, prompt: str) -> TurnEnded:
        """Run the turn and write its output. After an internal error, write the result and raise the error again."""
        try:
            self._end_event = await self._run_events(prompt)
        except (OutputLostError, asyncio.CancelledError):
            raise
        except BaseException as failure:
            # The caller reports the error. A reader of JSON still gets one result.
            error = ErrorInfo(ErrorKind.INTERNAL, f"internal error: {type(failure).__name__}")
            self._end_event = self._end_without_event(Outcome.ERROR, error)
            await self._write_result()
            raise
        await self._conclude()
        return self._end_event

    async def _run_events(self, prompt: str) -> TurnEnded:
        """Run the turn, and with `-v` collect the log messages of tool servers meanwhile. Return its last event."""
        if not self._output.is_verbose or self._output.agent.servers is None:
            return await self._handle_events(prompt)
        from qcode.agent.mcp import SERVER_LOG

        with server_messages(SERVER_LOG) as self._server_messages:
            return await self._handle_events(prompt)

    async def _handle_events(self, prompt: str) -> TurnEnded:
        if self._writes_header:
            await self._output.agent.toolbox.wait_for_servers()
            self._writes_header = False
            await self._output.write_header()
        events = self.events(prompt)
        try:
            async for event in events:
                await self._handle_event(event)
                if isinstance(event, TurnEnded):
                    return replace(event, denials=self._all_denials(event.denials))
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        return self._end_without_event(Outcome.ERROR, ErrorInfo(ErrorKind.INTERNAL, "the turn stopped unexpectedly"))

    def events(self, prompt: str) -> AsyncGenerator[TurnEvent, None]:
        """Begin the turn and return its events."""
        return self._conversation.submit(prompt, options=self._output.turn)

    async def _handle_event(self, event: TurnEvent) -> None:
        """Write the lines and messages of an event, and answer approvals."""
        self._answer.observe(event)
        self._meter.update_from(event)
        self._progress.update_from(event)
        self._spending.observe(event)
        if self._lines is not None and (lines := self._lines.lines(event)):
            await self._output.write(b"".join(map(self.encode, lines)))
        match event:
            case StepStarted():
                self._is_in_tools = False
            case ToolStarted():
                self._is_in_tools = True
            case TurnStarted() if self._is_cancelled:
                self._conversation.cancel()
            case ApprovalRequested(approval=approval):
                self._is_in_tools = True
                self.approve(approval)
            case LimitReached(is_question=True):
                self._conversation.answer(LIMIT_ID, Deny())
            case ReplyFinished():
                self._replies += 1
            case UsageUpdated():
                self._latest_usage = event
            case _:
                pass
        await self._write_event(event)

    def encode(self, line: JsonObject) -> bytes:
        return encode(line)  # `HostRun` overrides this to limit the length

    def approve(self, approval: CallApproval) -> None:
        """Decide an approval without a user."""
        self.answer(approval, decision_without_user(approval))

    def answer(self, approval: CallApproval, decision: Decision) -> None:
        """Send a decision to the conversation, and record the call if it is denied."""
        if isinstance(decision, Deny) and isinstance(approval, (ToolApproval, PlanApproval)):
            self._denied_calls.append(approval.call)
        self._conversation.answer(approval.id, decision)

    async def _write_event(self, event: TurnEvent) -> None:
        """Write warnings to stderr, and with `-v` also the progress and the log messages of tool servers."""
        while self._server_messages:
            await self._stderr.write_line(f"tool servers: {self._server_messages.popleft()}")
        if text := warning_message(event):
            self._notice_texts.add(text)
            await self._stderr.write_line(text)
        elif self._output.is_verbose:
            if quoted := _text_before_calls(event):
                await self._stderr.quote(quoted)
            elif text := verbose_message(event):
                await self._stderr.write_line(text)

    async def _conclude(self) -> None:
        """Write the result, then the messages for the user; a second call continues an interrupted first one.

        If this is the only turn, the session ends with it: before the result of stream-json, which is the last line,
        otherwise after it.
        """
        ended = self._end_event
        assert ended is not None
        ends_session = self._is_only_turn and ended.outcome is not Outcome.CANCELLED
        if ends_session and self._format == "stream-json":
            await self._output.end_session(self._handle_event)
        await self._write_result()
        if ends_session and self._format != "stream-json":
            await self._output.end_session(self._output.write_message)
        if self._output.is_verbose and self._format == "text":  # the JSON formats have the signals in the result
            for sent in ended.signals:
                arguments = json.dumps(signal_arguments(sent), ensure_ascii=False)
                await self._stderr.write_line(f"signal {sent.name}: {arguments}")
        if self._output.is_verbose:
            await self._stderr.write_line(summary(ended))
        if (text := incomplete_reason(ended)) and text not in self._notice_texts:
            await self._stderr.write_line(text)
        if self._denied_calls:
            from qcode.agent.permissions import flags_allowing

            agent = self._output.agent
            flags = flags_allowing(agent.permissions.policy, self._denied_calls, agent.toolbox.spec)
            if text := denial_line(len(self._denied_calls), flags.text, flags.unallowable_count):
                await self._stderr.write_visible(text)
        self._is_concluded = True

    async def _write_result(self) -> None:
        """Write the result. If an earlier write of it was interrupted, write the rest, which `Pipe` has kept."""
        await self._stderr.clear_status()
        await self._pipe.write(self._unwritten_result())

    def _unwritten_result(self) -> bytes:
        """Return the bytes of the result, which the caller passes to `Pipe`. Later calls return nothing."""
        if self._has_result:
            return b""
        self._has_result = True
        ended = self._end_event or self._end_without_event(Outcome.CANCELLED, error=None)
        schema = self._output.agent.context.schema
        if self._format != "text":
            session_id, meter = self._conversation.session_id, self._meter
            line = result_line(
                ended,
                session_id,
                schema,
                duration_ms=meter.duration_ms,
                api_ms=meter.api_ms,
                metrics=self._conversation.metrics.as_json(),
                models=self._spending.as_json(),
                is_in_tools=self._is_in_tools,
            )
            result = self.encode(self.adapt_result(line))
            if self._format == "stream-json" and self._writes_header:  # the turn ended while tool servers were starting
                return encode(init_line(self._output.init_facts())) + result
            return result
        structured = structured_answer(ended, schema)
        text = structured.text if structured else ended.text
        if self._output.is_stdout_tty:
            text = clean(text)
        return utf8(text if not text or text.endswith("\n") else f"{text}\n")

    def adapt_result(self, line: JsonObject) -> JsonObject:
        """Return the `result` object to write. `HostRun` overrides this."""
        return line

    async def _interrupt(self, work: asyncio.Future[TurnEnded]) -> TurnEnded:
        """End `work` by force, and write the output so far if the reader accepts it in time."""
        work.cancel()
        await asyncio.wait({work}, timeout=0.1)
        if work.done() and not work.cancelled() and (failure := work.exception()) is not None:
            raise failure
        self._end_event = self._end_event or self._end_without_event(Outcome.CANCELLED, error=None)
        if not self._is_concluded:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._conclude(), RESULT_TIMEOUT_S)
        return self._end_event

    def flush(self) -> None:
        """Write as much of the result as fits without blocking, right before the program exits."""
        self._stderr.clear_status_now()
        with contextlib.suppress(OutputLostError):
            self._pipe.push(self._unwritten_result())

    def _end_without_event(self, outcome: Outcome, error: ErrorInfo | None) -> TurnEnded:
        """Build a `TurnEnded` for a turn that ended without one, from the events so far."""
        is_timeout = outcome is Outcome.CANCELLED and self._is_out_of_time
        return TurnEnded(
            outcome=Outcome.MAX_TURN_REQUESTS if is_timeout else outcome,
            limit=Limit.TIME if is_timeout else None,
            stop=None,
            raw_stop="",
            text=self._answer.text,
            replies=self._replies,
            usage=self._latest_usage.usage,
            cost=self._latest_usage.cost,
            api_calls=ApiCalls(initial=self._replies),
            denials=self._all_denials(()),
            error=error,
            is_answered=bool(self._answer.text.strip()),
            signals=self._conversation.signals(),
            whole_text=self._answer.whole_text,
        )

    def _all_denials(self, reported: tuple[Denial, ...]) -> tuple[Denial, ...]:
        listed = {denial.call.call_id for denial in reported}
        unapproved = [Denial(call, UNAPPROVED) for call in self._denied_calls if call.call_id not in listed]
        return (*reported, *unapproved)

    async def _refresh_status(self) -> None:
        while self._output.stderr.has_live_line:
            await self._stderr.show_status(f"{self._progress.status} ({duration_text(self._meter.elapsed)})")
            await asyncio.sleep(1)


def _text_before_calls(event: TurnEvent) -> str:
    """Return the text of a reply with calls, which the result in text mode does not contain."""
    message = event.message if isinstance(event, ReplyFinished) else None
    return message.text if message is not None and message.calls else ""


def utf8(text: str) -> bytes:
    """Encode text that may contain surrogates: a pair becomes its character, a lone surrogate U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
