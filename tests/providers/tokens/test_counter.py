"""Counts with the real vocabulary: exact, bounded, and never a reason to wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.counting import bound_text
from qcode.providers.tokens import DATA, SLICE_CHARS, TokenCounter, load_vocabulary, read_vocabulary, slices

if TYPE_CHECKING:
    from tiktoken import Encoding

COUNTER = TokenCounter()
CODE = 'def add(left: int, right: int) -> int:\n    """Sum."""\n    return left + right\n\n\n'
texts = st.text(st.sampled_from("ab zZ  \n\t\r.,;/'\"019(){}中é😀\u3000\u2028\x1c_-"), max_size=80) | st.text(
    max_size=80
)


def counted(text: str) -> int:
    assert COUNTER.load()
    tokens = COUNTER.count(text)
    assert tokens is not None
    return tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
        ("<|endoftext|>", 7),
        ("\n\n\n\n", 1),
        (CODE, 23),
        ("\ud800", 1),
    ],
)
def test_text_has_its_recorded_count(text: str, tokens: int) -> None:
    assert counted(text) == tokens


@given(texts)
def test_count_is_between_zero_and_the_byte_length(text: str) -> None:
    assert bool(text) <= counted(text) <= bound_text(text)


@given(texts, st.integers(2, 12))
def test_slices_are_small_and_join_to_the_text(text: str, size: int) -> None:
    found = list(slices(text, size))
    assert "".join(found) == text
    assert all(0 < len(piece) <= size for piece in found) or text == ""


def test_sliced_long_text_has_the_count_of_the_encoder() -> None:
    text = CODE * 2_000
    encoder = load_vocabulary()
    assert encoder is not None
    assert len(text) > 2 * SLICE_CHARS
    assert counted(text) == len(encoder.encode_ordinary(text))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", [" ", " \n", "a", "=", "\t", "x ", "中"])
def test_endless_repetition_is_counted_without_a_crash(text: str) -> None:
    long = text * 400_000
    assert 0 < counted(long) <= bound_text(long)


def test_count_never_waits_for_the_vocabulary_and_loads_it_once() -> None:
    may_load, asked = threading.Event(), []

    def slow() -> Encoding | None:
        asked.append(threading.current_thread())
        assert may_load.wait(10)
        return load_vocabulary()

    counter = TokenCounter(slow)
    assert [counter.count("hello world") for _ in range(3)] == [None, None, None]
    may_load.set()
    asked[0].join(10)
    assert counter.count("hello world") == 2
    assert len(asked) == 1
    assert asked[0] is not threading.current_thread()
    assert asked[0].daemon


def test_missing_vocabulary_disables_counting_without_retries() -> None:
    asked = []

    def missing() -> None:
        asked.append(1)

    counter = TokenCounter(missing)
    assert [counter.load(), counter.load(), counter.count("x")] == [False, False, None]
    assert asked == [1]


def test_vocabulary_loads_quickly_and_once() -> None:
    start = time.perf_counter()
    read_vocabulary(DATA)
    took = time.perf_counter() - start
    assert took < 5, "the vocabulary takes 0.3 s on an ordinary machine"
    assert load_vocabulary() is load_vocabulary()
