"""HTTP/1.1 over asyncio for one request at a time: connections, the head of a request, answers from bytes.

httptools parses the answer and is imported when the first one is awaited, so a request does not wait for it. An
answer whose end is unclear raises `ValueError`: a truncated body must not pass for a whole one. Names are looked up in
a daemon thread, so a hanging lookup blocks neither cancellation nor exit. Addresses are tried a quarter of a second
apart, and the first to answer wins (RFC 8305).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from qcode.providers.sdk import run_aside

MAX_HEAD_BYTES = 256 * 1024
MAX_LINE_BYTES = 16 * 1024
"""Bytes of chunk sizes, extensions and trailers in a row, without a byte of the body among them."""

ACCEPTED = "gzip, deflate"
"""The content codings that `Inflater` decodes."""

Address: TypeAlias = tuple[int, int, int, str, object]

_HEAD_START_S = 0.25
_HIGH_WATER = 1024 * 1024
_INFLATED_BYTES = 1024 * 1024
_GZIP_MAGIC = b"\x1f"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class NotReached(ConnectionError):  # noqa: N818 - a state of the connection more than an error of ours
    """There is no connection: no name, no route, no server, no TLS. `seconds` is the limit that passed, if one did."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__("not reached")
        self.seconds = seconds


class BrokenOff(ConnectionError):  # noqa: N818
    """The connection, or what came over it, broke before the answer had ended."""


def write_head(method: str, target: str, headers: Mapping[str, str], version: str = "1.1") -> bytes:
    """Return the head of a request; raise `ValueError` if a header holds what HTTP forbids, without quoting it."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("a header holds characters HTTP forbids")
    lines = (f"{method} {target} HTTP/{version}", *(f"{name}: {value.strip()}" for name, value in headers.items()))
    return "\r\n".join((*lines, "", "")).encode("latin-1")


class AnswerReader:
    """Head and body of the answer to one request, however its bytes are cut. `ValueError` for a broken one.

    `headers` has names in lower case and repeated values joined with a comma. Answers before the final one (1xx) and
    trailers are skipped. The `on_…` methods are called by httptools.
    """

    def __init__(self) -> None:
        from httptools import HttpParserError, HttpResponseParser

        self.status = 0
        """0 until the head is complete."""
        self.headers: dict[str, str] = {}
        self.is_persistent = False
        """The connection may serve another request once the body has ended."""
        self.is_done = False
        self.has_extra = False
        """Something nobody asked for came after the end of the body."""
        self._pieces: list[bytes] = []
        self._size_of_body = 0
        self._bytes_in_a_row = 0
        self.on_body = self._pieces.append
        self._parser_error = HttpParserError
        self._parser = HttpResponseParser(self)
        # Hosts behind old proxies end lines with a bare line feed, pad chunk sizes and send a length beside chunks.
        self._parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the body in `data`."""
        had_ended = self.is_done
        if had_ended:
            self.has_extra = self.has_extra or bool(data)
            return b""
        try:
            self._parser.feed_data(data)
        except self._parser_error as error:
            if not self.is_done:
                place = "chunk or length" if self.status else "HTTP/1.1 head"
                raise ValueError(f"no valid {place}: {error.__context__ or error}") from error
            self.has_extra = True
        pieces = self._pieces[: self._size_of_body] if self.is_done else self._pieces
        body = b"".join(pieces)
        self._pieces.clear()
        self._check_size(0 if body else len(data))
        return body

    def close(self) -> None:
        """Note that the connection has ended; raise `ValueError` if the answer had not."""
        if not self.status:
            raise ValueError("the connection ended before the answer")
        has_end = "transfer-encoding" in self.headers or "content-length" in self.headers
        if has_end and not self.is_done:
            raise ValueError("the connection ended inside the body")
        self.is_done = True

    def _check_size(self, bytes_without_body: int) -> None:
        self._bytes_in_a_row = self._bytes_in_a_row + bytes_without_body if bytes_without_body else 0
        if self.is_done:
            return
        if self._bytes_in_a_row > (MAX_LINE_BYTES if self.status else MAX_HEAD_BYTES):
            raise ValueError("a chunk size or trailer without an end" if self.status else "a head without an end")

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
            raise ValueError("no HTTP/1.1 status line")
        if status == 101:
            raise ValueError("a switch to a protocol nobody asked for")
        if status < 200:
            self.headers = {}
            return
        if self.headers.get("transfer-encoding", "chunked").lower() != "chunked":
            raise ValueError("a transfer coding nobody asked for")
        self.status = status
        self.is_persistent = self._parser.should_keep_alive()
        self._bytes_in_a_row = 0

    def on_message_complete(self) -> None:
        if self.status and not self.is_done:
            self.is_done = True
            self._size_of_body = len(self._pieces)


class Inflater:
    """Decodes gzip, also of several members, and deflate, with the wrapper of zlib or, as some hosts send it, without.

    `name` is the `Content-Encoding`. Raises `ValueError` for one nobody asked for and for damaged or truncated bodies.
    """

    def __init__(self, name: str) -> None:
        name = name.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ValueError(f"a content coding nobody asked for: {name[:40]!r}")
        self._is_plain = name in ("", "identity")
        self._is_gzip = name.endswith("gzip")
        self._window = zlib.MAX_WBITS | 16 if self._is_gzip else zlib.MAX_WBITS
        self._inflater = zlib.decompressobj(self._window)
        self._first = b""
        self._is_sniffed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the body in `data`, in pieces of bounded size if it was compressed."""
        if self._is_plain:
            if data:
                yield data
            return
        if not self._is_sniffed:
            self._first += data
            # Two bytes tell whether a deflated body has a wrapper.
            if len(self._first) < 2:
                return
            data = self._first
            self._is_sniffed = True
            if not self._is_gzip and not _is_wrapped(data):
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while True:
            if self._inflater.eof:
                # Another member begins, or there is padding, which means nothing.
                if not self._is_gzip or not data.startswith(_GZIP_MAGIC):
                    return
                self._inflater = zlib.decompressobj(self._window)
            try:
                piece = self._inflater.decompress(data, _INFLATED_BYTES)
            except zlib.error as error:
                raise ValueError("the compressed body is damaged") from error
            if piece:
                yield piece
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            if not data and len(piece) < _INFLATED_BYTES:
                return

    def close(self) -> None:
        """Note that the body has ended; raise `ValueError` if its coding had not."""
        if self._first and not self._inflater.eof:
            raise ValueError("the compressed body is cut")


def _is_wrapped(data: bytes) -> bool:
    """Tell whether `data` begins with the header of zlib (RFC 1950): method 8 and a checksum over two bytes."""
    return data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0


class Wire(asyncio.Protocol):
    """One connection as the bytes that came over it; belongs to the event loop it was made in."""

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


async def connect(host: str, port: int, tls: ssl.SSLContext | None, limit: float | None) -> Wire:
    """Return a connection that is ready for use; raise `NotReached` after `limit` seconds or a failure."""
    try:
        async with asyncio.timeout(limit):
            sock = await _first_to_answer(await _addresses(host, port))
            name = host if tls is not None else None
            loop = asyncio.get_running_loop()
            _, wire = await loop.create_connection(Wire, sock=sock, ssl=tls, server_hostname=name)
            return wire
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
