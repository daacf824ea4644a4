"""The panel above the prompt that shows the keys and the help texts. It never takes the focus; Esc closes it.

Separate, because it loads after the first paint.
"""

from __future__ import annotations

from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from qcode.tui.shared_widgets import HangingText, mount_parts, set_screen_class

_TITLE_ROWS = 1
_MIN_TRANSCRIPT_ROWS = 3
_MIN_HELP_ROWS = 3
_HIDDEN_WHILE_OPEN = "#aside"
"""The widgets that the style sheet hides while the panel is open."""
_FULL_HEIGHT = 20
"""On a lower screen the help panel leaves one row to the transcript."""


class HelpPanel(Vertical):
    """A panel with a title and scrollable text; hidden while closed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self.heading = ""
        self._title = Static(id="help-title", markup=False)
        self._text = HangingText(id="help-text")
        self._scroll = VerticalScroll(self._text, id="help-scroll", can_focus=False)

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def show(self, title: str, text: str) -> None:
        """Open with `text`, which must be sanitized or written by qcode."""
        mount_parts(self, self._title, self._scroll)
        self.heading = title
        self._show_title()
        self._text.show([(line, "") for line in text.split("\n")])
        self.display = True
        set_screen_class(self.screen, "-helping", True, _HIDDEN_WHILE_OPEN)
        self._fit_height()
        self._scroll.scroll_home(animate=False)
        self.call_after_refresh(self._show_title)

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit_height)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_title)

    def _fit_height(self, _screen: object = None) -> None:
        """Take all rows that no other widget needs, but leave a few to the transcript."""
        if not self.is_open:
            return
        others = (child for child in self.screen.children if child is not self and child.id != "transcript")
        rows = sum(child.region.height + child.styles.margin.height for child in others if child.display)
        free_rows = self.screen.size.height - rows - self.styles.margin.height - _TITLE_ROWS
        transcript_rows = _MIN_TRANSCRIPT_ROWS if self.screen.size.height >= _FULL_HEIGHT else 1
        height = max(_MIN_HELP_ROWS, free_rows - transcript_rows)
        self._scroll.styles.max_height = height
        self._text.use_two_columns_above(height)

    def _show_title(self) -> None:
        """Show the title and the keys. The key that scrolls is named only if some of the text is hidden."""
        scrolls = self._scroll.max_scroll_y > 0
        hint = f"  Esc close{' · PgDn scroll' if scrolls else ''}"
        self._title.update(Content.assemble((self.heading, "bold"), (hint, "$muted")))

    def close(self) -> bool:
        """Hide the panel; return whether it was open."""
        was_open = self.is_open
        self.display = False
        set_screen_class(self.screen, "-helping", False, _HIDDEN_WHILE_OPEN)
        return was_open

    def scroll_page(self, step: int) -> None:
        if step < 0:
            self._scroll.scroll_page_up(animate=False)
        else:
            self._scroll.scroll_page_down(animate=False)
