"""Limits on the text of a command, checked before parsing, so that a verdict takes under 50 ms for any text. Pure.

tree-sitter takes linear time for valid text, but not to recover from errors. 20,000 characters of `((a` take 3 s, of
`a|` 4 s, and other threads wait until the parser returns. The time grows with the length, the number of structural
characters and the depth of brackets, so each has a limit. Characters inside quotes count too, because recognizing
quotes needs a parser.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 2_000
MAX_STRUCTURAL_CHARACTERS = 250  # characters of `_STRUCTURE`
MAX_DEPTH = 25  # of nested or unbalanced brackets

_STRUCTURE = "()[]{}<>|&;`$=\n"
_BRACKETS = re.compile(r"[()\[\]{}]")


def check_bounds(text: str) -> str:
    """Return the limit that `text` exceeds, in a sentence for the user; empty if it exceeds none."""
    if len(text) > MAX_CHARACTERS:
        return f"the command is longer than {MAX_CHARACTERS:,} characters"
    if sum(map(text.count, _STRUCTURE)) > MAX_STRUCTURAL_CHARACTERS:
        return f"the command has more than {MAX_STRUCTURAL_CHARACTERS} operators, brackets, expansions and lines"
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        if abs(depth) > MAX_DEPTH:
            return "the command has too many unbalanced or nested brackets"
    return ""
