"""A parser for Amazon's binary event stream: framed messages with a checksum, headers and a JSON payload. Pure.

Source: the AWS page "Event stream encoding". A message becomes an event whose data is `{NAME: PAYLOAD}`, the tagged
union that an SDK would return.
"""

from __future__ import annotations

import json
import struct
from zlib import crc32

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.sse import MAX_EVENT_BYTES, SseEvent

_PRELUDE = struct.Struct(">III")
"""The size of the message, the size of its headers, and the checksum of both."""
_CHECKSUM = struct.Struct(">I")
_SHORT = struct.Struct(">H")
_MIN_MESSAGE_BYTES = _PRELUDE.size + _CHECKSUM.size
_STRING = 7
# Header types by number: the length of a value in bytes, None if a two-byte length precedes it.
_SIZES: dict[int, int | None] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, _STRING: None, 8: 8, 9: 16}


class FrameParser:
    """A parser of a stream of bytes, split anywhere, into events.

    Raises `ProviderError` for corrupted data, and for a message larger than `max_event_bytes`.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._data = bytearray()
        self._has_begun = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes."""
        self._data += chunk
        events: list[SseEvent] = []
        start = 0
        while len(self._data) - start >= _PRELUDE.size:
            size, headers_size = self._read_prelude(start)
            if len(self._data) - start < size:
                break
            events.append(self._read_message(bytes(self._data[start : start + size]), headers_size))
            start += size
        del self._data[:start]
        return events

    def flush(self) -> list[SseEvent]:
        """Return no event: a truncated message is dropped, and the decoder reports the missing end of the reply."""
        return []

    def _read_prelude(self, start: int) -> tuple[int, int]:
        """Return the size of the message at `start`, and of its headers. Raise `ProviderError` if one is invalid."""
        size, headers_size, checksum = _PRELUDE.unpack_from(self._data, start)
        checked = self._data[start : start + _PRELUDE.size - _CHECKSUM.size]
        if crc32(checked) != checksum or size < _MIN_MESSAGE_BYTES + headers_size:
            raise self._corruption_error()
        if size > self._max_event_bytes:
            limit = self._max_event_bytes // (1024 * 1024)
            raise ProviderError(
                ErrorKind.BAD_RESPONSE, f"the server sent an event larger than {limit} MB; the reply was stopped"
            )
        return size, headers_size

    def _read_message(self, message: bytes, headers_size: int) -> SseEvent:
        """Return the event in a complete message. Raise `ProviderError` if the message is corrupted."""
        (checksum,) = _CHECKSUM.unpack(message[-_CHECKSUM.size :])
        if crc32(message[: -_CHECKSUM.size]) != checksum:
            raise self._corruption_error()
        end = _PRELUDE.size + headers_size
        try:
            headers = _read_headers(message[_PRELUDE.size : end])
        except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
            raise self._corruption_error() from error
        self._has_begun = True
        text = message[end : -_CHECKSUM.size].decode("utf-8", "replace").strip()
        match headers.get(":message-type"):
            case "error":
                fields = {"code": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
                return SseEvent("", json.dumps({"error": fields}))
            case "exception":
                name = headers.get(":exception-type", "unknownException")
            case _:
                name = headers.get(":event-type", "")
        return SseEvent("", f"{{{json.dumps(name)}: {text or '{}'}}}")

    def _corruption_error(self) -> ProviderError:
        if self._has_begun:
            return ProviderError(ErrorKind.CONNECTION, "the stream is corrupted")
        return ProviderError(ErrorKind.BAD_RESPONSE, "the server did not answer with an event stream")


def _read_headers(data: bytes) -> dict[str, str]:
    """Return the string headers by name."""
    headers: dict[str, str] = {}
    offset = 0
    while offset < len(data):
        end = offset + 1 + data[offset]
        name = data[offset + 1 : end].decode("utf-8")
        kind, offset = data[end], end + 1
        size = _SIZES[kind]
        if size is None:
            (size,) = _SHORT.unpack_from(data, offset)
            offset += _SHORT.size
        if offset + size > len(data):
            raise IndexError("a header is longer than the headers")
        if kind == _STRING:
            headers[name] = data[offset : offset + size].decode("utf-8")
        offset += size
    return headers
