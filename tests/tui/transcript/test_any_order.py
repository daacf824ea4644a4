"""Calls in any order: nothing raises, nothing is lost, and the view shows the end of the content."""

from __future__ import annotations

import random

import pytest
from textual.pilot import Pilot

from qcode.tui.transcript.cards import STATES, CardUpdate
from tests.tui.transcript.transcript_app import TranscriptApp, play, settle

TEXTS = ("word ", "\n\n", "```\n", "- a\n", "| a | b |\n|--|--|\n", "long text " * 30, "x\n" * 20, "   \n", "[/] [x]")
SHOWING = "text text text text reason settle restart restore mark notice card state output user"
LOOKING = "fold scroll end resize find jump"
DIFF = "@@ -1 +1 @@\n-a\n+b\n"


async def call(name: str, app: TranscriptApp, pilot: Pilot[None], pick: random.Random) -> None:
    transcript = app.transcript
    card = str(pick.randint(0, 5))
    match name:
        case "text":
            transcript.append_text(pick.choice(TEXTS))
        case "reason":
            transcript.append_reasoning(pick.choice(("hm ", "\n", "think " * 20)))
        case "settle":
            transcript.settle()
        case "restart":
            transcript.restart("again")
        case "restore":
            transcript.restore("restored\n" * pick.randint(0, 9), pick.choice(("", "why")))
        case "mark":
            transcript.add_mark("continued")
        case "notice":
            transcript.add_notice("warning", "note " * pick.randint(1, 20))
        case "card":
            transcript.add_card(card, "tool", "argument " * pick.randint(0, 20))
        case "state":
            transcript.update_card(card, CardUpdate(state=pick.choice(STATES)))
        case "output":
            transcript.update_card(
                card, CardUpdate(append="out\n" * pick.randint(0, 30), diff=pick.choice((None, DIFF)))
            )
        case "fold":
            transcript.toggle_folds()
        case "scroll":
            transcript.scroll_to(y=pick.randint(0, max(1, app.end)))
        case "end":
            transcript.scroll_end()
        case "resize":
            await pilot.resize_terminal(pick.randint(12, 90), pick.randint(5, 30))
        case "user":
            transcript.add_user("hello " * pick.randint(1, 30))
        case "find":
            transcript.search(pick.choice(("text", "out", "nowhere")))
            transcript.search_next(is_upwards=pick.random() < 0.5)
            if pick.random() < 0.7:
                transcript.end_search(returns_to_start=pick.random() < 0.5)
        case "jump":
            transcript.jump_to_prompt(pick.choice((-1, 1)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_calls_ends_at_the_end_of_the_transcript(seed: int) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> None:
        pick = random.Random(seed)
        for _ in range(120):
            await call(pick.choice(f"{SHOWING} {LOOKING}".split()), app, pilot, pick)
            if pick.random() < 0.2:
                await settle(app, pilot)
            assert len(app.view()) == app.transcript.size.height
        app.transcript.end_search(returns_to_start=False)
        app.transcript.scroll_end()
        await settle(app, pilot)
        rows = app.transcript.plain_text().split("\n")
        height = app.transcript.size.height
        assert app.view()[: len(rows)] == rows[-height:]

    play(scene, (50, 14))
