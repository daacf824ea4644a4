"""An edit takes a limited time on any file and any arguments, and refuses past its limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher, unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.tools import Refused
from qcode.text import diff as sequences
from qcode.text.diff import BoundedMatcher, Steps, count_changes
from qcode.tools import text_file
from qcode.tools.editing import match
from qcode.tools.editing.nearest import describe_nearest

LINES = 1_500
EQUAL = "x = 1\n" * LINES
EVERY_SECOND = "x = 1\ny = 2\n" * (LINES // 2)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def test_edit_of_equal_lines_replaces_every_second_in_seconds() -> None:
    indented = "".join(f"  {line}\n" for line in EQUAL.splitlines())
    with at_most(5):
        edited = match.apply(indented, EQUAL, EVERY_SECOND, "a.txt")
    assert edited.text == "".join(f"  {line}\n" for line in EVERY_SECOND.splitlines())


def test_line_endings_of_equal_lines_are_kept_in_seconds() -> None:
    short, changed = "x = 1\n" * 1_400, "x = 1\ny = 2\n" * 700
    document = text_file.from_text("first\r\n" + short + "last\n")
    with at_most(5):
        after = text_file.with_text(document, f"first\n{changed}last\n")
    assert after.endings[0] == "\r\n"
    assert after.endings[-1] == "\n"


@pytest.mark.broad
def test_missed_edit_in_200_000_similar_lines_names_the_nearest_in_seconds() -> None:
    lines = "".join(f"    value_{number} = compute(thing, {number})\n" for number in range(200_000))
    with at_most(6), pytest.raises(Refused, match="The nearest passage is at lines"):
        match.apply(lines, "    value = compute(thing, 77777)\n    other()\n", "x", "a.txt")


@pytest.mark.broad
def test_diff_of_equal_lines_takes_seconds() -> None:
    before = "".join(f"{number % 100}\n" for number in range(20_000))
    after = "".join(f"{number % 100}\nnew\n" for number in range(20_000))
    with at_most(8):
        diff = text_file.diff_of("a.txt", text_file.from_text(before), text_file.from_text(after))
    assert count_changes(diff).startswith("+")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("present", "old"),
    [
        ("x\n", "\n" * 10_000 + "y"),
        ("x\n", "existing " * 10_000),
        ("x\n", " " * 50_000 + "1"),
        ("x\n", "1\ty\n" + "2\t" + "1" * 10_000),
        ("x\n", "a" + "\u0300\u0316" * 20_000),
        ("x\n", "&lt;&#" + "1" * 5_000 + ";"),
        ("\u2026" * 20_000, "." * 10_000),
        ("    x\n" * 20_000, "x\n" * 5_000 + "y\n"),
        ("x\n", "2\t"),
    ],
    ids=["breaks", "placeholder", "blanks", "digits", "marks", "entity", "ellipses", "near lines", "number alone"],
)
def test_hostile_missing_passage_is_refused_in_seconds(present: str, old: str) -> None:
    with at_most(4), pytest.raises(Refused, match=r"was not found in a\.txt"):
        match.apply(present, old, "1: " + " " * 50_000 + "1" * 50_000, "a.txt")


def test_varying_indentation_is_refused_past_the_limit() -> None:
    with at_most(4), pytest.raises(Refused, match="matches too many passages"):
        match.apply("x\n" * 20_000, "x\n" * 200 + " x\n", "y", "a.txt")


def test_replacement_of_many_places_by_a_long_text_is_refused() -> None:
    with at_most(4), pytest.raises(Refused, match="more than 67,108,864"):
        match.apply("x" * 100_000, "x", "y" * 10_000, "a.txt", replaces_all=True)
    with at_most(8), pytest.raises(Refused, match="more than 2,000,000 lines"):
        match.apply("x \n" * 10_000, "x\n", "\n" * 1_000, "a.txt", replaces_all=True)


def test_number_inside_a_line_is_kept_when_line_numbers_are_removed() -> None:
    edited = match.apply("a\nb\n", "1: a\n2: b\n", "f(12: x)\n2: c\n", "a.txt")
    assert edited.text == "f(12: x)\nc\n"


@pytest.mark.parametrize(
    "old", ["// ... existing code", "  ...", "a\n\n \t\u2026", "# rest of the file ...", "<!-- ...-->"]
)
def test_error_about_a_missing_passage_names_its_omission_marker(old: str) -> None:
    assert "seems to omit lines" in describe_nearest("x\n", old, "", "a.txt")


@pytest.mark.parametrize("old", ["a ...", "existing\nx ...", "preexisting ...", "#x ...", ".."])
def test_error_about_a_missing_passage_without_omission_marker_names_none(old: str) -> None:
    assert "seems to omit lines" not in describe_nearest("x\n", old, "", "a.txt")


_SEQUENCES = st.lists(st.sampled_from("abcd"), max_size=24)


@given(_SEQUENCES, _SEQUENCES)
def test_comparison_below_the_limit_equals_difflib(a: list[str], b: list[str]) -> None:
    assert BoundedMatcher(a, b).get_opcodes() == SequenceMatcher(None, a, b).get_opcodes()
    expected = list(unified_diff(a, b, "a", "b", lineterm="", n=2))
    assert list(sequences.unified_diff(a, b, "a", "b", context=2)) == expected


@given(_SEQUENCES, _SEQUENCES, st.integers(0, 60))
def test_comparison_past_the_limit_still_converts_the_old_text_to_the_new(
    a: list[str], b: list[str], steps: int
) -> None:
    made: list[str] = []
    done = 0
    for kind, start, end, other, other_end in BoundedMatcher(a, b, steps=Steps(steps)).get_opcodes():
        assert (start, other) == (done, len(made))
        assert (a[start:end] == b[other:other_end]) == (kind == "equal")
        made += b[other:other_end]
        done = end
    assert (done, made) == (len(a), b)


def test_comparison_past_the_limit_finds_lines_that_occur_once() -> None:
    a = [f"line {number}" for number in range(400)]
    b = [line for number, line in enumerate(a) if number % 7]
    kinds = {kind for kind, *_ in BoundedMatcher(a, b, steps=Steps(0)).get_opcodes()}
    assert kinds == {"equal", "delete"}
