"""What is found out before the first request of a turn: how large a local model's window is, and the prompt in it.

Both take a moment, so neither happens before something is asked, and both end the instant the turn is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from qcode.engine.caps import room_for_prompt
from qcode.engine.counting import PromptCounter
from qcode.engine.knowledge import KnownModel
from qcode.protocol.model import ModelRequest
from qcode.providers.local import LocalWindow, WindowQuestion
from qcode.providers.threads import run_aside


class TokenCounting(Protocol):
    """Counts tokens with a vocabulary. `load` blocks and says whether there is one; `count` never blocks."""

    def load(self) -> bool: ...
    def count(self, text: str) -> int | None: ...


class Preparation:
    """For one model. `window` is what its server said so far, None where it did not."""

    def __init__(self, name: str, question: WindowQuestion | None, tokens: TokenCounting | None) -> None:
        self.window: int | None = None
        self._name = name
        self._question = question
        self._tokens = tokens
        self._asking: asyncio.Task[LocalWindow | None] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """End what is under way: the turn goes on with what is known."""
        for task in (self._asking, self._settling, self._counting):
            if task is not None:
                task.cancel()

    async def ask(self) -> str:
        """Ask for the window where it is not known yet; return a warning where it is small, else an empty text."""
        if self.window is not None or self._question is None or self._question.is_settled:
            return ""
        self._asking = asyncio.ensure_future(self._question.ask())
        await _over(self._asking)
        found = None if self._asking.cancelled() else self._asking.result()
        if found is None:
            return ""
        self.window = found.tokens
        if not found.is_small:
            return ""
        return (
            f"{self._name} runs with a context window of {found.tokens:,} tokens, which is little for work on code: "
            f"{found.advice}"
        )

    async def settle(self, work: Coroutine[None, None, None]) -> None:
        """Wait for what else a turn needs; a cancelled turn goes on without it."""
        self._settling = asyncio.ensure_future(work)
        await _over(self._settling)
        if not self._settling.cancelled():
            self._settling.result()

    async def count(self, request: ModelRequest, model: KnownModel, counter: PromptCounter) -> None:
        """Have the prompt counted beside the loop where its bytes leave open whether it fits."""
        tokens = self._tokens
        if tokens is None or counter.bound_of(request) <= room_for_prompt(request.max_tokens, model.window):
            return

        async def counted() -> None:
            await run_aside(lambda: tokens.load() and counter.size_of(request, enough=0))

        self._counting = asyncio.ensure_future(counted())
        await _over(self._counting)


async def _over(task: asyncio.Task[LocalWindow | None] | asyncio.Task[None]) -> None:
    """Wait until `task` is over, in whatever way; it does not outlive the wait."""
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
