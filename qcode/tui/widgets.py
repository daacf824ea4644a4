"""Small widgets of screens and panels: two-column text, the row of keys, the help panel, an input field and others.

`HangingText` wraps two columns: wrapped text stays in its column; on a narrow screen the right column moves below.
`HelpPanel` opens above the prompt for keys and help; it never takes the focus, and Esc closes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Offset, Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from qcode.tui.transcript.line import break_text, crop, ink

if TYPE_CHECKING:
    from qcode.tui.transcript.transcript import Transcript


def chosen_style(widget: Widget) -> str:
    """Return the style of the chosen row of a list; without colors it is in reverse."""
    return "bold reverse" if widget.app.no_color else "bold $text-accent"


def overflow_mark(first: int, shown: int, total: int) -> str:
    """Return the last row of a list that does not fit, such as `↓ 8 of 34`.

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
        yield from _wrap_after(line[indent:], " " * indent, " " * indent, width)
        return
    left, right = columns["left"], line[columns.end() :]
    column = cell_len(line[: columns.end()])
    if width - column >= _MIN_RIGHT_CELLS:
        yield from _wrap_after(right, line[: columns.end()], " " * column, width)
        return
    below = " " * (indent + _BELOW_INDENT)
    yield from _wrap_after(left[indent:], " " * indent, below, width)
    yield from _wrap_after(right, below, below, width)


def _wrap_after(text: str, first: str, others: str, width: int) -> Iterator[str]:
    """Wrap `text` to `width`. `first` precedes the first row, `others` each further row."""
    lead = first
    for start, end, _ in break_text(text, max(1, width - max(cell_len(first), cell_len(others)))):
        yield lead + text[start:end]
        lead = others


_MIN_COLUMN_CELLS = 72
"""The minimum width of each column of a text in two columns."""
_COLUMN_GAP = " " * 4


class HangingText(Widget):
    """Lines with a style each, in as many rows as they need."""

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
        """Show `lines`, pairs of text and style. The text must be sanitized or our own."""
        self._lines = lines
        self.refresh(layout=True)

    def use_columns_above(self, max_rows: int) -> None:
        """Show the text in two columns if it has more than `max_rows` rows and the screen is wide enough."""
        if max_rows != self._max_rows:
            self._max_rows = max_rows
            self.refresh(layout=True)

    def rows(self, width: int) -> list[Content]:
        """Return the rows for `width` cells."""
        rows = self._column(width)
        half = (width - len(_COLUMN_GAP)) // 2
        if not self._max_rows or len(rows) <= self._max_rows or half < _MIN_COLUMN_CELLS:
            return rows
        rows = self._column(half)
        middle = ceil(len(rows) / 2)
        right = [*rows[middle:], Content("")]
        return [
            Content.assemble(row, " " * (half - row.cell_length), _COLUMN_GAP, beside)
            for row, beside in zip(rows[:middle], right, strict=False)
        ]

    def _column(self, width: int) -> list[Content]:
        return [Content.styled(row, style) for line, style in self._lines for row in hanging_rows(line, max(1, width))]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width))

    def render(self) -> Content:
        return Content("\n").join(self.rows(self.content_size.width))


def set_screen_class(screen: Screen[Any], name: str, is_set: bool, styled: str) -> None:
    """Set or remove a class of `screen` that only affects the styles of the widgets that the selector `styled` finds.

    `screen.set_class` would apply the style sheet to every widget, which delays each question by several milliseconds.
    """
    if screen.has_class(name) == is_set:
        return
    screen.set_class(is_set, name, update=False)
    for widget in screen.query(styled):
        widget.update_node_styles()


class NewsLine(Widget):
    """A row above the prompt, shown while new text is below the view of `transcript`. A click scrolls to that text.

    The row replaces the blank row above the prompt, so the transcript keeps its size, and no text is covered.
    """

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._transcript = transcript
        self.key = ""
        """The key that scrolls to the end, such as `Ctrl+End`."""

    def on_mount(self) -> None:
        self.watch(self._transcript, "shows_news_label", self._show)

    def _show(self, is_needed: bool) -> None:
        self.display = is_needed
        set_screen_class(self.screen, "-news", is_needed, "#prompt-row")

    def on_click(self) -> None:
        self._transcript.scroll_end(animate=False)

    def render(self) -> Text:
        label = " · ".join(filter(None, ("new text below", self.key)))
        return Text(crop(f" ↓ {label} ", self.size.width), self._transcript.palette.style(ink("news")))


_TITLE_ROWS, _TRANSCRIPT_ROWS, _MIN_HELP_ROWS = 1, 3, 3
_FULL_HEIGHT = 20
"""On a lower screen the help panel leaves one row to the transcript."""


class HelpPanel(Vertical):
    """A panel with a title and scrollable text; hidden while closed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self.heading = ""

    def compose(self) -> ComposeResult:
        yield Static(id="help-title", markup=False)
        with VerticalScroll(id="help-scroll", can_focus=False):
            yield HangingText(id="help-text")

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def show(self, title: str, text: str) -> None:
        """Open with `text`, which must be sanitized or our own."""
        self.heading = title
        self._show_title()
        self.query_one("#help-text", HangingText).show([(line, "") for line in text.split("\n")])
        self.display = True
        set_screen_class(self.screen, "-helping", True, "#aside")
        self._fit()
        self.query_one("#help-scroll", VerticalScroll).scroll_home(animate=False)
        self.call_after_refresh(self._show_title)

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_title)

    def _fit(self, _screen: object = None) -> None:
        """Use the rows that the other widgets leave, except for a few rows of the transcript."""
        if not self.is_open:
            return
        others = (child for child in self.screen.children if child is not self and child.id != "transcript")
        rows = sum(child.region.height + child.styles.margin.height for child in others if child.display)
        free_rows = self.screen.size.height - rows - self.styles.margin.height - _TITLE_ROWS
        transcript_rows = _TRANSCRIPT_ROWS if self.screen.size.height >= _FULL_HEIGHT else 1
        height = max(_MIN_HELP_ROWS, free_rows - transcript_rows)
        self.query_one("#help-scroll").styles.max_height = height
        self.query_one("#help-text", HangingText).use_columns_above(height)

    def _show_title(self) -> None:
        """Show the title and the keys. The key that scrolls is named only if some of the text is hidden."""
        scrolls = self.query_one("#help-scroll", VerticalScroll).max_scroll_y > 0
        hint = f"  Esc close{' · PgDn scroll' if scrolls else ''}"
        self.query_one("#help-title", Static).update(Content.assemble((self.heading, "bold"), (hint, "$muted")))

    def close(self) -> bool:
        """Hide the panel; return whether it was open."""
        was_open = self.is_open
        self.display = False
        set_screen_class(self.screen, "-helping", False, "#aside")
        return was_open

    def scroll_page(self, step: int) -> None:
        scroll = self.query_one("#help-scroll", VerticalScroll)
        if step < 0:
            scroll.scroll_page_up(animate=False)
        else:
            scroll.scroll_page_down(animate=False)


class SteadyInput(Input):
    """An `Input` with a steady cursor: blinking would need a timer that runs all the time."""

    cursor_blink = reactive(False, init=False)

    @property
    def cursor_screen_offset(self) -> Offset:
        """The place of the next character. Textual's is one cell further at the end of the text."""
        x, y = self.content_region.offset
        return Offset(x + cell_len(self.value[: self.cursor_position]) - self.scroll_offset.x, y)

    def on_key(self, event: events.Key) -> None:
        if event.key.startswith("alt+"):
            event.prevent_default()  # a key, not text

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._place_cursor)

    def _place_cursor(self, _screen: object) -> None:
        """Put the cursor of the terminal where the next character appears, also if a list below moved the field."""
        if self.has_focus:
            self.app.cursor_position = self.cursor_screen_offset
