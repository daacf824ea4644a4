"""The work of the app for a turn does not grow with the conversation: function calls are counted."""

from __future__ import annotations

import asyncio
import cProfile
from pathlib import Path

import pytest

from tests.agent.test_flat_cost import is_of_qcode
from tests.fakes.conversation import talk
from tests.fakes.scripted import text_reply
from tests.tui.harness import Running, running

TURNS, WINDOW = 60, 12


async def play(run: Running, turns: range) -> None:
    """Play turns, and paint one frame after each: the number of frames that an app paints depends on the machine."""
    for number in turns:
        await run.send(f"question {number}")
        await run.until_idle()
        assert f"Answer {number}." in run.screen


@pytest.mark.timeout(600)
@pytest.mark.broad  # `make test` counts the calls of a turn without the app
def test_turn_of_the_app_calls_no_more_functions_after_many_turns(tmp_path: Path) -> None:
    staged = talk(tmp_path, *(text_reply(f"Answer {number}.", " It is short.") for number in range(TURNS)))

    async def window(run: Running, start: int) -> int:
        with cProfile.Profile() as profile:  # in C, because an app calls many functions and has no other thread here
            await play(run, range(start, start + WINDOW))
        return sum(entry.callcount for entry in profile.getstats() if is_of_qcode(entry.code))

    async def turns() -> tuple[int, int]:
        async with running(staged.conversation, sessions=staged.sessions) as run:
            await play(run, range(WINDOW))
            early = await window(run, WINDOW)
            await play(run, range(2 * WINDOW, TURNS - WINDOW))
            return early, await window(run, TURNS - WINDOW)

    early, late = asyncio.run(turns())
    assert 1_000 < late <= 1.05 * early
