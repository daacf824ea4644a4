"""`<think>…</think>` at the start of a reply is reasoning, however the tags are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.reply.attempt import InlineThinking
from qcode.protocol.messages import Reasoning, Text, assistant
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import ReasoningDelta
from tests.engine.play import cut, play, text

INLINE = ModelFacts(has_inline_thinking=True)


def split(message: str, size: int) -> tuple[str, str]:
    """Return the reasoning and the text of `message`, fed in pieces of `size` characters."""
    filtered = InlineThinking()
    segments = [segment for at in range(0, len(message), size) for segment in filtered.feed(message[at : at + size])]
    segments += filtered.flush()
    assert all(segment.text for segment in segments)
    reasoning, answer = ([part.text for part in segments if part.kind == kind] for kind in ("reasoning", "text"))
    return "".join(reasoning), "".join(answer)


ROWS = [
    ("<think>hm</think>answer", "hm", "answer"),
    ("\n <think>\nhm\n</think>\n\nanswer\n", "\nhm\n", "answer\n"),
    ("<think>a < b </thin </think>c", "a < b </thin ", "c"),
    ("<think>hm", "hm", ""),
    ("<think>hm</thi", "hm</thi", ""),
    ("<thi", "<thi", ""),
    ("<think></think>answer", "", "answer"),
    ("answer <think>x</think>", "", "answer <think>x</think>"),
    ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    ("<thinking>x", "", "<thinking>x"),
    ("  plain", "", "  plain"),
    ("<", "<", ""),
    (" \n", "", " \n"),
    ("", "", ""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(("message", "reasoning", "answer"), ROWS)
def test_thinking_is_separated_from_text(message: str, reasoning: str, answer: str, size: int) -> None:
    assert split(message, size) == (reasoning, answer)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "think>", "</", "a", " ", "\n"]), max_size=12),
    st.integers(1, 9),
)
def test_result_does_not_depend_on_how_the_text_is_split(parts: list[str], size: int) -> None:
    sent_text = "".join(parts)
    assert split(sent_text, size) == split(sent_text, max(1, len(sent_text)))


def test_inline_thinking_is_shown_and_stored_as_reasoning() -> None:
    played = play(text("<th", "ink>hm", "</think>", "\n\nHello"), facts=INLINE)
    assert played.shown == played.end.text == "Hello"
    assert played.messages[-1] == assistant(Reasoning("hm"), Text("Hello"))
    assert "".join(event.text for event in played.events if isinstance(event, ReasoningDelta)) == "hm"


def test_reply_truncated_inside_inline_thinking_is_only_thinking() -> None:
    played = play(cut("<think>hm "), cut("<think>hmm "), text("<think>x</think>Answer."), facts=INLINE)
    assert played.end.api_calls.repairs == 1
    assert played.end.text == played.shown == "Answer."


def test_continuation_may_think_again_before_its_text() -> None:
    played = play(
        cut("<think>a</think>lost"), cut("<think>a</think>The first half "),
        text("<think>where was I</think>The first half of it and the second."), facts=INLINE,
    )  # fmt: skip
    assert played.end.text == played.shown == "The first half of it and the second."


def test_other_model_keeps_thinking_tags_as_text() -> None:
    assert play(text("<think>hm</think>x")).end.text == "<think>hm</think>x"
