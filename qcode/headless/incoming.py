"""Lines of `--input-format stream-json` as values. Pure: what a line means, or in one line why it means nothing.

The shapes are those that writers of such streams use already: Anthropic's messages inside an envelope with a `type`.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeAlias

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Block, Image, Text
from qcode.protocol.values import dataclass
from qcode.runtime.attachments import MAX_IMAGE_BYTES
from qcode.tools.pictures import image_type

LONGEST_LINE = 48 * 1024 * 1024
"""Bytes; several images of the largest size that is taken, or more text than any model reads."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A message that starts a turn: `prompt` is its last text, `attached` what stands before it."""

    prompt: str
    attached: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """A request about the run itself. `request_id` is None where no answer is wanted."""

    subtype: str
    request_id: Json = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is none of these."""

    reason: str


Incoming: TypeAlias = Asked | Control | Unreadable


class _Wrong(Exception):  # noqa: N818  # never leaves this module
    pass


def read_line(line: bytes) -> Incoming | None:
    """Return what a line says, None for a blank one."""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unreadable("it is not UTF-8")
    if not text.strip():
        return None
    value = parse_object(text)
    if value is None:
        return Unreadable("it is not a JSON object")
    try:
        return _read(value)
    except _Wrong as wrong:
        return Unreadable(str(wrong))


def _read(value: JsonObject) -> Incoming:
    match value:
        case {"type": "user", "message": {"role": "user", "content": content}}:
            return _asked(content)
        case {"type": "user"}:
            raise _Wrong('a user line needs "message": {"role": "user", "content": ...}')
        case {"type": "control_request", "request": {"subtype": str(subtype)}}:
            return Control(subtype, value.get("request_id"))
        case {"type": "control_request"}:
            raise _Wrong('a control_request line needs "request": {"subtype": ...}')
        case {"type": str(kind)}:
            raise _Wrong(f'its type is "{kind[:80]}", and only user and control_request are read')
        case _:
            raise _Wrong('it has no "type"')


def _asked(content: Json) -> Asked:
    if isinstance(content, str):
        blocks: list[Block] = [Text(content)]
    elif isinstance(content, list):
        blocks = [_block(part) for part in content]
    else:
        raise _Wrong("its content is neither text nor a list of blocks")
    if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
        raise _Wrong("its content is empty")
    last = blocks[-1]
    return Asked(last.text, tuple(blocks[:-1])) if isinstance(last, Text) else Asked("", tuple(blocks))


def _block(part: Json) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
            return _image(data)
        case {"type": "image"}:
            raise _Wrong('an image needs "source": {"type": "base64", "media_type": ..., "data": ...}')
        case {"type": str(kind)}:
            raise _Wrong(f'its content holds a block of type "{kind[:80]}"; blocks are text or image')
        case _:
            raise _Wrong("its content holds something that is no block of text or image")


def _image(data: str) -> Image:
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise _Wrong("the data of its image is not base64") from None
    if len(raw) > MAX_IMAGE_BYTES:
        raise _Wrong(f"its image is too large ({len(raw):,} bytes; at most {MAX_IMAGE_BYTES:,})")
    # What the bytes are counts, not what the line calls them: providers refuse one that is called something else.
    media_type = image_type(raw)
    if not media_type:
        raise _Wrong("its image is no PNG, JPEG, GIF or WebP")
    return Image(media_type, base64.b64encode(raw).decode("ascii"))
