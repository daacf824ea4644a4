"""Chat chunks as compatible servers really send them: null, misplaced, repeated and unknown fields do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from qcode.protocol.reply import ReplyEnded, ReplyEvent, StopReason, TextDelta, ToolArgsDelta, UsageReported
from qcode.providers.openai.chat import ChatDecoder
from qcode.providers.streaming import feed_json
from qcode.text.json import JsonObject


def chunk(delta: JsonObject | None = None, finish: str | None = None, **more: Any) -> JsonObject:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


HELLO, END = chunk({"role": "assistant", "content": "Hello"}), chunk({}, "stop")
USAGE: JsonObject = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
CALL = chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}]})
MORE = chunk({"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": '{"x": 1}'}}]})


def decoded(*chunks: JsonObject) -> list[ReplyEvent]:
    decoder = ChatDecoder(tag="7")
    events = [event for sent in chunks for event in feed_json(sent, decoder)]
    return [*events, *decoder.finish()]


@pytest.mark.parametrize(
    "chunks",
    [
        [HELLO, END, {"choices": [], "usage": None}],
        [HELLO, END, {"choices": None, "usage": None}],
        [chunk({"role": "assistant"}), chunk({"role": "assistant", "content": None}), HELLO, END],
        [HELLO, {"choices": [{"index": 1, "delta": {"content": "Other"}, "finish_reason": "length"}]}, END],
        [HELLO, chunk(None), chunk({"content": ""}), END],
        [HELLO, END, END, USAGE],
        [HELLO, END, {"error": {"message": "late"}}],
        [HELLO, END, {"object": "error", "message": "late"}],
        [chunk({"content": "Hel"}), chunk({"content": "lo"}, "stop"), USAGE],
        [chunk({"content": "Hel"}, "stop"), chunk({"content": "lo"})],
        [chunk({"content": "Hel"}, ""), chunk({"content": "lo"}, "null"), END],
    ],
)
def test_unusual_chunks_give_the_same_reply(chunks: list[JsonObject]) -> None:
    events = decoded(*chunks)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"
    assert isinstance(events[-1], ReplyEnded)
    assert events[-1].stop is StopReason.END_TURN


@pytest.mark.parametrize("word", ["load_shed", "abort", "STOP_LIMIT", "7"])
def test_unknown_stop_reason_is_reported_with_its_raw_value(word: str) -> None:
    end = decoded(HELLO, chunk({}, word))[-1]
    assert isinstance(end, ReplyEnded)
    assert (end.stop, end.raw_stop) == (StopReason.UNKNOWN, word)


def test_null_arguments_are_ignored() -> None:
    events = decoded(CALL, MORE, chunk({}, "tool_calls"))
    assert "".join(event.text for event in events if isinstance(event, ToolArgsDelta)) == '{"x": 1}'


def test_usage_is_read_from_any_chunk_and_the_last_one_counts() -> None:
    early = chunk({}, usage={"prompt_tokens": 3, "completion_tokens": 1})
    events = decoded(HELLO, early, END, USAGE)
    reports = [event.usage.output for event in events if isinstance(event, UsageReported)]
    assert reports == [1, 2]
