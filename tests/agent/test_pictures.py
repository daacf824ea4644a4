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
def test_the_size_is_what_another_program_wrote(form: str, options: dict[str, bool]) -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (321, 123), "red").save(out, form, **options)
    assert size_of(out.getvalue()) == (321, 123)


def test_a_webp_with_transparency_says_its_size_elsewhere() -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGBA", (21, 13), (255, 0, 0, 9)).save(out, "WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
    assert size_of(out.getvalue()) == (21, 13)


@pytest.mark.parametrize("data", [png(9, 9)[:20], b"\xff\xd8\xff", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF....WEBPVP8 "])
def test_a_cut_header_has_no_size(data: bytes) -> None:
    assert size_of(data) is None


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(InputError, match="not a PNG, JPEG"):
        picture_of(b"text", "x.png")
