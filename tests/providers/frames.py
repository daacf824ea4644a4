"""Messages of Amazon's event stream as bytes: the other side of `providers.bedrock.frames`."""

from __future__ import annotations

import json
import struct
from zlib import crc32

from qcode.text.json import Json

JSON_TYPE = "application/json"


def frame(name: str, body: Json | bytes, *, kind: str = "event") -> bytes:
    """Return the message `name`; one whose name ends in `Exception` is an exception, as its sender marks it."""
    kind = "exception" if name.endswith("Exception") else kind
    payload = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=True).encode()
    return message({":message-type": kind, f":{kind}-type": name, ":content-type": JSON_TYPE}, payload)


def message(headers: dict[str, str | int | bool], payload: bytes) -> bytes:
    """Return a message with any headers; a number is sent as eight bytes."""
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    checked = prelude + struct.pack(">I", crc32(prelude)) + packed + payload
    return checked + struct.pack(">I", crc32(checked))


def _header(name: str, value: str | int | bool) -> bytes:
    head = bytes([len(name)]) + name.encode()
    if isinstance(value, bool):
        return head + bytes([0 if value else 1])
    if isinstance(value, int):
        return head + b"\x05" + struct.pack(">q", value)
    text = value.encode()
    return head + b"\x07" + struct.pack(">H", len(text)) + text
