"""Unified diffs for approval and for cards. Pure."""

from __future__ import annotations

import re
from difflib import unified_diff

from qcode.tools.text import Document

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NO_NEWLINE = "\n\\ No newline at end of file"


def unified(shown: str, old: Document | None, new: Document | None, *, was: str = "") -> str:
    """Return the whole unified diff from `old` (None: a new file) to `new` (None: it is deleted), empty for no change.

    `was` is the name the file had before, if it had another. Line endings are shown, as a mark, only where the diff
    would otherwise hide that they change.
    """
    shows_endings = old is not None and new is not None and bool(old.endings) and set(old.endings) != set(new.endings)
    before = _lines(old, shows_endings) if old is not None else []
    after = _lines(new, shows_endings) if new is not None else []
    source = f"a/{was or shown}" if old is not None else "/dev/null"
    target = f"b/{shown}" if new is not None else "/dev/null"
    lines = list(unified_diff(before, after, source, target, lineterm=""))
    return "\n".join(lines) + "\n" if lines else ""


def count(diff: str) -> str:
    """Return how many lines a diff, of one file or several, adds and removes, as in `+3 -1 lines`."""
    added = removed = old_left = new_left = 0
    for line in diff.split("\n"):
        hunk = _HUNK.match(line)
        if old_left <= 0 and new_left <= 0:
            if hunk is not None:
                old_left, new_left = int(hunk[1] or 1), int(hunk[2] or 1)
        elif line.startswith("+"):
            added, new_left = added + 1, new_left - 1
        elif line.startswith("-"):
            removed, old_left = removed + 1, old_left - 1
        elif not line.startswith("\\"):
            old_left, new_left = old_left - 1, new_left - 1
    return f"+{added} -{removed} lines"


def _lines(document: Document, shows_endings: bool) -> list[str]:
    if not document.text:
        return []
    lines = document.text.split("\n")
    if shows_endings:
        marks = [ending.replace("\r", "\u240d").replace("\n", "") for ending in document.endings]
        lines = [line + mark for line, mark in zip(lines, (*marks, ""), strict=True)]
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + _NO_NEWLINE]
