"""Cleaned text does nothing to a terminal but print."""

from __future__ import annotations

import re
from typing import Any

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.text.clean import clean

FRAGMENTS = st.one_of(
    st.sampled_from(["\x1b", "\x1b[", "\x9b", "\x1b]", "\x9d", "\x1bP", "\x1b_", "\x1b\\", "\x9c", "\x07"]),
    st.sampled_from(["\x18", "\r\n", "\r", "\n", "\t", "\u202e", "\u2066", "\ud800", "\udc00"]),
    st.sampled_from(["31m", "52;c;QQ==", "0;title", "[2J", "c"]),
    st.text(alphabet=st.characters(), max_size=6),
)
FOREIGN = st.lists(FRAGMENTS, max_size=12).map("".join)

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Spy:
    """A listener for a pyte stream that records the names of the terminal commands."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        def record(*arguments: object, **keywords: object) -> None:
            self.seen.add(name)

        return record


@given(FOREIGN)
@example("\x1b]52;c;QQ==\x07after")
@example("\x9b31mred")
@example("a\x1b[3")
def test_terminal_only_prints_cleaned_text(text: str) -> None:
    spy = Spy()
    pyte.Stream(spy).feed(clean(text))  # type: ignore[arg-type]  # a listener need not be a whole screen
    assert spy.seen <= {"draw", "linefeed", "tab"}


@given(FOREIGN)
def test_cleaned_text_is_safe_and_cleaning_is_idempotent(text: str) -> None:
    cleaned = clean(text)
    assert UNSAFE.search(cleaned) is None
    assert clean(cleaned) == cleaned
    cleaned.encode("utf-8")


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cf"])))
def test_ordinary_text_is_returned_as_the_same_object(text: str) -> None:
    assert clean(text) is text


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("a\r\nb\rc\n", "a\nbc\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;unterminated\nnext line", "\nnext line"),
        ("\x1bPq#0;2;0\x9cafter", "after"),
        ("\x9b2Jx", "x"),
        ("\x1b(0x\x1b7y", "xy"),
        ("cut \x1b[38;5", "cut "),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("half \ud83d pair", "half  pair"),
        ("tab\tand\nnewline \U0001f469\u200d\U0001f4bb é", "tab\tand\nnewline \U0001f469\u200d\U0001f4bb é"),
    ],
)
def test_known_escape_sequences_are_removed(foreign: str, shown: str) -> None:
    assert clean(foreign) == shown
