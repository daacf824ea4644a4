"""The prompts a person sent, newest last, kept across sessions in a private file. A cache for fingers, not a record.

One JSON string a line. A file that cannot be read or written costs the history of other sessions and nothing else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

_KEPT = 1_000
_LONGEST = 50_000


class PromptHistory:
    """Walks back and forth through what was sent; the text being written is kept as the newest place."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries = _read(path) if path is not None else []
        self._place = len(self._entries)
        self._draft = ""
        self.is_kept = path is not None

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def add(self, text: str) -> None:
        """Remember `text` unless it is empty or the one sent last; the walk starts again from the end."""
        if text.strip() and (not self._entries or self._entries[-1] != text):
            self._entries.append(text)
            self._write(text)
        self._place = len(self._entries)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the entry before the one shown, None at the oldest. `current` is kept when the walk begins."""
        if self._place == 0:
            return None
        if self._place == len(self._entries):
            self._draft = current
        self._place -= 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """Return the entry after the one shown, at the end what was being written; None when already there."""
        if self._place == len(self._entries):
            return None
        self._place += 1
        return self._draft if self._place == len(self._entries) else self._entries[self._place]

    def _write(self, text: str) -> None:
        """Append one entry; the first failure turns the file off for this run (`is_kept`)."""
        if self._path is None or not self.is_kept or len(text) > _LONGEST:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, json.dumps(text).encode("ascii") + b"\n")
            finally:
                os.close(descriptor)
        except OSError:
            self.is_kept = False


def _read(path: Path) -> list[str]:
    """Return the newest entries; lines that are not a JSON string (a torn one, say) are left out."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    if len(lines) > 2 * _KEPT:
        _shorten(path, lines[-_KEPT:])
    return [entry for line in lines[-_KEPT:] if (entry := _parse(line))]


def _shorten(path: Path, lines: list[bytes]) -> None:
    """Replace the file by its newest lines; where that fails it stays as it is."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(lines)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)


def _parse(line: bytes) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
