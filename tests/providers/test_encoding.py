"""Request bodies: one table of cases, each compared exactly with a file; and what holds for any transcript.

QCODE_UPDATE_SNAPSHOTS=1 writes the files anew; read the difference before keeping it.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.protocol.json import JsonObject
from qcode.protocol.messages import (
    Block,
    Image,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from qcode.protocol.model import EFFORTS, Effort, ModelRequest
from qcode.providers.anthropic.codec import encode as encode_anthropic
from qcode.providers.anthropic.codec import stripped_prefill
from qcode.providers.gemini.codec import encode as encode_gemini
from qcode.providers.history import fit_call_id
from qcode.providers.openai_chat.codec import encode as encode_chat
from qcode.providers.openai_chat.quirks import COMPATIBLE, ChatQuirks, for_openai
from qcode.providers.registry import PROVIDERS
from tests.providers.cases import CASES, MODELS
from tests.providers.events import PROTOCOLS, encode

SNAPSHOTS = Path(__file__).parent / "snapshots"
IS_UPDATING = os.environ.get("QCODE_UPDATE_SNAPSHOTS") == "1"

PLAIN = replace(CASES["plain"], model="m")
CALLED = replace(CASES["calls_and_results"], model="m")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", CASES)
def test_a_request_is_encoded_exactly_like_its_snapshot(protocol: str, name: str) -> None:
    body = encode(protocol, replace(CASES[name], model=MODELS[protocol]))
    path = SNAPSHOTS / protocol / f"{name}.json"
    if IS_UPDATING:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", "utf-8")
    assert json.loads(path.read_text("utf-8")) == body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_snapshot_is_left_behind(protocol: str) -> None:
    assert {path.stem for path in (SNAPSHOTS / protocol).glob("*.json")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_anthropic_sdk_accepts_every_body(name: str) -> None:
    from anthropic.types import MessageCreateParams
    from pydantic import TypeAdapter

    body = encode_anthropic(replace(CASES[name], model=MODELS["anthropic"]))
    TypeAdapter(MessageCreateParams).validate_python(body)


@pytest.mark.parametrize("name", CASES)
def test_the_openai_sdk_accepts_every_message(name: str) -> None:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from pydantic import TypeAdapter

    body: dict[str, Any] = dict(encode_chat(replace(CASES[name], model="m"), for_openai()))
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(body["messages"])
    TypeAdapter(list[ChatCompletionToolParam]).validate_python(body.get("tools", []))


@pytest.mark.parametrize("name", CASES)
def test_the_google_sdk_knows_every_field(name: str) -> None:
    from google.genai.types import Content, GenerationConfig, Tool, ToolConfig

    body: dict[str, Any] = dict(encode_gemini(replace(CASES[name], model=MODELS["gemini"])))
    for content in body["contents"]:
        Content.model_validate(content)
    GenerationConfig.model_validate(body["generationConfig"])
    for tool in body.get("tools", []):
        Tool.model_validate(tool)
    ToolConfig.model_validate(body.get("toolConfig", {}))


_TEXTS = st.sampled_from(["", " ", "a", "b\n", "ü", "\ud800"])
_IDS = st.sampled_from(["call_1", "functions.f:0", "x" * 80, "ä"])
_OPAQUES = st.sampled_from(
    [
        None,
        Opaque("anthropic", '{"signature":"s"}'),
        Opaque("gemini", '{"thoughtSignature":"s"}'),
        Opaque("x", "no json"),
    ]
)


@st.composite
def _transcripts(draw: st.DrawFn) -> tuple[Message, ...]:
    """A valid transcript: roles in turn, a person first, every call with its result right behind it."""
    messages: list[Message] = []
    open_calls: list[ToolCall] = []
    for number in range(draw(st.integers(1, 6))):
        images = (Image("image/png", "AA=="),) if draw(st.booleans()) else ()
        results = [
            ToolResult(call.call_id, call.name, draw(_TEXTS), is_error=draw(st.booleans()), images=images)
            for call in open_calls
        ]
        extra = [Text(draw(_TEXTS)) for _ in range(draw(st.integers(0 if results else 1, 2)))]
        messages.append(Message("user", (*results, *extra, *images)))
        said: list[Block] = []
        for _ in range(draw(st.integers(0, 3))):
            text, opaque = draw(_TEXTS), draw(_OPAQUES)
            said.append(Text(text, opaque) if draw(st.booleans()) else Reasoning(text, opaque))
        open_calls = [
            ToolCall(
                f"{draw(_IDS)}{number}{i}",
                "f",
                draw(st.sampled_from(["{}", '{"a":1}', "[]", '{"a":"\\ud800"}'])),
                draw(_OPAQUES),
            )
            for i in range(draw(st.integers(0, 2)))
        ]
        messages.append(Message("assistant", (*said, *open_calls)))
    return tuple(messages if not open_calls else messages[:-1])


@settings(deadline=None)
@given(messages=_transcripts(), allows_calls=st.booleans(), effort=st.sampled_from([None, *EFFORTS]))
def test_anthropic_takes_any_valid_transcript(
    messages: tuple[Message, ...], allows_calls: bool, effort: Effort | None
) -> None:
    request = replace(PLAIN, model="claude-sonnet-4-5", messages=messages, allows_calls=allows_calls, effort=effort)
    body: dict[str, Any] = dict(encode_anthropic(request))
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user"
    assert all(first != second for first, second in pairwise(roles))
    waiting: list[str] = []
    for message in body["messages"]:
        assert message["content"]
        types = [block["type"] for block in message["content"]]
        answered = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert answered == waiting
        assert types[: len(answered)] == ["tool_result"] * len(answered)
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    if any(message.calls for message in messages):
        assert body["tools"]
    thinking = body.get("thinking", {})
    assert thinking.get("budget_tokens", 0) < request.max_tokens
    json.dumps(body, ensure_ascii=False).encode("utf-8")


@settings(deadline=None)
@given(messages=_transcripts(), model=st.sampled_from(["gemini-2.5-pro", "gemini-3-flash", "gemini-1.5-pro"]))
def test_gemini_takes_any_valid_transcript(messages: tuple[Message, ...], model: str) -> None:
    body: dict[str, Any] = dict(encode_gemini(replace(PLAIN, model=model, messages=messages)))
    roles = [content["role"] for content in body["contents"]]
    assert roles[0] == "user"
    assert all(first != second for first, second in pairwise(roles))
    waiting: list[str] = []
    for content in body["contents"]:
        assert content["parts"]
        answered = [part["functionResponse"]["id"] for part in content["parts"] if "functionResponse" in part]
        assert answered == waiting
        calls = [part for part in content["parts"] if "functionCall" in part]
        waiting = [part["functionCall"]["id"] for part in calls]
        if calls and model.startswith("gemini-3"):
            assert any("thoughtSignature" in part for part in calls)
    json.dumps(body, ensure_ascii=False).encode("utf-8")


@settings(deadline=None)
@given(messages=_transcripts(), quirks=st.sampled_from([COMPATIBLE, for_openai(), PROVIDERS["mistral"].quirks]))
def test_a_chat_server_takes_any_valid_transcript(messages: tuple[Message, ...], quirks: ChatQuirks) -> None:
    body: dict[str, Any] = dict(encode_chat(replace(PLAIN, messages=messages), quirks))
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        assert message["content"] is not None or waiting
    json.dumps(body, ensure_ascii=False).encode("utf-8")


def _tail(body: JsonObject) -> JsonObject:
    messages = body["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    return last


def test_openai_itself_takes_its_own_field_for_the_cap() -> None:
    own, other = encode_chat(PLAIN, for_openai()), encode_chat(PLAIN, COMPATIBLE)
    assert (own.get("max_completion_tokens"), own.get("max_tokens")) == (8000, None)
    assert (other.get("max_completion_tokens"), other.get("max_tokens")) == (None, 8000)


@pytest.mark.parametrize(
    ("provider", "effort", "expected"),
    [
        ("openrouter", "max", {"reasoning_effort": "max"}),
        ("ollama", "max", {"reasoning_effort": "high"}),
        ("ollama", "none", {"reasoning_effort": "none"}),
        ("deepseek", "high", {"thinking": {"type": "enabled"}}),
        ("glm", "none", {"thinking": {"type": "disabled"}}),
        ("qwen", "none", {"enable_thinking": False}),
        ("qwen", "low", {"enable_thinking": True}),
    ],
)
def test_effort_is_set_the_way_a_server_takes_it(provider: str, effort: Effort, expected: JsonObject) -> None:
    body = encode_chat(replace(PLAIN, effort=effort), PROVIDERS[provider].quirks)
    known = {"model", "messages", "stream", "stream_options", "max_tokens"}
    assert {name: value for name, value in body.items() if name not in known} == expected


def test_a_prefill_is_marked_the_way_a_server_takes_it() -> None:
    request = replace(CASES["prefill"], model="m", effort=None)
    vllm = encode_chat(request, COMPATIBLE)
    assert (vllm["continue_final_message"], vllm["add_generation_prompt"]) == (True, False)
    deepseek = encode_chat(request, PROVIDERS["deepseek"].quirks)
    assert "continue_final_message" not in deepseek
    assert _tail(deepseek) == {"role": "assistant", "content": "1, 2,\n", "prefix": True}
    assert _tail(encode_chat(request, for_openai())) == {"role": "assistant", "content": "1, 2,\n"}


def test_reasoning_goes_back_only_within_the_running_tool_loop_and_only_where_it_is_wanted() -> None:
    call = ToolCall("c1", "f", "{}")
    loop = (assistant(Reasoning("Hm."), call), Message("user", (ToolResult("c1", "f", "ok"),)))
    earlier = (user("One."), *loop, assistant(Text("Done.")))
    request = replace(PLAIN, messages=(*earlier, user("Two."), *loop))
    sent: Any = encode_chat(request, PROVIDERS["deepseek"].quirks)["messages"]
    assert [message.get("reasoning_content") for message in sent if message.get("tool_calls")] == [None, "Hm."]
    assert "Hm." not in json.dumps(encode_chat(request, COMPATIBLE))


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 4000}}),
        ("claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-opus-4-20250514", "none", {"thinking": {"type": "disabled"}}),
        ("claude-3-5-sonnet-20241022", "high", {}),
        ("some-other-model", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (
            "claude-opus-4-6",
            "max",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
        ),
        (
            "claude-sonnet-5",
            "minimal",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ("claude-fable-5", "none", {"output_config": {"effort": "low"}}),
    ],
)
def test_thinking_is_set_the_way_a_claude_model_takes_it(model: str, effort: Effort, expected: JsonObject) -> None:
    body = encode_anthropic(replace(PLAIN, model=model, effort=effort))
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == expected


def test_a_thinking_budget_fits_under_every_cap() -> None:
    for cap in (1, 1024, 2047, 2048, 3000, 8000, 64_000):
        body: dict[str, Any] = dict(
            encode_anthropic(replace(PLAIN, model="claude-sonnet-4-5", effort="max", max_tokens=cap))
        )
        budget = body.get("thinking", {}).get("budget_tokens")
        assert budget is None if cap < 2048 else 1024 <= budget < cap


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-2.5-flash", None, {"includeThoughts": True}),
        ("gemini-flash-latest", None, {"includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"includeThoughts": False, "thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"includeThoughts": False, "thinkingBudget": 512}),
        ("gemini-2.5-pro", "max", {"includeThoughts": True, "thinkingBudget": 4000}),
        ("gemini-3-pro-preview", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-pro", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-2.0-flash", "high", None),
        ("gemini-2.5-flash-image", "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_thinking_is_set_the_way_a_gemini_model_takes_it(
    model: str, effort: Effort | None, expected: JsonObject | None
) -> None:
    body: Any = encode_gemini(replace(PLAIN, model=model, effort=effort))
    assert body["generationConfig"].get("thinkingConfig") == expected


def test_gemini_3_gets_a_stand_in_for_a_signature_another_model_did_not_make() -> None:
    body: Any = encode_gemini(replace(CALLED, model="gemini-3-pro"))
    calls = [part for part in body["contents"][1]["parts"] if "functionCall" in part]
    assert [call.get("thoughtSignature") for call in calls] == ["skip_thought_signature_validator", None]
    older: Any = encode_gemini(replace(CALLED, model="gemini-2.5-pro"))
    assert "thoughtSignature" not in json.dumps(older)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_one_protocol_signed_is_never_sent_to_another(protocol: str) -> None:
    for source in ("anthropic", "gemini"):
        body = encode(protocol, replace(CASES[f"thinking_signed_by_{source}"], model=MODELS[protocol]))
        mark = {"anthropic": "EqQB", "gemini": "CoMB"}[source]
        assert (mark in json.dumps(body)) is (protocol == source)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_signature_of_the_same_shape_from_elsewhere_is_not_taken_for_ones_own(protocol: str) -> None:
    opaque = Opaque("elsewhere", '{"signature": "EqQB", "data": "EqQB", "thoughtSignature": "EqQB"}')
    said = assistant(Reasoning("Hm.", opaque), Text("Ok.", opaque), ToolCall("c1", "f", "{}", opaque))
    messages = (user("Go"), said, Message("user", (ToolResult("c1", "f", "ok"),)))
    assert "EqQB" not in json.dumps(encode(protocol, replace(PLAIN, messages=messages)))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (CASES["prefill"], "\n"),
        (replace(CASES["prefill"], is_prefill=False), ""),
        (replace(CASES["prefill"], messages=(user("x"), assistant(Text("  ")))), ""),
        (CASES["plain"], ""),
    ],
)
def test_the_white_space_taken_off_a_prefill_is_known(request_: ModelRequest, expected: str) -> None:
    assert stripped_prefill(request_) == expected


def test_an_id_another_host_made_is_changed_only_where_it_must_be_and_always_alike() -> None:
    assert fit_call_id("call_1", max_length=40) == "call_1"
    assert fit_call_id("Ab3dE6gH9", max_length=9, is_exact=True) == "Ab3dE6gH9"
    for wrong in ("functions.f:0", "x" * 41, "ä", ""):
        fitted = fit_call_id(wrong, max_length=40)
        assert fitted != wrong
        assert len(fitted) <= 40
        assert fitted.replace("_", "").isalnum()
        assert fitted == fit_call_id(wrong, max_length=40)
    short = fit_call_id("call_1", max_length=9, is_exact=True)
    assert len(short) == 9
    assert short.isalnum()
