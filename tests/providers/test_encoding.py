"""Request bodies: one table of cases, each compared with a file, and the differences by server and model.

QCODE_UPDATE_SNAPSHOTS=1 writes the files again; read the difference before keeping it.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest

from qcode.protocol.messages import (
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from qcode.protocol.model import Effort, ModelRequest
from qcode.providers.anthropic.codec import encode as encode_anthropic
from qcode.providers.bedrock.codec import encode as encode_bedrock
from qcode.providers.gemini.codec import encode as encode_gemini
from qcode.providers.history import EncodedMessages, fit_call_id, stripped_prefill
from qcode.providers.openai.chat import encode as encode_chat
from qcode.providers.openai.quirks import COMPATIBLE, openai_quirks
from qcode.providers.openai.responses import encode as encode_responses
from qcode.providers.registry import PROVIDERS
from qcode.text.json import Json, JsonObject
from tests.providers.cases import CASES, MODELS, PIXEL
from tests.providers.events import PROTOCOLS, encode

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SNAPSHOTS = Path(__file__).parent / "snapshots"
IS_UPDATING = os.environ.get("QCODE_UPDATE_SNAPSHOTS") == "1"

PLAIN = replace(CASES["plain"], model="m")
CALLED = replace(CASES["calls_and_results"], model="m")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", CASES)
def test_request_is_encoded_exactly_like_its_snapshot(protocol: str, name: str) -> None:
    body = encode(protocol, replace(CASES[name], model=MODELS[protocol]))
    path = SNAPSHOTS / protocol / f"{name}.json"
    if IS_UPDATING:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", "utf-8")
    assert json.loads(path.read_text("utf-8")) == body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_snapshot_has_a_test_case(protocol: str) -> None:
    assert {path.stem for path in (SNAPSHOTS / protocol).glob("*.json")} == set(CASES)


@functools.cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a type of an SDK; it is slow to create."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@pytest.mark.parametrize("name", CASES)
def test_anthropic_sdk_accepts_every_body(name: str) -> None:
    from anthropic.types import MessageCreateParams

    body = encode_anthropic(replace(CASES[name], model=MODELS["anthropic"]))
    adapter(MessageCreateParams).validate_python(body)


@pytest.mark.parametrize("name", CASES)
def test_openai_sdk_accepts_every_message(name: str) -> None:
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

    body: dict[str, Any] = dict(encode_chat(replace(CASES[name], model="m"), openai_quirks()))
    adapter(list[ChatCompletionMessageParam]).validate_python(body["messages"])
    adapter(list[ChatCompletionToolParam]).validate_python(body.get("tools", []))


@pytest.mark.parametrize("name", CASES)
def test_openai_sdk_accepts_every_item(name: str) -> None:
    from openai.types.responses import FunctionToolParam, ResponseInputParam
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    body: dict[str, Any] = dict(encode_responses(replace(CASES[name], model=MODELS["openai-responses"])))
    adapter(ResponseInputParam).validate_python(body["input"])
    adapter(list[FunctionToolParam]).validate_python(body.get("tools", []))
    assert body.keys() <= get_type_hints(ResponseCreateParamsStreaming).keys()


@pytest.mark.parametrize("name", CASES)
def test_google_sdk_accepts_every_field(name: str) -> None:
    from google.genai.types import Content, GenerationConfig, Tool, ToolConfig

    body: dict[str, Any] = dict(encode_gemini(replace(CASES[name], model=MODELS["gemini"])))
    for content in body["contents"]:
        Content.model_validate(content)
    GenerationConfig.model_validate(body["generationConfig"])
    for tool in body.get("tools", []):
        Tool.model_validate(tool)
    ToolConfig.model_validate(body.get("toolConfig", {}))


def _tail(body: JsonObject) -> JsonObject:
    messages = body["messages"]
    assert isinstance(messages, list)
    last = messages[-1]
    assert isinstance(last, dict)
    return last


@pytest.mark.parametrize(
    ("effort", "expected"), [("minimal", "none"), ("none", "none"), ("low", "high"), ("max", "high")]
)
def test_mistral_models_with_effort_have_two_levels(effort: Effort, expected: str) -> None:
    request = replace(PLAIN, model="mistral-small-latest", effort=effort)
    assert encode_chat(request, PROVIDERS["mistral"].quirks)["reasoning_effort"] == expected


def test_assistant_message_separates_results_from_user_text_if_the_model_requires_it() -> None:
    steered = replace(CASES["steered_between_steps"], model="devstral-small")
    bridged: Any = encode_chat(steered, COMPATIBLE)
    assert [message["role"] for message in bridged["messages"]][-4:] == ["tool", "tool", "assistant", "user"]
    plain: Any = encode_chat(replace(steered, model="qwen3"), COMPATIBLE)
    assert [message["role"] for message in plain["messages"]][-3:] == ["tool", "tool", "user"]


def test_gemini_3_gets_images_inside_a_result() -> None:
    from google.genai.types import Content

    body: Any = encode_gemini(replace(CASES["images_in_results"], model="gemini-3-pro"))
    first, second = body["contents"][-1]["parts"]
    for part in (first, second):
        assert part["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PIXEL.data}}]
    Content.model_validate(body["contents"][-1])


def test_openai_gets_its_own_field_for_the_cap() -> None:
    own, other = encode_chat(PLAIN, openai_quirks()), encode_chat(PLAIN, COMPATIBLE)
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
        ("mistral", "max", {}),
    ],
)
def test_effort_is_encoded_as_each_server_expects(provider: str, effort: Effort, expected: JsonObject) -> None:
    body = encode_chat(replace(PLAIN, effort=effort), PROVIDERS[provider].quirks)
    known = {"model", "messages", "stream", "stream_options", "max_tokens"}
    assert {name: value for name, value in body.items() if name not in known} == expected


def test_prefill_is_marked_as_each_server_expects() -> None:
    request = replace(CASES["prefill"], model="m", effort=None)
    vllm = encode_chat(request, COMPATIBLE)
    assert (vllm["continue_final_message"], vllm["add_generation_prompt"]) == (True, False)
    deepseek = encode_chat(request, PROVIDERS["deepseek"].quirks)
    assert "continue_final_message" not in deepseek
    assert _tail(deepseek) == {"role": "assistant", "content": "1, 2,\n", "prefix": True}
    assert _tail(encode_chat(request, openai_quirks())) == {"role": "assistant", "content": "1, 2,\n"}


def test_reasoning_is_returned_only_in_the_current_tool_loop_and_if_wanted() -> None:
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
def test_thinking_is_encoded_as_each_claude_model_expects(model: str, effort: Effort, expected: JsonObject) -> None:
    body = encode_anthropic(replace(PLAIN, model=model, effort=effort))
    assert {name: body[name] for name in ("thinking", "output_config") if name in body} == expected


def test_thinking_budget_fits_under_every_cap() -> None:
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
def test_thinking_is_encoded_as_each_gemini_model_expects(
    model: str, effort: Effort | None, expected: JsonObject | None
) -> None:
    body: Any = encode_gemini(replace(PLAIN, model=model, effort=effort))
    assert body["generationConfig"].get("thinkingConfig") == expected


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gpt-6", None, {"summary": "auto"}),
        ("gpt-5-codex", "max", {"effort": "max", "summary": "auto"}),
        ("o3", "low", {"effort": "low", "summary": "auto"}),
        ("openai/gpt-5.1", "high", {"effort": "high", "summary": "auto"}),
        ("gpt-6", "none", {"effort": "none"}),
        ("qwen3", "low", {"effort": "low"}),
        ("qwen3", None, None),
        ("gpt-4o", "high", None),
        ("gpt-4.1-mini", None, None),
        ("gpt-5-chat-latest", "high", None),
        ("chatgpt-4o-latest", None, None),
    ],
)
def test_reasoning_is_encoded_as_each_openai_model_expects(
    model: str, effort: Effort | None, expected: JsonObject | None
) -> None:
    body = encode_responses(replace(PLAIN, model=model, effort=effort))
    assert body.get("reasoning") == expected
    # Models that do not reason refuse to be asked for encrypted reasoning.
    refuses = model.startswith(("gpt-4", "chatgpt")) or "chat" in model
    assert body.get("include") == (None if refuses else ["reasoning.encrypted_content"])


def test_responses_request_is_not_stored_and_has_at_least_the_minimum_cap() -> None:
    assert encode_responses(PLAIN)["store"] is False
    assert encode_responses(replace(PLAIN, max_tokens=1))["max_output_tokens"] == 16
    assert encode_responses(replace(PLAIN, max_tokens=17))["max_output_tokens"] == 17


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("eu.anthropic.claude-3-7-sonnet-20250219-v1:0", "none", {"thinking": {"type": "disabled"}}),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "high", None),
        ("anthropic.claude-v2:1", "high", None),
        (
            "global.anthropic.claude-sonnet-5-5",
            "max",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}},
        ),
        ("openai.gpt-oss-120b-1:0", "max", {"reasoning_effort": "high"}),
        ("meta.llama4-maverick-17b-instruct-v1:0", "high", None),
    ],
)
def test_thinking_is_encoded_as_each_bedrock_model_expects(
    model: str, effort: Effort, expected: JsonObject | None
) -> None:
    body = encode_bedrock(replace(PLAIN, model=model, effort=effort))
    assert body.get("additionalModelRequestFields") == expected


@pytest.mark.parametrize(
    ("model", "is_cached"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", True),
        ("global.anthropic.claude-sonnet-5-5", True),
        ("anthropic.claude-3-haiku-20240307-v1:0", False),
        ("meta.llama4-maverick-17b-instruct-v1:0", False),
    ],
)
def test_cache_points_are_sent_only_to_bedrock_models_that_accept_them(model: str, is_cached: bool) -> None:
    body = encode_bedrock(replace(CASES["calls_and_results"], model=model))
    assert ("cachePoint" in json.dumps(body)) is is_cached


def test_bedrock_model_with_text_only_results_gets_images_and_errors_beside_them() -> None:
    body: Any = encode_bedrock(replace(CASES["images_in_results"], model="mistral.mistral-large-2407-v1:0"))
    content = body["messages"][2]["content"]
    assert [block["toolResult"]["content"] for block in content[:2]] == [
        [{"text": "a picture"}],
        [{"text": "Error: failed"}],
    ]
    assert ["image" in block for block in content[2:]] == [True, True]
    assert "status" not in json.dumps(body)


def test_gemini_3_gets_a_placeholder_for_a_missing_signature() -> None:
    body: Any = encode_gemini(replace(CALLED, model="gemini-3-pro"))
    calls = [part for part in body["contents"][1]["parts"] if "functionCall" in part]
    assert [call.get("thoughtSignature") for call in calls] == ["skip_thought_signature_validator", None]
    older: Any = encode_gemini(replace(CALLED, model="gemini-2.5-pro"))
    assert "thoughtSignature" not in json.dumps(older)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_data_signed_by_one_protocol_is_never_sent_to_another(protocol: str) -> None:
    marks = {"anthropic": "EqQB", "gemini": "CoMB", "bedrock": "BqQB", "openai-responses": "gAAA"}
    for source, mark in marks.items():
        body = encode(protocol, replace(CASES[f"thinking_signed_by_{source}"], model=MODELS[protocol]))
        assert (mark in json.dumps(body)) is (protocol == source)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_signature_of_another_provider_with_the_same_shape_is_not_accepted(protocol: str) -> None:
    names = ("signature", "data", "thoughtSignature", "redactedContent", "encrypted_content", "id", "phase")
    opaque = Opaque("elsewhere", json.dumps(dict.fromkeys(names, "EqQB")))
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
def test_white_space_trimmed_from_a_prefill_is_remembered(request_: ModelRequest, expected: str) -> None:
    assert stripped_prefill(request_) == expected


def test_id_of_another_provider_is_changed_only_if_needed_and_consistently() -> None:
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


def test_message_is_encoded_once_per_model_and_released_with_its_conversation() -> None:
    encoded, message, count = EncodedMessages(), user("hi"), 0

    def encode_one() -> list[Json]:
        nonlocal count
        count += 1
        return [count]

    encoded.begin()
    assert (encoded.encode_once(message, encode_one, "m"), encoded.encode_once(message, encode_one, "n")) == ([1], [2])
    encoded.begin()
    assert encoded.encode_once(message, encode_one, "m") == [1]
    assert encoded.encode_once(user("hi"), encode_one, "m") == [3]
    encoded.begin()
    encoded.begin()
    assert encoded.encode_once(message, encode_one, "m") == [4]
