"""Content codings of an answer: gzip and deflate, which are what a request of ours accepts. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

ACCEPTED = "gzip, deflate"
_PIECE_BYTES = 1024 * 1024
_GZIP_MAGIC = b"\x1f"


class Coding(Protocol):
    """Bytes as sent in, the body out. Raises `ValueError` for bytes that are not in this coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of bounded size."""
        ...

    def close(self) -> None:
        """The body has ended; raise `ValueError` where its coding had not."""
        ...


def coding_of(name: str) -> Coding:
    """Return the coding a `Content-Encoding` header names; raise `ValueError` for one nobody asked for."""
    match name.strip().lower():
        case "" | "identity":
            return Plain()
        case "gzip" | "x-gzip":
            return Deflated(is_gzip=True)
        case "deflate":
            return Deflated(is_gzip=False)
        case _:
            raise ValueError(f"a content coding nobody asked for: {name[:40]!r}")


class Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        if data:
            yield data

    def close(self) -> None:
        return


class Deflated:
    """gzip, also of several members; or deflate, with the wrapper of zlib or, as some hosts send it, without."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._window = zlib.MAX_WBITS | 16 if is_gzip else zlib.MAX_WBITS
        self._inflater = zlib.decompressobj(self._window)
        self._first = b""
        self._is_sniffed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._is_sniffed:
            self._first += data
            # Two bytes tell whether a deflated body has a wrapper.
            if len(self._first) < 2:
                return
            data = self._first
            self._is_sniffed = True
            if not self._is_gzip and not _is_wrapped(data):
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while True:
            if self._inflater.eof:
                # Another member begins, or there is padding, which means nothing.
                if not self._is_gzip or not data.startswith(_GZIP_MAGIC):
                    return
                self._inflater = zlib.decompressobj(self._window)
            try:
                piece = self._inflater.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise ValueError("the compressed body is damaged") from error
            if piece:
                yield piece
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            if not data and len(piece) < _PIECE_BYTES:
                return

    def close(self) -> None:
        if self._first and not self._inflater.eof:
            raise ValueError("the compressed body is cut")


def _is_wrapped(data: bytes) -> bool:
    """Tell whether `data` begins with the header of zlib (RFC 1950): method 8 and a checksum over two bytes."""
    return data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
