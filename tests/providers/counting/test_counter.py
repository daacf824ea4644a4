"""Counts with the real vocabulary: exact, incremental, bounded, and never more work than the question needs."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qcode.providers.counting import StreamCounter, TokenCounter, estimate, upper_bound, vocabulary
from qcode.providers.counting.counter import MAX_WORD_CHARS, SLICE_CHARS, slices
from qcode.providers.counting.vocabulary import Encoder, load

COUNTER = TokenCounter()
CODE = 'def add(left: int, right: int) -> int:\n    """Sum."""\n    return left + right\n\n\n'
texts = st.text(st.sampled_from("ab zZ  \n\t\r.,;/'\"019(){}中é😀\u3000\u2028\x1c_-"), max_size=80) | st.text(
    max_size=80
)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


class Forbidden:
    """A vocabulary that must not be needed."""

    def __call__(self) -> Encoder | None:
        raise AssertionError("the vocabulary was loaded")


class Watched:
    """The real encoder, and how many characters it was given."""

    def __init__(self) -> None:
        encoder = load()
        assert encoder is not None
        self._encoder = encoder
        self.chars = 0
        self.longest = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.chars += len(text)
        self.longest = max(self.longest, len(text))
        return self._encoder.encode_ordinary(text)


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
def test_known_texts_have_their_known_counts(text: str, tokens: int) -> None:
    assert COUNTER.count(text) == tokens


@given(texts)
def test_a_count_lies_between_nothing_and_the_byte_length(text: str) -> None:
    assert bool(text) <= COUNTER.count(text) <= COUNTER.upper_bound(text) == upper_bound(text)


@given(texts, st.lists(st.integers(0, 80), max_size=8))
def test_pieces_count_at_least_as_much_as_the_whole_and_little_more(text: str, cuts: list[int]) -> None:
    pieces = pieces_of(text, cuts)
    parts = sum(COUNTER.count(piece) for piece in pieces)
    whole = COUNTER.count(text)
    assert parts <= upper_bound(text)
    assert whole - len(pieces) <= parts <= whole + 16 * len(pieces)


@given(texts, st.lists(st.integers(0, 80), max_size=30))
@example("word  word\n word", [4, 5, 6])
@example("a 'ss b 123456 c", [1, 2, 3, 9, 12])
def test_a_stream_counts_what_its_whole_text_counts(text: str, cuts: list[int]) -> None:
    COUNTER.load()
    stream = StreamCounter(COUNTER)
    for piece in pieces_of(text, cuts):
        assert stream.feed(piece) == stream.tokens
    assert stream.finish() == stream.tokens == COUNTER.count(text)


@given(texts, st.integers(2, 12))
def test_slices_are_the_text_and_each_is_small(text: str, size: int) -> None:
    found = list(slices(text, size))
    assert "".join(found) == text
    assert all(0 < len(piece) <= size for piece in found) or text == ""


def test_a_long_text_in_slices_counts_what_the_encoder_says_of_the_whole() -> None:
    text = CODE * 2_000
    encoder = load()
    assert encoder is not None
    assert len(text) > 2 * SLICE_CHARS
    assert COUNTER.count(text) == len(encoder.encode_ordinary(text))


@pytest.mark.parametrize("text", [" ", " \n", "a", "=", "\t", "x ", "中"])
def test_endless_repetition_is_counted_without_a_crash(text: str) -> None:
    long = text * 400_000
    assert 0 < COUNTER.count(long) <= upper_bound(long)


def test_a_stream_costs_what_its_text_is_long() -> None:
    watched = Watched()
    counter = TokenCounter(lambda: watched)
    counter.load()
    stream = StreamCounter(counter)
    text = CODE * 300 + "x" * 20_000 + " " * 20_000
    for start in range(0, len(text), 3):
        stream.feed(text[start : start + 3])
    stream.finish()
    assert watched.chars == len(text)
    assert watched.longest < 2 * MAX_WORD_CHARS


def test_a_long_stream_in_small_pieces_counts_what_its_whole_text_counts() -> None:
    COUNTER.load()
    text = CODE * 300 + "word " * 5_000
    stream = StreamCounter(COUNTER)
    for start in range(0, len(text), 3):
        stream.feed(text[start : start + 3])
    assert stream.finish() == COUNTER.count(text)


def test_a_stream_shows_its_growth_before_a_word_ends() -> None:
    COUNTER.load()
    stream = StreamCounter(COUNTER)
    assert stream.feed("Ab" * 40) == 20
    assert stream.feed(" next") < 80


def test_a_stream_loads_nothing_until_it_is_finished() -> None:
    counter = TokenCounter(Forbidden())
    stream = StreamCounter(counter)
    assert stream.feed("one two three four") == estimate("one two three four")
    with pytest.raises(AssertionError, match="loaded"):
        stream.finish()


def test_a_vocabulary_that_comes_while_a_text_streams_counts_all_of_it() -> None:
    counter = TokenCounter()
    stream = StreamCounter(counter)
    stream.feed(CODE)
    assert not counter.is_exact
    assert counter.load()
    stream.feed(CODE)
    assert stream.finish() == COUNTER.count(CODE + CODE)


def test_a_text_that_fits_by_its_bytes_needs_no_vocabulary() -> None:
    counter = TokenCounter(Forbidden())
    assert counter.fits("x" * 100, 100)
    assert counter.fits("", 0)
    assert not counter.fits("x", -1)
    with pytest.raises(AssertionError, match="loaded"):
        counter.fits("x" * 100, 99)


def test_a_text_fits_up_to_its_exact_count() -> None:
    tokens = COUNTER.count(CODE)
    assert tokens < upper_bound(CODE)
    assert COUNTER.fits(CODE, tokens)
    assert not COUNTER.fits(CODE, tokens - 1)


def test_counting_stops_once_a_text_does_not_fit() -> None:
    watched = Watched()
    assert not TokenCounter(lambda: watched).fits(CODE * 10_000, 1_000)
    assert watched.chars <= SLICE_CHARS


def test_without_a_vocabulary_four_characters_are_a_token() -> None:
    asked = []

    def missing() -> None:
        asked.append(1)

    counter = TokenCounter(missing)
    assert counter.load() is False
    assert counter.count("x" * 400) == 100
    assert counter.count("") == 0
    assert counter.count("x") == 1
    assert counter.fits("x" * 400, 100)
    assert not counter.fits("x" * 404, 100)
    stream = StreamCounter(counter)
    for _ in range(100):
        stream.feed("abcd")
    assert stream.tokens == stream.finish() == 100
    assert asked == [1]


@settings(max_examples=20)
@given(st.text(max_size=200))
def test_an_estimate_is_never_more_than_the_bound(text: str) -> None:
    assert 0 <= estimate(text) <= upper_bound(text)


def test_loading_is_quick_and_happens_once() -> None:
    begun = time.perf_counter()
    vocabulary.read(Path(vocabulary.__file__).parent)
    took = time.perf_counter() - begun
    assert took < 5, "the vocabulary takes 0.3 s on an ordinary machine"
    assert vocabulary.load() is vocabulary.load()
