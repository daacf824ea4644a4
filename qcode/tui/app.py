"""The Textual app: one screen, its life, and the messages of its widgets.

What events look like is `presenter`'s, what keys mean is `commands`' and `host`'s, how a turn runs is `turns`'.
It must not touch the engine, a provider or the disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text as RichText
from textual import events
from textual.app import App, AutopilotCallbackType, ComposeResult
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Static

from qcode.tui import terminal
from qcode.tui.figures import count_text
from qcode.tui.outliving import outliving
from qcode.tui.prompt import Prompt, Sources
from qcode.tui.setup import AppSetup, Opening
from qcode.tui.status import Status
from qcode.tui.text import one_line
from qcode.tui.themes import AUTO, choose_theme, first_theme, load_themes
from qcode.tui.welcome import welcome_lines
from qcode.tui.widgets import Widgets

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine, Iterator

    from qcode.protocol.conversation import Conversation
    from qcode.tui.approval import ApprovalPanel
    from qcode.tui.configuring import Setting
    from qcode.tui.transcript import Transcript
    from qcode.tui.turns import State

__all__ = ["AppSetup", "QcodeApp"]

_LEAVE_SECONDS = 3.0
_TITLE_MARKS: dict[State, str] = {"idle": "", "working": "… ", "asking": "? "}

_CALLS: dict[State, str] = {"idle": "qcode: the turn has ended", "asking": "qcode: a question waits for you"}


class QcodeApp(App[int], inherit_bindings=False):
    """The app for one conversation, or one that is still to be made. `run()` returns the exit code.

    `is_at_work` is False until what the keys and commands act through is there, right after the first paint.
    """

    CSS_PATH = "app.tcss"
    TITLE = "qcode"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (20, "-high")]  # type: ignore[misc]  # annotated oddly there

    conversation: Conversation

    def __init__(self, conversation: Conversation | Opening, *, setup: AppSetup) -> None:
        super().__init__()
        terminal.teach_alt_keys()
        terminal.read_pastes_whole()
        self.opening = conversation if isinstance(conversation, Opening) else None
        if not isinstance(conversation, Opening):
            self.conversation = conversation
        self.setup = setup
        status = Status(model=conversation.model, mode=conversation.mode, branch=setup.git_branch)
        self.parts = Widgets(setup, status)
        self._is_lent = False
        self.is_at_work = False
        self._early: list[events.Event] = []
        self._themes: tuple[str, ...] = ()
        self._theme_problems: tuple[str, ...] = ()
        self._dress()

    def _dress(self) -> None:
        """Put on the theme to start with; the others are read after the first paint where they do not matter for it."""
        setup = self.setup
        first = first_theme(setup.theme, setup.user_themes, os.environ)
        if first is None:
            self._add_themes()
            first = self.available_themes[choose_theme(setup.theme, self._themes, os.environ)]
        else:
            self.register_theme(first)
        # Setting it the usual way would have the style sheet parsed a second time before anything is shown.
        self.set_reactive(App.theme, first.name)
        self.set_class(first.dark, "-dark-mode", update=False)
        self.set_class(not first.dark, "-light-mode", update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def _add_themes(self) -> None:
        themes, self._theme_problems = load_themes(self.setup.user_themes)
        for theme in themes.values():
            self.register_theme(theme)
        self._themes = tuple(themes)

    def _begin_work(self) -> None:
        """Make what acts on the widgets. Loading that takes as long as the first paint, so it comes after it."""
        from qcode.tui.attaching import Attaching
        from qcode.tui.commands.keymap import bindings, problems
        from qcode.tui.commands.table import COMMANDS
        from qcode.tui.host import Host
        from qcode.tui.servers import ServerWatch
        from qcode.tui.shell_lines import ShellLines
        from qcode.tui.turns import Turns

        if not self._themes:
            self._add_themes()
        conversation, setup, parts = self.conversation, self.setup, self.parts
        attaching = Attaching(
            conversation,
            setup,
            say=lambda level, text: self.host.say(level, text),
            changed=self._note_files,
        )
        self.turns = Turns(conversation, setup, parts, spawn=self._spawn, announce=self._announce)
        self.shell = ShellLines(conversation, setup, parts.transcript, spawn=self._spawn_shell)
        self.server_watch = ServerWatch(setup.servers, parts, self.turns)
        self.host = Host(
            self,
            conversation,
            setup,
            parts,
            self.turns,
            self.shell,
            attaching,
            self.server_watch,
            themes=self._themes,
            leave=self._begin_leaving,
            copy=self._copy,
            lend=self._lend,
            apply=self._apply,
        )
        self._bindings = bindings(setup.keys, COMMANDS)
        parts.prompt.use(Sources(self.host.choices, attaching.files, attaching.pictures))
        self.is_at_work = True
        for problem in self._theme_problems:
            self.host.say("warning", problem)
        if setup.theme not in (self.theme, AUTO):
            self.host.say("warning", f"There is no theme {setup.theme!r}; {self.theme} is used. /theme lists them.")
        for command_id, problem in problems(setup.keys, COMMANDS):
            self.host.say("warning", f"Keys of {command_id}: {problem}.")

    def get_driver_class(self) -> type[Driver]:
        return outliving(super().get_driver_class(), self.exit)

    def compose(self) -> ComposeResult:
        """Yield what is seen at once; what opens later is mounted after the first paint."""
        parts = self.parts
        yield parts.transcript
        with Horizontal(id="prompt-row"):
            yield Static("›", id="prompt-mark", markup=False)
            yield parts.prompt
        yield parts.status

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
        """Run the app to its end and return the exit code: 0, 1 after a crash, 128 + n after signal n."""
        code = super().run(
            headless=headless,
            inline=inline,
            inline_no_clear=inline_no_clear,
            mouse=mouse,
            size=size,
            auto_pilot=auto_pilot,
            loop=loop,
        )
        return code if code is not None else self.return_code or 1

    def on_mount(self) -> None:
        if not self.is_headless:
            terminal.on_signals(self._on_signal)
        if self.setup.has_title:
            self._write(terminal.SAVE_TITLE)
        self._announce("idle")
        known = self.opening or self.conversation
        self.parts.transcript.add_welcome(welcome_lines(self.setup, known.model))
        if self.opening is None:
            self._show_conversation()
        self.parts.prompt.focus()
        self.call_after_refresh(self._after_first_paint)

    async def on_event(self, event: events.Event) -> None:
        """Keep what only the commands know what to do with, and what comes after it, until they are there."""
        if not self.is_at_work and isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            is_writing = isinstance(event, events.Key) and (event.character or "").isalnum()
            if self._early or not is_writing:
                self._early.append(event)
                return
        await super().on_event(event)

    def on_unmount(self) -> None:
        if self.setup.has_title:
            self._write(terminal.RESTORE_TITLE)

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.host.take(event.text, event.shown, event.images)

    def on_search_bar_closed(self) -> None:
        (self.parts.approval if self.parts.approval.request is not None else self.parts.prompt).focus()

    def on_marking_pane_link_clicked(self, event: Transcript.LinkClicked) -> None:
        self.host.open_link(event.href)

    def on_marking_pane_selected(self, event: Transcript.Selected) -> None:
        self.host.hint(f"Ctrl+C copies {count_text(len(event.text), 'character')}")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy `text` the best way there is; the widgets' own copying comes here, too."""
        self._copy(text)

    def on_prompt_kind_changed(self, event: Prompt.KindChanged) -> None:
        """Show what Enter will do: `!` runs a line in the shell."""
        mark = self.query_one("#prompt-mark", Static)
        mark.update("!" if event.kind == "shell" else "›")
        mark.set_class(event.kind == "shell", "-shell")

    def on_prompt_take_back(self) -> None:
        """Put what was queued last back into the prompt; with nothing queued Up walks the history."""
        shown = self.turns.take_back() if self.is_at_work else ""
        if shown:
            self.parts.prompt.replace_text(shown)
        else:
            self.parts.prompt.walk_older()

    def on_approval_panel_answered(self, event: ApprovalPanel.Answered) -> None:
        if not self.server_watch.answer(event.call_id, event.answer):
            self.turns.answer(event.call_id, event.answer)

    def on_key(self, event: events.Key) -> None:
        """Send what is typed with nothing focused (after a click, say) to where a person expects it."""
        if self.focused is not None or len(self.screen_stack) > 1:
            return
        if self.is_at_work and self.parts.approval.request is not None:
            self.parts.approval.focus()
            return
        self.parts.prompt.focus()
        if event.is_printable and event.character:
            self.parts.prompt.insert(event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys through to the palette while it is open, and to the prompt where a command does not apply."""
        if action != "command":
            return super().check_action(action, parameters)
        return len(self.screen_stack) == 1 and self.host.is_possible(str(parameters[0]))

    def action_command(self, command_id: str) -> None:
        self.host.run(command_id)

    def _show_conversation(self) -> None:
        """Show what is there already of the conversation, and what has to be said about it."""
        transcript = self.parts.transcript
        if self.conversation.messages:
            from qcode.tui.replay import replay

            replay(self.conversation.messages, transcript)
        if self.conversation.mode == "bypass":
            transcript.add_notice("warning", "Mode bypass: tools run without asking. Shift+Tab leaves it.")
        for notice in self.setup.notices:
            transcript.add_notice(notice.level, notice.text)

    async def _after_first_paint(self) -> None:
        await self.mount(*self.parts.add_panels(self.setup.clock), before="#prompt-row")
        if self.setup.painted is not None:
            self.setup.painted()
        if self.opening is None:
            self._begin_work()
            self._go_on()
        else:
            # Beside the app's messages: what is typed meanwhile is shown at once.
            self.run_worker(self._open(self.opening), group="opening")

    async def _open(self, opening: Opening) -> None:
        """Make the conversation, in a thread: it loads much, and asks git."""
        opened = await asyncio.to_thread(opening.open)
        if opened is None:
            self.exit(1)
            return
        self.conversation, self.setup = opened
        self.parts.status.change(model=self.conversation.model, mode=self.conversation.mode)
        self._begin_work()
        self._show_conversation()
        self._go_on()

    def _go_on(self) -> None:
        """Start what was waiting for the conversation."""
        if self.setup.servers is not None:
            self.setup.servers.start(self._servers_changed)
            self.server_watch.refresh()
        if self.setup.warm_up is not None:
            self.run_worker(self.setup.warm_up, thread=True, exit_on_error=False, group="warm-up")
        if self.setup.connect is not None and self.setup.connect.is_first:
            self.host.connect("")
        if self.setup.first_prompt.strip():
            self.host.send_first(self.setup.first_prompt)
        for event in self._early:
            self.post_message(event)

    def _servers_changed(self) -> None:
        self.call_later(self.server_watch.refresh)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(coroutine, group="turn")

    def _spawn_shell(self, coroutine: Coroutine[Any, Any, None]) -> None:
        from qcode.tui.turns import noticed

        self.run_worker(noticed(coroutine, self.host.say), group="shell")

    def _note_files(self) -> None:
        """More files are known; called in a thread, maybe while the app ends."""
        if self._is_mounted and not self._closing:
            self.call_later(self.parts.prompt.offer, is_news=True)

    @contextmanager
    def _lend(self) -> Iterator[None]:
        """Give the terminal away; nothing is written to it until it is back."""
        with self.batch_update(), self.suspend():
            self._is_lent = True
            try:
                yield
            finally:
                self._is_lent = False

    def _on_signal(self, number: int) -> None:
        """Leave, unless it is the Ctrl+C of a program that has the terminal."""
        if not (self._is_lent and number == signal.SIGINT):
            self.exit(128 + number)

    def _apply(self, setting: Setting) -> bool:
        """Let a changed setting hold here; return whether it does now."""
        from qcode.tui.applying import apply_setting

        def show_theme(name: str) -> None:
            self.theme = choose_theme(name, self.host.theme_names, os.environ)

        transcript, use_mode = self.parts.transcript, self.host.use_mode
        self.setup, is_now = apply_setting(
            setting, self.setup, transcript, show_theme=show_theme, use_mode=use_mode, write=self._write
        )
        return is_now

    def _begin_leaving(self) -> None:
        self.turns.stop()
        self.run_worker(self._leave(), group="leave", exclusive=True)

    async def _leave(self) -> None:
        """Give an interrupted turn the time to store what it has, then exit."""
        await self.shell.close()
        await self.turns.wait_until_idle(_LEAVE_SECONDS)
        self.exit(0)

    def _announce(self, state: State) -> None:
        """Show the state in the terminal's title, and ring where something waits for the person."""
        if self.setup.has_title:
            folder = one_line(self.setup.cwd).rstrip("/").rpartition("/")[2]
            self._write(terminal.set_title(f"{_TITLE_MARKS[state]}qcode{f' · {folder}' if folder else ''}"))
        if self.setup.has_bell and state != "working" and self._is_mounted and not self._is_lent:
            self.bell()
            if not self.app_focus:
                self._write(terminal.notify(_CALLS[state]))

    def _write(self, sequence: str) -> None:
        """Write a sequence that Textual has no call for to the terminal, where there is one."""
        if sequence and self._driver is not None and not self.is_headless and not self._is_lent:
            self._driver.write(sequence)

    def _copy(self, text: str) -> str:
        """Copy `text` for pasting here and elsewhere; return how. Without a terminal no clipboard is touched."""
        self._clipboard = text
        from qcode.tui.clipboard import Clipboard

        environ = {"TERM": "headless"} if self.is_headless else os.environ
        folder = self.setup.history_file.parent if self.setup.history_file is not None else None
        return Clipboard(environ, sys.platform, self._write, folder).copy(text)

    def _handle_exception(self, error: Exception) -> None:
        """End the app with one line instead of a traceback with local values, which may hold keys."""
        if "debug" in self.features:
            super()._handle_exception(error)
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        said = one_line(str(error), 300)
        self.panic(RichText(f"qcode stopped: {type(error).__name__}{f': {said}' if said else ''}"))
