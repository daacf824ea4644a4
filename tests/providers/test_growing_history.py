"""A conversation that grows is encoded once: the same bytes as if all of it were encoded again, and no growing work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

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
from qcode.protocol.model import ModelRequest
from qcode.providers.anthropic.codec import encode as encode_anthropic
from qcode.providers.bedrock.codec import encode as encode_bedrock
from qcode.providers.gemini.codec import encode as encode_gemini
from qcode.providers.history import COMPACT, EncodedMessages, OpaqueFilter
from qcode.providers.openai.chat import encode as encode_chat
from qcode.providers.openai.quirks import COMPATIBLE
from qcode.providers.openai.responses import encode as encode_responses
from qcode.text.json import JsonObject
from tests.providers.cases import MODELS, READ_FILE, SIGNATURES

Encode = Callable[[ModelRequest, "EncodedMessages | None"], JsonObject]

ECHOING = replace(COMPATIBLE, echoes_reasoning=True, prefill="prefix")
CODECS: dict[str, tuple[str, json.JSONEncoder, str, Encode]] = {
    "openai": ("messages", COMPACT, "openai", lambda request, known: encode_chat(request, COMPATIBLE, known)),
    "echoing": ("messages", COMPACT, "openai", lambda request, known: encode_chat(request, ECHOING, known)),
    "openai-responses": ("input", COMPACT, "openai-responses", encode_responses),
    "anthropic": ("messages", COMPACT, "anthropic", encode_anthropic),
    "gemini": ("contents", json.JSONEncoder(), "gemini", encode_gemini),
    "bedrock": ("messages", json.JSONEncoder(ensure_ascii=False), "bedrock", encode_bedrock),
}
"""For each protocol the field of the history, the encoder of its client, the name of its cases, and its codec."""

TEXTS = st.sampled_from(["", " ", "\n", "So.", "größe\u2028", "a\ud800"])
IDS = st.sampled_from(["call_1", "call_1_2", "functions.f:0", "x" * 80])
MARKS = st.none() | st.sampled_from([Opaque(source, data) for source, data in SIGNATURES.items()])
SPOKEN: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Reasoning, TEXTS, MARKS),
    st.builds(ToolCall, IDS, st.just("read_file"), st.just("{}")),
)
TYPED: st.SearchStrategy[Block] = st.builds(Text, TEXTS) | st.just(Image("image/png", "AA=="))
TURNS = st.lists(
    st.tuples(
        st.lists(TYPED, min_size=1, max_size=2),
        st.lists(st.lists(SPOKEN, min_size=1, max_size=4), min_size=1, max_size=3),
    ),
    min_size=3,
    max_size=7,
)


def spoken(turns: list[tuple[list[Block], list[list[Block]]]]) -> list[Message]:
    """Return the messages of turns: a prompt, then replies, each with the results of its calls."""
    messages: list[Message] = []
    for typed, replies in turns:
        messages.append(Message("user", tuple(typed)))
        for blocks in replies:
            calls = [block for block in blocks if isinstance(block, ToolCall)]
            messages.append(assistant(*blocks))
            if calls:
                messages.append(Message("user", tuple(ToolResult(call.call_id, call.name, "found") for call in calls)))
    return messages


def requests_for(model: str, messages: list[Message]) -> Iterator[ModelRequest]:
    """Yield requests as a conversation sends them: step by step, continued, with a note, and shorter after an undo."""
    plain = ModelRequest(model, "Be brief.", (), (READ_FILE,), 8_000, effort="low")
    for end in range(1, len(messages) + 1):
        history = make_valid(messages[:end])
        if not history:
            continue
        if history[-1].role == "user":
            yield replace(plain, messages=history)
            yield replace(plain, messages=history, note="3 calls left", system="" if end % 5 == 0 else plain.system)
            partial = (*history, assistant(Text("So far")))
            yield replace(plain, messages=(*partial, user("continue")), effort=None)
            yield replace(plain, messages=partial, is_prefill=True)
        else:
            yield replace(plain, messages=make_valid([*messages[:end], user("go on")]), allows_calls=False)
    yield replace(plain, messages=make_valid([*messages[: len(messages) // 2], user("another way")]))
    yield replace(plain, messages=make_valid([*messages, user("back")]))


def written(codec: str, request: ModelRequest, encoded: EncodedMessages) -> bytes:
    return encoded.body(CODECS[codec][3](request, encoded))


LONG_LOOP = [([Text("Go.")], [[Text("I look."), ToolCall("c", "read_file", "{}")] for _ in range(3)]) for _ in range(4)]
SIGNED = [
    (
        [Text("Go.")],
        [[Reasoning("Hm.", Opaque("anthropic", SIGNATURES["anthropic"])), ToolCall("c", "read_file", "{}")]],
    )
    for _ in range(6)
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@example(turns=LONG_LOOP)
@example(turns=SIGNED)
@given(turns=TURNS)
def test_bytes_are_those_of_a_client_without_memory(
    codec: str, turns: list[tuple[list[Block], list[list[Block]]]]
) -> None:
    field, writer, case, encode = CODECS[codec]
    encoded = EncodedMessages(field, writer)
    # One value for each message, as in a conversation: they are found by identity.
    for request in requests_for(MODELS[case], spoken(turns)):
        assert written(codec, request, encoded) == writer.encode(encode(request, None)).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("codec", CODECS)
def test_work_for_a_request_does_not_grow_with_the_conversation(codec: str) -> None:
    """Each message is written a bounded number of times, so the bytes written for a request stay the same."""
    field, writer, case, _ = CODECS[codec]
    counting = Counting(writer)
    encoded = EncodedMessages(field, counting)
    messages: list[Message] = []
    history: tuple[Message, ...] = ()
    work: list[int] = []
    for number in range(60):
        call = ToolCall(f"c{number}", "read_file", '{"path": "a"}')
        for message in (
            user(f"prompt {number} " + "x" * 500),
            assistant(Text("I look. " * 50), call),
            Message("user", (ToolResult(call.call_id, "read_file", "found " * 100),)),
            assistant(Text("It is there. " * 50)),
        ):
            messages.append(message)
            if message.role == "user":
                added = make_valid(messages)[len(history) :]
                history = (*history, *added)
                counting.chars = 0
                written(codec, ModelRequest(MODELS[case], "Be brief.", history, (READ_FILE,), 8_000), encoded)
                work.append(counting.chars)
    early, late = max(work[10:30]), max(work[-20:])
    assert late <= 1.1 * early
    assert len(written(codec, ModelRequest(MODELS[case], "", history, (), 8_000), encoded)) > 10 * late


class Counting(json.JSONEncoder):
    """Counts the characters that it writes."""

    def __init__(self, writer: json.JSONEncoder) -> None:
        ascii_only, separators = writer.ensure_ascii, (writer.item_separator, writer.key_separator)
        super().__init__(ensure_ascii=ascii_only, separators=separators)
        self.chars = 0

    def encode(self, o: object) -> str:
        text = super().encode(o)
        self.chars += len(text)
        return text


def test_conversations_that_take_turns_are_both_remembered() -> None:
    """A sub-agent and its parent use one client."""
    counting = Counting(COMPACT)
    encoded = EncodedMessages("messages", counting)
    talks = [
        [user(f"{name} {number}") if number % 2 == 0 else assistant(Text("x" * 1_000)) for number in range(61)]
        for name in "ab"
    ]
    for end in range(1, 62, 2):
        for talk in talks:
            counting.chars = 0
            written("anthropic", ModelRequest("m", "", tuple(talk[:end]), (), 8_000), encoded)
    assert counting.chars < 10_000


def test_messages_with_marks_of_a_named_host_stay_the_same_values() -> None:
    own = OpaqueFilter("gate.test")
    marks = [Opaque("anthropic@gate.test", SIGNATURES["anthropic"]), Opaque("anthropic", SIGNATURES["anthropic"])]
    messages: tuple[Message, ...] = ()
    before: tuple[Message, ...] = ()
    for number in range(6):
        messages = (*messages, user(f"{number}"), assistant(Reasoning("hm", marks[number % 2]), Text("so")))
        sent = own.filter_request(ModelRequest("m", "", messages, (), 8_000)).messages
        assert all(one is other for one, other in zip(before, sent, strict=False))
        assert len(sent) == len(messages)
        before = sent
    kept_parts = [block.opaque for message in before for block in message.blocks if isinstance(block, Reasoning)]
    assert kept_parts == [Opaque("anthropic", SIGNATURES["anthropic"]), None] * 3
    shorter = own.filter_request(ModelRequest("m", "", (*messages[:4], user("other")), (), 8_000)).messages
    assert shorter[:4] == before[:4]
    assert shorter[4] == user("other")
