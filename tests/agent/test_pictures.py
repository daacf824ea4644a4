"""The size of an image from its header."""

from __future__ import annotations

import io
import struct
import zlib

import pytest

from qcode.agent.context.pictures import picture_of, size_of
from qcode.protocol.errors import InputError


def png(width: int, height: int) -> bytes:
    """Return a minimal PNG."""
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
    ],
)
def test_image_size_is_the_size_that_pillow_wrote(form: str, options: dict[str, bool]) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (321, 123), "red").save(out, form, **options)
    assert size_of(out.getvalue()) == (321, 123)


def test_size_of_an_extended_webp_is_read() -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGBA", (21, 13), (255, 0, 0, 9)).save(out, "WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
    assert size_of(out.getvalue()) == (21, 13)


@pytest.mark.parametrize("data", [png(9, 9)[:20], b"\xff\xd8\xff", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF....WEBPVP8 "])
def test_truncated_header_gives_no_size(data: bytes) -> None:
    assert size_of(data) is None


def test_text_is_not_an_image() -> None:
    with pytest.raises(InputError, match="not a PNG, JPEG"):
        picture_of(b"text", "x.png")
