"""The scrolling pane of the transcript: painting, anchoring, and layout near the view.

Changes are collected and painted at most 20 times a second; no timer runs while nothing changes. The pane follows the
end until the user scrolls away, and then never moves the text being read.

`RowLayout` (in `layout`) holds the position of every entry. Only the entries within 2 screens of the view are laid out;
the heights of the others are estimates.
"""

from __future__ import annotations

import re
from dataclasses import replace
from time import monotonic

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.timer import Timer
from textual.types import AnimationLevel, CallbackType, EasingFunction

from qcode.tui.terminal.textual_internals import CrashApp
from qcode.tui.transcript.content import Content, Replacement
from qcode.tui.transcript.entries import Entry
from qcode.tui.transcript.layout import ReadingPosition, RowLayout
from qcode.tui.transcript.line import PLAIN, Line, style_of, terminal_text
from qcode.tui.transcript.palette import CSS, Palette

_FRAME_S = 1 / 20
# After a slow frame the next one waits longer, so that painting takes at most this share of a core.
_MAX_SHARE = 1 / 6
_MAX_PAUSE_S = 0.5
_MATCH_STYLE = style_of("found")
_CHOSEN_STYLE = style_of("chosen")
_CHOSEN_MARK = "›"


class Pane(ScrollView):
    """Shows a `Content`. Call `schedule` after each change of the content."""

    DEFAULT_CSS = CSS

    has_new_text_below: var[bool] = var(False)
    """The value of `has_new_text` in the last frame. The label above the prompt watches it."""

    def __init__(self, content: Content, id: str | None, classes: str | None) -> None:
        super().__init__(id=id, classes=classes)
        self.content = content
        self.row_layout = RowLayout(self.content.entries, self._report)
        self.palette = Palette(self)
        self._strips: LRUCache[Line, Strip] = LRUCache(1024)
        self._reading_position: ReadingPosition | None = None
        self._seen_addition_count = 0
        self._pattern: re.Pattern[str] | None = None
        self._chosen_entry: Entry | None = None
        self._is_scrolling_itself = False  # whether the pane, and not the user, scrolls at this moment
        self.is_frame_due = False
        self._next_frame = 0.0
        self.ticker: Timer | None = None

    @property
    def is_anchored(self) -> bool:
        """Whether the view follows the end of the transcript as it grows."""
        return self._reading_position is None

    @property
    def text_width(self) -> int:
        """The width of a row in cells, without the scroll bar."""
        return self.scrollable_content_region.width

    @property
    def reading_position(self) -> ReadingPosition | None:
        """A copy of the position at the top of the view, None if the view follows the end."""
        return replace(self._reading_position) if self._reading_position is not None else None

    @property
    def has_new_text(self) -> bool:
        """Whether text arrived below the view while the user was reading elsewhere."""
        return self._reading_position is not None and self.content.addition_count != self._seen_addition_count

    def stop_following(self) -> None:
        """Stop following the end, and keep the view where it is."""
        if self._reading_position is None and self.row_layout.entries:
            index, row = self.row_layout.find(round(self.scroll_y))
            self._reading_position = ReadingPosition(self.row_layout.entries[index], row)
            self._seen_addition_count = self.content.addition_count

    def go_to(self, position: ReadingPosition) -> None:
        """Show `position` at the top of the view, or follow the end if too little text is below it."""
        if self._reading_position is None:
            self._seen_addition_count = self.content.addition_count
        self._reading_position = position
        self.flush()
        if self.scroll_y >= self.max_scroll_y:
            self.follow()

    def highlight(self, pattern: re.Pattern[str] | None) -> None:
        """Highlight the matches of `pattern` in every row; None removes the highlight."""
        self._pattern = pattern
        self._strips.clear()
        self.refresh()

    def show_choice(self, entry: Entry | None) -> None:
        """Highlight the first row of `entry`, which the user chose by key, and no other row; None: no row."""
        self._chosen_entry = entry
        self.refresh()

    def lay_out_all(self) -> None:
        """Lay out all entries, and keep the text at the top of the view."""
        self.row_layout.invalidate(0)
        self.hide_replaced_rows()
        self.row_layout.lay_out_all()
        self.flush()

    def before_resize(self) -> None:
        """Called before rows are laid out at another width, for subclasses that refer to rows."""

    def after_resize(self) -> None:
        """Called when entries can be laid out at the new width, before the view is scrolled to its position."""

    def after_changes(self) -> None:
        """Called after rows may have moved, for subclasses that refer to rows."""

    def schedule(self) -> None:
        """Paint changes with the next frame."""
        if self.content.has_moved:
            # Entries were inserted or removed, so rows on screen no longer match their indexes: paint at once.
            self.flush()
            return
        if self.is_frame_due or not self.is_attached:
            return
        self.is_frame_due = True
        wait = self._next_frame - monotonic()
        if wait <= 0:
            self.call_next(self._paint_frame)
        else:
            self.set_timer(wait, self._paint_frame)

    def _paint_frame(self) -> None:
        if self.is_frame_due:
            self.flush()

    def flush(self) -> None:
        """Paint all changes now."""
        self.is_frame_due = False
        if not self.is_attached or not self.size.area:
            return
        start = monotonic()
        self._show_changes()
        # One slow frame, such as a long reply at a new width, must not stop the text for seconds.
        self._next_frame = start + max(_FRAME_S, min((monotonic() - start) / _MAX_SHARE, _MAX_PAUSE_S))
        self._run_ticker()

    def show_content(self, content: Content) -> None:
        """Show another content, at its end."""
        self.content = content
        self.row_layout = RowLayout(content.entries, self._report)
        self.row_layout.width = max(1, self.text_width)
        self._strips.clear()
        self._reading_position = self._chosen_entry = None
        self._seen_addition_count = content.addition_count
        self.drop_selection()
        self.refresh()
        self.schedule()

    def hide_replaced_rows(self) -> None:
        """Hide as many rows of a superseded attempt as the new attempt has; do nothing if there is none.

        Example: the new attempt has 4 rows, so the first 4 of the 10 old rows are hidden.
        """
        content, layout = self.content, self.row_layout
        if content.superseded is None:
            return
        layout.invalidate(content.new_attempt_index)
        superseded_index = layout.index(content.superseded) or 0
        rows = 0
        for index in range(content.new_attempt_index, superseded_index):
            layout.lay_out(index)
            rows += layout.entries[index].height(layout.width)
        if content.superseded.replace_rows(rows, layout.width):
            layout.lay_out(superseded_index)
        else:
            content.drop_superseded()

    def drop_selection(self) -> None:
        """Clear the selection, because its rows are about to change."""
        if self.is_attached and self.text_selection is not None:
            self.screen.clear_selection()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return whole rows of the view, with the padding at their right.

        Textual would apply padding, styles and filters to every row of every frame. Here a row that only moved keeps
        its strip, which has cached the results of filters.
        """
        width, gutter = self.region.width, self.gutter
        if gutter.left or gutter.top or gutter.bottom:
            return super().render_lines(crop)
        try:
            rows = [self.render_line(y) for y in crop.line_range]
        except Exception:  # noqa: BLE001  # the app's edge: the widget's own painting reports the error in its rows
            return super().render_lines(crop)
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            rows = [row.apply_filter(line_filter, background) for row in rows]
        return rows if crop.column_span == (0, width) else [row.crop(*crop.column_span) for row in rows]

    def render_line(self, y: int) -> Strip:
        """Return row `y` of the view, with the padding at its right."""
        row, width = round(self.scroll_y) + y, self.text_width
        line = self.row_layout.line(row)
        if line is None:
            return Strip.blank(width, self.palette.base).extend_cell_length(self.region.width, self.palette.padding)
        selection = self.text_selection
        span = selection.get_span(row) if selection is not None else None
        chosen = self._chosen_entry
        if chosen is not None and line is chosen.line(chosen.gap, width):
            return self._paint(with_chosen_mark(line), width, span, is_chosen=True)
        if span is not None:
            return self._paint(line, width, span)
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = self._paint(line, width, None)
        return strip

    def _paint(self, line: Line, width: int, selected: tuple[int, int] | None, *, is_chosen: bool = False) -> Strip:
        rich_style = self.palette.style
        segments = [Segment(terminal_text(text), rich_style(style)) for text, style in line.spans]
        cells = line.width
        if self._pattern is not None:
            for match in self._pattern.finditer(line.text):
                if selected is None or not _overlap(match.span(), selected):
                    segments = self.palette.painted_over(segments, *match.span(), self.palette.style(_MATCH_STYLE))
        if selected is not None:
            # The current match of a search is selected. Its text must be readable whatever its color was.
            color = Style(color=self.palette.base.color) if self._pattern is not None else Style()
            segments = self.palette.painted_over(segments, *selected, self.selected_text_style() + color)
        if cells < width:
            segments.append(Segment(" " * (width - cells), rich_style(line.fill)))
        if is_chosen:
            segments = self.palette.painted_over(segments, start=0, end=-1, added=rich_style(_CHOSEN_STYLE))
        strip = Strip(segments, max(cells, width))
        strip = strip.crop(0, width) if cells > width else strip
        return strip.extend_cell_length(self.region.width, self.palette.padding)

    def selected_text_style(self) -> Style:
        """Return the style that is painted over selected text."""
        # Most themes set only the background of selected text. The full style has a foreground even then, the partial
        # style has none.
        style = self.screen.get_component_rich_style("screen--selection", partial=True)
        return style + Style(bgcolor=self.screen.get_component_rich_style("screen--selection").bgcolor)

    def notify_style_update(self) -> None:
        """Drop cached styles; the layout does not depend on colors."""
        super().notify_style_update()
        self.palette.clear()
        self._strips.clear()

    def _show_changes(self) -> None:
        """Lay out the rows around the view, scroll the view to its position, and repaint the rows that differ."""
        layout = self.row_layout
        is_resized = layout.width != self.text_width
        if is_resized:
            self._remember_letters_above()
            self.before_resize()
            self._strips.clear()
            layout.width = self.text_width
            layout.invalidate(0)
        self.hide_replaced_rows()
        changed = self.content.take_changed()
        if changed is not None:
            layout.invalidate(changed)
        if is_resized:
            self.after_resize()
        target = self._find_target_row(is_resized)
        first = layout.take_first_changed_row()
        height = self.virtual_size.height
        self._move_to(target)
        if self.content.take_moved() or is_resized or self.virtual_size.height < height:
            self.refresh()
        elif first is not None:
            top = max(0, first - round(self.scroll_y))
            if top < self.size.height:
                self.refresh(Region(0, top, self.text_width, self.size.height - top))
        self.has_new_text_below = self.has_new_text
        self.after_changes()

    def _find_target_row(self, is_resized: bool) -> int:
        """Lay out the rows around the view and return the row that belongs at its top.

        Example: the user reads row 2 of the fifth entry, at row 42. If an entry above has 3 rows more than estimated,
        the result is 45, so that the text stays where it is. A view that follows the end gets the last rows.
        """
        layout, view = self.row_layout, self.size.height
        position, replaced = self._reading_position, self.content.take_replaced()
        if position is None or not layout.entries:
            layout.lay_out_up(len(layout.entries), 2 * view)
            return max(0, layout.height - view)
        index = layout.index(position.entry)
        content = self.content
        is_rewritten = content.superseded is not None and index is not None and index >= content.new_attempt_index
        if index is None and replaced is not None and position.entry in replaced.entries:
            index, position = self._position_after(position, replaced)
            self._reading_position = position
        elif index is None or (is_rewritten and not is_resized):
            # The entry is gone, or new rows are replacing its rows one by one: keep the scroll offset.
            index, row = layout.find(round(self.scroll_y))
            is_same_text = position.entry is layout.entries[index] and position.is_in_row(row)
            letters = position.letters_above if is_same_text else None
            self._reading_position = position = ReadingPosition(layout.entries[index], row, letters)
        layout.lay_out(index)
        if is_resized and position.letters_above is not None:
            position.row = position.entry.row_of_letter(position.letters_above)
        row = max(0, min(position.row, position.entry.height(layout.width) - 1))
        # `lay_out_down` counts from the top of the entry. Its first `row` rows are above the view, so they are added.
        layout.lay_out_down(index, row + 2 * view)
        layout.lay_out_up(index, 2 * view)
        return layout.top(index) + row

    def _position_after(self, position: ReadingPosition, replaced: Replacement) -> tuple[int, ReadingPosition]:
        """Return the index of the new entry that has the same row of the text as `position`, and the position in it.

        Example: old entries of 6 and 4 rows are replaced by one entry. The user reads row 1 of the second one, which is
        row 7 of the old text, so the result is row 7 of the new entry.

        `scroll_y` cannot give the position: it includes the entries above the old text, whose heights may have been
        estimates.
        """
        layout, old = self.row_layout, replaced.entries
        above = sum(len(entry.rows(layout.width)) for entry in old[: old.index(position.entry)])
        last = len(position.entry.rows(layout.width)) - 1
        if position.letters_above is not None:
            position.row = position.entry.row_of_letter(position.letters_above)
        row = above + max(0, min(position.row, last))
        index = min(replaced.first_index, len(layout.entries) - 1)
        layout.lay_out(index)
        while index < len(layout.entries) - 1 and row >= layout.entries[index].height(layout.width):
            row -= layout.entries[index].height(layout.width)
            index += 1
            layout.lay_out(index)
        return index, ReadingPosition(layout.entries[index], row)

    def _remember_letters_above(self) -> None:
        """Remember which text is at the top of the view, before a new width changes the rows."""
        position = self._reading_position
        if position is not None and position.letters_above is None and position.row > 0:
            position.letters_above = position.entry.letters_above(position.row)

    def _move_to(self, target: int) -> None:
        """Scroll so that the row `target` is at the top of the view."""
        self._is_scrolling_itself = True
        try:
            # Set without its watcher: the height of the text changes only the scroll bar, not the screen's layout.
            self.set_reactive(Pane.virtual_size, Size(self.text_width, self.row_layout.height))
            self._move_thumb(target)
            self.scroll_y = self.scroll_target_y = target
        finally:
            self._is_scrolling_itself = False
        if self._reading_position is not None and target > self.max_scroll_y:
            self.follow()

    def _move_thumb(self, target: int) -> None:
        """Update the scroll bar. Repaint it only if it looks different: that costs almost as much as the text.

        While a long reply is written, most frames move the thumb by less than an eighth of a cell.
        """
        bar, height = self.vertical_scrollbar, self.row_layout.height
        before = _thumb(bar)
        bar.set_reactive(ScrollBar.window_virtual_size, height)
        bar.set_reactive(ScrollBar.position, bar.validate_position(min(target, max(0, height - self.size.height))))
        if _thumb(bar) != before:
            bar.refresh()

    def follow(self) -> None:
        """Follow the end from now on."""
        self._reading_position = None
        self._seen_addition_count = self.content.addition_count

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """React to the user's scrolling; scrolling by the pane itself is ignored."""
        super().watch_scroll_y(old_value, new_value)
        if self._is_scrolling_itself or not self.is_attached or not self.row_layout.entries:
            return
        if round(new_value) >= self.max_scroll_y:
            self.follow()
        else:
            index, row = self.row_layout.find(round(new_value))
            if self._reading_position is None:
                self._seen_addition_count = self.content.addition_count
            self._reading_position = ReadingPosition(self.row_layout.entries[index], row)
            self._show_changes()

    def reveal(self, y: int) -> None:
        """Scroll just far enough to show row `y`, a few rows away from the edge.

        Example: rows 100 to 119 are in view. Row 130 is revealed by scrolling to row 114: the view ends at row 133, so
        that 3 rows follow row 130.
        """
        margin = min(3, self.size.height // 3)
        top = round(self.scroll_y)
        if y < top + margin:
            self.scroll_to(y=y - margin)
        elif y >= top + self.size.height - margin:
            self.scroll_to(y=y - self.size.height + margin + 1)

    def scroll_to(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        animate: bool = True,
        speed: float | None = None,
        duration: float | None = None,
        easing: EasingFunction | str | None = None,
        force: bool = False,
        on_complete: CallbackType | None = None,
        level: AnimationLevel = "basic",
        immediate: bool = False,
        release_anchor: bool = True,
    ) -> None:
        """Scroll without animation: rows get their exact height on the way, so the distance is not known."""
        super().scroll_to(x, y, animate=False, force=force, on_complete=on_complete, immediate=immediate)

    def scroll_end(
        self,
        *,
        animate: bool = True,
        speed: float | None = None,
        duration: float | None = None,
        easing: EasingFunction | str | None = None,
        force: bool = False,
        on_complete: CallbackType | None = None,
        level: AnimationLevel = "basic",
        immediate: bool = False,
        x_axis: bool = True,
        y_axis: bool = True,
    ) -> None:
        """Show the end and follow it."""
        self.follow()
        self.flush()
        if on_complete is not None:
            self.call_next(on_complete)

    def anchor(self, anchor: bool = True) -> None:
        """Follow the end; `anchor(False)` does nothing, because the pane keeps its position by itself."""
        if anchor:
            self.scroll_end()

    def on_mount(self) -> None:
        """Show entries that were added before the widget was mounted."""
        self.schedule()

    def on_resize(self) -> None:
        """Lay out and paint at the new size.

        `_show_changes` repaints only rows in view. Rows that a menu covered may have changed meanwhile, and Textual
        would show them from its cache. Therefore all rows are repainted.
        """
        self.refresh()
        self.flush()

    def _report(self, error: Exception) -> None:
        """Report that an entry cannot be laid out; raise `error` if the app does not continue."""
        if not (isinstance(self.app, CrashApp) and self.app.continues_after(error, pump=None)):
            raise error

    def _run_ticker(self) -> None:
        """Run a timer only while a card shows its elapsed time."""
        if not self.content.has_running:
            if self.ticker is not None:
                self.ticker.stop()
                self.ticker = None
        elif self.ticker is None:
            self.ticker = self.set_interval(1.0, self.tick)

    def tick(self) -> None:
        """Update elapsed times on screen."""
        self.content.tick()
        self.schedule()


def _thumb(bar: ScrollBar) -> list[Segment]:
    """Return the cells of a scroll bar, in fixed colors."""
    window = bar.window_size if bar.window_size < bar.window_virtual_size else 0
    return list(bar.renderer.render_bar(bar.size.height, bar.window_virtual_size, window, bar.position).segments)


def with_chosen_mark(line: Line) -> Line:
    """Return the first row of an entry with `_CHOSEN_MARK` instead of the blank after its icon."""
    (text, style), *others = line.spans or (("", PLAIN),)
    if text[1:2] != " ":
        return line
    marked = [(text[0] + _CHOSEN_MARK, style), (text[2:], style), *others]
    return replace(line, spans=tuple(span for span in marked if span[0]))


def _overlap(match: tuple[int, int], selected: tuple[int, int]) -> bool:
    """Return whether two ranges of characters overlap; `selected` ends at -1 if it has the rest of the row."""
    return selected[0] < match[1] and (selected[1] < 0 or match[0] < selected[1])
