"""Ends the app within `LEAVE_S` seconds after SIGTERM, SIGHUP or SIGINT, even if a part of the app hangs.

asyncio handles signals in its loop, which does not run while a write to the terminal blocks, or while an editor has the
terminal. At exit, Python waits for the threads of its executors. Therefore a thread reads the signals, asks the app to
leave, and ends the process if the app does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from qcode.protocol.errors import ExitCode

LEAVE_S = 2.0
"""Seconds for the app to leave after a signal."""
REPEAT_S = 0.5
"""Signals closer together are one request: the kernel and the shell both report a lost terminal."""
RESCUE_S = 0.5
"""Seconds for each step of a forced end: save the draft, end child processes, restore the terminal."""

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_RESET_SEQUENCES = (
    b"\x1b[r\x1b[m\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h"
)
"""Resets the scroll region, style, mouse and focus reports, bracketed paste, line wrap, key protocol and alternate
screen, and shows the cursor.
"""


class EndingSignals:
    """Calls `leave` in the loop with the number of the first signal, and ends the process by force if that hangs.

    The process is ended `LEAVE_S` seconds after the first signal, or at the second one. Before the forced end, `rescue`
    saves unsent text in a separate thread.
    """

    def __init__(self, leave: Callable[[int], object], rescue: Callable[[], object]) -> None:
        self.number: int | None = None
        """The number of the first signal, None before it."""
        self._leave = leave
        self._rescue = rescue
        self._loop = asyncio.get_running_loop()
        # The process ends by force `_seconds_left` after `_deadline_start`, which is a time of `time.monotonic`.
        self._deadline_start = 0.0
        self._seconds_left = LEAVE_S
        self._terminal_settings = _terminal_settings()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        # A signal that is blocked when the process starts would never arrive.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        for number in _SIGNALS:
            signal.signal(number, _do_nothing)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="qcode-signals", daemon=True).start()

    @property
    def exit_code(self) -> ExitCode | None:
        """The exit code after the first signal; None before it."""
        if self.number is None:
            return None
        return ExitCode.INTERRUPTED if self.number == signal.SIGINT else ExitCode.TERMINATED

    def close(self, release_s: float = 0.0) -> None:
        """Stop handling signals, because the app has ended.

        After a signal, the process must end within `LEAVE_S`. `release_s` is the additional time in seconds for what
        the caller releases after this call.
        """
        if self.number is not None:
            self._deadline_start = time.monotonic()
            self._seconds_left = release_s + LEAVE_S
            os.write(self._write_end, b"\0")  # wakes the thread, which then waits for the new deadline
            return
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        os.close(self._write_end)

    def _watch(self) -> None:
        """Read the signals in a thread, and end the process at the deadline. Return if `close` precedes any signal."""
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        while True:
            if not poll.poll(self._remaining_ms()):
                self._end_process()
            data = os.read(self._read_end, 64)
            if not data:
                os.close(self._read_end)
                return
            for number in data:
                if number in _SIGNALS:
                    self._leave_or_end(number)

    def _remaining_ms(self) -> float | None:
        """Return the milliseconds until the deadline, None before the first signal."""
        if self.number is None:
            return None
        return 1000 * max(0.0, self._deadline_start + self._seconds_left - time.monotonic())

    def _leave_or_end(self, number: int) -> None:
        """Ask the app to leave at the first signal; end the process at a later one."""
        now = time.monotonic()
        if self.number is None:
            self.number = number
            self._deadline_start = now
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._leave, number)
        elif now - self._deadline_start > REPEAT_S:
            self._end_process()

    def _end_process(self) -> None:
        """End the process now, after a rescue. No step of the rescue may take longer than `RESCUE_S`."""
        for step in (self._rescue, _kill_descendants, self._restore_terminal):
            thread = threading.Thread(target=step, daemon=True)
            thread.start()
            thread.join(RESCUE_S)
        os._exit(self.exit_code or ExitCode.TERMINATED)

    def _restore_terminal(self) -> None:
        """Restore the terminal's modes. Nothing here may wait for the terminal."""
        import termios

        with contextlib.suppress(OSError, termios.error):
            if self._terminal_settings is not None:
                termios.tcsetattr(0, termios.TCSANOW, self._terminal_settings)
            descriptor = os.open("/dev/tty", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.write(descriptor, _RESET_SEQUENCES)


def _kill_descendants() -> None:
    from qcode.tools.processes import kill_descendants

    kill_descendants()


def _terminal_settings() -> list[Any] | None:
    """Return the settings of the terminal, None without one."""
    import termios

    try:
        return termios.tcgetattr(0)
    except (OSError, termios.error):
        return None


def _do_nothing(number: int, frame: object) -> None:
    """Do nothing. Python writes a signal to the wakeup descriptor only if it has a handler."""
