"""A server at an address: streamable HTTP by the `mcp` package, with bounded answers and bounded endings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from qcode.config.settings import McpServer
from qcode.runtime.mcp.log import Log
from qcode.runtime.mcp.spec import ServerError

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

MOST_ANSWER = 16 * 1024 * 1024
"""Bytes of one answer or event."""

_CONNECT_S = 20.0
_ENDING_S = 1.0
_IS_EVENTS = "text/event-stream"


@asynccontextmanager
async def reaching(config: McpServer, log: Log) -> AsyncIterator[TransportStreams]:
    """Yield the streams of a session; nothing is sent yet. Raise `ServerError` for what cannot be an address."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    assert config.url is not None
    _check(config)
    watch = _Watch(log)
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [_hurry_endings], "response": [watch.see]}
    # Identity: what is unpacked while it arrives has no bound that could be counted here.
    headers = {**config.headers, "Accept-Encoding": "identity"}
    try:
        client = httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(_CONNECT_S, read=None), event_hooks=hooks)
    except (ImportError, ValueError, OSError) as error:
        raise ServerError(f"no connection can be made: {error}") from None
    async with (
        client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MOST_ANSWER) as streams,
    ):
        yield streams


def _check(config: McpServer) -> None:
    """Refuse what a header or an address cannot hold, by its name: an error of the client would show the value."""
    for name, value in config.headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ServerError(f"the header {name} holds characters that no header may have")
    if not (config.url or "").isprintable():
        raise ServerError("the address holds characters that no address may have")


async def _hurry_endings(request: httpx2.Request) -> None:
    """Nothing waits long for a server to take note of the end of a session."""
    if request.method == "DELETE":
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _ENDING_S)


class _Watch:
    """Notes refusals, of which the transport tells only that there was one, and bounds what is read at once."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def see(self, response: httpx2.Response) -> None:
        import httpx2

        if response.status_code >= 400 and response.status_code not in (404, 405):
            self._log.note(f"answered {response.status_code} {response.reason_phrase}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("the answer is packed, which was not asked for")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream) and not response.headers.get("content-type", "").startswith(
            _IS_EVENTS
        ):
            response.stream = _bounded(stream)


def _bounded(inner: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for data in inner:
                size += len(data)
                if size > MOST_ANSWER:
                    raise httpx2.RemoteProtocolError(f"the answer is larger than {MOST_ANSWER // 1024 // 1024} MiB")
                yield data

        async def aclose(self) -> None:
            await inner.aclose()

    return Bounded()
