"""The part of the approval panel that shows the question, with its detail and choices, at any size.

The detail scrolls. A change that does not fit is shown as an extract until the user scrolls. `question_layout` shares
the rows; keys and decisions belong to `approval`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Offset, Size
from textual.message import Message
from textual.widgets import Static

from qcode.protocol.approvals import Deny, ServerApproval
from qcode.tui.panels.choices import BACK, WAITING, Form, PanelQuestion
from qcode.tui.panels.preview import ApprovalDetail, Rows
from qcode.tui.panels.question_layout import (
    QuestionRows,
    QuestionText,
    arrange,
    choice_rows,
    hidden_text,
    title_with_mark,
    wrap_title,
)
from qcode.tui.status import QuestionState
from qcode.tui.transcript.line import Line, count_letters, row_of_letter, style_of, wrap

if TYPE_CHECKING:
    from qcode.tui.shared_widgets import ScrollTarget

_SIDE_CELLS = 4
"""Cells of a row that the border, the padding and the scroll bar take."""
_WHEEL_ROWS = 3
_MIN_NORMAL_HEIGHT = 20
"""A screen with fewer rows is low: the question leaves one row to the transcript, not `_KEPT_ROWS`."""
_KEPT_ROWS = 2
"""The rows that the question leaves to the transcript if it does not need them."""


class QuestionView(Vertical):
    """Shows one question. `write_text` returns its parts for a width in cells."""

    class Chosen(Message):
        """The user clicked the option with this index."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class ScreenResized(Message):
        """The screen has another size than at the last paint."""

    def __init__(self, write_text: Callable[[int], QuestionText], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._painted_size = Size()  # of the screen; empty before the first paint
        self._write_text = write_text
        self.show_all_key = "Ctrl+O"
        """The key that shows all of the question; empty if no key does."""
        self._detail = ApprovalDetail.of("text", "")
        self._detail_rows: list[Line] = []  # all rows of the detail, for `_detail_width`
        self._detail_width = 0  # 0 before the first paint of a detail
        self._rows = QuestionRows([], [], [], [])
        self._scrolling_rows: list[Line] = []  # the rows in the scrolling part: all of them, or an extract
        self._hidden = self._hidden_above = 0  # the number of rows that an extract omits: in total, and above it
        self._has_hidden_notes = False
        self._draft_cursor = -1  # the cell of the cursor in the last note, -1 if that is not a draft
        self._shows_all = False  # the user has scrolled, so all rows are shown instead of an extract
        self._title = Static(id="approval-question", markup=False)
        self._text = Static(id="approval-text", markup=False)
        self._scroll = VerticalScroll(self._text, id="approval-preview", can_focus=False)
        self._mark = Static(id="approval-more", markup=False)
        self._notes = Static(id="approval-notes", markup=False)
        self._choices = Static(id="approval-options", markup=False)

    def compose(self) -> ComposeResult:
        yield from (self._title, self._scroll, self._mark, self._notes, self._choices)

    def on_mount(self) -> None:
        self.watch(self._scroll, "scroll_y", self._paint_mark, init=False)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._place_cursor)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._report_resize)

    def _report_resize(self, _screen: object) -> None:
        """Report another size of the screen: a question that fills the screen keeps its size, and gets no event."""
        if self._painted_size not in (Size(), self.app.size):
            self._painted_size = self.app.size
            self.post_message(self.ScreenResized())

    def _place_cursor(self, _screen: object) -> None:
        """Put the cursor of the terminal into the draft, where an input method shows its text.

        The hidden prompt, in which the draft is edited, would put it into the first row of the screen.
        """
        if self._draft_cursor < 0 or not self._rows.notes or self.app.focused is not self.parent:
            return
        x, y = self._notes.content_region.offset
        offset = Offset(x + min(self._draft_cursor, self.width - 1), y + len(self._rows.notes) - 1)
        if self.app.cursor_position != offset:
            self.app.cursor_position = offset
            self.refresh()

    @property
    def width(self) -> int:
        """The width of a row in cells."""
        return max(8, self.app.size.width - _SIDE_CELLS)

    @property
    def can_scroll(self) -> bool:
        """Whether rows of the scrolling part are out of view."""
        return self._hidden > 0 or self._max_scroll > 0

    @property
    def has_more(self) -> bool:
        """Whether anything of the question is out of view."""
        return self.can_scroll or self._rows.is_cut or self._has_hidden_notes

    def all_rows(self, width: int) -> list[Line]:
        """Return the rows for a pager: a title of several rows, the detail, all notes, and truncated choices."""
        text = self._write_text(width)
        title = wrap_title(text, width)
        rows = [*title, Line()] if len(title) > 1 else []
        rows += self._detail.lines(width)
        if text.notes:
            rows += [Line(), *(row for note in text.notes for row in wrap(note, width))]
        if text.hidden_notes:
            rows += [Line(), *wrap([(text.hidden_notes, style_of())], width)]
        if self._rows.is_cut:
            choices = choice_rows(text.options, -1, width, wraps_current=False, wraps_others=False)
            if choices.is_cut:
                choices = choice_rows(text.options, -1, width)
            rows += [Line(), *choices.rows]
        return rows

    def open(self, detail: ApprovalDetail) -> None:
        """Set the detail, scrolled to its beginning; `paint` shows it."""
        self._detail = detail
        self._detail_rows = []
        self._detail_width = 0
        self._shows_all = False
        self._scroll.scroll_home(animate=False)

    def paint(self, height: int) -> int:
        """Show the question in at most `height` rows, shared by `arrange`; return the number of unused rows."""
        width = self.width
        self._painted_size = self.app.size
        letters_above = count_letters(self._scrolling_rows[: round(self._scroll.scroll_y)])
        is_resized = self._detail_width not in (0, width)
        if self._detail_width != width:
            self._detail_width = width
            self._detail_rows = self._detail.lines(width)
        rows = self._rows = self._arranged(height)
        self._choose_scrolling_rows()
        self._scroll.styles.max_height = max(1, self._view_rows)
        self._scroll.display = bool(self._scrolling_rows) and self._view_rows > 0
        _show_rows(self._text, self._scrolling_rows)
        _show_rows(self._notes, rows.notes)
        _show_rows(self._choices, rows.choices)
        if is_resized and letters_above:
            # The letter that was at the top of the view stays there.
            self._show_from(row_of_letter(self._scrolling_rows, letters_above))
        self._paint_mark()
        self._place_cursor(self.screen)
        scroll_rows = min(len(self._all_scrolling_rows(rows)), rows.scroll_rows)
        return height - len(rows.title) - scroll_rows - len(rows.notes) - len(rows.choices)

    def _arranged(self, height: int) -> QuestionRows:
        """Return the rows of each part for at most `height` rows."""
        text = self._write_text(self.width)
        is_low = self.app.size.height < _MIN_NORMAL_HEIGHT
        self._has_hidden_notes = bool(text.hidden_notes)
        self._draft_cursor = text.draft_cursor
        kept_rows = 1 if is_low else _KEPT_ROWS
        rows = arrange(text, len(self._detail_rows), self.width, height, is_low=is_low, kept_rows=kept_rows)
        scroll_rows = len(self._all_scrolling_rows(rows))
        if text.is_prose and not rows.notes and 0 < scroll_rows < rows.scroll_rows:
            # A blank row between the text and the choices, which a draft replaces.
            return replace(rows, notes=[Line()], scroll_rows=rows.scroll_rows - 1)
        return rows

    def _choose_scrolling_rows(self) -> None:
        """Choose between all rows of the scrolling part, and an extract of the detail if they do not fit."""
        all_rows = self._all_scrolling_rows(self._rows)
        self._scrolling_rows = all_rows
        if len(all_rows) > self._rows.scroll_rows and not self._rows.before and not self._shows_all:
            self._scrolling_rows = self._detail.fitting(self.width, self._view_rows)
        self._hidden = len(all_rows) - len(self._scrolling_rows)
        self._hidden_above = 0
        if self._hidden:
            first_text, all_texts = self._scrolling_rows[0].text, [row.text for row in all_rows]
            self._hidden_above = all_texts.index(first_text) if first_text in all_texts else 0

    def scroll_page(self, to: ScrollTarget) -> bool:
        """Scroll; return False if there is nothing to scroll."""
        if not self.can_scroll:
            return False
        page = max(1, self._view_rows - 1)
        match to:
            case "page_up":
                self.scroll_by(-page)
            case "page_down":
                self.scroll_by(page)
            case "home":
                self.scroll_by(-len(self._scrolling_rows))
            case "end":
                self.scroll_by(len(self._all_scrolling_rows(self._rows)))
        return True

    def scroll_by(self, rows: int) -> None:
        """Scroll by `rows`. If an extract is shown, show all rows first, from the gap in the extract.

        Example: the extract shows the rows 10, 11, 12 and 20. Scrolled down, all rows are shown from row 12 on, so that
        row 13, the first omitted row, is in view.
        """
        if not self._hidden:
            self._show_from(round(self._scroll.scroll_y) + rows)
            return
        if rows < 0 and not self._hidden_above:
            return
        all_rows = self._all_scrolling_rows(self._rows)
        y = self._hidden_above
        rows_before_gap = _count_equal_rows(self._scrolling_rows, all_rows[y:])
        self._shows_all = True
        self._hidden = 0
        self._scrolling_rows = all_rows
        _show_rows(self._text, all_rows)
        is_to_end = rows >= len(all_rows)
        starts_at_gap = rows > 0 and rows_before_gap > 0 and not is_to_end
        self._show_from(y + rows_before_gap - 1 if starts_at_gap else y + rows)

    def _show_from(self, y: int) -> None:
        """Scroll to a row."""
        y = max(0, min(y, self._max_scroll))
        self._scroll.scroll_to(y=y, animate=False, force=True)
        if y > self._scroll.max_scroll_y:  # Textual computes the size of a new text in the next layout
            self.call_after_refresh(self._scroll.scroll_to, y=y, animate=False, force=True)
        self._paint_mark()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll_by_wheel(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll_by_wheel(event, 1)

    def _scroll_by_wheel(self, event: events.MouseEvent, step: int) -> None:
        """Scroll the question, or the transcript if all of the question is in view."""
        event.stop()
        if self.can_scroll:
            self.scroll_by(step * _WHEEL_ROWS)
        else:
            self.screen.query_one("#transcript").scroll_relative(y=step * _WHEEL_ROWS, animate=False)

    def on_click(self, event: events.Click) -> None:
        region = self._choices.region
        row = event.screen_y - region.y
        if event.button == 1 and region.contains(event.screen_x, event.screen_y):
            event.stop()
            if row < len(self._rows.choice_indexes):
                self.post_message(self.Chosen(self._rows.choice_indexes[row]))

    def _all_scrolling_rows(self, rows: QuestionRows) -> list[Line]:
        """Return all rows of the scrolling part: the detail, with the rows of title and notes above and below it."""
        return [*rows.before, *self._detail_rows, *rows.after]

    @property
    def _view_rows(self) -> int:
        """The number of rows in view: one less than `scroll_rows` if the row below shows the number of hidden rows."""
        rows = self._rows
        is_marked = len(self._all_scrolling_rows(self._rows)) > rows.scroll_rows and not rows.is_mark_in_title
        return rows.scroll_rows - 1 if is_marked else rows.scroll_rows

    @property
    def _max_scroll(self) -> int:
        return max(0, len(self._scrolling_rows) - max(1, self._view_rows))

    def _paint_mark(self) -> None:
        """Show how many rows are above and below the view."""
        rows, width = self._rows, self.width
        scrolled = min(round(self._scroll.scroll_y), self._max_scroll)
        above, below = scrolled, max(0, len(self._scrolling_rows) - scrolled - self._view_rows)
        if self._hidden:
            above = self._hidden_above
            below += self._hidden - self._hidden_above
        keys = ["PgDn scroll" if below else "PgUp scroll"]
        if self.show_all_key:
            keys.append(f"{self.show_all_key} show all")
        text = hidden_text(above, below, width, keys) if above or below else ""
        title = title_with_mark(rows.title, above, below, width) if rows.is_mark_in_title else rows.title
        _show_rows(self._title, title)
        _show_rows(self._mark, [Line(((text, style_of("dim")),))] if text and not rows.is_mark_in_title else [])


def question_state(
    approval: PanelQuestion | None, form: Form, *, is_typing: bool, takes_typed_answer: bool, written_text: str | None
) -> QuestionState:
    """Return the user's current action at a question, and its keys.

    `is_typing`: keys are text of the draft. `takes_typed_answer`: Enter makes this text the answer. `written_text` is
    the text of the text field, None if the field is closed.
    """
    escape = "Esc to interrupt"
    if BACK in form.options:
        escape = "Esc back"
    elif isinstance(approval, ServerApproval):
        escape = "Esc decide later"
    if is_typing:
        return QuestionState(form.typing_caption if takes_typed_answer else "typing your next message", escape)
    if written_text is not None:
        is_plain_no = form.text_decision is Deny and not written_text.strip()
        enter = "Enter stop the turn" if is_plain_no else "Enter send"
        keys = f"{enter} · {escape if form.is_text_only else 'Esc back'}"
        return QuestionState(form.writing_caption, keys)
    return QuestionState("Space toggle · Enter send" if form.is_multi_select else WAITING, escape)


def _count_equal_rows(rows: list[Line], others: list[Line]) -> int:
    """Return the number of equal rows before the first difference, 0 if there is none."""
    for count, (row, other) in enumerate(zip(rows, others, strict=False)):
        if row.text != other.text:
            return count
    return 0


def _show_rows(part: Static, lines: list[Line]) -> None:
    part.display = bool(lines)
    part.update(Rows(lines, part))
