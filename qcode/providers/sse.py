"""A parser for server-sent events as specified by WHATWG. In addition, the last event needs no blank line after it.

Lines end only at LF, CRLF or CR, because U+2028 and similar characters may occur in a JSON string. An event is decoded
as a whole, so a character may be split anywhere. No I/O; independent of providers.
"""

from __future__ import annotations

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.values import dataclass

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""A larger event of a stream is an error."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event."""

    event: str
    """The name of the event, empty if the server named none."""
    data: str
    """The data lines, joined with newlines."""


class SseParser:
    """A parser of a stream of bytes, split anywhere, into events.

    Comments, such as pings, are skipped. A line or an event larger than `max_event_bytes` raises `ProviderError`.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._partial: list[bytes] = []
        """The chunks of a line whose end has not been received yet."""
        self._partial_size = 0
        self._data: list[bytes] = []
        """The data lines of the current event."""
        self._data_size = 0
        self._event = b""
        self._is_first_line = True
        self._had_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes."""
        if self._had_cr and chunk:
            # The CR at the end of the last chunk ended a line; an LF directly after it is part of the same line end.
            chunk = chunk.removeprefix(b"\n")
            self._had_cr = False
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            self._append_partial(chunk)
            return []
        self._had_cr = chunk.endswith(b"\r")
        # bytes.splitlines, unlike str.splitlines, splits only at the three line ends of the format.
        lines = chunk.splitlines()
        tail = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        if self._partial:
            lines[0] = self._complete_partial(lines[0])
        if tail:
            self._append_partial(tail)
        events: list[SseEvent] = []
        for line in lines:
            self._read_line(line, events)
        return events

    def flush(self) -> list[SseEvent]:
        """Return the event at the end of the stream, even if its last line end or blank line is missing."""
        events: list[SseEvent] = []
        if self._partial:
            self._read_line(self._complete_partial(b""), events)
        self._dispatch(events)
        return events

    def _read_line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data_size += len(value) + 1
            self._check_size(self._data_size)
            self._data.append(value)
        elif name == b"event":
            self._event = value

    def _dispatch(self, events: list[SseEvent]) -> None:
        """Append the current event to `events` if it has data, and begin another event."""
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(SseEvent(self._event.decode("utf-8", "replace"), data.decode("utf-8", "replace")))
            self._data.clear()
            self._data_size = 0
        self._event = b""

    def _append_partial(self, data: bytes) -> None:
        self._partial_size += len(data)
        self._check_size(self._partial_size)
        self._partial.append(data)

    def _complete_partial(self, last_chunk: bytes) -> bytes:
        """Return the line whose start is buffered and whose end is `last_chunk`, and clear the buffer."""
        line = b"".join((*self._partial, last_chunk))
        self._partial.clear()
        self._partial_size = 0
        self._check_size(len(line))
        return line

    def _check_size(self, size: int) -> None:
        if size > self._max_event_bytes:
            limit = self._max_event_bytes // (1024 * 1024)
            raise ProviderError(
                ErrorKind.BAD_RESPONSE, f"the server sent an event larger than {limit} MB; the reply was stopped"
            )
