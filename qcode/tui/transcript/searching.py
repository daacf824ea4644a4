"""Searching the transcript: one place after another, folded text opened where it is found, and back again."""

from __future__ import annotations

from dataclasses import dataclass

from textual.geometry import Offset

from qcode.protocol import values
from qcode.tui.transcript.column import Place
from qcode.tui.transcript.content import Content
from qcode.tui.transcript.entries import Foldable
from qcode.tui.transcript.line import Line
from qcode.tui.transcript.marking import MarkingPane
from qcode.tui.transcript.search import Hit, find_all, pattern_of


@values.dataclass(frozen=True, slots=True)
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
