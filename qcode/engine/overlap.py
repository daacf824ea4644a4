"""What a continuation repeats of the text before it, or opens behind it: pure questions on strings, asked by `seam`.

Where a repetition could also be meant, the answer is that nothing is repeated: doubling can be seen, loss cannot.
"""

from __future__ import annotations

import re

SEARCHED_TAIL = 4_000
MIN_BYTES, MIN_CHARS = 6, 4
MIN_STRUCTURAL_BYTES = 4
CLEAR_CHARS = 20

_STRUCTURAL = frozenset("#|`\n")
_RULED = frozenset("|-:=_+*. \t")
"""Of these alone rules and the second row of a table are made, and all of those repeat themselves."""
_LIST_OPENER = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])?\s*(?:\[[ xX]?\]?\s*)?(?:\*\*|__|`|\[)?")
_HEADING = re.compile(r"#{1,6} \S[^\n]*")
_DELIMITER_ROW = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_BLOCK = re.compile(r"(?:#{1,6}|[-*+>]|\d{1,4}[.)])[ \t]|```|~~~")
_SENTENCE_END = re.compile(r"[.!?:][*_\"'”’)]*$")
_MAY_OPEN_BLOCK = re.compile(r"#{1,6}|[-*+>]|\d{1,4}[.)]?|`{1,2}|~{1,2}")


def repeated_tail(before: str, text: str) -> int:
    """Return how many characters at the start of `text` replay the end of `before` without doubt, else 0.

    `before` is the searched tail only. The longest overlap decides: a shorter one is never clearer.
    """
    length = longest_overlap(before, text)
    return length if length and _is_replay(before, text[:length]) else 0


def longest_overlap(before: str, text: str) -> int:
    """Return the length of the longest end of `before` that `text` starts with, in linear time."""
    limit = min(len(before), len(text))
    if not limit:
        return 0
    pattern, tail = text[:limit], before[-limit:]
    borders = _borders(pattern)
    matched = 0
    for index, char in enumerate(tail):
        while matched and (matched == limit or pattern[matched] != char):
            matched = borders[matched - 1]
        if pattern[matched] == char:
            matched += 1
        if matched == limit and index < limit - 1:
            matched = borders[matched - 1]
    return matched


def _borders(pattern: str) -> list[int]:
    """Return for each prefix the length of its longest proper border (the failure function of Knuth-Morris-Pratt)."""
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[matched] != pattern[index]:
            matched = borders[matched - 1]
        if pattern[matched] == pattern[index]:
            matched += 1
        borders[index] = matched
    return borders


def is_short_coincidence(overlap: str) -> bool:
    """Say whether an overlap is so short, or so common, that chance explains it."""
    size = len(overlap.encode("utf-8", "surrogatepass"))
    if _STRUCTURAL.intersection(overlap):
        return size < MIN_STRUCTURAL_BYTES or not overlap.strip()
    return size < MIN_BYTES or len(overlap) < MIN_CHARS or not overlap.strip()


def _is_replay(before: str, overlap: str) -> bool:
    if is_short_coincidence(overlap) or _LIST_OPENER.fullmatch(overlap):
        return False
    start = len(before) - len(overlap)
    is_line_start = start == 0 or before[start - 1] == "\n"
    if _RULED.issuperset(overlap):
        return False
    is_whole_line = "\n" in overlap and (is_line_start or "\n" in overlap[:-1])
    if is_whole_line or len(overlap) >= CLEAR_CHARS:
        return _occurs_once(before, overlap)
    if before.endswith("\n"):
        return False
    line = before[before.rfind("\n", 0, len(before) - 1) + 1 :]
    return _occurs_once(line, overlap) if len(line) >= len(overlap) else _occurs_once(before, overlap)


def _occurs_once(text: str, part: str) -> bool:
    first = text.find(part)
    return first == len(text) - len(part) and not _is_periodic(part)


def _is_periodic(part: str) -> bool:
    """Say whether `part` repeats itself: where such a run ends cannot be told."""
    border = _borders(part)[-1]
    return border * 2 >= len(part)


def is_restart(before: str, common: int) -> bool:
    """Say whether `common` characters from the very beginning of `before` are clearly a restart of it."""
    start = before[:common]
    if is_short_coincidence(start):
        return False
    is_clear = "\n" in start.strip("\n") + before[common : common + 1] or common >= CLEAR_CHARS
    return is_clear and before.find(start, 1) == -1 and not _is_periodic(start)


def replayed_header(before: str) -> tuple[str, ...]:
    """Return the lines that a continuation may replay as a header: the section's heading, the table's first two rows.

    Only whole lines that stand once in `before` are returned, and no heading that `before` ends with: one that recurs
    is part of the document, and one at the end is an overlap like any other.
    """
    lines = before.split("\n")
    whole = lines[:-1]
    headers: list[str] = []
    at = next((index for index in reversed(range(len(whole))) if _HEADING.fullmatch(whole[index])), None)
    if at is not None and lines.count(lines[at]) == 1 and any(line.strip() for line in lines[at + 1 :]):
        headers.append(lines[at] + "\n")
    rows = len(lines)
    while rows and (lines[rows - 1].lstrip().startswith("|") or (rows == len(lines) and not lines[-1])):
        rows -= 1
    table = [line for line in lines[rows:] if line]
    if len(table) >= 3 and _DELIMITER_ROW.fullmatch(table[1]) and lines.count(table[0]) == 1:
        headers.append(f"{table[0]}\n{table[1]}\n")
    return tuple(headers)


def needs_new_line(before: str, text: str) -> bool | None:
    """Say whether `text` cannot go on in the line that `before` ends with; None where more of it must be seen.

    It cannot where it opens a block of its own, such as a list item, a heading or the next row of a table, or where
    a sentence ended and another begins.
    """
    if not before or before[-1].isspace():
        return False
    line = before[before.rfind("\n") + 1 :].strip()
    if text.startswith("|"):
        return line.startswith("|") and line.endswith("|") and _has_all_cells(before, line)
    if _BLOCK.match(text):
        return True
    if not text or _MAY_OPEN_BLOCK.fullmatch(text):
        return None
    return _SENTENCE_END.search(line) is not None and text[0].isupper()


def _has_all_cells(before: str, row: str) -> bool:
    """Say whether the table row that `before` ends with is as long as the one above it, or is the first."""
    above = before[: before.rfind("\n") + 1].rstrip("\r\n").rpartition("\n")[2].strip()
    return not above.startswith("|") or row.count("|") >= above.count("|")
