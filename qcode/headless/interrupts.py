"""Ends the turn, then the program, at SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qcode.agent import outcomes

GRACE_S = 0.5
"""Seconds that a turn has to end after the first signal. With the final writes, the program exits within a second."""

FORCED_EXIT_S = 0.75
"""Seconds until the program exits after the second signal. Meanwhile, it kills the processes of tools."""


class Interrupts:
    """Handles SIGINT, SIGTERM and SIGHUP while a turn runs.

    `cancel` cancels the turn at the first signal. `force` ends it `GRACE_S` later or at the second signal. At the third
    signal, or `FORCED_EXIT_S` after the second, `flush` writes without blocking and the program exits.
    A signal that was ignored at startup (nohup) stays ignored.
    """

    def __init__(self, *, cancel: Callable[[], None], force: Callable[[], object], flush: Callable[[], None]) -> None:
        self.number: int | None = None  # of the first signal received
        self._cancel = cancel
        self._force = force
        self._flush = flush
        self._timer: asyncio.TimerHandle | None = None
        self._has_second_signal = False

    @contextmanager
    def end_at_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        previous_handlers: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            previous = signal.getsignal(number)
            if previous is signal.SIG_IGN:
                continue
            try:
                loop.add_signal_handler(number, self._handle_signal, number)
            except (ValueError, RuntimeError, NotImplementedError):
                # Only the main thread can handle signals; in other threads the caller cancels the task.
                continue
            previous_handlers[number] = previous
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for number, previous in previous_handlers.items():
                loop.remove_signal_handler(number)
                if callable(previous):
                    signal.signal(number, previous)

    def _handle_signal(self, number: int) -> None:
        """Cancel, force or exit at the first, second or third signal."""
        loop = asyncio.get_running_loop()
        if self.number is None:
            self.number = number
            self._timer = loop.call_later(GRACE_S, self._force)
            self._cancel()
        elif not self._has_second_signal and self._timer is not None:
            self._has_second_signal = True
            self._timer.cancel()
            self._timer = loop.call_later(FORCED_EXIT_S, self._exit)
            self._force()
        else:
            self._exit()

    def _exit(self) -> None:
        self._flush()
        os._exit(outcomes.signal_code(self.number or signal.SIGINT))
