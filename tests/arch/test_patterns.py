"""No pattern of qcode takes more than linear time on any text.

Every pattern is tried on texts made of its characters. BOUNDED names the bound for a pattern that is slow only on
texts that cannot be long.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import cache

import pytest

from tests.arch.patterns import Found, collected, hostile, is_repeating

TINY, SHORT, LONG = 20, 1_600, 9_600
"""Lengths in characters. A pattern of exponential time takes a million steps for the first. From the second to the
third, linear time grows 6 times and quadratic time 36 times."""
MAX_GROWTH = 15
SLOW = 0.002
"""Seconds. A pattern that takes less for the long text is not measured further: quadratic ones take 10 ms and more."""
TEXTS, SAMPLED_TEXTS = 40, 4
"""Hostile texts of each pattern, in the broad run and in the quick one."""

BOUNDED = {
    "qcode.engine.reply.lead_in._LEAD_IN": "matched at one place, in the first hundred characters",
    "qcode.providers.demo.edits._REPLACE": "searched in the last 2,000 characters of a prompt",
    "qcode.providers.demo.scene._FILE": "searched in the last 2,000 characters of a prompt",
    "qcode.providers.demo.scenarios._COMMAND": "searched in the last 2,000 characters of a prompt",
    "qcode.providers.demo.scene._TAGGED": "searched in the first 20,000 characters of a prompt without tools",
    "qcode.providers.demo.scene._FENCED": "searched in the first 20,000 characters of a prompt without tools",
    "qcode.providers.text_calls.forms._PARTIAL_FENCE": "searched in the last characters of a text",
    "qcode.safety.redaction._PARTIAL_SECRET": "searched in the last 2,000 characters of a text",
    "qcode.safety.shell.languages._JQ_STRING_REST": "matched at one place of a command of limited length",
    "qcode.tui.prompt.labels._IMAGE_PATH": "searched in pasted text of limited length",
}

SHARES = 8
"""Cases that together try every pattern: finding the patterns takes seconds, so no case is made of one of them."""


@cache
def repeating() -> Mapping[str, Found]:
    return {found.name: found for found in collected() if is_repeating(found.pattern)}


def seconds(found: Found, text: str) -> float:
    subject = text.encode("latin-1", "replace") if isinstance(found.pattern.pattern, bytes) else text
    started = time.process_time()
    if found.is_anchored:
        found.pattern.match(subject)
        found.pattern.fullmatch(subject)
    else:
        for _ in found.pattern.finditer(subject):
            pass
    return time.process_time() - started


def slow_text(found: Found, count: int = TEXTS) -> str:
    """Return the first hostile text for which the time of a pattern grows faster than its length, empty if none."""
    for start, pump, end in hostile(found.pattern, LONG, count):
        texts = [f"{start}{pump * (length // len(pump))}{end}" for length in (TINY, SHORT, LONG)]
        if seconds(found, texts[0]) > SLOW and min(seconds(found, texts[0]) for _ in range(3)) > SLOW:
            return f"{start!r} {pump!r} {end!r} takes {SLOW} s for {TINY} characters"
        if seconds(found, texts[2]) > SLOW and (growth := growth_of_time(found, texts[1], texts[2])) > MAX_GROWTH:
            return f"{start!r} {pump!r} {end!r} takes {growth:.0f} times as long for 6 times the length"
    return ""


def growth_of_time(found: Found, short: str, long: str) -> float:
    """Return the time for `long` divided by the time for `short`, 0 if the former is below `SLOW`.

    They are measured in turns, and more often if the result is above `MAX_GROWTH`: a busy machine slows down one of
    them for a moment, but never speeds it up.
    """
    growth = 0.0
    for rounds in (3, 12):
        pairs = [(seconds(found, short), seconds(found, long)) for _ in range(rounds)]
        short_s, long_s = (min(times) for times in zip(*pairs, strict=True))
        growth = long_s / short_s if long_s > SLOW else 0.0
        if growth <= MAX_GROWTH:
            break
    return growth


def slow_patterns(names: list[str], count: int) -> dict[str, str]:
    return {name: text for name in names if (text := slow_text(repeating()[name], count))}


def names_to_measure() -> list[str]:
    assert BOUNDED.keys() <= repeating().keys(), "an exception is not a pattern"
    names = sorted(repeating().keys() - BOUNDED)
    assert len(names) > 200
    return names


def test_patterns_take_linear_time() -> None:
    assert slow_patterns(names_to_measure(), SAMPLED_TEXTS) == {}


@pytest.mark.broad
@pytest.mark.parametrize("share", range(SHARES))
def test_patterns_take_linear_time_with_more_texts(share: int) -> None:
    assert slow_patterns(names_to_measure()[share::SHARES], TEXTS) == {}


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"\s*\n", r"<[^>]*>"])
def test_pattern_that_is_not_linear_is_found(pattern: str) -> None:
    assert slow_text(Found(re.compile(pattern), "made here"), SAMPLED_TEXTS)
