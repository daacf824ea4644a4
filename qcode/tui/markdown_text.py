"""A Markdown text that stands still, to be shown in a `Static`: the same rows and colours as in the transcript."""

from __future__ import annotations

from rich.segment import Segment
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget

from qcode.tui.transcript.line import Line, shown
from qcode.tui.transcript.markdown import MarkdownStream
from qcode.tui.transcript.palette import Palette

_WIDEST = 100


class MarkdownText(Visual):
    """`text` may be foreign; `widget` is the one that shows it, whose colours it takes."""

    def __init__(self, text: str, widget: Widget) -> None:
        self._text = text
        self._widget = widget
        self._laid_out: tuple[int, list[Line]] = (0, [])

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        palette = Palette(self._widget)
        strips = []
        for line in self._rows(width)[:height]:
            segments = [Segment(shown(text), palette.style(paint)) for text, paint in line.spans]
            segments.append(Segment(" " * max(0, width - line.width), palette.style(line.fill)))
            strips.append(Strip(segments).adjust_cell_length(width, palette.base))
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return min(container_width, _WIDEST)

    def get_height(self, rules: RulesMap, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[Line]:
        if self._laid_out[0] != width:
            stream = MarkdownStream(max(1, width))
            stream.feed(self._text)
            stream.finish()
            self._laid_out = width, stream.lines
        return self._laid_out[1]
