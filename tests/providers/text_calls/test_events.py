"""A reply with calls in its text becomes a reply with calls: blocks, ids, stop reasons, cuts and breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Opaque
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
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
from qcode.providers.text_calls.provider import CallEvents, as_event_stream
from qcode.providers.text_calls.scanner import TextCalls
from tests.providers.events import joined
from tests.providers.text_calls.scanning import READ, READ_ARGUMENTS, TOOLS

CALL = f"<tool_call>\n{READ}\n</tool_call>"
STARTED = ReplyStarted("m", "re-1")
SIGNATURE = Opaque("gemini", '"sig"')


def reply(*events: ReplyEvent, stop: StopReason = StopReason.END_TURN, output: int | None = None) -> list[ReplyEvent]:
    usage = [UsageReported(Usage(10, output))] if output is not None else []
    return [STARTED, *events, *usage, ReplyEnded(stop, stop.value)]


def text(*pieces: str, block: int = 0) -> list[ReplyEvent]:
    return [*(TextDelta(block, piece) for piece in pieces), BlockEnded(block)]


def changed(events: list[ReplyEvent], *, cap: int | None = 100) -> list[ReplyEvent]:
    made = CallEvents(TextCalls(TOOLS), tag="5", cap=cap)
    return [event for sent in events for event in made.feed(sent)]


def call_events(block: int, number: int = 1, arguments: str = READ_ARGUMENTS) -> list[ReplyEvent]:
    return [
        ToolCallStarted(block, f"call_5t_re1_{number}", "read"),
        ToolArgsDelta(block, arguments),
        BlockEnded(block),
    ]


def test_reply_without_calls_is_unchanged() -> None:
    events = reply(ReasoningDelta(0, "hm"), BlockEnded(0, SIGNATURE), *text("a", "b", block=1), output=5)
    assert sorted(changed(events), key=str) == sorted(events, key=str)
    assert joined(changed(events)) == [
        ["ReplyStarted", "m", "re-1"],
        ["ReasoningDelta", 0, "hm"],
        ["BlockEnded", 0, {"source": "gemini", "data": '"sig"'}],
        ["TextDelta", 1, "ab"],
        ["UsageReported", {"input": 10, "output": 5, "cache_read": None, "cache_write": None, "reasoning": None}],
        ["BlockEnded", 1],
        ["ReplyEnded", "end_turn", "end_turn", ""],
    ]


def test_call_in_text_becomes_a_separate_block_with_tool_use() -> None:
    assert changed(reply(*text("Look. ", CALL, "\nThen."))) == [
        STARTED,
        TextDelta(0, "Look. "),
        BlockEnded(0),
        *call_events(1),
        TextDelta(2, "Then."),
        BlockEnded(2),
        ReplyEnded(StopReason.TOOL_USE, "end_turn"),
    ]


def test_several_calls_get_distinct_ids_in_order() -> None:
    events = changed(reply(*text(CALL, CALL)))
    assert events == [STARTED, *call_events(0, 1), *call_events(1, 2), ReplyEnded(StopReason.TOOL_USE, "end_turn")]


@pytest.mark.parametrize(
    "stop", [StopReason.MAX_TOKENS, StopReason.UNKNOWN, StopReason.REFUSAL, StopReason.CONTEXT_WINDOW_EXCEEDED]
)
def test_other_stop_reasons_are_unchanged(stop: StopReason) -> None:
    assert changed(reply(*text(CALL), stop=stop))[-1] == ReplyEnded(stop, stop.value)


def test_thinking_before_and_between_calls_keeps_position_and_signature() -> None:
    events = reply(
        ReasoningDelta(0, "hm"),
        BlockEnded(0, SIGNATURE),
        *text("a ", CALL, block=1),
        ReasoningDelta(2, "so"),
        BlockEnded(2),
        *text("b", block=3),
    )
    assert changed(events) == [
        STARTED,
        ReasoningDelta(0, "hm"),
        BlockEnded(0, SIGNATURE),
        TextDelta(1, "a "),
        BlockEnded(1),
        *call_events(2),
        ReasoningDelta(3, "so"),
        BlockEnded(3),
        TextDelta(4, "b"),
        BlockEnded(4),
        ReplyEnded(StopReason.TOOL_USE, "end_turn"),
    ]


def test_text_interrupted_by_thinking_continues_in_a_separate_block() -> None:
    events: list[ReplyEvent] = [TextDelta(0, "a"), ReasoningDelta(1, "hm"), TextDelta(0, "b")]
    events += [BlockEnded(0, SIGNATURE), BlockEnded(1)]
    assert changed(reply(*events)) == [
        STARTED,
        TextDelta(0, "a"),
        BlockEnded(0),
        ReasoningDelta(1, "hm"),
        TextDelta(2, "b"),
        BlockEnded(1),
        BlockEnded(2, SIGNATURE),
        ReplyEnded(StopReason.END_TURN, "end_turn"),
    ]
    ended_late: list[ReplyEvent] = [TextDelta(0, "a"), ReasoningDelta(1, "hm"), BlockEnded(0), BlockEnded(1)]
    assert changed(reply(*ended_late))[1:5] == [
        TextDelta(0, "a"),
        BlockEnded(0),
        ReasoningDelta(1, "hm"),
        BlockEnded(1),
    ]


def test_signature_of_text_that_was_only_a_call_is_kept() -> None:
    signed: list[ReplyEvent] = [TextDelta(0, CALL), BlockEnded(0, SIGNATURE)]
    assert changed(reply(*signed))[1:-1] == [*call_events(0), TextDelta(1, ""), BlockEnded(1, SIGNATURE)]
    assert changed(reply(TextDelta(0, ""), BlockEnded(0, SIGNATURE)))[1:-1] == [
        TextDelta(0, ""),
        BlockEnded(0, SIGNATURE),
    ]


def test_native_calls_pass_through_with_new_block_numbers() -> None:
    native: list[ReplyEvent] = [ToolCallStarted(1, "id-9", "write"), ToolArgsDelta(1, "{}"), BlockEnded(1)]
    events = changed(reply(*text("a", CALL), *native, stop=StopReason.TOOL_USE))
    assert events == [
        STARTED,
        TextDelta(0, "a"),
        BlockEnded(0),
        *call_events(1),
        ToolCallStarted(2, "id-9", "write"),
        ToolArgsDelta(2, "{}"),
        BlockEnded(2),
        ReplyEnded(StopReason.TOOL_USE, "tool_use"),
    ]


@pytest.mark.parametrize(
    ("stop", "output"),
    [(StopReason.MAX_TOKENS, None), (StopReason.REFUSAL, 7), (StopReason.END_TURN, 100), (StopReason.UNKNOWN, 120)],
)
def test_truncated_call_is_incomplete_with_its_raw_arguments(stop: StopReason, output: int | None) -> None:
    begun = '<tool_call>{"name": "read", "arguments": {"path": "a'
    events = changed(reply(*text("So. ", begun), stop=stop, output=output))
    assert [event for event in events if not isinstance(event, UsageReported)] == [
        STARTED,
        TextDelta(0, "So. "),
        BlockEnded(0),
        *call_events(1, arguments='{"path": "a'),
        ReplyEnded(stop, stop.value),
    ]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('<tool_call>{"name": "read", "arguments": {"path": "a', "never closed"),
        ('<tool_call>{"name": "reed", "arguments": {}}</tool_call>\n', "no tool `reed`"),
        ("<tool_call>read a.py</tool_call>", "no call follows"),
    ],
)
def test_reply_that_ends_in_an_unreadable_call_is_malformed(written: str, reason: str) -> None:
    events = changed(reply(*text("So. ", written)))
    ended = events[-1]
    assert isinstance(ended, ReplyEnded)
    assert (ended.stop, ended.raw_stop) == (StopReason.MALFORMED_CALL, "end_turn")
    assert reason in ended.detail
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == f"So. {written}"


def test_unreadable_call_beside_a_valid_one_is_text_and_the_valid_one_runs() -> None:
    events = changed(reply(*text(CALL, '\n<tool_call>{"name": "reed", "arguments": {}}</tool_call>')))
    assert events[-1] == ReplyEnded(StopReason.TOOL_USE, "end_turn")
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["read"]


def test_reply_that_only_mentions_calls_is_complete() -> None:
    written = "Such a call begins with <tool_call> and names a tool."
    assert changed(reply(*text(written)))[-1] == ReplyEnded(StopReason.END_TURN, "end_turn")


part_lists = st.lists(
    st.sampled_from(["a\n", CALL, "`", "```py\n", "<tool_call>", "{", "</tool_call>", "\n"]), max_size=8
)
stops = st.sampled_from([StopReason.END_TURN, StopReason.MAX_TOKENS])


@given(part_lists, st.lists(st.integers(0, 300), max_size=12), stops)
def test_every_block_starts_and_ends_once_with_ordered_numbers(
    parts: list[str], cuts: list[int], stop: StopReason
) -> None:
    whole = "".join(parts)
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    events = changed(reply(*text(*pieces), stop=stop))
    begun: list[int] = []
    ended: list[int] = []
    for event in events:
        if isinstance(event, TextDelta | ToolCallStarted | ToolArgsDelta):
            assert event.block not in ended
            if event.block not in begun:
                begun.append(event.block)
        elif isinstance(event, BlockEnded):
            ended.append(event.block)
    assert begun == list(range(len(begun)))
    assert sorted(ended) == begun
    assert joined(events) == joined(changed(reply(*text(whole), stop=stop)))


def broken(*events: ReplyEvent) -> list[ReplyEvent]:
    async def stream() -> AsyncIterator[ReplyEvent]:
        yield STARTED
        for event in events:
            yield event
        raise ProviderError(ErrorKind.CONNECTION, "gone")

    seen: list[ReplyEvent] = []

    async def collect() -> None:
        async for event in as_event_stream(stream(), TextCalls(TOOLS), tag="5"):
            seen.append(event)

    with pytest.raises(ProviderError, match="gone"):
        asyncio.run(collect())
    return seen


def test_broken_stream_releases_held_text_before_it_fails() -> None:
    assert broken(TextDelta(0, "a <")) == [STARTED, TextDelta(0, "a "), TextDelta(0, "<")]
    assert broken(TextDelta(0, "a "), BlockEnded(0)) == [STARTED, TextDelta(0, "a ")]


def test_call_in_a_broken_stream_stays_open() -> None:
    events = broken(TextDelta(0, 'a\n<tool_call>{"name": "read", "arguments": {"path"'))
    assert events[-2:] == [ToolCallStarted(1, "call_5t_re1_1", "read"), ToolArgsDelta(1, '{"path"')]


def test_events_can_be_fed_one_by_one() -> None:
    made = CallEvents(TextCalls(TOOLS))
    assert made.feed(TextDelta(3, "a")) == [TextDelta(0, "a")]
    assert made.feed(BlockEnded(3)) == []
    assert made.feed(ReplyEnded(StopReason.END_TURN, "stop")) == [
        BlockEnded(0),
        ReplyEnded(StopReason.END_TURN, "stop"),
    ]
