"""Carries new lines over from the indentation that was asked for to the one that a file has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd

_USUAL_WIDTH = 4


def indent_of(line: str) -> str:
    """Return the blanks and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def pairs_of(asked: Sequence[str], present: Sequence[str]) -> dict[str, str] | None:
    """Return which indentation of the file stands for each that was asked for.

    None where no one-to-one relation holds that keeps what is deeper deeper: such passages do not mean the same.
    """
    pairs: dict[str, str] = {}
    for want, line in zip(asked, present, strict=True):
        if want.strip() and pairs.setdefault(indent_of(want), indent_of(line)) != indent_of(line):
            return None
    depths = sorted((_columns(asked, _USUAL_WIDTH), _columns(there, _USUAL_WIDTH)) for asked, there in pairs.items())
    is_kept = all((low < high) == (there < other) for (low, there), (high, other) in pairwise(depths))
    return pairs if is_kept else None


def reindented(line: str, pairs: Mapping[str, str], file: Sequence[str]) -> str:
    """Return a new line with its indentation in the style of the file; `file` is all of its lines."""
    indent, text = indent_of(line), line.lstrip(" \t")
    if not text or indent in pairs:
        return pairs[indent] + text if text else line
    if not pairs or all(asked == there for asked, there in pairs.items()):
        return line
    width = _tab_width(pairs)
    base = min(pairs, key=lambda asked: abs(_columns(asked, width) - _columns(indent, width)))
    further = (_columns(indent, width) - _columns(base, width)) * _scale(pairs, width, file)
    columns = max(_columns(pairs[base], width) + round(further), 0)
    if any("\t" in there for there in pairs.values()):
        return "\t" * (columns // width) + " " * (columns % width) + text
    return " " * columns + text


def _scale(pairs: Mapping[str, str], width: int, file: Sequence[str]) -> float:
    """Return how many columns of the file one that was asked for is worth."""
    known = sorted((_columns(asked, width), _columns(there, width)) for asked, there in pairs.items())
    (low, low_there), (high, high_there) = known[0], known[-1]
    if high > low:
        return (high_there - low_there) / (high - low)
    unit = gcd(*(len(indent_of(line)) for line in file if line.strip() and "\t" not in indent_of(line)))
    is_other_unit = bool(high) and unit > 1 and bool(high % unit)
    return high_there / high if is_other_unit else 1.0


def _tab_width(pairs: Mapping[str, str]) -> int:
    """Return how many blanks a tab stands for, from pairs of one indentation in both styles."""
    for asked, there in pairs.items():
        tabs, blanks = (there, asked) if "\t" in there else (asked, there)
        count = tabs.count("\t")
        if count and "\t" not in blanks and blanks and len(blanks) % count == 0:
            return len(blanks) // count
    return _USUAL_WIDTH


def _columns(indent: str, width: int) -> int:
    return len(indent.expandtabs(width))
