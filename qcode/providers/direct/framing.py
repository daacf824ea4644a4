"""HTTP/1.1 answers from bytes, by RFC 9112: a head, and a body that is chunked, counted or ends with the connection.

Pure; indifferent to how the bytes are cut. What breaks the rules raises `ValueError`: a body whose end is unclear
must not pass for a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from qcode.protocol.values import dataclass

MAX_HEAD_BYTES = 256 * 1024
MAX_LINE_BYTES = 16 * 1024

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_FIRST_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_NEXT_SIZE = re.compile(rb"\r?\n([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")


@dataclass(frozen=True, slots=True)
class Head:
    """`headers` has names in lower case and repeated values joined with a comma.

    `is_persistent`: the connection may serve another request once the body has ended.
    """

    status: int
    headers: Mapping[str, str]
    is_persistent: bool


def read_head(held: bytes) -> tuple[Head, bytes] | None:
    """Return the head `held` begins with and the bytes after it, None where it is not whole yet."""
    end = _HEAD_END.search(held)
    if end is None:
        if len(held) > MAX_HEAD_BYTES:
            raise ValueError("a head without an end")
        return None
    first, *lines = held[: end.start()].replace(b"\r\n", b"\n").split(b"\n")
    status = _STATUS.fullmatch(first)
    if status is None:
        raise ValueError("no HTTP/1.1 status line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise ValueError("a header line without a name")
        known = headers.get(name.lower())
        headers[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
    wishes = {wish.strip().lower() for wish in headers.get("connection", "").split(",")}
    is_persistent = "close" not in wishes and (status[1] == b"1" or "keep-alive" in wishes)
    return Head(int(status[2]), headers, is_persistent), held[end.end() :]


def write_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a request; raise `ValueError` where a header holds what HTTP forbids, without quoting it."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError("a header holds characters HTTP forbids")
    lines = (f"{method} {target} HTTP/1.1", *(f"{name}: {value.strip()}" for name, value in headers.items()))
    return "\r\n".join((*lines, "", "")).encode("latin-1")


class Framing(Protocol):
    """Where a body ends. `rest` is what came after its end, which nobody asked for."""

    is_done: bool
    rest: bytes

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the body in `data`."""
        ...

    def close(self) -> None:
        """The connection has ended; raise `ValueError` where the body had not."""
        ...


def framing_of(head: Head) -> Framing:
    """Return how the body of an answer to a POST or GET is framed."""
    if head.status in (204, 304):
        return Counted(0)
    coding = head.headers.get("transfer-encoding", "").strip().lower()
    if coding:
        if coding != "chunked":
            raise ValueError("a transfer coding nobody asked for")
        return Chunked()
    sizes = {size.strip() for size in head.headers.get("content-length", "").split(",")} - {""}
    if not sizes:
        return UntilClose()
    size = sizes.pop()
    if sizes or not (size.isascii() and size.isdigit() and len(size) < 16):
        raise ValueError("a length that is none")
    return Counted(int(size))


class Chunked:
    """The chunked coding; trailers and extensions are skipped."""

    def __init__(self) -> None:
        self.is_done = False
        self.rest = b""
        self._held = b""
        self._left = 0
        self._size = _FIRST_SIZE
        self._is_in_trailer = False

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data = self._held + data
            self._held = b""
        pieces: list[bytes] = []
        at = 0
        while not self._is_in_trailer:
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
                if self._left:
                    return b"".join(pieces)
            found = self._size.match(data, at)
            if found is None:
                self._hold(data, at)
                return b"".join(pieces)
            self._left = int(found[1], 16)
            self._size = _NEXT_SIZE
            self._is_in_trailer = not self._left
            at = found.end()
        self._skip_trailer(data, at)
        return b"".join(pieces)

    def close(self) -> None:
        if not self.is_done:
            raise ValueError("the connection ended inside the body")

    def _hold(self, data: bytes, at: int) -> None:
        """Keep the beginning of a size line; what can no longer become one is an error."""
        begun = data[at:]
        lines_needed = 1 if self._size is _FIRST_SIZE else 2
        if begun.count(b"\n") >= lines_needed or len(begun) > MAX_LINE_BYTES:
            raise ValueError("a chunk without a size")
        self._held = begun

    def _skip_trailer(self, data: bytes, at: int) -> None:
        while (end := data.find(b"\n", at)) >= 0:
            line, at = data[at:end], end + 1
            if line in (b"", b"\r"):
                self.is_done = True
                self.rest = data[at:]
                return
        self._held = data[at:]
        if len(self._held) > MAX_LINE_BYTES:
            raise ValueError("a trailer without an end")


class Counted:
    """A body of so many bytes."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_done = not size
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        piece, self.rest = data[: self._left], data[self._left :]
        self._left -= len(piece)
        self.is_done = not self._left
        return piece

    def close(self) -> None:
        if self._left:
            raise ValueError("the connection ended inside the body")


class UntilClose:
    """A body that ends with its connection; nobody can tell whether all of it came."""

    def __init__(self) -> None:
        self.is_done = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> None:
        self.is_done = True
