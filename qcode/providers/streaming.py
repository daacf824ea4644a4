"""The loop all clients share: open, read bytes, parse events, let the decoder speak, watch for silence.

A client says how to open a response with its SDK; everything else is here once. The stream is read as bytes and
never as SDK objects: those cost several times the CPU, and end a cut stream without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEvent, ReplyStarted, UsageReported
from qcode.providers.connection import Connection
from qcode.providers.errors import attributed, is_page, page_title
from qcode.providers.history import opaque_origin, strip_foreign_opaque, tag_opaque
from qcode.providers.sdk import failure, run_aside
from qcode.providers.sse import MAX_EVENT_BYTES, SseEvent, SseParser
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    import httpx2

MAX_REPLY_BYTES = 256 * 1024 * 1024

_MODEL_LIST_LIMIT_S = 30.0
_DRAIN_LIMIT_S = 0.05

ClientT = TypeVar("ClientT")

_log = logging.getLogger(__name__)


class Answer(Protocol):
    """An answer whose body is unread; that of httpx2 is one."""

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class Parser(Protocol):
    """Bytes of a stream in, its events out; bounded, and indifferent to how the bytes are cut."""

    def feed(self, chunk: bytes) -> list[SseEvent]: ...

    def flush(self) -> list[SseEvent]:
        """Return what the stream ended in, if it is an event."""
        ...


class Decoder(Protocol):
    """Plain JSON objects of one reply in, reply events out. One instance for one reply."""

    @property
    def is_complete(self) -> bool:
        """The stop reason has been seen: the end of the stream, however it comes, is a healthy one."""
        ...

    @property
    def is_ended(self) -> bool:
        """The protocol's last event has been seen; nothing behind it counts."""
        ...

    def feed(self, sent: JsonObject) -> list[ReplyEvent]:
        """Return the events of one object; raise `ProviderError` for an error object. Unknown objects are skipped."""
        ...

    def end(self) -> None:
        """The stream's own end mark (`[DONE]`) has come."""
        ...

    def finish(self) -> list[ReplyEvent]:
        """Return the last events; raise `ProviderError` (CONNECTION) where the reply never came to its end."""
        ...


def decode_event(event: SseEvent, decoder: Decoder) -> list[ReplyEvent]:
    """Feed one event of the stream; data that is no JSON object is skipped with a line in the log."""
    if event.data.startswith("[DONE]"):
        decoder.end()
        return []
    try:
        sent: Json = json.loads(event.data)
    except (ValueError, RecursionError):
        _log.info("skipped an event that is not JSON: %.200r", event.data)
        sent = None
    if event.event == "error" and not (isinstance(sent, dict) and sent.get("error")):
        sent = {"error": sent if isinstance(sent, dict) else event.data}
    return feed_json(sent, decoder)


def feed_json(sent: Json, decoder: Decoder) -> list[ReplyEvent]:
    """Feed an object, or the objects of a list (Gemini without `alt=sse` sends one list).

    An error behind the stop reason is none of the reply's: that is complete.
    """
    events: list[ReplyEvent] = []
    for item in sent if isinstance(sent, list) else [sent]:
        if not isinstance(item, dict) or decoder.is_ended:
            continue
        is_complete = decoder.is_complete
        try:
            events += decoder.feed(item)
        except ProviderError as error:
            if not is_complete:
                raise
            _log.info("ignored an error behind the end of a reply: %s", error.message)
    return events


async def read_reply(
    answer: Answer, decoder: Decoder, connection: Connection, parser: Parser, breaks: tuple[type[Exception], ...]
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of a streamed 200 answer; raise `ProviderError` where it stalls or makes no sense.

    `breaks` are the exceptions that stand for a broken connection. They go through, except behind the stop reason:
    there the reply is complete, and its end is a healthy one however it comes.
    """
    body = _Body(decoder, parser)
    chunks = aiter(answer.aiter_bytes())
    ends: tuple[type[Exception], ...] = (TimeoutError, *breaks)
    limits, idle = connection.timeouts, connection.idle_limit
    limit = limits.first_event
    is_open = True
    while is_open and not decoder.is_ended:
        try:
            async with asyncio.timeout(limit):
                chunk = await anext(chunks, None)
        except ends as error:
            if not decoder.is_complete:
                if isinstance(error, TimeoutError):
                    raise ProviderError(ErrorKind.TIMEOUT, f"nothing came for {limit:g} s") from error
                raise
            chunk = None
        is_open = chunk is not None
        for event in body.flush() if chunk is None else body.feed(chunk):
            yield event
        if decoder.is_complete:
            limit = min(limits.trailing, idle)
        elif body.has_begun:
            limit = idle
    for event in decoder.finish():
        yield event
    if is_open:
        # The empty rest of a finished stream: without it, its connection cannot serve the next request.
        with contextlib.suppress(*ends):
            async with asyncio.timeout(_DRAIN_LIMIT_S):
                await anext(chunks, None)


class _Body:
    """The body of an answer: a stream of events, or, where a server does not stream, one JSON value."""

    def __init__(self, decoder: Decoder, parser: Parser) -> None:
        self._decoder = decoder
        self._parser = parser
        self._whole: bytearray | None = None
        self._is_sniffed = False
        self._size = 0
        self.has_begun = False

    def feed(self, chunk: bytes) -> Iterator[ReplyEvent]:
        self._size += len(chunk)
        if not self._is_sniffed and chunk.strip():
            self._is_sniffed = True
            # No line of an event stream starts like this.
            if chunk.lstrip()[:1] in (b"{", b"[", b"<"):
                self._whole = bytearray()
        if self._whole is not None:
            self._whole += chunk
        if self._size > (MAX_REPLY_BYTES if self._whole is None else MAX_EVENT_BYTES):
            raise ProviderError(ErrorKind.BAD_RESPONSE, "the reply has no end; it was stopped to save memory")
        if self._whole is None:
            yield from self._decode(self._parser.feed(chunk))

    def flush(self) -> Iterator[ReplyEvent]:
        if self._whole is None:
            yield from self._decode(self._parser.flush())
            return
        text = self._whole.decode("utf-8", "replace")
        if is_page(text):
            title = page_title(text) or "without a title"
            raise ProviderError(ErrorKind.BAD_RESPONSE, f"a web page instead of a reply: {title}")
        try:
            sent: Json = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from feed_json(sent, self._decoder)

    def _decode(self, events: list[SseEvent]) -> Iterator[ReplyEvent]:
        for event in events:
            if self._decoder.is_ended:
                return
            for decoded in decode_event(event, self._decoder):
                # A greeting says nothing of how long the model will think before it says anything.
                self.has_begun = self.has_begun or not isinstance(decoded, ReplyStarted | UsageReported)
                yield decoded


class SdkProvider(ABC, Generic[ClientT]):
    """A `Provider` on an SDK. Making one costs nothing: the SDK loads and connects with the first request.

    It loads in a thread, for an SDK takes up to a second to import and the screen must not stand still.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.host = connection.base_url
        self._connection = connection
        self._client: ClientT | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _make_client(self) -> ClientT:
        """Import the SDK and return its client; runs in a thread, outside of any event loop."""
        ...

    @abstractmethod
    async def _close_client(self, client: ClientT) -> None: ...

    @abstractmethod
    def _decoder(self, request: ModelRequest) -> Decoder: ...

    @abstractmethod
    def _open(self, client: ClientT, request: ModelRequest) -> AbstractAsyncContextManager[httpx2.Response]:
        """Send the request; the response is open and unread inside, and closed at once on leaving."""
        ...

    def _parser(self) -> Parser:
        """Return what cuts the bytes of an answer into events; one for one reply."""
        return SseParser()

    @abstractmethod
    async def _list_models(self, client: ClientT) -> list[str]: ...

    @abstractmethod
    def _failures(self) -> tuple[type[Exception], ...]:
        """The exceptions of the SDK; those of httpx2 need no mention."""
        ...

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; see `protocol.provider.Provider.stream`."""
        limits, place = self._connection.timeouts, opaque_origin(self.host)
        request = strip_foreign_opaque(request, place)
        decoder = self._decoder(request)
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(limits.first_event):
                        answer = await stack.enter_async_context(self._answer(request))
                except TimeoutError as error:
                    raise ProviderError(ErrorKind.TIMEOUT, f"no answer within {limits.first_event:g} s") from error
                reply = read_reply(answer, decoder, self._connection, self._parser(), self._breaks())
                async for event in await stack.enter_async_context(aclosing(reply)):
                    yield tag_opaque(event, place) if place else event
        except ProviderError as error:
            raise attributed(error, self._connection.origin) from error
        except (asyncio.CancelledError, GeneratorExit):
            # Before the line below, which may have to wait for an import.
            raise
        except self._stream_failures() as error:
            raise self._failure(error) from error

    async def model_names(self) -> tuple[str, ...]:
        """Return the names of the models the host serves, sorted; raise `ProviderError`."""
        return tuple(sorted(set(await self._listed(self._list_models))))

    async def _listed(self, ask: Callable[[ClientT], Awaitable[list[str]]]) -> list[str]:
        """Return what a small request brings, its failures told like those of a reply."""
        try:
            async with asyncio.timeout(_MODEL_LIST_LIMIT_S):
                return await ask(await self._connected())
        except TimeoutError as error:
            raise ProviderError(
                ErrorKind.TIMEOUT, f"{self.name} did not list its models within {_MODEL_LIST_LIMIT_S:g} s"
            ) from error
        except (ProviderError, asyncio.CancelledError):
            raise
        except self._all_failures() as error:
            raise self._failure(error) from error

    async def close(self) -> None:
        """Release connections; safe to call twice and before the first request."""
        client, self._client = self._client, None
        if client is not None:
            await self._close_client(client)

    @asynccontextmanager
    async def _answer(self, request: ModelRequest) -> AsyncIterator[Answer]:
        """Send the request; the answer is open and unread inside, and closed at once on leaving."""
        client = await self._connected()
        async with self._open(client, request) as response:
            yield response

    def _breaks(self) -> tuple[type[Exception], ...]:
        """The exceptions by which a body that is being read says that its connection broke."""
        import httpx2

        return (httpx2.HTTPError, httpx2.StreamError)

    def _stream_failures(self) -> tuple[type[Exception], ...]:
        """The exceptions that may end `stream`, beside `ProviderError`."""
        return self._all_failures()

    def _failure(self, error: Exception) -> ProviderError:
        """Return what one of `_stream_failures` or `_all_failures` stands for."""
        return failure(self._connection, error)

    def warm_up(self) -> None:
        """Load the SDK now, so that the first request need not wait for it. It blocks: call it in a thread."""
        self._connect()

    async def _connected(self) -> ClientT:
        return self._client if self._client is not None else await run_aside(self._connect)

    def _connect(self) -> ClientT:
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _all_failures(self) -> tuple[type[Exception], ...]:
        import httpx2

        return (*self._failures(), httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)
