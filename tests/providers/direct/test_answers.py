"""Answers from bytes: the same body however the bytes are cut, and never half a body for a whole one."""

from __future__ import annotations

import itertools
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.providers.http1 import MAX_HEAD_BYTES, MAX_LINE_BYTES, ResponseReader, write_head

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nX-Two: a\r\nx-two: b\r\ncontent-length: 4\r\n\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(edges)]


def reader_of(*lines: str, status: int = 200) -> ResponseReader:
    reader = ResponseReader()
    reader.feed("\r\n".join((f"HTTP/1.1 {status} OK", *lines, "", "")).encode())
    assert reader.status == status
    return reader


def chunked() -> ResponseReader:
    return reader_of("transfer-encoding: chunked")


def body_of(reader: ResponseReader, pieces: list[bytes]) -> bytes:
    return b"".join(reader.feed(piece) for piece in pieces)


def test_response_head_is_read_once_it_is_complete() -> None:
    for size in range(len(HEAD)):
        reader = ResponseReader()
        assert (reader.feed(HEAD[:size]), reader.status) == (b"", 0)
    reader = ResponseReader()
    assert (reader.feed(HEAD + b"body"), reader.status, reader.is_persistent) == (b"body", 200, True)
    assert reader.headers == {"content-type": "text/event-stream", "x-two": "a, b", "content-length": "4"}


@given(st.lists(st.integers(0, 2000)))
def test_response_head_does_not_depend_on_how_it_is_split(places: list[int]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    reader = ResponseReader()
    assert body_of(reader, cut(early + HEAD + b"body", places)) == b"body"
    assert reader.headers == {"content-type": "text/event-stream", "x-two": "a, b", "content-length": "4"}


def test_head_with_bare_line_feeds_is_read() -> None:
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 429 Slow\nretry-after: 3\n\nx") == b"x"
    assert (reader.status, reader.headers) == (429, {"retry-after": "3"})


@pytest.mark.parametrize(
    "head",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"HTTP/1.1 99 Odd\r\n\r\n",
        b"HTTP/1.1 600 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * (MAX_HEAD_BYTES + 1),
    ],
)
def test_invalid_head_is_an_error(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"head|status"):
        ResponseReader().feed(head)


def test_head_sent_byte_by_byte_has_the_same_bound() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\n")
    with pytest.raises(ValueError, match="a head without an end"):
        for _ in range(MAX_HEAD_BYTES // 1000 + 1):
            reader.feed(b"x: " + b"y" * 995 + b"\r\n")


@pytest.mark.parametrize(
    ("first", "connection", "is_persistent"),
    [("1.1", "", True), ("1.1", "Close", False), ("1.0", "", False), ("1.0", "keep-alive", True)],
)
def test_host_decides_about_keep_alive(first: str, connection: str, is_persistent: bool) -> None:
    reader = ResponseReader()
    reader.feed(f"HTTP/{first} 200 OK\r\nconnection: {connection}\r\ncontent-length: 0\r\n\r\n".encode())
    assert (reader.is_done, reader.is_persistent) == (True, is_persistent)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 2000)), st.binary(max_size=5))
def test_chunked_body_does_not_depend_on_how_it_is_split(parts: list[bytes], places: list[int], after: bytes) -> None:
    sizes = itertools.cycle((b"%X\r\n", b"%x;ext=1\r\n", b"%X  \r\n"))
    sent = b"".join(next(sizes) % len(part) + part + b"\r\n" for part in parts) + b"0\r\nx-trailer: 1\r\n\r\n"
    reader = chunked()
    assert body_of(reader, [*cut(sent, places), after]) == b"".join(parts)
    assert (reader.is_done, reader.has_extra, "x-trailer" in reader.headers) == (True, bool(after), False)
    reader.close()


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(0, 2000))
def test_truncated_chunked_body_is_never_complete(parts: list[bytes], place: int) -> None:
    sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    reader = chunked()
    body = reader.feed(sent[: place % len(sent)])
    assert b"".join(parts).startswith(body)
    assert not reader.is_done
    with pytest.raises(ValueError, match="before the end"):
        reader.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n",
        b"+5\r\nhello",
        b"0x5\r\nhello",
        b"-1\r\n",
        b"5\r\nhelloX\r\n3\r\n",
        b"5\r\nhello3\r\nabc\r\n",
        b"1234567890abcdef0\r\n",
        b"5" + b";" * (MAX_LINE_BYTES + 1),
        b"5;" + b"e" * (MAX_LINE_BYTES + 1),
        b"0\r\n" + b"t" * (MAX_LINE_BYTES + 1),
        b"0\r\n" + b"t: 1\r\n" * (MAX_LINE_BYTES // 6 + 1),
    ],
)
@pytest.mark.parametrize("size", [1, 100_000])
def test_chunk_without_a_valid_size_is_an_error(sent: bytes, size: int) -> None:
    reader = chunked()
    with pytest.raises(ValueError, match=r"chunk|trailer"):
        for at in range(0, len(sent), size):
            reader.feed(sent[at : at + size])


def test_bytes_after_the_end_of_a_body_are_detected() -> None:
    reader = chunked()
    assert reader.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno") == b"a"
    assert (reader.is_done, reader.has_extra, reader.headers) == (True, True, {"transfer-encoding": "chunked"})
    counted = reader_of("content-length: 3")
    assert (counted.feed(b"abcd"), counted.is_done, counted.has_extra) == (b"abc", True, True)


def test_truncated_body_with_a_length_is_an_error() -> None:
    reader = reader_of("content-length: 5")
    reader.feed(b"abc")
    with pytest.raises(ValueError, match="before the end"):
        reader.close()


def test_head_determines_how_the_body_ends() -> None:
    both = reader_of("transfer-encoding: Chunked", "content-length: 4")
    assert (both.feed(b"1\r\na\r\n0\r\n\r\n"), both.is_done) == (b"a", True)
    until_close = reader_of()
    assert (until_close.feed(b"abc"), until_close.is_done, until_close.is_persistent) == (b"abc", False, False)
    until_close.close()
    assert until_close.is_done
    assert reader_of(status=204).is_done
    assert reader_of("content-length: 0").is_done


@pytest.mark.parametrize(
    "line",
    [
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: gzip",
        "content-length: 4, 5",
        "content-length: 4\r\ncontent-length: 5",
        "content-length: -1",
        "content-length: ٣",
    ],
)
def test_ambiguous_body_length_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)coding|length"):
        reader_of(line)


@pytest.mark.parametrize(
    "headers", [{"x": "a\r\nb: c"}, {"x": "a\n"}, {"x": "\0"}, {"x y": "a"}, {"": "a"}, {"x:": "a"}, {"x": "a\x7f"}]
)
def test_header_cannot_inject_another(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^a header contains characters that HTTP does not allow$"):
        write_head("POST", "/", headers)


def test_header_outside_of_latin_1_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="latin-1"):
        write_head("POST", "/", {"x": "漢"})
