"""The loop that all clients share: open the response, read bytes, parse events, decode them, enforce time limits.

A client only opens the response, directly or with its SDK. The stream is read as bytes: SDK objects need several times
the CPU time, and an SDK ends a truncated stream without an error.
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
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    EventDamaged,
    ReasoningDelta,
    ReplyEvent,
    ReplyStarted,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.providers.blocks import HostCallFacts, MarkSearch
from qcode.providers.connection import Connection
from qcode.providers.errors import is_html_page, page_title, with_origin
from qcode.providers.history import OpaqueFilter, opaque_origin, tag_opaque, text_to_continue
from qcode.providers.sdk import convert_error, run_in_thread
from qcode.providers.sse import MAX_EVENT_BYTES, SseEvent, SseParser
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    import httpx2

    from qcode.protocol.provider import Provider
    from qcode.providers.text_calls.tail import TailEvents

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""A larger stream is an error."""
MAX_REPLY_CHARS = 4_000_000
"""A longer reply is an error: a million tokens are more than any model writes, so the server does not end it."""

SMALL_REQUEST_LIMIT_S = 30.0
"""The time limit for a list of models, or for the check of a key."""
_DRAIN_LIMIT_S = 0.05
"""The time limit for the end of the body after the last event, which makes the connection reusable."""

ClientT = TypeVar("ClientT")
ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)


class ResponseStream(Protocol):
    """A response with an unread body, such as a response of httpx2."""

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class Parser(Protocol):
    """A parser of bytes, split anywhere, into events, with bounded memory."""

    def feed(self, chunk: bytes) -> list[SseEvent]: ...

    def flush(self) -> list[SseEvent]:
        """Return the event at the end of the stream, if any."""
        ...


class Decoder(Protocol):
    """A decoder of the JSON objects of one reply into reply events. Each reply needs a new instance."""

    @property
    def is_complete(self) -> bool:
        """Whether the stop reason was received. After that, a broken stream is not an error."""
        ...

    @property
    def is_ended(self) -> bool:
        """Whether the protocol's last event was received; later data is ignored."""
        ...

    def feed(self, data: JsonObject) -> list[ReplyEvent]:
        """Return the events of one object; raise `ProviderError` for an error object. Unknown objects are skipped."""
        ...

    def end(self) -> None:
        """Handle the end mark of the stream (`[DONE]`)."""
        ...

    def finish(self) -> list[ReplyEvent]:
        """Return the last events. Raise `ProviderError` (CONNECTION) if the reply is incomplete."""
        ...


def decode_event(event: SseEvent, decoder: Decoder) -> list[ReplyEvent]:
    """Decode one event of the stream; data that is not a JSON object is skipped and logged.

    A damaged object may have contained a part of the reply, so `EventDamaged` reports it. There is no such report for
    damaged objects after the stop reason, pings, and words without a brace or a quote, such as `keep-alive`.
    """
    if event.data.startswith("[DONE]"):
        decoder.end()
        return []
    try:
        data: Json = json.loads(event.data)
    except (ValueError, RecursionError):
        _log.info("skipped an event that is not JSON: %.200r", event.data)
        data = None
        is_damaged_object = any(character in event.data for character in '{}"')
        if is_damaged_object and event.event not in ("ping", "error") and not decoder.is_complete:
            return [EventDamaged()]
    has_error = isinstance(data, dict) and bool(data.get("error"))
    if event.event == "error" and not has_error:
        data = {"error": data if isinstance(data, dict) else event.data}
    return feed_json(data, decoder)


def feed_json(value: Json, decoder: Decoder) -> list[ReplyEvent]:
    """Decode an object, or the objects of a list (Gemini without `alt=sse` sends one list).

    An error after the stop reason is ignored, because the reply is complete.
    """
    events: list[ReplyEvent] = []
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, dict) or decoder.is_ended:
            continue
        is_complete = decoder.is_complete
        try:
            events += decoder.feed(item)
        except ProviderError as error:
            if not is_complete:
                raise
            _log.info("ignored an error after the end of a reply: %s", error.message)
    return events


async def read_reply(
    response: ResponseStream,
    decoder: Decoder,
    connection: Connection,
    parser: Parser,
    connection_errors: tuple[type[Exception], ...],
) -> AsyncGenerator[ReplyEvent, None]:
    """Yield the events of a streamed response with status 200. Raise `ProviderError` if it stalls or is invalid.

    `connection_errors` are the exceptions of a broken connection. They pass through, except after the stop reason,
    because the reply is then complete.
    """
    body = _BodyReader(decoder, parser)
    chunks = aiter(response.aiter_bytes())
    stream_errors: tuple[type[Exception], ...] = (TimeoutError, *connection_errors)
    limits = connection.timeouts
    idle = connection.idle_limit
    limit = limits.first_event
    is_open = True
    while is_open and not decoder.is_ended:
        try:
            async with asyncio.timeout(limit):
                chunk = await anext(chunks, None)
        except stream_errors as error:
            if not decoder.is_complete:
                if isinstance(error, TimeoutError):
                    raise ProviderError(ErrorKind.TIMEOUT, f"no data for {limit:g} s") from error
                raise
            chunk = None
        is_open = chunk is not None
        events = body.flush() if chunk is None else body.feed(chunk)
        for event in events:
            yield event
        if decoder.is_complete:
            limit = min(limits.after_stop, idle)
        elif body.has_begun:
            limit = idle
    for event in decoder.finish():
        yield event
    if is_open:
        # Read the end of the stream, which has no data; otherwise the connection cannot be reused.
        with contextlib.suppress(*stream_errors):
            async with asyncio.timeout(_DRAIN_LIMIT_S):
                await anext(chunks, None)


class _BodyReader:
    """A reader of the body of a response: a stream of events or, if the server does not stream, one JSON value."""

    def __init__(self, decoder: Decoder, parser: Parser) -> None:
        self.has_begun = False
        """A part of the reply was received: text, reasoning or a call."""
        self._decoder = decoder
        self._parser = parser
        self._whole_body: bytearray | None = None
        """The bytes of a body without events, None if the server streams."""
        self._is_sniffed = False
        """The start of the body was examined, to find out whether the body is a stream of events."""
        self._size = 0
        self._char_count = 0

    def feed(self, chunk: bytes) -> Iterator[ReplyEvent]:
        """Yield the events that `chunk` completes. Raise `ProviderError` if the body is too large."""
        self._size += len(chunk)
        if not self._is_sniffed and chunk.strip():
            self._is_sniffed = True
            # A line of an event stream cannot start with these characters.
            if chunk.lstrip()[:1] in (b"{", b"[", b"<"):
                self._whole_body = bytearray()
        if self._whole_body is not None:
            self._whole_body += chunk
        max_size = MAX_REPLY_BYTES if self._whole_body is None else MAX_EVENT_BYTES
        if self._size > max_size:
            limit = max_size // (1024 * 1024)
            raise ProviderError(ErrorKind.BAD_RESPONSE, f"the reply is larger than {limit} MB; it was stopped")
        if self._whole_body is None:
            yield from self._decode(self._parser.feed(chunk))

    def flush(self) -> Iterator[ReplyEvent]:
        """Yield the remaining events at the end of the body, or the events of a body that is one JSON value."""
        if self._whole_body is None:
            yield from self._decode(self._parser.flush())
            return
        text = self._whole_body.decode("utf-8", "replace")
        if is_html_page(text):
            title = page_title(text)
            title_text = f' ("{title}")' if title else ""
            message = f"the server returned a web page{title_text} instead of a reply"
            raise ProviderError(ErrorKind.BAD_RESPONSE, message, status=200)
        try:
            value: Json = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from feed_json(value, self._decoder)

    def _decode(self, events: list[SseEvent]) -> Iterator[ReplyEvent]:
        for event in events:
            if self._decoder.is_ended:
                return
            for decoded in decode_event(event, self._decoder):
                # Events without content do not end the longer time limit for the first event.
                is_content = not isinstance(decoded, ReplyStarted | UsageReported | EventDamaged)
                self.has_begun = self.has_begun or is_content
                if isinstance(decoded, TextDelta | ReasoningDelta | ToolArgsDelta):
                    self._char_count += len(decoded.text)
                    if self._char_count > MAX_REPLY_CHARS:
                        message = f"the reply is longer than {MAX_REPLY_CHARS:,} characters; it was stopped"
                        raise ProviderError(ErrorKind.BAD_RESPONSE, message)
                yield decoded


class SdkProvider(ABC, Generic[ClientT]):
    """A `Provider` over an SDK.

    The SDK is imported with the first request, in a thread: it takes up to a second, which must not block the screen.
    """

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self.host = connection.base_url
        self._connection = connection
        self._client: ClientT | None = None
        self._lock = threading.Lock()
        self._opaque_filter = OpaqueFilter("")

    @abstractmethod
    def _make_client(self) -> ClientT:
        """Import the SDK and return its client. Called in a thread without an event loop."""
        ...

    @abstractmethod
    async def _close_client(self, client: ClientT) -> None: ...

    @abstractmethod
    def _decoder(self, request: ModelRequest) -> Decoder:
        """Return a new decoder for the events of one response."""
        ...

    @abstractmethod
    def _open(self, client: ClientT, request: ModelRequest) -> AbstractAsyncContextManager[httpx2.Response]:
        """Send the request. The response is open and unread inside the context, and closed at once on exit."""
        ...

    def _parser(self) -> Parser:
        """Return a new parser for the events of one response."""
        return SseParser()

    @abstractmethod
    async def _list_models(self, client: ClientT) -> list[str]:
        """Return the names of the host's models, empty if the SDK cannot list them."""
        ...

    @abstractmethod
    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of the SDK, without those of httpx2."""
        ...

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; see `protocol.provider.Provider.stream`."""
        limits = self._connection.timeouts
        origin = opaque_origin(self.host)
        if self._opaque_filter.origin != origin:
            self._opaque_filter = OpaqueFilter(origin)
        request = self._opaque_filter.filter_request(request)
        decoder = self._decoder(request)
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(limits.first_event):
                        response = await stack.enter_async_context(self._open_response(request))
                except TimeoutError as error:
                    raise ProviderError(ErrorKind.TIMEOUT, f"no answer within {limits.first_event:g} s") from error
                reply = read_reply(response, decoder, self._connection, self._parser(), self._connection_errors())
                async for event in await stack.enter_async_context(aclosing(reply)):
                    yield tag_opaque(event, origin) if origin else event
        except ProviderError as error:
            raise with_origin(error, self._connection.origin) from error
        except (asyncio.CancelledError, GeneratorExit):
            # Handled first, because the next line may have to wait for an import.
            raise
        except self._stream_errors() as error:
            raise self._convert_error(error) from error

    async def model_names(self) -> tuple[str, ...]:
        """Return the sorted names of the models that the host serves. Raise `ProviderError`."""
        return tuple(sorted(set(await self._send_small(self._list_models))))

    async def _send_small(self, send: Callable[[ClientT], Awaitable[ResultT]]) -> ResultT:
        """Return the result of `send`, a small request. Raise `ProviderError` if it fails or takes too long."""
        await self.prepare()  # before the limit, because the host does not cause the time of an import
        return await self._within_limit(send(await self._open_client()))

    async def _within_limit(self, answer: Awaitable[ResultT]) -> ResultT:
        """Return the answer to a small request. Raise `ProviderError` if it fails or takes too long."""
        try:
            async with asyncio.timeout(SMALL_REQUEST_LIMIT_S):
                return await answer
        except TimeoutError as error:
            message = f"{self.name} did not answer within {SMALL_REQUEST_LIMIT_S:g} s"
            raise ProviderError(ErrorKind.TIMEOUT, message) from error
        except (ProviderError, asyncio.CancelledError):
            raise
        except self._stream_errors() as error:
            raise self._convert_error(error) from error

    async def close(self) -> None:
        """Release connections. Idempotent; also safe before the first request."""
        client = self._client
        self._client = None
        if client is not None:
            await self._close_client(client)

    @asynccontextmanager
    async def _open_response(self, request: ModelRequest) -> AsyncIterator[ResponseStream]:
        """Send the request. The response is open and unread inside the context, and closed at once on exit."""
        client = await self._open_client()
        async with self._open(client, request) as response:
            yield response

    def _connection_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that reading a body raises if the connection breaks."""
        import httpx2

        return (httpx2.HTTPError, httpx2.StreamError)

    def _stream_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that may end a request, apart from `ProviderError`."""
        return self._all_errors()

    def _convert_error(self, error: Exception) -> ProviderError:
        """Convert one of `_stream_errors` or `_all_errors`."""
        return convert_error(self._connection, error)

    def warm_up(self) -> None:
        """Import the SDK now, so that the first request does not wait for it. It blocks, so call it in a thread."""
        self._connect()

    async def prepare(self) -> None:
        """Load everything that the first request needs, which may take seconds for an SDK. Raise `ProviderError`."""
        try:
            await self._open_client()
        except ProviderError:
            raise
        except self._all_errors() as error:
            raise self._convert_error(error) from error

    async def _open_client(self) -> ClientT:
        if self._client is not None:
            return self._client
        return await run_in_thread(self._connect)

    def _connect(self) -> ClientT:
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
            return self._client

    def _all_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that a request with the SDK may raise, apart from `ProviderError`."""
        import httpx2

        return (*self._sdk_errors(), httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError)


class TextCallWatch:
    """A provider around `inner`, which it owns, for a host that may send calls as text.

    Events pass unchanged until the mark of a call appears in the text of a reply; `text_calls.tail` reads the rest of
    the reply. If the host rejects a history with such calls, they are sent as text in all later requests.
    """

    def __init__(self, inner: Provider, call_facts: HostCallFacts) -> None:
        self.name = inner.name
        self.host = inner.host
        self._inner = inner
        self._call_facts = call_facts
        self._text_call_ids: set[str] = set()
        self._sends_calls_as_text = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; see `Provider.stream`."""
        if not request.tools or not request.allows_calls:
            async with aclosing(self._send(request)) as events:
                async for event in events:
                    yield event
            return
        watched = _WatchedReply(request, self._call_facts)
        # If the stream breaks, text that was held back is dropped as if never received: the retry requests it again.
        async with aclosing(self._send(request)) as events:
            async for event in events:
                for watched_event in watched.feed(event):
                    if watched.is_reading and type(watched_event) is ToolCallStarted:
                        self._text_call_ids.add(watched_event.call_id)
                    yield watched_event

    async def _send(self, request: ModelRequest) -> AsyncGenerator[ReplyEvent, None]:
        """Send the request. If the host rejects its own earlier calls as text, send these calls as text."""
        has_text_calls = bool(self._text_call_ids) and any(
            call.call_id in self._text_call_ids for message in request.messages for call in message.calls
        )
        requests = [request]
        if has_text_calls:
            from qcode.providers.text_calls.provider import as_text_history

            as_text = replace(request, messages=as_text_history(request.messages))
            requests = [as_text] if self._sends_calls_as_text else [request, as_text]
        for sent in requests:
            has_replied = False
            try:
                async with aclosing(_closing_events(self._inner.stream(sent))) as events:
                    async for event in events:
                        has_replied = True
                        self._sends_calls_as_text = self._sends_calls_as_text or sent is not request
                        yield event
                return
            except ProviderError as error:
                is_rejected = error.kind is ErrorKind.BAD_REQUEST and not has_replied
                if not is_rejected or sent is requests[-1]:
                    raise

    async def model_names(self) -> tuple[str, ...]:
        return await self._inner.model_names()

    def warm_up(self) -> None:
        """Load everything that `inner` needs for its first request. It blocks, so call it in a thread."""
        load = getattr(self._inner, "warm_up", None)
        if load is not None:
            load()

    async def close(self) -> None:
        await self._inner.close()


async def _closing_events(events: AsyncIterator[ReplyEvent]) -> AsyncGenerator[ReplyEvent, None]:
    """Yield `events`, and close them when this generator is closed."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


class _WatchedReply:
    """A filter of the events of one reply. Events are unchanged up to the first mark of a call in the text."""

    def __init__(self, request: ModelRequest, call_facts: HostCallFacts) -> None:
        self._request = request
        self._call_facts = call_facts
        before = text_to_continue(request.messages)
        self._search = MarkSearch(
            before,
            finds_objects=call_facts.accepts_bare_json and not before,
            finds_lines=call_facts.form == "json",
        )
        self._reader: TailEvents | None = None
        self._has_native_call = False
        self._blocks: set[int] = set()
        """The numbers of the blocks of which at least one event was returned."""
        self._text_block: int | None = None
        """The number of the latest text block."""

    @property
    def is_reading(self) -> bool:
        """Whether a mark was found, so that the events may come from a call written as text."""
        return self._reader is not None

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Return the events that replace `event`."""
        if self._reader is not None:
            return self._reader.feed(event)
        if self._has_native_call:
            return [event]
        if type(event) is TextDelta:
            return self._feed_text(event)
        events = self._release_text()
        if isinstance(event, ToolCallStarted):
            self._has_native_call = True
            self._call_facts.note_native_call()
        block = getattr(event, "block", None)
        if block is not None:
            self._blocks.add(block)
        return [*events, event]

    def _release_text(self) -> list[ReplyEvent]:
        """Return the text that was held back because it may be the start of a mark."""
        text = self._search.flush()
        return [TextDelta(self._text_block or 0, text)] if text else []

    def _feed_text(self, event: TextDelta) -> list[ReplyEvent]:
        """Search text for a mark. From the first mark on, a reader of calls handles all events."""
        block = event.block
        is_new_block = self._text_block not in (None, block)
        events = self._release_text() if is_new_block else []
        searched = self._search.feed(event.text)
        is_open = self._text_block == block and block in self._blocks
        self._text_block = block
        if searched.passed or not event.text:
            events.append(event if searched.passed == event.text else TextDelta(block, searched.passed))
            self._blocks.add(block)
            is_open = True
        if searched.from_mark:
            from qcode.providers.text_calls.tail import begin_tail

            text_block = block if is_open else None
            self._reader = begin_tail(self._request, self._call_facts, self._search, set(self._blocks), text_block)
            events += self._reader.feed(TextDelta(block, searched.from_mark))
        return events
