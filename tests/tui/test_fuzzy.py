"""Fuzzy matching."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.text.match import fold, match, rank


def best(query: str, *texts: str) -> str:
    found = rank(query, [(text,) for text in texts])
    return texts[found[0]] if found else ""


@pytest.mark.parametrize(
    ("query", "texts", "expected"),
    [
        ("dark", ["tokyo-dark", "dark"], "dark"),
        ("hc", ["archive", "high-contrast"], "high-contrast"),
        ("son", ["anthropic/claude-sonnet", "person/model"], "anthropic/claude-sonnet"),
        ("gpt mini", ["openai/gpt-5", "openai/gpt-5-mini"], "openai/gpt-5-mini"),
        ("MINI", ["openai/gpt-5-mini"], "openai/gpt-5-mini"),
        ("xyz", ["openai"], ""),
    ],
)
def test_best_match_comes_first(query: str, texts: list[str], expected: str) -> None:
    assert best(query, *texts) == expected


def test_empty_query_keeps_all_rows_in_order() -> None:
    assert rank("  ", [("b",), ("a",)]) == [0, 1]


def test_match_in_the_first_part_counts_more() -> None:
    assert rank("dark", [("light", "not dark"), ("dark", "")]) == [1, 0]


def test_words_may_match_different_parts() -> None:
    assert rank("gem 1m", [("gemini-pro", "1M context"), ("gemini-nano", "32k")]) == [0]


def test_positions_of_matched_letters_are_returned() -> None:
    found = match("hc", "high-contrast")
    assert found is not None
    assert found.positions == (0, 5)


def test_capital_that_is_two_letters_in_lower_case_keeps_all_positions() -> None:
    assert len(fold("İstanbul")) == len("İstanbul")
    assert match("stan", "İstanbul") is not None


def has_in_order(word: str, text: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in word)


def matches_scattered(word: str, text: str) -> bool:
    """Return whether the letters of `word` follow each other in `text`, the first one at the start of a word."""
    starts = [
        index
        for index, letter in enumerate(text)
        if letter == word[0] and (index == 0 or (letter.isalnum() and not text[index - 1].isalnum()))
    ]
    return any(has_in_order(word, text[start:]) for start in starts)


@example("-b", "A--Ab")  # a mark starts no word
@given(st.text(alphabet="abA- ", max_size=12), st.text(alphabet="abA- ", max_size=60))
def test_matched_letters_are_in_the_text_in_order(query: str, text: str) -> None:
    found, folded = match(query, text), fold(text)
    words = fold(query).split()
    assert (found is not None) is all(word in folded or matches_scattered(word, folded) for word in words)
    if found is not None:
        assert all(0 <= place < len(text) for place in found.positions)
        assert all(has_in_order(word, folded) for word in words)


def test_scattered_letters_match_only_from_the_start_of_a_word() -> None:
    assert match("bell", "disabled skills") is None
    assert match("dsk", "disabled skills") is not None


def test_match_in_a_long_repetitive_text_is_quick() -> None:
    assert match("a" * 30 + "b", "a" * 20_000) is None
    assert match("ab" * 15, "ab" * 10_000) is not None
