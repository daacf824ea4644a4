"""Pipe mode: gathers the prompt and the schema of `--json-schema`, runs one turn and writes its output.

In the JSON formats, a failure before the first line is also reported as a `result`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.agent import Agent
from qcode.agent.context.memory import may_have_skills
from qcode.agent.options import Options, RunContext
from qcode.agent.permissions import policy_of, why_not_read
from qcode.cli.context import pipe_context, run_context, with_chosen_session
from qcode.cli.terminal import reporting, working_folder, write_stderr
from qcode.headless.lines import result_without_turn
from qcode.headless.run import read_standard_input, run_headless, standard_input, with_piped
from qcode.protocol.approvals import NO_OPTIONS, Spans, TurnOptions
from qcode.protocol.errors import ExitCode, UsageError
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
"""Seconds for a run of a host to clean up after its last turn; the SDKs send a signal after five."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """An opened run. `read_input` is the input that was read so far, `host` the handshake in it, which is answered."""

    agent: Agent
    prompt: str
    turn: TurnOptions
    read_input: bytes = b""
    host: Handshake | None = None
    link: HostLink | None = None
    notices: tuple[str, ...] = ()


def run_pipe(options: Options, release: Callable[[], None]) -> int:
    """Run one prompt and return the exit code; `release` unblocks the signals that were blocked until now."""
    with reporting(partial(result_without_turn, options=options, format=options.output_format)):
        release()
        opened = begin(options)
    return serve(opened)


def serve(opened: OpenedRun) -> int:
    """Run what was opened, and return the exit code."""
    return asyncio.run(_run(opened))


def begin(options: Options) -> OpenedRun:
    """Open the agent of a run without a host."""
    return begin_in(pipe_context(options, write_stderr))


def begin_in(
    context: RunContext,
    report: Callable[[str], None] = write_stderr,
    selection: Selection | None = None,
    hooks: Hooks | None = None,
) -> OpenedRun:
    """Read the prompt, and open the agent. `report` gets lines for the user, `hooks` are functions of a host."""
    options = context.options
    typed, turn = options.prompt or "", NO_OPTIONS
    found = _custom_command(context)
    if found is not None and not (found[0].is_from_project and _is_skill(context, found[0].name)):
        command, arguments = found
        typed, turn = command.expand(arguments), TurnOptions(output=command.output, foreign=command.foreign(arguments))
        if command.model and not options.model:
            named = replace(options, model=command.model)
            context = run_context(named, working_folder(options.cwd), is_attended=False)
    elif typed.startswith("/") and may_have_skills(context):
        return _begin_skill(context, typed, report)
    selection = selection or _checked(context)
    began = time.monotonic()
    prompt, attached = _read_prompt(context, typed, turn.foreign)
    turn = _with_rest_of_time(options, turn, began)
    agent = _open_agent(context, attached, report, selection, hooks)
    return OpenedRun(agent, prompt, replace(turn, typed_text=typed))


def _with_rest_of_time(options: Options, turn: TurnOptions, began: float) -> TurnOptions:
    """Return the options of a turn with the rest of `--timeout`: reading standard input is a part of the run."""
    if options.timeout is None or options.input_format != "text":
        return turn
    return replace(turn, timeout_s=max(0.0, options.timeout - (time.monotonic() - began)))


def _checked(context: RunContext) -> Selection:
    """Return the model; raise `QcodeError` for an invalid rule or model name, before standard input is waited for.

    The agent is opened after that: in `qcode -p A | qcode -c -p B` the session is complete only then.
    """
    from qcode.agent.models.selection import begin_with
    from qcode.agent.permissions import configured_rules

    configured_rules(context.settings)
    return begin_with(context)


def _open_agent(
    context: RunContext,
    attached: tuple[Block, ...] = (),
    report: Callable[[str], None] = write_stderr,
    selection: Selection | None = None,
    hooks: Hooks | None = None,
) -> Agent:
    agent = Agent.begin(with_chosen_session(context), selection, hooks=hooks)
    for notice in (*context.keys.complaints, *agent.notices):
        report(notice)
    agent.conversation.attach(attached)
    return agent


def _is_skill(context: RunContext, name: str) -> bool:
    """Return whether `/name` runs a skill, which wins over a command of the project."""
    if not may_have_skills(context):
        return False
    from qcode.agent.skills.library import Skills

    return any(skill.handle.lower() == name.lower() for skill in Skills(context).for_user)


def _begin_skill(context: RunContext, typed: str, report: Callable[[str], None]) -> OpenedRun:
    """Begin with the prompt of a skill if `typed` names one. The agent judges and runs the commands of the skill."""
    agent, turn, began = _open_agent(context, report=report), NO_OPTIONS, time.monotonic()
    name, _, arguments = typed[1:].partition(" ")
    skill = next(
        (
            skill_command
            for skill_command in agent.skill_commands()
            if skill_command.handle.lower() == name.strip().lower()
        ),
        None,
    )
    try:
        if skill is not None:
            typed, turn = asyncio.run(agent.skill_prompt(skill, arguments.strip()))
            if context.options.model:  # a flag overrides the file, as for a command in TOML
                turn = replace(turn, model="")
        prompt, attached = _read_prompt(context, typed, turn.foreign)
    except BaseException:
        agent.release()
        raise
    agent.conversation.attach(attached)
    turn = _with_rest_of_time(context.options, turn, began)
    return OpenedRun(agent, prompt, replace(turn, typed_text=typed))


def _custom_command(context: RunContext) -> tuple[CustomCommand, str] | None:
    """Return the custom command that was typed, with its arguments; report invalid definitions on stderr."""
    typed = context.options.prompt or ""
    if not typed.startswith("/"):
        return None
    from qcode.config.definitions import load_custom_commands

    found = load_custom_commands(context.user_folder, context.root, is_trusted=context.reads_project)
    for problem in found.problems:
        write_stderr(problem)
    return found.typed(typed)


def _read_prompt(context: RunContext, typed: str, foreign: Spans) -> tuple[str, tuple[Block, ...]]:
    """Return the prompt and its attachments; with `--input-format stream-json` only the attached files."""
    options = context.options
    has_lines = options.input_format == "stream-json"
    piped = (
        ""
        if has_lines or options.no_stdin
        else read_standard_input(standard_input(), note=write_stderr, timeout_s=options.timeout)
    )
    attached: tuple[Block, ...] = ()
    if options.file or "@" in typed:
        from qcode.agent.context.attachments import attachments

        attached = attachments(map(Path, options.file), typed, context.folder, foreign)
    if foreign:
        from qcode.agent.context.attachments import foreign_mentions

        policy = policy_of(context)
        found, left_out = foreign_mentions(typed, context.folder, foreign, lambda path: why_not_read(policy, path))
        attached = (*attached, *found)
        for line in left_out:
            write_stderr(line)
    prompt = with_piped(piped, typed)
    if not has_lines and not prompt.strip() and not attached:
        raise UsageError("there is no prompt: give one after -p or pipe one in")
    return prompt, attached


async def _run(opened: OpenedRun) -> int:
    try:
        code = await _run_replay(opened)
        if code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED):
            _leave_soon(code)
        elif code == ExitCode.LIMIT_REACHED and opened.agent.context.options.timeout is not None:
            _leave_soon(code, HOST_EXIT_TIMEOUT_S)
        return code
    finally:
        await opened.agent.close()


async def _run_replay(opened: OpenedRun) -> int:
    agent, turn, stdout, stderr = opened.agent, opened.turn, sys.stdout.buffer, sys.stderr.buffer
    if agent.context.options.input_format == "text":
        return await run_headless(agent, opened.prompt, stdout=stdout, stderr=stderr, turn=turn)
    stream = standard_input()
    descriptor = os.open(os.devnull, os.O_RDONLY) if stream is None else stream.fileno()
    if opened.host is not None and opened.link is not None:
        from qcode.headless.host.session import run_host

        streams = {"stdout": stdout, "stderr": stderr}
        code = await run_host(
            agent,
            opened.host,
            opened.link,
            descriptor,
            **streams,
            first_bytes=opened.read_input,
            notices=opened.notices,
        )
        _leave_soon(code, HOST_EXIT_TIMEOUT_S)
        return code
    from qcode.headless.exchange import run_exchange

    return await run_exchange(agent, descriptor, stdout=stdout, stderr=stderr, turn=turn, first_bytes=opened.read_input)


def _leave_soon(code: int, timeout_s: float = EXIT_TIMEOUT_S) -> None:
    """Exit in time, even if a thread still runs; all output is already written."""
    leaving = threading.Timer(timeout_s, os._exit, (code,))
    leaving.daemon = True
    leaving.start()
