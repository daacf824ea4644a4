"""Ctrl+C and its kin: the first asks the turn to end and, if it does not, ends it; the second ends the program."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qcode.headless.exits import signal_code

GRACE = 0.5
"""Seconds a turn has to end after the first signal; with what is written then, the program is gone within one."""


class Interrupts:
    """Watches for SIGINT, SIGTERM and SIGHUP while a turn runs. `number` is the first one that came.

    `ask` requests the end, `force` brings it about after `GRACE`, `flush` writes what can be written at once before a
    second signal exits. A signal the program was started to ignore (nohup) stays ignored.
    """

    def __init__(self, *, ask: Callable[[], None], force: Callable[[], object], flush: Callable[[], None]) -> None:
        self.number: int | None = None
        self._ask = ask
        self._force = force
        self._flush = flush
        self._timer: asyncio.TimerHandle | None = None

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
                # Only the main thread may watch signals; elsewhere whoever owns it cancels the task.
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
        if self.number is not None:
            self._flush()
            os._exit(signal_code(number))
        self.number = number
        self._timer = asyncio.get_running_loop().call_later(GRACE, self._force)
        self._ask()
