"""Line input from a descriptor and byte output to one, without blocking the event loop.

The descriptors stay in blocking mode, because the shell and other programs share them. Each write is so small that it
cannot block, so Ctrl+C works while the reader stalls. A thread reads the lines, because asyncio cannot poll files.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import asyncio

_WRITE_BYTES = select.PIPE_BUF
"""POSIX: a pipe that polls writable accepts this much without blocking. It is at least 512, on Linux 4,096."""


class OutputLostError(Exception):
    """Writing failed permanently: the reader has closed the pipe, or, for example, the disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_reader_gone = isinstance(error, BrokenPipeError | ConnectionResetError)


class Pipe:
    """An ordered writer to a binary stream; raises `OutputLostError`.

    The next `write` first writes the unwritten part of a cancelled one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        import asyncio  # loads here, because the first line of the input is read and answered without it

        self._stream = stream
        self._unwritten = bytearray()
        self._sent = 0  # the bytes of `_unwritten` that are written already
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, AttributeError):
            self._descriptor = None
        self._write_lock = asyncio.Lock()
        self._poll = select.poll()
        if self._descriptor is not None:
            stream.flush()
            self._poll.register(self._descriptor, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Write all of `data`, waiting for the reader; cancellation loses no data.

        Several tasks may write: data is written in the order of the calls.
        """
        self._unwritten += data
        async with self._write_lock:
            while not self.push():
                await self._wait_until_writable()

    def push(self, data: bytes = b"") -> bool:
        """Write as much as fits without waiting; return whether everything was written."""
        self._unwritten += data
        try:
            if self._descriptor is None:
                self._stream.write(bytes(self._unwritten))
                self._stream.flush()
            elif not self._push_to(self._descriptor):
                return False
        except OSError as error:
            raise OutputLostError(error) from error
        self._unwritten.clear()
        self._sent = 0
        return True

    def _push_to(self, descriptor: int) -> bool:
        while self._sent < len(self._unwritten):
            if not self._poll.poll(0):
                return False
            try:
                self._sent += os.write(descriptor, self._unwritten[self._sent : self._sent + _WRITE_BYTES])
            except BlockingIOError:
                return False
        return True

    async def _wait_until_writable(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        assert self._descriptor is not None
        loop.add_writer(self._descriptor, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)


MAX_AHEAD_BYTES = 64 * 1024 * 1024
"""The maximum size of the lines that wait to be handled. Above it, the reader pauses, so the writer has to wait."""
REQUEST_OVERHEAD_BYTES = 16 * 1024
"""The bytes that a caller passes to `StdinReader.hold` for each open request, besides the size of its line."""
MAX_LINE_BYTES = 48 * 1024 * 1024
"""The maximum length of a line.

A line can contain several images of the maximum size, or more text than any context window.
"""

_READ_BYTES = 65_536


def read_first_line(descriptor: int) -> bytes:
    """Read until the input has a line that is not blank, and return all input that was read; raise `OSError`.

    This function blocks. If the input has no such line, or the line is too long, the result has no complete line.
    """
    line = bytearray()
    while len(line) <= MAX_LINE_BYTES and (chunk := os.read(descriptor, _READ_BYTES)):
        line += chunk
        if b"\n" in chunk and b"\n" in line.lstrip():
            break
    return bytes(line)


class StdinReader:
    """A thread that reads lines and passes each to `on_line` without its newline, and None for a line too long.

    At the end of the input, `on_end` gets an empty string, or the reason if reading failed. Both functions are called
    in the event loop that runs when the reader is created. `first_bytes` is input that was read before. A line counts
    as handled when `on_line` returns, unless `on_line` calls `hold` with its size; then it counts as waiting until
    `release`. While more than `MAX_AHEAD_BYTES` of lines wait, the reader pauses.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        on_line: Callable[[bytes | None], None],
        on_end: Callable[[str], None],
        max_line_bytes: int = MAX_LINE_BYTES,
        first_bytes: bytes = b"",
    ) -> None:
        import asyncio

        self._descriptor = descriptor
        self._first_bytes = first_bytes
        self._on_line = on_line
        self._on_end = on_end
        self._max_line_bytes = max_line_bytes
        self._unhandled_bytes = 0  # the bytes of the lines that are read and not handled yet
        self._space = threading.Condition()
        self._loop = asyncio.get_running_loop()
        # The thread is never joined: it may block in a read forever.
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def _read(self) -> None:
        reason = ""
        try:
            self._read_lines()
        except OSError as error:
            reason = error.strerror or str(error)
        except RuntimeError:
            # The loop is closed.
            return
        try:
            self._loop.call_soon_threadsafe(self._on_end, reason)
        except RuntimeError:
            return

    def _read_lines(self) -> None:
        partial_line = bytearray()
        is_skipping = False
        while chunk := self._first_bytes or os.read(self._descriptor, _READ_BYTES):
            self._first_bytes = b""
            *line_ends, partial = chunk.split(b"\n")
            for line_end in line_ends:
                partial_line += line_end
                self._enqueue(None if is_skipping or len(partial_line) > self._max_line_bytes else bytes(partial_line))
                partial_line.clear()
                is_skipping = False
            partial_line += partial
            if len(partial_line) > self._max_line_bytes:
                is_skipping = True
                partial_line.clear()
        if partial_line or is_skipping:
            self._enqueue(None if is_skipping else bytes(partial_line))

    def hold(self, size: int) -> None:
        """Count `size` bytes as not yet handled."""
        with self._space:
            self._unhandled_bytes += size

    def release(self, size: int) -> None:
        """Count `size` held bytes as handled."""
        with self._space:
            self._unhandled_bytes -= size
            self._space.notify()

    def _enqueue(self, line: bytes | None) -> None:
        size = len(line or b"")
        with self._space:
            # If no line waits, the next one is passed on even if it is longer than the limit.
            self._space.wait_for(lambda: not self._unhandled_bytes or self._unhandled_bytes + size <= MAX_AHEAD_BYTES)
            self._unhandled_bytes += size
        self._loop.call_soon_threadsafe(self._handle_line, line, size)

    def _handle_line(self, line: bytes | None, size: int) -> None:
        try:
            self._on_line(line)
        finally:
            self.release(size)
