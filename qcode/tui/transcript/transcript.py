"""The transcript as the rest of the app sees it: what can be added, changed, searched and asked for.

Every call is cheap and returns before anything is painted; `pane` shows the changes with the next frame. A search
moves from match to match, unfolds what it finds, and returns to the old position; `search` finds the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from textual.geometry import Offset

from qcode.tui.transcript.content import Content, Level, Thoughts
from qcode.tui.transcript.entries import Foldable, Prompted
from qcode.tui.transcript.line import Line, join
from qcode.tui.transcript.pane import Place
from qcode.tui.transcript.search import Hit, find_all, pattern_of
from qcode.tui.transcript.selection import MarkingPane
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tui.transcript.cards import CardUpdate


@dataclass(frozen=True, slots=True)
class Found:
    """Which place is shown, counted from the top, and how many there are; both 0 where there is none."""

    number: int = 0
    count: int = 0


@dataclass(slots=True)
class _Search:
    """A search that is going on. `start` is where the person was, None at the end."""

    start: Place | None
    top: tuple[int, int]
    text: str = ""
    current: Hit | None = None


class SearchingPane(MarkingPane):
    """A pane that can be searched. `begin_search`, then `search` and `search_on`, then `end_search`."""

    def __init__(self, content: Content, id: str | None, classes: str | None) -> None:
        super().__init__(content, id, classes)
        self._search: _Search | None = None
        self._opened: list[Foldable] = []

    def begin_search(self) -> None:
        """Remember where the person is."""
        bottom = min(self.column.height, round(self.scroll_y) + self.size.height) - 1
        top = self.column.find(max(0, bottom)) if self.column.entries else (0, 0)
        self._search = _Search(self.place, top)
        self._opened = []

    def search(self, text: str) -> Found:
        """Look for `text` and show the nearest place at or above where the search began, else the last one."""
        search = self._search
        if search is None:
            self.begin_search()
            return self.search(text)
        search.text, search.current = text, None
        self.highlight(pattern_of(text))
        hits = self._hits()
        before = [index for index, hit in enumerate(hits) if self._order(hit)[:2] <= search.top]
        return self._go_to(hits, before[-1] if before else len(hits) - 1)

    def search_on(self, *, is_upwards: bool = True) -> Found:
        """Show the next place in a direction, around the ends."""
        search = self._search
        hits = self._hits()
        if search is None or not hits:
            return Found()
        if search.current is None:
            return self._go_to(hits, len(hits) - 1 if is_upwards else 0)
        here = self._order(search.current)
        before = sum(self._order(hit) < here for hit in hits)
        is_on_one = before < len(hits) and self._order(hits[before]) == here
        return self._go_to(hits, (before - 1 if is_upwards else before + is_on_one) % len(hits))

    def end_search(self, *, is_going_back: bool) -> None:
        """Stop searching; where `is_going_back`, be where it began, with what was opened folded again."""
        search, self._search = self._search, None
        self.highlight(None)
        if search is None or not is_going_back:
            return
        self.drop_selection()
        for entry in self._opened:
            self.content.unfold(entry, self.content.is_unfolded)
        if search.start is None:
            self.scroll_end(animate=False)
        else:
            self.go_to(search.start)

    def _hits(self) -> list[Hit]:
        self.lay_out_all()
        return find_all(self.column, self._search.text) if self._search is not None else []

    def _go_to(self, hits: list[Hit], index: int) -> Found:
        search = self._search
        if search is None or not hits:
            self.drop_selection()
            return Found()
        hit = search.current = hits[index]
        if isinstance(hit.entry, Foldable) and not hit.entry.is_unfolded:
            self._open_for(hit.entry, hit)
        at = self.column.index(hit.entry) or 0
        top = self.column.top(at)
        self.reveal(top + hit.row)
        # Scrolling may have laid rows out above.
        top = self.column.top(at)
        self.select(Offset(hit.start, top + hit.row), Offset(hit.end, top + hit.end_row))
        return Found(index + 1, len(hits))

    def _open_for(self, entry: Foldable, hit: Hit) -> None:
        """Unfold `entry`, unless the place is in the part of it that is shown anyway."""
        shown = entry.shown_rows()
        full = entry.full_rows(self.column.width)
        if shown == full or (hit.row < len(shown) and _is_same(shown[: hit.end_row + 1], full)):
            return
        self.content.unfold(entry, True)
        self._opened.append(entry)
        self.lay_out_all()

    def _order(self, hit: Hit) -> tuple[int, int, int]:
        return self.column.index(hit.entry) or 0, hit.row, hit.start


def _is_same(some: list[Line], rows: list[Line]) -> bool:
    return all(one.text == other.text for one, other in zip(some, rows, strict=False))


_WIDTH_BEFORE_MOUNT = 80


class Transcript(SearchingPane):
    """Everything said and done.

    `clock` gives seconds for durations; it must never go back. `thinking` says what becomes of thinking that is over.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = monotonic,
        thinking: Thoughts = "folded",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(Content(clock, thinking), id, classes)
        self._clock = clock
        self._thinking: Thoughts = thinking

    def add_welcome(self, lines: Sequence[str]) -> None:
        """Add lines of greeting, the first one bold."""
        self.content.add_welcome(lines)
        self.schedule()

    def add_user(self, text: str) -> None:
        """Add what the person said, as it was typed."""
        self.content.add_user(text)
        self.schedule()

    def append_text(self, text: str) -> None:
        """Open or go on with the live text of the reply; `text` is Markdown, cut anywhere."""
        self.content.append_text(text)
        self.schedule()

    def append_reasoning(self, text: str) -> None:
        """Open or go on with live thinking."""
        self.content.append_reasoning(text)
        self.schedule()

    def settle(self) -> None:
        """Close the live blocks; thinking folds, old text of an attempt that was given up goes."""
        self.content.settle()
        self.schedule()

    def restart(self, label: str) -> None:
        """The reply starts over: its live blocks stay, dimmed and labelled, until new ones have taken their place."""
        self.content.restart(label)
        self.schedule()

    def restore(self, text: str, reasoning: str = "") -> None:
        """The live blocks are replaced by these, which are live and may go on."""
        self.content.restore(text, reasoning)
        self.schedule()

    def add_mark(self, text: str) -> None:
        """Put a thin line with `text` after what is shown of the live text, which goes on below it unbroken."""
        self.content.add_mark(text)
        self.schedule()

    def add_notice(self, level: Level, text: str) -> None:
        """Add something that qcode itself has to say."""
        self.content.add_notice(level, text)
        self.schedule()

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        """Add the card of a tool call, waiting. A later call with the same id gets a card of its own."""
        self.content.add_card(call_id, name, argument)
        self.schedule()

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        """Change a card; one that went with its attempt is ignored. Raise `ValueError` for an unknown state."""
        self.content.update_card(call_id, update)
        self.schedule()

    def toggle_folds(self) -> None:
        """Unfold all thinking, outputs and diffs, or fold them again."""
        self.content.toggle_folds()
        self.drop_selection()
        self.schedule()

    def show_thinking(self, thinking: Thoughts) -> None:
        """Fold, expand or hide what is thought from now on."""
        self._thinking = self.content.thinking = thinking

    def clear(self) -> None:
        """Take everything away."""
        self.show(Content(self._clock, self._thinking))

    def plain_text(self) -> str:
        """Return everything shown, row by row at the present width, whether or not a frame has shown it yet."""
        return join(self._all_lines())

    def jump(self, step: int) -> bool:
        """Show what the person said before (-1) or after (1) what is in view, at the top; return whether there is any.

        After the last one is the end.
        """
        own = [index for index, entry in enumerate(self.column.entries) if isinstance(entry, Prompted)]
        if not own:
            return False
        index, row = self.column.find(round(self.scroll_y))
        entry = self.column.entries[index]
        is_at_start = row <= entry.gap
        if step < 0:
            before = [at for at in own if at < index or (at == index and not is_at_start)]
            target = before[-1] if before else None
        else:
            if self.is_anchored:
                return False
            target = next((at for at in own if at > index), None)
            if target is None:
                self.scroll_end(animate=False)
                return True
        if target is None:
            return False
        self.go_to(Place(self.column.entries[target], self.column.entries[target].gap))
        return True

    def _all_lines(self) -> list[Line]:
        column = self.column
        if not self.text_width:
            column.width = _WIDTH_BEFORE_MOUNT
        self.lay_out_all()
        return [row for entry in column.entries for row in entry.rows(column.width)]
