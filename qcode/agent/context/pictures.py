"""Images of a prompt: from a path or the clipboard, with their size for display, or as base64 from a program."""

from __future__ import annotations

import base64
import binascii
import struct
from pathlib import Path
from urllib.parse import unquote, urlsplit

from qcode.agent.context.attachments import MAX_IMAGE_BYTES, read_image
from qcode.protocol.errors import InputError
from qcode.protocol.messages import Image
from qcode.protocol.tools import Refused
from qcode.tools.files.pictures import encode_image, image_type
from qcode.values import dataclass

_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image for a prompt."""

    image: Image
    name: str
    size: tuple[int, int] | None
    """The width and height in pixels, None if unknown."""
    path: str = ""
    """The path as given; empty for an image from the clipboard."""


def picture_at(path: str, folder: Path) -> Picture:
    """Return the image at this path or `file://` URL; raise `InputError` with one line if it is not an image."""
    try:
        if path.startswith("file://"):
            path = unquote(urlsplit(path).path)
        full_path = folder / Path(path).expanduser()
    except (RuntimeError, ValueError):
        raise InputError(f"{path} does not exist") from None
    return picture_of(read_image(full_path, path), full_path.name, path)


def picture_of(data: bytes, name: str, path: str = "") -> Picture:
    """Return an image from its bytes, scaled down if needed; raise `InputError` if it cannot be used."""
    media_type = image_type(data)
    if not media_type:
        raise InputError(f"{name} is not a PNG, JPEG, GIF or WebP image")
    try:
        encoded = encode_image(data, media_type, name)
    except Refused as refused:
        raise InputError(str(refused)) from None
    return Picture(encoded.image, name, pixel_size(data), path)


def decode_image(data: str, subject: str) -> Image:
    """Return the image in base64 `data` that a program sent; raise `InputError`, which names it as `subject`.

    The bytes decide the type, not the program: providers reject an image whose declared type is wrong.
    """
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"the data of {subject} is not base64") from None
    if len(raw) > MAX_IMAGE_BYTES:
        raise InputError(f"{subject} is too large ({len(raw):,} bytes; at most {MAX_IMAGE_BYTES:,})")
    media_type = image_type(raw)
    if not media_type:
        raise InputError(f"{subject} is not PNG, JPEG, GIF or WebP")
    return Image(media_type, base64.b64encode(raw).decode("ascii"))


def pixel_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height from the header of a PNG, GIF, JPEG (ITU T.81) or WebP (RFC 9649) image."""
    try:
        if data.startswith(b"\x89PNG"):
            return _pair(">II", data, 16)
        if data.startswith(b"GIF8"):
            return _pair("<HH", data, 6)
        if data.startswith(b"\xff\xd8"):
            return _jpeg_size(data)
        return _webp_size(data) if data[8:12] == b"WEBP" else None
    except (struct.error, IndexError):
        return None


def _pair(struct_format: str, data: bytes, offset: int) -> tuple[int, int]:
    first, second = struct.unpack_from(struct_format, data, offset)
    return int(first), int(second)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    offset = 2
    while data[offset] == 0xFF:
        while data[offset] == 0xFF:
            offset += 1
        if data[offset] in _START_OF_FRAME:
            height, width = _pair(">HH", data, offset + 4)
            return width, height
        offset += 1 + _pair(">HH", data, offset + 1)[0]
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None
