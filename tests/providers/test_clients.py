"""The three clients on their real SDKs against a scripted server: what works, what breaks, and how fast it ends."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEnded, ReplyEvent, TextDelta
from qcode.providers.registry import PROVIDERS, connect
from qcode.providers.transport import Timeouts
from tests.providers.cases import CASES, MODELS
from tests.providers.events import PROTOCOLS, as_sse, encode, plain, recording
from tests.providers.loopback import Answer, Loopback, Reset, Stall, Step, free_port

KEY = "sk-test-0123456789abcdef"
KEY_HEADER = {"openai": "authorization", "anthropic": "authorization", "gemini": "x-goog-api-key"}
JSON_HEADERS = {"content-type": "application/json"}
FAST = Timeouts(connect=5, first_event=5, idle=5, idle_local=5)

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def provider_at(protocol: str, url: str, timeouts: Timeouts = FAST, **more: Any) -> Provider:
    address = f"{url}/v1" if protocol == "openai" else url
    spec = PROVIDERS[protocol]
    return connect(spec, base_url=address, api_key=KEY, key_source=spec.key_variables[0], timeouts=timeouts, **more)


def request_for(protocol: str, case: str = "plain") -> Any:
    return replace(CASES[case], model=MODELS[protocol])


def stream_of(protocol: str, name: str = "text") -> bytes:
    return as_sse(recording(protocol, name))


def first_part(protocol: str) -> bytes:
    """A stream up to and with its first text, without a reason."""
    sent = as_sse(recording(protocol, "broken_off" if protocol != "openai" else "neither_reason_nor_end_mark"))
    assert b"H" in sent
    return sent


async def collect(provider: Provider, protocol: str, into: list[ReplyEvent] | None = None) -> list[ReplyEvent]:
    events = into if into is not None else []
    async for event in provider.stream(request_for(protocol)):
        events.append(event)
    return events


def run_against(
    answer: Answer,
    protocol: str,
    scene: Callable[[Provider, Loopback], Awaitable[None]],
    timeouts: Timeouts = FAST,
) -> None:
    async def main() -> None:
        async with Loopback(answer) as server:
            provider = provider_at(protocol, server.url, timeouts)
            try:
                await scene(provider, server)
            finally:
                await provider.close()

    asyncio.run(main())


def failure_of(answer: Answer, protocol: str, timeouts: Timeouts = FAST) -> tuple[ProviderError, list[ReplyEvent]]:
    events: list[ReplyEvent] = []
    caught: list[ProviderError] = []

    async def scene(provider: Provider, _server: Loopback) -> None:
        with pytest.raises(ProviderError) as info:
            await collect(provider, protocol, events)
        caught.append(info.value)

    run_against(answer, protocol, scene, timeouts)
    assert KEY not in caught[0].message
    assert "\n" not in caught[0].message
    return caught[0], events


@each_protocol
@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_stream_becomes_its_events(protocol: str, is_chunked: bool) -> None:
    sent = stream_of(protocol)
    pieces = [sent[i : i + 7] for i in range(0, len(sent), 7)]

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert [plain(event) for event in events] == recording(protocol, "text").events

    run_against(Answer(pieces, is_chunked=is_chunked), protocol, scene)


@each_protocol
def test_a_compressed_stream_is_read(protocol: str) -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert [plain(event) for event in events] == recording(protocol, "text").events

    run_against(Answer([gzip.compress(stream_of(protocol))], headers=headers), protocol, scene)


@each_protocol
def test_the_sdk_sends_the_body_the_codec_made_with_the_key(protocol: str) -> None:
    paths = {
        "openai": "/v1/chat/completions",
        "anthropic": "/v1/messages",
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
def test_headers_of_the_config_are_sent(protocol: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            provider = provider_at(protocol, server.url, headers={"x-team": "blue"})
            await collect(provider, protocol)
            await provider.close()
            assert server.requests[0].headers["x-team"] == "blue"

    asyncio.run(main())


@each_protocol
def test_a_finished_stream_leaves_its_connection_to_the_next_request(protocol: str) -> None:
    async def scene(provider: Provider, server: Loopback) -> None:
        for _ in range(3):
            await collect(provider, protocol)
        assert (len(server.requests), server.connections) == (3, 1)

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol
@pytest.mark.parametrize("suffix", ["/v1", "/v1beta", "/v1/", ""])
def test_a_base_url_works_with_and_without_a_version(protocol: str, suffix: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            url = server.url + ("/v1" if protocol == "openai" and not suffix.startswith("/v1") else suffix)
            provider = connect(PROVIDERS[protocol], base_url=url, api_key=KEY, timeouts=FAST)
            await collect(provider, protocol)
            await provider.close()
            path = server.requests[0].path
            assert path.count("/v1") == 1

    asyncio.run(main())


@each_protocol
def test_a_refused_connection_names_the_address(protocol: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def main() -> None:
        provider = provider_at(protocol, url, base_url_source="ACME_BASE_URL")
        with pytest.raises(ProviderError) as caught:
            await collect(provider, protocol)
        await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE
        assert url in caught.value.message
        assert "ACME_BASE_URL" in caught.value.message

    asyncio.run(main())


@each_protocol
def test_a_name_that_cannot_be_resolved_is_unreachable(protocol: str) -> None:
    async def main() -> None:
        provider = provider_at(protocol, "http://nowhere.invalid")
        with pytest.raises(ProviderError, match=r"nowhere\.invalid") as caught:
            await collect(provider, protocol)
        await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())


@each_protocol
@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_reset_in_the_middle_keeps_what_came_and_is_a_broken_connection(protocol: str, is_chunked: bool) -> None:
    async def main() -> None:
        async with Loopback(Answer([first_part(protocol), Stall()], is_chunked=is_chunked)) as server:
            provider = provider_at(protocol, server.url)
            events: list[ReplyEvent] = []
            with pytest.raises(ProviderError) as caught:
                async for event in provider.stream(request_for(protocol)):
                    events.append(event)
                    if isinstance(event, TextDelta):
                        await server.is_stalling.wait()
                        server.reset_all()
            await provider.close()
        assert caught.value.kind is ErrorKind.CONNECTION
        assert any(isinstance(event, TextDelta) for event in events)

    asyncio.run(main())


@each_protocol
def test_a_reset_before_any_answer_is_a_broken_connection(protocol: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([Reset()])) as server:
            provider = provider_at(protocol, server.url)
            with pytest.raises(ProviderError) as caught:
                await collect(provider, protocol)
            await provider.close()
        assert caught.value.kind is ErrorKind.CONNECTION

    asyncio.run(main())


@each_protocol
@pytest.mark.parametrize("is_chunked", [True, False])
def test_an_end_without_a_reason_is_never_success(protocol: str, is_chunked: bool) -> None:
    error, events = failure_of(Answer([first_part(protocol)], is_chunked=is_chunked), protocol)
    assert error.kind is ErrorKind.CONNECTION
    assert any(isinstance(event, TextDelta) for event in events)
    assert not any(isinstance(event, ReplyEnded) for event in events)


@each_protocol
def test_a_compressed_stream_that_is_cut_is_a_broken_connection(protocol: str) -> None:
    sent = gzip.compress(stream_of(protocol))
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    error, _ = failure_of(Answer([sent[: len(sent) // 2]], headers=headers), protocol)
    assert error.kind is ErrorKind.CONNECTION


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
def test_an_error_answer_is_told_by_its_status(protocol: str, status: int, body: bytes, kind: ErrorKind) -> None:
    error, events = failure_of(Answer([body], status=status, headers=JSON_HEADERS), protocol)
    assert (error.kind, error.status, events) == (kind, status, [])
    assert error.message.startswith(protocol)
    assert f"{protocol}: {protocol}" not in error.message
    assert "<html" not in error.message


@each_protocol
def test_a_refused_key_is_named_by_its_variable(protocol: str) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    error, _ = failure_of(Answer([body], status=401, headers=JSON_HEADERS), protocol)
    assert PROVIDERS[protocol].key_variables[0] in error.message


@each_protocol
def test_a_rate_limit_carries_its_wait_and_the_request_is_sent_once(protocol: str) -> None:
    headers = {"retry-after": "7", "x-request-id": "req_1", **JSON_HEADERS}

    async def scene(provider: Provider, server: Loopback) -> None:
        with pytest.raises(ProviderError) as caught:
            await collect(provider, protocol)
        error = caught.value
        assert (error.kind, error.retry_after, error.request_id) == (ErrorKind.RATE_LIMIT, 7.0, "req_1")
        assert len(server.requests) == 1

    run_against(Answer([b'{"error":{"message":"slow"}}'], status=429, headers=headers), protocol, scene)


@each_protocol
def test_an_error_inside_a_200_stream_is_told_by_its_type(protocol: str) -> None:
    name = "overloaded_in_stream" if protocol == "anthropic" else "error_in_stream"
    error, events = failure_of(Answer([stream_of(protocol, name)]), protocol)
    assert error.kind is ErrorKind.OVERLOADED
    assert error.message.startswith(f"{protocol}: ")
    assert any(isinstance(event, TextDelta) for event in events)


@each_protocol
def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(protocol: str) -> None:
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
def test_a_web_page_with_status_200_is_no_reply(protocol: str) -> None:
    answer = Answer([b"\n<!doctype html><title>Sign in</title>"], headers={"content-type": "text/html"})
    error, _ = failure_of(answer, protocol)
    assert error.kind is ErrorKind.BAD_RESPONSE
    assert "Sign in" in error.message


@each_protocol
def test_an_error_object_with_status_200_that_is_no_stream_is_an_error(protocol: str) -> None:
    answer = Answer([b'{"error": {"message": "no such thing", "type": "api_error"}}'], headers=JSON_HEADERS)
    error, _ = failure_of(answer, protocol)
    assert error.kind is ErrorKind.SERVER
    assert "no such thing" in error.message


def test_a_server_that_does_not_stream_still_gives_a_reply() -> None:
    body = json.dumps(recording("openai", "not_streamed").chunks[0]).encode()

    async def scene(provider: Provider, _server: Loopback) -> None:
        events = await collect(provider, "openai")
        assert [plain(event) for event in events] == recording("openai", "not_streamed").events

    run_against(Answer([body], headers=JSON_HEADERS), "openai", scene)


@each_protocol
@pytest.mark.parametrize("stage", ["headers", "first event", "middle"])
def test_silence_ends_in_a_timeout(protocol: str, stage: str) -> None:
    steps: dict[str, list[Step]] = {
        "headers": [Stall()],
        "first event": [b": hello\n\n", Stall()],
        "middle": [first_part(protocol), Stall()],
    }
    short = Timeouts(connect=5, first_event=5 if stage == "middle" else 0.1, idle=5, idle_local=0.1)
    started = time.monotonic()
    error, events = failure_of(Answer(steps[stage]), protocol, short)
    assert error.kind is ErrorKind.TIMEOUT
    assert bool(events) is (stage == "middle")
    assert time.monotonic() - started < 4.5


@each_protocol
def test_comments_end_the_silence(protocol: str) -> None:
    """Each piece comes well within the limit, all of them together do not."""

    async def main() -> None:
        pieces = [first_part(protocol), *[b": ping\n\n"] * 40, stream_of(protocol)]
        async with Loopback(Answer(pieces)) as server:
            server.pace = 0.02
            short = Timeouts(connect=5, first_event=5, idle_local=0.5)
            provider = provider_at(protocol, server.url, short)
            events = await collect(provider, protocol)
            await provider.close()
            assert isinstance(events[-1], ReplyEnded)

    asyncio.run(main())


@each_protocol
def test_silence_after_the_reason_ends_the_reply_well(protocol: str) -> None:
    sent = stream_of(protocol).replace(b"data: [DONE]\n\n", b"")
    if protocol == "anthropic":
        sent = sent[: sent.index(b"event: message_stop")]
    short = Timeouts(connect=5, first_event=5, idle_local=5, trailing=0.05)

    async def scene(provider: Provider, server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert isinstance(events[-1], ReplyEnded)
        assert server.is_stalling.is_set()

    run_against(Answer([sent, Stall()]), protocol, scene, short)


@each_protocol
@pytest.mark.parametrize("stage", ["headers", "middle"])
def test_cancelling_closes_the_connection_at_once(protocol: str, stage: str) -> None:
    steps: list[Step] = [Stall()] if stage == "headers" else [first_part(protocol), Stall()]

    async def scene(provider: Provider, server: Loopback) -> None:
        events: list[ReplyEvent] = []
        task = asyncio.create_task(collect(provider, protocol, events))
        await server.is_stalling.wait()
        while stage == "middle" and not any(isinstance(event, TextDelta) for event in events):
            await asyncio.sleep(0)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.has_hung_up.wait(), 1)
        assert time.monotonic() - started < 0.2

    run_against(Answer(steps), protocol, scene)


@each_protocol
def test_a_stream_left_early_is_closed(protocol: str) -> None:
    async def scene(provider: Provider, server: Loopback) -> None:
        stream: Any = provider.stream(request_for(protocol))
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(server.has_hung_up.wait(), 1)

    run_against(Answer([first_part(protocol), Stall()]), protocol, scene)


@each_protocol
def test_loopback_bypasses_every_proxy(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    async def scene(provider: Provider, _server: Loopback) -> None:
        assert isinstance((await collect(provider, protocol))[-1], ReplyEnded)

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol
def test_a_proxy_that_does_not_answer_is_named_by_its_variable(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")

    async def main() -> None:
        provider = provider_at(protocol, "http://models.invalid")
        with pytest.raises(ProviderError, match="HTTP_PROXY") as caught:
            await collect(provider, protocol)
        await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())


@each_protocol
def test_a_proxy_address_that_is_none_is_one_line(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "ftp://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    async def main() -> None:
        provider = provider_at(protocol, "http://models.invalid")
        with pytest.raises(ProviderError, match="http_proxy"):
            await collect(provider, protocol)
        await provider.close()

    asyncio.run(main())


@each_protocol
def test_tls_to_a_server_that_speaks_none_is_said_so(protocol: str) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            provider = provider_at(protocol, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            with pytest.raises(ProviderError, match="TLS") as caught:
                await collect(provider, protocol)
            await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())


@each_protocol
def test_a_file_of_certificates_that_is_not_there_is_named_by_its_variable(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")

    async def main() -> None:
        provider = provider_at(protocol, "https://models.invalid")
        with pytest.raises(ProviderError, match="SSL_CERT_FILE"):
            await collect(provider, protocol)
        await provider.close()

    asyncio.run(main())


_MODEL_LISTS = {
    "openai": {"object": "list", "data": [{"id": "b", "object": "model"}, {"id": "a", "object": "model"}]},
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


@each_protocol
def test_the_models_of_a_host_are_listed_by_name(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        assert await provider.model_names() == ("a", "b")

    run_against(Answer([json.dumps(_MODEL_LISTS[protocol]).encode()], headers=JSON_HEADERS), protocol, scene)


@each_protocol
def test_a_host_that_lists_no_models_says_why(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        with pytest.raises(ProviderError) as caught:
            await provider.model_names()
        assert caught.value.kind is ErrorKind.AUTH

    run_against(Answer([b'{"error":{"message":"no"}}'], status=403, headers=JSON_HEADERS), protocol, scene)


@each_protocol
def test_closing_is_safe_before_the_first_request_and_twice(protocol: str) -> None:
    async def scene(provider: Provider, _server: Loopback) -> None:
        await provider.close()
        await collect(provider, protocol)
        await provider.close()
        await provider.close()

    run_against(Answer([stream_of(protocol)]), protocol, scene)


@each_protocol
def test_nothing_is_written_to_the_screen(
    protocol: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown reasons, two keys in the environment and a deprecated model make SDKs speak up."""
    monkeypatch.setenv("GOOGLE_API_KEY", "a")
    monkeypatch.setenv("GEMINI_API_KEY", "b")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "b")
    name = {"openai": "unknown_reason", "anthropic": "strangers", "gemini": "unknown_reason"}[protocol]
    model = {"openai": "m", "anthropic": "claude-3-opus-20240229", "gemini": "g"}[protocol]

    async def scene(provider: Provider, _server: Loopback) -> None:
        async for _ in provider.stream(replace(CASES["effort_max"], model=model)):
            pass

    run_against(Answer([stream_of(protocol, name)]), protocol, scene)
    assert capfd.readouterr() == ("", "")


def test_an_auth_token_and_a_key_are_told_apart_by_the_variable_they_come_from() -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("anthropic")])) as server:
            provider = connect(
                PROVIDERS["anthropic"], base_url=server.url, api_key=KEY, key_source="ANTHROPIC_AUTH_TOKEN"
            )
            await collect(provider, "anthropic")
            await provider.close()
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    asyncio.run(main())
