"""A panel above the prompt for keys and help. It takes no focus; Esc closes it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from qcode.tui.hanging import HangingText


class HelpPanel(Vertical):
    """Shows a title and a text that scrolls; hidden while closed."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.display = False
        self.heading = ""

    def compose(self) -> ComposeResult:
        yield Static(id="help-title", markup=False)
        with VerticalScroll(id="help-scroll", can_focus=False):
            yield HangingText(id="help-text")

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def show(self, title: str, text: str) -> None:
        """Open with `text`, which is our own words or already cleaned."""
        self.heading = title
        hint = "  Esc closes · PgDn scrolls"
        self.query_one("#help-title", Static).update(Content.assemble((title, "bold"), (hint, "$muted")))
        self.query_one("#help-text", HangingText).show([(line, "") for line in text.split("\n")])
        self.display = True
        self.query_one("#help-scroll", VerticalScroll).scroll_home(animate=False)

    def close(self) -> bool:
        """Hide; return whether it was open."""
        was_open = self.is_open
        self.display = False
        return was_open

    def scroll_page(self, step: int) -> None:
        scroll = self.query_one("#help-scroll", VerticalScroll)
        if step < 0:
            scroll.scroll_page_up(animate=False)
        else:
            scroll.scroll_page_down(animate=False)
