"""Shows lines of two columns at any width: what wraps stays in its column, and goes below where that is too narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from qcode.tui.transcript.wrap import break_text

_COLUMNS = re.compile(r"(?P<left> *\S+(?: \S+)*) {2,}(?=\S)")
_NARROWEST = 24
_STEP = 4


def hanging(line: str, width: int) -> Iterator[str]:
    """Yield the rows of one line, none wider than `width` cells where words allow it.

    Columns are apart by two spaces or more; the second one is what wraps. A line without columns keeps its indent.
    """
    if cell_len(line) <= width:
        yield line
        return
    indent = len(line) - len(line.lstrip(" "))
    columns = _COLUMNS.match(line)
    if columns is None:
        yield from _rows(line[indent:], " " * indent, " " * indent, width)
        return
    left, right = columns["left"], line[columns.end() :]
    place = cell_len(line[: columns.end()])
    if width - place >= _NARROWEST:
        yield from _rows(right, line[: columns.end()], " " * place, width)
        return
    below = " " * (indent + _STEP)
    yield from _rows(left[indent:], " " * indent, below, width)
    yield from _rows(right, below, below, width)


def _rows(text: str, first: str, others: str, width: int) -> Iterator[str]:
    """Break `text` into what fits beside `first`, which begins the first row, and `others`, which begins each more."""
    lead = first
    for start, end, _ in break_text(text, max(1, width - max(cell_len(first), cell_len(others)))):
        yield lead + text[start:end]
        lead = others


class HangingText(Widget):
    """Lines with a style each; as high as they need."""

    DEFAULT_CSS = "HangingText { height: auto; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._lines: Sequence[tuple[str, str]] = ()

    @property
    def plain(self) -> str:
        """The lines as they are before they are laid out."""
        return "\n".join(line for line, _ in self._lines)

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show `lines`, each a text and its style, which are our own or already cleaned."""
        self._lines = lines
        self.refresh(layout=True)

    def rows(self, width: int) -> list[Content]:
        """Return what is shown in `width` cells."""
        return [Content.styled(row, style) for line, style in self._lines for row in hanging(line, max(1, width))]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width))

    def render(self) -> Content:
        return Content("\n").join(self.rows(self.content_size.width))
