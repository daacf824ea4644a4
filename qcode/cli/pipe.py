"""Pipe mode: reads the prompt and attachments, runs one turn and writes its output.

In the JSON formats, a failure before the first line is also reported as a `result`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qcode.agent.agent import Agent
from qcode.agent.definitions import may_have_skills
from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.permissions import policy_of, why_not_read
from qcode.cli.context import pipe_context, run_context, with_chosen_session
from qcode.cli.terminal import read_standard_input, result_on_failure, standard_input, working_folder, write_stderr
from qcode.garbage import without_gc
from qcode.headless.lines import result_without_turn
from qcode.headless.run import run_headless
from qcode.protocol.approvals import NO_OPTIONS, Spans, TurnOptions
from qcode.protocol.errors import ExitCode, InputError, QcodeError, UsageError
from qcode.protocol.messages import Block
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Hooks
    from qcode.agent.models.selection import Selection
    from qcode.config.definitions import CustomCommand
    from qcode.headless.host.handshake import Handshake
    from qcode.headless.host.link import HostLink

EXIT_TIMEOUT_S = 0.5
"""Seconds for an interrupted run to clean up; a DNS lookup, for example, cannot be interrupted."""
HOST_EXIT_TIMEOUT_S = 4.0
"""Seconds for a run under a host to clean up after its last turn; the SDKs send a signal after five."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run whose agent is open."""

    agent: Agent
    prompt: str
    turn: TurnOptions
    read_input: bytes = b""
    """The input lines read so far."""
    host: Handshake | None = None
    """The handshake in `read_input`, which has been answered; None without a host."""
    link: HostLink | None = None
    """The connection to the host."""
    notices: tuple[str, ...] = ()
    """Lines for the user of the host."""


def run_pipe(options: Options, unblock_signals: Callable[[], None]) -> int:
    """Run one prompt and return the exit code; `unblock_signals` unblocks the signals that were blocked until now."""
    with result_on_failure(partial(result_without_turn, options=options, format=options.output_format)):
        unblock_signals()
        with _time_limit(options), without_gc():
            opened = open_run(options)
            if options.timeout is not None:
                remaining_s = signal.getitimer(signal.ITIMER_REAL)[0]
                opened = replace(opened, turn=replace(opened.turn, timeout_s=remaining_s))
    return serve(opened)


class _StartTimeout(KeyboardInterrupt):
    """The limit of `--timeout` is reached before the turn begins. This exception interrupts any blocking call."""


@contextmanager
def _time_limit(options: Options) -> Iterator[None]:
    """Interrupt the blocking `with` block at the limit of `--timeout`, and raise `QcodeError`."""

    def end(number: int, frame: object) -> NoReturn:
        raise _StartTimeout

    if options.timeout is None:
        yield
        return
    previous_handler = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, options.timeout)
    try:
        yield
    except _StartTimeout:
        raise QcodeError("the turn could not begin within the limit of --timeout", ExitCode.LIMIT_REACHED) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)


def serve(opened: OpenedRun) -> int:
    """Run the opened agent, and return the exit code."""
    return asyncio.run(_run(opened))


def open_run(options: Options) -> OpenedRun:
    """Open the agent of a run without a host."""
    return open_run_in(pipe_context(options, write_stderr))


def open_run_in(
    context: RunContext,
    report: Callable[[str], None] = write_stderr,
    selection: Selection | None = None,
    hooks: Hooks | None = None,
) -> OpenedRun:
    """Read the prompt, and open the agent. `report` gets lines for the user, `hooks` are functions of a host."""
    options = context.options
    typed = options.prompt or ""
    turn = NO_OPTIONS
    match = _custom_command(context)
    if match is not None:
        command, arguments = match
        typed = command.expand(arguments)
        turn = TurnOptions(output=command.output, external_spans=command.project_ranges(arguments))
        if command.model and not options.model:
            options = replace(options, model=command.model)
            context = run_context(options, working_folder(options.cwd), is_attended=False)
            selection = replace(selection or _checked_selection(context), note=f"named by /{command.name}")
    elif typed.startswith("/") and may_have_skills(context):
        return _open_skill_run(context, typed, report)
    selection = selection or _checked_selection(context)
    prompt, attached = _read_prompt(context, typed, turn.external_spans)
    agent = _open_agent(context, attached, report, selection, hooks)
    _report_missing(agent, typed, turn.external_spans)
    return OpenedRun(agent, prompt, replace(turn, typed_text=typed))


def _checked_selection(context: RunContext) -> Selection:
    """Return the model of the run; raise `QcodeError` if the model, a file or a session cannot be used.

    These checks run before standard input is read, and the agent is opened afterwards. In `qcode -p A | qcode -c -p B`,
    the session is complete only at the end of the input.
    """
    from qcode.agent.models.client import check_connection
    from qcode.agent.models.selection import provider_failures, select_at_start
    from qcode.agent.permissions import configured_rules

    options = context.options
    configured_rules(context.settings)
    selection = select_at_start(context)
    if _reads_input(options):
        with provider_failures(context.keys):
            check_connection(context, selection)
        _check_files(context)
    return selection


def _check_files(context: RunContext) -> None:
    """Raise `QcodeError` if a file or the session of a flag cannot be used."""
    options = context.options
    if options.file:
        from qcode.agent.context.attachments import check_attachable

        check_attachable(map(str, options.file), context.folder)
    if options.mcp_config:
        from qcode.agent.mcp.spec import check_config_files

        check_config_files(options.mcp_config)
    with_chosen_session(context)
    if options.resume not in (None, LATEST):
        from qcode.agent.sessions.store import SessionStore

        SessionStore(context.paths.state_dir, context.root).find(options.resume)
    for flag, path in (("--record", options.record), ("--debug-log", options.debug_log)):
        if path is not None:
            _check_writable(flag, Path(path))


def _check_writable(flag: str, path: Path) -> None:
    try:
        path.touch(mode=0o600, exist_ok=True)
        if path.is_file():  # the reader of a pipe would notice that it is opened
            path.open("ab").close()
    except OSError as error:
        raise InputError(f"cannot write {flag} {path}: {error.strerror}") from None


def _reads_input(options: Options) -> bool:
    """Return whether the prompt may be on standard input."""
    return options.input_format == "text" and not options.no_stdin


def _report_missing(agent: Agent, typed: str, external_spans: Spans) -> None:
    """Report each `@path` of the user that is neither a file nor a resource of a tool server."""
    if "@" in typed:
        from qcode.agent.context.attachments import missing_mention_lines

        for line in missing_mention_lines(typed, agent.context.folder, external_spans, agent.toolbox.names_resource):
            write_stderr(line)


def _open_agent(
    context: RunContext,
    attached: tuple[Block, ...] = (),
    report: Callable[[str], None] = write_stderr,
    selection: Selection | None = None,
    hooks: Hooks | None = None,
) -> Agent:
    """Open the agent with the attachments, and report its notices."""
    agent = Agent.begin(with_chosen_session(context), selection, hooks=hooks)
    for notice in (*context.keys.problems, *agent.notices, *agent.prompts.instructions.notices):
        report(notice)
    agent.conversation.attach(attached)
    return agent


def _is_skill(context: RunContext, name: str) -> bool:
    """Return whether `/name` runs a skill, which takes precedence over a command of the project."""
    if not may_have_skills(context):
        return False
    from qcode.agent.skills.library import SkillLibrary

    return any(skill.handle.lower() == name.lower() for skill in SkillLibrary(context).for_user)


def _open_skill_run(context: RunContext, typed: str, report: Callable[[str], None]) -> OpenedRun:
    """Open a run with the prompt of a skill, if `typed` names one. The agent judges and runs the skill's commands."""
    agent = _open_agent(context, report=report)
    turn = NO_OPTIONS
    match = None if agent.skills is None else agent.skills.match_typed(typed)
    try:
        if match is not None:
            skill_prompt = asyncio.run(agent.skill_prompt(match.skill, match.arguments))
            typed, turn = skill_prompt.text, skill_prompt.options
            if context.options.model:  # a flag overrides the file, as for a command in TOML
                turn = replace(turn, model="")
        prompt, attached = _read_prompt(context, typed, turn.external_spans)
    except BaseException:
        agent.release()
        raise
    agent.conversation.attach(attached)
    _report_missing(agent, typed, turn.external_spans)
    return OpenedRun(agent, prompt, replace(turn, typed_text=typed))


def _custom_command(context: RunContext) -> tuple[CustomCommand, str] | None:
    """Return the custom command that was typed, with its arguments, None for a skill and for any other prompt.

    Report invalid definitions on stderr.
    """
    typed = context.options.prompt or ""
    if not typed.startswith("/"):
        return None
    from qcode.config.definitions import load_custom_commands

    commands = load_custom_commands(context.user_folder, context.root, reads_project=context.reads_project)
    for problem in commands.problems:
        write_stderr(problem)
    match = commands.match_command(typed)
    if match is None:
        return None
    command, _ = match
    is_skill = command.is_from_project and _is_skill(context, command.name)
    return None if is_skill else match


def join_prompt(piped: str, typed: str | None) -> str:
    """Return the prompt: the piped text, followed by the typed text."""
    if not typed:
        return piped
    return f"{piped.rstrip()}\n\n{typed}" if piped.strip() else typed


def _read_prompt(context: RunContext, typed: str, external_spans: Spans) -> tuple[str, tuple[Block, ...]]:
    """Return the prompt and its attachments; with `--input-format stream-json` only the attached files.

    Raise `QcodeError` if there is no prompt, or if an attachment cannot be read.
    """
    options = context.options
    has_lines = options.input_format == "stream-json"
    try:
        piped = read_standard_input(standard_input(), note=write_stderr) if _reads_input(options) else ""
    except _StartTimeout:
        text = "standard input did not end within the limit of --timeout"
        raise QcodeError(text, ExitCode.LIMIT_REACHED) from None
    attached: tuple[Block, ...] = ()
    if options.file or "@" in typed:
        from qcode.agent.context.attachments import attach_files

        attached = attach_files(map(Path, options.file), typed, context.folder, external_spans)
    if external_spans:
        from qcode.agent.context.attachments import attach_external_mentions

        policy = policy_of(context)
        mentioned = attach_external_mentions(
            typed, context.folder, external_spans, lambda path: why_not_read(policy, path)
        )
        attached = (*attached, *mentioned.blocks)
        for line in mentioned.problems:
            write_stderr(line)
    prompt = join_prompt(piped, typed)
    if not has_lines and not prompt.strip() and not attached:
        raise UsageError("there is no prompt: give one after -p or pipe one in")
    return prompt, attached


async def _run(opened: OpenedRun) -> int:
    try:
        code = await _run_by_format(opened)
        if code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
            _force_exit_after(code)
        elif code == ExitCode.LIMIT_REACHED and opened.agent.context.options.timeout is not None:
            _force_exit_after(code, HOST_EXIT_TIMEOUT_S)
        return code
    finally:
        await opened.agent.close()


async def _run_by_format(opened: OpenedRun) -> int:
    """Run one prompt, the prompts of lines on stdin, or a host; return the exit code."""
    agent, turn, stdout, stderr = opened.agent, opened.turn, sys.stdout.buffer, sys.stderr.buffer
    if agent.context.options.input_format == "text":
        return await run_headless(agent, opened.prompt, stdout=stdout, stderr=stderr, turn=turn)
    stream = standard_input()
    descriptor = os.open(os.devnull, os.O_RDONLY) if stream is None else stream.fileno()
    if opened.host is not None and opened.link is not None:
        from qcode.headless.host.session import run_host

        code = await run_host(
            agent,
            opened.host,
            opened.link,
            descriptor,
            stdout=stdout,
            stderr=stderr,
            first_bytes=opened.read_input,
            notices=opened.notices,
        )
        _force_exit_after(code, HOST_EXIT_TIMEOUT_S)
        return code
    from qcode.headless.exchange import run_exchange

    return await run_exchange(agent, descriptor, stdout=stdout, stderr=stderr, turn=turn, first_bytes=opened.read_input)


def _force_exit_after(code: int, timeout_s: float = EXIT_TIMEOUT_S) -> None:
    """Exit within `timeout_s` seconds, even if a thread still runs; all output is already written."""
    timer = threading.Timer(timeout_s, os._exit, (code,))
    timer.daemon = True
    timer.start()
