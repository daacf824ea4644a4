"""Vim mode against vim itself: the same keys on the same text give the same text, cursor and register.

These cases differ on purpose or are oddities of vim, and are not generated: `{` in a text of one line (vim 9.0 goes to
its end), a count of words over several lines, a case operator on no text (`gUh` in the first column), and the cursor
after a command that failed. In qcode an empty text never replaces a register.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.tui.prompt.vim.operators import ChangedText, Register
from tests.fakes.examples import share
from tests.tui.vim.real import ESCAPE, REDO, VIM, Case, State, in_ours, in_vim, shown, starts

pytestmark = pytest.mark.skipif(VIM is None, reason="vim is not installed")

FEWER = settings(max_examples=share(20))
"""Each example is a process of vim with several cases."""

WORDS = [
    "foo", "bar", "a", "x1", "foo_b", "b-c", "...", "(x)", "{", "}", "(", ")", "->", "A.B", "é", "日本", "<u>", "'q'",
    '"t"', "`k`", "[a]", "{z}", "f(a,b)", "d[i(0)]", '"it\'s"',
]  # fmt: skip
LINES = st.builds(
    lambda indent, words, gap, end: indent + gap.join(words) + end,
    st.sampled_from(["", "", "  ", "    "]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
    st.sampled_from([" ", " ", "  "]),
    st.sampled_from(["", "", " "]),
)
ONE_LINE = LINES
TEXTS = st.lists(st.one_of(LINES, LINES, LINES, st.sampled_from(["", "  "])), min_size=2, max_size=5).map("\n".join)
COUNTS = st.sampled_from(["", "", "", "2", "3"])

MOVES = [
    "h", "l", "w", "b", "e", "W", "B", "E", "ge", "gE", "0", "^", "$", "j", "k", "gg", "G", "}", "%", ";", ",", "fa",
    "Fa", "ta", "To", "fo", "t)", "T(", "f ", "t ",
]  # fmt: skip
OBJECTS = [around + name for around in "ia" for name in "wW\"'`([{)]}bB<p"]
TYPED = f"zz{ESCAPE}"
"""Typed after an operator that begins typing. If the operator fails, these keys do nothing in vim."""


def texts_with(
    commands: st.SearchStrategy[tuple[str, ...]], texts: st.SearchStrategy[str] = TEXTS
) -> st.SearchStrategy[Case]:
    placed = texts.flatmap(lambda text: st.tuples(st.just(text), st.sampled_from(starts(text))))
    return st.builds(lambda place, typed: Case(place[0], place[1], typed), placed, commands)


def one(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(*parts).map(lambda typed: ("".join(typed),))


def same_in_both(cases: list[Case]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answers = in_vim(cases, Path(folder))
    for case, expected in zip(cases, answers, strict=True):
        before = State(case.text, case.cursor, Register("RR"))
        has_idle = False
        for number, (ours, vims) in enumerate(zip(in_ours(case), expected, strict=True)):
            command = case.commands[number]
            if not vims.text or is_incomparable(before, ours, vims, command, has_idle=has_idle):
                break
            done = Case(case.text, case.cursor, case.commands[: number + 1])
            assert ours == vims, f"{shown(done)}\n  qcode {ours}\n  vim   {vims}"
            has_idle = has_idle or ours.text == before.text
            before = ours


def is_incomparable(before: State, ours: State, vims: State, command: str, *, has_idle: bool) -> bool:
    """Whether vim's answer says nothing: an empty yank, a failed command, undo of a change that changed nothing."""
    is_failed = ours.text == vims.text == before.text and ours.register == vims.register == before.register
    is_undo = command[-1] in ("u", REDO)
    return (
        vims.register == Register("")
        or (is_failed and (len(command) > 2 or is_undo))
        or (is_undo and (has_idle or ours.text == vims.text))
    )


@FEWER
@given(st.lists(texts_with(one(COUNTS, st.sampled_from([*MOVES, "{"]))), min_size=6, max_size=16))
def test_motion_reaches_the_same_position_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


@FEWER
@given(st.lists(texts_with(one(st.sampled_from("dy"), st.sampled_from(OBJECTS))), min_size=6, max_size=16))
def test_text_object_has_the_same_extent_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


@FEWER
@given(
    st.lists(
        texts_with(one(st.sampled_from("dy"), COUNTS, st.sampled_from(OBJECTS)), ONE_LINE), min_size=6, max_size=16
    )
)
def test_counted_text_object_has_the_same_extent_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


def doubled(operator: str) -> list[str]:
    return [operator[-1]] * 4


OPERATIONS = st.sampled_from(["d", "y", ">", "<", "gu", "gU", "g~", "c"]).flatmap(
    lambda operator: st.tuples(
        COUNTS,
        st.just(operator),
        COUNTS,
        st.sampled_from([*(move for move in MOVES if operator[0] != "g" or move not in "h0^"), *doubled(operator)]),
        st.just(TYPED if operator == "c" else ""),
    ).map(lambda typed: ("".join(typed),))
)


@FEWER
@given(st.lists(texts_with(OPERATIONS), min_size=6, max_size=16))
def test_operator_changes_the_same_text_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


SELECTIONS = st.tuples(st.sampled_from("vV"), st.lists(st.sampled_from([*MOVES, "2j", "3w", "o"]), max_size=3)).map(
    lambda typed: typed[0] + "".join(typed[1])
)
ON_SELECTION = st.sampled_from(["d", "y", "u", "U", "~", ">", "<", "J", "rZ", "x", "D", "Y", ESCAPE, f"c{TYPED}"])


@FEWER
@given(st.lists(texts_with(one(SELECTIONS, ON_SELECTION)), min_size=6, max_size=16))
def test_visual_mode_selects_the_same_text_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


@FEWER
@given(
    st.lists(
        texts_with(one(st.just("v"), st.sampled_from(OBJECTS), st.sampled_from(["d", "y", "U"])), ONE_LINE),
        min_size=6,
        max_size=16,
    )
)
def test_text_object_in_visual_mode_selects_the_same_text_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


@FEWER
@given(st.lists(texts_with(one(SELECTIONS, st.sampled_from("pP"))), min_size=6, max_size=16))
def test_put_over_a_selection_gives_the_same_text_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


TYPING = st.tuples(st.sampled_from("iaIAoOsSC"), st.sampled_from(["q1", "q 2", "q\n3"])).map(
    lambda typed: f"{typed[0]}{typed[1]}{ESCAPE}"
)
EDITS = st.one_of(
    TYPING,
    st.tuples(COUNTS, TYPING).map("".join),
    st.tuples(COUNTS, st.sampled_from(["x", "X", "D", "p", "P", "dd", "dw", "db", ">>", "rZ", "rY"])).map("".join),
    st.sampled_from(["J", "2J", "yy", "yw", '"ayw', '"ap', '"Ayw', '"_dw', "xp", "ddp", "j", "w", "G"]),
    st.sampled_from([".", ".", "2.", "u", "u", REDO, "2u"]),
)


@FEWER
@given(st.lists(texts_with(st.lists(EDITS, min_size=1, max_size=6).map(tuple)), min_size=4, max_size=10))
def test_edits_repeats_and_undo_give_the_same_text_as_in_vim(cases: list[Case]) -> None:
    same_in_both(cases)


def test_comparison_notices_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    same_in_both([Case("foo bar", 0, ("dw",))])
    monkeypatch.setattr("qcode.tui.prompt.vim.operators.delete", lambda text, _: ChangedText(text, 0))
    with pytest.raises(AssertionError):
        same_in_both([Case("foo bar", 0, ("dw",))])
