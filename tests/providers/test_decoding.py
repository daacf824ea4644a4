"""Recorded streams of the protocols become the events written beside them, however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.reply import BlockEnded, ReplyEnded, ReplyEvent, TextDelta
from qcode.providers.anthropic.codec import AnthropicDecoder
from qcode.providers.openai.chat import ChatDecoder
from qcode.providers.openai.quirks import ChatQuirks
from qcode.providers.sse import SseEvent
from qcode.providers.streaming import decode_event
from qcode.text.json import JsonObject
from tests.providers.events import (
    PROTOCOLS,
    SSE_PROTOCOLS,
    Recording,
    as_bytes,
    decoder,
    plain,
    recording,
    recordings,
    replay,
    replay_bytes,
)
from tests.providers.frames import frame

ALL = recordings()


@pytest.mark.parametrize("found", ALL, ids=str)
def test_recorded_stream_becomes_its_events(found: Recording) -> None:
    assert replay(found) == (found.events, found.error)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    found=st.sampled_from(ALL),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    comment=st.sampled_from(["", ": ping\n\n", ":\r\n\r\n"]),
    cuts=st.lists(st.integers(0, 4000), max_size=20),
)
def test_stream_split_at_any_bytes_gives_the_same_events(
    found: Recording, newline: str, comment: str, cuts: list[int]
) -> None:
    sent = as_bytes(found, newline=newline)
    if found.protocol in SSE_PROTOCOLS:
        sent = comment.encode() + sent
    edges = [0, *sorted(min(cut, len(sent)) for cut in cuts), len(sent)]
    pieces = [sent[start:end] for start, end in pairwise(edges)]
    assert replay_bytes(found.protocol, pieces) == (found.events, found.error)


@pytest.mark.parametrize("found", [found for found in ALL if found.error is None], ids=str)
def test_complete_reply_ends_every_block_once_and_then_itself(found: Recording) -> None:
    begun: list[object] = []
    ended: list[object] = []
    for event in found.events:
        assert isinstance(event, list)
        if event[0] == "BlockEnded":
            assert event[1] in begun
            assert event[1] not in ended
            ended.append(event[1])
        elif event[0] in ("TextDelta", "ReasoningDelta", "ToolCallStarted", "ToolArgsDelta"):
            assert event[1] not in ended
            if event[1] not in begun:
                begun.append(event[1])
    assert begun == list(range(len(begun)))
    assert sorted(begun, key=str) == sorted(ended, key=str)
    assert [event[0] for event in found.events if isinstance(event, list)].count("ReplyEnded") == 1
    last = found.events[-1]
    assert isinstance(last, list)
    assert last[0] == "ReplyEnded"


@pytest.mark.parametrize("found", [found for found in ALL if found.error is None], ids=str)
def test_stream_truncated_before_its_stop_reason_is_a_broken_connection(found: Recording) -> None:
    """Take objects off the end until the decoder no longer calls the reply complete."""
    chunks = list(found.chunks)
    while chunks:
        chunks.pop()
        target = decoder(found.protocol)
        for chunk in chunks:
            target.feed(chunk)
        if not target.is_complete:
            with pytest.raises(ProviderError) as caught:
                target.finish()
            assert caught.value.kind is ErrorKind.CONNECTION
            return
    pytest.fail("a reply without a single object counts as complete")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_event_that_is_not_json_is_reported_and_skipped(protocol: str) -> None:
    found = recording(protocol, "text")
    broken = b'data: {"choices": [{"del\n\n' + b"data: [1, 2]\n\n" + b"data: 7\n\n"
    if protocol == "bedrock":
        broken = frame("messageStart", b'{"ro') + frame("contentBlockDelta", b"7") + frame("messageStart", b"\xff")
    events, error = replay_bytes(protocol, [broken, as_bytes(found)])
    assert error is None
    assert ["EventDamaged"] in events
    assert [event for event in events if event != ["EventDamaged"]] == found.events


@pytest.mark.parametrize("protocol", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_last_event_of_a_protocol_ends_the_reply_without_a_wait(protocol: str) -> None:
    found, target = recording(protocol, "text"), decoder(protocol)
    for chunk in found.chunks:
        assert not target.is_ended
        target.feed(chunk)
    if found.has_end_mark:
        assert not target.is_ended
        target.end()
    assert target.is_ended


def test_events_after_the_end_marker_are_ignored() -> None:
    found = recording("openai", "text")
    late = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"late"}}]}\n\n'
    assert replay_bytes("openai", [as_bytes(found), late]) == (found.events, None)


@pytest.mark.parametrize("protocol", SSE_PROTOCOLS)
@pytest.mark.parametrize("text", ['{"error":{"message":"gone"}}', '{"message":"gone"}', "gone"])
def test_event_named_error_is_an_error_with_any_data(protocol: str, text: str) -> None:
    with pytest.raises(ProviderError, match="gone") as caught:
        decode_event(SseEvent("error", text), decoder(protocol))
    assert caught.value.kind is ErrorKind.SERVER


def test_list_of_chunks_is_read_like_the_chunks() -> None:
    found = recording("gemini", "text")
    target = decoder("gemini")
    text = "[" + ",".join(as_bytes(found).decode().removeprefix("data: ").strip().split("\n\ndata: ")) + "]"
    events = decode_event(SseEvent("", text), target)
    assert [plain(event) for event in [*events, *target.finish()]] == found.events


def test_configured_field_is_read_as_reasoning() -> None:
    target = ChatDecoder(ChatQuirks(reasoning_field="thoughts"))
    events = target.feed({"choices": [{"delta": {"thoughts": "Hm", "content": "Yes"}}]})
    assert [plain(event) for event in events[1:]] == [
        ["ReasoningDelta", 0, "Hm"],
        ["BlockEnded", 0],
        ["TextDelta", 1, "Yes"],
    ]


def _text_of(events: list[ReplyEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["\n\nNext"], "Next"),
        (["\n", "\nNext"], "Next"),
        (["\nNext\n\n"], "Next\n\n"),
        (["Next"], "Next"),
        (["\n\n\nNext"], "\nNext"),
    ],
)
def test_white_space_trimmed_from_a_prefill_is_not_repeated(pieces: list[str], expected: str) -> None:
    target = AnthropicDecoder(prefilled_space="\n\n")
    target.feed({"type": "message_start", "message": {"id": "m"}})
    target.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    events = [
        event
        for piece in pieces
        for event in target.feed(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        )
    ]
    assert _text_of(events) == expected


def test_call_with_an_open_block_has_its_complete_input() -> None:
    target = AnthropicDecoder()
    target.feed({"type": "message_start", "message": {"id": "m"}})
    block: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    target.feed({"type": "content_block_start", "index": 0, "content_block": block})
    target.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    events = target.finish()
    assert plain(events[0]) == ["ToolArgsDelta", 0, '{"a": 1}']
    assert isinstance(events[1], BlockEnded)
    assert isinstance(events[2], ReplyEnded)


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("", "")])
def test_generated_ids_differ_between_replies_of_a_conversation(first: str, second: str) -> None:
    ids: list[str] = []
    for tag, response_id in (("2", first), ("4", second)):
        target = ChatDecoder(tag=tag)
        events = target.feed(
            {
                "id": response_id,
                "choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}}],
            }
        )
        started = plain(events[1])
        assert isinstance(started, list)
        ids.append(str(started[2]))
    assert ids[0] != ids[1]
