"""The fake speaks Anthropic Messages: Anthropic's own SDK understands it.

The SDK is imported by the tests: each worker would need a second to collect the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn, refused

if TYPE_CHECKING:
    import anthropic

TOOLS: list[Any] = [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]


def _client(server: FakeServer, key: str = "key") -> anthropic.AsyncAnthropic:
    import anthropic

    return anthropic.AsyncAnthropic(api_key=key, base_url=server.base_url, max_retries=0)


async def _message(server: FakeServer, messages: Sequence[Any] = (), cap: int = 8_000) -> Any:
    asked: Any = list(messages) or [{"role": "user", "content": "hi"}]
    async with (
        _client(server) as client,
        client.messages.stream(model="fake-1", max_tokens=cap, messages=asked, tools=TOOLS) as stream,
    ):
        return await stream.get_final_message()


def test_text_thinking_stop_reason_and_usage_are_received() -> None:
    turn = Turn(text=["Hel", "lo"], reasoning=["h", "m"], usage=Usage(20, 7, cache_read=4, cache_write=3, reasoning=2))
    with FakeServer("anthropic", [turn]) as server:
        reply = asyncio.run(_message(server))
    thinking, text = reply.content
    assert (thinking.thinking, thinking.signature, text.text) == ("hm", turn.signature, "Hello")
    assert reply.stop_reason == "end_turn"
    usage = reply.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (13, 4, 3)
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (7, 2)


def test_two_parallel_calls_are_received_completely() -> None:
    turn = Turn(text="both", calls=[Call("read", '{"path": "a.py"}'), Call("read", "{}", "mine")])
    with FakeServer("anthropic", [turn]) as server:
        reply = asyncio.run(_message(server))
    assert [(block.id, block.input) for block in reply.content[1:]] == [
        ("toolu_1", {"path": "a.py"}),
        ("mine", {}),
    ]
    assert reply.stop_reason == "tool_use"


def test_truncated_reply_reports_max_tokens() -> None:
    turn = Turn(text="Hel", stop=StopReason.MAX_TOKENS, usage=Usage(input=5, output=20))
    with FakeServer("anthropic", [turn]) as server:
        reply = asyncio.run(_message(server, cap=20))
        assert server.caps == [20]
    assert (reply.stop_reason, reply.usage.output_tokens) == ("max_tokens", 20)


def test_late_usage_follows_the_stop_reason() -> None:
    turn = Turn(text="hi", usage=Usage(input=5, output=33), faults=Faults(late_usage=True))
    with FakeServer("anthropic", [turn]) as server:
        assert asyncio.run(_message(server)).usage.output_tokens == 33


def test_rate_limit_error_has_its_wait() -> None:
    import anthropic

    with (
        FakeServer("anthropic", [refused(429, "slow down", retry_after=7)]) as server,
        pytest.raises(anthropic.RateLimitError) as caught,
    ):
        asyncio.run(_message(server))
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.request_id == "req_fake"
    assert "rate_limit_error" in str(caught.value)


def test_closed_socket_is_a_protocol_error() -> None:
    turn = Turn(text=["one", "two"], faults=Faults(cut_after=4))
    with FakeServer("anthropic", [turn]) as server, pytest.raises(httpx2.RemoteProtocolError):
        asyncio.run(_message(server))


def test_overload_inside_the_stream_is_a_status_error() -> None:
    import anthropic

    turn = Turn(text=["one", "two"], faults=Faults(error_after=4))
    with FakeServer("anthropic", [turn]) as server, pytest.raises(anthropic.APIStatusError, match="overloaded_error"):
        asyncio.run(_message(server))


def test_models_are_listed_with_their_limits() -> None:
    async def limits() -> list[tuple[str, int | None]]:
        async with _client(server) as client:
            return [(model.id, model.max_tokens) async for model in client.models.list()]

    with FakeServer("anthropic", [], models=("a",)) as server:
        assert asyncio.run(limits()) == [("a", 64_000)]


def test_requests_that_the_protocol_forbids_are_refused() -> None:
    import anthropic

    use = {"type": "tool_use", "id": "t1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "text"}
    hello, calling = {"role": "user", "content": "hi"}, {"role": "assistant", "content": [use]}
    forbidden: dict[str, list[Any]] = {
        "have no results": [hello, calling],
        "do not answer": [hello, calling, hello],
        "before the results": [hello, calling, {"role": "user", "content": [{"type": "text", "text": "x"}, result]}],
        "not the user's": [{"role": "assistant", "content": "hi"}, hello],
        "non-whitespace": [{"role": "user", "content": " "}],
        "trailing whitespace": [hello, {"role": "assistant", "content": "so far "}],
    }
    with FakeServer("anthropic", [Turn(text="good")]) as server:
        for words, messages in forbidden.items():
            with pytest.raises(anthropic.BadRequestError, match=words):
                asyncio.run(_message(server, messages))
        reply = asyncio.run(_message(server, [hello, calling, {"role": "user", "content": [result]}]))
        assert reply.content[0].text == "good"
        assert len(server.complaints) == len(forbidden)


def test_host_without_prefill_refuses_one() -> None:
    import anthropic

    prefill = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}]
    with (
        FakeServer(AnthropicWire(prefill=False), [Turn(text="good")]) as server,
        pytest.raises(anthropic.BadRequestError, match="prefilling"),
    ):
        asyncio.run(_message(server, prefill))
