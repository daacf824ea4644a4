"""Reading untrusted text takes linear time, or stops at a limit: 1 MB takes at most 20 times as long as 100 kB."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.engine.reply.repetition import RepetitionDetector
from qcode.engine.reply.seam import Seam
from qcode.protocol.tools import Refused
from qcode.safety.hidden_writes import protected_write_reason
from qcode.safety.paths import SessionFolders, judge_path
from qcode.safety.redaction import Redactor
from qcode.text.clean import clean, visible
from qcode.tools import text_file
from qcode.tools.editing import match
from qcode.tools.text_file import from_text
from tests.fakes.examples import share
from tests.safety.policies import judge_shell

SHORT, MIDDLE, LONG = 10_000, 100_000, 1_000_000
FLOOR_S = 0.02
"""Below this the clock and the caches decide."""

MAX_GROWTH = 20
"""The maximum ratio of the times for ten times the text. A quadratic reader needs 100.

A linear one needs up to 14, because only the shorter text fits into the cache of the processor. If other processes use
the cache too, the ratio is larger.
"""

PIECE = 4_000
"""Characters that arrive at once from a stream."""


def judge(text: str) -> None:
    judge_shell(text, Path("/nowhere"))


def redact(text: str) -> None:
    Redactor(["secret-value-1", "another value"]).redact(text)


def edit(text: str) -> None:
    half = len(text) // 2
    with suppress(Refused):
        match.apply(text, text[:half] + "!", "new", "a.txt")


def edit_a_passage(text: str) -> None:
    with suppress(Refused):
        match.apply(text, text[:2_000].replace(" ", "  ") + "x", "new", "a.txt")


def show_a_diff(text: str) -> None:
    text_file.diff_of("a.txt", from_text(text), from_text(text.replace("a", "b") + "end"))


def join(text: str) -> None:
    seam = Seam(text[: len(text) // 2])
    for start in range(len(text) // 2, len(text), PIECE):
        seam.feed(text[start : start + PIECE])
    seam.flush()


def notice_repetition(text: str) -> None:
    detector = RepetitionDetector()
    for start in range(0, len(text), PIECE):
        if detector.add(text[start : start + PIECE]) is not None:
            return


READERS: dict[str, Callable[[str], object]] = {
    "judge": judge,
    "protected names": lambda text: protected_write_reason(text, SessionFolders(Path("/work"), home=Path("/home/u"))),
    "path": lambda text: judge_path(SessionFolders(Path("/work"), home=Path("/home/u")), text, "read"),
    "redaction": redact,
    "edit": edit,
    "edit of a passage": edit_a_passage,
    "diff": show_a_diff,
    "cleaning": clean,
    "visible": visible,
    "seam": join,
    "repetition": notice_repetition,
}
PUMPS = [
    "a.b-c.d-", "a", " ", "\n", "x = 1\n", "; ", "$(", "${a}", "`", "'", '"', "((a", "{a,", "<<a\n", "|& ", "\\\n",
    "eyJ", "eyJa.", "Bearer ", "https://a:b@", "AKIA", "```\n", "~~~\n", "- a\n", "| a | b |\n", "\x1b[", "\x1b]0;",
    "\u202e", "e\u0301", "\U0001f468\u200d", "> ~/.ba", "/.git", "key=", "-----BEGIN ", "\t\n", "\r\n",
    "ab\nba\n", "1) ", "~/", "../",
]  # fmt: skip


def broad(pump: str) -> Any:
    return pytest.param(pump, marks=pytest.mark.broad)


def seconds(read: Callable[[str], object], pump: str, length: int) -> float:
    text = (pump * (length // len(pump) + 1))[:length]
    gc.disable()  # each collection visits all objects of the test process, and a longer text causes more of them
    try:
        started = time.process_time()
        read(text)
        return time.process_time() - started
    finally:
        gc.enable()


def check_growth(read: Callable[[str], object], pump: str) -> None:
    """Assert that ten times the text takes at most `MAX_GROWTH` times as long, at both steps."""
    for length in (SHORT, MIDDLE):
        short, long = seconds(read, pump, length), seconds(read, pump, length * 10)
        for _ in range(6):  # perhaps something else ran: the best time of each length decides
            if long <= MAX_GROWTH * max(short, FLOOR_S):
                break
            short = min(short, seconds(read, pump, length))
            long = min(long, seconds(read, pump, length * 10))
        assert long <= MAX_GROWTH * max(short, FLOOR_S), (
            f"{pump!r}: {short:.3f} s, and {long:.3f} s for ten times the text"
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("pump", [PUMPS[0], "$(", broad("x = 1\n"), broad("eyJa.")])
def test_megabyte_takes_linear_time(name: str, pump: str) -> None:
    check_growth(READERS[name], pump)


@pytest.mark.broad
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=share(60))
@given(pump=st.one_of(st.sampled_from(PUMPS), st.lists(st.sampled_from(PUMPS), min_size=2, max_size=4).map("".join)))
def test_megabyte_of_anything_takes_linear_time(name: str, pump: str) -> None:
    check_growth(READERS[name], pump)


def test_quadratic_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def read(text: str) -> None:
        nonlocal now
        now += (len(text) / MIDDLE) ** 2

    monkeypatch.setattr(time, "process_time", lambda: now)
    with pytest.raises(AssertionError, match="for ten times the text"):
        check_growth(read, "ab")
