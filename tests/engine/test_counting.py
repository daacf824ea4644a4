"""How large a prompt is taken to be, and what may be concluded from a count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.counting import TOKENS_PER_IMAGE, PromptCounter, estimate_message, estimate_text
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelRequest
from tests.engine.play import READ


def request(*messages: Message, system: str = "", tools: bool = False) -> ModelRequest:
    return ModelRequest("m", system, messages, (READ,) if tools else (), 100)


def test_four_bytes_are_a_token_rounded_up() -> None:
    assert [estimate_text(text) for text in ("", "a", "abcd", "abcde", "漢字", "🙂", "\ud800")] == [0, 1, 1, 2, 2, 1, 1]


@given(st.text(max_size=50), st.text(max_size=50))
def test_an_estimate_never_falls_when_text_is_added(left: str, right: str) -> None:
    assert estimate_text(left) <= estimate_text(left + right) <= estimate_text(left) + estimate_text(right)


def test_every_block_counts() -> None:
    image = Image("image/png", "AAAA")
    blocks: list[Block] = [Text("x" * 40), Reasoning("x" * 40), ToolCall("c", "read", "x" * 40), image]
    sizes = [estimate_message(assistant(block)) - estimate_message(assistant()) for block in blocks]
    assert sizes == [10, 10, 11, TOKENS_PER_IMAGE]
    result = ToolResult("c", "read", "x" * 40, images=(image,))
    assert estimate_message(Message("user", (result,))) - estimate_message(Message("user", ())) == 10 + TOKENS_PER_IMAGE


def test_system_and_tools_count_where_nothing_was_counted() -> None:
    counter = PromptCounter()
    bare = counter.size_of(request(user("hi")))
    assert not bare.is_counted
    assert counter.size_of(request(user("hi"), system="x" * 400)).tokens == bare.tokens + 100
    assert counter.size_of(request(user("hi"), tools=True)).tokens > bare.tokens


def test_what_the_provider_counted_is_taken_and_only_the_rest_estimated() -> None:
    counter = PromptCounter()
    first = request(user("hi"))
    counter.record(first, 5_000, 40)
    assert counter.context_tokens == 5_040
    size = counter.size_of(request(user("hi"), assistant(Text("y" * 400))))
    assert (size.tokens, size.is_counted) == (5_000 + 108, True)


def test_a_prompt_of_which_much_was_added_since_is_no_counted_one() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), 5_000)
    size = counter.size_of(request(user("hi"), assistant(Text("y" * 4_000))))
    assert (size.tokens, size.is_counted) == (5_000 + 1_008, False)


def test_another_history_is_estimated_again() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), 5_000)
    assert not counter.size_of(request(user("other"))).is_counted


def test_a_count_of_none_or_zero_teaches_nothing() -> None:
    counter = PromptCounter()
    counter.record(request(user("hi")), None)
    counter.record(request(user("hi")), 0)
    assert not counter.size_of(request(user("hi"))).is_counted


def test_what_the_first_attempt_counted_holds_for_every_continuation() -> None:
    counter = PromptCounter()
    first = ModelRequest("m", "", (user("go"),), (), 8000)
    counter.record(first, 5_000)
    asked = ModelRequest("m", "", (user("go"), assistant(Text("part")), user("resume")), (), 8000)
    counter.record(asked, 5_100)
    again = ModelRequest("m", "", (user("go"), assistant(Text("part and part")), user("resume")), (), 8000)
    size = counter.size_of(again)
    assert size.is_counted
    assert 5_000 < size.tokens < 5_100
