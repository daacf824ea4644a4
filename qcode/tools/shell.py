"""The `shell` tool, and the `jobs` tool for its background commands.

`shell` runs one command in bash, limited in time and output, and ends all its processes. The call waits until the
command ends, or until the user moves the command to the background. `jobs` lists, reads and stops background commands,
but no other processes. Read `jobs` and `processes` next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from qcode.protocol.tools import CommandExecution, Launch, Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible, visible_lines
from qcode.text.json import JsonObject
from qcode.text.numbers import exit_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.arguments import Arguments, validate_arguments
from qcode.tools.jobs import MAX_JOB_S, Job, Jobs
from qcode.tools.output import CollectedOutput, LiveOutput, OutputCollector
from qcode.tools.processes import ProcessExit, TimeLimit, command_environment, required_program, run_program
from qcode.tools.tool import Preview, ToolRunContext, failed, run_blocking
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

MAX_COMMAND_S = 3_600
# Messages of programs that need a terminal or input, and of programs that a sandbox stops.
_NEEDS_TERMINAL = lazy_pattern(
    r"not (?:a|from a) (?:tty|terminal)|not a tty|inappropriate ioctl|cannot open /dev/tty|no such device or address"
    r"|EOF when reading a line|Input is not|terminal is (?:dumb|not fully functional)|could not read Username"
    r"|there was a problem with the editor|requires? an interactive",
    re.IGNORECASE,
)
_STOPPED_BY_SANDBOX = lazy_pattern(
    r"read-only file system|permission denied|operation not permitted|network is unreachable|could not resolve"
    r"|name resolution|connection refused|no route to host|unable to (?:access|connect)|getaddrinfo|EAI_AGAIN"
    r"|EROFS|EPERM|ENETUNREACH",
    re.IGNORECASE,
)
_MAX_MASKED_SHOWN = 5  # file names
MIN_COLUMNS = 60
"""The minimum value of COLUMNS. With fewer columns, `git diff --stat` omits most of each file name."""
# Without COLUMNS, `ps` prints whole rows into a pipe; with it, `ps aux | grep NAME` finds nothing beyond the width.
_CUTS_ROWS = lazy_pattern(r"(?<![\w.-])ps(?![\w.-])")
_NO_TERMINAL = (
    "[commands have no terminal and no input here: pass the answers as arguments, such as -y, -m TEXT or --no-edit, or "
    "in a file]"
)


class Shell:
    """The `shell` tool."""

    spec = ToolSpec(
        name="shell",
        description=(
            "Run a command with bash in the workspace folder and return its output (stdout and stderr) and its exit "
            "code. Every call starts a new shell: cd and variables do not persist. There is no terminal and no "
            "input, and pagers are off. Long output is shortened in the middle. Processes left running with & are "
            "killed when the command returns: for a server or a watcher set background, and use jobs to read or stop "
            "it. Prefer the tools read, edit, glob and grep over cat, sed, find and grep."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command, as typed in bash."},
                "timeout_s": {
                    "type": "number",
                    "minimum": 1,
                    "maximum": MAX_COMMAND_S,
                    "description": "Seconds after which the command is killed. Default 120.",
                },
                "unconfined": {
                    "type": "boolean",
                    "description": (
                        "Ask the user to run it outside the sandbox. Set it only after a result says that the "
                        "sandbox blocked the command."
                    ),
                },
                "background": {
                    "type": "boolean",
                    "description": "Return at once and keep the command running, at most until the session ends.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        is_backgroundable=True,
        draft_argument="command",
        safety=CommandExecution(command_argument="command", unconfined_argument="unconfined"),
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = validate_arguments(self.spec, arguments)
            command = _command_of(checked)
        except Refused as refused:
            return Preview("Run a command?", detail="", refusal=str(refused))
        options = ", ".join(_run_options(checked))
        return Preview(f"Run this command {options}".rstrip() + "?", visible_lines(command), options=options)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            checked = validate_arguments(self.spec, arguments)
            command = _command_of(checked)
            environment = os.environ if context.environment is None else context.environment
            bash = await run_blocking(partial(required_program, "bash", environment, workspace))
            command_env = command_environment(environment) | _width_settings(command, context.columns)
            if context.shell_variables is not None:
                command_env |= await run_blocking(partial(context.shell_variables, command))
            if checked.flag("background"):
                _available_jobs(context)  # before the launch, which prepares a sandbox
            launch = await run_blocking(lambda: context.launch([bash, "--noprofile", "--norc", "-c", command]))
            if checked.flag("background"):
                outcome = _start_job(launch, command, command_env, workspace, context)
            else:
                timeout_s = checked.number("timeout_s", context.shell_timeout_s)
                outcome = await _run_and_wait(launch, command, timeout_s, command_env, workspace, context)
            return replace(outcome, sandbox=await run_blocking(context.sandbox))
        except Refused as refused:
            return failed(str(refused))


def _width_settings(command: str, columns: int | None) -> dict[str, str]:
    """Return the variable with the width of the output, empty if the command must not have it.

    LINES is not set, because the output has no height.
    """
    if columns is None or _CUTS_ROWS.search(command):
        return {}
    return {"COLUMNS": str(max(MIN_COLUMNS, columns))}


def _run_options(arguments: Arguments) -> Iterator[str]:
    """Yield a description of each argument, other than the command, that changes how the call runs."""
    if arguments.flag("unconfined"):
        yield "outside the sandbox"
    if arguments.flag("background"):
        yield "in the background"
    elif arguments.has("timeout_s"):
        yield f"for at most {arguments.number('timeout_s', 0):g} s"


def _command_of(arguments: Arguments) -> str:
    command = arguments.text("command")
    if not command.strip():
        raise Refused("shell: the command is empty")
    if "\0" in command:
        raise Refused("shell: the command contains a NUL character")
    return command


def _available_jobs(context: ToolRunContext) -> Jobs:
    """Return the background commands of the session. Raise `Refused` if no more of them are allowed."""
    if context.jobs is None:
        raise Refused("shell: background commands are not available here; run it without background")
    context.jobs.check_limit()
    return context.jobs


def _start_job(
    launch: Launch, command: str, environment: dict[str, str], workspace: Workspace, context: ToolRunContext
) -> ToolOutcome:
    job = _available_jobs(context).start(
        launch,
        command,
        cwd=workspace.root,
        environment=environment,
        scratch=workspace.scratch,
        limit=context.max_output_chars,
    )
    return started_outcome(job)


async def _run_and_wait(
    launch: Launch,
    command: str,
    timeout_s: float,
    environment: dict[str, str],
    workspace: Workspace,
    context: ToolRunContext,
) -> ToolOutcome:
    try:
        result = await run_command(
            launch,
            command,
            timeout_s,
            cwd=workspace.root,
            environment=environment,
            scratch=workspace.scratch,
            context=context,
        )
    except OSError as error:
        raise Refused(f"shell: the command could not be started: {os.strerror(error.errno or 0)}") from None
    if result.job is not None:
        return background_result(result.job, result.text, result.shown)
    assert result.exit is not None
    names = await run_blocking(context.masked_names)
    return _outcome(result, result.exit, timeout_s, context.confinement, names)


def _note_on_masked(text: str, names: frozenset[str]) -> Iterator[str]:
    """Yield a note on the masked files in an output: `ls` shows them with size 0, `git status` as changed."""
    # `.env` is not a match in `process.env` or `.env.example`.
    mentioned = (name for name in names if name in text and re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text))
    shown_names = sorted(mentioned)[:_MAX_MASKED_SHOWN]
    if shown_names:
        yield f"[secret files that read as empty in this sandbox: {visible(', '.join(shown_names))}]"


def _outcome(
    result: CommandResult, process_exit: ProcessExit, timeout_s: float, confinement: str, masked: frozenset[str]
) -> ToolOutcome:
    """Return the result of a command that ended, with notes for the model."""
    text = result.text
    has_failed = process_exit.is_timed_out or process_exit.exit_code != 0
    notes = list(_note_on_masked(text, masked))
    if process_exit.had_background_processes:
        notes.append("[background processes that the command left running were killed]")
    if process_exit.is_timed_out:
        summary = f"timed out after {timeout_s:g} s"
        notes.append(f"[timed out: the command and all its processes were killed after {timeout_s:g} s]")
    elif process_exit.exit_code < 0:
        summary = exit_text(process_exit.exit_code)
        notes.append(f"[{summary}]")
    else:
        summary = f"exit {process_exit.exit_code}"
        notes.append(f"[{exit_text(process_exit.exit_code)}]")
    if has_failed and _NEEDS_TERMINAL.search(text):
        notes.append(_NO_TERMINAL)
    if confinement and process_exit.exit_code != 0 and _STOPPED_BY_SANDBOX.search(text):
        hint = "If the sandbox blocked it, call shell again with unconfined: true"
        notes.append(f"[the command ran in a sandbox ({confinement}). {hint}]")
    body = text.removesuffix("\n") if text.strip() else "[no output]"
    return ToolOutcome(
        "\n".join([body, *notes]),
        is_error=has_failed,
        summary=summary,
        shown=result.shown,
        exit_code=process_exit.exit_code,
    )


_FLUSH_INTERVAL_S = 0.05


class _CommandOutput:
    """The output of one command: collected and shown live, and passed to its job after it moved to the background."""

    def __init__(self, context: ToolRunContext, scratch: Path) -> None:
        self._collector = OutputCollector(context.max_output_chars, lambda: scratch, is_redrawn=True)
        self._live = LiveOutput(context.output)
        self.job: Job | None = None

    def add(self, data: bytes) -> None:
        if self.job is None:
            self._live.add(self._collector.add(data))
        else:
            self.job.add_output(data)

    def collected(self) -> CollectedOutput:
        return self._collector.collected()

    def result(self, process_exit: ProcessExit | None) -> CommandResult:
        """Return the result of the command, with its output before it moved to the background."""
        return CommandResult(self._collector.close(), self._collector.text_for_user(), process_exit, self.job)

    async def flush_regularly(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_INTERVAL_S)
            self._live.flush()

    def close(self) -> None:
        self._collector.close()
        self._live.flush()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command that ended or moved to the background."""

    text: str
    """The output for the model."""
    shown: str
    """The output for the user."""
    exit: ProcessExit | None = None
    """None if `job` continues the command."""
    job: Job | None = None


async def run_command(
    launch: Launch,
    command: str,
    timeout_s: float,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    scratch: Path,
    context: ToolRunContext,
) -> CommandResult:
    """Run a command until it ends or moves to the background. Raise `OSError` if it cannot start.

    A command that moves to the background gets the time limit of a job, and the job's file contains all its output.
    Cancelling ends the command and all its processes.
    """
    output = _CommandOutput(context, scratch)
    limit = TimeLimit(timeout_s)
    clock = asyncio.get_running_loop().time
    started_at = clock()
    running = run_program(launch, cwd=cwd, environment=environment, on_output=output.add, timeout_s=limit)
    program = asyncio.ensure_future(running)
    flush_task = asyncio.ensure_future(output.flush_regularly())
    try:
        await _wait_for_end_or_move(program, context)
        if program.done() or context.jobs is None:
            return output.result(program.result())
        limit.restart(MAX_JOB_S)
        output.job = context.jobs.adopt(
            command,
            program,
            output.collected(),
            earlier_s=clock() - started_at,
            scratch=scratch,
            limit=context.max_output_chars,
        )
        return output.result(None)
    finally:
        flush_task.cancel()
        output.close()


async def _wait_for_end_or_move(program: asyncio.Task[ProcessExit], context: ToolRunContext) -> None:
    """Wait until the program has ended, or the user moves it to the background. If cancelled, end the program."""
    requested = asyncio.ensure_future(_wait_for_move(context))
    try:
        await asyncio.wait({program, requested}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        program.cancel()
        try:
            await asyncio.wait({program})
        except asyncio.CancelledError:
            program.cancel()
            raise
        raise
    finally:
        requested.cancel()


async def _wait_for_move(context: ToolRunContext) -> None:
    """Return when the user moves the command to the background; never return if that is not possible."""
    if context.background_requested is None or context.jobs is None:
        await asyncio.Event().wait()
        return
    await context.background_requested.wait()


MAX_WAIT_S = 60.0


class JobsTool:
    """The `jobs` tool, which lists, reads and stops the background commands of `shell`, but no other processes."""

    spec = ToolSpec(
        name="jobs",
        description=(
            "Manage background commands started by shell: list them, read the output of one since the last read, or "
            "stop one."
        ),
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["list", "read", "stop"], "description": "The action."},
                "job": {"type": "integer", "description": "The number of the job, for read and stop."},
                "wait_s": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": MAX_WAIT_S,
                    "description": "For read: maximum seconds to wait for output or the end. Default 0.",
                },
            },
            "required": ["action"],
            "additionalProperties": False,
        },
        is_read_only=True,
        safety="harmless",
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = validate_arguments(self.spec, arguments)
        except Refused as refused:
            return Preview("Manage background jobs?", detail="", refusal=str(refused))
        detail = checked.text("action")
        number = checked.integer("job", 0)
        if number:
            detail = f"{detail} {number}"
        return Preview("Manage background jobs?", detail)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        jobs = context.jobs
        try:
            checked = validate_arguments(self.spec, arguments)
            if jobs is None or not jobs.all:
                return ToolOutcome("No command runs in the background.", summary="none")
            match checked.text("action"):
                case "list":
                    return ToolOutcome("\n".join(map(_job_line, jobs.all)), summary=_running_text(jobs))
                case "stop":
                    job = _named_job(jobs, checked)
                    await jobs.stop(job)
                    return ToolOutcome(
                        f"{job.read()}\n[{_job_line(job)}]".lstrip("\n"), summary=f"job {job.number} {job.state}"
                    )
                case _:
                    return await _read_job(_named_job(jobs, checked), checked.number("wait_s", 0))
        except Refused as refused:
            return failed(f"jobs: {refused}")


def _named_job(jobs: Jobs, arguments: Arguments) -> Job:
    if not arguments.has("job"):
        raise Refused("set job to the number of the job")
    return jobs.find(arguments.integer("job", 0))


async def _read_job(job: Job, wait_s: float) -> ToolOutcome:
    if wait_s > 0 and not job.readable.is_set():
        # Not `asyncio.wait_for`, which loses a cancellation that comes together with the event on Python 3.11.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await job.readable.wait()
    text = job.read() or "[no new output]"
    return ToolOutcome(f"{text}\n[{_job_line(job)}]", summary=f"job {job.number} {job.state}")


def _job_line(job: Job) -> str:
    return f"job {job.number}: {job.state}: {visible(job.command)}"


def _running_text(jobs: Jobs) -> str:
    return f"{len(jobs.running)} of {len(jobs.all)} running"


def started_outcome(job: Job) -> ToolOutcome:
    """Return the result of a call that started a background command."""
    hint = f" Its output is kept in {job.path}." if job.path is not None else ""
    text = f"Job {job.number} runs in the background. Read its output with jobs (read, {job.number}).{hint}"
    return ToolOutcome(text, summary=_in_background(job), shown="")


IN_BACKGROUND = "running in the background"
_JOB_NUMBER = lazy_pattern(rf"{IN_BACKGROUND} \(job (\d+)\)")
_NOTE_ON_MOVE = "[the user moved it to the background as job "
"""The start of the note to the model, which is the last line of the result."""
_NOTHING_YET = "[no output so far]"


def _in_background(job: Job) -> str:
    return f"{IN_BACKGROUND} (job {job.number})"


def background_job(summary: str) -> int | None:
    """Return the number of the job in the summary of a call; None if the call does not run in the background."""
    match = _JOB_NUMBER.fullmatch(summary)
    return int(match[1]) if match is not None else None


def background_result(job: Job, text: str, shown: str) -> ToolOutcome:
    """Return the result of a call whose command the user moved to the background, with its output so far.

    `shown` is that output as the user sees it.
    """
    hint = f" All of it is kept in {job.path}." if job.path is not None else ""
    note = f"{_NOTE_ON_MOVE}{job.number}. This is its output so far; read more with jobs (read, {job.number}).{hint}]"
    body = text.removesuffix("\n") if text.strip() else _NOTHING_YET
    return ToolOutcome(f"{body}\n{note}", summary=_in_background(job), shown=shown)


def without_note_on_move(content: str) -> str:
    """Return the output in the content of a `background_result`, without the note to the model."""
    output, start, note = content.rpartition(_NOTE_ON_MOVE)
    has_note = start and note[:1].isdecimal() and note.endswith("]") and "\n" not in note
    output = output.removesuffix("\n") if has_note else content
    return "" if output == _NOTHING_YET else output
