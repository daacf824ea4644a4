"""Runs a program in its own process group, and ends all of it: at its limit, when cancelled, and when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qcode.protocol.values import dataclass

_TERM_GRACE_S = 0.1
_STEP_S = 0.01
_OUTPUT_GRACE_S = 0.1
_LAST_OUTPUT_S = 1.0
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code (negative: the signal), and whether the limit or a leftover was ended."""

    exit_code: int
    is_timed_out: bool = False
    had_leftovers: bool = False


class TimeLimit:
    """The seconds a program may run; they can be given anew while it does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: asyncio.Timeout | None = None

    def move(self, seconds: float) -> None:
        """Let the program run for so many seconds from now on."""
        self._seconds = seconds
        if self._running is not None and not self._running.expired():
            self._running.reschedule(asyncio.get_running_loop().time() + seconds)

    async def wait(self, process: asyncio.subprocess.Process) -> int:
        """Return the exit code of the program; raise `TimeoutError` where it takes longer."""
        async with asyncio.timeout(self._seconds) as self._running:
            return await process.wait()


async def run_program(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout_s: float | TimeLimit,
) -> Ended:
    """Run `argv` without input until it exits; its output and errors arrive together at `on_output`.

    When this returns or raises, nothing of its process group runs any more. Raises `OSError` where it cannot start.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    loop = asyncio.get_running_loop()
    is_drained = asyncio.Event()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=cwd,
                env=dict(environment),
                start_new_session=True,  # a group of its own, and no terminal to talk to
            )
        finally:
            os.close(writing)
        loop.add_reader(reading, _pump, loop, reading, on_output, is_drained)
        try:
            limit = timeout_s if isinstance(timeout_s, TimeLimit) else TimeLimit(timeout_s)
            ended = await _wait(process, is_drained, limit)
        finally:
            await end_surely(process)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(is_drained.wait(), _LAST_OUTPUT_S)
        return ended
    finally:
        loop.remove_reader(reading)
        os.close(reading)


async def _wait(process: asyncio.subprocess.Process, is_drained: asyncio.Event, limit: TimeLimit) -> Ended:
    try:
        exit_code = await limit.wait(process)
    except TimeoutError:
        await end_surely(process)
        return Ended(await process.wait(), is_timed_out=True)
    had_leftovers = False
    try:
        await asyncio.wait_for(is_drained.wait(), _OUTPUT_GRACE_S)
    except TimeoutError:
        had_leftovers = True
    return Ended(exit_code, had_leftovers=had_leftovers or _has_members(process.pid))


async def end_surely(process: asyncio.subprocess.Process) -> None:
    """End the group; where even this is cancelled, without waiting."""
    try:
        await _end_group(process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _LAST_OUTPUT_S)  # reaped here, so that nothing waits for it later
    except asyncio.CancelledError:
        _signal(process.pid, signal.SIGKILL)
        raise


async def _end_group(group: int) -> None:
    if not _signal(group, signal.SIGTERM):
        return
    waited = 0.0
    while waited < _TERM_GRACE_S and _has_members(group):
        await asyncio.sleep(_STEP_S)
        waited += _STEP_S
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Send a signal to all of a group; return whether there was one."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _has_members(group: int) -> bool:
    """Return whether a group has a member that is more than a zombie nobody has reaped yet."""
    if not _signal(group, 0):
        return False
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        return True
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # After the name in brackets, which may hold anything: state, parent, group (proc(5)).
                state, _, member = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
                if int(member) == group and state not in "ZX":
                    return True
    return False


def _pump(
    loop: asyncio.AbstractEventLoop, reading: int, on_output: Callable[[bytes], None], is_drained: asyncio.Event
) -> None:
    try:
        data = os.read(reading, _CHUNK)
    except BlockingIOError:
        return
    if data:
        on_output(data)
    else:
        loop.remove_reader(reading)
        is_drained.set()
