"""Answers from bytes: the same body however the bytes are cut, and never half a body for a whole one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.providers.direct.framing import (
    MAX_HEAD_BYTES,
    MAX_LINE_BYTES,
    Chunked,
    Counted,
    Framing,
    Head,
    UntilClose,
    framing_of,
    read_head,
    write_head,
)

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nX-Two: a\r\nx-two: b\r\n\r\n"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(edges)]


def head_of(*lines: str, status: int = 200) -> Head:
    found = read_head("\r\n".join((f"HTTP/1.1 {status} OK", *lines, "", "")).encode())
    assert found is not None
    return found[0]


def body_of(framing: Framing, pieces: list[bytes]) -> bytes:
    return b"".join(framing.feed(piece) for piece in pieces)


def test_a_head_is_read_once_it_is_whole() -> None:
    assert all(read_head(HEAD[:size]) is None for size in range(len(HEAD)))
    head, rest = read_head(HEAD + b"body") or pytest.fail()
    assert (head.status, rest, head.is_persistent) == (200, b"body", True)
    assert head.headers == {"content-type": "text/event-stream", "x-two": "a, b"}


def test_a_head_with_bare_line_feeds_is_read() -> None:
    head, rest = read_head(b"HTTP/1.1 429 Slow\nretry-after: 3\n\nx") or pytest.fail()
    assert (head.status, head.headers, rest) == (429, {"retry-after": "3"}, b"x")


@pytest.mark.parametrize(
    "head",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 99 Odd\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: 1\r\n\r\n",
        b"x" * (MAX_HEAD_BYTES + 1),
    ],
)
def test_what_is_no_head_is_an_error(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"head|status"):
        read_head(head)


@pytest.mark.parametrize(
    ("first", "connection", "is_persistent"),
    [("1.1", "", True), ("1.1", "Close", False), ("1.0", "", False), ("1.0", "keep-alive", True)],
)
def test_whether_a_connection_stays_is_the_hosts_word(first: str, connection: str, is_persistent: bool) -> None:
    found = read_head(f"HTTP/{first} 200 OK\r\nconnection: {connection}\r\n\r\n".encode())
    assert found is not None
    assert found[0].is_persistent is is_persistent


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 2000)), st.binary(max_size=5))
def test_a_chunked_body_is_the_same_however_it_is_cut(parts: list[bytes], places: list[int], after: bytes) -> None:
    sent = b"".join(b"%X;ext=1 \r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nx-trailer: 1\r\n\r\n"
    framing = Chunked()
    assert body_of(framing, [*cut(sent, places), after]) == b"".join(parts)
    assert framing.is_done
    framing.close()


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(0, 2000))
def test_a_chunked_body_that_is_cut_off_is_never_whole(parts: list[bytes], place: int) -> None:
    sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    framing = Chunked()
    body = framing.feed(sent[: place % len(sent)])
    assert b"".join(parts).startswith(body)
    assert not framing.is_done
    with pytest.raises(ValueError, match="inside"):
        framing.close()


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
        b"0\r\n" + b"t" * (MAX_LINE_BYTES + 1),
    ],
)
def test_a_chunk_without_a_clear_size_is_an_error(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"chunk|trailer"):
        Chunked().feed(sent)


def test_what_comes_behind_the_end_is_told_apart() -> None:
    framing = Chunked()
    assert framing.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1") == b"a"
    assert framing.rest == b"HTTP/1.1"
    counted = Counted(3)
    assert (counted.feed(b"abcd"), counted.rest, counted.is_done) == (b"abc", b"d", True)


def test_a_counted_body_that_is_cut_off_is_an_error() -> None:
    framing = Counted(5)
    framing.feed(b"abc")
    with pytest.raises(ValueError, match="inside"):
        framing.close()


def test_the_head_says_how_the_body_ends() -> None:
    assert isinstance(framing_of(head_of("transfer-encoding: Chunked", "content-length: 4")), Chunked)
    assert isinstance(framing_of(head_of("content-length: 4, 4")), Counted)
    assert isinstance(framing_of(head_of()), UntilClose)
    assert framing_of(head_of(status=204)).is_done
    assert framing_of(head_of("content-length: 0")).is_done


@pytest.mark.parametrize(
    "line", ["transfer-encoding: gzip, chunked", "content-length: 4, 5", "content-length: -1", "content-length: ٣"]
)
def test_an_unclear_end_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"coding|length"):
        framing_of(Head(200, dict([line.split(": ")]), is_persistent=True))


@pytest.mark.parametrize(
    "headers", [{"x": "a\r\nb: c"}, {"x": "a\n"}, {"x": "\0"}, {"x y": "a"}, {"": "a"}, {"x:": "a"}, {"x": "a\x7f"}]
)
def test_a_header_cannot_smuggle_another(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^a header holds characters HTTP forbids$"):
        write_head("POST", "/", headers)


def test_a_header_outside_of_latin_1_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="latin-1"):
        write_head("POST", "/", {"x": "漢"})
