"""Signed or encrypted parts of a reply are sent back only to their host, even if another has the same protocol."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from qcode.protocol.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import BlockEnded
from qcode.providers.history import OpaqueFilter, opaque_origin, tag_opaque
from tests.providers.cases import MODELS, SIGNATURES
from tests.providers.clients import provider_at, request_for, stream_of
from tests.providers.events import recordings
from tests.providers.loopback import Answer, Loopback

_SECRETS = ("signature", "thoughtSignature", "encrypted_content")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("https://api.anthropic.com", ""),
        ("https://api.openai.com/v1", ""),
        ("https://generativelanguage.googleapis.com", ""),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", ""),
        ("bedrock", ""),
        ("", ""),
        ("https://api.anthropic.com.evil.test", "api.anthropic.com.evil.test"),
        ("https://r.openai.azure.com/openai/v1/", "r.openai.azure.com/openai/v1"),
        ("https://me:secret@gate.test:8443/anthropic?key=secret", "gate.test:8443/anthropic"),
        ("http://LOCALHOST:8000/v1", "localhost:8000/v1"),
    ],
)
def test_origin_is_host_and_path_unless_it_is_the_official_host(address: str, place: str) -> None:
    assert opaque_origin(address) == place


def marked(source: str) -> tuple[Message, ...]:
    mark = Opaque(source, "{}")
    return (
        user("Go."),
        assistant(Reasoning("Hm.", mark), Text("So.", mark), ToolCall("c", "read_file", "{}", mark)),
        Message("user", (ToolResult("c", "read_file", "x"),)),
    )


def sources(request: ModelRequest) -> set[str]:
    blocks: list[Any] = [block for message in request.messages for block in message.blocks]
    return {block.opaque.source for block in blocks if getattr(block, "opaque", None)}


@pytest.mark.parametrize(
    ("made_by", "sent_to", "left"),
    [
        ("anthropic", "", {"anthropic"}),
        ("anthropic@gate.test", "gate.test", {"anthropic"}),
        ("anthropic", "gate.test", set()),
        ("anthropic@gate.test", "other.test", set()),
        ("anthropic@gate.test:1", "gate.test", set()),
        ("anthropic@gate.test", "", {"anthropic@gate.test"}),
        ("anthropic@evil@gate.test", "gate.test", {"anthropic@evil"}),
    ],
)
def test_only_opaque_data_of_its_origin_reaches_a_codec(made_by: str, sent_to: str, left: set[str]) -> None:
    """At the protocol's own host the codec itself drops every name but its own."""
    request = ModelRequest("m", "", marked(made_by), (), 100)
    sent = OpaqueFilter(sent_to).filter_request(request)
    assert sources(sent) == left
    assert [message.text for message in sent.messages] == [message.text for message in request.messages]


def test_event_is_tagged_with_its_origin_and_otherwise_unchanged() -> None:
    event = BlockEnded(3, Opaque("gemini", '{"a": 1}'))
    assert tag_opaque(event, "x.test/v1") == BlockEnded(3, Opaque("gemini@x.test/v1", '{"a": 1}'))
    assert tag_opaque(BlockEnded(3), "x.test") == BlockEnded(3)


def _signed_request(protocol: str, source: str) -> ModelRequest:
    thought = Reasoning("Thought.", Opaque(source, SIGNATURES[protocol]))
    call = ToolCall("call_1", "read_file", "{}")
    if protocol == "gemini":
        call, thought = replace(call, opaque=thought.opaque), replace(thought, opaque=None)
    messages = (user("Go."), assistant(thought, call), Message("user", (ToolResult("call_1", "read_file", "x"),)))
    request: ModelRequest = request_for(protocol)
    return replace(request, model=MODELS[protocol], messages=messages)


@pytest.mark.parametrize("protocol", sorted(SIGNATURES))
def test_opaque_data_is_sent_only_to_the_host_that_created_it(protocol: str) -> None:
    token = next(
        value for value in json.loads(SIGNATURES[protocol]).values() if isinstance(value, str) and value != "rs_1"
    )

    async def sent(provider: Provider, server: Loopback, source: str) -> bytes:
        async for _ in provider.stream(_signed_request(protocol, source)):
            pass
        return server.requests[-1].body

    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol)])) as server:
            provider = provider_at(protocol, server.url)
            here = f"{protocol}@{opaque_origin(provider.host)}"
            assert token.encode() in await sent(provider, server, here)
            for other in (protocol, f"{protocol}@elsewhere.test", f"other@{opaque_origin(provider.host)}"):
                assert token.encode() not in await sent(provider, server, other), other
            await provider.close()

    asyncio.run(main())


@pytest.mark.parametrize("protocol", sorted(SIGNATURES))
def test_signed_data_has_its_origin(protocol: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of(protocol, _signed_recording(protocol))])) as server:
            provider = provider_at(protocol, server.url)
            events = [event async for event in provider.stream(request_for(protocol))]
            await provider.close()
            marks = [event.opaque.source for event in events if isinstance(event, BlockEnded) and event.opaque]
            assert marks
            assert set(marks) == {f"{protocol}@{opaque_origin(provider.host)}"}

    asyncio.run(main())


def _signed_recording(protocol: str) -> str:
    return next(
        found.name
        for found in recordings()
        if found.protocol == protocol and found.error is None and '"source"' in json.dumps(found.events)
    )
