"""The clients when the network fails: resets, silence, cancelling, proxies, TLS."""

from __future__ import annotations

import asyncio
import gzip
import time
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEnded, ReplyEvent, TextDelta
from qcode.providers.connection import Timeouts
from tests.providers.clients import (
    collect,
    each_protocol,
    each_protocol_in_text,
    failure_of,
    first_part,
    provider_at,
    request_for,
    run_against,
    stream_of,
)
from tests.providers.loopback import Answer, Loopback, Reset, Stall, Step, free_port

pytestmark = pytest.mark.usefixtures("way")


@each_protocol
def test_refused_connection_names_the_address(protocol: str) -> None:
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
def test_name_that_cannot_be_resolved_is_unreachable(protocol: str) -> None:
    async def main() -> None:
        provider = provider_at(protocol, "http://nowhere.invalid")
        with pytest.raises(ProviderError, match=r"nowhere\.invalid") as caught:
            await collect(provider, protocol)
        await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())


@each_protocol
@pytest.mark.parametrize("is_chunked", [True, False])
def test_connection_reset_during_a_stream_keeps_the_received_events(protocol: str, is_chunked: bool) -> None:
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
        assert ": connection lost (http://" in caught.value.message
        assert any(isinstance(event, TextDelta) for event in events)

    asyncio.run(main())


@each_protocol
def test_connection_reset_before_a_response_is_a_broken_connection(protocol: str) -> None:
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
def test_stream_end_without_a_stop_reason_is_never_a_success(protocol: str, is_chunked: bool) -> None:
    error, events = failure_of(Answer([first_part(protocol)], is_chunked=is_chunked), protocol)
    assert error.kind is ErrorKind.CONNECTION
    assert any(isinstance(event, TextDelta) for event in events)
    assert not any(isinstance(event, ReplyEnded) for event in events)


@each_protocol
def test_truncated_compressed_stream_is_a_broken_connection(protocol: str) -> None:
    sent = gzip.compress(stream_of(protocol))
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    error, _ = failure_of(Answer([sent[: len(sent) // 2]], headers=headers), protocol)
    assert error.kind is ErrorKind.CONNECTION


@pytest.mark.sampled(5)
@each_protocol
@pytest.mark.parametrize("stage", ["headers", "first event", "middle"])
def test_silent_stream_times_out(protocol: str, stage: str) -> None:
    steps: dict[str, list[Step]] = {
        "headers": [Stall()],
        "first event": [b"\0" if protocol == "bedrock" else b": hello\n\n", Stall()],
        "middle": [first_part(protocol), Stall()],
    }
    short = Timeouts(connect=5, first_event=5 if stage == "middle" else 0.1, idle=5, idle_local=0.1)
    started = time.monotonic()
    error, events = failure_of(Answer(steps[stage]), protocol, short)
    assert error.kind is ErrorKind.TIMEOUT
    assert bool(events) is (stage == "middle")
    assert time.monotonic() - started < 4.5


@pytest.mark.sampled(3)
@each_protocol_in_text
def test_sse_comments_reset_the_timeout(protocol: str) -> None:
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
def test_silence_after_the_stop_reason_ends_the_reply_normally(protocol: str) -> None:
    sent = stream_of(protocol, "no_metadata" if protocol == "bedrock" else "text").replace(b"data: [DONE]\n\n", b"")
    if protocol == "anthropic":
        sent = sent[: sent.index(b"event: message_stop")]
    short = Timeouts(connect=5, first_event=5, idle_local=5, after_stop=0.05)

    async def scene(provider: Provider, server: Loopback) -> None:
        events = await collect(provider, protocol)
        assert isinstance(events[-1], ReplyEnded)
        assert server.is_stalling.is_set()

    run_against(Answer([sent, Stall()]), protocol, scene, short)


@each_protocol
@pytest.mark.parametrize("stage", ["headers", "middle"])
def test_cancel_closes_the_connection_at_once(protocol: str, stage: str) -> None:
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
def test_stream_abandoned_early_is_closed(protocol: str) -> None:
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
def test_silent_proxy_is_named_by_its_variable(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_invalid_proxy_address_is_a_one_line_error(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "ftp://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)

    async def main() -> None:
        provider = provider_at(protocol, "http://models.invalid")
        with pytest.raises(ProviderError, match="http_proxy"):
            await collect(provider, protocol)
        await provider.close()

    asyncio.run(main())


@each_protocol
def test_tls_to_a_server_without_tls_is_reported(protocol: str) -> None:
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
def test_missing_certificate_file_is_named_by_its_variable(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")

    async def main() -> None:
        provider = provider_at(protocol, "https://models.invalid")
        with pytest.raises(ProviderError, match="SSL_CERT_FILE"):
            await collect(provider, protocol)
        await provider.close()

    asyncio.run(main())


@each_protocol
def test_connection_that_the_server_closes_during_the_handshake_is_explained(protocol: str) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
            provider = provider_at(protocol, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            with pytest.raises(ProviderError, match=r"TLS failed|closed the connection") as caught:
                await collect(provider, protocol)
            await provider.close()
        assert caught.value.kind is ErrorKind.UNREACHABLE

    asyncio.run(main())
