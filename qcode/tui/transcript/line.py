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
    return "\n".join([line.text.rstrip() for line in lines])


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
    return "".join(parts)
