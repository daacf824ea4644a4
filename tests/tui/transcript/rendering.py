"""Markdown to rows in one call, as the tests look at them."""

from __future__ import annotations

from qcode.tui.transcript.line import Line, Span, shown_text
from qcode.tui.transcript.markdown import MarkdownStream

Row = tuple[tuple[Span, ...], int, str | None, bool]


def lines_of(text: str, width: int = 80) -> list[Line]:
    stream = MarkdownStream(width)
    stream.feed(text)
    stream.finish()
    return stream.lines


def rows_of(text: str, width: int = 80) -> list[str]:
    return shown_text(lines_of(text, width)).split("\n")


def slots_of(text: str, piece: str, width: int = 80) -> tuple[str, ...]:
    """Return the slots in which `piece` is painted."""
    for line in lines_of(text, width):
        for written, style_of in line.spans:
            if piece in written:
                return style_of.slots
    raise AssertionError(f"{piece!r} is not shown")


def facts(lines: list[Line]) -> list[Row]:
    """Return everything about `lines` that can be compared."""
    return [(line.spans, line.lead, line.joint, line.is_decoration) for line in lines]
