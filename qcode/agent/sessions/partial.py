"""The file with the text of the current reply, so that a killed process loses only the last words.

`ID.partial` is beside the session file and is emptied when the reply is committed. It is append-only JSONL, written
without fsync. The first line has the number that the message of the reply will have. Each further line has a segment of
the text, and replaces an earlier segment with the same index. Text that may be the start of a secret is written later,
so that the whole secret is redacted. A new attempt that is not a continuation supersedes the text; `read_partial`
returns the superseded text unless the last attempt is longer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.sessions.file import read_records
from qcode.agent.sessions.records import int_field, str_field, to_line
from qcode.protocol.events import Notice, PartialRestored, ReplyFinished, Retry, TurnEvent
from qcode.protocol.messages import Block, Message, Reasoning, Text, assistant
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.text.json import JsonObject
from qcode.values import dataclass

COPIED_REPLY = Notice("warning", "The conversation was copied while this reply was written; the text so far is kept.")
KILLED_REPLY = Notice("warning", "qcode ended while this reply was written; the text so far is kept.")
FLUSH_INTERVAL_S = 0.25
"""Seconds until complete words are written.

The last word may be the start of a secret. It is written when it is complete, after a pause of the stream, or when it
has more than `_MAX_WORD` characters.
"""
FLUSH_CHARS = 2_000
"""The number of new characters that are written without waiting."""
MAX_SEGMENT = 4 * FLUSH_CHARS
"""The number of characters after which a segment without a line end is ended at a word."""
_MAX_WORD = 512
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_KEY_BEGIN, _KEY_END = "-----BEGIN ", "-----END "

TextKind: TypeAlias = Literal["text", "reasoning"]


class PartialReply:
    """Writes the text of the current reply to `path`; with None nothing is written.

    `next_number` returns the number of the message that is committed next. `partial_secret_length` returns the length
    of the suffix of a text that may be the start of a secret; such a suffix is written later. `observe` needs a running
    event loop. After a write error the rest of the reply is not saved; the session file reports the same error.
    """

    def __init__(
        self,
        path: Path | None,
        next_number: Callable[[], int],
        redact: Callable[[str], str],
        partial_secret_length: Callable[[str], int],
    ) -> None:
        self._path = path
        self._next_number = next_number
        self._redact = redact
        self._partial_secret_length = partial_secret_length
        self._handle: int | None = None
        self._has_failed = False
        self._is_begun = False  # the file has the number of this reply
        self._timer: asyncio.TimerHandle | None = None
        # The open segment; sizes are in characters.
        self._kind: TextKind = "text"
        self._block: int | None = None  # the block of the reply to which the segment belongs, None if it is empty
        self._text_block: int | None = None  # `_block`, but None for reasoning
        self._segment: list[str] = []  # the texts, joined at each flush
        self._index = 0  # the index of the segment in the file
        self._size = 0
        self._written_chars = 0  # the size of the segment in the file
        self._size_at_flush = 0  # the size after the last flush, which may not have written the end
        self._flush_at = FLUSH_CHARS  # the size at which the segment is written without waiting for the timer

    def observe(self, event: TurnEvent) -> None:
        """Record an event that is about to be shown. Events that do not change the text of the reply are ignored."""
        if self._path is None:
            return
        if type(event) is TextDelta:
            if event.block == self._text_block and self._timer is not None:
                # Text that continues the segment, as nearly all events: `_add_text` would take twice as long.
                self._segment.append(event.text)
                self._size += len(event.text)
                if self._size >= self._flush_at:
                    self.flush(at_most_one_write=True)
            else:
                self._add_text("text", event.block, event.text)
            return
        match event:
            case ReasoningDelta():
                self._add_text("reasoning", event.block, event.text)
            case Retry(is_continuation=False) if self._is_begun or self._size:
                self._end_segment()
                self._write({"over": True})  # the attempt is superseded
            case PartialRestored():
                self._end_segment()
                self._write({"restored": self._redact(event.text), "reasoning": self._redact(event.reasoning)})
            case ReplyFinished():
                self.clear()
            case _:
                pass

    def renumber(self) -> None:
        """Write the new number of the reply, which a compaction during the reply has changed."""
        if self._is_begun:
            self._write({"n": self._next_number()})

    def clear(self) -> None:
        """Empty the file, because the text is in the session now."""
        self._stop_timer()
        self._begin_segment("text", None)
        self._index = 0
        self._has_failed = False
        if self._is_begun and self._handle is not None:
            self._is_begun = False
            with suppress(OSError):
                os.ftruncate(self._handle, 0)

    def discard(self) -> None:
        """Remove a file that a killed process left, because its text is in the session now."""
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write the remaining text and close the file; remove the file if it is empty. Idempotent.

        A suffix that may be the start of a secret is never written.
        """
        self._stop_timer()
        self.flush(includes_last_word=True)
        if self._handle is not None and self._path is not None:
            with suppress(OSError):
                if os.fstat(self._handle).st_size == 0:
                    self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
        self._path = None

    def read(self) -> Message | None:
        """Return the reply so far without secrets; None if there is none, or nothing is saved."""
        if self._path is None:
            return None
        self.flush()
        return read_partial(self._path, self._next_number())

    def _add_text(self, kind: TextKind, block: int, text: str) -> None:
        if block != self._block or kind != self._kind:
            self._end_segment()
            self._begin_segment(kind, block)
        self._segment.append(text)
        self._size += len(text)
        if self._size >= self._flush_at:
            self.flush(at_most_one_write=True)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_S, self._flush_if_due)

    def _flush_if_due(self) -> None:
        self._timer = None
        is_paused = self._size == self._size_at_flush  # no text arrived since the last flush
        self.flush(includes_last_word=is_paused)
        if self._written_chars < self._size:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_INTERVAL_S, self._flush_if_due)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def flush(self, *, includes_last_word: bool = False, at_most_one_write: bool = False) -> None:
        """Write the open segment without its last word; end a full segment and begin the next one.

        `includes_last_word`: write the last word too. `at_most_one_write`: if a full segment was written, the next
        flush writes the text after it.
        """
        text = "".join(self._segment)
        segment_end = self._without_partial_secret(text, _segment_end(text))
        if segment_end:
            self._write_segment(text[:segment_end])
            text = text[segment_end:]
            self._begin_segment(self._kind, self._block)
        if not (segment_end and at_most_one_write):
            self._write_unfinished_segment(text, len(text) if includes_last_word else _end_of_words(text))
        self._segment = [text]
        self._size = self._size_at_flush = len(text)

    def _write_unfinished_segment(self, text: str, end: int) -> None:
        """Write the segment up to `end`, unless the file already has this part. It is written again when it is full."""
        if end <= self._written_chars:
            return
        end = min(end, self._without_partial_secret(text, len(text)))  # exclude a secret that is still arriving
        end = self._without_partial_secret(text, end)  # exclude a secret that `end` divides
        if end > self._written_chars:
            self._write_segment(text[:end])
            self._written_chars = end
            self._flush_at = end + FLUSH_CHARS

    def _without_partial_secret(self, text: str, end: int) -> int:
        """Return `end`, or an earlier end if the text before `end` may end with the start of a secret."""
        return end - self._partial_secret_length(text[:end])

    def _end_segment(self) -> None:
        """Write the rest of the segment, and begin one that belongs to no block until text arrives."""
        self.flush(includes_last_word=True)
        self._begin_segment("text", None)

    def _begin_segment(self, kind: TextKind, block: int | None) -> None:
        self._index += 1
        self._kind = kind
        self._block = block
        self._text_block = block if kind == "text" else None
        self._segment = []
        self._size = self._written_chars = self._size_at_flush = 0
        self._flush_at = FLUSH_CHARS

    def _write_segment(self, text: str) -> None:
        if self._block is not None:
            header: JsonObject = {"segment": self._index, "kind": self._kind, "block": self._block}
            self._write({**header, "text": self._redact(text)})

    def _write(self, record: JsonObject) -> None:
        if self._path is None or self._has_failed:
            return
        lines = to_line(record)
        try:
            if self._handle is None:
                self._handle = os.open(self._path, _FLAGS, 0o600)
            if not self._is_begun:
                os.ftruncate(self._handle, 0)
                lines = to_line({"n": self._next_number()}) + lines
                self._is_begun = True
            if os.write(self._handle, lines) < len(lines):
                self._has_failed = True
        except OSError:
            self._has_failed = True


def _end_of_words(text: str) -> int:
    """Return the end of the last complete word, 0 if there is none; the end of the text if the last word is very long.

    A character outside ASCII ends a word, because Chinese and Thai have no spaces and API keys are ASCII.
    """
    end = len(text)
    for index in range(end - 1, max(-1, end - 1 - _MAX_WORD), -1):
        if text[index].isspace() or not text[index].isascii():
            return index + 1
    return end if end > _MAX_WORD else 0


def _segment_end(text: str) -> int:
    """Return where to end the segment, 0 to keep it open.

    A segment of at least `FLUSH_CHARS` ends after its last line end; without a line end, one of `MAX_SEGMENT` ends
    after its last word. A segment always ends before a private key that has no end yet.
    """
    if len(text) < FLUSH_CHARS:
        return 0
    key_begin = text.rfind(_KEY_BEGIN)
    is_in_key = key_begin >= 0 and _KEY_END not in text[key_begin:]
    end = key_begin if is_in_key else text.rfind("\n") + 1
    if end == 0 and len(text) >= MAX_SEGMENT:
        return _end_of_words(text)
    return end


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of the text of a block."""

    kind: TextKind
    block: int
    text: str


@dataclass(slots=True)
class _ShownText:
    """The text of one attempt: its segments by index."""

    segments: dict[int, _Segment] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The number of characters without reasoning."""
        return sum(len(segment.text) for segment in self.segments.values() if segment.kind == "text")

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks up to the last block with text, because reasoning alone is not an answer."""
        joined: list[_Segment] = []
        for segment in self.segments.values():
            last = joined[-1] if joined else None
            if last is not None and (last.kind, last.block) == (segment.kind, segment.block):
                joined[-1] = replace(last, text=last.text + segment.text)
            else:
                joined.append(segment)
        while joined and (joined[-1].kind == "reasoning" or not joined[-1].text.strip()):
            joined.pop()
        return tuple(Text(part.text) if part.kind == "text" else Reasoning(part.text) for part in joined if part.text)


def read_partial(path: Path, number: int) -> Message | None:
    """Return the reply during which qcode was killed, None if there is none.

    `number` is the number of the next message. A reply with another number was committed, but the process ended before
    it emptied the file.
    """
    reader = _PartialReader()
    try:
        for record in read_records(path.read_bytes()).records:
            reader.add(record)
    except (OSError, ValueError):
        return None
    blocks = reader.longer_text().blocks()
    return assistant(*blocks) if reader.number == number and blocks else None


@dataclass(slots=True)
class _PartialReader:
    """Reads the records of the file one after the other."""

    number: int | None = None
    """The number that the message of the reply will have."""
    live: _ShownText = field(default_factory=_ShownText)
    """The text of the last attempt."""
    superseded: _ShownText = field(default_factory=_ShownText)
    """The longest text of an earlier attempt."""

    def longer_text(self) -> _ShownText:
        return self.live if self.live.size > self.superseded.size else self.superseded

    def add(self, record: JsonObject) -> None:
        """Apply a record; raise `ValueError` if it is invalid."""
        if "n" in record:
            self.number = int_field(record, "n")
        elif "over" in record:
            self.superseded = self.longer_text()
            self.live = _ShownText()
        elif "restored" in record:
            self.superseded = _ShownText()
            # Negative numbers, because the segments and blocks that follow count from 0.
            reasoning = _Segment("reasoning", -2, str_field(record, "reasoning"))
            text = _Segment("text", -1, str_field(record, "restored"))
            self.live = _ShownText({-2: reasoning, -1: text})
        else:
            kind: TextKind = "reasoning" if str_field(record, "kind") == "reasoning" else "text"
            segment = _Segment(kind, int_field(record, "block"), str_field(record, "text"))
            self.live.segments[int_field(record, "segment")] = segment
