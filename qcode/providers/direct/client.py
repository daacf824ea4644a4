"""Sends one request over a connection of its own and gives back the answer as bytes. Never retries or redirects."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from qcode import __version__
from qcode.protocol.values import dataclass
from qcode.providers.connection import Connection as Place
from qcode.providers.direct.codings import ACCEPTED, coding_of
from qcode.providers.direct.errors import BadHeader, BrokenOff, Refused
from qcode.providers.direct.framing import Framing, Head, framing_of, read_head, write_head
from qcode.providers.direct.sockets import Connection, connect
from qcode.providers.threads import run_aside
from qcode.providers.transport import tls_context

IDLE_LIMIT_S = 30.0
"""Seconds a connection waits for the next step; what stands between forgets it soon after a minute."""

_REFUSAL_BYTES = 1024 * 1024
_REFUSAL_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Post:
    """A request: where to, with which headers besides those every request has, and its body, which is JSON."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class DirectAnswer:
    """A 2xx answer whose body is unread."""

    def __init__(self, head: Head, framing: Framing, begun: bytes, connection: Connection) -> None:
        self._head = head
        self._framing = framing
        self._begun = begun
        self._connection = connection

    @property
    def leaves_connection_free(self) -> bool:
        """The body has ended, nothing came after it, and the host keeps the connection open."""
        return self._framing.is_done and not self._framing.rest and self._head.is_persistent

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, its content coding undone; raise `BrokenOff` where it is not whole."""
        framing = self._framing
        try:
            coding = coding_of(self._head.headers.get("content-encoding", ""))
            data = self._begun
            while True:
                for piece in coding.feed(framing.feed(data)):
                    yield piece
                if framing.is_done:
                    break
                data = await self._connection.read()
                if not data:
                    framing.close()
                    break
            coding.close()
        except ValueError as error:
            raise BrokenOff(str(error)) from error


class DirectClient:
    """Connections to one host, in one event loop. Belongs to whoever made it, who closes it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._idle: list[Connection] = []
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Read the certificates to trust. It blocks: call it in a thread. Raise `ProviderError`."""
        with self._lock:
            if self._tls is None and self._place.base_url.startswith("https:"):
                self._tls = tls_context(self._place)
                self._tls.set_alpn_protocols(["http/1.1"])

    @asynccontextmanager
    async def open(self, post: Post) -> AsyncIterator[DirectAnswer]:
        """Send `post`; on leaving, the connection is kept for the next one or closed at once.

        Raise a `DirectError`: `Refused` for an answer that is no 2xx.
        """
        connection, head, begun = await self._exchange(post.url, _written(post))
        is_free = False
        try:
            answer = _answer(head, begun, connection)
            if not 200 <= head.status < 300:
                raise Refused(head.status, head.headers, await _content(answer))
            yield answer
            is_free = answer.leaves_connection_free
        finally:
            if is_free:
                self._keep(connection, head.headers.get("keep-alive", ""))
            else:
                connection.abort()

    def close(self) -> None:
        """Close every connection that is not in use; safe to call twice."""
        while self._idle:
            self._idle.pop().abort()

    async def _exchange(self, url: str, request: bytes) -> tuple[Connection, Head, bytes]:
        """Return the connection on which the answer begins, its head and what came after that.

        A kept connection may end in the moment it is used again, as the host gives it up. Where it ends without a
        byte of an answer, the request goes out once more on a new one.
        """
        kept = self._idle_connection()
        if kept is not None:
            try:
                return kept, *await _sent(kept, request)
            except BrokenOff:
                if kept.has_spoken:
                    raise
        connection = await self._connect(url)
        return connection, *await _sent(connection, request)

    async def _connect(self, url: str) -> Connection:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        if is_secure and self._tls is None:
            await run_aside(self.prepare)
        limit = self._place.timeouts.connect
        return await connect(parts.hostname or "", parts.port or (443 if is_secure else 80), self._tls, limit)

    def _idle_connection(self) -> Connection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and now - connection.idle_since < connection.idle_limit:
                return connection
            connection.abort()
        return None

    def _keep(self, connection: Connection, wish: str) -> None:
        """Keep a connection, for a shorter time where the host says so, with a second for the way."""
        connection.idle_since = connection.loop.time()
        connection.idle_limit = IDLE_LIMIT_S
        for part in wish.split(","):
            name, _, value = part.partition("=")
            if name.strip().lower() == "timeout" and value.strip().isdecimal():
                connection.idle_limit = min(IDLE_LIMIT_S, float(value) - 1)
        self._idle.append(connection)


# Names of headers have no case. A host or proxy that was written by hand may look for these as most clients send them.
_AS_USUAL = {
    name.lower(): name
    for name in (
        "Host", "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type",
        "User-Agent", "X-Api-Key",
    )
}  # fmt: skip


def _written(post: Post) -> bytes:
    """Return the bytes of a request. Headers given replace ours, whatever their case; an empty one is left out."""
    parts = urlsplit(post.url)
    headers = {
        "host": parts.netloc,
        "accept-encoding": ACCEPTED,
        "connection": "keep-alive",
        "accept": "application/json",
        "content-type": "application/json",
        "user-agent": f"qcode/{__version__}",
    }
    headers |= {name.lower(): value for name, value in post.headers.items()}
    headers = {name: value for name, value in headers.items() if value and name != "transfer-encoding"}
    headers["content-length"] = str(len(post.body))
    headers = {_AS_USUAL.get(name, name): value for name, value in headers.items()}
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    try:
        return write_head("POST", target, headers) + post.body
    except ValueError as error:
        raise BadHeader(str(error)) from error


async def _sent(connection: Connection, request: bytes) -> tuple[Head, bytes]:
    """Send `request` and return the head of its answer and what came after it; close the connection on failure."""
    try:
        connection.send(request)
        return await _head(connection)
    except BaseException:
        connection.abort()
        raise


async def _head(connection: Connection) -> tuple[Head, bytes]:
    """Return the head of the final answer, and what came after it."""
    held = b""
    try:
        while True:
            if held and (found := read_head(held)) is not None:
                head, held = found
                if head.status == 101:
                    raise ValueError("a switch to a protocol nobody asked for")
                if head.status >= 200:
                    return head, held
                continue
            data = await connection.read()
            if not data:
                raise ValueError("the connection ended before the answer")
            held += data
    except ValueError as error:
        raise BrokenOff(str(error)) from error


def _answer(head: Head, begun: bytes, connection: Connection) -> DirectAnswer:
    try:
        return DirectAnswer(head, framing_of(head), begun, connection)
    except ValueError as error:
        raise BrokenOff(str(error)) from error


async def _content(answer: DirectAnswer) -> bytes:
    """Return what a refusal says, or as much of it as comes."""
    content = b""
    with contextlib.suppress(BrokenOff, TimeoutError):
        async with asyncio.timeout(_REFUSAL_LIMIT_S):
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > _REFUSAL_BYTES:
                    break
    return content
