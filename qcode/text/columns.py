"""Tables of plain text. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, text_columns: int) -> list[str]:
    """Return the rows as lines with aligned cells: the first `text_columns` columns to the left, others to the right.

    All rows have the same number of cells.
    """
    widths = [max(map(width_of, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            padded(cell, width) if number < text_columns else padded(cell, width, to_right=True)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def width_of(text: str) -> int:
    """Return the number of columns that `text` takes on a terminal, where a Chinese character takes two."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def padded(text: str, width: int, *, to_right: bool = False) -> str:
    """Return `text` with spaces after it, or before it with `to_right`, that fill `width` columns of a terminal."""
    space = " " * (width - width_of(text))
    return space + text if to_right else text + space
