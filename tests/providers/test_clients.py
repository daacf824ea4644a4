"""The clients on their real SDKs against a scripted server: their requests, and the events of a healthy stream."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from urllib.parse import quote

import pytest

from qcode.protocol.provider import Provider
from qcode.providers.registry import PROVIDERS, connect
from tests.providers.cases import CASES, MODELS
from tests.providers.clients import (
    JSON_HEADERS,
    KEY,
    KEY_HEADER,
    PATIENT,
    collect,
    each_protocol,
    each_protocol_in_text,
    provider_at,
    request_for,
    run_against,
    stream_of,
)
from tests.providers.events import encode, plain, recording
from tests.providers.loopback import Answer, Loopback

pytestmark = pytest.mark.usefixtures("way")


@each_protocol
@pytest.mark.parametrize("is_chunked", [True, False])
def test_stream_becomes_its_events(protocol: str, is_chunked: bool) -> None:
    sent = stream_of(protocol)
    pieces = [sent[i : i + 7] for i in range(0, len(sent), 7)]

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert [plain(event) for event in events] == recording(protocol, "text").events

    run_against(Answer(pieces, is_chunked=is_chunked), protocol, scene)


@each_protocol
def test_compressed_stream_is_read(protocol: str) -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert [plain(event) for event in events] == recording(protocol, "text").events

    run_against(Answer([gzip.compress(stream_of(protocol))], headers=headers), protocol, scene)


@each_protocol
def test_sdk_sends_the_body_of_the_codec_with_the_key(protocol: str) -> None:
    paths = {
        "openai": "/v1/chat/completions",
        "openai-responses": "/v1/responses",
        "anthropic": "/v1/messages",
        "bedrock": f"/model/{quote(MODELS['bedrock'])}/converse-stream",
        "gemini": f"/v1beta/models/{MODELS['gemini']}:streamGenerateContent?alt=sse",
    }

    async def scene(provider: Provider, server: Loopback) -> None:
        async for _ in provider.stream(request_for(protocol, "calls_and_results")):
            pass
        sent = server.requests[0]
        assert (sent.method, sent.path) == ("POST", paths[protocol])
        assert json.loads(sent.body) == encode(protocol, request_for(protocol, "calls_and_results"))
        assert KEY in sent.headers[KEY_HEADER[protocol]]

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol
def test_configured_headers_are_sent(protocol: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            provider = provider_at(protocol, server.url, headers={"x-team": "blue"})
            await collect(provider, protocol)
            await provider.close()
            assert server.requests[0].headers["x-team"] == "blue"

    asyncio.run(main())


@each_protocol
def test_connection_of_a_finished_stream_is_reused(protocol: str) -> None:
    async def scene(provider: Provider, server: Loopback) -> None:
        for _ in range(3):
            await collect(provider, protocol)
        assert (len(server.requests), server.connections) == (3, 1)

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol_in_text
@pytest.mark.parametrize("suffix", ["/v1", "/v1beta", "/v1/", ""])
def test_base_url_works_with_and_without_a_version(protocol: str, suffix: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            url = server.url + ("/v1" if protocol.startswith("openai") and not suffix.startswith("/v1") else suffix)
            provider = connect(PROVIDERS[protocol], base_url=url, api_key=KEY, timeouts=PATIENT)
            await collect(provider, protocol)
            await provider.close()
            path = server.requests[0].path
            assert path.count("/v1") == 1

    asyncio.run(main())


@pytest.mark.parametrize("protocol", ["openai", "openai-responses"])
def test_server_that_does_not_stream_still_gives_a_reply(protocol: str) -> None:
    body = json.dumps(recording(protocol, "not_streamed").chunks[0]).encode()

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert [plain(event) for event in events] == recording(protocol, "not_streamed").events

    run_against(Answer([body], headers=JSON_HEADERS), protocol, scene)


_OPENAI_MODELS = {"object": "list", "data": [{"id": "b", "object": "model"}, {"id": "a", "object": "model"}]}
_MODEL_LISTS = {
    "openai": _OPENAI_MODELS,
    "openai-responses": _OPENAI_MODELS,
    "anthropic": {
        "data": [
            {"id": name, "type": "model", "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in "ba"
        ],
        "has_more": False,
    },
    "gemini": {
        "models": [
            {"name": "models/b", "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/a", "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        ]
    },
}


@each_protocol_in_text
def test_models_of_a_host_are_listed_by_name(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        assert await provider.model_names() == ("a", "b")

    run_against(Answer([json.dumps(_MODEL_LISTS[protocol]).encode()], headers=JSON_HEADERS), protocol, scene)


@each_protocol
def test_close_is_safe_before_the_first_request_and_twice(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        await provider.close()
        await collect(provider, protocol)
        await provider.close()
        await provider.close()

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol
def test_sdks_write_nothing_to_the_terminal(
    protocol: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown reasons, two keys in the environment and a deprecated model make SDKs speak up."""
    monkeypatch.setenv("GOOGLE_API_KEY", "a")
    monkeypatch.setenv("GEMINI_API_KEY", "b")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "b")
    names = {"anthropic": "strangers", "openai-responses": "nulls_and_strangers"}
    name, model = names.get(protocol, "unknown_reason"), {"anthropic": "claude-3-opus-20240229"}.get(protocol, "m")

    async def scene(provider: Provider, _server: Loopback) -> None:
        async for _ in provider.stream(replace(CASES["effort_max"], model=model)):
            pass

    run_against(Answer([stream_of(protocol, name)]), protocol, scene)
    assert capfd.readouterr() == ("", "")


def test_auth_token_and_key_are_distinguished_by_their_variable() -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("anthropic")])) as server:
            provider = connect(
                PROVIDERS["anthropic"], base_url=server.url, api_key=KEY, key_source="ANTHROPIC_AUTH_TOKEN"
            )
            await collect(provider, "anthropic")
            await provider.close()
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    asyncio.run(main())
