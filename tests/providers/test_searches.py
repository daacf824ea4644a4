"""Searches that a host runs itself: requested in its format, shown, and sent back unchanged to the same host only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from qcode.engine.reply.assembler import Assembler
from qcode.engine.reply.requests import stored_blocks
from qcode.protocol.messages import Message, Reasoning, assistant, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEnded, ReplyEvent, Source, StopReason, WebSearched
from qcode.providers.blocks import WEB_SEARCH
from qcode.text.json import JsonObject
from qcode.tools.files.read import Read
from tests.providers.cases import MODELS
from tests.providers.clients import run_against
from tests.providers.events import encode
from tests.providers.loopback import Answer, Loopback

pytestmark = pytest.mark.usefixtures("way")

URL, TITLE, QUERY = "https://docs.example.org/a", "The page", "newest release"
_USED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
_FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": URL, "title": TITLE, "encrypted_content": "EQ==", "page_age": None}
    ],
}
_CITED = {
    "type": "web_search_result_location",
    "url": URL,
    "title": TITLE,
    "encrypted_index": "Eo8=",
    "cited_text": "3",
}
ANTHROPIC: list[Any] = [
    {"type": "message_start", "message": {"id": "m", "model": "claude", "usage": {"input_tokens": 9}}},
    {"type": "content_block_start", "index": 0, "content_block": _USED},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"query": "new'},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": 'est release"}'}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": _FOUND},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "It is 3."}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "citations_delta", "citation": _CITED}},
    {"type": "content_block_stop", "index": 2},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
]
_CALL = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": QUERY}}
_SAID = {
    "type": "message",
    "content": [
        {
            "type": "output_text",
            "text": "It is 3.",
            "annotations": [{"type": "url_citation", "url": URL, "title": TITLE, "start_index": 0, "end_index": 8}],
        }
    ],
}
RESPONSES: list[Any] = [
    {"type": "response.created", "response": {"id": "r", "model": "gpt"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**_CALL, "status": "in_progress"}},
    {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
    {"type": "response.output_item.done", "output_index": 0, "item": _CALL},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "It is 3."},
    {"type": "response.output_item.done", "output_index": 1, "item": _SAID},
    {
        "type": "response.completed",
        "response": {"status": "completed", "usage": {"input_tokens": 9, "output_tokens": 5}},
    },
]
_TOOL_CALL = {
    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1", "args": {"queries": [QUERY]}},
    "thoughtSignature": "cw==",
}
_TOOL_RESPONSE = {
    "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t1", "response": {"search_suggestions": "x"}}
}
_GROUNDING = {"webSearchQueries": [QUERY], "groundingChunks": [{"web": {"uri": URL, "title": TITLE}}]}
GEMINI: list[Any] = [
    {"responseId": "g", "candidates": [{"content": {"parts": [_TOOL_CALL]}}]},
    {"candidates": [{"content": {"parts": [_TOOL_RESPONSE]}}]},
    {
        "candidates": [
            {"content": {"parts": [{"text": "It is 3."}]}, "groundingMetadata": _GROUNDING, "finishReason": "STOP"}
        ]
    },
    {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5}},
]
STREAMS: dict[str, list[Any]] = {"anthropic": ANTHROPIC, "openai-responses": RESPONSES, "gemini": GEMINI}
PIECES: dict[str, list[Any]] = {
    "anthropic": [{**_USED, "input": {"query": QUERY}}, _FOUND],
    "openai-responses": [_CALL],
    "gemini": [_TOOL_CALL, _TOOL_RESPONSE],
}
each = pytest.mark.parametrize("protocol", list(STREAMS))
MODEL = {**MODELS, "gemini": "gemini-3-pro-preview"}


def asking(protocol: str, *messages: Message) -> ModelRequest:
    return ModelRequest(MODEL[protocol], "", messages or (user("Which?"),), (Read().spec, WEB_SEARCH), 1_000)


def sse(protocol: str, events: list[Any]) -> bytes:
    named = (f"event: {event['type']}\n" if protocol != "gemini" else "" for event in events)
    return "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True)).encode()


def played(protocol: str, events: list[Any]) -> tuple[list[ReplyEvent], Message, JsonObject, JsonObject]:
    """Return the events of a reply, its message, and the bodies of its request and of the one after it."""
    got: list[ReplyEvent] = []
    bodies: list[JsonObject] = []
    kept_items: list[Message] = []

    async def scene(provider: Provider, server: Loopback) -> None:
        assembler = Assembler({})
        async for event in provider.stream(asking(protocol)):
            got.append(event)
            assembler.add(event)
        kept_items.append(assistant(*stored_blocks(assembler.drafts)))
        async for _ in provider.stream(asking(protocol, user("Which?"), kept_items[0], user("Sure?"))):
            pass
        bodies.extend(json.loads(request.body) for request in server.requests)

    run_against(Answer([sse(protocol, events)]), protocol, scene)
    return got, kept_items[0], bodies[0], bodies[1]


@each
def test_hosted_search_is_requested_beside_the_tools(protocol: str) -> None:
    body = encode(protocol, asking(protocol))
    tools = json.dumps(body["tools"])
    expected = {
        "anthropic": "web_search_20250305",
        "openai-responses": '{"type": "web_search"}',
        "gemini": '"googleSearch"',
    }
    assert expected[protocol] in tools
    assert '"read"' in tools
    assert "Search the web." not in tools, "it is not one of our functions"
    assert expected[protocol] not in json.dumps(encode(protocol, replace(asking(protocol), tools=(Read().spec,))))


@each
def test_searches_and_citations_are_reported_once_before_the_end(protocol: str) -> None:
    got, message, _, _ = played(protocol, STREAMS[protocol])
    assert got[-2:-1] == [WebSearched((QUERY,), (Source(URL, TITLE),))]
    assert isinstance(got[-1], ReplyEnded)
    assert got[-1].stop is StopReason.END_TURN, "a search is not one of our calls"
    assert message.text == "It is 3."
    assert message.calls == ()
    text = "".join(block.text for block in message.blocks if isinstance(block, Reasoning))
    assert text == f"Searched the web for “{QUERY}”.\n"


@each
def test_search_blocks_are_returned_unchanged_in_their_position(protocol: str) -> None:
    _, _, _, body = played(protocol, STREAMS[protocol])
    sent: Any = body
    match protocol:
        case "anthropic":
            content = sent["messages"][1]["content"]
            assert content[2]["citations"] == [_CITED]
        case "openai-responses":
            content = sent["input"][1:]
        case _:
            content = sent["contents"][1]["parts"]
    assert content[: len(PIECES[protocol])] == PIECES[protocol]


@each
def test_search_blocks_are_not_sent_to_another_host_or_protocol(protocol: str) -> None:
    _, message, _, _ = played(protocol, STREAMS[protocol])
    for other in ("anthropic", "openai-responses", "gemini", "openai", "bedrock"):
        text = json.dumps(encode(other, ModelRequest(MODELS[other], "", (user("a"), message, user("b")), (), 1_000)))
        assert "It is 3." in text
        for secret in ("srvtoolu_1", "ws_1", "GOOGLE_SEARCH_WEB", "encrypted_index"):
            assert secret not in text


def test_truncated_search_is_not_sent_back_and_a_paused_one_is() -> None:
    cut = [*ANTHROPIC[:4], {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"}]
    text: list[Any] = [
        {"type": "content_block_start", "index": 7, "content_block": {"type": "text", "text": "Let me look."}},
        {"type": "content_block_stop", "index": 7},
    ]
    _, message, _, body = played("anthropic", [ANTHROPIC[0], *text, *cut[1:3], *cut[4:]])
    assert "srvtoolu_1" not in json.dumps(body)
    paused: list[Any] = [
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}},
        {"type": "message_stop"},
    ]
    got, message, _, body = played("anthropic", [ANTHROPIC[0], *text, *ANTHROPIC[1:5], *paused])
    assert isinstance(got[-1], ReplyEnded)
    assert got[-1].stop is StopReason.PAUSED
    assert "srvtoolu_1" not in json.dumps(body), "the user spoke: the search never gets its result"
    own = replace(message, blocks=tuple(_at_home(block) for block in message.blocks))
    again: Any = encode("anthropic", asking("anthropic", user("Which?"), own))
    assert again["messages"][-1]["content"][-1] == {**_USED, "input": {"query": QUERY}}


def _at_home(block: Any) -> Any:
    """Return a block with its mark as the protocol's own host would have made it."""
    return block if block.opaque is None else replace(block, opaque=replace(block.opaque, source="anthropic"))
