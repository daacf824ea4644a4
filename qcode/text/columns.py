"""Tables of plain text. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], *, text_columns: int) -> list[str]:
    """Return the rows as lines with aligned cells: the first `text_columns` columns to the left, others to the right.

    All rows have the same number of cells.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < text_columns else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
