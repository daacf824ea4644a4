"""What a person typed while the model works and the turn has not taken yet, one line each above the prompt."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from qcode.tui.text import shorten


class QueuedPrompts(Static):
    """Hidden while empty. Order is the order of typing."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._texts: list[str] = []
        self.display = False

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts)

    def add(self, text: str) -> None:
        self._texts.append(text)
        self._paint()

    def take(self, taken: str) -> None:
        """Remove what joined the turn: `taken` is one queued text or several joined."""
        self._texts = [text for text in self._texts if text not in taken]
        self._paint()

    def take_all(self) -> tuple[str, ...]:
        """Empty the queue and return what was in it."""
        texts, self._texts = self.texts, []
        self._paint()
        return texts

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        self.display = bool(self._texts)
        width = max(20, (self.size.width or 80) - 10)
        self.update(
            Content("\n").join(Content.styled(f"queued: {shorten(text, width)}", "$muted") for text in self._texts)
        )
