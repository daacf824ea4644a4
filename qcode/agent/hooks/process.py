"""Runs the command of a hook, with its input on stdin, an output limit, and a time limit for the process group.

Separate from `runner`: an application that embeds qcode with Python functions as hooks does not need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from qcode.agent.hooks.answers import HookAnswer, answer_from_exit, failed
from qcode.agent.hooks.events import HookCommand
from qcode.protocol.tools import Launch
from qcode.tools.processes import Process, end_program, start_program
from qcode.values import dataclass

MAX_OUTPUT_BYTES = 1024 * 1024
"""The maximum size of stdout, and of stderr; further output is dropped."""
TERM_GRACE_S = 2.0
"""Seconds between the request to end (SIGTERM) and SIGKILL."""
_LAST_OUTPUT_S = 0.2
"""Seconds to wait for the end of the output after the command has exited."""
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The result of running a command."""

    answer: HookAnswer
    code: int | None = None
    """The exit code, negative for a signal; None if the command did not start, or did not end in time."""


async def run_command(
    command: HookCommand,
    event: str,
    stdin_data: bytes,
    *,
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
) -> CommandRun:
    """Run a command and return its answer. The process group of the command ends before this returns or raises."""
    argv = command.argv or ("bash", "--noprofile", "--norc", "-c", command.line)
    with _Output() as stdout, _Output() as stderr, _Input(stdin_data) as stdin:
        try:
            process = await start_program(
                Launch(argv),
                cwd=folder,
                environment=environment,
                stdout=stdout.child_fd,
                stderr=stderr.child_fd,
                stdin=stdin.child_fd,
            )
        except OSError as error:
            return CommandRun(failed(f"it could not be started: {error.strerror or error}"))
        for stream in (stdout, stderr, stdin):
            stream.begin()
        try:
            code = await _exit_code(process, (stdout, stderr), timeout_s)
        finally:
            await end_program(process, TERM_GRACE_S)
    if code is None:
        return CommandRun(failed(f"it took longer than {timeout_s:g} s"))
    return CommandRun(answer_from_exit(event, code, stdout.text, stderr.text), code)


async def _exit_code(process: Process, outputs: tuple[_Output, ...], timeout_s: float) -> int | None:
    """Wait for the end of the process and its output, and return the exit code; None if the process takes too long."""
    try:
        async with asyncio.timeout(timeout_s):
            code = await process.wait()
    except TimeoutError:
        return None
    # A background process of the command may keep the pipes open.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_OUTPUT_S):
            for output in outputs:
                await output.is_complete.wait()
    return code


class _Pipe:
    """A pipe between qcode and a program. The event loop reads or writes qcode's end."""

    def __init__(self, own_fd: int, child_fd: int) -> None:
        self._own_fd = own_fd
        self.child_fd = child_fd
        self._is_begun = False
        os.set_blocking(own_fd, False)

    def __enter__(self) -> _Pipe:
        return self

    def begin(self) -> None:
        """Begin to read or write, and close this process's copy of the program's end.

        Call this after the program has started, which then has its own copy.
        """
        self._is_begun = True
        os.close(self.child_fd)

    def __exit__(self, *exception: object) -> None:
        if not self._is_begun:
            os.close(self.child_fd)
        self._close()

    def _close(self) -> None:
        """Close qcode's end. Idempotent."""
        if self._own_fd >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._own_fd)
            loop.remove_writer(self._own_fd)
            os.close(self._own_fd)
            self._own_fd = -1


class _Output(_Pipe):
    """The first `MAX_OUTPUT_BYTES` of an output. Further output is read and dropped, so the program never blocks."""

    def __init__(self) -> None:
        own_fd, child_fd = os.pipe()  # the read end, and the write end
        super().__init__(own_fd, child_fd)
        self._collected = bytearray()
        self.is_complete = asyncio.Event()

    def __enter__(self) -> _Output:
        return self

    def begin(self) -> None:
        super().begin()
        asyncio.get_running_loop().add_reader(self._own_fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._own_fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        self._collected += data[: MAX_OUTPUT_BYTES - len(self._collected)]
        if not data:
            self._close()
            self.is_complete.set()

    @property
    def text(self) -> str:
        return self._collected.decode("utf-8", "replace")


class _Input(_Pipe):
    """The input of a program, which may exit without reading all of it."""

    def __init__(self, data: bytes) -> None:
        child_fd, own_fd = os.pipe()  # the read end, and the write end
        super().__init__(own_fd, child_fd)
        self._unwritten = memoryview(data)

    def begin(self) -> None:
        super().begin()
        asyncio.get_running_loop().add_writer(self._own_fd, self._write)

    def _write(self) -> None:
        try:
            if self._unwritten:
                written = os.write(self._own_fd, self._unwritten[:_CHUNK_BYTES])
                self._unwritten = self._unwritten[written:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._unwritten = self._unwritten[:0]  # the program reads no more, so the rest is dropped
        if not self._unwritten:
            self._close()
