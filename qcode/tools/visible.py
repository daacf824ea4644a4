"""Makes text for approval show everything that is in it: escapes, invisible characters, line breaks. Pure."""

from __future__ import annotations


def visible(text: str, *, marks_newlines: bool = False) -> str:
    """Return `text` with every character that cannot be seen spelled as an escape; newlines and tabs stay.

    `marks_newlines` also puts a sign before each line break, so that a break cannot pass for a wrapped line.
    """
    newline = "\u21b5\n" if marks_newlines else "\n"
    return "".join(newline if char == "\n" else _spelled(char) for char in text)


def visible_name(name: str) -> str:
    """Return a name or path on one line: what cannot be printed, line breaks too, is spelled as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _spelled(char: str) -> str:
    # Blanks other than the plain one are not printable to Python, so they are spelled too.
    return char if char.isprintable() or char == "\t" else ascii(char)[1:-1]
