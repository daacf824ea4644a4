"""The widgets of the one screen, made together so that the parts that need several can be handed them."""

from __future__ import annotations

from dataclasses import dataclass

from qcode.tui.approval import ApprovalPanel
from qcode.tui.help_panel import HelpPanel
from qcode.tui.history_search import HistorySearch
from qcode.tui.prompt import Prompt, Sources
from qcode.tui.prompt_history import PromptHistory
from qcode.tui.queued import Queue
from qcode.tui.search_bar import SearchBar
from qcode.tui.setup import AppSetup
from qcode.tui.slash_menu import SlashMenu
from qcode.tui.status import Status
from qcode.tui.status_line import StatusLine
from qcode.tui.todo_panel import TodoPanel
from qcode.tui.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Widgets:
    """From top to bottom."""

    transcript: Transcript
    search: SearchBar
    approval: ApprovalPanel
    help: HelpPanel
    todos: TodoPanel
    queued: Queue
    menu: SlashMenu
    history: HistorySearch
    prompt: Prompt
    status: StatusLine


def make_widgets(setup: AppSetup, status: Status, sources: Sources) -> Widgets:
    """Return the widgets, not yet mounted. Only the prompt, an open question and a search ever have the focus."""
    transcript = Transcript(clock=setup.clock, thinking=setup.show_thinking, id="transcript")
    transcript.can_focus = False
    menu, history = SlashMenu(id="menu"), HistorySearch(id="history-search")
    return Widgets(
        transcript,
        SearchBar(transcript, id="search"),
        ApprovalPanel(setup.clock, id="approval"),
        HelpPanel(id="help"),
        TodoPanel(id="todos"),
        Queue(id="queued"),
        menu,
        history,
        Prompt(menu, history, PromptHistory(setup.history_file, setup.cwd), sources, id="prompt"),
        StatusLine(status, setup.clock, id="status"),
    )
