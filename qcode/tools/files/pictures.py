"""Images for a model: detected by their first bytes, and scaled down for all providers if Pillow is installed."""

from __future__ import annotations

import base64
import io
import zlib

from qcode.protocol.messages import Image
from qcode.protocol.tools import Refused
from qcode.values import dataclass

MAX_BYTES = 3_500_000
"""The largest image, in bytes, that is sent unchanged; in base64 it stays below the 5 MB limit of Anthropic's API."""

MAX_PIXELS = 50_000_000
MAX_SIDE = 2_000
_SMALLER_SIDE = 1_568
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image as it is sent, and a line that describes it."""

    image: Image
    described: str


def image_type(data: bytes) -> str:
    """Return the media type of an image by its first bytes, empty for anything else; the file name may be wrong."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def picture(data: bytes, media_type: str, shown: str) -> EncodedImage:
    """Return an image that can be sent. Raise `Refused` if it is broken, or too large and cannot be scaled down."""
    if media_type == "image/png":
        data = without_bad_chunks(data)
    try:
        import PIL.Image as pillow  # noqa: N813  # an extra; loaded with the first image
    except ImportError:
        if len(data) > MAX_BYTES:
            raise Refused(
                f"{shown} is an image of {len(data):,} bytes, more than {MAX_BYTES:,}: to have it made smaller, "
                "run pip install '.[images]' in your clone of qcode"
            ) from None
        return _picture(data, media_type, f"{len(data):,} bytes")
    try:
        with pillow.open(io.BytesIO(data), formats=[_FORMATS[media_type]]) as opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise Refused(f"{shown} is too large to show: {width} x {height} pixels")
            if len(data) <= MAX_BYTES and max(width, height) <= MAX_SIDE:
                opened.verify()
                return _picture(data, media_type, f"{width} x {height}, {len(data):,} bytes")
            has_alpha = opened.mode in ("RGBA", "LA", "P")
            smaller = opened.convert("RGBA" if has_alpha else "RGB")
            smaller.thumbnail((_SMALLER_SIDE, _SMALLER_SIDE))
            target = io.BytesIO()
            smaller.save(target, "PNG" if has_alpha else "JPEG")
            if target.tell() > MAX_BYTES:
                target = io.BytesIO()
                smaller.convert("RGB").save(target, "JPEG", quality=80)
                has_alpha = False
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        why = str(error).partition(" <")[0]  # an error of Pillow may name the buffer
        raise Refused(f"{shown} is a broken image: {why}") from None
    described = f"{width} x {height}, shown at {smaller.width} x {smaller.height}"
    return _picture(target.getvalue(), "image/png" if has_alpha else "image/jpeg", described)


def without_bad_chunks(data: bytes) -> bytes:
    """Return a PNG without optional chunks whose checksum is wrong, which Pillow and providers may refuse.

    Browsers ignore such chunks, for example a color profile that an editor damaged (PNG specification, section 13.2).
    """
    kept, place = [data[:8]], 8
    while place + 12 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4], "big")
        body = data[place + 4 : end - 4]
        is_optional = bool(data[place + 4] & 0x20)  # the first letter of its name is lower case
        if end > len(data) or not is_optional or zlib.crc32(body) == int.from_bytes(data[end - 4 : end], "big"):
            kept.append(data[place:end])
        place = end
    return b"".join((*kept, data[place:]))


def _picture(data: bytes, media_type: str, described: str) -> EncodedImage:
    return EncodedImage(Image(media_type, base64.b64encode(data).decode("ascii")), f"{media_type}, {described}")
