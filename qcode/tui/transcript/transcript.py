"""The transcript widget: the interface for adding, changing and searching entries.

Every call is cheap and returns before painting; `pane` paints changes with the next frame. A search moves from match
to match, unfolds the entries it visits, and can return to the old position. It finds text in folded entries and
across wrapped rows, too. In `CardChoosingPane` the user moves from card to card, to unfold one of them by key.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.geometry import Offset

from qcode.tui.transcript.content import Content, ThinkingMode
from qcode.tui.transcript.entries import Entry, Foldable, PromptEntry
from qcode.tui.transcript.layout import EntryRow, ReadingPosition
from qcode.tui.transcript.line import SPACE_CLASS, Line, shown_text
from qcode.tui.transcript.selection import SelectablePane
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.protocol.events import Level
    from qcode.tui.transcript.cards import CardUpdate


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A match of the search."""

    entry: Entry
    row: int
    """The row of the unfolded entry in which the match starts."""
    start: int
    """The index of the first character of the match in the text of `row`."""
    end_row: int
    """The row in which the match ends. It differs from `row` if the match crosses a wrap."""
    end: int
    """The index after the last character of the match in the text of `end_row`."""


@dataclass(frozen=True, slots=True)
class SearchPosition:
    """The position of a search, for a label such as `2 of 7`."""

    number: int = 0
    """The number of the current match, counted from the top; 0 if there is no match."""
    count: int = 0
    """The number of matches."""


@dataclass(slots=True)
class _Search:
    """A running search."""

    start: ReadingPosition | None
    """The position at which the search began; None if the view followed the end."""
    bottom: EntryRow
    """The last row in view when the search began."""
    text: str = ""
    current: SearchMatch | None = None
    cache: dict[Entry, _SearchedEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SearchedEntry:
    """An entry as it was searched, and its matches. They are stale if the rows or the source have changed."""

    rows: list[Line]
    source: str
    """The text of a folded entry; empty for any other entry."""
    matches: list[SearchMatch]


class SearchingPane(SelectablePane):
    """A pane that can be searched. `begin_search`, then `search` and `search_next`, then `end_search`."""

    def __init__(self, content: Content, id: str | None, classes: str | None) -> None:
        super().__init__(content, id, classes)
        self._search: _Search | None = None
        self._unfolded_entries: list[Foldable] = []

    def begin_search(self) -> None:
        """Remember the current position."""
        bottom = min(self.row_layout.height, round(self.scroll_y) + self.size.height) - 1
        last_row = self.row_layout.find(max(0, bottom)) if self.row_layout.entries else EntryRow(0, 0)
        self._search = _Search(self.reading_position, last_row)
        self._unfolded_entries = []

    def search_steps(self, text: str) -> Iterator[None]:
        """Prepare `search(text)`: lay out and search one entry in each step, so that keys are handled in between.

        The view stays where it is. `search` then searches only entries that have changed meanwhile.
        """
        self._set_text(text)
        layout, index = self.row_layout, 0
        while index < len(layout.entries):
            if not layout.entries[index].is_laid_out(layout.width):
                layout.lay_out(index)
                self.flush()
            self._matches_in(layout.entries[index])
            yield
            index += 1
            layout = self.row_layout  # another one if the content was replaced

    def search(self, text: str) -> SearchPosition:
        """Search for `text`, and show the last match that was not below the view when the search began.

        If all matches are below it, show the last one of the transcript.
        """
        search = self._search
        if search is None:
            self.begin_search()
            return self.search(text)
        self._set_text(text)
        search.current = None
        self.highlight(pattern_of(text))
        matches = self._all_matches()
        order = self._order()
        first_below = bisect_right(matches, search.bottom, key=lambda match: EntryRow(order[match.entry], match.row))
        return self._go_to(matches, first_below - 1 if first_below > 0 else len(matches) - 1)

    def search_next(self, *, is_upwards: bool = True) -> SearchPosition:
        """Show the next match in a direction, wrapping around."""
        search = self._search
        matches = self._all_matches()
        if search is None or not matches:
            return SearchPosition()
        if search.current is None:
            return self._go_to(matches, len(matches) - 1 if is_upwards else 0)
        order, current = self._order(), search.current

        def position(match: SearchMatch) -> tuple[int, int, int]:
            return order.get(match.entry, 0), match.row, match.start

        # The index of the current match, or if its text has changed meanwhile, of the first match below it.
        index = bisect_left(matches, position(current), key=position)
        found = matches[index] if index < len(matches) else None
        is_current = found is not None and found.entry is current.entry and position(found) == position(current)
        if is_upwards:
            index -= 1
        elif is_current:
            index += 1
        return self._go_to(matches, index % len(matches))

    def end_search(self, *, returns_to_start: bool) -> None:
        """End the search. `returns_to_start`: return to its start and fold the entries that it unfolded."""
        search, self._search = self._search, None
        self.highlight(None)
        if search is None or not returns_to_start:
            return
        self.drop_selection()
        for entry in self._unfolded_entries:
            self.content.unfold(entry, self.content.is_unfolded)
        if search.start is None:
            self.scroll_end(animate=False)
        else:
            self.go_to(search.start)

    def _all_matches(self) -> list[SearchMatch]:
        if self._search is None or not self._search.text.strip():
            return []
        self.lay_out_all()
        return [match for entry in self.row_layout.entries for match in self._matches_in(entry)]

    def _set_text(self, text: str) -> None:
        search = self._search
        if search is not None and search.text != text:
            search.text, search.cache = text, {}

    def _matches_in(self, entry: Entry) -> list[SearchMatch]:
        """Return the matches in an entry that is laid out, from top to bottom."""
        search, width = self._search, self.row_layout.width
        pattern = pattern_of(search.text) if search is not None else None
        if search is None or pattern is None:
            return []
        rows = entry.shown_rows()
        folded = entry if isinstance(entry, Foldable) and not entry.is_unfolded else None
        source = folded.source() if folded is not None else ""
        cached = search.cache.get(entry)
        if cached is not None and cached.rows == rows and cached.source == source:
            return cached.matches
        has_hidden_match = folded is not None and pattern.search(source) is not None
        searched_rows = folded.full_rows(width) if folded is not None and has_hidden_match else rows
        matches = [
            SearchMatch(entry, found.row, found.start, found.end_row, found.end)
            for found in find_matches(searched_rows, pattern)
        ]
        search.cache[entry] = _SearchedEntry(rows, source, matches)
        return matches

    def _go_to(self, matches: list[SearchMatch], index: int) -> SearchPosition:
        search = self._search
        if search is None or not matches:
            self.drop_selection()
            return SearchPosition()
        match = search.current = matches[index]
        if isinstance(match.entry, Foldable) and not match.entry.is_unfolded:
            self._unfold_for(match.entry, match)
        entry_index = self.row_layout.index(match.entry) or 0
        top = self.row_layout.top(entry_index)
        self.reveal(top + match.row)
        # Scrolling may have changed the heights of entries above.
        top = self.row_layout.top(entry_index)
        self.select(Offset(match.start, top + match.row), Offset(match.end, top + match.end_row))
        return SearchPosition(index + 1, len(matches))

    def _unfold_for(self, entry: Foldable, match: SearchMatch) -> None:
        """Unfold `entry`, unless the match is in its visible part."""
        rows = entry.shown_rows()
        full = entry.full_rows(self.row_layout.width)
        if rows == full or (match.row < len(rows) and _starts_with(full, rows[: match.end_row + 1])):
            return
        self.content.unfold(entry, True)
        self._unfolded_entries.append(entry)
        self.lay_out_all()

    def _order(self) -> dict[Entry, int]:
        """Return the index of each entry."""
        return {entry: index for index, entry in enumerate(self.row_layout.entries)}


def _starts_with(rows: list[Line], first_rows: list[Line]) -> bool:
    """Return whether the text of `rows` begins with that of `first_rows`."""
    return all(line.text == row.text for line, row in zip(first_rows, rows, strict=False))


class CardChoosingPane(SearchingPane):
    """A pane in which the user can choose a card by key. It has the focus only while the user chooses."""

    _report_leaving: Callable[[str], None] | None = None
    _report_choice: Callable[[str], None] | None = None

    @property
    def is_choosing(self) -> bool:
        return self._report_leaving is not None

    def choose_card(self, on_leave: Callable[[str], None], on_choose: Callable[[str], None]) -> bool:
        """Choose the last card in view; return False if there is no card.

        `on_leave` gets the text that the user typed or pasted to leave, which may be empty. `on_choose` gets the effect
        of Enter on the chosen card: `unfold`, `fold`, or an empty text for none.
        """
        cards = self._cards()
        if not cards:
            return False
        bottom = round(self.scroll_y) + self.size.height
        cards_above_bottom = [index for index in cards if self.row_layout.top(index) < bottom]
        chosen_index = cards_above_bottom[-1] if cards_above_bottom else cards[0]
        self._report_leaving, self._report_choice = on_leave, on_choose
        self.stop_following()
        self.can_focus = True
        self.focus()
        self._move_choice_to(chosen_index)
        return True

    def leave_cards(self, typed: str = "") -> bool:
        """End choosing; return whether the user was choosing. `typed` is passed on to `on_leave`."""
        on_leave, self._report_leaving = self._report_leaving, None
        if on_leave is None:
            return False
        self.show_choice(None)
        self.can_focus = False
        if self.scroll_y >= self.max_scroll_y:
            self.follow()
        on_leave(typed)
        return True

    def show_content(self, content: Content) -> None:
        self.leave_cards()
        super().show_content(content)

    def on_blur(self) -> None:
        """End choosing if another widget has the focus now; the terminal's own focus may return."""
        if self.app.app_focus:
            self.leave_cards()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.leave_cards(event.text)

    def on_key(self, event: events.Key) -> None:
        if not self.is_choosing:
            return
        event.stop()
        event.prevent_default()
        entry = self._chosen_entry
        chosen_index = self.row_layout.index(entry) if entry is not None else None
        cards = self._cards()
        if chosen_index is None or not cards:
            self.leave_cards()
            return
        match event.key:
            case "j" | "down":
                later = [index for index in cards if index > chosen_index]
                self._move_choice_to(later[0] if later else chosen_index)
            case "k" | "up":
                earlier = [index for index in cards if index < chosen_index]
                self._move_choice_to(earlier[-1] if earlier else chosen_index)
            case "g" | "home":
                self._move_choice_to(cards[0])
            case "G" | "end":
                self._move_choice_to(cards[-1])
            case "enter" | "space" if isinstance(entry, Foldable) and entry.has_two_forms(self.row_layout.width):
                self.toggle(entry)
                self._move_choice_to(chosen_index)
            case "q" | "tab":
                self.leave_cards()
            case _ if event.is_printable and event.character:
                self.leave_cards(event.character)
            case _:
                pass

    def _choice_y(self) -> int:
        """Return the row of the view in which the chosen card begins; 0 without one."""
        index = self.row_layout.index(self._chosen_entry) if self._chosen_entry is not None else None
        return 0 if index is None else self._first_row(index) - round(self.scroll_y)

    def _show_choice_at(self, y: int) -> None:
        """Scroll so that the chosen card begins in row `y` of the view, if the user is choosing a card."""
        index = self.row_layout.index(self._chosen_entry) if self._chosen_entry is not None else None
        if index is None:
            return
        self.row_layout.lay_out(index)
        top_index, row = self.row_layout.find(max(0, self._first_row(index) - y))
        self.go_to(ReadingPosition(self.row_layout.entries[top_index], row))
        self._move_choice_to(index)

    def _first_row(self, index: int) -> int:
        """Return the first row of an entry, after the gap above it."""
        return self.row_layout.top(index) + self.row_layout.entries[index].gap

    def _cards(self) -> list[int]:
        """Return the indexes of the entries that can be unfolded, without those that have no rows."""
        width = self.row_layout.width

        def may_have_rows(entry: Entry) -> bool:
            return not entry.is_laid_out(width) or bool(entry.shown_rows())

        entries = enumerate(self.row_layout.entries)
        return [index for index, entry in entries if isinstance(entry, Foldable) and may_have_rows(entry)]

    def _move_choice_to(self, index: int) -> None:
        self.row_layout.lay_out(index)
        entry = self.row_layout.entries[index]
        self.show_choice(entry)
        if self._report_choice is not None and isinstance(entry, Foldable):
            action = "fold" if entry.is_unfolded else "unfold"
            self._report_choice(action if entry.has_two_forms(self.row_layout.width) else "")
        self.reveal(self._first_row(index))


_WIDTH_BEFORE_MOUNT = 80


class Transcript(CardChoosingPane):
    """The conversation on screen: prompts, replies, tool cards and notices.

    `clock` returns monotonic seconds, for durations. `thinking` is the form in which finished reasoning is shown.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = monotonic,
        thinking: ThinkingMode = "folded",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(Content(clock, thinking), id, classes)
        self._clock = clock
        self._thinking_mode: ThinkingMode = thinking

    def output_columns(self) -> int | None:
        """Return the width in cells of the output in a card, None if the transcript has no size yet."""
        from qcode.tui.transcript.cards import OUTPUT_INDENT  # loads with the first card

        return self.text_width - OUTPUT_INDENT if self.text_width > OUTPUT_INDENT else None

    def add_welcome(self, lines: Sequence[str]) -> None:
        """Add the welcome lines, the first one bold."""
        self.content.add_welcome(lines)
        self.schedule()

    def change_welcome(self, lines: Sequence[str]) -> None:
        """Show other welcome lines unless the conversation has begun."""
        self.content.change_welcome(lines)
        self.schedule()

    def add_user(self, text: str) -> None:
        """Add a prompt, as the user typed it."""
        self.content.add_user(text)
        self.schedule()

    def withdraw_prompt(self) -> None:
        """Remove the last prompt and the entries of its turn, which had no output."""
        self.content.withdraw_prompt()
        self.schedule()

    def add_attached(self, lines: Sequence[str]) -> None:
        """Add the attachments of the last prompt, directly below it."""
        self.content.add_attached(lines)
        self.schedule()

    def append_text(self, text: str) -> None:
        """Start or extend the live text of the reply. `text` is a delta of Markdown, which may be cut anywhere."""
        self.content.append_text(text)
        self.schedule()

    def append_reasoning(self, text: str) -> None:
        """Start or extend live reasoning."""
        self.content.append_reasoning(text)
        self.schedule()

    def settle(self) -> None:
        """Close the live blocks: fold reasoning, and remove the text of a superseded attempt."""
        self.content.settle()
        self.schedule()

    def restart(self, label: str) -> None:
        """Start the reply over: its live blocks stay, dimmed and labeled, until the new text replaces them."""
        self.content.restart(label)
        self.schedule()

    def restore(self, text: str, reasoning: str = "") -> None:
        """Replace the live blocks with these, which are live and may be extended."""
        self.content.restore(text, reasoning)
        self.schedule()

    def end_reasoning(self, seconds: float) -> None:
        """End the reasoning, which took `seconds`, if the transcript is not to measure that."""
        self.content.end_reasoning(seconds)
        self.schedule()

    def add_mark(self, text: str) -> None:
        """Insert a thin line labeled `text` into the live text, which continues below it."""
        self.content.add_mark(text)
        self.schedule()

    def add_notice(self, level: Level, text: str) -> None:
        """Add a notice from qcode itself."""
        self.content.add_notice(level, text)
        self.schedule()

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        """Add the card of a tool call in the state `waiting`. A later call with the same id gets a new card."""
        self.content.add_card(call_id, name, argument)
        self.schedule()

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        """Change a card, unless it was removed with its attempt. Raise `ValueError` for an unknown state."""
        self.content.update_card(call_id, update)
        self.schedule()

    @property
    def has_folds(self) -> bool:
        """Whether any entry can be folded."""
        return any(isinstance(entry, Foldable) for entry in self.row_layout.entries)

    def toggle_folds(self) -> bool:
        """Unfold all reasoning, output and diffs, or fold them again; return whether that changed rows in view."""
        before, choice_y = self._rows_in_view(), self._choice_y()
        self.content.toggle_folds()
        self.drop_selection()
        self.flush()
        self._show_choice_at(choice_y)
        return self._rows_in_view() != before

    def _rows_in_view(self) -> list[str]:
        top = round(self.scroll_y)
        return [line.text for line in self.row_layout.lines(top, top + self.size.height)]

    def show_thinking(self, thinking: ThinkingMode) -> None:
        """Set how reasoning is shown from now on: folded, expanded or hidden."""
        self._thinking_mode = self.content.thinking = thinking

    def clear(self) -> None:
        """Remove all entries."""
        self.show_content(self.new_content())

    def new_content(self) -> Content:
        """Return an empty content with the same settings, for `show_content` or `insert_earlier`."""
        content = Content(self._clock, self._thinking_mode)
        content.fold_key = self.content.fold_key
        return content

    def insert_earlier(self, earlier: Content) -> None:
        """Insert entries above all others but the welcome; the text being read stays in view."""
        self.content.insert_earlier(earlier)
        self.schedule()

    def plain_text(self) -> str:
        """Return the whole transcript as text at the current width, including changes not yet painted."""
        return shown_text(self._all_lines())

    def jump_to_prompt(self, step: int) -> bool:
        """Scroll to the previous (-1) or next (1) prompt of the user; return False if there is none.

        After the last prompt, scroll to the end.
        """
        entries = self.row_layout.entries
        prompt_indexes = [index for index, entry in enumerate(entries) if isinstance(entry, PromptEntry)]
        if not prompt_indexes:
            return False
        top_index, row = self.row_layout.find(round(self.scroll_y))
        if step < 0:
            # If the start of the entry at the top of the view is out of view, that entry may be the target itself.
            is_start_in_view = row <= entries[top_index].gap
            end = top_index if is_start_in_view else top_index + 1
            above = [index for index in prompt_indexes if index < end]
            if not above:
                return False
            target = above[-1]
        elif self.is_anchored:
            return False
        else:
            below = [index for index in prompt_indexes if index > top_index]
            if not below:
                self.scroll_end(animate=False)
                return True
            target = below[0]
        self.go_to(ReadingPosition(entries[target], entries[target].gap))
        return True

    def _all_lines(self) -> list[Line]:
        layout = self.row_layout
        if not self.text_width:
            layout.width = _WIDTH_BEFORE_MOUNT
        self.lay_out_all()
        return [row for entry in layout.entries for row in entry.rows(layout.width)]


def pattern_of(text: str) -> re.Pattern[str] | None:
    """Return the pattern for `text`, ignoring case and the amount of white space; None if `text` is blank."""
    words = text.split()
    return re.compile(f"{SPACE_CLASS}+".join(map(re.escape, words)), re.IGNORECASE) if words else None


class MatchRange(NamedTuple):
    """A match in rows, with the fields of `SearchMatch`."""

    row: int
    start: int
    end_row: int
    end: int


def find_matches(rows: Sequence[Line], pattern: re.Pattern[str]) -> list[MatchRange]:
    """Return the matches in `rows`. A match may cross a wrap."""
    ranges: list[MatchRange] = []
    begin = 0
    while begin < len(rows):
        end = begin + 1
        while end < len(rows) and rows[end].joint is not None:
            end += 1
        ranges += _matches_in_line(rows, begin, end, pattern)
        begin = end
    return ranges


def _matches_in_line(rows: Sequence[Line], begin: int, end: int, pattern: re.Pattern[str]) -> list[MatchRange]:
    """Return the matches in one source line, which fills the rows from `begin` up to `end`.

    Example: "one two" is wrapped to the rows "one" and "two", whose joint is a space. The rows start at the indexes
    0 and 4 of the source line, so a match of "two" at index 4 is at index 0 of the second row.
    """
    if end == begin + 1:
        line = rows[begin]
        start = line.lead if line.search_start is None else line.search_start
        return [MatchRange(begin, match.start(), begin, match.end()) for match in pattern.finditer(line.text, start)]
    texts: list[str] = []
    starts: list[int] = []  # the index in the source line at which each row starts
    length = 0
    for line in rows[begin:end]:
        if texts:
            texts.append(line.joint or "")
            length += len(texts[-1])
        starts.append(length)
        texts.append(line.text[line.lead :])
        length += len(texts[-1])

    def row_and_index(position: int) -> tuple[int, int]:
        """Return the row that has the character at `position` of the source line, and its index in that row."""
        offset = bisect_right(starts, position) - 1
        line = rows[begin + offset]
        return begin + offset, min(line.lead + position - starts[offset], len(line.text))

    ranges: list[MatchRange] = []
    for match in pattern.finditer("".join(texts)):
        row, start = row_and_index(match.start())
        end_row, end_index = row_and_index(match.end())
        ranges.append(MatchRange(row, start, end_row, end_index))
    return ranges
