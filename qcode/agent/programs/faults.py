"""Which exceptions are faults of a program's own code: its tools, callbacks, hooks and answer types.

Such a fault fails one call, approval, hook or answer. An exception that escapes would leave the turn waiting forever.
Read next: `function_tools`, `turns`, and `qcode.agent.hooks.runner`.
"""

from __future__ import annotations

import asyncio


def is_fault(error: BaseException) -> bool:
    """Return whether `error` is a fault, also one outside `Exception`, such as `SystemExit` or a panic of Rust code.

    Ctrl+C, the end of a coroutine and the cancellation of the current task are not. A `CancelledError` without that
    cancellation comes from a task that the code awaited.
    """
    if isinstance(error, asyncio.CancelledError):
        return not _is_being_cancelled()
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit))


def describe_fault(error: BaseException) -> str:
    """Return the type and the text of a fault."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the program's exception may fail to describe itself
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
