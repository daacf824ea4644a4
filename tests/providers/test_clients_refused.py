"""The clients when a server answers with an error, with or without an error status."""

from __future__ import annotations

import asyncio
import json

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import TextDelta
from qcode.providers.registry import PROVIDERS
from tests.providers.clients import (
    JSON_HEADERS,
    KEY,
    collect,
    each_protocol,
    failure_of,
    provider_at,
    run_against,
    stream_of,
)
from tests.providers.loopback import Answer, Loopback

pytestmark = pytest.mark.usefixtures("way")


@pytest.mark.sampled(3)
@each_protocol
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error":{"message":"bad key","type":"authentication_error"}}', ErrorKind.AUTH),
        (404, b'{"error":{"message":"model: x not found","type":"not_found_error"}}', ErrorKind.UNKNOWN_MODEL),
        (400, b'{"error":{"message":"max_tokens > 8192","type":"invalid_request_error"}}', ErrorKind.BAD_REQUEST),
        (500, b"<html><title>It broke</title></html>", ErrorKind.SERVER),
        (500, "<html><title>Störung</title></html>".encode("latin-1"), ErrorKind.SERVER),
        (502, b"", ErrorKind.SERVER),
        (529, b'{"error":{"message":"Overloaded","type":"overloaded_error"}}', ErrorKind.OVERLOADED),
    ],
)
def test_error_response_is_classified_by_its_status(protocol: str, status: int, body: bytes, kind: ErrorKind) -> None:
    error, events = failure_of(Answer([body], status=status, headers=JSON_HEADERS), protocol)
    assert (error.kind, error.status, events) == (kind, status, [])
    assert error.message.startswith(protocol)
    assert f"{protocol}: {protocol}" not in error.message
    assert "<html" not in error.message


@each_protocol
def test_refused_key_is_named_by_its_variable(protocol: str) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    error, _ = failure_of(Answer([body], status=401, headers=JSON_HEADERS), protocol)
    assert PROVIDERS[protocol].key_variables[0] in error.message


@each_protocol
def test_rate_limit_has_its_wait_and_the_request_is_sent_once(protocol: str) -> None:
    headers = {"retry-after": "7", "x-request-id": "req_1", **JSON_HEADERS}

    async def scene(provider: Provider, server: Loopback) -> None:
        with pytest.raises(ProviderError) as caught:
            await collect(provider, protocol)
        error = caught.value
        assert (error.kind, error.retry_after, error.request_id) == (ErrorKind.RATE_LIMIT, 7.0, "req_1")
        assert len(server.requests) == 1

    run_against(Answer([b'{"error":{"message":"slow"}}'], status=429, headers=headers), protocol, scene)


@each_protocol
def test_error_inside_a_200_stream_is_classified_by_its_type(protocol: str) -> None:
    name = "overloaded_in_stream" if protocol == "anthropic" else "error_in_stream"
    error, events = failure_of(Answer([stream_of(protocol, name)]), protocol)
    assert error.kind is ErrorKind.OVERLOADED
    assert error.message.startswith(f"{protocol}: ")
    assert any(isinstance(event, TextDelta) for event in events)


@each_protocol
def test_redirect_is_not_followed_and_never_gets_the_key(protocol: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as other:
            headers = {"location": f"{other.url}/v1/messages"}
            error_answer = Answer([], status=307, headers=headers)
            async with Loopback(error_answer) as server:
                provider = provider_at(protocol, server.url)
                with pytest.raises(ProviderError, match="redirects") as caught:
                    await collect(provider, protocol)
                await provider.close()
            assert caught.value.kind is ErrorKind.BAD_RESPONSE
            assert other.requests == []

    asyncio.run(main())


@each_protocol
def test_web_page_with_status_200_is_not_a_reply(protocol: str) -> None:
    answer = Answer([b"\n<!doctype html><title>Sign in</title>"], headers={"content-type": "text/html"})
    error, _ = failure_of(answer, protocol)
    assert error.kind is ErrorKind.BAD_RESPONSE
    assert "Sign in" in error.message


@each_protocol
def test_error_object_with_status_200_is_an_error(protocol: str) -> None:
    answer = Answer([b'{"error": {"message": "no such thing", "type": "api_error"}}'], headers=JSON_HEADERS)
    error, _ = failure_of(answer, protocol)
    assert error.kind is ErrorKind.SERVER
    assert "no such thing" in error.message


@each_protocol
def test_host_without_a_model_list_gives_the_reason(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        with pytest.raises(ProviderError) as caught:
            await provider.model_names()
        assert caught.value.kind is ErrorKind.AUTH

    run_against(Answer([b'{"error":{"message":"no"}}'], status=403, headers=JSON_HEADERS), protocol, scene)
