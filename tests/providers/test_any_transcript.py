"""Any transcript, once the engine has prepared it, becomes a valid request in every protocol."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from qcode.engine.transcript import make_valid
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
from qcode.protocol.model import EFFORTS, ModelRequest
from qcode.providers.history import fit_call_id, normalize_messages
from qcode.providers.openai.chat import encode as encode_chat
from qcode.providers.openai.quirks import openai_quirks
from qcode.providers.registry import PROVIDERS, quirks_of
from qcode.text.json import JsonObject
from tests.providers.cases import LIST_FILES, READ_FILE, SIGNATURES
from tests.providers.events import PROTOCOLS, encode
from tests.providers.rules import RULES, openai

_MODELS = {
    "openai": ["m"],
    "openai-responses": ["gpt-6", "gpt-4o", "o3", "some-model"],
    "anthropic": ["claude-sonnet-4-5", "claude-opus-4-6", "claude-3-5-haiku-latest", "other"],
    "gemini": ["gemini-2.5-pro", "gemini-3-flash", "gemini-1.5-pro"],
    "bedrock": ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0", "openai.gpt-oss-120b-1:0"],
}
_MARK = "signed-by-"

_TEXTS = st.sampled_from(["", " ", "\n", "a", "b\n", "ü", "\ud800", "\udfffx"])
_IDS = st.sampled_from(["call_1", "call_1_2", "call_2", "functions.f:0", "x" * 80, "ä", "toolu_01"])
_IMAGES = st.sampled_from([Image("image/png", "AA=="), Image("image/jpg", "AA==")])


def _signature(source: str) -> Opaque:
    """Return the signature that `source` would attach, with its name in every text."""
    marks = json.loads(SIGNATURES.get(source, '{"signature": ""}'))
    return Opaque(source, json.dumps({name: _marked(value, source) for name, value in marks.items()}))


def _marked(value: Any, source: str) -> Any:
    return f"{_MARK}{source}" if isinstance(value, str) else value


_OPAQUES = st.one_of(
    st.none(),
    st.sampled_from([_signature(source) for source in (*SIGNATURES, "elsewhere")]),
    st.sampled_from([Opaque(source, data) for source in SIGNATURES for data in ("{}", "no json", '{"signature": 1}')]),
)
_CALLS = st.builds(
    ToolCall,
    _IDS,
    st.sampled_from(["read_file", "gone"]),
    st.sampled_from(["{}", '{"a":1}', '{"a":"\\ud800"}']),
    _OPAQUES,
)
_RESULTS = st.builds(
    ToolResult, _IDS, st.just("read_file"), _TEXTS, st.booleans(), st.lists(_IMAGES, max_size=1).map(tuple)
)
_BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, _TEXTS, _OPAQUES), st.builds(Reasoning, _TEXTS, _OPAQUES), _CALLS, _RESULTS, _IMAGES
)
_MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(_BLOCKS, max_size=5).map(tuple))
_REQUESTS = st.builds(
    ModelRequest,
    model=st.just(""),
    system=st.sampled_from(["", " ", "Be brief."]),
    messages=st.lists(_MESSAGES, max_size=7).map(lambda messages: make_valid([*messages, user("Go on.")])),
    tools=st.sampled_from([(), (READ_FILE,), (READ_FILE, LIST_FILES)]),
    max_tokens=st.sampled_from([1, 500, 8000, 64_000]),
    effort=st.sampled_from([None, *EFFORTS]),
    allows_calls=st.booleans(),
)
_ONE_ID_IN_TWO_REPLIES = make_valid(
    [
        user("Go."),
        assistant(ToolCall("call_1", "read_file", "{}")),
        Message("user", (ToolResult("call_1", "read_file", "first"),)),
        assistant(ToolCall("call_1", "read_file", "{}")),
        Message("user", (ToolResult("call_1", "read_file", "second"),)),
    ]
)
_ENDS_IN_THINKING = make_valid(
    [user("Go."), assistant(Text("So."), Reasoning("Hm.", _signature("anthropic"))), user("Go on.")]
)


def _example(messages: tuple[Message, ...]) -> ModelRequest:
    return ModelRequest(model="", system="", messages=messages, tools=(READ_FILE,), max_tokens=8000)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(request=_example(_ONE_ID_IN_TWO_REPLIES), data=None)
@example(request=_example(_ENDS_IN_THINKING), data=None)
@given(request=_REQUESTS, data=st.data())
def test_any_prepared_transcript_is_a_valid_request(
    protocol: str, request: ModelRequest, data: st.DataObject | None
) -> None:
    model = data.draw(st.sampled_from(_MODELS[protocol])) if data is not None else _MODELS[protocol][0]
    request = replace(request, model=model)
    body = encode_chat(request, openai_quirks()) if protocol == "openai" else encode(protocol, request)
    assert RULES[protocol](body) == []
    sent = json.dumps(body, ensure_ascii=False)
    assert sent.encode("utf-8")
    assert not [source for source in (*SIGNATURES, "elsewhere") if source != protocol and _MARK + source in sent]


_CHAT_HOSTS = [(spec.name, "some-model") for spec in PROVIDERS.values() if spec.protocol == "openai"]
_MISTRALS = [("mistral", "codestral-latest"), ("openrouter", "mistralai/devstral-medium"), ("vllm", "Mixtral-8x7B")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("provider", "model"), [*_CHAT_HOSTS, *_MISTRALS])
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(request=_REQUESTS, wants_prefill=st.booleans())
def test_any_prepared_transcript_is_valid_for_each_chat_host(
    provider: str, model: str, request: ModelRequest, wants_prefill: bool
) -> None:
    if wants_prefill:
        request = replace(request, messages=(*request.messages, assistant(Text("So far"))), is_prefill=True)
    spec = PROVIDERS[provider]
    body: Any = encode_chat(replace(request, model=model), quirks_of(spec, spec.base_url))
    assert openai(body, longest_id=None) == []
    messages = body["messages"]
    if (provider, model) in _MISTRALS or provider == "mistral":
        ids = [call["id"] for message in messages for call in message.get("tool_calls", [])]
        assert all(len(item) == 9 and item.isalnum() for item in ids)
        roles = [message["role"] for message in messages]
        assert ("tool", "user") not in pairwise(roles)
    if wants_prefill:
        assert (messages[-1]["role"], messages[-1]["content"]) == ("assistant", "So far")


_ANY_IDS = st.text(st.sampled_from("ab_:é \ud800"), max_size=12) | st.sampled_from(["x" * 64, "x" * 65, "x" * 200, ""])


@pytest.mark.parametrize("length", [9, 40, 64])
@given(ids=st.lists(st.lists(_ANY_IDS, max_size=4, unique=True), max_size=6))
@example(ids=[["x" * 65], ["x" * 65, "x" * 64]])
@example(ids=[["a"], ["a", "a_2"], ["a_2"]])
def test_adapted_ids_are_distinct_stable_and_match_their_results(length: int, ids: list[list[str]]) -> None:
    history: list[Message] = []
    for item in ids:
        history.append(assistant(*(ToolCall(call_id, "f", "{}") for call_id in item)))
        history.append(Message("user", tuple(ToolResult(call_id, "f", call_id) for call_id in item) or (Text("a"),)))

    def fit(call_id: str) -> str:
        return fit_call_id(call_id, max_length=length, is_exact=length == 9)

    sent = normalize_messages(tuple(history), fit)
    called = [[call.call_id for call in message.calls] for message in sent if message.role == "assistant"]
    answered = [
        [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        for message in sent
        if message.role == "user"
    ]
    assert called == answered
    flat = [call_id for item in called for call_id in item]
    assert len(set(flat)) == len(flat)
    assert all(0 < len(item) <= length and re.fullmatch(r"[A-Za-z0-9_-]+", item) for item in flat)
    for count in range(0, len(history), 2):
        assert normalize_messages(tuple(history[:count]), fit) == sent[:count]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=_REQUESTS)
def test_gemini_3_gets_a_signature_on_the_first_of_its_calls(request: ModelRequest) -> None:
    body: Any = encode("gemini", replace(request, model="gemini-3-pro"))
    for content in body["contents"]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        assert not calls or any("thoughtSignature" in part for part in calls)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=_REQUESTS, model=st.sampled_from(_MODELS["bedrock"]))
def test_amazon_validator_accepts_any_prepared_transcript(request: ModelRequest, model: str) -> None:
    session, validate = importlib.import_module("botocore.session"), importlib.import_module("botocore.validate")
    shape = _converse_shape(session)
    body = encode("bedrock", replace(request, model=model))
    report = validate.ParamValidator().validate({"modelId": model, **body}, shape)
    assert report.generate_report() == ""


_SHAPES: list[Any] = []


def _converse_shape(session: Any) -> Any:
    if not _SHAPES:
        model = session.get_session().get_service_model("bedrock-runtime")
        _SHAPES.append(model.operation_model("ConverseStream").input_shape)
    return _SHAPES[0]


def test_validators_refuse_simple_mistakes() -> None:
    """Each protocol's validator refuses the plainest of mistakes."""
    call: JsonObject = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    hello: JsonObject = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}]}
    bodies: dict[str, Any] = {
        "openai": {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": ""}]},
        "openai-responses": {"input": [hello, call], "store": False, "max_output_tokens": 16},
        "anthropic": {"messages": [{"role": "assistant", "content": []}], "max_tokens": 1},
        "gemini": {"contents": [{"role": "model", "parts": [{"text": ""}]}]},
        "bedrock": {"messages": [{"role": "user", "content": [{"text": " "}]}], "inferenceConfig": {"maxTokens": 1}},
    }
    assert all(RULES[protocol](body) for protocol, body in bodies.items())
    assert len(RULES["openai-responses"](bodies["openai-responses"])) == 2
