"""The shape of an attempt: calls truncated at every position, usage known and unknown."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from qcode.engine.reply.assembler import Assembler, ReplyShape, ends_early
from qcode.protocol.messages import Opaque
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from tests.engine.play import TOOLS

CAP = 8_000
BY_NAME = {tool.name: tool for tool in TOOLS}
FREE = {"free": ToolSpec("free", "Takes anything.", {"type": "object"})}
OBJECTS = [
    '{"path": "a.py", "content": "one\\ntwo \\"three\\" \\u00e9 \\\\ end"}',
    '{"path": "ä漢🙂", "content": "x", "deep": {"list": [1, -2.5e+3, 0.1, true, false, null, {}]}}',
    ' {"path" : "p" ,\n "content" : "" } ',
]


def assembled(events: Sequence[ReplyEvent]) -> Assembler:
    assembler = Assembler({**BY_NAME, **FREE})
    for event in events:
        assembler.add(event)
    return assembler


def call_shape(raw: str, stop: StopReason, output: int | None, name: str = "write") -> ReplyShape:
    events: list[ReplyEvent] = [ToolCallStarted(0, "c", name), ToolArgsDelta(0, raw)]
    if output is not None:
        events.append(UsageReported(Usage(output=output)))
    return assembled([*events, ReplyEnded(stop, "raw")]).shape(CAP)


@pytest.mark.parametrize("whole", OBJECTS)
@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.TOOL_USE, StopReason.UNKNOWN])
def test_call_cut_anywhere_at_the_cap_is_incomplete(whole: str, stop: StopReason) -> None:
    for at in range(len(whole.rstrip())):
        assert call_shape(whole[:at], stop, CAP).calls == ("incomplete",), whole[:at]
    assert call_shape(whole, stop, CAP).calls == ("complete",)


@pytest.mark.parametrize("whole", OBJECTS)
def test_call_that_stops_without_reported_usage_counts_as_truncated(whole: str) -> None:
    for at in range(1, len(whole.rstrip())):
        assert ends_early(whole[:at]), whole[:at]
        shape = call_shape(whole[:at], StopReason.TOOL_USE, None)
        expected = "incomplete" if whole[:at].strip() else "complete"
        assert shape.calls == (expected,), whole[:at]


@pytest.mark.parametrize("whole", OBJECTS)
def test_call_that_ends_early_well_below_the_cap_is_malformed(whole: str) -> None:
    for at in range(2, len(whole.rstrip())):
        if whole[:at].strip():
            assert call_shape(whole[:at], StopReason.TOOL_USE, 20).calls == ("malformed",), whole[:at]


WRONG = [
    '{"a": }',
    '{"a": 1}}',
    '{"a": 1} x',
    "{'a': 1}",
    '{"a": tru3}',
    '{"a": "x\ny"}',
    "[]",
    '{"a": NaN}',
    '{"a": 01',
]


@pytest.mark.parametrize("raw", WRONG)
def test_json_invalid_before_its_end_is_not_a_truncation(raw: str) -> None:
    assert not ends_early(raw)
    assert call_shape(raw, StopReason.TOOL_USE, None).calls == ("malformed",)
    assert call_shape(raw, StopReason.TOOL_USE, 20).calls == ("malformed",)
    assert call_shape(raw, StopReason.MAX_TOKENS, CAP).calls == ("incomplete",)


EMPTY: list[tuple[StopReason, int | None, str, str]] = [
    (StopReason.TOOL_USE, 20, "free", "complete"),
    (StopReason.TOOL_USE, None, "free", "complete"),
    (StopReason.TOOL_USE, CAP, "free", "complete"),
    (StopReason.TOOL_USE, CAP, "write", "incomplete"),
    (StopReason.MAX_TOKENS, CAP, "free", "incomplete"),
    (StopReason.MAX_TOKENS, None, "free", "incomplete"),
    (StopReason.UNKNOWN, None, "free", "incomplete"),
    (StopReason.UNKNOWN, 20, "free", "complete"),
    (StopReason.END_TURN, None, "free", "complete"),
]


@pytest.mark.parametrize(("stop", "output", "name", "state"), EMPTY)
def test_empty_arguments_are_judged_by_the_stop_reason(
    stop: StopReason, output: int | None, name: str, state: str
) -> None:
    assert call_shape("", stop, output, name).calls == (state,)


def test_closed_json_without_required_arguments_counts_as_cut_only_at_the_cap() -> None:
    assert call_shape('{"path": "a"}', StopReason.MAX_TOKENS, CAP).calls == ("incomplete",)
    assert call_shape('{"path": "a"}', StopReason.TOOL_USE, CAP).calls == ("incomplete",)
    assert call_shape('{"path": "a"}', StopReason.TOOL_USE, 20).calls == ("complete",)


def test_only_the_last_call_can_be_cut() -> None:
    events: list[ReplyEvent] = [
        ToolCallStarted(0, "c0", "read"), ToolArgsDelta(0, '{"path": "a'),
        ToolCallStarted(1, "c1", "read"), ToolArgsDelta(1, '{"path": "b"}'),
        ToolCallStarted(2, "c2", "read"), ToolArgsDelta(2, '{"path": "c'),
        ReplyEnded(StopReason.MAX_TOKENS, "length"),
    ]  # fmt: skip
    shape = assembled(events).shape(CAP)
    assert shape.calls == ("malformed", "complete", "incomplete")
    assert shape.has_incomplete_arguments


def test_arguments_of_parallel_calls_may_be_interleaved() -> None:
    events: list[ReplyEvent] = [
        ToolCallStarted(0, "c0", "read"), ToolCallStarted(1, "c1", "read"), ToolArgsDelta(0, '{"path"'),
        ToolArgsDelta(1, '{"path": '), ToolArgsDelta(0, ': "a"}'), ToolArgsDelta(1, '"b"}'),
        ReplyEnded(StopReason.TOOL_USE, "tool_calls"),
    ]  # fmt: skip
    assembler = assembled(events)
    assert assembler.shape(CAP).calls == ("complete", "complete")
    assert [json.loads(draft.text)["path"] for draft in assembler.drafts] == ["a", "b"]


def test_later_usage_replaces_earlier_usage_field_by_field() -> None:
    reports = [Usage(input=10, output=1, cache_read=4), Usage(output=50), Usage(output=80, reasoning=5)]
    assembler = assembled([*(UsageReported(report) for report in reports), ReplyEnded(StopReason.END_TURN, "")])
    assert assembler.usage == Usage(input=10, output=80, cache_read=4, reasoning=5)


HITS: list[tuple[StopReason, int | None, bool]] = [
    (StopReason.MAX_TOKENS, None, True), (StopReason.MAX_TOKENS, 10, True), (StopReason.END_TURN, None, False),
    (StopReason.END_TURN, 7_960, True), (StopReason.END_TURN, 8_040, True), (StopReason.END_TURN, 7_959, False),
    (StopReason.END_TURN, 8_041, False), (StopReason.TOOL_USE, 8_000, True), (StopReason.UNKNOWN, 8_000, True),
]  # fmt: skip


@pytest.mark.parametrize(("stop", "output", "is_hit"), HITS)
def test_cap_is_hit_by_stop_reason_or_token_count(stop: StopReason, output: int | None, is_hit: bool) -> None:
    usage = [UsageReported(Usage(output=output))] if output is not None else []
    shape = assembled([TextDelta(0, "x"), *usage, ReplyEnded(stop, "")]).shape(CAP)
    assert shape.has_hit_cap is is_hit


@pytest.mark.parametrize(
    ("events", "has_text", "has_reasoning", "last"),
    [
        ([TextDelta(0, "x")], True, False, "text"),
        ([TextDelta(0, " \n")], False, False, None),
        ([ReasoningDelta(0, "hm")], False, True, "reasoning"),
        ([ReasoningDelta(0, "hm"), TextDelta(1, "x")], True, True, "text"),
        ([TextDelta(0, "x"), ReasoningDelta(1, "hm")], True, True, "text"),
        ([TextDelta(0, "x"), ToolCallStarted(1, "c", "free"), ReasoningDelta(2, "hm")], True, True, "call"),
        ([], False, False, None),
    ],
)
def test_reply_has_its_blocks_and_stop_reason(
    events: list[ReplyEvent], has_text: bool, has_reasoning: bool, last: str | None
) -> None:
    shape = assembled([*events, ReplyEnded(StopReason.MAX_TOKENS, "")]).shape(CAP)
    assert (shape.has_text, shape.has_reasoning, shape.last) == (has_text, has_reasoning, last)


def test_signature_belongs_to_its_block_even_without_text() -> None:
    signature = Opaque("anthropic", "{}")
    assembler = assembled([ReasoningDelta(0, "hm"), BlockEnded(0, signature), BlockEnded(1, signature)])
    assert [(draft.kind, draft.text, draft.opaque) for draft in assembler.drafts] == [
        ("reasoning", "hm", signature),
        ("reasoning", "", signature),
    ]
