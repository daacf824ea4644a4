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
from dataclasses import dataclass
from pathlib import Path

from qcode import __version__
from qcode.cli.allowing import flags_allowing
from qcode.cli.arguments import Arguments, OutputFormat, UsageError
from qcode.cli.failure import StartError
from qcode.cli.folder import working_folder
from qcode.cli.output import put, say
from qcode.cli.prompt import joined, read_standard_input, standard_input
from qcode.cli.start import surroundings, wired
from qcode.cli.stopping import Stopped, release
from qcode.cli.wiring import Surroundings, Wired
from qcode.headless.exits import INTERRUPTED, TERMINATED
from qcode.headless.lines import unbegun
from qcode.headless.run import run_headless
from qcode.headless.setup import HeadlessSetup
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.runtime.attachments import InputError, attachments

LEAVING_S = 0.5
"""Seconds an interrupted run has for tidying up; a name that is being looked up cannot be interrupted, for one."""


@dataclass(frozen=True, slots=True)
class _Begun:
    around: Surroundings
    ready: Wired
    prompt: str


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
    around = surroundings(arguments, folder, is_attended=False)
    for warning in around.settings.warnings:
        say(warning)
    typed = arguments.prompt or ""
    try:
        piped = read_standard_input(standard_input(), has_prompt=bool(typed), note=say)
        attached = attachments(arguments.files, typed, folder)
    except InputError as error:
        raise StartError(str(error), 42) from None
    prompt = joined(piped, typed)
    if not prompt.strip() and not attached:
        raise StartError("there is no prompt: give one after -p or pipe one in", 2)
    ready = wired(around)
    for notice in (*around.keys.complaints, *ready.notices):
        say(notice)
    ready.conversation.attach(attached)
    return _Begun(around, ready, prompt)


async def _run(begun: _Begun) -> int:
    around, conversation = begun.around, begun.ready.conversation
    arguments, selection = around.arguments, begun.ready.selection
    setup = HeadlessSetup(
        session_id=conversation.session_id,
        cwd=str(around.folder),
        model=conversation.model,
        tools=tuple(tool.name for tool in begun.ready.toolbox.specs(selection.model)),
        permission_mode=conversation.mode,
        version=__version__,
        include_partial_messages=arguments.include_partial_messages,
        is_verbose=arguments.is_verbose,
        is_stderr_tty=os.isatty(2),
        model_note=selection.note,
        allowing=lambda calls: flags_allowing(conversation.policy, calls),
    )
    try:
        code = await run_headless(
            conversation,
            begun.prompt,
            format=arguments.output_format,
            stdout=sys.stdout.buffer,
            stderr=sys.stderr.buffer,
            setup=setup,
        )
        if code in (INTERRUPTED, TERMINATED):
            _leave_soon(code)
        return code
    finally:
        await conversation.close()


def _leave_soon(code: int) -> None:
    """Exit within `LEAVING_S` whatever still runs in a thread; everything is written by now."""
    leaving = threading.Timer(LEAVING_S, os._exit, (code,))
    leaving.daemon = True
    leaving.start()
