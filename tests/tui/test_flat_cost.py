"""The work of the app for a turn does not grow with the conversation: function calls are counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.agent.test_flat_cost import CallCount
from tests.fakes.conversation import talk
from tests.fakes.scripted import text_reply
from tests.tui.harness import Running, running

pytestmark = pytest.mark.frames

TURNS, WINDOW = 60, 12


async def play(run: Running, turns: range) -> None:
    for number in turns:
        await run.send(f"question {number}")
        await run.until(lambda wanted=f"Answer {number}.": wanted in run.screen)  # type: ignore[misc]  # a default
        await run.until_idle()


def test_turn_of_the_app_calls_no_more_functions_after_many_turns(tmp_path: Path) -> None:
    staged = talk(tmp_path, *(text_reply(f"Answer {number}.", " It is short.") for number in range(TURNS)))

    async def window(run: Running, start: int) -> int:
        with CallCount() as counted:
            await play(run, range(start, start + WINDOW))
        return counted.calls

    async def turns() -> tuple[int, int]:
        async with running(staged.conversation, sessions=staged.sessions) as run:
            await play(run, range(WINDOW))
            early = await window(run, WINDOW)
            await play(run, range(2 * WINDOW, TURNS - WINDOW))
            return early, await window(run, TURNS - WINDOW)

    early, late = asyncio.run(turns())
    assert late <= 1.05 * early
