"""What a continuation repeats of the text before it: pure questions on two strings, asked by `seam`.

Where a repetition could also be meant, the answer is that nothing is repeated: doubling can be seen, loss cannot.
"""

from __future__ import annotations

import re

SEARCHED_TAIL = 4_000
MIN_BYTES, MIN_CHARS = 6, 4
MIN_STRUCTURAL_BYTES = 4
CLEAR_CHARS = 20

_STRUCTURAL = frozenset("#|`\n")
_LIST_OPENER = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])?\s*(?:\[[ xX]?\]?\s*)?(?:\*\*|__|`|\[)?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_HEADING = re.compile(r"#{1,6} \S[^\n]*")
_DELIMITER_ROW = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_OPENING = r"(?:(?:sure|okay|ok|certainly|of course|right)[,.!]?\s+)?(?:(?:i(?:'|’)ll|i will|let me|i(?:'|’)m)\s+)?"
_VERB = r"(?:continu(?:ing|e|ed|ation)|resum(?:ing|e)|picking up|carrying on)"
_PLAIN_LEAD_IN = re.compile(
    rf"{_OPENING}{_VERB}\b[^\n:.]{{0,60}}?"
    r"(?:\bwhere (?:i|we|it|the \w+|my \w+ \w+) (?:had |was |were |got )?"
    r"(?:left off|stopped|cut off|interrupted|ended|cut)"
    r"|\b(?:from|with) (?:my|the|our) (?:previous|last|earlier) (?:message|response|reply|output|answer|text))"
    r"\s*(?:here|now)?\s*(?:\.\.\.|[:.…])[*_]*\s*",
    re.IGNORECASE,
)
_LINE_LEAD_IN = re.compile(
    rf"{_OPENING}(?:(?:continuing|continued|continuation|resuming|picking up|carrying on)\s*(?:\.\.\.|[:…])"
    r"|here(?:'s|’s| is| are)?\s+the\s+(?:continuation|rest|remainder|remaining \w+)(?: of [^\n:]{0,60})?:)[*_]*",
    re.IGNORECASE,
)
_LEAD_IN_STARTS = (
    "sure", "okay", "ok", "certainly", "of course", "right", "i'll continue", "i’ll continue", "i will continue",
    "let me continue", "i am continuing", "i'm continuing", "here", "continu", "resum", "picking up", "carrying on",
)  # fmt: skip
MAX_LEAD_IN = 160
MAX_FENCE_LINE = 200


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


def open_fence(before: str) -> str | None:
    """Return the marker of the code fence that is open at the end of `before`, None where there is none."""
    marker = None
    for line in before.split("\n"):
        marker = fence_after(marker, line)
    return marker


def fence_after(marker: str | None, line: str) -> str | None:
    """Return the fence that is open behind `line`, given the one before it (CommonMark, fenced code blocks)."""
    if "```" not in line and "~~~" not in line:
        return marker
    found = _FENCE.match(line)
    if found is None:
        return marker
    if marker is None:
        return None if found.group(1)[0] == "`" and "`" in found.group(2) else found.group(1)
    return None if found.group(1).startswith(marker) and not found.group(2).strip() else marker


def reopened_fence(text: str) -> int:
    """Return the length of a fence line with a language that `text` begins with, its newline included, else 0.

    Inside an open fence such a line cannot close it, so it can only be the fence opened again. A bare fence closes.
    """
    lead = len(text) - len(text.lstrip("\n"))
    found = _FENCE.match(text, lead)
    if found is None or not found.group(2).strip() or not text.startswith("\n", found.end()):
        return 0
    return found.end() + 1


def may_become_fence(text: str) -> bool:
    rest = text.lstrip("\n")
    if "\n" in rest or len(rest) > MAX_FENCE_LINE:
        return False
    rest = rest.lstrip(" ")
    return not rest or not rest.strip("`") or not rest.strip("~") or rest.startswith(("```", "~~~"))


def replayed_header(before: str) -> tuple[str, ...]:
    """Return the lines that a continuation may replay as a header: the section's heading, the table's first two rows.

    Only lines that stand once in `before` are returned: a heading that recurs is part of the document.
    """
    lines = before.split("\n")
    headers: list[str] = []
    heading = next((line for line in reversed(lines) if _HEADING.fullmatch(line)), None)
    if heading is not None and lines.count(heading) == 1:
        headers.append(heading + "\n")
    rows = len(lines)
    while rows and (lines[rows - 1].lstrip().startswith("|") or (rows == len(lines) and not lines[-1])):
        rows -= 1
    table = [line for line in lines[rows:] if line]
    if len(table) >= 3 and _DELIMITER_ROW.fullmatch(table[1]) and lines.count(table[0]) == 1:
        headers.append(f"{table[0]}\n{table[1]}\n")
    return tuple(headers)


def lead_in(text: str) -> int:
    """Return the length of a lead-in such as "Continuing from where I left off:" with the blank after it, else 0.

    One that names where it stopped counts wherever the text goes on; a bare "Continued:" only on its own line.
    """
    start = len(text) - len(text.lstrip().lstrip("*_"))
    plain = _PLAIN_LEAD_IN.match(text, start)
    if plain is not None:
        return plain.end()
    line, newline, rest = text[start:].partition("\n")
    if not newline or not _LINE_LEAD_IN.fullmatch(line.rstrip()):
        return 0
    return len(text) - len(rest.lstrip("\n"))


def may_become_lead_in(text: str) -> bool:
    rest = text.lstrip().lstrip("*_").lower()
    if "\n" in rest or len(rest) > MAX_LEAD_IN:
        return False
    return any(rest.startswith(start) or start.startswith(rest) for start in _LEAD_IN_STARTS)
