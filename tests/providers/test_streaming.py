"""The loop that reads a response, and its time limits, without an SDK and without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, TextDelta, UsageReported
from qcode.providers.connection import Connection, Timeouts
from qcode.providers.streaming import read_reply
from qcode.text.json import JsonObject
from tests.providers.events import PROTOCOLS, Recording, as_bytes, decoder, parser, recording

_GREETINGS: dict[str, JsonObject] = {
    "openai": {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    "openai-responses": {"type": "response.created", "response": {"id": "r", "model": "m"}},
    "anthropic": {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
    "gemini": {"responseId": "r", "modelVersion": "m", "usageMetadata": {"promptTokenCount": 1}},
    "bedrock": {"messageStart": {"role": "assistant"}},
}


class Pieces(httpx2.AsyncByteStream):
    """Pieces of a body, then silence."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        await asyncio.Event().wait()


def read(protocol: str, limits: Timeouts, *pieces: bytes) -> tuple[list[ReplyEvent], ProviderError | None]:
    events: list[ReplyEvent] = []

    async def main() -> ProviderError | None:
        response = httpx2.Response(200, stream=Pieces(*pieces))
        connection = Connection("acme", "https://acme.test", timeouts=limits)
        try:
            async for event in read_reply(
                response, decoder(protocol), connection, parser(protocol), (httpx2.HTTPError,)
            ):
                events.append(event)
        except ProviderError as error:
            return error
        return None

    return events, asyncio.run(main())


def greeting(protocol: str) -> bytes:
    """Return the event that a host sends at once, before the first output."""
    return as_bytes(Recording(protocol, "greeting", [_GREETINGS[protocol]], False, [], None))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_first_event_does_not_shorten_the_timeout_of_a_thinking_model(protocol: str) -> None:
    """Hosts name the model at once; a reasoning model may say nothing for minutes after that."""
    events, error = read(protocol, Timeouts(first_event=0.1, idle=0.01), greeting(protocol))
    assert [type(event) for event in events if not isinstance(event, UsageReported)] == [ReplyStarted]
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.TIMEOUT, "no data for 0.1 s")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_timeout_is_short_after_the_first_text(protocol: str) -> None:
    name = "neither_reason_nor_end_mark" if protocol == "openai" else "broken_off"
    events, error = read(protocol, Timeouts(first_event=5, idle=0.02), as_bytes(recording(protocol, name)))
    assert any(isinstance(event, TextDelta) for event in events)
    assert error is not None
    assert (error.kind, error.message) == (ErrorKind.TIMEOUT, "no data for 0.02 s")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_finished_reply_is_not_waited_for(protocol: str) -> None:
    events, error = read(
        protocol, Timeouts(first_event=5, idle=5, after_stop=0.02), as_bytes(recording(protocol, "text"))
    )
    assert error is None
    assert isinstance(events[-1], ReplyEnded)
