"""A text area with readline's keys: words, kill ring, undo, and labels that the cursor treats as one character.

This is editing only: `prompt` sends, completes and recalls history. A kill is a cut that readline's yank can paste. The
cursor moves by grapheme, never into an emoji or an accent: the rules of Unicode annex 29 that matter for typing
(https://www.unicode.org/reports/tr29/).
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset
from textual.widgets.text_area import Location, Selection

from qcode.text.pattern import lazy_pattern
from qcode.tui.prompt.labels import Labels, label_spans
from qcode.tui.terminal.textual_internals import KeyDeletingArea
from qcode.tui.transcript.line import with_marks_as_letters, word_at

if TYPE_CHECKING:
    from textual.widgets.text_area import EditResult

_WORD = lazy_pattern(r"\w+")
_WORD_AND_BLANKS = lazy_pattern(r"\S+\s*$")

EDITING_KEYS: tuple[tuple[str, str, str], ...] = (
    ("left,ctrl+b", "cursor_left", "Move one character left."),
    ("right", "cursor_right", "Move one character right."),
    ("up", "cursor_up", "Move one line up; from the first line, recall an earlier prompt."),
    ("down,ctrl+n", "cursor_down", "Move one line down; from the last line, recall a later prompt."),
    ("ctrl+left,alt+left,alt+b", "cursor_word_left", "Move one word left."),
    ("ctrl+right,alt+right,alt+f", "cursor_word_right", "Move one word right."),
    ("home,ctrl+a", "cursor_line_start", "Move to the start of the line."),
    ("end,ctrl+e", "cursor_line_end", "Move to the end of the line."),
    ("backspace,ctrl+h", "delete_left", "Delete the character before the cursor, or a whole label."),
    ("delete,ctrl+d", "delete_right", "Delete the character under the cursor."),
    ("ctrl+w,ctrl+backspace", "kill_blank_word_left", "Cut back to the previous space."),
    ("alt+backspace", "kill_word_left", "Cut the word before the cursor."),
    ("alt+d,alt+delete,ctrl+delete", "kill_word_right", "Cut the word after the cursor."),
    ("ctrl+u,super+backspace", "kill_to_start", "Cut back to the start of the line."),
    ("ctrl+k", "kill_to_end", "Cut to the end of the line."),
    ("ctrl+y", "yank", "Paste the last cut."),
    ("alt+y", "yank_older", "Replace the text that Ctrl+Y pasted by the cut before it."),
    ("ctrl+z,ctrl+underscore,ctrl+slash,super+z", "undo", "Undo the last change."),
    ("ctrl+shift+z,alt+z", "redo", "Redo the last undone change."),
    ("ctrl+x,super+x", "cut", "Cut the selection, or the line without one, to the clipboard."),
    ("shift+left", "cursor_left(True)", "Select to the left; Shift with any other movement selects too."),
)
"""Keys, action and description. The app's key list and the documentation are generated from it."""

EDITING_ACTIONS: dict[str, str] = {
    key: action
    for keys, action, _ in EDITING_KEYS
    for key in keys.split(",")
    if action not in ("cursor_up", "cursor_down", "cut", "cursor_left(True)")
}
"""The action of each key that moves within a line or edits it, except for keys of the selection and the clipboard."""

_SELECTION_KEYS = (
    ("shift+right", "cursor_right(True)"),
    ("shift+up", "cursor_up(True)"),
    ("shift+down", "cursor_down(True)"),
    ("shift+home", "cursor_line_start(True)"),
    ("shift+end", "cursor_line_end(True)"),
    ("ctrl+shift+left", "cursor_word_left(True)"),
    ("ctrl+shift+right", "cursor_word_right(True)"),
    ("super+c", "copy"),
)


class EditingArea(KeyDeletingArea, inherit_bindings=False):
    """A text area with readline's keys. The cursor never enters one of the `labels`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(keys, action, meaning, show=False) for keys, action, meaning in EDITING_KEYS),
        *(Binding(keys, action, action, show=False) for keys, action in _SELECTION_KEYS),
    ]

    def __init__(self, *labels: Labels[Any], placeholder: str, id: str | None = None) -> None:
        self._labels = labels
        self._kills = KillRing()
        self._yanked_range: tuple[Location, Location] | None = None
        super().__init__(
            soft_wrap=True,
            compact=True,
            highlight_cursor_line=False,
            show_line_numbers=False,
            placeholder=placeholder,
            id=id,
        )
        self.cursor_blink = False

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._place_cursor)

    def _place_cursor(self, _screen: object) -> None:
        """Move the terminal's cursor too. Textual does this for keys, but not if the field itself moves.

        Textual reports a new layout after it has written the screen, and writes the cursor only with the next change.
        So the field is painted again.
        """
        if self.has_focus and self.app.cursor_position != self.cursor_screen_offset:
            self.app.cursor_position = self.cursor_screen_offset
            self.refresh()

    def replace_in_one_step(self, text: str, start: Location, end: Location) -> None:
        """Replace a range by `text` in one undo step, with the cursor after it."""
        self.move_cursor(self.replace(text, start, end, maintain_selection_offset=False).end_location)

    @property
    def cursor_index(self) -> int:
        """The number of characters before the cursor."""
        return len(self.get_text_range((0, 0), self.cursor_location))

    def start_of_label_before(self, location: Location) -> int | None:
        """Return the column at which the label starts that ends at `location`, None without one."""
        row, column = location
        spans = label_spans(self.document[row], *self._labels)
        return next((start for start, end in spans if end == column), None)

    def end_of_label_after(self, location: Location) -> int | None:
        """Return the column at which the label ends that starts at `location`, None without one."""
        row, column = location
        spans = label_spans(self.document[row], *self._labels)
        return next((end for start, end in spans if start == column), None)

    def validate_selection(self, selection: Selection) -> Selection:
        """Keep both ends of a new selection out of labels. `self.selection.end` is the cursor before the change."""
        return Selection(
            self._outside_label(selection.start, self.selection.end),
            self._outside_label(selection.end, self.selection.end),
        )

    def _outside_label(self, location: Location, old_cursor: Location) -> Location:
        """Return `location`, or if it is inside a label, an end of that label.

        If the old cursor is at one end of the label, return the other end, so that an arrow key passes the label.
        Otherwise return the nearer end, as for a click.
        """
        row, column = location
        for start, end in label_spans(self.document[row], *self._labels):
            if not start < column < end:
                continue
            if old_cursor == (row, start):
                return row, end
            if old_cursor == (row, end):
                return row, start
            is_start_nearer = column - start < end - column
            return row, (start if is_start_nearer else end)
        return location

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor, unless its line was just removed and it has not been moved yet.

        `TextArea` undoes and redoes in this order: text, size, scroll bar, cursor. Example: undoing a paste of 9 lines
        hides the scroll bar, which scrolls to the cursor. The cursor is then still on line 9 of a text of one line.
        `TextArea` moves the cursor right after that, which scrolls again.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset(0, 0)
        return super().scroll_cursor_visible(center, animate)

    def on_key(self, event: events.Key) -> None:
        """End a run of kills and yanks if the key types text, which `TextArea` then inserts.

        Alt with a character is not text.
        """
        if event.key.startswith("alt+"):
            # Without the Kitty protocol Textual reports Alt+Z as "alt+z" with the character "z".
            event.prevent_default()
            return
        if event.is_printable:
            self._end_run()

    def on_click(self, event: events.Click) -> None:
        """Select a word or a label with a double click, the line with a triple click."""
        if event.button != 1 or event.chain < 2:
            return
        row, column = self.get_target_document_location(event)
        line = self.document[row]
        start, end = self._label_or_word_at(line, column) if event.chain == 2 else (0, len(line))
        self.selection = Selection((row, start), (row, end))

    def _label_or_word_at(self, line: str, column: int) -> tuple[int, int]:
        """Return the start and end of the label or word at a column."""
        for start, end in label_spans(line, *self._labels):
            if start <= column <= end:
                return start, end
        return word_at(line, column)

    def _end_run(self) -> None:
        """End the run of kills, which are joined, and of yanks, which Alt+Y replaces."""
        self._kills.end_run()
        self._yanked_range = None

    def move_cursor(
        self, location: Location, select: bool = False, center: bool = False, record_width: bool = True
    ) -> None:
        self._end_run()
        super().move_cursor(location, select, center, record_width)

    def get_cursor_left_location(self) -> Location:
        row, column = self.cursor_location
        if column == 0:
            return super().get_cursor_left_location()
        label_start = self.start_of_label_before((row, column))
        return row, label_start if label_start is not None else grapheme_start(self.document[row], column)

    def action_cursor_right(self, select: bool = False) -> None:
        """Move the cursor right. A suggestion here is a hint that is only shown; Textual would insert it."""
        self.suggestion = ""
        super().action_cursor_right(select)

    def get_cursor_right_location(self) -> Location:
        row, column = self.cursor_location
        if column == len(self.document[row]):
            return super().get_cursor_right_location()
        label_end = self.end_of_label_after((row, column))
        return row, label_end if label_end is not None else grapheme_end(self.document[row], column)

    def get_cursor_word_left_location(self) -> Location:
        row, column = self.cursor_location
        if column == 0:
            return (row - 1, len(self.document[row - 1])) if row else (0, 0)
        label_start = self.start_of_label_before((row, column))
        if label_start is not None:
            return row, label_start
        starts = [match.start() for match in _WORD.finditer(with_marks_as_letters(self.document[row][:column]))]
        return row, starts[-1] if starts else 0

    def get_cursor_word_right_location(self) -> Location:
        row, column = self.cursor_location
        line = self.document[row]
        if column == len(line):
            return (row + 1, 0) if row < self.document.line_count - 1 else (row, column)
        label_end = self.end_of_label_after((row, column))
        if label_end is not None:
            return row, label_end
        word = _WORD.search(with_marks_as_letters(line), column)
        return row, word.end() if word is not None else len(line)

    def action_cursor_line_start(self, select: bool = False) -> None:
        """Move to the start of the wrapped row; if the cursor is already there, to the start of the whole line."""
        row, column = self.cursor_location
        row_start = self.get_cursor_line_start_location()
        self.move_cursor((row, 0) if row_start == (row, column) else row_start, select=select)

    def action_cursor_line_end(self, select: bool = False) -> None:
        """Move to the end of the wrapped row; if the cursor is already there, to the end of the whole line."""
        row, column = self.cursor_location
        row_end = self.get_cursor_line_end_location()
        self.move_cursor((row, len(self.document[row])) if row_end == (row, column) else row_end, select=select)

    def action_kill_blank_word_left(self) -> None:
        row, column = self.cursor_location
        label_start = self.start_of_label_before((row, column))
        if label_start is not None:
            self._kill((row, label_start), is_backwards=True)
        elif column == 0:
            self._kill(self.get_cursor_word_left_location(), is_backwards=True)
        else:
            word = _WORD_AND_BLANKS.search(self.document[row][:column])
            self._kill((row, 0 if word is None else word.start()), is_backwards=True)

    def action_kill_word_left(self) -> None:
        self._kill(self.get_cursor_word_left_location(), is_backwards=True)

    def action_kill_word_right(self) -> None:
        self._kill(self.get_cursor_word_right_location(), is_backwards=False)

    def action_kill_to_start(self) -> None:
        """Kill back to the start of the line; at the start, kill the line break before it."""
        row, column = self.cursor_location
        self._kill((row, 0) if column else self.get_cursor_word_left_location(), is_backwards=True)

    def action_kill_to_end(self) -> None:
        """Kill up to the end of the line; at the end, kill the line break after it."""
        row, column = self.cursor_location
        end = len(self.document[row])
        self._kill((row, end) if column < end else self.get_cursor_word_right_location(), is_backwards=False)

    def _kill(self, target: Location, *, is_backwards: bool) -> None:
        """Kill the selection, or without one the text from the cursor to `target`. Consecutive kills are joined."""
        killed_range = Selection(self.cursor_location, target) if self.selection.is_empty else self.selection
        edit = self._delete_whole(*killed_range)
        if edit is not None:
            self._kills.kill(edit.replaced_text, is_backwards=is_backwards)

    def action_yank(self) -> None:
        self._yank_over(self._kills.yank(), *self.selection)

    def action_yank_older(self) -> None:
        if self._yanked_range is not None:
            self._yank_over(self._kills.rotate(), *self._yanked_range)

    def _yank_over(self, text: str, start: Location, end: Location) -> None:
        """Replace a range by a yanked text, and store the range of that text for `action_yank_older`."""
        if text:
            start, end = sorted((start, end))
            self.replace_in_one_step(text, start, end)
            self._yanked_range = (start, self.cursor_location)

    def delete_by_key(self, start: Location, end: Location) -> EditResult | None:
        """Delete a range for a key that does not fill the kill ring. `TextArea` calls this for Backspace and Ctrl+X."""
        self._end_run()
        return self._delete_whole(start, end)

    def _delete_whole(self, start: Location, end: Location) -> EditResult | None:
        """Delete a range, including the whole of each label it overlaps."""
        start, end = sorted((start, end))
        # Ctrl+X on the last line asks to delete up to the start of the next line.
        (first_row, first_column), (last_row, last_column) = start, min(end, self.document.end)
        for label_start, label_end in label_spans(self.document[first_row], *self._labels):
            if label_start < first_column < label_end:
                first_column = label_start
        for label_start, label_end in label_spans(self.document[last_row], *self._labels):
            if label_start < last_column < label_end:
                last_column = label_end
        return super().delete_by_key((first_row, first_column), (last_row, last_column))


_MAX_KILLS = 30


class KillRing:
    """The killed texts, as in readline. Consecutive kills are joined into one entry."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._index = 0
        """The index of the entry that `yank` or `rotate` returned last."""
        self._is_joining = False
        """The next kill is joined to the newest entry."""

    def kill(self, text: str, *, is_backwards: bool) -> None:
        """Add a killed text, joined to the previous one if nothing happened in between.

        `is_backwards`: the text was before the previous one in the prompt. For example, Ctrl+W on `one two` kills
        `two`; pressed again, it kills `one `, and the entry becomes `one two`.
        """
        if not text:
            return
        if self._is_joining and self._entries:
            last = self._entries[-1]
            self._entries[-1] = text + last if is_backwards else last + text
        else:
            self._entries = [*self._entries[-_MAX_KILLS + 1 :], text]
        self._is_joining = True
        self._index = len(self._entries) - 1

    def end_run(self) -> None:
        """End the run of kills: the next kill starts a new entry."""
        self._is_joining = False

    def yank(self) -> str:
        """Return the newest entry, empty if there is none."""
        self._index = len(self._entries) - 1
        return self._entries[-1] if self._entries else ""

    def rotate(self) -> str:
        """Return the entry before the one that was returned last; after the oldest entry, the newest."""
        if not self._entries:
            return ""
        self._index = (self._index - 1) % len(self._entries)
        return self._entries[self._index]


_JOINER = "\u200d"
_MAX_GRAPHEME_CHARS = 64
"""A longer grapheme, such as a letter with 100 accents, is divided. This limits the search for its ends."""


def grapheme_start(line: str, column: int) -> int:
    """Return the start of the grapheme that ends at `column`."""
    low = max(0, column - _MAX_GRAPHEME_CHARS)
    index = column - 1
    while index > low and not _is_boundary(line, index):
        index -= 1
    return max(index, 0)


def grapheme_end(line: str, column: int) -> int:
    """Return the end of the grapheme that starts at `column`."""
    high = min(len(line), column + _MAX_GRAPHEME_CHARS)
    index = column + 1
    while index < high and not _is_boundary(line, index):
        index += 1
    return min(index, len(line))


def _is_boundary(line: str, index: int) -> bool:
    """Return whether a grapheme may end before the character at `index`, which is not the first of the line."""
    before, after = line[index - 1], line[index]
    if before.isascii() and after.isascii():
        return True
    if after == _JOINER or _extends(after) or before == _JOINER:
        return False
    if _is_flag_letter(before) and _is_flag_letter(after):
        # A flag is two letters: in 🇩🇪🇫🇷 the only boundary is after an even number of them.
        count = 0
        while count < index and _is_flag_letter(line[index - 1 - count]):
            count += 1
        return count % 2 == 0
    return True


def _extends(character: str) -> bool:
    """Return whether `character` belongs to the one before it: an accent or a skin tone."""
    is_skin_tone = "\U0001f3fb" <= character <= "\U0001f3ff"
    return is_skin_tone or unicodedata.category(character) in ("Mn", "Me", "Mc")


def _is_flag_letter(character: str) -> bool:
    """Return whether `character` is a regional indicator: two of them are a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"
