"""Running blocking work of an SDK beside the event loop: imports, credential look-ups.

The thread is a daemon: whoever cancels goes on at once, and work that hangs cannot keep the process from ending,
as a thread of the loop's own pool would.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


async def run_aside(work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. Cancelling ends the wait, not the work."""
    waiting = _Waiting[T]()

    def run() -> None:
        with waiting:
            waiting.result.append(work())

    threading.Thread(target=run, name="qcode-provider", daemon=True).start()
    await waiting.done
    return waiting.result[0]


class _Waiting(Generic[T]):
    """Carries what became of the work, whatever it raised, from its thread to the loop that waits for it."""

    def __init__(self) -> None:
        self.result: list[T] = []
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        # The loop is closed where nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, error)
        return True

    def _settle(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
