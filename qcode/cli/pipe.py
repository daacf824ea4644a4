"""Pipe mode: gathers the prompt, runs one turn and writes it out."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from qcode import __version__
from qcode.cli.arguments import Arguments
from qcode.cli.failure import StartError
from qcode.cli.prompt import joined, read_standard_input, standard_input
from qcode.cli.start import surroundings, wired
from qcode.cli.wiring import Surroundings, Wired
from qcode.headless.run import run_headless
from qcode.headless.setup import HeadlessSetup
from qcode.runtime.attachments import InputError, attachments


def run_pipe(arguments: Arguments, folder: Path) -> int:
    """Run one prompt and return the exit code."""
    around = surroundings(arguments, folder, is_attended=False)
    for warning in around.settings.warnings:
        sys.stderr.write(f"qcode: {warning}\n")
    typed = arguments.prompt or ""
    try:
        piped = read_standard_input(standard_input(), has_prompt=bool(typed), stderr=sys.stderr)
        attached = attachments(arguments.files, typed, folder)
    except InputError as error:
        raise StartError(str(error), 42) from None
    prompt = joined(piped, typed)
    if not prompt.strip() and not attached:
        raise StartError("there is no prompt: give one after -p or pipe one in", 2)
    ready = wired(around)
    if arguments.is_verbose:
        sys.stderr.write(f"qcode: {ready.selection.name} ({ready.selection.note})\n")
    for notice in ready.notices:
        sys.stderr.write(f"qcode: {notice}\n")
    ready.conversation.attach(attached)
    return asyncio.run(_run(around, ready, prompt))


async def _run(around: Surroundings, ready: Wired, prompt: str) -> int:
    arguments, conversation = around.arguments, ready.conversation
    setup = HeadlessSetup(
        session_id=conversation.session_id,
        cwd=str(around.folder),
        model=conversation.model,
        tools=tuple(tool.name for tool in ready.toolbox.specs),
        permission_mode=conversation.mode,
        version=__version__,
        include_partial_messages=arguments.include_partial_messages,
        is_verbose=arguments.is_verbose,
        is_stderr_tty=os.isatty(2) if sys.stderr is not None else False,
        is_trusted=arguments.is_trusted,
    )
    try:
        return await run_headless(
            conversation,
            prompt,
            format=arguments.output_format,
            stdout=sys.stdout.buffer,
            stderr=sys.stderr.buffer,
            setup=setup,
        )
    finally:
        await conversation.close()
