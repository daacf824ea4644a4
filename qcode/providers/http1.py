"""HTTP/1.1 over asyncio for one request at a time: connections, request heads, response parsing.

httptools parses responses. It is imported after the first request is sent, so the request does not wait for the import.
A response whose end is unclear raises `ValueError`, because a truncated body must not look complete. Host names are
resolved in a daemon thread, so a hanging DNS lookup blocks neither cancellation nor exit. Addresses are tried a quarter
of a second apart, and the first to connect wins (RFC 8305).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from qcode.providers.sdk import run_in_thread
from qcode.text.clean import quoted
from qcode.text.pattern import lazy_pattern

MAX_HEAD_BYTES = 256 * 1024
"""The maximum size of the status line and the headers."""
MAX_LINE_BYTES = 16 * 1024
"""The maximum number of consecutive bytes of chunk sizes, extensions and trailers, without a byte of the body."""

ACCEPTED = "gzip, deflate"
"""The content codings that `Inflater` decodes."""

Address: TypeAlias = tuple[int, int, int, str, object]
"""A row of `socket.getaddrinfo`: family, type, protocol, canonical name, socket address."""

HEAD_START_S = 0.25
"""The time in seconds after which the next address is tried as well."""
_MAX_BUFFERED_BYTES = 1024 * 1024
"""Receiving pauses if more received bytes than this are unread."""
_MAX_INFLATED_BYTES = 1024 * 1024
"""The maximum size of a decoded block."""
_GZIP_START = b"\x1f"
"""The first byte of a gzip member. The second byte may not be received yet."""
_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = lazy_pattern(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class ConnectFailed(ConnectionError):  # noqa: N818 - describes the connection
    """No connection was made, because of DNS, the route, the server or TLS."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__("not reached")
        self.seconds = seconds
        """The time limit that was exceeded, None for any other failure."""


class ConnectionBroken(ConnectionError):  # noqa: N818
    """The connection broke, or its data was invalid, before the end of the response."""


def write_head(method: str, target: str, headers: Mapping[str, str], version: str = "1.1") -> bytes:
    """Return the head of a request. Raise `ValueError` for a header that HTTP forbids, without quoting its value."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("a header contains characters that HTTP does not allow")
    lines = (f"{method} {target} HTTP/{version}", *(f"{name}: {value.strip()}" for name, value in headers.items()))
    return "\r\n".join((*lines, "", "")).encode("latin-1")


class ResponseReader:
    """A parser of the response to one request, from bytes split anywhere. Raises `ValueError` for an invalid response.

    Interim responses (1xx) and trailers are skipped. The `on_…` methods are called by httptools.
    """

    def __init__(self) -> None:
        from httptools import HttpParserError, HttpResponseParser

        self.status = 0
        """0 until the head is complete."""
        self.headers: dict[str, str] = {}
        """Names are in lower case; repeated values are joined with a comma."""
        self.is_persistent = False
        """The connection may be used for another request after the body."""
        self.is_done = False
        self.has_extra = False
        """Unexpected data followed the body."""
        self._received: list[bytes] = []
        """The parts of the body that httptools read from the bytes of the current `feed`."""
        self._part_count = 0
        """The number of parts in `_received` at the end of the body."""
        self._bytes_without_body = 0
        self.on_body = self._received.append
        self._parser_error = HttpParserError
        self._parser = HttpResponseParser(self)
        # Hosts behind old proxies end lines with a bare LF, pad chunk sizes, and send a length together with chunks.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> bytes:
        """Parse `data` and return the bytes of the body in it."""
        had_ended = self.is_done  # a copy: mypy does not know that `feed_data` sets `is_done`
        if had_ended:
            self.has_extra = self.has_extra or bool(data)
            return b""
        try:
            self._parser.feed_data(data)
        except self._parser_error as error:
            if not self.is_done:
                section = "chunk or length" if self.status else "HTTP/1.1 head"
                # If an `on_…` method raised, httptools reports only that. Its error is the context.
                raise ValueError(f"invalid {section}: {error.__context__ or error}") from error
            self.has_extra = True
        parts = self._received[: self._part_count] if self.is_done else self._received
        body = b"".join(parts)
        self._received.clear()
        self._bytes_without_body = 0 if body else self._bytes_without_body + len(data)
        if not self.is_done:
            self._check_size()
        return body

    def close(self) -> None:
        """Handle the end of the connection. Raise `ValueError` if the response is incomplete."""
        if not self.status:
            raise ValueError("the connection closed before the response")
        has_end = "transfer-encoding" in self.headers or "content-length" in self.headers
        if has_end and not self.is_done:
            raise ValueError("the connection closed before the end of the response")
        self.is_done = True

    def _check_size(self) -> None:
        """Raise `ValueError` if the head, or a line between two parts of the body, is too long."""
        if not self.status and self._bytes_without_body > MAX_HEAD_BYTES:
            raise ValueError("a head without an end")
        if self.status and self._bytes_without_body > MAX_LINE_BYTES:
            raise ValueError("a chunk size or trailer without an end")

    def on_message_begin(self) -> None:
        self.has_extra = self.has_extra or self.is_done

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.status:
            return
        status = self._parser.get_status_code()
        if not 100 <= status < 600 or self._parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("the HTTP/1.1 status line is missing")
        if status == 101:
            raise ValueError("unexpected switch to another protocol")
        if status < 200:
            self.headers = {}
            return
        if self.headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise ValueError("unexpected transfer encoding")
        self.status = status
        self.is_persistent = self._parser.should_keep_alive()
        self._bytes_without_body = 0

    def on_message_complete(self) -> None:
        if self.status and not self.is_done:
            self.is_done = True
            self._part_count = len(self._received)


class Inflater:
    """A decoder of gzip and deflate. Raises `ValueError` for another encoding, and for damaged or truncated bodies.

    `name` is the `Content-Encoding`. gzip may have several members. Some hosts send deflate without its zlib header.
    """

    def __init__(self, name: str) -> None:
        name = name.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ValueError(f"unexpected content encoding: {quoted(name[:40])}")
        self._is_plain = name in ("", "identity")
        self._is_gzip = name.endswith("gzip")
        self._window = zlib.MAX_WBITS | 16 if self._is_gzip else zlib.MAX_WBITS
        self._inflater = zlib.decompressobj(self._window)
        self._first_bytes = b""
        self._is_sniffed = False
        """The encoding was determined from the first bytes."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded body in `data`, in blocks of bounded size if it was compressed."""
        if self._is_plain:
            if data:
                yield data
            return
        if not self._is_sniffed:
            self._first_bytes += data
            # The first two bytes show whether a deflate body has a zlib header.
            if len(self._first_bytes) < 2:
                return
            data = self._first_bytes
            self._is_sniffed = True
            if not self._is_gzip and not _has_zlib_header(data):
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while True:
            if self._inflater.eof:
                # Another gzip member may follow, or padding, which is ignored.
                if not self._is_gzip or not data.startswith(_GZIP_START):
                    return
                self._inflater = zlib.decompressobj(self._window)
            try:
                inflated = self._inflater.decompress(data, _MAX_INFLATED_BYTES)
            except zlib.error as error:
                raise ValueError("the compressed response is corrupted") from error
            if inflated:
                yield inflated
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            # After a full block, zlib may hold more output even if all input is consumed.
            if not data and len(inflated) < _MAX_INFLATED_BYTES:
                return

    def close(self) -> None:
        """Handle the end of the body. Raise `ValueError` if the compressed data is incomplete."""
        has_data = bool(self._first_bytes)
        if has_data and not self._inflater.eof:
            raise ValueError("the compressed response is truncated")


def _has_zlib_header(data: bytes) -> bool:
    """Return whether `data` starts with a zlib header (RFC 1950): method 8 and a checksum over two bytes."""
    return data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0


class HttpConnection(asyncio.Protocol):
    """One connection and the bytes received over it. Belongs to the event loop in which it was created.

    asyncio calls `connection_made`, `data_received`, `eof_received` and `connection_lost`.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        """The time of the event loop at which the last response ended."""
        self.idle_limit = 0.0
        """The seconds for which the connection may stay idle."""
        self.has_received = False
        """A byte was received since the last request was sent."""
        self._received: list[bytes] = []
        self._unread_bytes = 0
        self._is_ended = False
        self._is_paused = False
        self._error: Exception | None = None
        self._read_waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether the host has neither closed the connection nor sent unexpected data."""
        return not self._is_ended and not self._received and self._transport is not None

    def send(self, data: bytes) -> None:
        """Send `data`. `read` raises a failure to send, because a response received before may explain it."""
        assert self._transport is not None
        self.has_received = False
        self._transport.write(data)

    async def read(self) -> bytes:
        """Return at least one received byte, or empty bytes at the end. Raise `ConnectionBroken`."""
        while not self._received:
            if self._error is not None:
                raise ConnectionBroken from self._error
            if self._is_ended:
                return b""
            self._read_waiter = self.loop.create_future()
            try:
                await self._read_waiter
            finally:
                self._read_waiter = None
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        self._unread_bytes = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Close the connection at once and drop pending data. Idempotent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        self._received.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > _MAX_BUFFERED_BYTES and not self._is_paused and self._transport is not None:
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
        if self._read_waiter is not None and not self._read_waiter.done():
            self._read_waiter.set_result(None)


async def connect(host: str, port: int, *, tls: ssl.SSLContext | None, limit: float | None) -> HttpConnection:
    """Return an open connection. Raise `ConnectFailed` on failure, or after `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            sock = await first_to_answer(await _addresses(host, port))
            tls_name = host if tls is not None else None
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(HttpConnection, sock=sock, ssl=tls, server_hostname=tls_name)
            return connection
    except TimeoutError as error:
        # An error with an errno comes from the time limit of the system, which may be shorter.
        raise ConnectFailed(limit if error.errno is None else None) from error
    except (OSError, UnicodeError) as error:
        raise ConnectFailed from error


async def _addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of `host`. A DNS lookup runs in a thread, because it may block for long."""

    def look_up() -> list[Address]:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    return look_up() if _is_ip_address(host) else await run_in_thread(look_up)


def _is_ip_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


async def first_to_answer(addresses: list[Address]) -> socket.socket:
    """Return a socket to the address that connects first. If none does, raise the error of the first address."""
    untried = list(enumerate(addresses))
    attempts: dict[asyncio.Task[socket.socket], int] = {}  # each with the index of its address
    failures: dict[int, OSError] = {}
    try:
        while untried or attempts:
            if untried:
                index, address = untried.pop(0)
                attempts[asyncio.create_task(open_address(address))] = index
            head_start = HEAD_START_S if untried else None
            done, _ = await asyncio.wait(attempts, timeout=head_start, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = attempts.pop(task)
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failures[index] = error
    finally:
        for task in attempts:
            task.add_done_callback(_close_late)
            task.cancel()
    raise failures[min(failures)]


async def open_address(address: Address) -> socket.socket:
    """Return a socket that is connected to `address`. Raise `OSError`; the socket is then closed."""
    family, kind, protocol, _, socket_address = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A model may think for minutes, and routers drop a connection without traffic.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        await asyncio.get_running_loop().sock_connect(sock, socket_address)  # type: ignore[arg-type]  # the family determines the type
    except BaseException:
        sock.close()
        raise
    return sock


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a task that connected just as it was cancelled."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
