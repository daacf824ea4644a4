"""Ctrl+C and other signals: the first cancels the turn, then ends it by force; the second ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qcode.agent.outcomes import signal_code

GRACE_S = 0.5
"""Seconds for a turn to end after the first signal; including the final writes, the program exits within a second."""

FORCED_EXIT_S = 0.75
"""Seconds until the program exits after the second signal; processes of tools are killed in that time."""


class Interrupts:
    """Handles SIGINT, SIGTERM and SIGHUP while a turn runs. `number` is the first signal received.

    `ask` cancels the turn; `force` ends it after `GRACE_S` or on the second signal; `flush` writes without blocking
    before a third signal, or `FORCED_EXIT_S`, exits. A signal that was ignored at startup (nohup) stays ignored.
    """

    def __init__(self, *, ask: Callable[[], None], force: Callable[[], object], flush: Callable[[], None]) -> None:
        self.number: int | None = None
        self._ask = ask
        self._force = force
        self._flush = flush
        self._timer: asyncio.TimerHandle | None = None
        self._is_hurried = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        before: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            previous = signal.getsignal(number)
            if previous is signal.SIG_IGN:
                continue
            try:
                loop.add_signal_handler(number, self._seen, number)
            except (ValueError, RuntimeError, NotImplementedError):
                # Only the main thread can handle signals; in other threads the caller cancels the task.
                continue
            before[number] = previous
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for number, previous in before.items():
                loop.remove_signal_handler(number)
                if callable(previous):
                    signal.signal(number, previous)

    def _seen(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        if self.number is None:
            self.number = number
            self._timer = loop.call_later(GRACE_S, self._force)
            self._ask()
        elif not self._is_hurried and self._timer is not None:
            self._is_hurried = True
            self._timer.cancel()
            self._timer = loop.call_later(FORCED_EXIT_S, self._exit)
            self._force()
        else:
            self._exit()

    def _exit(self) -> None:
        self._flush()
        os._exit(signal_code(self.number or signal.SIGINT))
