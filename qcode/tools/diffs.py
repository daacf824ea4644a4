"""Unified diffs for approval and for cards. Pure."""

from __future__ import annotations

from difflib import unified_diff

from qcode.tools.text import Document

_NO_NEWLINE = "\n\\ No newline at end of file"


def unified(shown: str, old: Document | None, new: Document) -> str:
    """Return the whole unified diff from `old` (None: a new file) to `new`, empty where nothing changes.

    Line endings are shown, as a mark, only where the diff would otherwise hide that they change.
    """
    shows_endings = old is not None and bool(old.endings) and set(old.endings) != set(new.endings)
    before = _lines(old, shows_endings) if old is not None else []
    source = f"a/{shown}" if old is not None else "/dev/null"
    lines = list(unified_diff(before, _lines(new, shows_endings), source, f"b/{shown}", lineterm=""))
    return "\n".join(lines) + "\n" if lines else ""


def count(diff: str) -> str:
    """Return how many lines a diff adds and removes, as in `+3 -1 lines`."""
    added = removed = 0
    for line in diff.split("\n")[2:]:
        added += line.startswith("+")
        removed += line.startswith("-")
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
