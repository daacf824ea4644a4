"""The widgets of the one screen, made together so that the parts that need several can be handed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from qcode.tui.history_search import HistorySearch
from qcode.tui.prompt import Prompt
from qcode.tui.prompt_history import PromptHistory
from qcode.tui.slash_menu import SlashMenu
from qcode.tui.status_line import StatusLine
from qcode.tui.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcode.tui.approval import ApprovalPanel
    from qcode.tui.help_panel import HelpPanel
    from qcode.tui.queued import Queue
    from qcode.tui.search_bar import SearchBar
    from qcode.tui.setup import AppSetup
    from qcode.tui.status import Status
    from qcode.tui.todo_panel import TodoPanel


class Widgets:
    """What is seen at once; `add_panels` makes what opens later. Nothing is mounted here.

    Only the prompt, an open question and a search ever have the focus.
    """

    search: SearchBar
    approval: ApprovalPanel
    help: HelpPanel
    todos: TodoPanel
    queued: Queue

    def __init__(self, setup: AppSetup, status: Status) -> None:
        self.transcript = Transcript(clock=setup.clock, thinking=setup.show_thinking, id="transcript")
        self.transcript.can_focus = False
        self.menu, self.history = SlashMenu(id="menu"), HistorySearch(id="history-search")
        sent = PromptHistory(setup.history_file, setup.cwd)
        self.prompt = Prompt(self.menu, self.history, sent, id="prompt")
        self.status = StatusLine(status, setup.clock, id="status")

    def add_panels(self, clock: Callable[[], float]) -> tuple[Widget, ...]:
        """Make the panels between transcript and prompt; return all of them from top to bottom."""
        from qcode.tui.approval import ApprovalPanel
        from qcode.tui.help_panel import HelpPanel
        from qcode.tui.queued import Queue
        from qcode.tui.search_bar import SearchBar
        from qcode.tui.todo_panel import TodoPanel

        self.search = SearchBar(self.transcript, id="search")
        self.approval = ApprovalPanel(clock, id="approval")
        self.help = HelpPanel(id="help")
        self.todos = TodoPanel(id="todos")
        self.queued = Queue(id="queued")
        return self.search, self.approval, self.help, self.todos, self.queued, self.menu, self.history
