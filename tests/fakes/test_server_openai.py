"""The fake speaks Chat Completions: OpenAI's own SDK understands it.

The SDK is imported by the tests: each worker would need a second to collect the file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn, refused, truthful

if TYPE_CHECKING:
    import openai

TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}},
]


def _client(server: FakeServer, key: str = "key") -> openai.AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(api_key=key, base_url=server.base_url, max_retries=0)


async def _complete(server: FakeServer, messages: Sequence[Any] = (), cap: int = 8_000) -> Any:
    asked: Any = list(messages) or [{"role": "user", "content": "hi"}]
    async with (
        _client(server) as client,
        client.chat.completions.stream(
            model="fake-1",
            messages=asked,
            tools=TOOLS,
            max_completion_tokens=cap,
            stream_options={"include_usage": True},
        ) as stream,
    ):
        return await stream.get_final_completion()


def test_text_reasoning_stop_reason_and_usage_are_received() -> None:
    turn = Turn(text=["Hel", "lo"], reasoning=["hm"], usage=Usage(input=12, output=7, cache_read=4, reasoning=2))
    with FakeServer("openai", [turn]) as server:
        reply = asyncio.run(_complete(server))
    message = reply.choices[0].message
    assert (message.content, message.reasoning_content) == ("Hello", "hm")
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (12, 7)
    assert reply.usage.prompt_tokens_details.cached_tokens == 4
    assert reply.usage.completion_tokens_details.reasoning_tokens == 2


def test_two_parallel_calls_are_received_completely() -> None:
    turn = Turn(calls=[Call("read", '{"path": "a.py"}'), Call("read", '{"path": "b.py"}', "mine")])
    with FakeServer("openai", [turn]) as server:
        reply = asyncio.run(_complete(server))
    calls = reply.choices[0].message.tool_calls
    assert [(call.id, json.loads(call.function.arguments)) for call in calls] == [
        ("call_1", {"path": "a.py"}),
        ("mine", {"path": "b.py"}),
    ]
    assert reply.choices[0].finish_reason == "tool_calls"


def test_truncated_reply_reports_length() -> None:
    import openai

    turn = Turn(calls=[Call("read", '{"path": "a')], stop=StopReason.MAX_TOKENS)
    with FakeServer("openai", [turn]) as server, pytest.raises(openai.LengthFinishReasonError):
        asyncio.run(_complete(server))


def test_usage_is_sent_only_on_request() -> None:
    async def last_usage() -> Any:
        async with _client(server) as client:
            stream = await client.chat.completions.create(
                model="fake-1", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            return [chunk.usage async for chunk in stream][-1]

    with FakeServer("openai", [Turn(text="hi")]) as server:
        assert asyncio.run(last_usage()) is None


def test_rate_limit_error_has_its_wait_and_code() -> None:
    import openai

    turn = refused(429, "slow down", retry_after=7)
    with FakeServer("openai", [turn]) as server, pytest.raises(openai.RateLimitError) as caught:
        asyncio.run(_complete(server))
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.code == "rate_limit_exceeded"
    assert caught.value.request_id == "req_fake"


def test_closed_socket_is_a_connection_error() -> None:
    import openai

    turn = Turn(text=["one", "two"], faults=Faults(cut_after=2, cut_inside=True))
    with FakeServer("openai", [turn]) as server, pytest.raises(openai.APIConnectionError):
        asyncio.run(_complete(server))


def test_error_inside_the_stream_is_an_api_error() -> None:
    import openai

    turn = Turn(text=["one", "two"], faults=Faults(error_after=2))
    with FakeServer("openai", [turn]) as server, pytest.raises(openai.APIError, match="overloaded"):
        asyncio.run(_complete(server))


def test_both_names_of_the_cap_are_recorded() -> None:
    async def ask() -> None:
        async with _client(server) as client:
            stream = await client.chat.completions.create(
                model="fake-1", messages=[{"role": "user", "content": "hi"}], stream=True, max_tokens=21
            )
            assert [chunk async for chunk in stream]

    with FakeServer("openai", [Turn(text="a"), Turn(text="b")]) as server:
        asyncio.run(ask())
        asyncio.run(_complete(server, cap=43))
        assert server.caps == [21, 43]


def test_models_are_listed_and_a_wrong_key_is_refused() -> None:
    import openai

    async def names(key: str) -> list[str]:
        async with _client(server, key) as client:
            return [model.id async for model in client.models.list()]

    with FakeServer("openai", [], models=("a", "b"), api_key="right") as server:
        assert asyncio.run(names("right")) == ["a", "b"]
        with pytest.raises(openai.AuthenticationError):
            asyncio.run(names("wrong"))


def test_call_without_a_result_is_refused() -> None:
    import openai

    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    dangling = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "user", "content": "well?"},
    ]
    answered = [*dangling[:2], {"role": "tool", "tool_call_id": "c1", "content": "text"}]
    with FakeServer("openai", [Turn(text="good")]) as server:
        with pytest.raises(openai.BadRequestError, match="do not answer"):
            asyncio.run(_complete(server, dangling))
        assert asyncio.run(_complete(server, answered)).choices[0].message.content == "good"
        assert len(server.complaints) == 1
        assert [result.content for result in server.requests[-1].results] == ["text"]


def test_realistic_host_truncates_at_the_cap_and_continues_from_there() -> None:
    import openai

    text = "".join(f"line {number}\n" for number in range(40))
    sent_text = ""
    with FakeServer("openai", truthful(text)) as server:
        for _ in range(9):
            messages = [
                {"role": "user", "content": "tell me"},
                *(
                    [{"role": "assistant", "content": sent_text}, {"role": "user", "content": "go on"}]
                    if sent_text
                    else []
                ),
            ]
            try:
                sent_text += asyncio.run(_complete(server, messages, cap=20)).choices[0].message.content
            except openai.LengthFinishReasonError as cut:
                assert cut.completion.usage is not None
                assert cut.completion.usage.completion_tokens == 20
                sent_text += cut.completion.choices[0].message.content or ""
            else:
                break
    assert sent_text == text


def test_host_with_a_limit_names_it() -> None:
    import openai

    with FakeServer("openai", truthful("x", limit=100)) as server, pytest.raises(openai.BadRequestError, match="100"):
        asyncio.run(_complete(server, cap=101))
