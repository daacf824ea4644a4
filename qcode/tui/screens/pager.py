"""A full-screen pager with a search, for a question that does not fit, diffs of a session, or the output of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from qcode.tui.messages import QUESTION_WAITING, QuestionWaiting
from qcode.tui.panels.preview import Rows
from qcode.tui.shared_widgets import SteadyInput, hanging_rows, key_hints
from qcode.tui.terminal.driver import TerminalApp
from qcode.tui.transcript.code import add_slot_to_range
from qcode.tui.transcript.line import Line, count_letters, row_of_letter, shorten, style_of, wrap
from qcode.tui.transcript.transcript import MatchRange, find_matches, pattern_of

_SIDE_CELLS = 3
"""Cells of a row that the padding and the scroll bar take."""
_GAP = "  "
_MIN_TITLE = 8

ScrollUnit: TypeAlias = Literal["row", "page", "all"]
LESS_KEYS = (
    Binding("j", "scroll_by('row', 1)", "Down", priority=True, show=False),
    Binding("k", "scroll_by('row', -1)", "Up", priority=True, show=False),
    Binding("space", "scroll_by('page', 1)", "Page down", priority=True, show=False),
    Binding("b", "scroll_by('page', -1)", "Page up", priority=True, show=False),
    Binding("G", "scroll_by('all', 1)", "End", priority=True, show=False),
    Binding("g", "scroll_by('all', -1)", "Start", priority=True, show=False),
)
"""The keys of the program `less` that scroll. The screen needs `action_scroll_by`, which calls `scroll_by`."""


def scroll_by(view: VerticalScroll, unit: ScrollUnit, step: int) -> None:
    """Scroll by a row or a page, or to an end."""
    rows = {"row": 1, "page": max(1, view.size.height - 1), "all": view.virtual_size.height}
    view.scroll_relative(y=step * rows[unit], animate=False)


def hanging_lines(text: str, width: int) -> list[Line]:
    """Return the rows of a sanitized text. In lines with two columns, the second column is wrapped and indented."""
    rows = (row for line in text.split("\n") for row in hanging_rows(line, width))
    return [line for row in rows for line in wrap([(row, style_of())], width)]


def with_matches(lines: Sequence[Line], matches: Sequence[MatchRange], current: int) -> list[Line]:
    """Return `lines` with the matches highlighted, the one with the index `current` in bold."""
    result = list(lines)
    for index, match in enumerate(matches):
        for row in range(match.row, match.end_row + 1):
            line = result[row]
            start = match.start if row == match.row else line.lead
            end = match.end if row == match.end_row else len(line.text)
            spans = add_slot_to_range(line.spans, start, end, "found")
            if index == current:
                spans = add_slot_to_range(spans, start, end, "strong")
            result[row] = replace(line, spans=tuple(spans))
    return result


class PagerScreen(ModalScreen[None]):
    """Shows rows under a title.

    Arrows, PgUp/PgDn, Home and End scroll, and so do the keys of `less`; Esc, q, Enter or a key of `fold` closes. `/`
    or Ctrl+F opens a search field, Enter leaves it, n and N go to the other matches, and Esc ends the search. A
    subclass adds keys with `BINDINGS` and returns them from `keys`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Close", priority=True, show=False),
        Binding("q,enter", "close", "Close", priority=True, show=False),
        Binding("slash,ctrl+f", "find", "Find", priority=True, show=False),
        Binding("n", "find_next(1)", "Next match", priority=True, show=False),
        Binding("N", "find_next(-1)", "Previous match", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
        *LESS_KEYS,
    ]

    def __init__(self, title: str, lines: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._heading = title
        self._lines = lines
        """Returns the rows for a width in cells."""
        self._rows: list[Line] = []  # the rows that are shown
        self._width = 0  # the width of the screen for which they were wrapped, in cells; 0 before the first time
        self._title_note = ""
        self._field = SteadyInput(id="pager-search-field", compact=True)
        self._search_row = Horizontal(id="pager-search")
        self._search_row.display = False
        self._search_top = 0  # the row at the top of the view when the search began
        self._matches: list[MatchRange] = []
        self._current = 0  # the index of the current match

    def compose(self) -> ComposeResult:
        with Vertical(id="pager"):
            yield Static(id="pager-title", markup=False)
            with VerticalScroll(id="pager-scroll"):
                yield Static(id="pager-text", markup=False)
            with self._search_row:
                yield Static("Find ", id="pager-search-mark", markup=False)
                yield self._field
                yield Static(id="pager-search-count", markup=False)
            yield Static(id="pager-foot", markup=False)

    def on_mount(self) -> None:
        self._scroll.focus()

    def on_key(self, event: events.Key) -> None:
        if isinstance(self.app, TerminalApp) and event.key in self.app.fold_keys and not self._field.has_focus:
            event.stop()
            self.action_close()

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#pager-scroll", VerticalScroll)

    @property
    def _is_searching(self) -> bool:
        """Whether the search field is visible; it has the focus until Enter."""
        return bool(self._search_row.display)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys to the search field while it has the focus."""
        return not (self._field.has_focus and action in ("close", "find", "find_next", "scroll_by"))

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _show_keys(self) -> None:
        self.show_title(self._heading, self._title_note)

    @on(QuestionWaiting)
    def _note_question(self, event: QuestionWaiting) -> None:
        self.show_title(self._heading, QUESTION_WAITING if event.is_waiting else "")

    def on_resize(self, event: events.Resize) -> None:
        """Show the rows at the new width. The letter that was at the top of the view stays there."""
        self.show_title(self._heading, self._title_note)
        is_rewrapped = self._width not in (0, self.size.width)  # a resize may be reported twice
        letters_above = count_letters(self._rows[: round(self._scroll.scroll_y)]) if is_rewrapped else 0
        self.show_lines()
        if letters_above:
            top = row_of_letter(self._rows, letters_above)
            self.call_after_refresh(self._scroll.scroll_to, y=top, animate=False, force=True)

    def keys(self) -> Sequence[tuple[str, str]]:
        """Return the additional keys of a subclass and their actions, for the key hints."""
        return ()

    def show_title(self, heading: str, note: str = "") -> None:
        """Show the title with `note` after it, and the keys."""
        self._heading = heading
        self._title_note = note
        width = max(1, self.size.width - _SIDE_CELLS)
        note_content = Content.styled(note, "$text-success")
        title_width = width - note_content.cell_length - len(_GAP)
        title = Content("")
        if title_width >= _MIN_TITLE:
            title = Content.assemble((shorten(heading, title_width), "bold"), _GAP)
        self.query_one("#pager-title", Static).update(Content.assemble(title, note_content).truncate(width))
        self.query_one("#pager-foot", Static).update(key_hints(self._foot_keys(), width))

    def _foot_keys(self) -> Sequence[tuple[str, str]]:
        if self._field.has_focus:
            return (("Enter", "done"), ("↑↓", "next"), ("Esc", "end search"))
        if self._is_searching:
            return (("n N", "next"), ("Esc", "end search"), *self.keys(), ("↑↓ PgUp PgDn", "scroll"))
        return (("Esc", "close"), *self.keys(), ("↑↓ PgUp PgDn", "scroll"), ("/", "find"))

    def show_lines(self) -> None:
        """Show the rows at the current width, which may have changed, with the matches of the search."""
        text = self.query_one("#pager-text", Static)
        self._width = self.size.width
        lines = self._rows = self._lines(max(1, self._width - _SIDE_CELLS))
        pattern = pattern_of(self._field.value) if self._is_searching else None
        self._matches = find_matches(lines, pattern) if pattern is not None else []
        self._current = min(self._current, max(0, len(self._matches) - 1))
        text.update(Rows(with_matches(lines, self._matches, self._current), text))
        count = Content("")
        if self._matches:
            count = Content(f" {self._current + 1} of {len(self._matches)}")
        elif pattern is not None:
            count = Content.styled(" no match", "$text-warning")
        self.query_one("#pager-search-count", Static).update(count)

    @on(Input.Changed, "#pager-search-field")
    def _find_typed(self, event: Input.Changed) -> None:
        """Go to the first match that was not above the view when the search began."""
        event.stop()
        self.show_lines()
        not_above = [index for index, match in enumerate(self._matches) if match.row >= self._search_top]
        self._go_to(not_above[0] if not_above else 0)

    @on(Input.Submitted, "#pager-search-field")
    def _leave_field(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._scroll.focus()
        else:
            self._end_search()

    def _go_to(self, index: int) -> None:
        """Show the match with this index, a third of the view below its top unless it is in view already."""
        if not self._matches:
            return
        self._current = index % len(self._matches)
        self.show_lines()
        row, scroll = self._matches[self._current].row, self._scroll
        if not scroll.scroll_y <= row < scroll.scroll_y + scroll.size.height:
            scroll.scroll_to(y=max(0, row - scroll.size.height // 3), animate=False)

    def _end_search(self) -> None:
        self._search_row.display = False
        self._scroll.focus()
        self.show_lines()
        self._show_keys()

    def action_leave(self) -> None:
        """End the search; without one, close."""
        if self._is_searching:
            self._end_search()
        else:
            self.dismiss(None)

    def action_close(self) -> None:
        self.dismiss(None)

    def action_find(self) -> None:
        """Open the search field; the previous text is selected, so that typing replaces it."""
        self._search_row.display = True
        self._search_top = round(self._scroll.scroll_y)
        self._field.select_on_focus = True
        self._field.focus()
        self.show_lines()

    def action_find_next(self, step: int) -> None:
        self._go_to(self._current + step)

    def action_scroll(self, step: int) -> None:
        """Scroll by a row; in the search field, go to the next match."""
        if self._field.has_focus:
            self._go_to(self._current + step)
        else:
            self._scroll.scroll_relative(y=step, animate=False)

    def action_scroll_by(self, unit: ScrollUnit, step: int) -> None:
        scroll_by(self._scroll, unit, step)
