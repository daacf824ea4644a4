"""The scripted provider plays its script, and a chaotic one around it is reproducible."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import user
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import (
    BlockEnded,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.usage import Usage
from tests.fakes.chaos import ChaosProvider, Rates
from tests.fakes.scripted import (
    Call,
    Hang,
    ScriptedProvider,
    begun,
    begun_call,
    call_reply,
    calls_reply,
    cut_call,
    cut_empty,
    cut_text,
    cut_thinking,
    fails,
    text_reply,
)


def _request(cap: int = 8_000) -> ModelRequest:
    return ModelRequest("scripted-1", "", (user("hi"),), (), cap)


async def _collect(provider: Provider, cap: int = 8_000) -> tuple[list[ReplyEvent], BaseException | None]:
    events: list[ReplyEvent] = []
    try:
        async for event in provider.stream(_request(cap)):
            events.append(event)
    except ProviderError as error:
        return events, error
    return events, None


def _all(provider: Provider, cap: int = 8_000) -> list[ReplyEvent]:
    return asyncio.run(_collect(provider, cap))[0]


def _text(events: list[ReplyEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_text_reply_is_a_complete_stream() -> None:
    provider = ScriptedProvider([text_reply("Hel", "lo", reasoning="hm", usage=Usage(1, 2))])
    events = _all(provider)
    assert _text(events) == "Hello"
    assert events[-2:] == [UsageReported(Usage(1, 2)), ReplyEnded(StopReason.END_TURN, "end_turn")]
    assert [event.block for event in events if isinstance(event, BlockEnded)] == [0, 1]
    assert (provider.broken_off, provider.left) == (0, 0)


def test_calls_are_complete_and_in_order() -> None:
    events = _all(ScriptedProvider([calls_reply(Call("a", {"x": 1}, "c1"), Call("b", "{}", "c2"), text="both")]))
    started = [event for event in events if isinstance(event, ToolCallStarted)]
    assert [(event.block, event.call_id, event.name) for event in started] == [(1, "c1", "a"), (2, "c2", "b")]
    arguments = "".join(event.text for event in events if isinstance(event, ToolArgsDelta) and event.block == 1)
    assert arguments == '{"x": 1}'
    assert events[-1] == ReplyEnded(StopReason.TOOL_USE, "tool_use")
    assert isinstance(_all(ScriptedProvider([call_reply("a", {})]))[1], ToolCallStarted)


@pytest.mark.parametrize(
    "steps", [cut_text("so"), cut_call("write", '{"pa', text="so"), cut_thinking("hm"), cut_empty()]
)
def test_truncated_reply_uses_the_full_cap_of_its_request(steps: Any) -> None:
    events = _all(ScriptedProvider([steps]), cap=77)
    usage = next(event.usage for event in events if isinstance(event, UsageReported))
    assert usage.output == 77
    assert events[-1] == ReplyEnded(StopReason.MAX_TOKENS, "max_tokens")


def test_failures_are_raised_at_their_position() -> None:
    provider = ScriptedProvider(
        [
            fails(ErrorKind.RATE_LIMIT, status=429, retry_after=2.0),
            fails(ErrorKind.CONNECTION, after=begun("so ", "far")),
            fails(ErrorKind.CONNECTION, after=begun_call("write", '{"pa')),
        ]
    )
    events, error = asyncio.run(_collect(provider))
    assert events == []
    assert isinstance(error, ProviderError)
    assert (error.kind, error.status, error.retry_after) == (ErrorKind.RATE_LIMIT, 429, 2.0)
    events, error = asyncio.run(_collect(provider))
    assert _text(events) == "so far"
    assert isinstance(error, ProviderError)
    assert isinstance(_all(provider)[-1], ToolArgsDelta)
    assert provider.broken_off == 0


def test_reply_can_be_computed_from_the_request() -> None:
    provider = ScriptedProvider([lambda request: text_reply(str(request.max_tokens))])
    assert _text(_all(provider, cap=5)) == "5"
    assert provider.caps == [5]


def test_hang_blocks_the_stream_until_released() -> None:
    async def run() -> str:
        hang = Hang()
        provider = ScriptedProvider([(*begun("one "), hang, TextDelta(0, "two"), ReplyEnded(StopReason.END_TURN, ""))])
        collecting = asyncio.ensure_future(_collect(provider))
        await hang.reached.wait()
        assert not collecting.done()
        hang.go.set()
        return _text((await collecting)[0])

    assert asyncio.run(run()) == "one two"


def test_cancelled_stream_is_counted() -> None:
    async def run() -> ScriptedProvider:
        hang = Hang()
        provider = ScriptedProvider([(*begun("one "), hang)])
        collecting = asyncio.ensure_future(_collect(provider))
        await hang.reached.wait()
        collecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await collecting
        await provider.close()
        return provider

    provider = asyncio.run(run())
    assert (provider.broken_off, provider.closed) == (1, True)


def test_request_beyond_the_script_fails_loudly() -> None:
    with pytest.raises(AssertionError, match="request 1 came"):
        _all(ScriptedProvider([]))


def test_splitting_changes_no_text() -> None:
    reply = text_reply("a longer text " * 20, reasoning="thought " * 9)
    whole = _all(ScriptedProvider([reply]))
    chaotic = _all(ChaosProvider(ScriptedProvider([reply]), 7, Rates(split=0.9)))
    assert len(chaotic) > len(whole) + 5
    assert _text(chaotic) == _text(whole)
    assert [event for event in chaotic if isinstance(event, ReplyStarted | BlockEnded | ReplyEnded)] == [
        event for event in whole if isinstance(event, ReplyStarted | BlockEnded | ReplyEnded)
    ]


def test_same_seed_gives_the_same_faults() -> None:
    rates = Rates(split=0.5, fail=0.3, drop=0.3, no_usage=0.5, unknown_stop=0.3, wrong_stop=0.3)

    def run(seed: int) -> list[Any]:
        provider = ChaosProvider(ScriptedProvider([text_reply("some text to split") for _ in range(20)]), seed, rates)
        outcomes = [asyncio.run(_collect(provider)) for _ in range(20)]
        return [*((events, str(error)) for events, error in outcomes), provider.injected]

    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.parametrize(
    ("rates", "injected"),
    [
        (Rates(fail=1), ["fail"]),
        (Rates(drop=1), ["drop"]),
        (Rates(no_usage=1), ["no_usage"]),
        (Rates(unknown_stop=1), ["unknown_stop"]),
        (Rates(wrong_stop=1), ["wrong_stop"]),
    ],
)
def test_each_fault_has_its_effect(rates: Rates, injected: list[str]) -> None:
    provider = ChaosProvider(ScriptedProvider([text_reply("text")]), 1, rates)
    events, error = asyncio.run(_collect(provider))
    assert provider.injected == injected
    assert (error is None) == (rates.fail + rates.drop == 0)
    assert (events == []) == bool(rates.fail)
    ended = [event for event in events if isinstance(event, ReplyEnded)]
    assert len(ended) == (error is None)
    if ended:
        assert (ended[0].stop is StopReason.UNKNOWN) == bool(rates.unknown_stop)
        assert (ended[0].raw_stop == "not_true") == bool(rates.wrong_stop)
        assert any(isinstance(event, UsageReported) for event in events) == (not rates.no_usage)


def test_faults_end_after_the_allowed_number() -> None:
    provider = ChaosProvider(ScriptedProvider([text_reply("text")]), 1, Rates(fail=1, drop=1), max_breaks=3)
    errors = [asyncio.run(_collect(provider))[1] for _ in range(4)]
    assert [error is None for error in errors] == [False, False, False, True]
