"""Signals before a loop watches them: SIGTERM and SIGHUP end the program as Ctrl+C does, by an exception.

They can be held back for the moment it takes to load what a proper ending needs. Apart from `main`, which loads
`pipe`: both use it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


class Stopped(BaseException):
    """The program was told to end. Not an `Exception`, as `KeyboardInterrupt` is none."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 143


_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hold() -> None:
    """Keep signals waiting until `release`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)


def release() -> None:
    """Let signals through again, those that came meanwhile at once: this raises what they raise."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ALL)


@contextmanager
def stopping() -> Iterator[None]:
    """Raise `Stopped` on SIGTERM and SIGHUP inside. What is ignored or watched already stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, frame: object) -> NoReturn:
    raise Stopped(number)
