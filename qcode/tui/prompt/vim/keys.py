"""Connects `Vim` to a text area: passes keys to `Vim`, and shows the text, cursor and selection of `Vim` in the area.

Imported only if vim mode is on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from qcode.tui.prompt.labels import Labels, label_spans
from qcode.tui.prompt.vim.machine import Vim
from qcode.tui.prompt.vim.motions import line_start, normal_cursor, nth_line
from qcode.tui.prompt.vim.undo import difference
from qcode.tui.prompt.vim.units import Units

if TYPE_CHECKING:
    from textual.widgets.text_area import Location

    from qcode.tui.prompt.editing import EditingArea
    from qcode.tui.prompt.vim.operators import ChangedText, Region

_OTHER_KEYS = frozenset({"enter", "tab", "shift+tab", "pageup", "pagedown", "insert"})
"""Keys that keep their meaning outside vim mode."""
_BEGINS_TYPING = frozenset("/!@")
"""Keys that start insert mode in an empty prompt: a command, a shell line, a mention."""


class VimKeys:
    """Vim mode of `area`."""

    def __init__(
        self,
        area: EditingArea,
        labels: Sequence[Labels[Any]],
        *,
        recall_older: Callable[[], None],
        recall_newer: Callable[[], None],
        show_label: Callable[[str], None],
    ) -> None:
        self._area = area
        self._recall_older = recall_older
        """Shows an earlier prompt."""
        self._recall_newer = recall_newer
        """Shows a later prompt."""
        self._show_label = show_label
        """Shows the mode and the keys of an unfinished command, such as `NORMAL 2d`."""
        self._units = Units(lambda line: label_spans(line, *labels))
        self._vim = Vim(self._units.width)
        self._last_label = ""
        self._painted_region: Region | None = None
        self.reset()

    @property
    def is_inserting(self) -> bool:
        return self._vim.mode == "insert"

    @property
    def is_visual(self) -> bool:
        return self._vim.is_visual

    def reset(self) -> None:
        """Start with the text of the area, in insert mode."""
        self._vim.reset(*self._text_and_cursor())
        self._paint_changes()

    def press(self, key: str, character: str | None) -> bool:
        """Handle a key; return False if the text area or the app must handle the key instead."""
        vim = self._vim
        is_typed = character is not None and character.isprintable()
        typed = character if character is not None and is_typed else key
        if vim.mode == "insert" or (key in _OTHER_KEYS and not vim.pending):
            return False
        is_selecting = key.startswith(("shift+", "ctrl+shift+")) and not is_typed
        is_moving_alone = not vim.pending and not vim.is_visual
        # The area moves by wrapped rows, and recalls prompts at the edges.
        is_row_key = key in ("up", "down") and is_moving_alone
        if is_selecting or is_row_key or key.startswith("alt+"):
            return False
        area = self._area
        if area.selection.start != area.selection.end:
            self._take_selection()
        text, cursor = self._text_and_cursor()
        if not text and typed in _BEGINS_TYPING and not vim.pending:
            self.reset()
            return False
        if typed in ("j", "k") and is_moving_alone and self._is_at_edge(typed):
            (self._recall_older if typed == "k" else self._recall_newer)()
            return True
        edited = vim.press(typed, text, cursor)
        if edited is not None:
            self._apply(edited)
        # Normal mode also uses up a letter without a meaning: the area must not insert it.
        return edited is not None or is_typed

    def escape(self) -> bool:
        """Enter normal mode, or cancel a command or a selection; return False in normal mode without these."""
        edited = self._vim.press("escape", *self._text_and_cursor())
        if edited is not None:
            self._apply(edited)
        return edited is not None

    def undo(self, *, is_redo: bool = False) -> None:
        """Undo or redo one step of vim's undo history, in every mode."""
        self._apply(self._vim.undo(*self._text_and_cursor(), is_redo=is_redo))

    def follow(self) -> None:
        """Take over a text or a cursor that was changed outside vim mode."""
        if not self.is_inserting:
            self._vim.follow(*self._text_and_cursor())
            self._paint_changes()

    def clamp(self, location: Location) -> Location:
        """Return `location`, moved in normal mode from the end of a line to its last character."""
        row, column = location
        line = self._area.document[row] if row < self._area.document.line_count else ""
        if self._vim.mode != "normal" or column < len(line) or not line:
            return location
        packed = self._units.pack(line)
        return row, len(self._units.unpack(packed[: normal_cursor(packed, len(packed))]))

    @property
    def selected_text(self) -> str:
        region = self._vim.region()
        return self._units.unpack(self._vim.text[region.start : region.end]) if region is not None else ""

    def selected_columns(self, row: int) -> tuple[int, int] | None:
        """Return the columns of a line that the selection of visual mode covers, None if it covers none."""
        region = self._vim.region()
        lines = self._vim.text.split("\n")
        if region is None or row >= len(lines):
            return None
        line = lines[row]
        start = sum(map(len, lines[:row])) + row
        if region.start > start + len(line) or self._vim.last_selected < start:
            return None
        first = max(region.start - start, 0)
        end = min(region.end - start, len(line))
        return len(self._units.unpack(line[:first])), len(self._units.unpack(line[:end]))

    def _text_and_cursor(self) -> tuple[str, int]:
        """Return the text of the area and its cursor, both packed by `Units`."""
        area = self._area
        text = area.text
        index = _offset(text, area.cursor_location)
        return self._units.pack(text), len(self._units.pack(text[:index]))

    def _take_selection(self) -> None:
        """Continue in visual mode with a selection made by mouse or with Shift."""
        area = self._area
        text = area.text
        start, end = (len(self._units.pack(text[: _offset(text, position)])) for position in area.selection)
        packed = self._units.pack(text)
        # The ends of the area's selection are between characters, those of vim's are characters.
        if start < end:
            self._vim.select(packed, start, end - 1)
        else:
            self._vim.select(packed, start - 1, end)
        self._put_cursor(self._vim.cursor)

    def _is_at_edge(self, key: str) -> bool:
        row = self._area.cursor_location[0]
        return row == (0 if key == "k" else self._area.document.line_count - 1)

    def _apply(self, edited: ChangedText) -> None:
        """Show a text and its cursor, as one change of the area."""
        area = self._area
        old, new = area.text, self._units.unpack(edited.text)
        if new != old:
            start, removed, inserted = difference(old, new)
            area.history.checkpoint()
            end = _location(old, start + len(removed))
            area.replace(inserted, _location(old, start), end, maintain_selection_offset=False)
            area.history.checkpoint()
        self._put_cursor(edited.cursor)
        self._paint_changes()

    def _put_cursor(self, cursor: int) -> None:
        before = self._units.unpack(self._vim.text[:cursor])
        self._area.move_cursor(_location(before, len(before)))

    def _paint_changes(self) -> None:
        """Repaint if the selection or the mode has changed."""
        region = self._vim.region()
        if region != self._painted_region:
            self._painted_region = region
            self._area.notify_style_update()
            self._area.refresh()
        label = f"{self._vim.mode.upper()} {self._vim.pending}".rstrip()
        if label != self._last_label:
            self._last_label = label
            self._show_label(label)


def _offset(text: str, location: Location) -> int:
    """Return the index in `text` of a location of the area."""
    row, column = location
    return nth_line(text, row + 1) + column


def _location(text: str, index: int) -> Location:
    """Return the location in the area of an index in `text`."""
    return text.count("\n", 0, index), index - line_start(text, index)
