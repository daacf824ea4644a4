"""The Textual app: its one screen, life cycle, theme, and the messages of its widgets.

`presenter` shows events, `turns` runs turns, `view` has the actions of commands and keys. This module must not use
the engine, a provider or the disk. Its top-level imports delay the first paint; all others are in functions.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events, on, work
from textual.app import AutopilotCallbackType, ComposeResult
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Static
from textual.worker import Worker

from qcode.protocol.errors import QcodeError
from qcode.tui.failures import crash_text, original_error
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.messages import ApprovalDecided, SearchClosed
from qcode.tui.prompt.history import PromptHistory
from qcode.tui.prompt.menu import CompletionSources
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.status import Status, cost_total_text
from qcode.tui.terminal import driver
from qcode.tui.terminal.driver import TerminalTitle, survive_hangup
from qcode.tui.terminal.signals import EndingSignals
from qcode.tui.terminal.textual_internals import (
    guard_widgets,
    is_closing,
    is_mounted,
    set_bindings,
    set_local_clipboard,
)
from qcode.tui.terminal.themed_app import ThemedApp
from qcode.tui.theme import AUTO
from qcode.tui.transcript.transcript import Transcript
from qcode.tui.welcome import Welcome, farewell, resume_hint
from qcode.values import dataclass

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine

    from qcode.agent.agent import Agent
    from qcode.agent.models.selection import Selection
    from qcode.agent.options import RunContext
    from qcode.agent.settings import Setting
    from qcode.protocol.events import Notice
    from qcode.tui.commands.command import Command
    from qcode.tui.opening import SessionStart
    from qcode.tui.prompt.attachments import AttachmentFinder
    from qcode.tui.terminal.clipboard import CopyResult
    from qcode.tui.turns import TurnState

_MAX_EXIT_WAIT_SECONDS = 3.0
"""The maximum time for which `_leave` waits until an interrupted turn has stored its result."""


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Options of the app besides the context of the run."""

    history_file: Path | None = None
    """The file of the prompts of all sessions, only read with `--no-session`; None keeps prompts for this run only."""
    on_first_paint: Callable[[], None] | None = None
    clock: Callable[[], float] = time.monotonic
    """Returns seconds from any starting point."""
    draft: str = ""
    """The initial text of the prompt."""
    picks_session: bool = False
    """The user first picks a session to resume."""
    busy_session: str = ""
    """The id of the requested session if another process has it open: the user then decides how to continue."""


class QcodeApp(ThemedApp, inherit_bindings=False):
    """The app. It opens its agent after the first paint, and owns it until `run()` returns the exit code."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "qcode"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, context: RunContext, selection: Selection, welcome: Welcome, options: AppOptions | None = None
    ) -> None:
        from qcode.config.saved_choices import Choices

        self.context = context
        self.welcome = welcome
        self.options = options or AppOptions()
        self._selection = selection
        ui, state_dir = context.settings.ui, context.paths.state_dir
        super().__init__(ui.theme or Choices(state_dir).theme or AUTO, context.paths.config_dir / "themes")
        self.painter = driver.new_painter(os.environ) if ui.partial_redraw else None
        driver.prepare_input()
        guard_widgets()
        status = Status(
            model=selection.name,
            mode=context.settings.permissions.mode,
            branch=welcome.branch,
            problem="no key set" if selection.is_last_resort else "",
            is_restricted=not context.is_trusted,
            is_opening=context.options.resume is not None and context.options.permission_mode is None,
        )
        history = PromptHistory(self.options.history_file, welcome.folder, is_stored=not context.options.no_session)
        self.widgets = MainWidgets(status, history, ui.show_thinking, self.options.clock)
        self.terminal_title = TerminalTitle(
            welcome.folder, self.write_sequence, self._ring, has_title=ui.title, has_bell=ui.bell
        )
        self.widgets.status.on_countdown = self.terminal_title.count_down
        self._opening_error: QcodeError | None = None
        self.is_ready = False
        """The agent is open and the objects behind keys and commands exist."""
        self._agent: Agent | None = None
        self._signals: EndingSignals | None = None
        self._crash: str | None = None
        self._events_before_ready: list[events.Event] = []
        self._app_start = self.options.clock()

    @property
    def agent(self) -> Agent:
        """The agent, once it is open."""
        assert self._agent is not None
        return self._agent

    def open_agent(self) -> Agent:
        """Open the agent, blocking. Raise `QcodeError`."""
        from qcode.tui.opening import open_agent

        return open_agent(self.context, self._selection)

    def _add_commands(self, commands: tuple[Command, ...]) -> None:
        """Create the objects behind keys and commands, whose imports take as long as the first paint."""
        from qcode.tui.commands.command import CommandContext
        from qcode.tui.commands.keymap import bindings
        from qcode.tui.commands.table import COMMANDS, show_keys_and_todos
        from qcode.tui.panels.servers import ServerWatch
        from qcode.tui.prompt.attachments import AttachmentFinder
        from qcode.tui.session_title import SessionTitle
        from qcode.tui.view import AppView

        self.add_themes()
        agent, widgets, clock = self.agent, self.widgets, self.options.clock
        finder = AttachmentFinder(agent, notify=widgets.transcript.add_notice, on_index_change=self._offer_new_files)
        self.session_title = SessionTitle(
            agent.sessions, self.terminal_title.show_session_title, widgets.status.add_side_usage
        )
        self._add_runners()
        self.server_watch = ServerWatch(agent.servers, widgets, self.turns)
        self.view = AppView(
            self,
            agent,
            widgets,
            self.turns,
            self.shell,
            finder,
            self.server_watch,
            self.session_title,
            welcome=self.welcome,
            clock=clock,
            leave=self._begin_leaving,
            copy=self._copy,
            suspend_terminal=self.suspend_terminal,
            apply_setting=self._apply_setting,
        )
        self.commands = CommandContext(agent, commands, self.view.model_use, self.view, self.view)
        self.view.jobs.ring = self.terminal_title.ring
        set_bindings(self, bindings(self.context.settings.ui.keys, COMMANDS))
        widgets.prompt.set_sources(self._sources(finder))
        show_keys_and_todos(self.commands, widgets)
        self.session_title.refresh()
        self.view.failures.watch(self._call_in_app)
        self.is_ready = True
        for problem in self.all_theme_problems():
            widgets.transcript.add_notice("warning", problem)

    def _add_runners(self) -> None:
        """Create the objects that run turns and the user's `!` lines. No turn starts while such a line runs."""
        from qcode.tui.shell_lines import ShellLines
        from qcode.tui.turns import Turns

        widgets, clock = self.widgets, self.options.clock
        self.turns = Turns(
            self.agent,
            widgets,
            clock,
            spawn=self._spawn,
            announce=self._announce,
            survives=self.survives,
            is_held=lambda: self.shell.is_running,
        )
        self.shell = ShellLines(
            self.agent,
            widgets.transcript,
            spawn=self._spawn_shell,
            show_activity=widgets.status.show_shell_line,
            on_end=lambda is_stopped: self.turns.send_queued(is_interrupted=is_stopped),
            clock=clock,
        )

    def _sources(self, finder: AttachmentFinder) -> CompletionSources:
        from qcode.tui.commands.command import argument_hint, choices_for

        return CompletionSources(
            commands=lambda text: choices_for(text, self.commands),
            hint=lambda text: argument_hint(text, self.commands),
            files=finder.files,
            pictures=finder.pictures,
            resources=finder.resources,
        )

    def get_driver_class(self) -> type[Driver]:
        return survive_hangup(super().get_driver_class(), self.exit)

    def compose(self) -> ComposeResult:
        """Yield the widgets of the first paint; panels are mounted after it."""
        widgets = self.widgets
        yield widgets.transcript
        with Horizontal(id="prompt-row"):
            yield Static("›", id="prompt-mark", markup=False)
            yield widgets.prompt
        yield widgets.status

    def run(
        self,
        *,
        headless: bool = False,
        inline: bool = False,
        inline_no_clear: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
        auto_pilot: AutopilotCallbackType | None = None,
        loop: AbstractEventLoop | None = None,
    ) -> int:
        """Run the app to its end and return the exit code: 0, 1 after a crash, 130 or 143 after a signal.

        Raise `QcodeError` if the agent could not be opened.
        """
        code = None
        try:
            code = super().run(
                headless=headless,
                inline=inline,
                inline_no_clear=inline_no_clear,
                mouse=mouse,
                size=size,
                auto_pilot=auto_pilot,
                loop=loop,
            )
        finally:
            if self._signals is not None:
                self._signals.close(self._agent.max_release_s if self._agent is not None else 0.0)
            if self._agent is not None:
                self._agent.release("prompt_input_exit" if code == 0 else "other")
        if self._opening_error is not None:
            raise self._opening_error
        signal_code = self._signals.exit_code if self._signals is not None else None
        if signal_code is not None and (code is None or self._crash is not None):
            return signal_code  # an error after a signal is its result: SIGHUP means that the terminal is gone
        if self._crash is not None:
            sys.stderr.write(crash_text(self._crash, self._resumable_session_id()))
            return 1
        if not headless and (code == 0 or signal_code is not None):
            driver.print_after_app(self._farewell())
        return code if code is not None else self.return_code or 1

    def _farewell(self) -> str:
        """Return the lines that `run` prints after the app has ended; empty if the session has no messages."""
        if not self.is_ready or not self.agent.conversation.messages:
            return ""
        conversation, totals = self.agent.conversation, self.widgets.status.run_totals
        replies = (stored.text for stored in reversed(conversation.messages) if stored.role == "assistant")
        reply = next(filter(None, replies), "") if self.context.settings.ui.keep_last_reply else ""
        seconds = self.options.clock() - self._app_start
        session_id = self._resumable_session_id()
        resume = resume_hint(session_id, self.agent.sessions.latest()) if session_id else ""
        return farewell(seconds, totals.tokens, cost_total_text(totals), reply, resume=resume)

    def _resumable_session_id(self) -> str:
        """Return the id of the session if it can be resumed, otherwise an empty string."""
        if not self.is_ready or self.context.options.no_session or not self.agent.conversation.messages:
            return ""
        return self.agent.conversation.session_id

    def on_mount(self) -> None:
        if not self.is_headless:
            self._signals = EndingSignals(self._leave_on_signal, self._save_before_kill)
        self.terminal_title.begin()
        self.app_resume_signal.subscribe(self, lambda _: self.terminal_title.write_title())
        self.widgets.transcript.add_welcome(self.welcome.lines())
        if not self.context.is_trusted:
            from qcode.agent.trust.service import RESTRICTED_NOTICE

            self.widgets.transcript.add_notice("info", RESTRICTED_NOTICE)
        self.widgets.prompt.focus()
        self.watch(self.widgets.prompt, "scroll_y", self._show_prompt_scroll)
        self.widgets.prompt.replace_text(self.options.draft)
        self.call_after_refresh(self._after_first_paint)

    async def on_event(self, event: events.Event) -> None:
        """Hold back keys and pastes until the commands that handle them are loaded.

        Letters and digits reach the prompt at once, unless an earlier key is held back: the order must not change.
        """
        if not self.is_ready and isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            is_letter_or_digit = isinstance(event, events.Key) and (event.character or "").isalnum()
            if self._events_before_ready or not is_letter_or_digit:
                self._events_before_ready.append(event)
                return
        if self.is_ready and isinstance(event, events.Key | events.Paste):
            self.view.cancel_keys.note_key(event.key if isinstance(event, events.Key) else "")
        await super().on_event(event)

    def on_unmount(self) -> None:
        if self.is_ready:
            self.view.failures.unwatch()
        self.terminal_title.end()

    @on(Prompt.Submitted)
    def _submit(self, event: Prompt.Submitted) -> None:
        from qcode.tui.commands.table import submit_text

        submit_text(self.commands, event.text, event.typed_text, event.attached)

    @on(SearchClosed)
    def _focus_after_search(self) -> None:
        (self.widgets.approval if self.widgets.approval.shown_approval is not None else self.widgets.prompt).focus()

    @on(Transcript.LinkClicked)
    def _open_link(self, event: Transcript.LinkClicked) -> None:
        self.view.open_link(event.href)

    @on(Transcript.Selected)
    def _announce_copy(self, event: Transcript.Selected) -> None:
        self.view.cancel_keys.announce_copy(event.text)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy `text` by the best available method. Textual's widgets also call this method."""
        self._copy(text)

    @on(Prompt.KindChanged)
    def _show_prompt_kind(self, event: Prompt.KindChanged) -> None:
        self.query_one("#prompt-mark", Static).set_class(event.kind == "shell", "-shell")
        self.widgets.status.change(is_shell_prompt=event.kind == "shell")

    @on(Prompt.Changed)
    def _forget_clear_press(self) -> None:
        if self.is_ready:
            self.view.cancel_keys.forget_clear_press()

    def _show_prompt_scroll(self, scroll_y: float) -> None:
        """Show an arrow as the mark before the prompt while its first rows are scrolled out of view."""
        self.query_one("#prompt-mark", Static).update("↑" if round(scroll_y) else "›")

    @on(Prompt.ScrollRequested)
    def _scroll(self, event: Prompt.ScrollRequested) -> None:
        if self.is_ready:
            self.view.scroll_transcript("end" if event.to_end else "home")

    @on(Prompt.EarlierPromptRequested)
    def _recall_queued(self) -> None:
        """Move the last queued prompt back into the editor; with an empty queue, recall the history."""
        queued_text = self.turns.unqueue_last() if self.is_ready else ""
        if queued_text:
            self.widgets.prompt.put_back(queued_text)
        else:
            self.widgets.prompt.recall_older()

    @on(ApprovalDecided)
    def _answer(self, event: ApprovalDecided) -> None:
        if not self.server_watch.answer(event.approval_id, event.decision):
            self.turns.answer(event.approval_id, event.decision)

    def on_key(self, event: events.Key) -> None:
        """Send keys to the widget that should have the focus if none has it, as after a click on the transcript."""
        # `had_focus`: the focused widget got the key and did not use it, for example Alt+Y in the prompt.
        if self.had_focus or self.focused not in (None, self.widgets.prompt) or len(self.screen_stack) > 1:
            return
        if self.is_ready and self.widgets.approval.shown_approval is not None:
            self.widgets.approval.focus()
            return
        self.widgets.prompt.focus()
        if event.is_printable and event.character:
            self.widgets.prompt.insert(event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the key of a command runs it now. Otherwise the open screen or the prompt gets the key."""
        if action != "command":
            return super().check_action(action, parameters)
        from qcode.tui.commands.table import can_run_by_key

        return len(self.screen_stack) == 1 and can_run_by_key(self.commands, str(parameters[0]))

    def action_command(self, command_id: str) -> None:
        from qcode.tui.commands.table import run_by_key

        run_by_key(self.commands, command_id)

    def _show_conversation(self, notices: tuple[Notice, ...]) -> None:
        """Show the messages of a resumed conversation, and the notices of the start."""
        transcript, conversation = self.widgets.transcript, self.agent.conversation
        if conversation.messages:
            from qcode.tui.transcript.replay import is_shown_by_resume, show_resumed

            self.view.replay()
            show_resumed(conversation, transcript)
            notices = tuple(notice for notice in notices if not is_shown_by_resume(conversation, notice.text))
        if conversation.mode == "bypass" and self.agent.trust.is_trusted:
            transcript.add_notice("warning", "Bypass mode: tools run without asking. /mode leaves it.")
        from qcode.agent.trust.service import RESTRICTED_NOTICE

        for notice in notices:
            if notice.text != RESTRICTED_NOTICE:  # shown by the first paint
                transcript.add_notice(notice.level, notice.text)

    async def _after_first_paint(self) -> None:
        if not self.screen.is_attached or self.return_value is not None:
            return  # the user quit before the first paint
        await self.mount(*self.widgets.add_panels(self.options.clock), before="#prompt-row")
        if self.options.on_first_paint is not None:
            self.options.on_first_paint()
        self._open()

    @work(group="opening")  # so that typing is handled meanwhile
    async def _open(self) -> None:
        """Open the agent in a thread: it imports many modules and runs git."""
        try:
            start = await asyncio.to_thread(self._open_in_thread)
        except QcodeError as error:
            self._opening_error = error
            self.exit(1)
            return
        if not self.widgets.prompt.is_attached:
            return  # the user quit, or the terminal went away
        self.widgets.status.change(
            model=self.agent.conversation.model,
            mode=self.agent.conversation.mode,
            is_opening=False,
            is_restricted=not self.agent.trust.is_trusted,
        )
        self._add_commands(start.commands)
        self._show_conversation(start.notices)
        self._start_work()

    def _open_in_thread(self) -> SessionStart:
        """Open the agent, which `run` releases even if the app has ended, and start its session."""
        from qcode.tui.opening import start_session

        self._agent = self.open_agent()
        return start_session(self._agent)

    def _start_work(self) -> None:
        """Start everything that needs the conversation, and replay the events that were held back."""
        agent, options = self.agent, self.options
        if agent.servers is not None:
            with self.view.failures.report_errors():
                agent.servers.start(lambda: self.call_later(self.server_watch.refresh))
                self.server_watch.refresh()
        self._run_in_background(lambda: asyncio.to_thread(agent.warm_up), "warm-up")
        self._run_in_background(self.show_sandbox, "sandbox")
        is_choosing = options.picks_session or bool(options.busy_session)
        if not is_choosing:
            self._send_first_prompt()
        if not self._events_before_ready and self.widgets.prompt.restore_draft():
            self.widgets.transcript.add_notice("info", "Restored the prompt that was not sent before qcode ended.")
        for event in self._events_before_ready:
            self.post_message(event)
        if is_choosing:
            from qcode.tui.commands.sessions import resume_at_start

            with self.view.failures.report_errors():
                resume_at_start(self.commands, options.busy_session, self._send_first_prompt)
        elif agent.keys.is_first:
            self._connect_first()

    def _send_first_prompt(self) -> None:
        """Send the prompt of the command line, if there is one."""
        prompt = self.context.options.prompt or ""
        if prompt.strip():
            self.view.send_first(prompt)

    async def show_sandbox(self) -> None:
        """Find out whether a sandbox works here, and show in the status line if there is none."""
        has_sandbox = await asyncio.to_thread(self.agent.toolbox.has_sandbox)
        self.widgets.status.change(has_no_sandbox=not has_sandbox)

    def _connect_first(self) -> None:
        """Open the connect screen of the first start, unless an early Enter has sent a prompt to the demo model."""
        if any(isinstance(event, events.Key) and event.key == "enter" for event in self._events_before_ready):
            self.agent.keys.finish("")
            return
        # The held-back keys pass through the queues of the app, the prompt and the app again. Opening the screen by
        # the same way makes it wait until the prompt has got these keys.
        self.call_later(self.widgets.prompt.call_later, self.call_later, self.view.connect, "")

    def _run_in_background(self, work: Callable[[], Coroutine[Any, Any, None]], group: str) -> None:
        """Run `work()` as a worker; show a notice if it raises an error. A closing app may never call `work`."""

        async def guarded_work() -> None:
            await self.view.failures.guard(work())

        _: Worker[None] = self.run_worker(guarded_work, group=group)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(coroutine, group="turn")

    def _spawn_shell(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._run_in_background(lambda: coroutine, "shell")

    def _offer_new_files(self) -> None:
        """Update the open completion menu, because the file index has more files. Called from a thread."""
        self._call_in_app(lambda: self.widgets.prompt.update_menu(has_new_files=True))

    def _call_in_app(self, work: Callable[[], object]) -> None:
        """Run `work` in the app's thread. May be called from any thread, even while the app ends."""
        if is_mounted(self) and not is_closing(self):
            self.call_later(work)

    def _leave_on_signal(self, number: int) -> None:
        """Leave on a signal, except on Ctrl+C while another program has the terminal."""
        if not (self._is_lent and number == signal.SIGINT):
            from qcode.agent.outcomes import signal_code

            self.exit(signal_code(number))

    def _save_before_kill(self) -> None:
        """Save the draft and release the agent. Called from another thread if the app hangs when it must end."""
        self.widgets.prompt.save_draft()
        if self._agent is not None:
            self._agent.release()

    def _apply_setting(self, setting: Setting) -> bool:
        """Apply a changed setting; return False if only the next start reads it."""
        from qcode.tui.preferences import apply_setting

        return apply_setting(
            setting,
            self.terminal_title,
            self.widgets,
            self.context.paths.state_dir,
            apply_theme=self.apply_theme,
            use_mode=self.commands.use_mode,
        )

    def _begin_leaving(self) -> None:
        self.turns.stop()
        self._leave()

    @work(group="leave", exclusive=True)
    async def _leave(self) -> None:
        """Give an interrupted turn time to store its result, then exit."""
        await self.shell.close()
        await self.turns.wait_until_idle(_MAX_EXIT_WAIT_SECONDS)
        self.exit(0)

    def _announce(self, state: TurnState) -> None:
        self.terminal_title.announce(state)
        if state == "idle":
            self._run_in_background(self.session_title.write_if_due, "title")

    def _ring(self, text: str) -> None:
        """Ring the bell if it is on or the terminal has lost the focus; without the focus, also show a notification."""
        if is_mounted(self) and not self._is_lent and (self.terminal_title.has_bell or not self.app_focus):
            self.bell()
            if not self.app_focus:
                self.write_sequence(driver.notify(text))

    def _copy(self, text: str) -> CopyResult:
        """Copy `text` to the clipboard of the app and of the system.

        Without a terminal, do not change the clipboard of the system.
        """
        set_local_clipboard(self, text)
        from qcode.tui.terminal.clipboard import Clipboard

        environ = {"TERM": "headless"} if self.is_headless else os.environ
        state_dir = self.options.history_file.parent if self.options.history_file is not None else None
        return Clipboard(environ, sys.platform, self.write_sequence, state_dir).copy(text)

    def survives(self, error: Exception) -> bool:
        """Report an error of a widget; return False if the app must end instead."""
        can_show = self.is_ready and not is_closing(self) and "debug" not in self.features
        return can_show and self.view.failures.survive(error, self.call_later)

    def report_crash(self, error: Exception) -> None:
        self.widgets.prompt.save_draft()
        if self._crash is None:
            from qcode.agent.crash import report_crash

            cause, agent = original_error(error), self._agent
            self._crash = agent.report_crash(cause) if agent is not None else report_crash(cause, self.context.env)
