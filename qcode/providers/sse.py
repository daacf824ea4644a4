"""Server-sent events from bytes, by the WHATWG rules for event streams, except that a last event without its
blank line counts.

Lines end at LF, CRLF or CR and nowhere else: U+2028 and its like are ordinary text in a JSON string. Text is
decoded a whole event at a time, so a character may be split anywhere. No I/O; nothing here knows a provider.
"""

from __future__ import annotations

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.values import dataclass

MAX_EVENT_BYTES = 32 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """`event` is empty where the server named none; `data` is its data lines joined with a newline."""

    event: str
    data: str


class SseParser:
    """Bytes in, events out, in whatever pieces the bytes come.

    A comment (a ping, say) makes no event; that bytes came at all is what an idle timeout looks at. A line or an
    event larger than `MAX_EVENT_BYTES` raises `ProviderError`.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = b""
        self._is_first_line = True
        self._had_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes."""
        if self._had_cr and chunk:
            # The CR ended a line already; an LF right behind it belongs to the same line end.
            chunk = chunk.removeprefix(b"\n")
            self._had_cr = False
        if not chunk:
            return []
        if b"\n" not in chunk and b"\r" not in chunk:
            self._hold(chunk)
            return []
        self._had_cr = chunk.endswith(b"\r")
        # bytes.splitlines, unlike str.splitlines, knows the three line ends of the format and no other.
        lines = chunk.splitlines()
        tail = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        if self._partial:
            lines[0] = self._take_partial(lines[0])
        if tail:
            self._hold(tail)
        found: list[SseEvent] = []
        for line in lines:
            self._read_line(line, found)
        return found

    def flush(self) -> list[SseEvent]:
        """Return the event the stream ended in, if any: a missing last line end or blank line loses nothing."""
        found: list[SseEvent] = []
        if self._partial:
            self._read_line(self._take_partial(b""), found)
        self._dispatch(found)
        return found

    def _read_line(self, line: bytes, found: list[SseEvent]) -> None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            self._dispatch(found)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data_size += len(value) + 1
            self._check(self._data_size)
            self._data.append(value)
        elif name == b"event":
            self._event = value

    def _dispatch(self, found: list[SseEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            found.append(SseEvent(self._event.decode("utf-8", "replace"), data.decode("utf-8", "replace")))
            self._data.clear()
            self._data_size = 0
        self._event = b""

    def _hold(self, piece: bytes) -> None:
        self._partial_size += len(piece)
        self._check(self._partial_size)
        self._partial.append(piece)

    def _take_partial(self, rest: bytes) -> bytes:
        line = b"".join((*self._partial, rest))
        self._partial.clear()
        self._partial_size = 0
        self._check(len(line))
        return line

    def _check(self, size: int) -> None:
        if size > self._max_event_bytes:
            limit = self._max_event_bytes // (1024 * 1024)
            raise ProviderError(
                ErrorKind.BAD_RESPONSE, f"the server sent one event of more than {limit} MB; the reply was stopped"
            )
