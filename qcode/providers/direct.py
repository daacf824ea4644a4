"""Requests to a host without its SDK, for connections that need only an address and a key, and no proxy.

`DirectProvider` sends its requests this way if possible, and uses the host's SDK otherwise. `DirectClient` sends one
request at a time over an idle or new connection, and never retries or redirects. `http1` implements the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import urlsplit

from qcode import __version__
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.providers.connection import Connection
from qcode.providers.http1 import (
    ACCEPTED,
    ConnectFailed,
    ConnectionBroken,
    HttpConnection,
    Inflater,
    ResponseReader,
    connect,
    write_head,
)
from qcode.providers.sdk import (
    connection_error,
    connection_lost_error,
    header_error,
    response_error,
    run_in_thread,
    timeout_reason,
    tls_context,
    unreachable_error,
)
from qcode.providers.streaming import ClientT, ResponseStream, SdkProvider
from qcode.text.json import JsonObject, parse_object
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

IDLE_LIMIT_S = 30.0
"""The time for which an idle connection stays open. Routers and load balancers drop it after about a minute."""

_MAX_ERROR_BYTES = 1024 * 1024
"""The maximum size of the body of an error response; the remaining body is not read."""
_ERROR_LIMIT_S = 10.0
"""The time limit for reading the body of an error response."""
_MAX_LIST_MB = 16
"""The maximum size of a list of models; one of a router with hundreds of models has 1 MB."""

# A URL without user name, query or escapes, which needs no further processing.
_PLAIN_URL = lazy_pattern(
    r"https?://(?:[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?"
)


@dataclass(frozen=True, slots=True)
class PostRequest:
    """A POST request with a JSON body."""

    url: str
    headers: Mapping[str, str]
    """Additional headers, which replace default headers with the same name. An empty value removes the header."""
    body: bytes


@dataclass(frozen=True, slots=True)
class GetRequest:
    """A GET request."""

    url: str
    headers: Mapping[str, str]
    """As in `PostRequest`."""


class BadHeader(Exception):  # noqa: N818 - describes the request
    """A header of the request contains characters that cannot be sent."""


class ErrorResponse(Exception):  # noqa: N818
    """The host answered with a status other than 2xx."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.headers = headers
        self.content = content


_FAILURES = (ConnectFailed, ConnectionBroken, BadHeader, ErrorResponse)


class DirectResponse:
    """A response with an unread body."""

    def __init__(self, reader: ResponseReader, first_bytes: bytes, wire: HttpConnection) -> None:
        self.reader = reader
        self.wire = wire
        self._first_bytes = first_bytes
        """The part of the body that arrived with the head."""

    @property
    def is_connection_reusable(self) -> bool:
        """Whether the connection can be reused: the body ended, no data followed, and the host keeps it open."""
        return self.reader.is_done and not self.reader.has_extra and self.reader.is_persistent

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives. Raise `ConnectionBroken` if it is incomplete."""
        reader = self.reader
        try:
            inflater = Inflater(reader.headers.get("content-encoding", ""))
            body = self._first_bytes
            while True:
                for chunk in inflater.feed(body):
                    yield chunk
                if reader.is_done:
                    break
                data = await self.wire.read()
                if not data:
                    reader.close()
                    break
                body = reader.feed(data)
            inflater.close()
        except ValueError as error:
            raise ConnectionBroken(str(error)) from error


class DirectClient:
    """The connections to one host, in one event loop. The creator must close it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._idle: list[HttpConnection] = []
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load the trusted certificates. It blocks, so call it in a thread. Raise `ProviderError` if that fails."""
        with self._lock:
            if self._tls is None and self._connection.base_url.startswith("https:"):
                self._tls = tls_context(self._connection)
                self._tls.set_alpn_protocols(["http/1.1"])

    @asynccontextmanager
    async def open(self, request: PostRequest | GetRequest) -> AsyncIterator[DirectResponse]:
        """Send `request`. On exit, the connection is kept for the next request or closed at once.

        Raise `ConnectFailed`, `ConnectionBroken`, `BadHeader`, or `ErrorResponse` for a status other than 2xx.
        """
        response = await self._exchange(request.url, _request_bytes(request))
        reader = response.reader
        is_reusable = False
        try:
            if not 200 <= reader.status < 300:
                raise ErrorResponse(reader.status, reader.headers, await _error_content(response))
            yield response
            is_reusable = response.is_connection_reusable
        finally:
            if is_reusable:
                self._keep_open(response.wire, reader.headers.get("keep-alive", ""))
            else:
                response.wire.abort()

    def close(self) -> None:
        """Close every idle connection. Idempotent."""
        while self._idle:
            self._idle.pop().abort()

    async def _exchange(self, url: str, request: bytes) -> DirectResponse:
        """Send a request and return its response once the head is complete.

        The host may close an idle connection just as it is used again. If the host has sent no byte, the request is
        sent again over a new connection.
        """
        idle = self._idle_wire()
        if idle is not None:
            try:
                return await _send(idle, request)
            except ConnectionBroken:
                if idle.has_received:
                    raise
        return await _send(await self._connect(url), request)

    async def _connect(self, url: str) -> HttpConnection:
        parts = urlsplit(url)
        is_secure = parts.scheme == "https"
        if is_secure and self._tls is None:
            await run_in_thread(self.prepare)
        limit = self._connection.timeouts.connect
        default_port = 443 if is_secure else 80
        return await connect(parts.hostname or "", parts.port or default_port, tls=self._tls, limit=limit)

    def _idle_wire(self) -> HttpConnection | None:
        """Return an idle connection that can be reused, None if there is none. Expired connections are closed."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            wire = self._idle.pop()
            if wire.is_reusable and now - wire.idle_since < wire.idle_limit:
                return wire
            wire.abort()
        return None

    def _keep_open(self, wire: HttpConnection, keep_alive: str) -> None:
        """Keep a connection open, at most until one second before the timeout in the header `keep_alive`.

        This second allows for the delay of the network.
        """
        wire.idle_since = wire.loop.time()
        wire.idle_limit = IDLE_LIMIT_S
        for parameter in keep_alive.split(","):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "timeout" and value.strip().isdecimal():
                wire.idle_limit = min(IDLE_LIMIT_S, float(value) - 1)
        self._idle.append(wire)


# Header names ignore case, but simple hosts and proxies may expect the spelling that most clients use.
_USUAL_SPELLINGS = {
    name.lower(): name
    for name in (
        "Host", "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type",
        "User-Agent", "X-Api-Key",
    )
}  # fmt: skip


def _request_bytes(request: PostRequest | GetRequest) -> bytes:
    """Return the bytes of a request. See `PostRequest` for its headers. Raise `BadHeader`."""
    parts = urlsplit(request.url)
    headers = {
        "host": parts.netloc,
        "accept-encoding": ACCEPTED,
        "connection": "keep-alive",
        "accept": "application/json",
        "content-type": "application/json" if isinstance(request, PostRequest) else "",
        "user-agent": f"qcode/{__version__}",
    }
    headers |= {name.lower(): value for name, value in request.headers.items()}
    headers = {name: value for name, value in headers.items() if value and name != "transfer-encoding"}
    method, body = "GET", b""
    if isinstance(request, PostRequest):
        method, body = "POST", request.body
        headers["content-length"] = str(len(body))
    headers = {_USUAL_SPELLINGS.get(name, name): value for name, value in headers.items()}
    target = parts.path or "/"
    if parts.query:
        target = f"{target}?{parts.query}"
    try:
        return write_head(method, target, headers) + body
    except ValueError as error:
        raise BadHeader(str(error)) from error


async def _send(wire: HttpConnection, request: bytes) -> DirectResponse:
    """Send `request` and return its response with its head read. Close the connection on failure."""
    try:
        wire.send(request)
        return await _read_head(wire)
    except BaseException:
        wire.abort()
        raise


async def _read_head(wire: HttpConnection) -> DirectResponse:
    """Return the response as soon as its head is complete. Raise `ConnectionBroken`."""
    try:
        reader = ResponseReader()
        body = b""
        while not reader.status:
            data = await wire.read()
            if not data:
                reader.close()
            body = reader.feed(data)
        return DirectResponse(reader, body, wire)
    except ValueError as error:
        raise ConnectionBroken(str(error)) from error


async def _error_content(response: DirectResponse) -> bytes:
    """Return the body of an error response, or the part of it that arrives."""
    content = b""
    with contextlib.suppress(ConnectionBroken, TimeoutError):
        async with asyncio.timeout(_ERROR_LIMIT_S):
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MAX_ERROR_BYTES:
                    break
    return content


def can_connect_directly(
    connection: Connection, variables: tuple[str, ...], environ: Mapping[str, str] = os.environ
) -> bool:
    """Return whether `connection` needs no feature that only an SDK or httpx2 supports, such as a proxy.

    `variables` are environment variables that change the SDK's requests, apart from key and address.
    """
    is_plain = _PLAIN_URL.fullmatch(connection.base_url) is not None
    has_variable = any(environ.get(name) for name in variables)
    return is_plain and not has_variable and not _has_proxy(connection.base_url, environ)


class DirectProvider(SdkProvider[ClientT]):
    """A provider that uses its SDK only for proxies, and for credentials other than a key."""

    sdk_variables: tuple[str, ...] = ()
    """Environment variables that change the SDK's requests, apart from key and address."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._direct = DirectClient(connection) if can_connect_directly(connection, self.sdk_variables) else None

    @abstractmethod
    def _build_post(self, request: ModelRequest) -> PostRequest:
        """Return the request as the SDK would send it."""
        ...

    @abstractmethod
    def _request_headers(self) -> Mapping[str, str]:
        """Return the headers of every request, such as the key and those that the user configured."""
        ...

    @abstractmethod
    async def _list_models_directly(self) -> list[str]:
        """Return the names of the host's models, from the answers of `_get_object`."""
        ...

    async def model_names(self) -> tuple[str, ...]:
        if self._direct is None:
            return await super().model_names()
        return tuple(sorted(set(await self._within_limit(self._list_models_directly()))))

    async def _get(self, path: str) -> bytes:
        """Return the content at `path`, which follows the base URL. Raise `ProviderError` if it is too large."""
        assert self._direct is not None
        request = GetRequest(f"{self._connection.base_url}{path}", self._request_headers())
        content = bytearray()
        async with self._direct.open(request) as response:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > _MAX_LIST_MB * 1024 * 1024:
                    text = f"{self.name} sent more than {_MAX_LIST_MB} MB; it was stopped"
                    raise ProviderError(ErrorKind.BAD_RESPONSE, text)
        return bytes(content)

    async def _get_object(self, path: str) -> JsonObject:
        """Return the JSON object at `path`, a page of the list of models."""
        listed = parse_object((await self._get(path)).decode("utf-8", "replace"))
        if listed is None:
            raise ProviderError(ErrorKind.BAD_RESPONSE, f"{self.name} did not return a list of models")
        return listed

    async def prepare(self) -> None:
        if self._direct is None:
            await super().prepare()
        else:
            await run_in_thread(self._direct.prepare)

    def warm_up(self) -> None:
        """Import and load everything that the first request needs. It blocks, so call it in a thread."""
        if self._direct is None:
            super().warm_up()
        else:
            self._direct.prepare()

    async def close(self) -> None:
        """Release connections. Idempotent; also safe before the first request."""
        if self._direct is not None:
            self._direct.close()
        await super().close()

    @asynccontextmanager
    async def _open_response(self, request: ModelRequest) -> AsyncIterator[ResponseStream]:
        opened: AbstractAsyncContextManager[ResponseStream]
        if self._direct is None:
            opened = super()._open_response(request)
        else:
            opened = self._direct.open(self._build_post(request))
        async with opened as response:
            yield response

    def _connection_errors(self) -> tuple[type[Exception], ...]:
        return super()._connection_errors() if self._direct is None else (ConnectionBroken,)

    def _stream_errors(self) -> tuple[type[Exception], ...]:
        return super()._stream_errors() if self._direct is None else _FAILURES

    def _convert_error(self, error: Exception) -> ProviderError:
        match error:
            case ErrorResponse():
                return response_error(self._connection, error.status, error.headers, error.content)
            case ConnectFailed(seconds=float(seconds)):
                return unreachable_error(self._connection, timeout_reason(seconds))
            case ConnectFailed():
                return connection_error(self._connection, error)
            case BadHeader():
                return header_error(self._connection)
            case ConnectionBroken():
                return connection_lost_error(self._connection)
            case _:
                return super()._convert_error(error)


_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def _has_proxy(url: str, environ: Mapping[str, str]) -> bool:
    """Return whether a proxy may apply. `NO_PROXY` is ignored here, because the SDK's client applies it."""
    is_mac = os.uname().sysname == "Darwin"
    variables = {name: value for name, value in environ.items() if name.lower() in _PROXY_VARIABLES}
    if not (is_mac or variables):
        return False
    from qcode.text.proxies import is_loopback, proxy_variable

    if is_mac and not is_loopback(url):
        from urllib.request import getproxies

        return bool(getproxies())
    return bool(proxy_variable(url, variables))
