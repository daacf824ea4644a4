"""The last of what a server wrote beside its answers; bounded, foreign text."""

from __future__ import annotations

_MOST = 8_192


class Log:
    """Keeps the end of it. `note` adds a line of ours."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data)[-_MOST:]

    def note(self, text: str) -> None:
        self.add(f"{text}\n".encode("utf-8", "replace"))

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace").strip()

    @property
    def last_line(self) -> str:
        return self.text.rpartition("\n")[2].strip()
