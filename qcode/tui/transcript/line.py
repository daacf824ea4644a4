"""Screen lines of the transcript, without colours: text with named inks that the palette turns into styles.

A theme change therefore needs no new layout. Nothing here imports Textual or Rich styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from rich.cells import cell_len

from qcode.safety.cleaning import clean

TAB = 4
# A tab on screen: cells that look like spaces and are copied as the one tab they are. From a private plane of Unicode.
_TAB_HEAD, _TAB_REST = "\U0010ff09", "\U0010ff20"
_SHOWN = {ord(_TAB_HEAD): " ", ord(_TAB_REST): " "}
_WRITTEN = {ord(_TAB_HEAD): "\t", ord(_TAB_REST): ""}
GAP_CLASS = rf"[\s{_TAB_HEAD}{_TAB_REST}]"
"""What a regular expression has to take for white space in the text of lines."""


class Ink(NamedTuple):
    """How a piece of text looks: names of style slots, later ones on top, and the http(s) target of a link."""

    slots: tuple[str, ...] = ()
    href: str = ""


PLAIN = Ink()
Span: TypeAlias = tuple[str, Ink]


@lru_cache(maxsize=2048)
def ink(*slots: str, href: str = "") -> Ink:
    """Return the one shared `Ink` of these slots."""
    return Ink(slots, href)


@lru_cache(maxsize=4096)
def over(base: Ink, slot: str) -> Ink:
    """Return `base` with `slot` on top of it."""
    return ink(*base.slots, slot, href=base.href)


def tidy(text: str) -> str:
    """Return foreign text fit for the screen: cleaned, tabs as spaces, Unicode's own line ends as spaces."""
    text = clean(text)
    if text.isascii():
        return text.expandtabs(TAB) if "\t" in text else text
    return text.expandtabs(TAB).replace("\u2028", " ").replace("\u2029", " ")


def keep_tabs(text: str) -> str:
    """Return foreign text fit for the screen like `tidy`, but with its tabs, for `spread`."""
    text = clean(text)
    return text if text.isascii() else text.replace("\u2028", " ").replace("\u2029", " ")


def spread(spans: Sequence[Span]) -> list[Span]:
    """Return the spans of one written line with its tabs as cells, up to the next stop; they are copied as tabs."""
    if not any("\t" in text for text, _ in spans):
        return list(spans)
    column = 0
    result: list[Span] = []
    for text, paint in spans:
        pieces: list[str] = []
        for index, piece in enumerate(text.split("\t")):
            if index:
                cells = TAB - column % TAB
                pieces.append(_TAB_HEAD + _TAB_REST * (cells - 1))
                column += cells
            pieces.append(piece)
            column += cell_len(piece)
        result.append(("".join(pieces), paint))
    return result


def shown(text: str) -> str:
    """Return the text of a line as the terminal is given it."""
    return text if text.isascii() else text.translate(_SHOWN)


@dataclass(slots=True, eq=False)
class Line:
    """One row of the screen, or less than a row.

    `lead` characters at its start are decoration (gutter, indent, padding), not text that was written. `joint` is
    what stood in the source between the line before and this one where a wrap divided them, None at a real line
    break. `fill` is the ink of the rest of the row. `is_mark`: the whole line is decoration.
    """

    spans: tuple[Span, ...] = ()
    lead: int = 0
    joint: str | None = None
    fill: Ink = PLAIN
    is_mark: bool = False

    @property
    def text(self) -> str:
        return "".join([text for text, _ in self.spans])

    @property
    def width(self) -> int:
        """Cells of the text, `fill` not counted."""
        return sum([cell_len(text) for text, _ in self.spans])


def prefix(lines: Iterable[Line], first: Span, rest: Span) -> list[Line]:
    """Return `lines` with decoration before them: `first` before the first one, `rest` before the others."""
    result: list[Line] = []
    mark = first
    for line in lines:
        spans = (mark, *line.spans) if mark[0] else line.spans
        result.append(Line(spans, line.lead + len(mark[0]), line.joint, line.fill, line.is_mark))
        mark = rest
    return result


def repaint(line: Line, paint: Ink) -> Line:
    """Return `line` in one ink, whatever it was painted in."""
    return replace(line, spans=((line.text, paint),) if line.spans else (), fill=PLAIN)


def join(lines: Sequence[Line]) -> str:
    """Return what is shown, row by row."""
    return "\n".join([shown(line.text).rstrip() for line in lines])


def extract(lines: Sequence[Line], start: int = 0, end: int | None = None) -> str:
    """Return the written text of `lines`: no decoration, wraps undone.

    `start` is a character index into the first line, `end` into the last one.
    """
    parts: list[str] = []
    last = len(lines) - 1
    for index, line in enumerate(lines):
        if line.is_mark:
            continue
        text = line.text
        begin = max(start if index == 0 else 0, line.lead)
        piece = text[begin : end if index == last else None]
        if parts:
            parts.append("\n" if line.joint is None else line.joint)
        parts.append(piece)
    text = "".join(parts)
    return text if text.isascii() else text.translate(_WRITTEN)


def href_at(line: Line, index: int) -> str:
    """Return where the link at a character of `line` leads, empty where there is none."""
    for text, paint in line.spans:
        if index < len(text):
            return paint.href
        index -= len(text)
    return ""
