"""Images for a model: detected by their first bytes, and scaled down for all providers if Pillow is installed."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Iterator

from qcode.protocol.messages import Image
from qcode.protocol.tools import Refused
from qcode.values import dataclass

MAX_BYTES = 3_500_000
"""The largest image, in bytes, that is sent unchanged; in base64 it stays below the 5 MB limit of Anthropic's API."""

MAX_PIXELS = 50_000_000  # of an image that is decoded
MAX_SIDE = 2_000
"""The longest side, in pixels, of an image that is sent unchanged."""
_SMALLER_SIDE = 1_568
"""The longest side, in pixels, of an image that was scaled down."""
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image in the form in which it is sent, and a one-line description."""

    image: Image
    description: str


def image_type(data: bytes) -> str:
    """Return the media type of an image by its first bytes, because a file name may be wrong; empty for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def encode_image(data: bytes, media_type: str, label: str) -> EncodedImage:
    """Return an image that can be sent. Raise `Refused` if it is broken, or too large and cannot be scaled down."""
    try:
        import PIL.Image as pillow  # noqa: N813  # an extra; loaded with the first image
    except ImportError:
        if len(data) > MAX_BYTES:
            raise Refused(
                f"{label} is an image of {len(data):,} bytes, more than {MAX_BYTES:,}: to let qcode shrink images, "
                "run pip install '.[images]' in your clone of qcode"
            ) from None
        return _encoded(data, media_type, f"{len(data):,} bytes")
    problem = ""
    for content in (data, *_repaired_versions(data, media_type)):
        try:
            return _scale_down(content, media_type, label)
        except (*_PILLOW_ERRORS, pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
            # For an unknown format, Pillow's message contains only the repr of the BytesIO object.
            is_clear = isinstance(error, OSError | ValueError | SyntaxError) and "BytesIO" not in str(error)
            problem = problem or (str(error) if is_clear else "it cannot be read")
    raise Refused(f"{label} is a broken image: {problem}") from None


def _scale_down(data: bytes, media_type: str, label: str) -> EncodedImage:
    """Return the image, scaled down if it is too large to be sent. Raise `Refused` if it has too many pixels."""
    import PIL.Image as pillow  # noqa: N813

    with pillow.open(io.BytesIO(data), formats=[_FORMATS[media_type]]) as opened:
        width, height = opened.size
        if width * height > MAX_PIXELS:
            raise Refused(f"{label} is too large to show: {width} x {height} pixels")
        if len(data) <= MAX_BYTES and max(width, height) <= MAX_SIDE:
            opened.verify()
            return _encoded(data, media_type, f"{width} x {height}, {len(data):,} bytes")
        has_alpha = opened.mode in ("RGBA", "LA", "P")
        smaller = opened.convert("RGBA" if has_alpha else "RGB")
        smaller.thumbnail((_SMALLER_SIDE, _SMALLER_SIDE))
        target = io.BytesIO()
        smaller.save(target, "PNG" if has_alpha else "JPEG")
        if target.tell() > MAX_BYTES:
            target = io.BytesIO()
            smaller.convert("RGB").save(target, "JPEG", quality=80)
            has_alpha = False
    size = f"{width} x {height}, shown at {smaller.width} x {smaller.height}"
    return _encoded(target.getvalue(), "image/png" if has_alpha else "image/jpeg", size)


_PILLOW_ERRORS = (OSError, ValueError, SyntaxError, IndexError, EOFError, struct.error)
"""The errors of Pillow for broken images: `IndexError` for a PNG without pixels, for example."""

_PNG_START = 8  # bytes of the signature
_PNG_FRAME_BYTES = 12
"""The number of bytes of a PNG chunk besides its data: length, name and checksum."""


def _repaired_versions(data: bytes, media_type: str) -> Iterator[bytes]:
    """Yield versions of a PNG without optional chunks, such as texts and color profiles, which may be invalid.

    The first version keeps transparency, the second does not. The name of an optional chunk begins with a small letter
    (PNG specification, section 4.7).
    """
    if media_type != "image/png":
        return
    chunks: list[tuple[bytes, bytes]] = []
    offset = _PNG_START
    while offset + _PNG_FRAME_BYTES <= len(data):
        size = int.from_bytes(data[offset : offset + 4], "big") + _PNG_FRAME_BYTES
        chunks.append((data[offset + 4 : offset + 8], data[offset : offset + size]))
        offset += size
    required = [name for name, _ in chunks if name[:1].isupper()]
    for kept_names in ({*required, b"tRNS"}, set(required)):
        yield data[:_PNG_START] + b"".join(chunk for name, chunk in chunks if name in kept_names)


def _encoded(data: bytes, media_type: str, size: str) -> EncodedImage:
    return EncodedImage(Image(media_type, base64.b64encode(data).decode("ascii")), f"{media_type}, {size}")
