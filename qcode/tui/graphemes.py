"""Where a cursor may stand in a line: between what people see as characters, not inside an emoji or an accent. Pure.

The rules that matter for typing, after Unicode's annex 29 (https://www.unicode.org/reports/tr29/): marks belong to what
they stand on, a joiner joins, flags are pairs.
"""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_LONGEST = 64


def start_of(line: str, column: int) -> int:
    """Return where the character that ends at `column` begins."""
    low = max(0, column - _LONGEST)
    at = column - 1
    while at > low and not _is_boundary(line, at):
        at -= 1
    return max(at, 0)


def end_of(line: str, column: int) -> int:
    """Return where the character that begins at `column` ends."""
    high = min(len(line), column + _LONGEST)
    at = column + 1
    while at < high and not _is_boundary(line, at):
        at += 1
    return min(at, len(line))


def _is_boundary(line: str, at: int) -> bool:
    before, after = line[at - 1], line[at]
    if before.isascii() and after.isascii():
        return True
    if after == _JOINER or _extends(after) or before == _JOINER:
        return False
    if _is_regional(before) and _is_regional(after):
        count = 0
        while count < at and _is_regional(line[at - 1 - count]):
            count += 1
        return count % 2 == 0
    return True


def _extends(character: str) -> bool:
    is_skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
    return is_skin_tone or unicodedata.category(character) in ("Mn", "Me", "Mc")


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
