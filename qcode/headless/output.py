"""Writes bytes to a descriptor without blocking the loop, so that Ctrl+C works while the reader stalls.

The descriptor stays in blocking mode, because it is shared with the shell and other programs. Each write is so small
that it cannot block.
"""

from __future__ import annotations

import asyncio
import os
import select
from typing import BinaryIO

# POSIX: a pipe that polls writable accepts this much without blocking (PIPE_BUF is at least 512, on Linux 4,096).
_CHUNK = select.PIPE_BUF


class OutputLostError(Exception):
    """Writing failed permanently: the reader has closed the pipe, or, for example, the disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_reader_gone = isinstance(error, BrokenPipeError | ConnectionResetError)


class Pipe:
    """An ordered writer to a binary stream; raises `OutputLostError`.

    The rest of a cancelled `write` is written first by the next one.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest = bytearray()
        self._sent = 0
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, AttributeError):
            self._descriptor = None
        self._poll = select.poll()
        if self._descriptor is not None:
            stream.flush()
            self._poll.register(self._descriptor, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Write all of `data`, waiting for the reader; cancellation loses no data."""
        self._rest += data
        while not self.push():
            await self._writable()

    def push(self, data: bytes = b"") -> bool:
        """Write as much as fits without waiting; return whether everything was written."""
        self._rest += data
        try:
            if self._descriptor is None:
                self._stream.write(bytes(self._rest))
                self._stream.flush()
            elif not self._push_to(self._descriptor):
                return False
        except OSError as error:
            raise OutputLostError(error) from error
        self._rest.clear()
        self._sent = 0
        return True

    def _push_to(self, descriptor: int) -> bool:
        while self._sent < len(self._rest):
            if not self._poll.poll(0):
                return False
            try:
                self._sent += os.write(descriptor, self._rest[self._sent : self._sent + _CHUNK])
            except BlockingIOError:
                return False
        return True

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        assert self._descriptor is not None
        loop.add_writer(self._descriptor, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)
