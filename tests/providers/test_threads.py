"""Blocking work in a thread: its result, its failure, and a loop that is never blocked."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from qcode.providers.sdk import run_aside


def test_what_the_work_returns_comes_back_and_what_it_raises_is_raised() -> None:
    async def main() -> None:
        assert await run_aside(lambda: 7) == 7
        assert await run_aside(lambda: next(iter(nothing), None)) is None
        with pytest.raises(ZeroDivisionError):
            await run_aside(lambda: 1 // 0)
        with pytest.raises(SystemExit):
            await run_aside(lambda: exit_with(3))

    asyncio.run(main())


nothing: list[int] = []


def exit_with(code: int) -> None:
    raise SystemExit(code)


def test_the_loop_runs_on_meanwhile() -> None:
    async def main() -> None:
        may_end = threading.Event()
        task = asyncio.create_task(run_aside(lambda: may_end.wait(10)))
        await asyncio.sleep(0)
        may_end.set()
        assert await task

    asyncio.run(main())


def test_cancelling_ends_the_wait_at_once_and_work_that_ends_later_bothers_nobody() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    async def main() -> float:
        task = asyncio.create_task(run_aside(work))
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
