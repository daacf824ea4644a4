"""Pipe mode: gathers the prompt, runs one turn and writes it out.

Whatever keeps a run from beginning is a `result` as well where one of the JSON formats was asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode import __version__
from qcode.cli.allowing import flags_allowing
from qcode.cli.arguments import Arguments, OutputFormat, UsageError
from qcode.cli.failure import StartError
from qcode.cli.folder import working_folder
from qcode.cli.json_schema import read_schema
from qcode.cli.output import put, say
from qcode.cli.prompt import joined, read_standard_input, standard_input
from qcode.cli.start import wired
from qcode.cli.stopping import Stopped, release
from qcode.cli.surroundings import Surroundings, surroundings
from qcode.cli.trusting import note_for_pipes
from qcode.cli.wiring import Wired
from qcode.config.custom_commands import CustomCommands, load_custom_commands
from qcode.headless.exits import INTERRUPTED, TERMINATED
from qcode.headless.lines import unbegun
from qcode.headless.run import run_headless
from qcode.headless.setup import HeadlessSetup
from qcode.protocol.conversation import NO_OPTIONS, TurnOptions
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.messages import Block
from qcode.protocol.values import dataclass
from qcode.runtime.attachments import InputError, attachments

if TYPE_CHECKING:
    from qcode.headless.schema import AnswerSchema

LEAVING_S = 0.5
"""Seconds an interrupted run has for tidying up; a name that is being looked up cannot be interrupted, for one."""


@dataclass(frozen=True, slots=True)
class _Begun:
    around: Surroundings
    ready: Wired
    prompt: str
    options: TurnOptions
    schema: AnswerSchema | None


def run_pipe(arguments: Arguments) -> int:
    """Run one prompt and return the exit code."""
    with _reported(arguments.output_format, arguments):
        begun = _begin(arguments, working_folder(arguments.cwd))
    return asyncio.run(_run(begun))


def report_usage(error: UsageError, wanted: OutputFormat) -> None:
    """Write the result of a command line that is wrong."""
    put(unbegun(StartError(str(error), 2).info, _setup(None), wanted))


@contextmanager
def _reported(wanted: OutputFormat, arguments: Arguments) -> Iterator[None]:
    """Write a result where what is inside fails, and let the failure go on to the one line for a person."""
    try:
        release()
        yield
    except (KeyboardInterrupt, Stopped):
        put(unbegun(None, _setup(arguments), wanted))
        raise
    except StartError as failure:
        put(unbegun(failure.info, _setup(arguments), wanted))
        raise
    except Exception as fault:
        error = ErrorInfo(ErrorKind.INTERNAL, f"internal error ({type(fault).__name__})")
        put(unbegun(error, _setup(arguments), wanted))
        raise


def _setup(arguments: Arguments | None) -> HeadlessSetup:
    """Return what is known of a run that has not begun."""
    model = arguments.model if arguments is not None else ""
    mode = arguments.mode if arguments is not None else None
    try:
        cwd = str(Path.cwd())
    except OSError:
        cwd = ""
    return HeadlessSetup("", cwd, model or "", (), mode or "default", __version__)


def _begin(arguments: Arguments, folder: Path) -> _Begun:
    schema = read_schema(arguments.json_schema)
    if schema is not None:
        told = "\n\n".join(text for text in (arguments.append_system_prompt, schema.instructions) if text)
        arguments = replace(arguments, append_system_prompt=told)
    around = surroundings(arguments, folder, is_attended=False)
    if schema is not None:
        around = replace(around, check=schema.complaint)
    if not around.is_trusted and (note := note_for_pipes(around.root, around.paths.state_dir, sys.argv[1:])):
        say(note)
    for warning in around.settings.warnings:
        say(warning)
    typed, options = arguments.prompt or "", NO_OPTIONS
    found = _custom_commands(around).typed(typed)
    if found is not None:
        command, given = found
        typed, options = command.expand(given), TurnOptions(output=command.output)
        model = arguments.model or command.model or None
        around = replace(around, arguments=replace(around.arguments, model=model))
    prompt, attached = _asked(arguments, typed, folder)
    ready = wired(around)
    for notice in (*around.keys.complaints, *ready.notices):
        say(notice)
    ready.conversation.attach(attached)
    return _Begun(around, ready, prompt, options, schema)


def _custom_commands(around: Surroundings) -> CustomCommands:
    """Read the commands where one may be meant; what cannot be used is said on standard error."""
    if not (around.arguments.prompt or "").startswith("/"):
        return CustomCommands()
    found = load_custom_commands(around.paths.config_dir, around.root, is_trusted=around.is_trusted)
    for problem in found.problems:
        say(problem)
    return found


def _asked(arguments: Arguments, typed: str, folder: Path) -> tuple[str, tuple[Block, ...]]:
    """Return the prompt with what goes before it; of a run that gets its prompts as lines, only the files."""
    has_lines = arguments.input_format == "stream-json"
    try:
        piped = "" if has_lines else read_standard_input(standard_input(), has_prompt=bool(typed), note=say)
        attached = attachments(arguments.files, typed, folder)
    except InputError as error:
        raise StartError(str(error), 42) from None
    prompt = joined(piped, typed)
    if not has_lines and not prompt.strip() and not attached:
        raise StartError("there is no prompt: give one after -p or pipe one in", 2)
    return prompt, attached


async def _run(begun: _Begun) -> int:
    around, conversation = begun.around, begun.ready.conversation
    arguments, selection = around.arguments, begun.ready.selection
    toolbox = begun.ready.toolbox

    def tools() -> tuple[str, ...]:
        return tuple(tool.name for tool in conversation.tools)

    async def late_tools() -> tuple[str, ...]:
        if toolbox.servers is not None:
            await toolbox.servers.settle()
        return tools()

    setup = HeadlessSetup(
        session_id=conversation.session_id,
        cwd=str(around.folder),
        model=conversation.model,
        tools=tools(),
        permission_mode=conversation.mode,
        version=__version__,
        include_partial_messages=arguments.include_partial_messages,
        is_verbose=arguments.is_verbose,
        is_stderr_tty=os.isatty(2),
        model_note=selection.note,
        options=begun.options,
        schema=begun.schema,
        allowing=lambda calls: flags_allowing(conversation.policy, calls),
        late_tools=late_tools if toolbox.servers is not None else None,
    )
    try:
        code = await _played(begun, setup)
        if code in (INTERRUPTED, TERMINATED):
            _leave_soon(code)
        return code
    finally:
        await conversation.close()


async def _played(begun: _Begun, setup: HeadlessSetup) -> int:
    conversation, arguments = begun.ready.conversation, begun.around.arguments
    stdout, stderr = sys.stdout.buffer, sys.stderr.buffer
    if arguments.input_format == "text":
        return await run_headless(
            conversation, begun.prompt, format=arguments.output_format, stdout=stdout, stderr=stderr, setup=setup
        )
    from qcode.headless.exchange import run_exchange

    stream = standard_input()
    descriptor = os.open(os.devnull, os.O_RDONLY) if stream is None else stream.fileno()
    return await run_exchange(
        conversation, descriptor, stdout=stdout, stderr=stderr, setup=setup, attach=conversation.attach
    )


def _leave_soon(code: int) -> None:
    """Exit within `LEAVING_S` whatever still runs in a thread; everything is written by now."""
    leaving = threading.Timer(LEAVING_S, os._exit, (code,))
    leaving.daemon = True
    leaving.start()
