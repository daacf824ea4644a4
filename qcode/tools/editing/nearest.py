"""The message for a passage of an edit that was not found: the most similar passage and the difference. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

from qcode.text.diff import BoundedMatcher, Steps, unified_diff

_MAX_DIFF_LINES = 60
_MAX_COMPARED_WINDOWS = 25
_MIN_SIMILARITY = 0.4  # the ratio of `difflib`, from 0 to 1
_MAX_COMPARED_CHARS = 4_000
_MAX_COMPARED_STEPS = 8_000_000
# Possessive quantifiers and one attempt per line: otherwise a text such as `existing existing …` takes minutes.
_PLACEHOLDER = re.compile(
    r"^[^\S\n]*+(?:#|//|--|/\*|<!--)?+[^\S\n]*+(?:\.\.\.|\u2026)"
    r"|^(?>.*?\b(?:existing|rest of|remaining|unchanged)\b).*(?:\.\.\.|\u2026)",
    re.MULTILINE | re.IGNORECASE,
)
_MIN_REPORTED_CHARS = 12
"""The minimum length of a new text for the hint that the file already contains it."""


def describe_nearest(text: str, old: str, new: str, label: str, name: str = "old_text") -> str:
    """Return a message that `old` was not found, with the most similar passage of `text`. `name` names the argument."""
    hints = _hints(text, old, new, label, name)
    lines, old_lines = text.split("\n"), old.strip("\n").split("\n")
    start = _best_window(lines, old_lines)
    if start is None:
        return f"{name} was not found in {label}, nor anything similar: read the file again. Nothing was changed{hints}"
    file_lines = lines[start : start + len(old_lines)]
    diff = list(unified_diff(old_lines, file_lines, name, f"{label}:{start + 1}", context=1))
    shown_diff = "\n".join(line[:300] for line in diff[:_MAX_DIFF_LINES])
    if len(diff) > _MAX_DIFF_LINES:
        shown_diff += f"\n[{len(diff) - _MAX_DIFF_LINES} more lines]"
    location = f"lines {start + 1}-{start + len(file_lines)}" if len(file_lines) > 1 else f"line {start + 1}"
    numbered = "\n".join(
        f"{start + 1 + index:>6}\t{line[:300]}" for index, line in enumerate(file_lines[: _MAX_DIFF_LINES // 2])
    )
    return (
        f"{name} was not found in {label}. Nothing was changed. The nearest passage is at {location}:\n{numbered}\n"
        f"Expected (-) and actual (+):\n{shown_diff}{hints}"
    )


def _hints(text: str, old: str, new: str, label: str, name: str) -> str:
    """Return a line for each likely cause: the edit was made before, or its passage is abbreviated."""
    hints = []
    if len(new.strip()) >= _MIN_REPORTED_CHARS and text.count(new.strip()) == 1:
        line = text.count("\n", 0, text.find(new.strip())) + 1
        hints.append(f"The new text is already in {label}, at line {line}: check whether this edit was made before.")
    if _PLACEHOLDER.search(old):
        hints.append(f"{name} seems to omit lines: it must contain every line of the passage.")
    return "".join(f"\n{hint}" for hint in hints)


def _best_window(lines: list[str], old_lines: list[str]) -> int | None:
    """Return the index of the window of lines most similar to `old_lines`, or None if none is similar.

    Windows are ranked by shared words, which is cheap; only the best few are compared by characters.
    """
    size = min(len(old_lines), len(lines))
    words = set(re.findall(r"\w+", "\n".join(old_lines)))
    line_scores = [len(words.intersection(re.findall(r"\w+", line))) for line in lines]
    window_scores = [sum(line_scores[:size])]
    for start in range(1, len(lines) - size + 1):
        window_scores.append(window_scores[-1] - line_scores[start - 1] + line_scores[start + size - 1])
    # `nlargest` and `max` return the first of several equal windows.
    best_starts = heapq.nlargest(_MAX_COMPARED_WINDOWS, range(len(window_scores)), key=window_scores.__getitem__)
    wanted = _start_of(old_lines, 0, len(old_lines))
    steps = Steps(_MAX_COMPARED_STEPS)
    similarities: dict[int, float] = {}
    for start in best_starts:
        if window_scores[start]:
            candidate = _start_of(lines, start, size)
            matcher = BoundedMatcher(candidate, wanted, autojunk=len(wanted) > 1_000, steps=steps)
            similarities[start] = matcher.ratio()
    best = max(sorted(similarities), key=similarities.__getitem__, default=None)
    return best if best is not None and similarities[best] >= _MIN_SIMILARITY else None


def _start_of(lines: Sequence[str], start: int, count: int) -> str:
    """Return the first `_MAX_COMPARED_CHARS` characters of `count` lines, without indentation."""
    parts: list[str] = []
    length = 0
    for line in lines[start : start + count]:
        parts.append(line.strip())
        length += len(parts[-1]) + 1
        if length > _MAX_COMPARED_CHARS:
            break
    return "\n".join(parts)[:_MAX_COMPARED_CHARS]
