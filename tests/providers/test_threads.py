"""Blocking work in a thread: its result, its failure, and a loop that is never blocked."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from qcode.providers.sdk import run_in_thread


def test_thread_result_is_returned_and_its_exception_raised() -> None:
    async def main() -> None:
        assert await run_in_thread(lambda: 7) == 7
        assert await run_in_thread(lambda: next(iter(nothing), None)) is None
        with pytest.raises(ZeroDivisionError):
            await run_in_thread(lambda: 1 // 0)
        with pytest.raises(SystemExit):
            await run_in_thread(lambda: exit_with(3))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await asyncio.wait_for(run_in_thread(lambda: next(iter(nothing))), timeout=5)

    asyncio.run(main())


nothing: list[int] = []


def exit_with(code: int) -> None:
    raise SystemExit(code)


def test_event_loop_is_not_blocked() -> None:
    async def main() -> None:
        may_end = threading.Event()
        task = asyncio.create_task(run_in_thread(lambda: may_end.wait(10)))
        await asyncio.sleep(0)
        may_end.set()
        assert await task

    asyncio.run(main())


def test_cancel_ends_the_wait_at_once_and_a_late_result_is_ignored() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    async def main() -> float:
        task = asyncio.create_task(run_in_thread(work))
        await asyncio.sleep(0)
        begun.wait(10)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(main()) < 0.2
    threads = [thread for thread in threading.enumerate() if thread.name == "qcode-provider"]
    may_end.set()
    assert ended.wait(10)
    for thread in threads:
        thread.join(10)
    assert all(thread.daemon for thread in threads)
