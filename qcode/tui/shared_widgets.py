"""Small parts that several screens and panels share: two-column text, key hints, an input field, styles of lists.

`HangingText` wraps two columns: wrapped text stays in its column; on a narrow screen the right column moves below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, Literal, TypeAlias

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from qcode.tui.transcript.line import break_text

ScrollTarget: TypeAlias = Literal["page_up", "page_down", "home", "end"]
"""The target of a key that scrolls: a page up or down, the start, or the end."""


def chosen_style(widget: Widget) -> str:
    """Return the style of the chosen row of a list; without colors it is in reverse."""
    return "bold reverse" if widget.app.no_color else "bold $text-accent"


def mount_parts(panel: Widget, *parts: Widget) -> None:
    """Mount the parts of a panel unless they are mounted. A hidden panel without its parts makes the start faster."""
    if not panel.children:
        panel.mount(*parts)


def overflow_mark(first: int, shown: int, total: int) -> str:
    """Return the text below a list that does not fit, such as `↓ 8 of 34`.

    `first` is the index of the first visible row. The arrows point to the hidden rows.
    """
    above, below = "↑" if first else "", "↓" if first + shown < total else ""
    return f"{above}{below} {shown} of {total}"


def key_hints(keys: Sequence[tuple[str, str]], width: int, rows: int = 1) -> Content:
    """Return the key hints: as many pairs of key and action as fit into `rows` of `width` cells, at least the first."""
    lines = [Content("")]
    for key, action in keys:
        part = Content.assemble((key, "bold"), (f" {action}", "$muted"))
        longer = Content.assemble(lines[-1], ("  ·  ", "$muted"), part) if lines[-1] else part
        if longer.cell_length <= width or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < rows:
            lines.append(part)
        else:
            break
    return Content("\n").join(lines)


# Text with single spaces only, then two spaces or more: the left column and the gap.
_COLUMNS = re.compile(r"(?P<left> *\S+(?: \S+)*) {2,}(?=\S)")
_MIN_RIGHT_CELLS = 24
_BELOW_INDENT = 4


def hanging_rows(line: str, width: int) -> Iterator[str]:
    """Yield the rows of one line, at most `width` cells wide unless a single word is wider.

    Two or more spaces separate the columns; the second one is wrapped. A line without columns keeps its indent. With
    34 cells, `Ctrl+O  Fold or unfold the last card` becomes `Ctrl+O  Fold or unfold the last` and `        card`. With
    30 cells too little room is left, so the right column moves below the left one.
    """
    if cell_len(line) <= width:
        yield line
        return
    indent = len(line) - len(line.lstrip(" "))
    columns = _COLUMNS.match(line)
    if columns is None:
        yield from _wrap_after(line[indent:], first=" " * indent, others=" " * indent, width=width)
        return
    left, right = columns["left"], line[columns.end() :]
    column = cell_len(line[: columns.end()])
    if width - column >= _MIN_RIGHT_CELLS:
        yield from _wrap_after(right, first=line[: columns.end()], others=" " * column, width=width)
        return
    below = " " * (indent + _BELOW_INDENT)
    yield from _wrap_after(left[indent:], first=" " * indent, others=below, width=width)
    yield from _wrap_after(right, first=below, others=below, width=width)


def _wrap_after(text: str, *, first: str, others: str, width: int) -> Iterator[str]:
    """Wrap `text` to `width`. `first` precedes the first row, `others` each further row."""
    lead = first
    for start, end, _ in break_text(text, max(1, width - max(cell_len(first), cell_len(others)))):
        yield lead + text[start:end]
        lead = others


_MIN_HALF_CELLS = 72
"""The minimum width of each half of a text that `HangingText` shows in two halves, side by side."""
_HALF_GAP = " " * 4


class HangingText(Widget):
    """Lines, each with its own style, wrapped to as many rows as they need."""

    DEFAULT_CSS = "HangingText { height: auto; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._lines: Sequence[tuple[str, str]] = ()
        self._max_rows = 0

    @property
    def plain(self) -> str:
        """The lines before wrapping."""
        return "\n".join(line for line, _ in self._lines)

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show `lines`, pairs of text and style. The text must be sanitized or written by qcode."""
        self._lines = lines
        self.refresh(layout=True)

    def use_two_columns_above(self, max_rows: int) -> None:
        """Show the text in two columns if it has more than `max_rows` rows and the screen is wide."""
        if max_rows != self._max_rows:
            self._max_rows = max_rows
            self.refresh(layout=True)

    def rows(self, width: int) -> list[Content]:
        """Return the rows for `width` cells."""
        rows = self._wrapped(width)
        half = (width - len(_HALF_GAP)) // 2
        if not self._max_rows or len(rows) <= self._max_rows or half < _MIN_HALF_CELLS:
            return rows
        rows = self._wrapped(half)
        middle = ceil(len(rows) / 2)
        right = [*rows[middle:], Content("")]
        return [
            Content.assemble(row, " " * (half - row.cell_length), _HALF_GAP, beside)
            for row, beside in zip(rows[:middle], right, strict=False)
        ]

    def _wrapped(self, width: int) -> list[Content]:
        return [Content.styled(row, style) for line, style in self._lines for row in hanging_rows(line, max(1, width))]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width))

    def render(self) -> Content:
        return Content("\n").join(self.rows(self.content_size.width))


def set_screen_class(screen: Screen[Any], name: str, is_set: bool, styled: str) -> None:
    """Set or remove a CSS class of `screen`, and apply the styles only to the widgets that the selector `styled` finds.

    `screen.set_class` would apply the style sheet to every widget, which delays each question by several milliseconds.
    """
    if screen.has_class(name) == is_set:
        return
    screen.set_class(is_set, name, update=False)
    for widget in screen.query(styled):
        widget.update_node_styles()


_MIN_MARKED_CELLS = 4
"""The minimum width of a field in which ellipses leave enough text in view."""


class SteadyInput(Input):
    """An `Input` with a steady cursor: blinking would need a timer that runs all the time.

    An ellipsis at an end of the field shows that the text continues there.
    """

    cursor_blink = reactive(False, init=False)

    @property
    def cursor_screen_offset(self) -> Offset:
        """The screen position of the next character. At the end of the text, `Input` returns the cell after it."""
        x, y = self.content_region.offset
        return Offset(x + cell_len(self.value[: self.cursor_position]) - self.scroll_offset.x, y)

    def on_key(self, event: events.Key) -> None:
        if event.key.startswith("alt+"):
            event.prevent_default()  # a key, not text

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._place_cursor)

    def on_resize(self) -> None:
        self.watch_selection()

    def watch_selection(self) -> None:
        """Scroll so that the cursor and the characters beside it are in view: an ellipsis covers the first or last."""
        if not self.is_attached:
            return  # a field that is created with a value; `on_resize` scrolls it
        before = self.value[: self.cursor_position]
        after = self.value[self.cursor_position :]
        cells_before = cell_len(before[-1:])
        cells_after = max(1, cell_len(after[:1]) + cell_len(after[1:2]))
        x = cell_len(before) - cells_before
        region = Region(x, y=0, width=cells_before + cells_after, height=1)
        self.scroll_to_region(region, force=True, animate=False)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        self._place_cursor(self.screen)

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        strip = super().render_line(y).crop(0, width)
        if width < _MIN_MARKED_CELLS:
            return strip
        mark = Segment("…", self.rich_style + self.get_component_rich_style("input--placeholder"))
        if self.scroll_offset.x > 0:
            strip = Strip.join([Strip([mark]), strip.crop(1)])
        if self.content_width - 1 > self.scroll_offset.x + width:
            strip = Strip.join([strip.crop(0, width - 1), Strip([mark])])
        return strip

    def _place_cursor(self, _screen: object) -> None:
        """Put the cursor of the terminal where the next character appears, also if the text or the field has moved.

        Textual reports a new layout after it has written the screen, and writes the cursor only with the next change.
        So the field is painted again.
        """
        if self.has_focus and self.app.cursor_position != self.cursor_screen_offset:
            self.app.cursor_position = self.cursor_screen_offset
            self.refresh()
