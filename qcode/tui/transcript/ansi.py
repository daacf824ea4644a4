"""Converts the colors of command output (SGR sequences) to styles, and removes all other control sequences.

The attributes blinking and concealed are ignored, because output must stay legible. A slot is named `sgr-` and the
parameters of the sequence, such as `sgr-31` or `sgr-38;5;208`; `palette` turns slots into styles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from itertools import groupby, islice
from typing import NamedTuple

from qcode.text.pattern import lazy_pattern
from qcode.text.redrawn import RedrawnCell, is_redrawn, redrawn_cells
from qcode.tui.transcript.line import Line, Span, TextStyle, expand_tabs, style_of, tidy_keeping_tabs, wrap

_SGR = lazy_pattern(r"\x1b\[([0-9;:]{0,64})m")
_ATTRIBUTES = {1, 2, 3, 4, 7, 9}
"""The parameters for bold, dim, italic, underlined, reversed and struck-through text."""
_RESETS = {22: {1, 2}, 23: {3}, 24: {4}, 27: {7}, 29: {9}}
"""The attributes that each of these parameters ends."""
_VALUE_COUNTS = {5: 1, 2: 3}
"""The number of values in a color, by its kind: a number of 256, or red, green and blue."""
SGR_SLOT_PREFIX = "sgr-"


class Pen(NamedTuple):
    """The current colors and attributes, as SGR parameters such as `31` or `38;5;208`; empty for the default."""

    color: str = ""
    background: str = ""
    attributes: tuple[int, ...] = ()

    def style_on(self, base: TextStyle) -> TextStyle:
        """Return `base` with the colors and attributes of this pen on top of it."""
        # Text in the color of its background would be invisible.
        background = "" if self.background and _same_color(self.color, self.background) else self.background
        slots = (*map(str, self.attributes), self.color, background)
        return style_of(*base.slots, *(f"{SGR_SLOT_PREFIX}{slot}" for slot in slots if slot), href=base.href)


PLAIN_PEN = Pen()


def has_sequences(text: str) -> bool:
    return "\x1b[" in text


def pen_after(text: str, pen: Pen) -> Pen:
    """Return the pen that is current after `text`, if `pen` is current before it."""
    for match in _SGR.finditer(text):
        pen = _apply_parameters(pen, match[1])
    return pen


def styled_spans(text: str, base: TextStyle, pen: Pen, limit: int | None = None) -> list[Span]:
    """Return at most `limit` characters of one line as spans, in the style `base` with the colors of its sequences."""
    if is_redrawn(text):
        return _redrawn_spans(text, base, pen, limit)
    spans: list[Span] = []
    length = 0
    for part, part_pen in _split_at_sequences(text, pen):
        shown = tidy_keeping_tabs(part)
        if shown:
            spans.append((shown if limit is None else shown[: limit - length], part_pen.style_on(base)))
            length += len(shown)
        if limit is not None and length >= limit:
            break
    return spans


def _split_at_sequences(text: str, pen: Pen) -> Iterator[tuple[str, Pen]]:
    """Yield the texts between the sequences of a line, each with the pen that is current there."""
    position = 0
    for match in _SGR.finditer(text):
        yield text[position : match.start()], pen
        position = match.end()
        pen = _apply_parameters(pen, match[1])
    yield text[position:], pen


def _redrawn_spans(text: str, base: TextStyle, pen: Pen, limit: int | None) -> list[Span]:
    """Return the last state of a line that was drawn several times; each character keeps the style it was drawn in."""
    ends, pens = [0], [pen]
    for match in _SGR.finditer(text):
        ends.append(match.end())
        pens.append(_apply_parameters(pens[-1], match[1]))

    def pen_of(cell: RedrawnCell) -> Pen:
        """Return the pen of a column; the plain one if the column was skipped or erased."""
        _, index = cell
        return pens[bisect_right(ends, index) - 1] if index >= 0 else PLAIN_PEN

    spans: list[Span] = []
    for cell_pen, cells in groupby(islice(redrawn_cells(text), limit), key=pen_of):
        shown = "".join(cell_text for cell_text, _ in cells)
        spans.append((tidy_keeping_tabs(shown), cell_pen.style_on(base)))
    return spans


def output_rows(text: str, width: int) -> list[Line]:
    """Return output in rows of `width` cells. As in a terminal, a carriage return overwrites the text before it."""
    rows: list[Line] = []
    pen = PLAIN_PEN
    for line in text.split("\n"):
        spans = styled_spans(line, style_of("output"), pen)
        rows += wrap(expand_tabs(spans), max(1, width), is_code=True)
        pen = pen_after(line, pen)
    return rows


def _apply_parameters(pen: Pen, parameters: str) -> Pen:
    """Return `pen` as one sequence changes it. A missing or invalid parameter counts as 0, which resets the pen."""
    remaining = iter(parameters.split(";"))
    for parameter in remaining:
        # ISO 8613-6 separates the details of one parameter by colons: `4:3` is a curly underline, not italic.
        code, *details = map(_number, parameter.split(":"))
        match code:
            case 0:
                pen = PLAIN_PEN
            case 4 if details == [0]:
                pen = _without_attributes(pen, {4})
            case _ if code in _ATTRIBUTES:
                pen = pen._replace(attributes=tuple(sorted({*pen.attributes, code})))
            case _ if code in _RESETS:
                pen = _without_attributes(pen, _RESETS[code])
            case _ if 30 <= code <= 37 or 90 <= code <= 97:
                pen = pen._replace(color=str(code))
            case _ if 40 <= code <= 47 or 100 <= code <= 107:
                pen = pen._replace(background=str(code))
            case 38:
                pen = pen._replace(color=_extended_color(code, details, remaining))
            case 48:
                pen = pen._replace(background=_extended_color(code, details, remaining))
            case 58:  # the color of the underline, which is not shown
                _extended_color(code, details, remaining)
            case 39:
                pen = pen._replace(color="")
            case 49:
                pen = pen._replace(background="")
            case _:
                pass
    return pen


def _without_attributes(pen: Pen, ended: Set[int]) -> Pen:
    return pen._replace(attributes=tuple(attribute for attribute in pen.attributes if attribute not in ended))


def _extended_color(code: int, details: Sequence[int], remaining: Iterator[str]) -> str:
    """Return the parameters of the color after `code`, which is 38, 48 or 58; empty if it is invalid.

    A color is `5;N` (number N of 256) or `2;R;G;B` in the remaining parameters, or `5:N`, `2:R:G:B` or
    `2:SPACE:R:G:B` in the details of this one. SPACE, the color space, has no effect.
    """
    if details:
        kind, *values = details
        has_color_space = kind == 2 and len(values) > _VALUE_COUNTS[kind]
        if has_color_space:
            values = values[1:]
    else:
        kind = _number(next(remaining, ""))
        values = [_number(parameter) for parameter in islice(remaining, _VALUE_COUNTS.get(kind, 0))]
    value_count = _VALUE_COUNTS.get(kind, 0)
    values = values[:value_count]
    if not values or len(values) < value_count or max(values) > 255:
        return ""
    return ";".join(map(str, (code, kind, *values)))


def _number(field: str) -> int:
    """Return the number in a field of a sequence; 0 for a missing or invalid one."""
    return int(field) if field.isdigit() and len(field) <= 3 else 0


def _same_color(color: str, background: str) -> bool:
    """Return whether text and background have the same color, as `31` and `41` or `38;5;208` and `48;5;208` do."""
    if ";" in background:
        # Compare what follows the 38 of the color and the 48 of the background.
        return color[2:] == background[2:] and ";" in color
    return color.isdigit() and int(color) + 10 == int(background)
