"""The widgets of the app's main screen, which other modules receive as one object.

The widgets of the first paint are imported at the top, and the panels when they are created, after that paint.
`MainWidgets` is not part of `app`, because `turns` and `view` also use it, and `app` imports them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.widget import Widget

from qcode.tui.prompt.history import HistorySearch, PromptHistory
from qcode.tui.prompt.menu import CompletionMenu
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.status import StatusLine
from qcode.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.tui.panels.approval import ApprovalPanel
    from qcode.tui.panels.aside import AsidePanel
    from qcode.tui.panels.help import HelpPanel
    from qcode.tui.panels.new_text import NewTextRow
    from qcode.tui.panels.search import SearchBar
    from qcode.tui.panels.todos import TodoPanel
    from qcode.tui.prompt.queue import Queue
    from qcode.tui.status import QuestionState, Status
    from qcode.tui.transcript.content import ThinkingMode

PANEL_STYLES = Path(__file__).with_name("panels.tcss")
"""The styles of panels and screens. Reading this file before the first paint would delay the paint by 3 ms."""


class MainWidgets:
    """All widgets of the main screen, which `app` mounts. `add_panels` creates those that are not in the first paint.

    Panels are hidden at first, and mount their child widgets when they are shown. Only the prompt, an open question and
    the search field can have the focus.
    """

    search: SearchBar
    approval: ApprovalPanel
    help: HelpPanel
    aside: AsidePanel
    todos: TodoPanel
    queue: Queue
    new_text: NewTextRow

    def __init__(
        self, status: Status, prompt_history: PromptHistory, thinking: ThinkingMode, clock: Callable[[], float]
    ) -> None:
        self.transcript = Transcript(clock=clock, thinking=thinking, id="transcript")
        self.transcript.can_focus = False
        self.menu = CompletionMenu(id="menu")
        self.history_search = HistorySearch(id="history-search")
        self.prompt = Prompt(
            self.menu,
            self.history_search,
            prompt_history,
            lambda vim_mode: self.status.change(vim=vim_mode),
            id="prompt",
        )
        self.status = StatusLine(status, clock, id="status")

    def add_panels(
        self, clock: Callable[[], float], show_question: Callable[[QuestionState | None], None] | None = None
    ) -> tuple[Widget, ...]:
        """Read the styles of the panels, create those above the prompt, and return them from top to bottom.

        `show_question` shows the state of an open question; by default, the status line does.
        """
        from qcode.tui.panels.approval import ApprovalPanel
        from qcode.tui.panels.aside import AsidePanel
        from qcode.tui.panels.help import HelpPanel
        from qcode.tui.panels.new_text import NewTextRow
        from qcode.tui.panels.search import SearchBar
        from qcode.tui.panels.todos import TodoPanel
        from qcode.tui.prompt.queue import Queue

        self.prompt.app.stylesheet.read(PANEL_STYLES)
        self.search = SearchBar(self.transcript, id="search")
        self.approval = ApprovalPanel(clock, self.prompt, show_question or self._show_question, id="approval")
        self.help = HelpPanel(id="help")
        self.aside = AsidePanel(clock, id="aside")
        self.todos = TodoPanel(id="todos")
        self.queue = Queue(id="queued")
        self.new_text = NewTextRow(self.transcript, id="new-text")
        panels = (self.search, self.approval, self.help, self.aside)
        lists = (self.todos, self.queue, self.menu, self.history_search)
        return (*panels, *lists, self.new_text)

    def _show_question(self, state: QuestionState | None) -> None:
        self.status.change(question=state)
