"""Starts a run with `--input-format stream-json`: reads the first line, answers a host, and then opens the agent.

A host is a program that controls the run and begins with a handshake. Separate from `pipe`, which loads the library: a
host waits for this answer, and may send its first message much later.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from qcode.cli.context import pipe_context, with_chosen_session
from qcode.cli.terminal import result_on_failure, write_stdout
from qcode.garbage import without_gc
from qcode.headless.input_lines import handshake_of
from qcode.headless.lines import encode, result_without_turn
from qcode.protocol.errors import ExitCode

if TYPE_CHECKING:
    from qcode.agent.models.selection import Selection
    from qcode.agent.options import Options, RunContext
    from qcode.agent.skills.skill import Skill
    from qcode.cli.pipe import OpenedRun
    from qcode.config.definitions import CustomCommand
    from qcode.headless.host.handshake import Handshake
    from qcode.headless.input_lines import ControlRequest
    from qcode.protocol.errors import ErrorInfo

_CHUNK_BYTES = 65_536


def run_lines(options: Options, unblock_signals: Callable[[], None]) -> int:
    """Run the prompts on standard input; `unblock_signals` unblocks the signals that were blocked until now."""
    request: ControlRequest | None = None

    def failure(error: ErrorInfo | None) -> bytes:
        if request is None:
            return result_without_turn(error, options, options.output_format)
        from qcode.headless.host.lines import host_failure

        return host_failure(error, options)

    with result_on_failure(failure):
        unblock_signals()
        first_bytes = _read_first_line()
        request = handshake_of(first_bytes)
        opened = _open_run(options, request, first_bytes)
    if opened is None:
        return ExitCode.OK
    from qcode.cli.pipe import serve

    return serve(opened)


def _read_first_line() -> bytes:
    from qcode.streams import read_first_line

    try:
        return b"" if sys.stdin is None else read_first_line(sys.stdin.fileno())
    except OSError:
        return b""  # the reader of the lines gets the same error, and reports it


def _open_run(options: Options, request: ControlRequest | None, first_bytes: bytes) -> OpenedRun | None:
    """Open the agent. If `request` is the handshake of a host, return None if the host then closes its input."""
    if request is None:
        _load_library()
        from qcode.cli.pipe import open_run

        return replace(open_run(options), read_input=first_bytes)
    from qcode.headless.host.handshake import Handshake

    return _open_host_run(options, Handshake.read(request.request_id, request.request), first_bytes)


def _open_host_run(options: Options, host: Handshake, first_bytes: bytes) -> OpenedRun | None:
    """Answer the handshake, then open the agent: at once if a session is named, otherwise after the next line.

    Return None if the host closes its input instead.
    """
    from qcode.agent.models.selection import provider_failures, select_at_start

    notices: list[str] = []
    context = with_chosen_session(pipe_context(host.applied_to(options), notices.append))
    kinds, problems = host.kinds()
    notices += problems
    context = replace(
        context,
        is_attended=options.permission_prompt_tool is not None,
        program_agents=kinds,
        program_skills=host.skills,
        plan_instructions=host.plan_instructions,
        servers_can_ask=True,
        offers_patches=False,
    )
    with provider_failures(context.keys):
        selection = select_at_start(context)
    write_stdout(_handshake_answer(context, host, selection))
    # With a named session the agent is opened at once, so that an error about it is reported at once.
    wants_session = context.options.resume or context.options.session_id
    if not wants_session and not _has_more_lines(first_bytes):
        chunk = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
        if not chunk:
            return None
        first_bytes += chunk
    _load_library()
    from qcode.cli.pipe import open_run_in
    from qcode.headless.host.link import HostLink

    link = HostLink()
    hooks, problems = link.hooks(host.hooks)
    notices += problems
    context = replace(context, program_servers=link.connections(host.server_names(options)))
    opened = open_run_in(context, notices.append, selection, hooks)
    return replace(opened, read_input=first_bytes, host=host, link=link, notices=tuple(notices))


def _load_library() -> None:
    """Import the agent."""
    with without_gc():
        from qcode.agent import opening  # noqa: F401
        from qcode.cli import pipe  # noqa: F401


def _handshake_answer(context: RunContext, host: Handshake, selection: Selection) -> bytes:
    from qcode.agent.definitions import kinds_of
    from qcode.headless.host.handshake import handshake_answer, success_response

    commands, skills = _commands_and_skills(context)
    kinds, small = kinds_of(context).kinds, context.settings.small_model
    answer = handshake_answer(commands, skills, kinds, selection.name, small)
    return encode(success_response(host.request_id, answer))


def _commands_and_skills(context: RunContext) -> tuple[tuple[CustomCommand, ...], tuple[Skill, ...]]:
    """Return the custom commands that apply in the folder, and the skills that the user can run."""
    from qcode.agent.definitions import may_have_skills
    from qcode.config.definitions import load_custom_commands

    commands = load_custom_commands(context.user_folder, context.root, reads_project=context.reads_project)
    if not may_have_skills(context):
        return commands.commands, ()
    from qcode.agent.skills.library import SkillLibrary

    library = SkillLibrary(context)
    return library.without_hidden(commands).commands, library.for_user


def _has_more_lines(first_bytes: bytes) -> bool:
    """Return whether the input read so far has more than the first line."""
    return bool(first_bytes.lstrip().partition(b"\n")[2].strip())
