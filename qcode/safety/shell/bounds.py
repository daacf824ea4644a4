"""Limits of a command text, checked before it is parsed, so that a verdict takes under 50 ms for any text. Pure.

Separate from `parser`, its only importer, which has the maximum length. tree-sitter is linear on valid text, but its
error recovery is not: 20,000 characters of `((a` take 3 s, of `a|` 4 s, and a parse holds the interpreter until it
ends. The cost grows with the length, the number of structural characters and the depth of brackets, so each has a
limit. Characters inside quotes count too, because recognizing quotes needs a parser.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 2_000
MAX_STRUCTURE = 250
MAX_DEPTH = 25

_STRUCTURE = "()[]{}<>|&;`$=\n"
_BRACKETS = re.compile(r"[()\[\]{}]")


def check_bounds(text: str) -> str:
    """Return why `text` is not parsed, for the user, empty if it is within the limits."""
    if len(text) > MAX_CHARACTERS:
        return f"the command is longer than {MAX_CHARACTERS:,} characters"
    if sum(map(text.count, _STRUCTURE)) > MAX_STRUCTURE:
        return f"the command has more than {MAX_STRUCTURE} operators, brackets, expansions and lines"
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        if abs(depth) > MAX_DEPTH:
            return "the command has too many unbalanced or nested brackets"
    return ""
