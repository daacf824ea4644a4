"""The fake speaks Gemini: Google's own SDK understands it, in both API versions.

The SDK is imported by the tests: each worker would need a second to collect the file.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn, refused


async def _chunks(server: FakeServer, contents: Any = "hi", *, version: str = "v1beta", cap: int = 8_000) -> list[Any]:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=server.base_url, api_version=version)
    config = types.GenerateContentConfig(
        max_output_tokens=cap, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    async with genai.Client(api_key="key", http_options=options).aio as client:
        stream = await client.models.generate_content_stream(model="fake-1", contents=contents, config=config)
        return [chunk async for chunk in stream]


def _parts(chunks: list[Any]) -> list[Any]:
    return [part for chunk in chunks for candidate in chunk.candidates or () for part in candidate.content.parts]


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_text_thinking_stop_reason_and_usage_are_received(version: str) -> None:
    turn = Turn(text=["Hel", "lo"], reasoning=["hm"], usage=Usage(input=12, output=7, cache_read=4, reasoning=2))
    with FakeServer("gemini", [turn]) as server:
        chunks = asyncio.run(_chunks(server, version=version, cap=99))
        assert server.caps == [99]
        assert server.requests[0].model == "fake-1"
    parts = _parts(chunks)
    assert "".join(part.text for part in parts if part.thought) == "hm"
    assert "".join(part.text for part in parts if not part.thought) == "Hello"
    assert chunks[-1].candidates[0].finish_reason.value == "STOP"
    usage = chunks[-1].usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count) == (12, 5, 2)
    assert usage.cached_content_token_count == 4


def test_parallel_calls_are_received_completely_and_a_truncated_one_is_not() -> None:
    calls = [Call("read", '{"path": "a.py"}'), Call("read", '{"path": "b.py"}', "mine"), Call("write", '{"path": "c')]
    with FakeServer("gemini", [Turn(calls=calls, stop=StopReason.MAX_TOKENS)]) as server:
        chunks = asyncio.run(_chunks(server))
    found = [part.function_call for part in _parts(chunks) if part.function_call]
    assert [(call.id, call.args) for call in found] == [(None, {"path": "a.py"}), ("mine", {"path": "b.py"})]
    assert next(part.thought_signature for part in _parts(chunks) if part.function_call) == b"signature"
    assert chunks[-1].candidates[0].finish_reason.value == "MAX_TOKENS"


def test_late_usage_follows_the_stop_reason() -> None:
    turn = Turn(text="hi", usage=Usage(input=5, output=33), faults=Faults(late_usage=True))
    with FakeServer("gemini", [turn]) as server:
        chunks = asyncio.run(_chunks(server))
    assert chunks[-2].candidates[0].finish_reason.value == "STOP"
    assert chunks[-2].usage_metadata is None
    assert (chunks[-1].candidates, chunks[-1].usage_metadata.candidates_token_count) == (None, 33)


def test_rate_limit_error_has_its_wait() -> None:
    from google.genai import errors

    turn = refused(429, "slow down", retry_after=7)
    with FakeServer("gemini", [turn]) as server, pytest.raises(errors.ClientError) as caught:
        asyncio.run(_chunks(server))
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert caught.value.response.headers["retry-after"] == "7"


def test_closed_socket_is_a_protocol_error() -> None:
    turn = Turn(text=["one", "two"], faults=Faults(cut_after=1, cut_inside=True))
    with FakeServer("gemini", [turn]) as server, pytest.raises(httpx2.RemoteProtocolError):
        asyncio.run(_chunks(server))


def test_overload_inside_the_stream_is_a_server_error() -> None:
    from google.genai import errors

    turn = Turn(text=["one", "two"], faults=Faults(error_after=1, error=refused(503, "busy").refusal or Faults().error))
    with FakeServer("gemini", [turn]) as server, pytest.raises(errors.ServerError, match="busy"):
        asyncio.run(_chunks(server))


def test_models_are_listed() -> None:
    from google import genai
    from google.genai import types

    async def names() -> list[str | None]:
        options = types.HttpOptions(base_url=server.base_url)
        async with genai.Client(api_key="key", http_options=options).aio as client:
            return [model.name async for model in await client.models.list()]

    with FakeServer("gemini", [], models=("a",)) as server:
        assert asyncio.run(names()) == ["models/a"]


def test_unanswered_call_is_refused_and_an_answered_one_is_accepted() -> None:
    from google.genai import errors, types

    asked = types.Content(role="user", parts=[types.Part(text="hi")])
    calling = types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="read", args={}))])
    answer = types.FunctionResponse(name="read", response={"output": "text"})
    answered = types.Content(role="user", parts=[types.Part(function_response=answer)])
    with FakeServer("gemini", [Turn(text="good")]) as server:
        with pytest.raises(errors.ClientError, match="do not answer"):
            asyncio.run(_chunks(server, [asked, calling, asked]))
        assert asyncio.run(_chunks(server, [asked, calling, answered]))
        assert [(result.name, result.content) for result in server.requests[-1].results] == [("read", "text")]
