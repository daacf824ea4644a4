"""Standard input and output as lines, with the terminal's own line editing, and without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from qcode.protocol.errors import ExitCode

_SECOND_PRESS_S = 2.0
"""The time in which a second Ctrl+C quits."""


def terminal_columns() -> int:
    """Return the width of the terminal in cells, 0 if standard output is not a terminal."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return 0


class LineTerminal:
    """Standard input and output as lines, with the terminal's own line editing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending_bytes = b""
        self._stop: Callable[[], bool] = lambda: False
        self._quit_hint: Callable[[], str] = lambda: ""
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._last_press = float("-inf")
        self._input_ready: asyncio.Future[bool] | None = None  # None while nothing is read; False if Ctrl+C ends it
        self._label = ""

    def write_line(self, text: str) -> None:
        """Write `text` and a line end."""
        self._write(text.rstrip("\n") + "\n")

    def ring(self) -> None:
        """Ring the bell of the terminal."""
        self._write("\a")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:  # the reader or the terminal is gone
            # The interpreter flushes stdout again at exit. With /dev/null in its place that flush succeeds.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def columns(self) -> int:
        """Return the width of the terminal in cells, 0 if standard output is not a terminal."""
        return terminal_columns()

    async def ask_text(self, label: str) -> str | None:
        """Return a typed text as `ask` does. A backslash at the end of a line continues it on the next one."""
        lines: list[str] = []
        while not lines or lines[-1].endswith("\\"):
            line = await self.ask("" if lines else label)
            if line is None:
                return None
            lines.append(line)
        return "\n".join([*(line.removesuffix("\\") for line in lines[:-1]), lines[-1]])

    async def ask(self, label: str) -> str | None:
        """Show `label` and return the next line, None at the end of input or if Ctrl+C interrupts the turn."""
        self._label = label
        self._write(label)
        while b"\n" not in self._pending_bytes:
            data = await self._read()
            if not data:
                last_line = self._pending_bytes
                self._pending_bytes = b""
                return last_line.decode("utf-8", "replace") if last_line else None
            self._pending_bytes += data
        line, _, self._pending_bytes = self._pending_bytes.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    def forget_typed(self) -> None:
        """Discard text that was typed before the next question is shown, because it cannot be an answer to it."""
        import termios

        self._pending_bytes = b""
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def on_interrupt(self, stop: Callable[[], bool], quit_hint: Callable[[], str]) -> None:
        """Call `stop`, which may print, on Ctrl+C.

        If it returns False, print `quit_hint()`; a second Ctrl+C in two seconds quits.
        """
        self._stop = stop
        self._quit_hint = quit_hint
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._loop.add_signal_handler(signal.SIGCONT, self._show_label_again)

    @contextlib.contextmanager
    def end_at_signals(self, numbers: Sequence[signal.Signals]) -> Iterator[None]:
        """In the block, end `run_until_signal` with code 143 if a signal arrives. At the end, remove all handlers."""
        for number in numbers:
            self._loop.add_signal_handler(number, self._set_exit_code, ExitCode.TERMINATED)
        try:
            yield
        finally:
            for number in (*numbers, signal.SIGINT, signal.SIGCONT):
                self._loop.remove_signal_handler(number)

    async def run_until_signal(self, work: Coroutine[Any, Any, int]) -> int:
        """Return the result of `work`. If a signal arrives first, cancel `work` and return the signal's exit code."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, self._exit_code}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return self._exit_code.result()

    def _set_exit_code(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _show_label_again(self) -> None:
        """Show the label below the line that the shell prints at `fg`; the terminal has discarded what was typed."""
        if self._input_ready is not None:
            self._write(self._label)

    def _interrupt(self) -> None:
        if self._input_ready is not None or os.isatty(sys.stdin.fileno()):
            self.write_line("")  # end the line of the label, or of the `^C` that the terminal shows
        if self._input_ready is not None:
            self._pending_bytes = b""  # an unfinished line: Ctrl+D sends it without a line end
        if self._stop():
            self.write_line("Interrupting.")
            if self._input_ready is not None and not self._input_ready.done():
                self._input_ready.set_result(False)
            return
        now = self._loop.time()
        if now - self._last_press <= _SECOND_PRESS_S:
            self._set_exit_code(0)
            return
        self._last_press = now
        self.write_line(self._quit_hint())
        if self._input_ready is not None:
            self._write(self._label)  # the terminal has discarded what was typed

    async def _read(self) -> bytes:
        """Wait for input and return it; return no bytes at its end, or if Ctrl+C interrupts the turn."""
        descriptor = sys.stdin.fileno()
        input_ready: asyncio.Future[bool] = self._loop.create_future()

        def set_ready() -> None:
            if not input_ready.done():
                input_ready.set_result(True)

        self._loop.add_reader(descriptor, set_ready)
        self._input_ready = input_ready
        try:
            if not await input_ready:
                return b""
        finally:
            self._input_ready = None
            self._loop.remove_reader(descriptor)
        try:
            data = os.read(descriptor, 65_536)
        except OSError:  # the terminal was closed
            return b""
        if not data:
            self.write_line("")  # the label is still at the end of the line
        return data
