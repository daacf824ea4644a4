"""An event loop whose clock a test can move forward, so that a time limit passes without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is ahead by the skipped seconds."""

    skipped_s = 0.0

    def time(self) -> float:
        return super().time() + self.skipped_s

    def skip(self, seconds: float) -> None:
        """Move the clock forward. Timers that are due now run in the next iteration of the loop."""
        self.skipped_s += seconds


def run_skipping(body: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `body` like `asyncio.run`, in a `SkippingLoop`."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(body)


async def skip(seconds: float) -> None:
    """Move the clock of the running loop forward, and let all timers run that are due now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skip(seconds)
    await asyncio.sleep(1e-6)  # the last one of these timers
