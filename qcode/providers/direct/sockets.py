"""Connections of the direct way: name to addresses, addresses to a socket, a socket to TLS, bytes out of it.

Names are looked up in a daemon thread, so that a look-up that hangs keeps nobody: neither who cancels, nor the
process from ending. Addresses are tried a quarter of a second apart, whichever answers first (RFC 8305).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TypeAlias

from qcode.providers.direct.errors import BrokenOff, NotReached
from qcode.providers.threads import run_aside

Address: TypeAlias = tuple[int, int, int, str, object]

_HEAD_START_S = 0.25
_HIGH_WATER = 1024 * 1024


class Connection(asyncio.Protocol):
    """One connection as bytes that came; belongs to the event loop it was made in."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        self.idle_limit = 0.0
        self.has_spoken = False
        """Whether a byte has come since the last request was sent."""
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_ended = False
        self._is_paused = False
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_reusable(self) -> bool:
        """The host has neither hung up nor said something unasked."""
        return not self._is_ended and not self._pieces and self._transport is not None

    def send(self, data: bytes) -> None:
        """Send `data`; what cannot be sent shows when the answer is read, which may say why."""
        assert self._transport is not None
        self.has_spoken = False
        self._transport.write(data)

    async def read(self) -> bytes:
        """Return what came, at least one byte; empty at the end. Raise `BrokenOff`."""
        while not self._pieces:
            if self._error is not None:
                raise BrokenOff from self._error
            if self._is_ended:
                return b""
            self._waiting = self.loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close at once, whatever is still under way; safe to call twice."""
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.has_spoken = True
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._is_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ended = True
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, limit: float) -> Connection:
    """Return a connection that is ready to be spoken on; raise `NotReached` after `limit` seconds or a failure."""
    try:
        async with asyncio.timeout(limit):
            sock = await _first_to_answer(await _addresses(host, port))
            name = host if tls is not None else None
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(Connection, sock=sock, ssl=tls, server_hostname=name)
            return connection
    except TimeoutError as error:
        # The system's own limit may be shorter; it has a number.
        raise NotReached(limit if error.errno is None else None) from error
    except (OSError, UnicodeError) as error:
        raise NotReached from error


async def _addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of `host`. Only a name has to be asked for, which may take long."""

    def look_up() -> list[Address]:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    return look_up() if _is_number(host) else await run_aside(look_up)


def _is_number(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


async def _first_to_answer(addresses: list[Address]) -> socket.socket:
    """Return a socket to the address that answers first; raise the failure of the first one where none does."""
    waiting = list(addresses)
    trying: dict[asyncio.Task[socket.socket], int] = {}
    failures: list[tuple[int, OSError]] = []
    try:
        while waiting or trying:
            if waiting:
                trying[asyncio.create_task(_open(waiting.pop(0)))] = len(addresses) - len(waiting)
            head_start = _HEAD_START_S if waiting else None
            done, _ = await asyncio.wait(trying, timeout=head_start, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                place = trying.pop(task)
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failures.append((place, error))
    finally:
        for task in trying:
            task.add_done_callback(_close_late)
            task.cancel()
    raise min(failures, key=lambda failure: failure[0])[1]


async def _open(address: Address) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A model may think for minutes, and what stands between forgets a connection nothing is heard of.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        await asyncio.get_running_loop().sock_connect(sock, where)  # type: ignore[arg-type]  # its family's own shape
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    """Close what a task brings that answered as it was called off."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
