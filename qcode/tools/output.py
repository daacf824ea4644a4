"""The output of a command: its beginning and end for the model, and all of it in a private file if it is long."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern

if TYPE_CHECKING:
    from qcode.text.redrawn import RedrawnStream

MAX_STORED_BYTES = 50 * 1024 * 1024
"""The maximum size of the output file."""

OMISSION = lazy_pattern(r"\[\.\.\. (?:(?P<lines>[\d,]+) lines?, )?(?P<chars>[\d,]+) characters omitted\b.* \.\.\.\]")
"""Matches the line that replaces the omitted middle of a text. Only in a text for the user it also counts lines."""

_MAX_LIVE_CHARS = 15_900
"""The maximum number of characters of live output sent at once.

If there are more, only the latest are sent, after a line that counts the others.
"""


class OutputFile:
    """A new private file for an output, with a limited size. If creating or writing it fails, `path` becomes None."""

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        self._size = 0
        """The number of bytes of the output, which may be more than the file contains."""
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            self.path = None

    def write(self, data: bytes) -> None:
        """Append output, up to `MAX_STORED_BYTES` in total."""
        remaining = max(MAX_STORED_BYTES - self._size, 0)
        self._size += len(data)
        if self._descriptor is not None and remaining:
            try:
                os.write(self._descriptor, data[:remaining])
            except OSError:
                self.close()
                self.path = None

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def hint(self) -> str:
        """The end of a note about omitted text, which names the file; empty if there is none."""
        stored = "all of it" if self._size <= MAX_STORED_BYTES else f"its first {MAX_STORED_BYTES:,} bytes"
        return f"; {stored} in {self.path}" if self.path is not None else ""


class CollectedOutput(NamedTuple):
    """The bytes of an output so far."""

    data: bytes
    incomplete: bytes
    """The bytes of an incomplete character at the end of `data`."""


class OutputCollector:
    """A collector of output bytes. It calls `folder` and writes a file only for more than `limit` characters.

    `is_redrawn`: the output is that of a command, so the model gets only the last state of lines such as a progress
    bar. The user's text and the file keep every state.
    """

    def __init__(self, limit: int, folder: Callable[[], Path], *, is_redrawn: bool = False) -> None:
        self._folder = folder
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._raw = _Excerpt(limit)
        """The output as it was written, for the user."""
        self._redrawn = self._raw
        """The output for the model: with `is_redrawn`, only the last state of each line."""
        self._stream: RedrawnStream | None = None
        if is_redrawn:
            from qcode.text.redrawn import RedrawnStream  # only the first command needs it

            self._redrawn, self._stream = _Excerpt(limit), RedrawnStream()
        self._file: OutputFile | None = None
        self._unstored: list[bytes] = []
        """The output while no file is needed."""

    def add(self, data: bytes, *, is_last: bool = False) -> str:
        """Add output and return it as text; an incomplete character at its end is held back."""
        text = self._decoder.decode(data, final=is_last)
        self._raw.add(text)
        self._store(data)
        if self._stream is not None:
            self._redrawn.add(self._stream.add(text))
        return text

    def collected(self) -> CollectedOutput:
        """Return the output so far, up to `MAX_STORED_BYTES`. Call it at most once, before `close`."""
        data = b"".join(self._unstored)
        if self._file is not None and self._file.path is not None:
            try:
                data = self._file.path.read_bytes()
            except OSError:
                data = b""
        incomplete = self._decoder.getstate()[0]
        self._decoder.reset()
        return CollectedOutput(data, incomplete)

    def close(self) -> str:
        """Close the file and return the text for the model, which counts omitted characters and names the file."""
        self.add(b"", is_last=True)
        if self._stream is not None:
            self._redrawn.add(self._stream.end())
        if self._file is not None:
            self._file.close()
        return self._redrawn.text(self._hint, counts_lines=False)

    def text_for_user(self) -> str:
        """Return the text for the user, which also counts the omitted lines. Call it after `close`."""
        return self._raw.text(self._hint, counts_lines=True)

    @property
    def _hint(self) -> str:
        return self._file.hint if self._file is not None else ""

    def _store(self, data: bytes) -> None:
        """Keep bytes in memory until the text is long, then append them to a file."""
        if not self._raw.is_long:
            self._unstored.append(data)
            return
        if self._file is None:
            self._file = OutputFile(self._folder() / f"shell-{os.urandom(4).hex()}.txt")
            self._file.write(b"".join(self._unstored))
            self._unstored = []
        self._file.write(data)


class _Excerpt:
    """The beginning and the end of a text of more than `limit` characters, or all of a shorter text."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 100)
        """The number of characters kept at the beginning, and at the end."""
        self._head: str | None = None
        """The beginning of a long text, None while the text is within the limit."""
        self._text = ""
        """The end of a long text; while the text is within the limit, all of it."""
        self._dropped_chars = 0
        self._dropped_lines = 0

    @property
    def is_long(self) -> bool:
        return self._head is not None

    def add(self, text: str) -> None:
        self._text += text
        if self._head is None and len(self._text) > 2 * self._half:
            self._head, self._text = self._text[: self._half], self._text[self._half :]
        # Not at `_half`: a cut copies the text, so cutting at each call would take quadratic time.
        if self._head is not None and len(self._text) > 4 * self._half:
            self._cut()

    def text(self, hint: str, *, counts_lines: bool) -> str:
        """Return the text; the line in place of its omitted middle ends with `hint`."""
        if self._head is None:
            return self._text
        self._cut()
        dropped = _size_text(self._dropped_lines if counts_lines else 0, self._dropped_chars)
        return f"{self._head}\n[... {dropped} omitted{hint} ...]\n{self._text}"

    def _cut(self) -> None:
        excess = len(self._text) - self._half
        if excess > 0:
            self._dropped_chars += excess
            self._dropped_lines += self._text.count("\n", 0, excess)
            self._text = self._text[excess:]


class LiveOutput:
    """A relay of text in chunks of limited size, which count omitted text. The caller decides when to `flush`."""

    def __init__(self, output: Callable[[str], None]) -> None:
        self._output = output
        self._pending_text = ""
        self._dropped_chars = self._dropped_lines = 0

    def add(self, text: str) -> None:
        self._pending_text += text
        excess = len(self._pending_text) - _MAX_LIVE_CHARS
        if excess > 0:
            self._dropped_chars += excess
            self._dropped_lines += self._pending_text.count("\n", 0, excess)
            self._pending_text = self._pending_text[excess:]

    def flush(self) -> None:
        if not self._pending_text:
            return
        text = self._pending_text
        if self._dropped_chars:
            text = f"\n[... {_size_text(self._dropped_lines, self._dropped_chars)} omitted ...]\n{text}"
        self._pending_text, self._dropped_chars, self._dropped_lines = "", 0, 0
        self._output(text)


def _size_text(lines: int, chars: int) -> str:
    """Return `3 lines, 1,200 characters`; without the lines if there is none."""
    characters = f"{chars:,} characters"
    return f"{count_text(lines, 'line')}, {characters}" if lines else characters


def bounded_text(text: str, limit: int, folder: Callable[[], Path]) -> str:
    """Return the beginning and the end of a long text, and the path of its full copy."""
    if len(text) <= limit:
        return text
    collector = OutputCollector(limit, folder)
    collector.add(text.encode("utf-8", "replace"))
    return collector.close()
