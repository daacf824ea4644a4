"""Parses the lines of standard input in `--input-format stream-json`: messages and control requests.

Lines have the format that other tools write: messages of Anthropic's API in an envelope with a `type`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TypeAlias

from qcode.protocol.errors import InputError
from qcode.protocol.messages import Block, Image, Text
from qcode.text.json import Json, JsonObject, parse_object
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message that starts a turn."""

    prompt: str
    """The last text of the message."""
    attached: tuple[Block, ...] = ()
    """The blocks before the last text."""
    line: JsonObject = field(default_factory=dict)
    """The parsed line. A host sends further fields in it."""
    size: int = 0
    """The length of the line in bytes."""


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """A control request, such as an interrupt. `request_id` is None if no response is expected."""

    subtype: str
    request_id: Json = None
    request: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """An invalid line. Its `size` is 0, because the line itself is not kept."""

    reason: str
    size: int = 0


InputLine: TypeAlias = UserMessage | ControlRequest | InvalidLine


class _Invalid(Exception):  # noqa: N818  # never leaves this module
    """The line is invalid. The text is the reason."""


def read_line(line: bytes) -> InputLine | None:
    """Parse a line; return None for a blank one."""
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return InvalidLine("it is not UTF-8")
    if not text.strip():
        return None
    value = parse_object(text)
    if value is None:
        return InvalidLine("it is not a JSON object")
    try:
        return _read(value)
    except _Invalid as invalid:
        return InvalidLine(str(invalid))


def handshake_of(first_bytes: bytes) -> ControlRequest | None:
    """Return the request if the first line that is not blank is a handshake (`initialize`), otherwise None."""
    first = next((line for line in first_bytes.split(b"\n") if line.strip()), b"")
    message = read_line(first)
    return message if isinstance(message, ControlRequest) and message.subtype == "initialize" else None


def _read(value: JsonObject) -> InputLine:
    match value:
        case {"type": "user", "message": {"role": "user", "content": content}}:
            return replace(_message_of(content), line=value)
        case {"type": "user"}:
            raise _Invalid('a user line needs "message": {"role": "user", "content": ...}')
        case {"type": "control_request", "request": {"subtype": str(subtype)}}:
            request = value["request"]
            return ControlRequest(subtype, value.get("request_id"), request if isinstance(request, dict) else {})
        case {"type": "control_request", "request_id": str(request_id)}:
            return ControlRequest("", request_id)  # its sender waits for a response with this id
        case {"type": "control_request"}:
            raise _Invalid('a control_request line needs "request": {"subtype": ...}')
        case {"type": str(kind)}:
            raise _Invalid(f'its type is "{kind[:80]}", but only user and control_request are supported')
        case _:
            raise _Invalid('it has no "type"')


def _message_of(content: Json) -> UserMessage:
    """Return the message with this content; raise `_Invalid` with the reason if it cannot be used."""
    if isinstance(content, str):
        blocks: list[Block] = [Text(content)]
    elif isinstance(content, list):
        blocks = [_block(part) for part in content]
    else:
        raise _Invalid("its content is neither text nor a list of blocks")
    if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
        raise _Invalid("its content is empty")
    last = blocks[-1]
    return UserMessage(last.text, tuple(blocks[:-1])) if isinstance(last, Text) else UserMessage("", tuple(blocks))


def _block(part: Json) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image", "source": {"type": "base64", "data": str(data)}}:
            return _image(data)
        case {"type": "image"}:
            raise _Invalid('an image needs "source": {"type": "base64", "media_type": ..., "data": ...}')
        case {"type": str(kind)}:
            raise _Invalid(f'its content has a block of type "{kind[:80]}"; only text and image are supported')
        case _:
            raise _Invalid("its content has an entry that is not a text or image block")


def _image(data: str) -> Image:
    from qcode.agent.context.pictures import decode_image

    try:
        return decode_image(data, "its image")
    except InputError as error:
        raise _Invalid(str(error)) from None
