"""The row above the prompt that points to new text below the view of the transcript.

Separate, because it loads after the first paint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from qcode.tui.shared_widgets import set_screen_class
from qcode.tui.transcript.line import crop, style_of

if TYPE_CHECKING:
    from qcode.tui.transcript.transcript import Transcript


class NewTextRow(Widget):
    """A row above the prompt, shown while new text is below the view of `transcript`. A click scrolls to that text.

    The row replaces the blank row above the prompt, so the transcript keeps its size, and no text is covered.
    """

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self._transcript = transcript
        self.key = ""
        """The key that scrolls to the end, such as `Ctrl+End`."""

    def on_mount(self) -> None:
        self.watch(self._transcript, "has_new_text_below", self._set_shown)

    def _set_shown(self, is_needed: bool) -> None:
        self.display = is_needed
        set_screen_class(self.screen, "-new-text", is_needed, "#prompt-row")

    def on_click(self) -> None:
        self._transcript.scroll_end(animate=False)

    def render(self) -> Text:
        label = " · ".join(filter(None, ("new text below", self.key)))
        return Text(crop(f" ↓ {label} ", self.size.width), self._transcript.palette.style(style_of("new-text")))
