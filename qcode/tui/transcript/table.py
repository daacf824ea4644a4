"""Tables: columns as wide as they need, narrowed to fit, and a list of records where even that is too wide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len

from qcode.protocol.values import dataclass
from qcode.tui.transcript.line import Ink, Line, Span, over, prefix
from qcode.tui.transcript.wrap import wrap

Align = Literal["left", "center", "right"]
Cell = list[Span]

_NARROWEST = 6
_GAP = 3


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as spans; every row has as many as `header`, and `aligns` too."""

    header: list[Cell]
    rows: list[list[Cell]]
    aligns: list[Align]
    base: Ink


def render_table(table: Table, width: int) -> list[Line]:
    """Return `table` in rows of at most `width` cells."""
    widths = fit([_column_width(table, column) for column in range(len(table.header))], width)
    if widths is None:
        return _records(table, width)
    rule = "─┼─".join("─" * cells for cells in widths)
    lines = _row(table, table.header, widths)
    lines.append(Line(((rule, over(table.base, "rule")),), is_mark=True))
    for row in table.rows:
        lines.extend(_row(table, row, widths))
    return lines


def fit(wanted: Sequence[int], width: int) -> list[int] | None:
    """Return column widths that fit `width`: the widest give way first. None where columns would be too narrow."""
    room = width - _GAP * (len(wanted) - 1)
    if room < sum(min(cells, _NARROWEST) for cells in wanted):
        return None
    widths = list(wanted)
    excess = sum(widths) - room
    while excess > 0:
        top = max(widths)
        widest = [index for index, cells in enumerate(widths) if cells == top]
        below = max([cells for cells in widths if cells < top] + [_NARROWEST])
        step = max(1, min(top - below, excess // len(widest)))
        for index in widest:
            taken = min(step, excess)
            widths[index] -= taken
            excess -= taken
    return widths


def _column_width(table: Table, column: int) -> int:
    cells = [table.header[column], *(row[column] for row in table.rows)]
    rows = [row for cell in cells for row in "".join(text for text, _ in cell).split("\n")]
    return max(1, max(cell_len(row) for row in rows))


def _row(table: Table, cells: Sequence[Cell], widths: Sequence[int]) -> list[Line]:
    """Return one row of the table: its cells side by side, as high as the highest."""
    columns = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    separator: Span = (" │ ", over(table.base, "rule"))
    lines: list[Line] = []
    for level in range(max(len(column) for column in columns)):
        spans: list[Span] = []
        for index, column in enumerate(columns):
            line = column[level] if level < len(column) else Line()
            before, after = _padding(widths[index] - line.width, table.aligns[index])
            spans += [(" " * before, table.base), *line.spans, (" " * after, table.base)]
            spans.append(separator)
        lines.append(Line(tuple(span for span in spans[:-1] if span[0])))
    return lines


def _padding(room: int, align: Align) -> tuple[int, int]:
    room = max(0, room)
    before = {"left": 0, "right": room, "center": room // 2}[align]
    return before, room - before


def _records(table: Table, width: int) -> list[Line]:
    """Return every row as its cells under one another, each after the name of its column."""
    lines: list[Line] = []
    for row in table.rows or [[[] for _ in table.header]]:
        if lines:
            lines.append(Line((("─" * min(width, 8), over(table.base, "rule")),), is_mark=True))
        for name, cell in zip(table.header, row, strict=True):
            spans = [*name, (": ", over(table.base, "strong")), *cell] if name else cell
            lines.extend(prefix(wrap(spans, max(1, width - 2)), ("", table.base), ("  ", table.base)))
    return lines
