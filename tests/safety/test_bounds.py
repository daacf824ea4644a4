"""The limits of a command text hold the parser to a bounded time, and every command of every day is within them."""

from __future__ import annotations

import json
import random
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language, Parser

from qcode.safety.shell.bounds import MAX_CHARACTERS, MAX_DEPTH, MAX_STRUCTURAL_CHARACTERS, check_bounds

MAX_SECONDS = 0.05
DATA = Path(__file__).parent / "data"
WORDS = (
    *(
        "a",
        "b ",
        "1 ",
        "-f ",
        "a.b/c ",
        "=",
        "a=",
        "a=(",
        "+=",
        "=~",
        "'",
        '"',
        "\\",
        "\n",
        " \\\n",
        "#",
        "!",
        "~",
        "é",
    ),
    *("|", "&&", "||", ";", "|&", "&", "<", ">", ">>", "2>", "&>", "<<", "<<<", "<<E", "E\n", "<(", "$", "$(", "${"),
    *("(", ")", "((", "))", "$((", "{ ", "}", "{a,b}", "`", "[ ", " ]", "[[ ", " ]]", "?", "*", "..", ",", "@", "%"),
    *("if ", "then ", "else ", "fi ", "for ", "in ", "do ", "done ", "while ", "case ", "esac", "function ", "time "),
)
FILLERS = ("", "a", "a ", "-f x ", "aa bb ", "'", '"', "\\a", "é")
SLOWEST = (
    *("((a", "a|", "a=(", "$((", "..$((if =", "[[ (", "))\\", "$((-f do -f >>", "${@=~", "&[[ for &&[ ", "<<E((é"),
    *("case { \n", "function else <<<*))", "'", "a ", "\\", "#", "é", "x\n", "a;", "{a,b}", "$a"),
)


@cache
def parser() -> Parser:
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language()))


def cpu_time_of_parse(text: str) -> float:
    """Return the seconds of one parse; of several, the shortest, if the first was slow."""
    shortest = 1.0
    for _ in range(3):
        started = time.thread_time()
        parser().parse(text.encode())
        shortest = min(shortest, time.thread_time() - started)
        if shortest < MAX_SECONDS:
            break
    return shortest


def bounded(start: str, pump: str, filler: str) -> str:
    """Return the longest text of `start` and repetitions of `pump`, spread over it, that is within the limits."""
    most = MAX_CHARACTERS // len(pump)
    low, high = 0, most
    while low < high:
        count = (low + high + 1) // 2
        room = (MAX_CHARACTERS - len(start) - len(pump) * count) // (count * len(filler)) if filler else 0
        text = start + (pump + filler * max(room, 0)) * count
        low, high = (count, high) if not check_bounds(text) else (low, count - 1)
    room = (MAX_CHARACTERS - len(start) - len(pump) * low) // (low * len(filler)) if filler and low else 0
    return start + (pump + filler * max(room, 0)) * low


@pytest.mark.parametrize("pump", SLOWEST)
@pytest.mark.parametrize("filler", ["", "a ", "-f x "])
def test_parse_within_the_limits_takes_under_50_ms(pump: str, filler: str) -> None:
    text = bounded("", pump, filler)
    assert not check_bounds(text)
    assert cpu_time_of_parse(text) < MAX_SECONDS


@given(
    st.lists(st.sampled_from(WORDS), max_size=2).map("".join),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("".join),
    st.sampled_from(FILLERS),
)
def test_parse_of_any_pump_within_the_limits_takes_under_50_ms(start: str, pump: str, filler: str) -> None:
    assert cpu_time_of_parse(bounded(start, pump, filler)) < MAX_SECONDS


@pytest.mark.broad
def test_parse_of_three_thousand_pumps_within_the_limits_takes_under_50_ms() -> None:
    choice = random.Random(11)
    slow = []
    for _ in range(3_000):
        start, pump = ("".join(choice.choices(WORDS, k=choice.randint(least, 4))) for least in (0, 1))
        text = bounded(start, pump, choice.choice(FILLERS))
        if cpu_time_of_parse(text) >= MAX_SECONDS:
            slow.append((start, pump))
    assert not slow


def test_common_command_is_within_the_limits() -> None:
    lines = [
        line for name in ("daily", "reading", "asking") for line in (DATA / f"{name}.txt").read_text().splitlines()
    ]
    rows = [json.loads(line)["command"] for line in (DATA / "shell_commands.jsonl").read_text().splitlines()]
    assert len(lines) + len(rows) > 500
    assert [text for text in [*lines, *rows] if check_bounds(text)] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a" * (MAX_CHARACTERS + 1), "longer than"),
        ("a" * MAX_CHARACTERS, ""),
        ("a|" * (MAX_STRUCTURAL_CHARACTERS + 1), "operators"),
        ("a|" * MAX_STRUCTURAL_CHARACTERS, ""),
        ("a\n" * (MAX_STRUCTURAL_CHARACTERS + 1), "lines"),
        ("(" * (MAX_DEPTH + 1), "brackets"),
        ("(" * MAX_DEPTH + ")" * MAX_DEPTH, ""),
        ("()" * (MAX_STRUCTURAL_CHARACTERS // 2), ""),
        (")" * (MAX_DEPTH + 1), "brackets"),
        ("", ""),
    ],
)
def test_text_past_a_limit_is_named(text: str, why: str) -> None:
    found = check_bounds(text)
    assert (why in found) if why else not found


def test_limits_are_checked_quickly_on_a_megabyte() -> None:
    started = time.thread_time()
    assert check_bounds("(" * 1_000_000)
    assert time.thread_time() - started < 0.05
