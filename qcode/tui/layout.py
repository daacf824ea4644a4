"""The widgets of the one screen, made together so that other modules can be given all of them.

What is visible at once is imported at the top. The panels are imported when they are made, after the first paint.
This is not part of `app` because `turns` and `view` use it, and `app` imports them.
"""

from __future__ import annotations

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
    from qcode.tui.panels.search import SearchBar
    from qcode.tui.panels.todos import TodoPanel
    from qcode.tui.prompt.queue import Queue
    from qcode.tui.status import Status
    from qcode.tui.transcript.content import Thoughts
    from qcode.tui.widgets import HelpPanel


class Widgets:
    """What is seen at once; `add_panels` makes what opens later. Nothing is mounted here.

    Only the prompt, an open question and a search ever have the focus.
    """

    search: SearchBar
    approval: ApprovalPanel
    help: HelpPanel
    todos: TodoPanel
    queued: Queue

    def __init__(self, status: Status, sent: PromptHistory, thinking: Thoughts, clock: Callable[[], float]) -> None:
        self.transcript = Transcript(clock=clock, thinking=thinking, id="transcript")
        self.transcript.can_focus = False
        self.menu, self.history = SlashMenu(id="menu"), HistorySearch(id="history-search")
        self.prompt = Prompt(self.menu, self.history, sent, id="prompt")
        self.status = StatusLine(status, clock, id="status")

    def add_panels(self, clock: Callable[[], float]) -> tuple[Widget, ...]:
        """Make the panels between transcript and prompt; return all of them from top to bottom."""
        from qcode.tui.panels.approval import ApprovalPanel
        from qcode.tui.panels.search import SearchBar
        from qcode.tui.panels.todos import TodoPanel
        from qcode.tui.prompt.queue import Queue
        from qcode.tui.widgets import HelpPanel

        self.search = SearchBar(self.transcript, id="search")
        self.approval = ApprovalPanel(clock, self.prompt, id="approval")
        self.help = HelpPanel(id="help")
        self.todos = TodoPanel(id="todos")
        self.queued = Queue(id="queued")
        return self.search, self.approval, self.help, self.todos, self.queued, self.menu, self.history
