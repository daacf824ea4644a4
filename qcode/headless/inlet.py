"""Lines of a descriptor, read ahead by a thread: an interrupt must be seen while a turn runs.

A thread and no reader of the loop: a file cannot be polled, and a pipe would have to stop blocking for everybody who
shares it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

from qcode.headless.incoming import LONGEST_LINE

_PIECE = 65_536


class Inlet:
    """Hands over each line without its end, None for one that is too long; then the end of the input, once.

    Both are called on the loop that is running when it is made. An input that cannot be read ends like an empty one,
    with the reason.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        line: Callable[[bytes | None], None],
        end: Callable[[str], None],
        longest: int = LONGEST_LINE,
    ) -> None:
        self._descriptor = descriptor
        self._line = line
        self._end = end
        self._longest = longest
        self._loop = asyncio.get_running_loop()
        # Never waited for: it may be stuck in a read that nothing will end.
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def _read(self) -> None:
        reason = ""
        try:
            self._read_lines()
        except OSError as error:
            reason = error.strerror or str(error)
        except RuntimeError:
            # The loop has been closed: nobody listens any more.
            return
        try:
            self._loop.call_soon_threadsafe(self._end, reason)
        except RuntimeError:
            return

    def _read_lines(self) -> None:
        rest = bytearray()
        is_skipping = False
        while piece := os.read(self._descriptor, _PIECE):
            *whole, begun = piece.split(b"\n")
            for part in whole:
                rest += part
                self._hand_over(None if is_skipping or len(rest) > self._longest else bytes(rest))
                rest.clear()
                is_skipping = False
            rest += begun
            if len(rest) > self._longest:
                is_skipping = True
                rest.clear()
        if rest or is_skipping:
            self._hand_over(None if is_skipping else bytes(rest))

    def _hand_over(self, line: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._line, line)
