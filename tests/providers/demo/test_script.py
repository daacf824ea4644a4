"""Truncating, resuming and slicing replies of the demo model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.messages import Reasoning, Text, ToolCall
from qcode.providers.demo.guide import (
    LONG_CHARS,
    LONG_FILE_CHARS,
    LONG_THINKING_CHARS,
    VERY_LONG_CHARS,
    guide,
    numbered_thinking,
)
from qcode.providers.demo.scene import Script, body_of, cut_at, script_after, size_of, slices, tokens_of

_BLOCKS = st.one_of(
    st.builds(Text, st.text(max_size=30)),
    st.builds(Reasoning, st.text(max_size=30)),
    st.builds(ToolCall, st.just("c"), st.just("read"), st.text(max_size=30)),
)
_SCRIPTS = st.lists(_BLOCKS, max_size=4).map(tuple)


@given(_SCRIPTS, st.integers(1, 40))
def test_truncated_script_is_a_prefix_that_fills_the_cap(script: Script, cap: int) -> None:
    kept = cut_at(script, cap)
    whole = "".join(map(body_of, script))
    assert "".join(map(body_of, kept)) == whole[: cap * 4]
    assert size_of(kept) == min(size_of(script), cap * 4)


@given(_SCRIPTS, st.integers(1, 40))
def test_sent_text_and_the_rest_are_the_complete_script(script: Script, cap: int) -> None:
    text = _text(cut_at(script, cap))
    rest = script_after(script, text)
    assert rest is not None
    assert text + _text(rest) == _text(script)
    assert [block for block in rest if isinstance(block, ToolCall)] == [
        block for block in script if isinstance(block, ToolCall)
    ]
    assert not any(isinstance(block, Reasoning) for block in rest)


@given(st.text(max_size=200), st.integers(1, 50))
def test_slices_join_to_the_text(text: str, size: int) -> None:
    pieces = list(slices(text, size))
    assert "".join(pieces) == text
    assert all(pieces)


def test_unknown_partial_has_no_rest() -> None:
    assert script_after((Text("one two three"),), "something else") is None


def test_partial_with_another_start_is_found_by_its_end() -> None:
    assert script_after((Text("one two three"),), "... two") is None
    assert script_after((Text("one two three"),), "two ") == (Text("three"),)


def test_tokens_of_a_text_are_rounded_up() -> None:
    assert [tokens_of(size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_lines_of_a_long_text_are_unique() -> None:
    for text in (guide(VERY_LONG_CHARS), numbered_thinking(LONG_THINKING_CHARS)):
        lines = [line for line in text.split("\n") if line and line != "```"]
        assert len(lines) > 1_000
        assert len(set(lines)) == len(lines)


def test_long_texts_are_as_long_as_the_ladder_needs() -> None:
    assert 8_500 < tokens_of(len(guide(LONG_CHARS))) < 20_000
    assert 65_000 < tokens_of(len(guide(VERY_LONG_CHARS))) < 120_000
    assert tokens_of(len(guide(LONG_FILE_CHARS))) > 65_000
    assert tokens_of(len(numbered_thinking(LONG_THINKING_CHARS))) > 65_000


def _text(script: Script) -> str:
    return "".join(block.text for block in script if isinstance(block, Text))
