"""Amazon's event stream: messages from bytes split anywhere, and detection of other content."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.bedrock.frames import FrameParser
from qcode.text.json import Json
from tests.providers.frames import frame, message

STREAM = frame("messageStart", {"role": "assistant"}) + frame("contentBlockDelta", {"delta": {"text": "wörld"}})
EVENTS: list[Json] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "wörld"}}},
]


def parse(*pieces: bytes) -> list[Json]:
    parser = FrameParser()
    found = [*(event for piece in pieces for event in parser.feed(piece)), *parser.flush()]
    return [json.loads(event.data) for event in found]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_messages_do_not_depend_on_how_their_bytes_are_split(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parse(*(STREAM[start:end] for start, end in pairwise(edges))) == EVENTS


def test_truncated_message_is_not_decoded() -> None:
    assert parse(STREAM[:-1]) == EVENTS[:1]


def test_exception_is_named_by_its_type() -> None:
    assert parse(frame("throttlingException", {"message": "slow"})) == [{"throttlingException": {"message": "slow"}}]


def test_error_is_in_the_headers() -> None:
    headers: dict[str, str | int | bool] = {
        ":message-type": "error", ":error-code": "InternalError", ":error-message": "it broke"
    }  # fmt: skip
    assert parse(message(headers, b"")) == [{"error": {"code": "InternalError", "message": "it broke"}}]


def test_headers_of_other_types_and_missing_text_are_accepted() -> None:
    headers: dict[str, str | int | bool] = {"a": True, "b": 7, ":message-type": "event", ":event-type": "x", "c": False}
    assert parse(message(headers, b"")) == [{"x": {}}]


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"data: {}\n\ndata: {}\n\n", bytes(32)])
def test_response_without_an_event_stream_is_an_error(sent: bytes) -> None:
    with pytest.raises(ProviderError, match="not answer with an event stream") as caught:
        parse(sent)
    assert caught.value.kind is ErrorKind.BAD_RESPONSE


@pytest.mark.parametrize("at", [0, 4, 9, 13, 30, -6, -1])
def test_damaged_stream_is_a_broken_connection(at: int) -> None:
    first, second = frame("messageStart", {"role": "assistant"}), bytearray(frame("messageStop", {"stopReason": "x"}))
    second[at] ^= 0xFF
    with pytest.raises(ProviderError, match="corrupted") as caught:
        parse(first, bytes(second), bytes(64))
    assert caught.value.kind is ErrorKind.CONNECTION


@pytest.mark.parametrize("headers", [b"\x05a", b"\x01a\x63", b"\x01a\x07\x00", b"\x01a\x07\x00\x09b", b"\x01\xff\x00"])
def test_unreadable_headers_are_damage(headers: bytes) -> None:
    prelude = struct.pack(">II", 16 + len(headers), len(headers))
    checked = prelude + struct.pack(">I", crc32(prelude)) + headers
    with pytest.raises(ProviderError, match="not answer with an event stream"):
        parse(checked + struct.pack(">I", crc32(checked)))


def test_oversized_message_is_refused_before_it_is_buffered() -> None:
    parser = FrameParser(max_event_bytes=1024 * 1024)
    prelude = struct.pack(">II", 2 * 1024 * 1024, 0)
    with pytest.raises(ProviderError, match="larger than 1 MB"):
        parser.feed(prelude + struct.pack(">I", crc32(prelude)))
