"""Helpers of the client tests, which run clients on their real SDKs against a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from qcode.protocol.errors import ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEvent
from qcode.providers.connection import Timeouts
from qcode.providers.registry import PROVIDERS, connect
from tests.providers.cases import CASES, MODELS
from tests.providers.events import SSE_PROTOCOLS, as_bytes, recording
from tests.providers.loopback import Answer, Loopback

KEY = "sk-test-0123456789abcdef"
KEY_HEADER = {
    "openai": "authorization",
    "openai-responses": "authorization",
    "anthropic": "authorization",
    "gemini": "x-goog-api-key",
    "bedrock": "authorization",
}
JSON_HEADERS = {"content-type": "application/json"}
PATIENT = Timeouts(connect=60, first_event=60, idle=60, idle_local=60)
"""Limits for answers that come at once, long enough for a machine that runs much else."""

each_protocol = pytest.mark.parametrize("protocol", [*SSE_PROTOCOLS, "bedrock"])
each_protocol_in_text = pytest.mark.parametrize("protocol", SSE_PROTOCOLS)


def provider_at(protocol: str, url: str, timeouts: Timeouts = PATIENT, **more: Any) -> Provider:
    address = f"{url}/v1" if protocol.startswith("openai") else url
    spec = PROVIDERS[protocol]
    return connect(spec, base_url=address, api_key=KEY, key_source=spec.key_variables[0], timeouts=timeouts, **more)


def request_for(protocol: str, case: str = "plain") -> Any:
    return replace(CASES[case], model=MODELS[protocol])


def stream_of(protocol: str, name: str = "text") -> bytes:
    return as_bytes(recording(protocol, name))


def first_part(protocol: str) -> bytes:
    """A stream up to and with its first text, without a reason."""
    sent = as_bytes(recording(protocol, "broken_off" if protocol != "openai" else "neither_reason_nor_end_mark"))
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
    timeouts: Timeouts = PATIENT,
) -> None:
    async def main() -> None:
        async with Loopback(answer) as server:
            provider = provider_at(protocol, server.url, timeouts)
            try:
                await scene(provider, server)
            finally:
                await provider.close()

    asyncio.run(main())


def failure_of(answer: Answer, protocol: str, timeouts: Timeouts = PATIENT) -> tuple[ProviderError, list[ReplyEvent]]:
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
