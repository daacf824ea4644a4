"""A small app that asks whether to trust a folder, with the approval panel. It runs before the main app.

The settings of the folder must not be read yet, so only the user's own settings apply. Text that is typed meanwhile
becomes the draft of the main app, or of the next start if the user quits.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap, BindingType
from textual.containers import Horizontal
from textual.widgets import Static

from qcode.agent.crash import report_crash
from qcode.config.saved_choices import Choices
from qcode.tui.failures import crash_text, original_error
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.messages import ApprovalDecided
from qcode.tui.panels.choices import FolderTrust
from qcode.tui.prompt.history import PromptHistory
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.shared_widgets import key_hints
from qcode.tui.status import QuestionState, Status
from qcode.tui.terminal import driver
from qcode.tui.terminal.signals import EndingSignals
from qcode.tui.terminal.textual_internals import set_bindings
from qcode.tui.terminal.themed_app import ThemedApp
from qcode.tui.theme import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qcode.agent.options import RunContext
    from qcode.protocol.approvals import Decision

_KEYS = (("Enter", "select"), ("Esc", "quit"))
_SIDE_CELLS = 2
"""The cells at both sides of the keys at the foot."""
_KEYS_WHILE_TYPING = (("↑↓", "choose"), ("Esc", "quit, keep the text"))


class TrustApp(ThemedApp, inherit_bindings=False):
    """An app that asks `question`. `answer` is None if the user quit, `draft` is the text they typed meanwhile."""

    CSS_PATH = Path(__file__).parents[1] / "app.tcss"
    TITLE = "qcode"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,ctrl+d", "quit_unanswered", "Quit", priority=True, show=False),
    ]

    def __init__(
        self,
        context: RunContext,
        question: FolderTrust,
        clock: Callable[[], float] = time.monotonic,
        history: PromptHistory | None = None,
    ) -> None:
        """`history` stores the draft of a user who quits; None stores nothing."""
        ui, state_dir = context.settings.ui, context.paths.state_dir
        super().__init__(ui.theme or Choices(state_dir).theme or AUTO, context.paths.config_dir / "themes")
        self.painter = driver.new_painter(os.environ) if ui.partial_redraw else None
        driver.prepare_input()
        self.answer: Decision | None = None
        self.draft = ""
        self._question = question
        self._clock = clock
        self._env = context.env
        self._is_asked = False
        self._events_before_question: list[events.Event] = []
        self._crash: str | None = None
        self._signals: EndingSignals | None = None
        status = Status(model="", mode="default")
        self.widgets = MainWidgets(status, history or PromptHistory(), ui.show_thinking, clock)
        self._use_keys(ui.keys)

    def _use_keys(self, user_keys: Mapping[str, str]) -> None:
        """Bind the keys of `fold`. The commands are imported only if the user has changed keys."""
        if user_keys:
            from qcode.tui.commands.keymap import keymap
            from qcode.tui.commands.table import COMMANDS

            self.fold_keys = keymap(user_keys, COMMANDS)["fold"]
        show_all = [Binding(key, "show_all", "Show all", priority=True, show=False) for key in self.fold_keys]
        set_bindings(self, BindingsMap([*self.BINDINGS, *show_all]))

    def _show_fold_key(self) -> None:
        if self.fold_keys != TrustApp.fold_keys:
            from qcode.tui.commands.command import key_names

            self.widgets.approval.view.show_all_key = key_names(self.fold_keys[:1])

    def compose(self) -> ComposeResult:
        widgets = self.widgets
        panels = widgets.add_panels(self._clock, self._show_keys)
        yield widgets.transcript
        yield from panels
        with Horizontal(id="prompt-row") as row:
            row.display = False  # the prompt only collects what is typed
            yield widgets.prompt
        yield Static(id="trust-foot", markup=False)

    def on_mount(self) -> None:
        self._signals = EndingSignals(self._leave_on_signal, lambda: None)
        self.widgets.transcript.add_welcome(("qcode", ""))
        self.call_after_refresh(self._ask)

    def _show_keys(self, _state: QuestionState | None) -> None:
        """Show the keys of the question: Enter selects nothing while text is typed."""
        keys = _KEYS if self.widgets.approval.has_highlighted_choice else _KEYS_WHILE_TYPING
        self.query_one("#trust-foot", Static).update(key_hints(keys, self.size.width - _SIDE_CELLS))

    def _leave_on_signal(self, number: int) -> None:
        from qcode.agent.outcomes import signal_code

        self.exit(signal_code(number))

    async def on_event(self, event: events.Event) -> None:
        """Hold back what is typed before the question is open: until then, no widget takes it."""
        if not self._is_asked and isinstance(event, events.Key | events.Paste):
            self._events_before_question.append(event)
        else:
            await super().on_event(event)

    def _ask(self) -> None:
        self._show_fold_key()
        self.widgets.approval.ask(self._question)
        self.widgets.approval.focus()
        self._is_asked = True
        for event in self._events_before_question:
            self.post_message(event)

    @on(ApprovalDecided)
    def _decide(self, event: ApprovalDecided) -> None:
        self.answer = event.decision
        self.draft = self.widgets.prompt.portable_text
        self.widgets.prompt.replace_text("")  # otherwise its draft would be stored as that of a user who quit
        self.exit(0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let no key run an action of the app while the pager is open."""
        return super().check_action(action, parameters) and len(self.screen_stack) == 1

    def action_quit_unanswered(self) -> None:
        self.exit(0)

    def action_show_all(self) -> None:
        panel = self.widgets.approval
        if panel.view.has_more:
            self.push_screen(PagerScreen(panel.heading, panel.view.all_rows))

    def report_crash(self, error: Exception) -> None:
        if self._crash is None:
            self._crash = report_crash(original_error(error), self._env)

    def ask(self, *, mouse: bool) -> int:
        """Run until the question is answered; return the exit code: 0, 1 after a crash, or that of a signal."""
        try:
            code = self.run(mouse=mouse)
        finally:
            if self._signals is not None:
                self._signals.close()
        if self._crash is not None:
            sys.stderr.write(crash_text(self._crash, ""))
            return 1
        return code or 0
