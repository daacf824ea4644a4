"""Reports unexpected errors anywhere in the app: by a notice and a crash report; in the worst case the app ends.

Every `except Exception` of the app ends here, so no error is lost.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from qcode.protocol.events import Level

WriteCrashReport = Callable[[BaseException], str]
"""Writes a crash report of an exception; returns one line with its type and the path of the report."""


_MAX_ERRORS_PER_SECOND = 5
"""After more errors of widgets in one second the app ends, because the error probably repeats forever."""


def report_failure(failure: BaseException, report: WriteCrashReport) -> str:
    """Report an unexpected error; return the sentence for the user."""
    return f"Internal error: {report(failure)}. The partial reply is kept. Send the prompt again."


_APP_COMMANDS = (
    ("store one with qcode auth login", "add one with /connect"),
    ("qcode auth login", "/connect"),
    ("; store a valid one", "; store a valid one with /connect"),
    ("; set a valid one", "; set a valid one and restart qcode"),
    ("name another model with -m PROVIDER/MODEL", "choose another model with /model"),
    ("`qcode help ", "`!qcode help "),
    ("qcode trust accept trusts it", "/trust trusts it"),
)
"""Advice in errors that names a command of the command line, and the words for the app."""


def with_app_commands(text: str) -> str:
    """Return `text` with commands of the command line replaced by those of the app."""
    for advice, advice_in_app in _APP_COMMANDS:
        text = text.replace(advice, advice_in_app)
    return text


def original_error(failure: Exception) -> Exception:
    """Return the original exception of a failed worker, which Textual wraps."""
    inner = getattr(failure, "error", None)
    return inner if isinstance(inner, Exception) else failure


def crash_text(text: str, session_id: str) -> str:
    """Return the text for the terminal after a crash of the app. `session_id` is empty if no session was stored."""
    resume_hint = f"To resume this session: qcode -r {session_id}\n" if session_id else ""
    return f"qcode stopped: {text}\n{resume_hint}"


class Failures:
    """Reports unexpected errors. `notify` shows a notice; it is called only in the app's thread."""

    def __init__(self, report: WriteCrashReport, notify: Callable[[Level, str], None]) -> None:
        self._report = report
        self._notify = notify
        self._restore_hooks: list[Callable[[], None]] = []
        self._error_times: list[float] = []

    def show(self, failure: BaseException) -> None:
        """Report an error and show a notice."""
        self._notify("error", f"Internal error: {self._report(failure)}. The session continues.")

    def survive(self, failure: BaseException, call_later: Callable[..., object]) -> bool:
        """Report an error of a widget; return False, without a report, after too many errors in one second.

        `call_later` delays the notice until the widgets are painted, because it changes them.
        """
        now = time.monotonic()
        self._error_times = [error_time for error_time in self._error_times if now - error_time < 1.0]
        if len(self._error_times) >= _MAX_ERRORS_PER_SECOND:
            return False
        self._error_times.append(now)
        call_later(self.show, failure)
        return True

    async def guard(self, work: Coroutine[Any, Any, object]) -> None:
        """Await `work`; report an error it raises."""
        try:
            await work
        except Exception as failure:  # noqa: BLE001  # the app's edge: a command that fails ends in a notice
            self.show(failure)

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Report an error raised in the block, and continue after it."""
        try:
            yield
        except Exception as failure:  # noqa: BLE001  # the app's edge: a command that fails ends in a notice
            self.show(failure)

    def watch(self, call_in_app: Callable[[Callable[[], None]], object]) -> None:
        """Report uncaught errors of threads and tasks from now on, until `unwatch`.

        `call_in_app` runs a function in the app's thread; it is called from any thread.
        """
        loop = asyncio.get_running_loop()
        previous_hook, previous_handler = threading.excepthook, loop.get_exception_handler()

        def thread_failed(args: threading.ExceptHookArgs) -> None:
            failure = args.exc_value
            if failure is not None:
                call_in_app(lambda: self.show(failure))

        def task_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            failure = context.get("exception")
            if isinstance(failure, Exception):
                call_in_app(lambda: self.show(failure))
            else:
                loop.default_exception_handler(context)

        threading.excepthook = thread_failed
        loop.set_exception_handler(task_failed)
        self._restore_hooks = [
            lambda: setattr(threading, "excepthook", previous_hook),
            lambda: loop.set_exception_handler(previous_handler),
        ]

    def unwatch(self) -> None:
        """Restore the hooks that `watch` replaced."""
        for restore_hook in self._restore_hooks:
            restore_hook()
        self._restore_hooks = []
