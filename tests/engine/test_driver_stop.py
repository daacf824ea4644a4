"""What the driver does with `StopRequest`: the stream is closed, and nothing it still gives reaches the turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from qcode.agent.driver import Driver
from qcode.engine.caps import OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Append, ApprovalAnswered, Compact, TurnSettings, UserSubmitted
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.turn import Turn
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.messages import ToolCall, user
from qcode.protocol.model import ModelRequest
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
from qcode.protocol.tools import ToolOutcome
from qcode.text.json import JsonObject
from tests.engine.play import TOOLS

LINE = "This sentence is said again and again, all over, and the end is never near.\n"
CUT: list[ReplyEvent] = [
    ToolCallStarted(0, "c1", "write"),
    ToolArgsDelta(0, '{"path": "a", "content": "'),
    ReplyEnded(StopReason.MAX_TOKENS, "length"),
]
ANSWER: list[ReplyEvent] = [TextDelta(0, "In pieces, then."), ReplyEnded(StopReason.END_TURN, "stop")]


class Endless:
    """Says the same line for ever in its `endless` request, and breaks when it is closed. Owns no connection."""

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

    async def model_names(self) -> tuple[str, ...]:
        return ()

    async def close(self) -> None:
        return


class Nobody:
    """Services of a turn in which nothing is asked and nothing runs."""

    async def judge(self, call: ToolCall, arguments: JsonObject, repeats: int) -> ApprovalAnswered:
        raise AssertionError("a call that was cut is judged")

    async def run_tool(self, call: ToolCall, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        raise AssertionError("a call that was cut is run")

    def append(self, effect: Append) -> None:
        return

    def take_compaction(self, effect: Compact) -> None:
        raise AssertionError("a cut reply is compacted")

    def learn(self, effect: Learn) -> None:
        return

    def about_to_run(self, call: ToolCall) -> None:
        return

    async def explain(self, error: ProviderError) -> ProviderError:
        return error


def drive(provider: Endless, output: OutputSettings) -> list[TurnEvent]:
    async def run() -> list[TurnEvent]:
        turn = Turn(TurnSettings("s", TOOLS, output=output), KnownModel("test", "m"), [], PromptCounter())
        driver = Driver(turn, provider, Nobody())
        async with asyncio.timeout(20):
            return [event async for event in driver.run(UserSubmitted(user("go")))]

    return asyncio.run(run())


def test_a_reply_that_repeats_without_end_ends() -> None:
    provider = Endless(None)
    ended = drive(provider, OutputSettings())[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.outcome is Outcome.ERROR
    assert ended.text.startswith(LINE * 39)
    assert (provider.sent, provider.closed) == (1, 1)


def test_late_events_of_a_stopped_stream_never_reach_the_next_reply() -> None:
    provider = Endless(CUT, None, ANSWER)
    ended = drive(provider, OutputSettings(override=500, tool_call_repair="resume"))[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.text == "In pieces, then."
    assert ended.outcome is Outcome.END_TURN
    assert (provider.sent, provider.closed) == (3, 1)
    assert ended.api_calls.retries == 0
