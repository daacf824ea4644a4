"""The event-stream parser: the same events however the bytes are split, and a bound on its buffer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.sse import SseEvent, SseParser


def parse(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [*(event for piece in pieces for event in parser.feed(piece)), *parser.flush()]


def data(*texts: str) -> list[SseEvent]:
    return [SseEvent("", text) for text in texts]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", data("a", "b")),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")),
        (b"data: a\r\rdata: b\r\r", data("a", "b")),
        (b"data: a\n\n\n\n\ndata: b\n\n", data("a", "b")),
        (b": ping\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n", data("a")),
        (b"data: a\n: in between\ndata: b\n\n", data("a\nb")),
        (b"data:a\n\ndata:  b\n\n", data("a", " b")),
        (b"data\n\ndata:\n\n", data("", "")),
        (b"event: message_stop\ndata: {}\n\n", [SseEvent("message_stop", "{}")]),
        (b"event: x\n\ndata: a\n\n", data("a")),
        (b"id: 7\nretry: 10\nunknown: y\ndata: a\n\n", data("a")),
        (b"\xef\xbb\xbfdata: a\n\n", data("a")),
        (b"data: a\n\ndata: b", data("a", "b")),
        (b"data: a\n\ndata: b\n", data("a", "b")),
        (b"data: a\r\n\r\ndata: b\r", data("a", "b")),
        (b"", []),
    ],
)
def test_events_are_parsed_by_the_sse_rules(sent: bytes, expected: list[SseEvent]) -> None:
    assert parse(sent) == expected
    assert parse(*(sent[i : i + 1] for i in range(len(sent)))) == expected


def test_only_the_three_sse_line_endings_end_a_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    assert parse(f"data: {text}\n\n".encode()) == data(text)


def test_line_ending_split_between_cr_and_lf_counts_once() -> None:
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == data("a\nb")


_LINE = st.one_of(
    st.text().map(lambda text: f"data: {text}"), st.sampled_from(["", "", ": ping", "event: x", "data", "id: 1"])
)


@given(
    lines=st.lists(_LINE, max_size=12),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_bytes_split_anywhere_give_the_same_events(lines: list[str], newline: str, cuts: list[int]) -> None:
    sent = "".join(line + newline for line in lines).encode("utf-8", "replace")
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    assert parse(*(sent[start:end] for start, end in pairwise(edges))) == parse(sent)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200],
        [b"x" * 60, b"x" * 60],
        [b"data: " + b"x" * 50 + b"\n"] * 3,
        [b"x" * 90, b"x" * 90 + b"\n"],
    ],
    ids=["one line", "a line in pieces", "one event of many lines", "a line that ends too late"],
)
def test_event_larger_than_the_bound_is_an_error(pieces: list[bytes]) -> None:
    parser = SseParser(max_event_bytes=100)
    with pytest.raises(ProviderError) as caught:
        for piece in pieces:
            parser.feed(piece)
    assert caught.value.kind is ErrorKind.BAD_RESPONSE


def test_many_small_events_do_not_exceed_the_bound() -> None:
    parser = SseParser(max_event_bytes=100)
    events = [event for _ in range(50) for event in parser.feed(b"data: " + b"x" * 80 + b"\n\n")]
    assert len(events) == 50
