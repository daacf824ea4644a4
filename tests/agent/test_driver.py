"""The driver of a turn: a stopped stream stays silent, waits count the time of questions, and no notice is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qcode.agent.driver import MAX_QUEUED_EVENTS, Driver
from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import CancelRequested, RateLimitAnswered, TurnSettings, UserSubmitted
from qcode.engine.model_facts import KnownModel
from qcode.engine.turn import Turn
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import LimitReached, Notice, TurnEnded, TurnEvent
from qcode.protocol.messages import user
from qcode.protocol.model import ModelRequest, RetrySettings
from qcode.protocol.reply import (
    Outcome,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
)
from tests.fakes.conversation import Model, ended, open_conversation
from tests.providers.faults.runs import NoServices

LINE = "This sentence repeats again and again, from start to end, and never ends.\n"
CUT: list[ReplyEvent] = [
    ToolCallStarted(0, "c1", "write"),
    ToolArgsDelta(0, '{"path": "a", "content": "'),
    ReplyEnded(StopReason.MAX_TOKENS, "length"),
]
ANSWER: list[ReplyEvent] = [TextDelta(0, "In pieces, then."), ReplyEnded(StopReason.END_TURN, "stop")]


class Endless:
    """Repeats a line forever in its `endless` request, and fails when it is closed."""

    name = host = "endless"

    def __init__(self, *replies: list[ReplyEvent] | None) -> None:
        self._replies = list(replies)
        self.sent = 0
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self.sent += 1
        yield ReplyStarted("m", "r")
        reply = self._replies.pop(0)
        for event in reply or ():
            yield event
        try:
            while reply is None:
                yield TextDelta(0, LINE)
        finally:
            if reply is None:
                self.closed += 1
                raise ProviderError(ErrorKind.CONNECTION, "closed while it was read")

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        return


def play(base: Path, provider: Endless, output: OutputSettings) -> TurnEnded:
    it = open_conversation(base, provider, Model(output=output))

    async def run() -> list[TurnEvent]:
        async with asyncio.timeout(20):
            events = await it.play("go")
        await it.conversation.close()
        return events

    return ended(asyncio.run(run()))


def test_endlessly_repeating_reply_is_ended(tmp_path: Path) -> None:
    provider = Endless(None)
    end = play(tmp_path, provider, OutputSettings())
    assert end.outcome is Outcome.ERROR
    assert end.text.startswith(LINE * 39)
    assert (provider.sent, provider.closed) == (1, 1)


def test_late_events_of_a_stopped_stream_never_reach_the_next_reply(tmp_path: Path) -> None:
    provider = Endless(CUT, None, ANSWER)
    end = play(tmp_path, provider, OutputSettings(override=500, tool_call_repair="resume"))
    assert end.text == "In pieces, then."
    assert end.outcome is Outcome.END_TURN
    assert (provider.sent, provider.closed) == (3, 1)
    assert end.api_calls.retries == 0


class LimitedOnce:
    """Refuses its first request because of a limit that ends in an hour."""

    name = host = "limited"

    def __init__(self) -> None:
        self.sent = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self.sent += 1
        if self.sent == 1:
            raise ProviderError(ErrorKind.RATE_LIMIT, "limit", retry_after=3_600, resets_at=4_600)
        for event in ANSWER:
            yield event

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        return


def test_time_for_which_the_question_about_a_limit_was_open_is_part_of_the_wait() -> None:
    async def run() -> list[LimitReached]:
        now = [1_000.0]
        settings = TurnSettings("", (), retries=RetrySettings(0, wait_for_limit="ask"))
        turn = Turn(settings, KnownModel("p", "m"), [], PromptCounter())
        driver = Driver(turn, LimitedOnce(), NoServices(), random_fraction=lambda: 0.0, wall_clock=lambda: now[0])
        limits: list[LimitReached] = []
        async for event in driver.run(UserSubmitted(user("go"))):
            if isinstance(event, LimitReached):
                limits.append(event)
                now[0] += 600
                driver.put_input(RateLimitAnswered(should_wait=True) if event.is_question else CancelRequested())
        return limits

    asked, waiting = asyncio.run(run())
    assert (asked.is_question, asked.seconds) == (True, 3_600)
    assert (waiting.is_question, waiting.seconds) == (False, 3_000)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_notice_that_waits_for_a_full_queue_is_kept_when_the_turn_ends(*, is_cancelled: bool) -> None:
    async def run() -> None:
        turn = Turn(TurnSettings("", ()), KnownModel("p", "m"), [], PromptCounter())
        driver = Driver(turn, LimitedOnce(), NoServices())
        for number in range(MAX_QUEUED_EVENTS):
            await driver.show(Notice("info", f"{number}"))
        waiting = asyncio.create_task(driver.show(Notice("warning", "a hook failed")))
        await asyncio.sleep(0)
        if is_cancelled:
            waiting.cancel()
            await asyncio.wait([waiting])
        notices = driver.take_notices()
        assert len(notices) == MAX_QUEUED_EVENTS + 1
        assert notices[-1] == Notice("warning", "a hook failed")
        await asyncio.wait([waiting])

    asyncio.run(run())
