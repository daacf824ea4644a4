"""Compressed bodies: the same bytes however they are cut, and a truncated one is an error."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.providers.http1 import Inflater
from tests.providers.direct.test_answers import cut


def raw(data: bytes) -> bytes:
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeezer.compress(data) + squeezer.flush()


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-Gzip": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
    "deflate": zlib.compress,
    " Deflate": raw,
    "identity": bytes,
    "": bytes,
}


def undone(name: str, pieces: list[bytes]) -> bytes:
    coding = Inflater(name)
    body = b"".join(b"".join(coding.feed(piece)) for piece in pieces)
    coding.close()
    return body


@pytest.mark.parametrize("name", WAYS)
@given(data=st.binary(max_size=300), places=st.lists(st.integers(0, 400)))
def test_decoded_body_does_not_depend_on_how_it_is_split(name: str, data: bytes, places: list[int]) -> None:
    assert undone(name, cut(WAYS[name](data), places)) == data


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_truncated_compressed_body_is_an_error(name: str) -> None:
    sent = WAYS[name](b"something long enough " * 20)
    for size in range(1, len(sent)):
        with pytest.raises(ValueError, match="truncated"):
            undone(name, [sent[:size]])


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_corrupted_body_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="corrupted"):
        undone(name, [b"plain text and nothing else"])


def test_padding_after_a_body_is_ignored() -> None:
    assert undone("gzip", [gzip.compress(b"abc") + b"\0" * 9, b"\0"]) == b"abc"


def test_large_body_is_decoded_in_chunks() -> None:
    sizes = [len(piece) for piece in Inflater("gzip").feed(gzip.compress(bytes(5_000_000)))]
    assert (sum(sizes), max(sizes) <= 1024 * 1024) == (5_000_000, True)


def test_unrequested_content_encoding_is_an_error() -> None:
    with pytest.raises(ValueError, match="br"):
        Inflater("br")
