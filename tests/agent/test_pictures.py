"""The size of an image from its header."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import pytest

from qcode.agent.context.pictures import picture_of, pixel_size
from qcode.protocol.errors import InputError

BOMB = b"a chunk that is decompressed to 90 MB, made in the test because that takes time"


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
    assert pixel_size(out.getvalue()) == (321, 123)


def test_size_of_an_extended_webp_is_read() -> None:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGBA", (21, 13), (255, 0, 0, 9)).save(out, "WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")
    assert pixel_size(out.getvalue()) == (21, 13)


@pytest.mark.parametrize("data", [png(9, 9)[:20], b"\xff\xd8\xff", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF....WEBPVP8 "])
def test_truncated_header_gives_no_size(data: bytes) -> None:
    assert pixel_size(data) is None


def test_text_is_not_an_image() -> None:
    with pytest.raises(InputError, match="not a PNG, JPEG"):
        picture_of(b"text", "x.png")


def with_chunk(image: bytes, kind: bytes, data: bytes, *, has_bad_checksum: bool = False) -> bytes:
    """Return a PNG with one more chunk after its header."""
    checksum = zlib.crc32(kind + data) ^ has_bad_checksum
    return image[:33] + struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum) + image[33:]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", [4, 2_500], ids=["as it is", "scaled down"])
@pytest.mark.parametrize(
    ("kind", "data", "has_bad_checksum"),
    [
        (b"tEXt", b"a\0b", True),
        (b"iCCP", b"x\0\0not zlib", False),
        (b"pHYs", b"\0", False),
        (b"gAMA", b"", False),
        (b"tRNS", b"\0", False),
        (b"zTXt", BOMB, False),
    ],
    ids=["checksum", "profile", "size", "gamma", "transparency", "bomb"],
)
def test_png_with_a_bad_optional_chunk_is_sent(kind: bytes, data: bytes, has_bad_checksum: bool, side: int) -> None:
    from PIL import Image

    data = b"a\0\0" + zlib.compress(b"x" * 90_000_000) if data == BOMB else data
    found = picture_of(with_chunk(png(side, side), kind, data, has_bad_checksum=has_bad_checksum), "a.png")
    assert found.size == (side, side)
    sent = base64.b64decode(found.image.data)
    with Image.open(io.BytesIO(sent)) as opened:
        opened.load()
        assert opened.convert("RGB").getpixel((1, 1)) in ((255, 0, 0), (254, 0, 0))


@pytest.mark.parametrize(("side", "kept"), [(9, slice(30)), (2_500, slice(500)), (9, None)])
def test_broken_png_is_one_clear_line(side: int, kept: slice | None) -> None:
    whole = png(side, side)
    data = whole[kept] if kept is not None else whole[:33] + whole[-12:]
    with pytest.raises(InputError) as refused:
        picture_of(data, "a.png")
    assert str(refused.value).startswith("a.png is a broken image: ")
    assert "object at" not in str(refused.value)
