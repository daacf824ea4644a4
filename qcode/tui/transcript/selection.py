"""Selection with the mouse (by dragging, by word, by line, beyond the edges of the view), and clicks on links.

A selection is attached to the text and not to rows of the screen. It moves with its text, also if a resize divides the
text into other rows. The view does not scroll while text is selected, unless the pointer is dragged beyond its edge.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection
from textual.timer import Timer

from qcode import values
from qcode.text.pattern import lazy_pattern
from qcode.tui.transcript.content import Content
from qcode.tui.transcript.entries import Entry, Foldable
from qcode.tui.transcript.line import SPACE_CLASS, Line, cluster_end, clusters, href_at, source_text, word_at
from qcode.tui.transcript.pane import Pane

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCROLL_INTERVAL_S = 1 / 20
_CONTEXT_CHARS = 12
"""The number of characters on each side by which a position in the text is found again after a resize."""
_NOT_SPACE = lazy_pattern(SPACE_CLASS.replace("[", "[^", 1))


@values.dataclass(frozen=True, slots=True)
class Anchor:
    """A character of an entry at the current width."""

    entry: Entry
    row: int
    """The row of the entry, blank rows above it included."""
    x: int
    """The index of the character in the row."""
    before: str
    """The text of the row before the character. If it changes, the anchor is lost."""


@values.dataclass(frozen=True, slots=True)
class WidthFreeAnchor:
    """An anchor that can be found at another width. Blanks do not count, because wrapping changes them."""

    entry: Entry
    characters_before: int
    """The number of characters of the entry before the anchor."""
    context: str
    """The characters around the anchor, to find out whether the text has the same order at the new width."""
    is_end: bool
    """The anchor is the end of the selection, which is after its last character."""


class _CharacterPosition(NamedTuple):
    """The position of a character in the rows of the transcript, or of an entry."""

    row: int
    x: int
    """The index in the row."""


@values.dataclass(frozen=True, slots=True)
class _NonSpaceText:
    """The characters of an entry without white space and decoration.

    They are the same at every width, unless the entry has a table, or a diff in columns.
    """

    text: str
    positions: list[_CharacterPosition]
    """The position of each character."""

    def context(self, index: int) -> str:
        """Return the characters on both sides of an index."""
        return self.text[max(0, index - _CONTEXT_CHARS) : index + _CONTEXT_CHARS]


class SelectablePane(Pane):
    """A pane whose text can be selected. Textual's screen holds the selection; this class keeps it on its text."""

    # Textual's own selection is bound to screen rows and extends into other widgets.
    ALLOW_SELECT = False

    # These messages are not dataclasses: creating one takes almost a millisecond of each start.

    class LinkClicked(Message):
        """A link to the web was clicked."""

        def __init__(self, href: str) -> None:
            super().__init__()
            self.href = href

    class Selected(Message):
        """Text has been selected with the mouse."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, content: Content, id: str | None, classes: str | None) -> None:
        super().__init__(content, id, classes)
        self._anchors: tuple[Anchor, Anchor] | None = None
        self._press_anchor: Anchor | None = None
        # The selection and the pressed character during a resize.
        self._saved_selection: tuple[WidthFreeAnchor, WidthFreeAnchor] | None = None
        self._saved_press: WidthFreeAnchor | None = None
        self._pointer = Offset(0, 0)
        self._is_dragging = False
        self.scroll_timer: Timer | None = None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        pointer = self._pointer_offset(event)
        if event.button != 1 or not 0 <= pointer.x < self.text_width or not self.row_layout.entries:
            return
        self._press_anchor = self._anchor_at(*self._character_at(pointer))
        self._pointer = pointer
        self._is_dragging = False
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._press_anchor is None:
            return
        pointer = self._pointer_offset(event)
        if not self._is_dragging and pointer == self._pointer:  # still in the cell where the button was pressed
            return
        if not self._is_dragging:
            self._is_dragging = True
            self.stop_following()
        self._pointer = pointer
        self._extend_selection()
        is_outside = pointer.y <= 0 or pointer.y >= self.size.height
        if is_outside and self.scroll_timer is None:
            self.scroll_timer = self.set_interval(_SCROLL_INTERVAL_S, self._scroll_towards_pointer)
        elif not is_outside:
            self._stop_scrolling()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._press_anchor is None:
            return
        self.release_mouse()
        was_dragging = self._is_dragging
        self._is_dragging = False
        self._press_anchor = None
        self._stop_scrolling()
        if was_dragging:
            self._report_selection()

    def on_click(self, event: events.Click) -> None:
        """Open a link; a double click selects a word, a triple click a line."""
        pointer = self._pointer_offset(event)
        if not 0 <= pointer.x < self.text_width or event.button != 1:
            return
        y, x = self._character_at(pointer)
        line = self.row_layout.line(y)
        if event.chain >= 2:
            event.prevent_default()
            if line is not None:
                self._select_around(line, y, x, is_whole_line=event.chain > 2)
                self._report_selection()
            return
        if self.text_selection is not None or line is None:
            return
        if href := href_at(line, x):
            self.post_message(self.LinkClicked(href))
            return
        index, row = self.row_layout.find(y)
        entry = self.row_layout.entries[index]
        is_first_row = row == entry.gap  # the rows before it are blank
        if isinstance(entry, Foldable) and (is_first_row or line.is_decoration):
            self.toggle(entry)

    def _select_around(self, line: Line, y: int, x: int, *, is_whole_line: bool) -> None:
        """Select the word at the character `x` of `line`, which is row `y`, or the whole source line."""
        if not is_whole_line:
            start, end = word_at(line.text, x)
            self.select(Offset(start, y), Offset(end, y))
            return
        first, last = self._rows_of_source_line(y)
        # The lead, which is not copied, has the same length in all rows, except in a row with a bullet: the bullet is
        # copied. A click on that row selects from the bullet, a click on a wrapped row below from the text after it.
        self.select(Offset(line.lead, first), Offset(len(self._row_text(last)), last))

    def toggle(self, entry: Foldable) -> None:
        """Unfold one entry, or fold it again; the rows above it stay where they are."""
        self.stop_following()
        self.content.unfold(entry, not entry.is_unfolded)
        position = self.reading_position
        if position is not None:
            self.go_to(position)

    def select(self, start: Offset, end: Offset) -> None:
        """Select from the character at `start` up to, not including, the one at `end`."""
        self._anchors = self._anchor_at(start.y, start.x), self._anchor_at(end.y, end.x)
        self.screen.selections = {self: Selection(start, end)}

    def show_content(self, content: Content) -> None:
        self._press_anchor = self._anchors = None
        super().show_content(content)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the source text of the selection, without gutters and with wrapped lines joined."""
        start = selection.start or Offset(0, 0)
        end = selection.end or Offset(-1, self.row_layout.height - 1)
        lines = list(self.row_layout.lines(start.y, end.y + 1))
        self.flush()
        return source_text(lines, start.x, None if end.x < 0 else end.x), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show the new selection; if it was cleared at the end of the text, follow the end again."""
        self.refresh()
        if selection is None:
            self._anchors = None
            if not self.is_anchored and not self._is_dragging and self.scroll_y >= self.max_scroll_y:
                self.follow()

    def before_resize(self) -> None:
        """Remember which characters are selected, and on which one the mouse button was pressed."""
        selection = self.text_selection
        if self._anchors is None and selection is not None:
            start, end = selection.start, selection.end
            if start is not None and end is not None:
                self._anchors = self._anchor_at(start.y, start.x), self._anchor_at(end.y, end.x)
        if self._anchors is not None:
            first, last = self._anchors
            self._saved_selection = _without_width(first), _without_width(last, is_end=True)
        if self._press_anchor is not None:
            self._saved_press = _without_width(self._press_anchor)

    def after_resize(self) -> None:
        """Find the selected characters in the new rows. The selection is dropped if the text has another order."""
        if self._saved_press is not None:
            self._press_anchor = self._find_anchor(self._saved_press)
        if self._saved_selection is not None and self._anchors is not None:
            start, end = map(self._find_anchor, self._saved_selection)
            self._anchors = (start, end) if start is not None and end is not None else None
            if self._anchors is None:
                self.drop_selection()
        self._saved_selection = self._saved_press = None

    def _find_anchor(self, anchor: WidthFreeAnchor) -> Anchor | None:
        """Return the anchor at the current width, None if its text is not there.

        Example: 2 characters are before the end of a selection of "ab", so the last selected one has the index 1, and
        `x` is the index after it. If a wrap now follows "ab", the end thus stays in the row of "ab".
        """
        index = self.row_layout.index(anchor.entry)
        if index is None:
            return None
        self.row_layout.lay_out(index)
        rows = anchor.entry.shown_rows()
        content = _non_space_text(rows)
        if not content.positions or content.context(anchor.characters_before) != anchor.context:
            return None
        character = anchor.characters_before - 1 if anchor.is_end else anchor.characters_before
        row, x = content.positions[max(0, min(character, len(content.positions) - 1))]
        if anchor.is_end or character >= len(content.positions):
            x += 1  # after the character
        return Anchor(anchor.entry, row, x, rows[row].text[:x])

    def after_changes(self) -> None:
        """Move the selection with its text after rows moved, or drop it if its text is gone."""
        if self._is_dragging:
            self._extend_selection()
        if self._anchors is None or self.text_selection is None:
            return
        start, end = (self._offset_of(anchor) for anchor in self._anchors)
        if start is None or end is None:
            self.drop_selection()
        elif self.text_selection != Selection(start, end):
            self.screen.selections = {self: Selection(start, end)}

    def _pointer_offset(self, event: events.MouseEvent) -> Offset:
        """Return the position of the pointer relative to the first cell of the text."""
        return Offset(event.x - self.gutter.left, event.y - self.gutter.top)

    def _character_at(self, cell: Offset) -> _CharacterPosition:
        """Return the position in the transcript of the character at a cell of the view, or of the nearest one."""
        view_row = max(0, min(cell.y, self.size.height - 1))
        y = max(0, min(round(self.scroll_y) + view_row, self.row_layout.height - 1))
        line = self.row_layout.line(y)
        return _CharacterPosition(y, character_at(line, cell.x) if line is not None else 0)

    def _anchor_at(self, y: int, x: int) -> Anchor:
        """Return the anchor of the character `x` in row `y` of the transcript."""
        index, row = self.row_layout.find(y)
        line = self.row_layout.line(y)
        return Anchor(self.row_layout.entries[index], row, x, line.text[:x] if line is not None else "")

    def _offset_of(self, anchor: Anchor) -> Offset | None:
        """Return the current position of `anchor`, None if its text is gone."""
        index = self.row_layout.index(anchor.entry)
        if index is None:
            return None
        line = anchor.entry.line(anchor.row, self.row_layout.width)
        if line is None or line.text[: anchor.x] != anchor.before:
            return None
        return Offset(anchor.x, self.row_layout.top(index) + anchor.row)

    def _extend_selection(self) -> None:
        """Select from the pressed character to the pointer, both included."""
        start = self._offset_of(self._press_anchor) if self._press_anchor is not None else None
        if start is None:
            return
        y, x = self._character_at(self._pointer)
        if self._pointer.y >= self.size.height:
            x = len(self._row_text(y))
        (first_y, first_x), (last_y, last_x) = sorted([(start.y, start.x), (y, x)])
        self.select(Offset(first_x, first_y), Offset(cluster_end(self._row_text(last_y), last_x), last_y))

    def _scroll_towards_pointer(self) -> None:
        """Scroll towards the pointer, faster the farther it is outside the view."""
        above, below = -self._pointer.y, self._pointer.y - self.size.height + 1
        step = -1 - above // 2 if self._pointer.y <= 0 else 1 + below // 2
        self.scroll_to(y=self.scroll_y + step, immediate=True)
        self.stop_following()
        self._extend_selection()

    def _stop_scrolling(self) -> None:
        if self.scroll_timer is not None:
            self.scroll_timer.stop()
            self.scroll_timer = None

    def _row_text(self, y: int) -> str:
        """Return the text of row `y` of the transcript, empty if there is no such row."""
        line = self.row_layout.line(y)
        return line.text if line is not None else ""

    def _rows_of_source_line(self, y: int) -> tuple[int, int]:
        """Return the first and last row of the source line that contains row `y`.

        A row with a `joint` continues the source line of the row above.
        """
        first = last = y
        while (line := self.row_layout.line(first)) is not None and line.joint is not None:
            first -= 1
        while (line := self.row_layout.line(last + 1)) is not None and line.joint is not None:
            last += 1
        return first, last

    def _report_selection(self) -> None:
        # The screen's text is the one that Ctrl+C copies: without line breaks at its end.
        if selected := self.screen.get_selected_text():
            self.post_message(self.Selected(selected))


def _without_width(anchor: Anchor, *, is_end: bool = False) -> WidthFreeAnchor:
    """Return `anchor` in a form that can be found at another width."""
    content = _non_space_text(anchor.entry.shown_rows())
    characters_before = bisect_left(content.positions, _CharacterPosition(anchor.row, anchor.x))
    return WidthFreeAnchor(anchor.entry, characters_before, content.context(characters_before), is_end)


def _non_space_text(rows: Iterable[Line]) -> _NonSpaceText:
    characters: list[str] = []
    positions: list[_CharacterPosition] = []
    for row, line in enumerate(rows):
        if not line.is_decoration:
            for match in _NOT_SPACE.finditer(line.text, line.lead):
                characters.append(match[0])
                positions.append(_CharacterPosition(row, match.start()))
    return _NonSpaceText("".join(characters), positions)


def character_at(line: Line, cell: int) -> int:
    """Return the index of the character at a cell of `line`, or its length for a cell after its end.

    A character with combining marks, or several joined to one emoji, is found by its first index.
    """
    text = line.text
    if text.isascii():
        return max(0, min(cell, len(text)))
    index = used_cells = 0
    for cluster in clusters(text):
        used_cells += cell_len(cluster)
        if cell < used_cells:
            return index
        index += len(cluster)
    return len(text)
