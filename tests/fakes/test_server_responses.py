"""The fake speaks the Responses API: OpenAI's own SDK understands it, and so does our client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    BlockEnded,
    EventDamaged,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    StopReason,
    TextDelta,
    ToolArgsDelta,
)
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.registry import PROVIDERS, connect
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, ReceivedRequest, Turn, refused, truthful

READ = ToolSpec("read", "Read.", {"type": "object", "properties": {}})
REQUEST = ModelRequest(model="fake-1", system="", messages=(user("hi"),), tools=(READ,), max_tokens=8_000)


async def _events(server: FakeServer, request: ModelRequest = REQUEST, key: str = "key") -> list[ReplyEvent]:
    provider = connect(PROVIDERS["openai-responses"], base_url=server.base_url, api_key=key)
    try:
        return [event async for event in provider.stream(request)]
    finally:
        await provider.close()


def _ask(server: FakeServer, request: ModelRequest = REQUEST) -> list[ReplyEvent]:
    return asyncio.run(_events(server, request))


def _text(events: Sequence[ReplyEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_sdk_reads_text_reasoning_calls_and_usage() -> None:
    import openai

    async def response() -> Any:
        async with openai.AsyncOpenAI(api_key="key", base_url=server.base_url, max_retries=0) as client:
            stream = await client.responses.create(model="fake-1", input="hi", store=False, stream=True)
            return [event async for event in stream]

    turn = Turn(
        text=["Hel", "lo"],
        reasoning=["hm"],
        calls=[Call("read", '{"path": "a.py"}', "mine")],
        usage=Usage(input=12, output=7, cache_read=4, reasoning=2),
    )
    with FakeServer("openai-responses", [turn]) as server:
        events = asyncio.run(response())
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == ["reasoning", "message", "function_call"]
    assert (done[1].content[0].text, done[2].arguments) == ("Hello", '{"path": "a.py"}')
    usage = events[-1].response.usage
    assert (usage.input_tokens, usage.output_tokens) == (12, 7)
    assert usage.input_tokens_details.cached_tokens == 4
    assert usage.output_tokens_details.reasoning_tokens == 2


def test_qcode_client_reads_the_same() -> None:
    turn = Turn(text=["Hel", "lo"], reasoning=["hm"], calls=[Call("read", '{"path": "a.py"}', "mine")])
    with FakeServer("openai-responses", [turn]) as server:
        events = _ask(server)
    assert _text(events) == "Hello"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "hm"
    assert "".join(event.text for event in events if isinstance(event, ToolArgsDelta)) == '{"path": "a.py"}'
    assert events[-1] == ReplyEnded(StopReason.TOOL_USE, "completed")


def test_reasoning_of_a_finished_item_is_returned_and_accepted() -> None:
    turn = Turn(reasoning=["hm"], calls=[Call("read", "{}", "mine")], signature="c2VjcmV0")
    with FakeServer("openai-responses", [turn, Turn(text="good")]) as server:
        events = _ask(server)
        signed = next(event.opaque for event in events if isinstance(event, BlockEnded) and event.opaque)
        reply = Message("assistant", (Reasoning("hm", signed), ToolCall("mine", "read", "{}")))
        results = Message("user", (ToolResult("mine", "read", "text"),))
        assert _text(_ask(server, replace(REQUEST, messages=(user("hi"), reply, results)))) == "good"
        sent = server.requests[-1]
    assert server.complaints == []
    assert sent.body["input"][1]["encrypted_content"] == "c2VjcmV0"
    assert [result.content for result in sent.results] == ["text"]


@pytest.mark.parametrize(
    ("stop", "expected", "raw"),
    [
        (StopReason.MAX_TOKENS, StopReason.MAX_TOKENS, "max_output_tokens"),
        (StopReason.REFUSAL, StopReason.REFUSAL, "content_filter"),
        (StopReason.UNKNOWN, StopReason.UNKNOWN, "something_new"),
        (None, StopReason.UNKNOWN, "incomplete"),
    ],
)
def test_incomplete_reply_has_its_reason(stop: StopReason | None, expected: StopReason, raw: str) -> None:
    with FakeServer("openai-responses", [Turn(text="a", stop=stop)]) as server:
        assert _ask(server)[-1] == ReplyEnded(expected, raw)


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (Turn(text="a", stop=StopReason.CONTEXT_WINDOW_EXCEEDED), ErrorKind.CONTEXT_OVERFLOW),
        (Turn(text=["one", "two"], faults=Faults(cut_after=3, cut_inside=True)), ErrorKind.CONNECTION),
        (Turn(text=["one", "two"], faults=Faults(without_end=True)), ErrorKind.CONNECTION),
        (Turn(text=["one", "two"], faults=Faults(error_after=3)), ErrorKind.OVERLOADED),
        (refused(401), ErrorKind.AUTH),
        (refused(404, "The model `x` does not exist", code="model_not_found"), ErrorKind.UNKNOWN_MODEL),
        (refused(429, retry_after=7), ErrorKind.RATE_LIMIT),
        (refused(500, body="<html><title>It broke</title></html>"), ErrorKind.SERVER),
    ],
)
def test_every_fault_is_an_error_of_its_kind(turn: Turn, kind: ErrorKind) -> None:
    with FakeServer("openai-responses", [turn]) as server, pytest.raises(ProviderError) as caught:
        _ask(server)
    assert caught.value.kind is kind
    assert caught.value.retry_after == (7 if kind is ErrorKind.RATE_LIMIT else None)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(split_every=1),
        Faults(crlf=True),
        Faults(comments=True),
        Faults(many_data_lines=True),
        Faults(without_last_blank=True),
    ],
)
def test_every_framing_gives_the_same_reply(faults: Faults) -> None:
    turns = [Turn(text=["Grüße ", "an alle"]), Turn(text=["Grüße ", "an alle"], faults=faults)]
    with FakeServer("openai-responses", turns) as server:
        plain, framed = _ask(server), _ask(server)
    assert framed == plain
    assert _text(plain) == "Grüße an alle"


def test_inserted_bytes_that_are_not_an_event_are_reported() -> None:
    turn = Turn(text=["Grüße ", "an alle"])
    with FakeServer(
        "openai-responses", [turn, replace(turn, faults=Faults(inserted={2: b"data: {broken\n\n"}))]
    ) as server:
        plain, damaged = _ask(server), _ask(server)
    assert damaged == [plain[0], EventDamaged(), *plain[1:]]


def test_cancel_disconnects_from_the_host_at_once() -> None:
    async def leave() -> None:
        task = asyncio.create_task(_events(server))
        await asyncio.to_thread(server.wait_until, lambda each: each.stalls == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with FakeServer("openai-responses", [Turn(text="one", faults=Faults(stall_after=2))]) as server:
        asyncio.run(leave())
        server.wait_until(lambda each: each.hangups == 1, timeout_s=0.2)


def test_stateless_host_refuses_stored_items() -> None:
    def refused_for(**changes: Any) -> str:
        body = {"model": "m", "input": [], "stream": True, "store": False, "max_output_tokens": 16, **changes}
        with FakeServer("openai-responses", []) as server:
            return server.wire.complaint(server.wire.read(ReceivedRequest("/v1/responses", {}, {}, body))) or ""

    lonely = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    hello = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert "store" in refused_for(store=True)
    assert "at least 16" in refused_for(max_output_tokens=15)
    assert "must follow" in refused_for(input=[hello, lonely, hello])
    assert "not found" in refused_for(input=[hello, {**lonely, "encrypted_content": "unfinished"}, hello])
    assert "no results" in refused_for(input=[hello, {"type": "function_call", "call_id": "c", "arguments": "{}"}])
    assert refused_for(input=[hello]) == ""


def test_realistic_host_truncates_at_the_cap_and_continues_from_there() -> None:
    text = "".join(f"line {number}\n" for number in range(40))
    sent_text = ""
    with FakeServer("openai-responses", truthful(text)) as server:
        for _ in range(9):
            history = (
                (user("tell me"), Message("assistant", (Text(sent_text),)), user("continue"))
                if sent_text
                else (user("x"),)
            )
            events = _ask(server, replace(REQUEST, messages=history, max_tokens=20))
            sent_text += _text(events)
            if events[-1] == ReplyEnded(StopReason.END_TURN, "completed"):
                break
    assert sent_text == text
    assert set(server.caps) == {20}


def test_models_are_listed_and_a_wrong_key_is_refused() -> None:
    async def names() -> tuple[str, ...]:
        provider = connect(PROVIDERS["openai-responses"], base_url=server.base_url, api_key="right")
        try:
            return await provider.model_names()
        finally:
            await provider.close()

    with FakeServer("openai-responses", [], models=("b", "a"), api_key="right") as server:
        assert asyncio.run(names()) == ("a", "b")
        with pytest.raises(ProviderError) as caught:
            asyncio.run(_events(server, key="wrong"))
    assert caught.value.kind is ErrorKind.AUTH
