"""The line above the prompt while its history is searched, and where the search stands."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from qcode.tui.text import shorten


class HistorySearch(Static):
    """Hidden while nothing is searched. The prompt drives it and shows what was found."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.display = False
        self.words = ""
        self.draft = ""
        self._matches: tuple[str, ...] = ()
        self._place = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def match(self) -> str | None:
        """The entry that is shown, None where nothing matches."""
        return self._matches[self._place] if self._matches and self.words else None

    def open(self, draft: str) -> None:
        """Begin; `draft` is what stands in the prompt when the search is left."""
        self.words, self.draft, self._matches, self._place = "", draft, (), 0
        self.display = True
        self._paint()

    def close(self) -> None:
        self.display = False

    def look_for(self, words: str, matches: tuple[str, ...]) -> None:
        """Show the newest of `matches`; the one that was shown stays where it still matches."""
        shown = self.match
        self.words, self._matches = words, matches
        self._place = matches.index(shown) if shown in matches else 0
        self._paint()

    def step(self, step: int) -> None:
        """Go on to an older (1) or a newer (-1) match; at the ends nothing happens."""
        self._place = max(0, min(self._place + step, len(self._matches) - 1))
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        if not self.words:
            found = "type a part of an earlier prompt"
        elif self._matches:
            found = f"{self._place + 1} of {len(self._matches)} · Ctrl+R older · Enter takes · Esc leaves"
        else:
            found = "nothing found · Esc leaves"
        width = self.size.width or 80
        head = f"history: {shorten(self.words, max(8, width // 2))}"
        self.update(Content.assemble((head, "$text-accent"), ("  " + found, "$muted")).truncate(width, ellipsis=True))
