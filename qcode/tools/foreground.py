"""A command that its call waits for: until it ends, or until the person lets it go on in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.tools.jobs import LONGEST_S, Job
from qcode.tools.output import Collector, Live
from qcode.tools.processes import Ended, TimeLimit, run_program
from qcode.tools.tool import ToolContext

_LIVE_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Waited:
    """What came of waiting. `text` is the output as the model sees it; `ended` is None where `job` goes on with it."""

    text: str
    ended: Ended | None = None
    job: Job | None = None


async def wait_for(
    argv: list[str],
    command: str,
    timeout_s: float,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    scratch: Path,
    context: ToolContext,
) -> Waited:
    """Run a command and wait for it. Cancelled, it and all it started are ended; raise `OSError` if it cannot start.

    What went to the background is not under its time limit any more, and all of its output is in the job's file.
    """
    collector = Collector(context.max_output_chars, lambda: scratch)
    live = Live(context.output)
    job: Job | None = None

    def take(data: bytes) -> None:
        if job is None:
            live.add(collector.feed(data))
        else:
            job.take(data)

    limit = TimeLimit(timeout_s)
    program = asyncio.ensure_future(
        run_program(argv, cwd=cwd, environment=environment, on_output=take, timeout_s=limit)
    )
    showing = asyncio.ensure_future(_show(live))
    try:
        if not await _is_over(program, context) and context.jobs is not None:
            limit.move(LONGEST_S)
            whole, half = collector.so_far()
            job = context.jobs.adopt(command, program, whole, half, scratch=scratch, limit=context.max_output_chars)
            return Waited(collector.close(), job=job)
        return Waited(text=collector.close(), ended=program.result())
    finally:
        showing.cancel()
        collector.close()
        live.flush()


async def _is_over(program: asyncio.Task[Ended], context: ToolContext) -> bool:
    """Wait until the program has ended; return False where the person wants it in the background before that."""
    asked = asyncio.ensure_future(_asked(context))
    try:
        await asyncio.wait({program, asked}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        program.cancel()
        try:
            await asyncio.wait({program})
        except asyncio.CancelledError:
            program.cancel()
            raise
        raise
    finally:
        asked.cancel()
    return program.done()


async def _asked(context: ToolContext) -> None:
    """Return when the person asks for it; never where nothing can go on in the background."""
    if context.goes_on is None or context.jobs is None:
        await asyncio.Event().wait()
        return
    await context.goes_on.wait()


async def _show(live: Live) -> None:
    while True:
        await asyncio.sleep(_LIVE_EVERY_S)
        live.flush()
