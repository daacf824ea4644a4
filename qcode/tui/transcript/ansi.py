"""Converts the colors of command output (SGR sequences) to inks, and removes all other control sequences.

Blinking and concealed text are ignored, because output must stay legible. The slots are named `sgr-` and the parameters
of the sequence, such as `sgr-31` or `sgr-38;5;208`; `palette` turns them into styles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from qcode.text.pattern import lazy_pattern
from qcode.tui.transcript.line import Ink, Line, Span, ink, keep_tabs, spread, wrap

_SGR = lazy_pattern(r"\x1b\[([0-9;:]{0,64})m")
_ATTRIBUTES = {1, 2, 3, 4, 7, 9}
_RESETS = {22: {1, 2}, 23: {3}, 24: {4}, 27: {7}, 29: {9}}
SGR_SLOT_PREFIX = "sgr-"


class Pen(NamedTuple):
    """The current colors and attributes, as SGR parameters."""

    color: str = ""
    background: str = ""
    attributes: tuple[int, ...] = ()

    def over(self, base: Ink) -> Ink:
        # Text in the color of its background would be invisible.
        background = "" if self.background and _same_color(self.color, self.background) else self.background
        slots = (*map(str, self.attributes), self.color, background)
        return ink(*base.slots, *(f"{SGR_SLOT_PREFIX}{slot}" for slot in slots if slot), href=base.href)


PLAIN_PEN = Pen()


def has_sequences(text: str) -> bool:
    return "\x1b[" in text


def pen_after(text: str, pen: Pen) -> Pen:
    """Return `pen` as the sequences in `text` change it."""
    for match in _SGR.finditer(text):
        pen = _pen_with(pen, match[1])
    return pen


def styled_spans(text: str, base: Ink, pen: Pen, limit: int | None = None) -> list[Span]:
    """Return the spans of one line, cleaned, of about `limit` characters."""
    spans: list[Span] = []
    position = length = 0
    for match in (*_SGR.finditer(text), None):
        piece = keep_tabs(text[position : match.start() if match is not None else None])
        if piece:
            spans.append((piece if limit is None else piece[: limit - length], pen.over(base)))
            length += len(piece)
        if match is None or (limit is not None and length >= limit):
            break
        position, pen = match.end(), _pen_with(pen, match[1])
    return spans


def output_rows(text: str, width: int) -> list[Line]:
    """Return output in rows of `width` cells. As in a terminal, a carriage return overwrites the text before it."""
    rows: list[Line] = []
    pen = PLAIN_PEN
    for line in text.split("\n"):
        before, _, visible = line.rstrip("\r").rpartition("\r")
        rows += wrap(spread(styled_spans(visible, ink("output"), pen_after(before, pen))), max(1, width), is_code=True)
        pen = pen_after(line, pen)
    return rows


def _pen_with(pen: Pen, parameters: str) -> Pen:
    codes = [int(part) if part.isdigit() and len(part) <= 3 else 0 for part in parameters.replace(":", ";").split(";")]
    remaining = iter(codes)
    for code in remaining:
        match code:
            case 0:
                pen = PLAIN_PEN
            case _ if code in _ATTRIBUTES:
                pen = pen._replace(attributes=tuple(sorted({*pen.attributes, code})))
            case _ if code in _RESETS:
                pen = pen._replace(
                    attributes=tuple(attribute for attribute in pen.attributes if attribute not in _RESETS[code])
                )
            case _ if 30 <= code <= 37 or 90 <= code <= 97:
                pen = pen._replace(color=str(code))
            case _ if 40 <= code <= 47 or 100 <= code <= 107:
                pen = pen._replace(background=str(code))
            case 38 | 48:
                color = _extended_color(code, remaining)
                pen = pen._replace(color=color) if code == 38 else pen._replace(background=color)
            case 39:
                pen = pen._replace(color="")
            case 49:
                pen = pen._replace(background="")
            case _:
                pass
    return pen


def _extended_color(code: int, codes: Iterator[int]) -> str:
    """Return the slot of a color by its number in the table of 256, or by red, green and blue; empty if invalid."""
    kind = next(codes, 0)
    values = [next(codes, 256) for _ in range({5: 1, 2: 3}.get(kind, 0))]
    if not values or max(values) > 255:
        return ""
    return ";".join(map(str, (code, kind, *values)))


def _same_color(color: str, background: str) -> bool:
    if ";" in background:
        return color[2:] == background[2:] and ";" in color
    return color.isdigit() and int(color) + 10 == int(background)
