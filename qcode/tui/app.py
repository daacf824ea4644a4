"""The Textual app: one screen, its life, its theme and the messages of its widgets.

`presenter` turns events into what is shown, `turns` runs a turn, `view` is what commands and keys do to the screen.
This module must not touch the engine, a provider or the disk. Its top-level imports are loaded before the first
paint; everything else is imported in functions.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on, work
from textual.app import App, AutopilotCallbackType, ComposeResult
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Static

from qcode.text.numbers import count_text
from qcode.tui.failures import itself, last_words
from qcode.tui.layout import Widgets
from qcode.tui.messages import ApprovalDecided, SearchClosed
from qcode.tui.prompt.prompt import Prompt, Sources
from qcode.tui.setup import AppSetup, Opening
from qcode.tui.status import Status
from qcode.tui.terminal import driver
from qcode.tui.terminal.driver import Announcer, TerminalApp, outliving
from qcode.tui.terminal.input import GroundReported, asking, is_askable
from qcode.tui.terminal.textual_internals import (
    is_closing,
    is_mounted,
    refresh_ansi_colors,
    set_bindings,
    set_local_clipboard,
)
from qcode.tui.theme import AUTO, choose_theme, first_theme, load_themes
from qcode.tui.transcript.transcript import Transcript
from qcode.tui.welcome import welcome_lines

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine

    from qcode.agent.conversation import Conversation
    from qcode.agent.keys.connect import KeysService
    from qcode.agent.settings import Setting
    from qcode.tui.turns import State

__all__ = ["AppSetup", "QcodeApp"]


class DressedApp(TerminalApp, inherit_bindings=False):
    """`theme_names` and `theme_problems` are empty until `add_themes` was called."""

    def __init__(self, setup: AppSetup) -> None:
        self.setup = setup  # before the rest: the class of the driver depends on it
        super().__init__()
        self.theme_names: tuple[str, ...] = ()
        self.theme_problems: tuple[str, ...] = ()
        self._dress()

    @property
    def has_chosen_theme(self) -> bool:
        """Whether the person has chosen a theme since the start."""
        return False

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return asking(driver) if self.setup.theme == AUTO and is_askable(os.environ) else driver

    @on(GroundReported)
    def _follow_ground(self, event: GroundReported) -> None:
        """Follow the terminal, unless the person has chosen a theme."""
        if not self.has_chosen_theme:
            self.add_themes()
            self.theme = choose_theme("dark" if event.is_dark else "light", self.theme_names, {})

    def _dress(self) -> None:
        """Put on the theme to start with; the others are read after the first paint where they do not matter for it."""
        setup = self.setup
        first = first_theme(setup.theme, setup.user_themes, os.environ)
        if first is None:
            self.add_themes()
            first = self.available_themes[choose_theme(setup.theme, self.theme_names, os.environ)]
        else:
            self.register_theme(first)
        # Setting it the usual way would have the style sheet parsed a second time before anything is shown.
        self.set_reactive(App.theme, first.name)
        self.set_class(first.dark, "-dark-mode", update=False)
        self.set_class(not first.dark, "-light-mode", update=False)
        refresh_ansi_colors(self)
        self.stylesheet.set_variables(self.get_css_variables())

    def wear(self, name: str) -> None:
        """Put on the theme a setting names."""
        self.theme = choose_theme(name, self.theme_names, os.environ)

    def add_themes(self) -> None:
        """Read all themes, once."""
        if self.theme_names:
            return
        themes, self.theme_problems = load_themes(self.setup.user_themes)
        for theme in themes.values():
            self.register_theme(theme)
        self.theme_names = tuple(themes)


_LEAVE_SECONDS = 3.0


class QcodeApp(DressedApp, inherit_bindings=False):
    """The app for one conversation, or one that is still to be made. `run()` returns the exit code.

    `is_at_work` is False until what the keys and commands act through is there, right after the first paint.
    """

    CSS_PATH = "app.tcss"
    TITLE = "qcode"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (20, "-high")]  # type: ignore[misc]  # annotated oddly there

    conversation: Conversation

    def __init__(self, conversation: Conversation | Opening, *, setup: AppSetup) -> None:
        super().__init__(setup)
        driver.teach_alt_keys()
        driver.read_pastes_whole()
        self.opening = conversation if isinstance(conversation, Opening) else None
        if not isinstance(conversation, Opening):
            self.conversation = conversation
        status = Status(
            model=conversation.model,
            mode=conversation.mode,
            branch=setup.git_branch,
            problem=setup.problem,
            is_restricted=setup.is_restricted(),
        )
        self.parts = Widgets(setup, status)
        self.announcer = Announcer(setup, self._write, self._ring)
        self._crash: str | None = None
        self.is_at_work = False
        self._early: list[events.Event] = []

    def _begin_work(self) -> None:
        """Make what acts on the widgets. Loading that takes as long as the first paint, so it comes after it."""
        from qcode.tui.commands.help import bindings
        from qcode.tui.commands.sessions import SessionName
        from qcode.tui.commands.table import COMMANDS
        from qcode.tui.panels.servers import ServerWatch
        from qcode.tui.prompt.attachments import Attaching
        from qcode.tui.shell_lines import ShellLines
        from qcode.tui.turns import Turns
        from qcode.tui.view import Host, show_start, start_problems

        self.add_themes()
        conversation, setup, parts = self.conversation, self.setup, self.parts
        attaching = Attaching(
            conversation,
            setup,
            say=lambda level, text: self.host.say(level, text),
            changed=self._note_files,
        )
        self.session_name = SessionName(conversation, self.announcer.name, parts.status.add_turn)
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
            self.session_name,
            themes=self.theme_names,
            leave=self._begin_leaving,
            copy=self._copy,
            lend=self._lend,
            apply=self._apply,
        )
        set_bindings(self, bindings(setup.keys, COMMANDS))
        parts.prompt.use(Sources(self.host.choices, attaching.files, attaching.pictures))
        show_start(setup, conversation, parts, self.turns)
        self.session_name.refresh()
        self.host.failures.watch(self._in_app)
        self.is_at_work = True
        for problem in (*self.theme_problems, *start_problems(setup, self.theme)):
            self.host.say("warning", problem)

    def get_driver_class(self) -> type[Driver]:
        return outliving(super().get_driver_class(), self.exit)

    @property
    def has_chosen_theme(self) -> bool:
        return self.is_at_work and self.host.has_chosen_theme

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
        if self._crash is not None:
            is_kept = self.is_at_work and self.setup.is_kept and bool(self.conversation.messages)
            sys.stderr.write(last_words(self._crash, self.conversation.session_id if is_kept else ""))
            return 1
        return code if code is not None else self.return_code or 1

    def on_mount(self) -> None:
        if not self.is_headless:
            driver.on_signals(self._leave_at)
        self.announcer.begin()
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
        if self.is_at_work:
            self.host.failures.unwatch()
        self.announcer.end()

    @on(Prompt.Submitted)
    def _take_prompt(self, event: Prompt.Submitted) -> None:
        self.host.take(event.text, event.shown, event.images)

    @on(SearchClosed)
    def _focus_after_search(self) -> None:
        (self.parts.approval if self.parts.approval.request is not None else self.parts.prompt).focus()

    @on(Transcript.LinkClicked)
    def _open_link(self, event: Transcript.LinkClicked) -> None:
        self.host.open_link(event.href)

    @on(Transcript.Selected)
    def _hint_at_copying(self, event: Transcript.Selected) -> None:
        self.host.hint(f"Ctrl+C copies {count_text(len(event.text), 'character')}")

    def copy_to_clipboard(self, text: str) -> None:
        """Copy `text` the best way there is; the widgets' own copying comes here, too."""
        self._copy(text)

    @on(Prompt.KindChanged)
    def _show_prompt_kind(self, event: Prompt.KindChanged) -> None:
        """Show what Enter will do: `!` runs a line in the shell."""
        mark = self.query_one("#prompt-mark", Static)
        mark.update("!" if event.kind == "shell" else "›")
        mark.set_class(event.kind == "shell", "-shell")

    @on(Prompt.TakeBack)
    def _take_back(self) -> None:
        """Put what was queued last back into the prompt; with nothing queued Up walks the history."""
        shown = self.turns.take_back() if self.is_at_work else ""
        if shown:
            self.parts.prompt.replace_text(shown)
        else:
            self.parts.prompt.walk_older()

    @on(ApprovalDecided)
    def _answer(self, event: ApprovalDecided) -> None:
        if not self.server_watch.answer(event.approval_id, event.decision):
            self.turns.answer(event.approval_id, event.decision)

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
            from qcode.tui.presenter import replay

            replay(self.conversation.messages, transcript)
        if self.conversation.mode == "bypass":
            transcript.add_notice("warning", "Mode bypass: tools run without asking. Shift+Tab leaves it.")
        for notice in self.setup.notices:
            transcript.add_notice(notice.level, notice.text)

    async def _after_first_paint(self) -> None:
        if not self.screen.is_attached or self.return_value is not None:
            return  # it was left before it was painted
        await self.mount(*self.parts.add_panels(self.setup.clock), before="#prompt-row")
        if self.setup.painted is not None:
            self.setup.painted()
        if self.opening is None:
            self._begin_work()
            self._go_on()
        else:
            # Beside the app's messages: what is typed meanwhile is shown at once.
            self._open(self.opening)

    @work(group="opening")
    async def _open(self, opening: Opening) -> None:
        """Make the conversation, in a thread: it loads much, and asks git."""
        opened = await asyncio.to_thread(opening.open)
        if opened is None:
            self.exit(1)
            return
        self.conversation, self.setup = opened
        self.parts.status.change(
            model=self.conversation.model, mode=self.conversation.mode, is_restricted=self.setup.is_restricted()
        )
        self._begin_work()
        self._show_conversation()
        self._go_on()

    def _go_on(self) -> None:
        """Start what was waiting for the conversation."""
        from qcode.tui.view import look_for_sandbox

        if self.setup.servers is not None:
            with self.host.failures.noticing():
                self.setup.servers.start(self._servers_changed)
                self.server_watch.refresh()
        if self.setup.warm_up is not None:
            self._run_aside(asyncio.to_thread(self.setup.warm_up), "warm-up")
        self._run_aside(look_for_sandbox(self.setup, self.parts.status), "sandbox")
        if self.setup.first_prompt.strip():
            self.host.send_first(self.setup.first_prompt)
        for event in self._early:
            self.post_message(event)
        if self.setup.connect is not None and self.setup.connect.is_first:
            self._connect_first(self.setup.connect)

    def _connect_first(self, connecting: KeysService) -> None:
        """Open the connect screen once the prompt has what was typed; who sent something goes on with the demo."""
        if any(isinstance(event, events.Key) and event.key == "enter" for event in self._early):
            connecting.finish("")
            return
        self.call_later(self.parts.prompt.call_later, self.call_later, self.host.connect, "")

    def _run_aside(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run `work` beside the app's messages; an error in it ends in a notice."""
        self.run_worker(self.host.failures.noticed(work), group=group)

    def _servers_changed(self) -> None:
        self.call_later(self.server_watch.refresh)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(coroutine, group="turn")

    def _spawn_shell(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._run_aside(coroutine, "shell")

    def _note_files(self) -> None:
        """More files are known; called in a thread."""
        self._in_app(lambda: self.parts.prompt.offer(is_news=True))

    def _in_app(self, work: Callable[[], object]) -> None:
        """Have `work` done in the app's thread; asked for from any thread, maybe while the app ends."""
        if is_mounted(self) and not is_closing(self):
            self.call_later(work)

    def _leave_at(self, number: int) -> None:
        """Leave, unless it is the Ctrl+C of a program that has the terminal."""
        if not (self._is_lent and number == signal.SIGINT):
            self.exit(128 + number)

    def _apply(self, setting: Setting) -> bool:
        """Let a changed setting hold here; return whether it does now."""
        from qcode.tui.view import apply_setting

        transcript, use_mode = self.parts.transcript, self.host.use_mode
        self.setup, is_now = apply_setting(
            setting, self.setup, transcript, show_theme=self.wear, use_mode=use_mode, write=self._write
        )
        return is_now

    def _begin_leaving(self) -> None:
        self.turns.stop()
        self._leave()

    @work(group="leave", exclusive=True)
    async def _leave(self) -> None:
        """Give an interrupted turn the time to store what it has, then exit."""
        await self.shell.close()
        await self.turns.wait_until_idle(_LEAVE_SECONDS)
        self.exit(0)

    def _announce(self, state: State) -> None:
        self.announcer.announce(state)
        if state == "idle":
            self._run_aside(self.session_name.make(), "title")

    def _ring(self, why: str) -> None:
        """Call the person, with a notification where nobody looks."""
        if is_mounted(self) and not self._is_lent:
            self.bell()
            if not self.app_focus:
                self._write(driver.notify(why))

    def _copy(self, text: str) -> str:
        """Copy `text` for pasting here and elsewhere; return how. Without a terminal no clipboard is touched."""
        set_local_clipboard(self, text)
        from qcode.tui.terminal.clipboard import Clipboard

        environ = {"TERM": "headless"} if self.is_headless else os.environ
        folder = self.setup.history_file.parent if self.setup.history_file is not None else None
        return Clipboard(environ, sys.platform, self._write, folder).copy(text)

    def report_crash(self, error: Exception) -> None:
        if self._crash is None:
            self._crash = self.setup.report(itself(error))
