"""The container of all widgets of the app's screen, which other modules receive as one object.

Widgets of the first paint are imported at the top; panels are imported when they are created, after it. `Widgets` is
not part of `app`, because `turns` and `view` also use it, and `app` imports them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from qcode.tui.prompt.history import HistorySearch, PromptHistory
from qcode.tui.prompt.menu import SlashMenu
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.status import StatusLine
from qcode.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.tui.panels.approval import ApprovalPanel
    from qcode.tui.panels.aside import AsidePanel
    from qcode.tui.panels.search import SearchBar
    from qcode.tui.panels.todos import TodoPanel
    from qcode.tui.prompt.queue import Queue
    from qcode.tui.status import Status
    from qcode.tui.transcript.content import ThinkingMode
    from qcode.tui.widgets import HelpPanel, NewsLine

PANEL_STYLES = Path(__file__).with_name("panels.tcss")
"""The styles of panels and screens. Reading them with those of the first paint would delay it by 3 ms."""


class Widgets:
    """The widgets of the first paint; `add_panels` creates the others. `app` mounts them.

    Only the prompt, an open question and the search field can have the focus.
    """

    search: SearchBar
    approval: ApprovalPanel
    help: HelpPanel
    aside: AsidePanel
    todos: TodoPanel
    queue: Queue
    news: NewsLine

    def __init__(self, status: Status, sent: PromptHistory, thinking: ThinkingMode, clock: Callable[[], float]) -> None:
        self.transcript = Transcript(clock=clock, thinking=thinking, id="transcript")
        self.transcript.can_focus = False
        self.menu, self.history = SlashMenu(id="menu"), HistorySearch(id="history-search")
        self.prompt = Prompt(
            self.menu, self.history, sent, lambda vim_mode: self.status.change(vim=vim_mode), id="prompt"
        )
        self.status = StatusLine(status, clock, id="status")

    def add_panels(self, clock: Callable[[], float]) -> tuple[Widget, ...]:
        """Create the panels between transcript and prompt, and read the styles; return them from top to bottom."""
        from qcode.tui.panels.approval import ApprovalPanel
        from qcode.tui.panels.aside import AsidePanel
        from qcode.tui.panels.search import SearchBar
        from qcode.tui.panels.todos import TodoPanel
        from qcode.tui.prompt.queue import Queue
        from qcode.tui.widgets import HelpPanel, NewsLine

        self.prompt.app.stylesheet.read(PANEL_STYLES)
        self.search = SearchBar(self.transcript, id="search")
        self.approval = ApprovalPanel(clock, self.prompt, self._show_question, id="approval")
        self.help = HelpPanel(id="help")
        self.aside = AsidePanel(clock, id="aside")
        self.todos = TodoPanel(id="todos")
        self.queue = Queue(id="queued")
        self.news = NewsLine(self.transcript, id="news")
        lists = (self.todos, self.queue, self.menu, self.history)
        return self.search, self.approval, self.help, self.aside, *lists, self.news

    def _show_question(self, action: str, keys: str) -> None:
        self.status.change(question=(action, keys))
