"""Every stored transcript is sent as a valid history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.transcript import INTERRUPTED_RESULT, PreparedHistory, make_valid
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

IDS = st.sampled_from(["c1", "c2", "c3"])
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "x", "y\n"]), st.sampled_from([None, None, Opaque("gemini", "{}")])),
    st.builds(Reasoning, st.sampled_from(["", "hm"]), st.sampled_from([None, Opaque("anthropic", "{}")])),
    st.builds(ToolCall, IDS, st.just("read"), st.just("{}")),
    st.builds(ToolResult, IDS, st.just("read"), st.just("content")),
    st.builds(Image, st.just("image/png"), st.just("AA==")),
)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4).map(tuple)), max_size=8
)


def check(messages: tuple[Message, ...]) -> None:
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        assert message.role == ("assistant" if index % 2 else "user")
        assert any(not isinstance(block, Reasoning) for block in message.blocks)
        results = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        assert results == open_calls
        assert all(isinstance(block, ToolResult) for block in message.blocks[: len(results)])
        open_calls = [call.call_id for call in message.calls]
        assert len(set(open_calls)) == len(open_calls)
        allowed = (Text, Image, ToolResult) if message.role == "user" else (Text, Reasoning, ToolCall)
        assert all(isinstance(block, allowed) for block in message.blocks)
        assert all(block.text or block.opaque for block in message.blocks if isinstance(block, Text))
    assert not open_calls


@given(MESSAGES)
def test_any_sequence_of_messages_becomes_a_valid_history(messages: list[Message]) -> None:
    check(make_valid(messages))


@given(MESSAGES, st.lists(st.integers(0, 3), max_size=4))
def test_history_prepared_incrementally_equals_the_history_prepared_at_once(
    messages: list[Message], sizes: list[int]
) -> None:
    history, given_so_far = PreparedHistory(), list[Message]()
    rest = list(messages)
    for size in (*sizes, len(rest)):
        given_so_far, rest = given_so_far + rest[:size], rest[size:]
        assert history.prepare(given_so_far) == make_valid(given_so_far)
        assert history.prepare(given_so_far) == make_valid(given_so_far)
    assert history.prepare(messages[:1]) == make_valid(messages[:1]), "another history"


def test_prepared_history_is_not_prepared_again() -> None:
    messages = [message for number in range(50) for message in (user(f"{number}"), assistant(Text("answer")))]
    history = PreparedHistory()
    before = history.prepare(messages)
    after = history.prepare([*messages, user("more")])
    assert all(one is other for one, other in zip(before, after, strict=False))
    assert history.settled == 100


@given(MESSAGES)
def test_prepared_history_is_unchanged_by_a_second_preparation(messages: list[Message]) -> None:
    once = make_valid(messages)
    assert make_valid(once) == once


@given(MESSAGES)
def test_no_user_text_is_lost(messages: list[Message]) -> None:
    typed = [
        block for m in messages if m.role == "user" for block in m.blocks if isinstance(block, Text) and block.text
    ]
    sent = [block for m in make_valid(messages) if m.role == "user" for block in m.blocks if isinstance(block, Text)]
    assert sent == typed


CALL = ToolCall("c1", "read", "{}")


def test_valid_history_stays_the_same_messages() -> None:
    valid = (
        user("a"),
        assistant(Text("b"), CALL),
        Message("user", (ToolResult("c1", "read", "r"),)),
        assistant(Text("c")),
    )
    assert all(left is right for left, right in zip(make_valid(valid), valid, strict=True))


def test_unanswered_call_gets_a_result_that_says_so() -> None:
    result = ToolResult("c1", "read", INTERRUPTED_RESULT, is_error=True)
    assert make_valid([user("a"), assistant(CALL)])[-1] == Message("user", (result,))
    assert make_valid([user("a"), assistant(CALL), user("b")])[-1] == Message("user", (result, Text("b")))
    assert make_valid([user("a"), assistant(CALL), assistant(Text("x"))])[2] == Message("user", (result,))


def test_results_come_first_in_the_order_of_the_calls() -> None:
    other = ToolCall("c2", "read", "{}")
    first, second = ToolResult("c1", "read", "1"), ToolResult("c2", "read", "2")
    sent = make_valid([user("a"), assistant(CALL, other), Message("user", (Text("go on"), second, first))])
    assert sent[-1] == Message("user", (first, second, Text("go on")))


def test_messages_before_the_first_prompt_are_dropped_with_their_results() -> None:
    result = Message("user", (ToolResult("c1", "read", "1"),))
    assert make_valid([assistant(CALL), result, assistant(Text("x")), user("hi")]) == (user("hi"),)


def test_result_without_a_call_is_dropped() -> None:
    orphan_result = Message("user", (ToolResult("c9", "read", "1"), Text("c")))
    assert make_valid([user("a"), assistant(Text("b")), orphan_result]) == (
        user("a"), assistant(Text("b")), user("c"),
    )  # fmt: skip


def test_neighbors_of_a_dropped_message_are_merged() -> None:
    orphan = Message("user", (ToolResult("c9", "read", "1"),))
    sent = make_valid([user("a"), assistant(Text("b")), orphan, assistant(Text("c")), user("d")])
    assert sent == (user("a"), assistant(Text("b"), Text("c")), user("d"))


def test_thinking_only_message_is_not_sent() -> None:
    assert make_valid([user("a"), assistant(Reasoning("hm")), user("b")]) == (Message("user", (Text("a"), Text("b"))),)


def test_signed_empty_text_keeps_its_position() -> None:
    signed = Text("", Opaque("gemini", "{}"))
    assert make_valid([user("a"), assistant(Text("b"), signed)])[-1].blocks == (Text("b"), signed)
