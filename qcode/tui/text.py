"""Foreign text made fit for one place on screen. Nothing here or anywhere in the app goes through markup."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, chop_cells

from qcode.safety.cleaning import clean

_BREAK_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


def one_line(text: str, limit: int = 400) -> str:
    """Return cleaned `text` on one line of at most `limit` characters, breaks shown as marks."""
    line = clean(text.strip()).translate(_BREAK_MARKS)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def shorten(text: str, width: int) -> str:
    """Return cleaned `text` in at most `width` cells, with an ellipsis where something was left out."""
    line = one_line(text)
    if cell_len(line) <= width:
        return line
    return (chop_cells(line, width - 1)[0] if width > 1 else "") + "…"


def visible(text: str) -> str:
    """Return `text` with every character that cannot be seen spelled out (`\\x1b`, `\\u200b`); line ends and tabs stay.

    For what a person is asked to approve: cleaning would hide what will run.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_seen, text))


def _seen(character: str) -> str:
    if character in " \n\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
