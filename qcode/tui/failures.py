"""What nobody foresaw, wherever in the app it breaks: a notice and a report, and only at worst the end of the app.

This is the app's edge: the one place, with the turns, that catches everything. It keeps no failure from being told.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from qcode.protocol.events import Level

Report = Callable[[BaseException], str]
"""Keeps the details of a failure where they can be read later; returns what it was and where they are, in one line."""


def what_happened(failure: BaseException, report: Report) -> str:
    """Return the sentence about a failure that nobody foresaw, after reporting it."""
    return f"Internal error: {report(failure)}. The partial reply is kept. Send the prompt again."


def itself(failure: Exception) -> Exception:
    """Return a failure without what it came wrapped in: Textual wraps that of a worker."""
    inner = getattr(failure, "error", None)
    return inner if isinstance(inner, Exception) else failure


def last_words(said: str, session_id: str) -> str:
    """Return what is left on the terminal after the app ended on a failure; `session_id` empty: none is kept."""
    going_on = f"To resume this session: qcode -r {session_id}\n" if session_id else ""
    return f"qcode stopped: {said}\n{going_on}"


class Failures:
    """Tells a person what broke; `say` shows a notice and is called in the app's thread only."""

    def __init__(self, report: Report, say: Callable[[Level, str], None]) -> None:
        self._report = report
        self._say = say
        self._restore: list[Callable[[], None]] = []

    def tell(self, failure: BaseException) -> None:
        """Report a failure and show a notice about it."""
        self._say("error", f"Internal error: {self._report(failure)}. The session continues.")

    async def noticed(self, work: Coroutine[Any, Any, None]) -> None:
        """Await what is done beside the turns; where it fails, say so."""
        try:
            await work
        except Exception as failure:  # noqa: BLE001  # the app's edge: a command that fails ends in a notice
            self.tell(failure)

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Say so where what is done inside fails, and go on after it."""
        try:
            yield
        except Exception as failure:  # noqa: BLE001  # the app's edge: a command that fails ends in a notice
            self.tell(failure)

    def watch(self, in_app: Callable[[Callable[[], None]], object]) -> None:
        """Tell from now on of threads and tasks that fail with nobody waiting for them, until `unwatch`.

        `in_app` runs a function in the app's thread; it is called from any thread.
        """
        loop = asyncio.get_running_loop()
        before, before_loop = threading.excepthook, loop.get_exception_handler()

        def thread_failed(given: threading.ExceptHookArgs) -> None:
            failure = given.exc_value
            if failure is not None:
                in_app(lambda: self.tell(failure))

        def task_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            failure = context.get("exception")
            if isinstance(failure, Exception):
                in_app(lambda: self.tell(failure))
            else:
                loop.default_exception_handler(context)

        threading.excepthook = thread_failed
        loop.set_exception_handler(task_failed)
        self._restore = [
            lambda: setattr(threading, "excepthook", before),
            lambda: loop.set_exception_handler(before_loop),
        ]

    def unwatch(self) -> None:
        while self._restore:
            self._restore.pop()()
