"""A terminal that goes away while the app draws on it: the app then ends, instead of waiting for it for ever.

Textual 8.2 writes from a thread that dies with the first failed write; the queue before it fills up, and the next write
of the app never returns, so that no signal is handled either.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import IO, TYPE_CHECKING

from textual.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable

HANGUP = 128 + signal.SIGHUP


class OutlivingFile:
    """Writes to `file` until that fails, then nowhere; `lost` is called once, from the thread that wrote."""

    def __init__(self, file: IO[str], lost: Callable[[], object]) -> None:
        self._file = file
        self._lost = lost
        self._is_lost = False

    def write(self, text: str) -> int:
        if not self._is_lost:
            try:
                self._file.write(text)
            except OSError:
                self._lose()
        return len(text)

    def flush(self) -> None:
        if not self._is_lost:
            try:
                self._file.flush()
            except OSError:
                self._lose()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _lose(self) -> None:
        self._is_lost = True
        # What is still buffered is flushed at exit; it must find somebody who listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
        self._lost()


def outliving(driver: type[Driver], leave: Callable[[int], object]) -> type[Driver]:
    """Return `driver` writing through an `OutlivingFile`; where the terminal goes, `leave` gets the exit code.

    A driver that keeps no file (the one of another system) is returned as it is.
    """

    class OutlivingDriver(driver):  # type: ignore[misc,valid-type]  # the class is chosen at run time
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)
            file = getattr(self, "_file", None)
            if file is not None:
                loop = asyncio.get_running_loop()
                self._file = OutlivingFile(file, lambda: loop.call_soon_threadsafe(leave, HANGUP))

    return OutlivingDriver
