"""stderr: one-line messages for a person and, on a terminal, one live line of progress that leaves no trace.

Whatever is wrong with stderr is never a reason to fail: the answer is on stdout.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import BinaryIO

from qcode.headless.pipe import OutputLostError, Pipe
from qcode.safety.cleaning import clean

_WHITE_SPACE = re.compile(r"\s+")
_ERASE = b"\r\x1b[2K"
_NARROWEST = 20


class Margin:
    """Writes beside the answer. `is_terminal` turns the live line on."""

    def __init__(self, stream: BinaryIO, *, is_terminal: bool) -> None:
        self._stream = stream
        self._pipe: Pipe | None = Pipe(stream)
        self._is_terminal = is_terminal
        self._is_live = False

    async def say(self, text: str) -> None:
        """Write `text` as one line that begins with `qcode: `."""
        await self._write(f"qcode: {one_line(text)}\n")

    async def quote(self, text: str) -> None:
        """Write foreign text as it is, cleaned, with a final newline."""
        shown = clean(text)
        await self._write(shown if shown.endswith("\n") else f"{shown}\n")

    async def show(self, status: str) -> None:
        """Replace the live line; nothing where stderr is no terminal."""
        if self._is_terminal:
            line = one_line(status)[: self._width() - 1]
            self._is_live = True
            await self._send(_ERASE + line.encode("utf-8", "replace"))

    async def erase(self) -> None:
        """Take the live line away, so that what comes next has a clean row."""
        if self._is_live:
            self._is_live = False
            await self._send(_ERASE)

    def erase_now(self) -> None:
        """As `erase`, without waiting: for a program that is about to exit."""
        if self._is_live and self._pipe is not None:
            self._is_live = False
            with contextlib.suppress(OutputLostError):
                self._pipe.push(_ERASE)

    async def _write(self, text: str) -> None:
        await self.erase()
        await self._send(text.encode("utf-8", "replace"))

    async def _send(self, data: bytes) -> None:
        if self._pipe is None:
            return
        try:
            await self._pipe.write(data)
        except OutputLostError:
            self._pipe = None

    def _width(self) -> int:
        try:
            return max(_NARROWEST, os.get_terminal_size(self._stream.fileno()).columns)
        except OSError:
            return 80


def one_line(text: str) -> str:
    """Return foreign text as one clean line."""
    return _WHITE_SPACE.sub(" ", clean(text)).strip()
