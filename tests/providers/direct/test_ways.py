"""Direct requests and SDK requests: the same bytes, and the choice between them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.providers.connection import Connection
from qcode.providers.direct import can_connect_directly
from qcode.providers.registry import PROVIDERS, connect
from tests.providers.cases import CASES, MODELS
from tests.providers.clients import (
    JSON_HEADERS,
    KEY,
    PATIENT,
    collect,
    each_protocol_in_text,
    provider_at,
    run_against,
    stream_of,
)
from tests.providers.loopback import Answer, Loopback, Request

TOKEN = "ANTHROPIC_AUTH_TOKEN"
TELEMETRY = ("x-stainless-", "x-goog-api-client")
"""Headers in which the SDKs describe themselves."""


def sent_by(protocol: str, monkeypatch: pytest.MonkeyPatch, *, is_direct: bool, **more: Any) -> list[Request]:
    """Return the requests that a host receives for every case."""

    async def main() -> list[Request]:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            provider = provider_at(protocol, server.url, **more)
            for case in CASES.values():
                async for _ in provider.stream(replace(case, model=MODELS[protocol])):
                    pass
            await provider.close()
            return server.requests

    with monkeypatch.context() as patch:
        if not is_direct:
            patch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
        return asyncio.run(main())


def needed(request: Request) -> dict[str, str]:
    """Return the headers that a host acts upon; from Python 3.14 on the SDKs also take zstd."""
    own = ("host", "user-agent")
    accepted = request.headers["accept-encoding"].removesuffix(", zstd")
    return {
        name: value for name, value in request.headers.items() if name not in own and not name.startswith(TELEMETRY)
    } | {"accept-encoding": accepted}


@each_protocol_in_text
def test_host_receives_the_same_bytes_with_and_without_the_sdk(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more: dict[str, Any] = {"headers": {"X-Team": "blue", "anthropic-beta": "a,b"}}
    direct = sent_by(protocol, monkeypatch, is_direct=True, **more)
    by_sdk = sent_by(protocol, monkeypatch, is_direct=False, **more)
    assert len(direct) == len(by_sdk) == len(CASES)
    for ours, theirs in zip(direct, by_sdk, strict=True):
        assert (ours.method, ours.path, ours.body) == (theirs.method, theirs.path, theirs.body)
        assert needed(ours) == needed(theirs)
        assert ours.headers["user-agent"].startswith("qcode/")


_PAGES: dict[str, tuple[object, object]] = {
    "openai": ({"object": "list", "data": [{"id": "a", "object": "model"}]},) * 2,
    "anthropic": (
        {"data": [{"id": "b", "type": "model"}], "has_more": True, "first_id": "b", "last_id": "b/1"},
        {"data": [{"id": "a", "type": "model"}], "has_more": False, "first_id": "a", "last_id": "a"},
    ),
    "gemini": (
        {
            "models": [
                {"name": "models/b", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
            ],
            "nextPageToken": "x/y=",
        },
        {"models": [{"name": "models/a"}]},
    ),
}
"""Two pages of a list of models; the list of OpenAI has one page."""


@pytest.mark.parametrize("protocol", _PAGES)
def test_host_receives_the_same_requests_for_its_models_with_and_without_the_sdk(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> tuple[tuple[str, ...], list[Request]]:
        answers = [Answer([json.dumps(page).encode()], headers=JSON_HEADERS) for page in _PAGES[protocol]]
        async with Loopback(*answers) as server:
            provider = provider_at(protocol, server.url, headers={"X-Team": "blue"})
            names = await provider.model_names()
            await provider.close()
            return names, server.requests

    names, direct = asyncio.run(main())
    monkeypatch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
    names_of_sdk, by_sdk = asyncio.run(main())
    assert names == names_of_sdk == (("a",) if protocol == "openai" else ("a", "b"))
    assert [(item.method, item.path) for item in direct] == [(item.method, item.path) for item in by_sdk]
    for ours, theirs in zip(direct, by_sdk, strict=True):
        assert needed(ours) == {name: value for name, value in needed(theirs).items() if name != "content-type"}
    assert direct[0].headers["user-agent"].startswith("qcode/")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"<!doctype html><title>Sign in</title>", "did not return a list of models"),
        (b"[1, 2]", "did not return a list of models"),
        (b"{" + b" " * 17 * 1024 * 1024, "sent more than 16 MB"),
    ],
)
def test_answer_that_is_no_list_of_models_is_one_line(body: bytes, part: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        with pytest.raises(ProviderError, match=part) as caught:
            await provider.model_names()
        assert caught.value.kind is ErrorKind.BAD_RESPONSE

    run_against(Answer([body], headers=JSON_HEADERS), "openai", scene)


def test_anthropic_token_is_sent_as_the_sdk_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Request:
        async with Loopback(Answer([stream_of("anthropic")])) as server:
            provider = connect(
                PROVIDERS["anthropic"], base_url=server.url, api_key=KEY, key_source=TOKEN, timeouts=PATIENT
            )
            await collect(provider, "anthropic")
            await provider.close()
            return server.requests[0]

    direct = asyncio.run(main())
    monkeypatch.setattr("qcode.providers.direct.can_connect_directly", lambda *given: False)
    assert needed(direct) == needed(asyncio.run(main()))


@each_protocol_in_text
def test_configured_header_replaces_the_default_in_any_case(protocol: str) -> None:
    async def main() -> Request:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            given = {"AUTHORIZATION": "Basic abc", "User-Agent": "me", "X-Goog-Api-Key": "mine"}
            provider = provider_at(protocol, server.url, headers=given)
            await collect(provider, protocol)
            await provider.close()
            return server.requests[0]

    headers = asyncio.run(main()).headers
    assert (headers["authorization"], headers["user-agent"], headers["x-goog-api-key"]) == ("Basic abc", "me", "mine")


def test_empty_configured_header_removes_the_default_with_and_without_the_sdk(way: str) -> None:
    async def main() -> Request:
        async with Loopback(Answer([stream_of("openai")])) as server:
            provider = provider_at("openai", server.url, headers={"Authorization": "", "X-Team": "blue"})
            await collect(provider, "openai")
            await provider.close()
            return server.requests[0]

    headers = asyncio.run(main()).headers
    assert ("authorization" in headers, headers["x-team"]) == (False, "blue")


@each_protocol_in_text
def test_no_key_header_is_sent_without_a_key(protocol: str) -> None:
    async def main() -> Request:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            provider = connect(PROVIDERS[protocol], base_url=server.url, timeouts=PATIENT)
            await collect(provider, protocol)
            await provider.close()
            return server.requests[0]

    assert not {"authorization", "x-api-key", "x-goog-api-key"} & asyncio.run(main()).headers.keys()


def test_anthropic_version_header_is_that_of_the_sdk() -> None:
    from anthropic._constants import ANTHROPIC_API_VERSION

    from qcode.providers.anthropic.client import API_VERSION

    assert API_VERSION == ANTHROPIC_API_VERSION


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", True),
        ("http://localhost:11434/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://my_box.lan/a~b/v1", True),
        ("https://user:word@host.test/v1", False),
        ("https://host.test/v1?api-version=1", False),
        ("https://host.test/v1#x", False),
        ("https://bücher.test/v1", False),
        ("https://host.test/a%20b", False),
        ("https://host.test/a b", False),
    ],
)
def test_plain_address_has_no_user_query_or_escapes(url: str, expected: bool) -> None:
    assert can_connect_directly(Connection("acme", url), (), {}) is expected


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_proxied_request_uses_the_sdk(variable: str) -> None:
    place = Connection("acme", "https://host.test/v1")
    assert not can_connect_directly(place, (), {variable: "http://proxy.test:3128", "NO_PROXY": "host.test"})
    assert can_connect_directly(place, (), {variable: ""})
    assert can_connect_directly(Connection("acme", "http://127.0.0.1:1/v1"), (), {variable: "http://proxy.test:3128"})


@pytest.mark.parametrize(
    ("protocol", "variable", "header"),
    [
        ("openai", "OPENAI_ORG_ID", "openai-organization"),
        ("openai-responses", "OPENAI_PROJECT_ID", "openai-project"),
        ("openai", "OPENAI_CUSTOM_HEADERS", "x-mine"),
        ("anthropic", "ANTHROPIC_CUSTOM_HEADERS", "x-mine"),
    ],
)
def test_environment_settings_of_an_sdk_still_apply(
    protocol: str, variable: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x-mine: 1")

    async def scene(provider: Provider, server: Loopback) -> None:
        await collect(provider, protocol)
        assert server.requests[0].headers[header] in ("1", "x-mine: 1")

    run_against(Answer([stream_of(protocol)]), protocol, scene)
