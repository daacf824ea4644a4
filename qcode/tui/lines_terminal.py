"""Lines from and to the terminal of this process, for the linear mode. Reading does not stop the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

_AGAIN_SECONDS = 2.0


class LineTerminal:
    """Standard input and output. The terminal's own line editing is what there is to edit with."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self._stop: Callable[[], bool] = lambda: False
        self._told: asyncio.Future[int] = self._loop.create_future()
        self._pressed = float("-inf")

    def say(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(text if text == "\x07" else text.rstrip("\n") + "\n")
            sys.stdout.flush()

    async def ask(self, label: str) -> str | None:
        """Show `label` and return the next line, None at the end of input."""
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(label)
            sys.stdout.flush()
        while b"\n" not in self._pending:
            data = await self._read()
            if not data:
                rest, self._pending = self._pending, b""
                return rest.decode("utf-8", "replace") if rest else None
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    def forget_typed(self) -> None:
        """Drop what was typed before now: it was not meant for the question that follows."""
        import termios

        self._pending = b""
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def on_interrupt(self, stop: Callable[[], bool]) -> None:
        """Let Ctrl+C call `stop`; where that returns False, a second one within two seconds leaves with 130."""
        self._stop = stop
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    @contextlib.contextmanager
    def watching(self, numbers: Sequence[signal.Signals]) -> Iterator[None]:
        """End `until_told` with 128 + n when one of the signals comes."""
        for number in numbers:
            self._loop.add_signal_handler(number, self._tell, 128 + number)
        try:
            yield
        finally:
            for number in (*numbers, signal.SIGINT):
                self._loop.remove_signal_handler(number)

    async def until_told(self, work: Coroutine[Any, Any, int]) -> int:
        """Return what `work` returns, or the code of a signal that came first; then the work is cancelled."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, self._told}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return self._told.result()

    def _tell(self, code: int) -> None:
        if not self._told.done():
            self._told.set_result(code)

    def _interrupt(self) -> None:
        if self._stop():
            self.say("Interrupting.")
            return
        now = self._loop.time()
        if now - self._pressed <= _AGAIN_SECONDS:
            self._tell(0)
        self._pressed = now
        self.say("Press Ctrl+C again to leave.")

    async def _read(self) -> bytes:
        """Return what is there to read, as soon as there is something."""
        number = sys.stdin.fileno()
        ready: asyncio.Future[None] = self._loop.create_future()

        def tell() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_reader(number, tell)
        try:
            await ready
        finally:
            self._loop.remove_reader(number)
        try:
            return os.read(number, 65_536)
        except OSError:
            # The terminal is gone.
            return b""
