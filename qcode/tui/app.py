"""The Textual app: one screen, its life, and the messages of its widgets.

What events look like is `presenter`'s, what keys mean is `commands`' and `host`'s, how a turn runs is `turns`'.
It must not touch the engine, a provider or the disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from textual import events
from textual.app import App, AutopilotCallbackType, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Static
from textual.worker import WorkerFailed

from qcode.protocol.conversation import Conversation
from qcode.tui import terminal
from qcode.tui.announcing import Announcer
from qcode.tui.approval import ApprovalPanel
from qcode.tui.attaching import Attaching
from qcode.tui.clipboard import Clipboard
from qcode.tui.commands.command import Command, find, key_names, split_command, unknown_command
from qcode.tui.commands.keymap import keymap
from qcode.tui.commands.table import COMMANDS, by_id
from qcode.tui.completion import choices_for
from qcode.tui.figures import count_text
from qcode.tui.ground import GroundReported, asking, is_askable
from qcode.tui.host import Host
from qcode.tui.naming import SessionName
from qcode.tui.outliving import outliving
from qcode.tui.prompt import Prompt, Sources
from qcode.tui.queued import Submission
from qcode.tui.replay import replay
from qcode.tui.servers import ServerWatch
from qcode.tui.setup import AppSetup
from qcode.tui.shell_lines import ShellLines
from qcode.tui.start_notices import start_notices
from qcode.tui.status import NO_SANDBOX, SANDBOX, Status
from qcode.tui.themes import AUTO, choose_theme, load_themes
from qcode.tui.todo_list import todos_in
from qcode.tui.transcript import Transcript
from qcode.tui.turns import State, Turns
from qcode.tui.welcome import welcome_lines
from qcode.tui.widgets import make_widgets

__all__ = ["AppSetup", "QcodeApp"]

_LEAVE_SECONDS = 3.0


def _bindings() -> list[BindingType]:
    """Return one binding for each command, so that each can be given keys by its id; they come before any widget's."""
    return [
        Binding(
            ",".join(command.keys) or f"unbound-{command.id}",
            f"command('{command.id}')",
            command.title,
            show=False,
            priority=True,
            id=command.id,
        )
        for command in COMMANDS
    ]


class QcodeApp(App[int], inherit_bindings=False):
    """The app for one conversation. `run()` returns the exit code."""

    CSS_PATH = "app.tcss"
    TITLE = "qcode"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = _bindings()
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (20, "-high")]  # type: ignore[misc]  # annotated oddly there

    def __init__(self, conversation: Conversation, *, setup: AppSetup) -> None:
        self.setup = setup  # before the rest: the class of the driver depends on it
        super().__init__()
        terminal.teach_alt_keys()
        terminal.read_pastes_whole()
        self.conversation = conversation
        themes, self._theme_problems = load_themes(setup.user_themes)
        for theme in themes.values():
            self.register_theme(theme)
        self.theme = choose_theme(setup.theme, themes, os.environ)
        status = Status(
            model=conversation.model,
            mode=conversation.mode,
            branch=setup.git_branch,
            effort=setup.effort,
            problem=setup.problem,
            is_restricted=setup.is_restricted(),
        )
        attaching = Attaching(
            conversation,
            setup,
            say=lambda level, text: self.host.say(level, text),
            changed=self._note_files,
        )
        sources = Sources(lambda text: choices_for(text, self.host), attaching.files, attaching.pictures)
        self.parts = make_widgets(setup, status, sources)
        self.announcer = Announcer(setup, self._write, self._ring)
        self.session_name = SessionName(conversation, self.announcer.name, self.parts.status.add_turn)
        self.turns = Turns(conversation, setup, self.parts, spawn=self._spawn, announce=self._announce)
        self.shell = ShellLines(conversation, setup, self.parts.transcript, spawn=self._spawn_shell)
        self._is_lent = False
        self._crash: str | None = None
        self.server_watch = ServerWatch(setup.servers, self.parts, self.turns)
        self.host = Host(
            self,
            conversation,
            setup,
            self.parts,
            self.turns,
            self.shell,
            attaching,
            self.server_watch,
            self.session_name,
            themes=tuple(themes),
            leave=self._begin_leaving,
            copy=self._copy,
            lend=self._lend,
        )

    def get_driver_class(self) -> type[Driver]:
        driver = outliving(super().get_driver_class(), self.exit)
        return asking(driver) if self.setup.theme == AUTO and is_askable(os.environ) else driver

    def on_ground_reported(self, event: GroundReported) -> None:
        """Follow the terminal, unless the person has chosen a theme since."""
        if not self.host.has_chosen_theme:
            self.theme = choose_theme("dark" if event.is_dark else "light", self.host.theme_names, {})

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
            sys.stderr.write(f"{self._crash}\n")
            if self.setup.is_kept and self.conversation.messages:
                sys.stderr.write(f"qcode -r {self.conversation.session_id} goes on with the session.\n")
            return 1
        return code if code is not None else self.return_code or 1

    def on_mount(self) -> None:
        keys = keymap(self.setup.keys, COMMANDS)
        self.set_keymap({command_id: ",".join(keys[command_id]) or f"unbound-{command_id}" for command_id in keys})
        self.parts.todos.key = key_names(keys["todos"][:1])
        self.turns.name_background_key(key_names(keys["background"][:1]))
        if not self.is_headless:
            terminal.on_signals(self._on_signal)
        self.host.failures.watch(self._in_app)
        self.announcer.begin()
        self.session_name.refresh()
        self._show_start()
        self.parts.prompt.focus()
        self.call_after_refresh(self._after_first_paint)

    def on_unmount(self) -> None:
        self.host.failures.unwatch()
        self.announcer.end()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.parts.help.close()
        typed = split_command(event.text)
        if event.text.startswith("!"):
            if event.text[1:].strip():
                self.shell.start(event.text[1:].strip())
                self.parts.transcript.scroll_end(animate=False)
            return
        if typed is None:
            self.turns.submit(Submission(event.text, event.shown, event.images))
            return
        name, argument = typed
        command = find(name.lower(), self.host.commands)
        if command is None:
            self.host.say("warning", unknown_command(name, self.host.commands))
            self.parts.prompt.put_back(event.shown)
        else:
            self._run(command, argument)

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
        shown = self.turns.take_back()
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
        if self.parts.approval.request is not None:
            self.parts.approval.focus()
            return
        self.parts.prompt.focus()
        if event.is_printable and event.character:
            self.parts.prompt.insert(event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let keys through to the palette while it is open, and to the prompt where a command does not apply."""
        if action != "command":
            return super().check_action(action, parameters)
        command = by_id(str(parameters[0]))
        return len(self.screen_stack) == 1 and command in self.host.commands and command.when(self.host)

    def action_command(self, command_id: str) -> None:
        self._run(by_id(command_id), "")

    def _run(self, command: Command, argument: str) -> None:
        with self.host.failures.noticing():
            command.run(self.host, argument)
            self.session_name.refresh()

    def _show_start(self) -> None:
        transcript = self.parts.transcript
        transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))
        replay(self.conversation.messages, transcript)
        self.parts.todos.become(todos_in(self.conversation.messages))
        for notice in start_notices(self.setup, self.conversation.mode, self.theme, self._theme_problems):
            transcript.add_notice(notice.level, notice.text)

    async def _after_first_paint(self) -> None:
        if not self.screen.is_attached or self.return_value is not None:
            return  # it was left before it was painted
        parts = self.parts
        later = (parts.search, parts.approval, parts.help, parts.todos, parts.queued, parts.menu, parts.history)
        await self.mount(*later, before="#prompt-row")
        if self.setup.servers is not None:
            with self.host.failures.noticing():
                self.setup.servers.start(self._servers_changed)
                self.server_watch.refresh()
        if self.setup.warm_up is not None:
            warm_up = asyncio.to_thread(self.setup.warm_up)
            self.run_worker(self.host.failures.noticed(warm_up), group="warm-up")
        if self.setup.has_sandbox is not None:
            looking = self._look_for_sandbox(self.setup.has_sandbox)
            self.run_worker(self.host.failures.noticed(looking), group="sandbox")
        if self.setup.connect is not None and self.setup.connect.is_first:
            self.host.connect("")
        if self.setup.first_prompt.strip():
            self.parts.prompt.sent.add(self.setup.first_prompt)
            self.turns.submit(Submission(self.setup.first_prompt, self.setup.first_prompt))

    async def _look_for_sandbox(self, has_sandbox: Callable[[], bool]) -> None:
        found = await asyncio.to_thread(has_sandbox)
        self.parts.status.change(sandbox=SANDBOX if found else NO_SANDBOX)

    def _servers_changed(self) -> None:
        self.call_later(self.server_watch.refresh)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(coroutine, group="turn")

    def _spawn_shell(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(self.host.failures.noticed(coroutine), group="shell")

    def _note_files(self) -> None:
        """More files are known; called in a thread."""
        self._in_app(lambda: self.parts.prompt.offer(is_news=True))

    def _in_app(self, work: Callable[[], object]) -> None:
        """Have `work` done in the app's thread; asked for from any thread, maybe while the app ends."""
        if self._is_mounted and not self._closing:
            self.call_later(work)

    @contextmanager
    def _lend(self) -> Iterator[None]:
        """Give the terminal away; nothing is written to it until it is back."""
        failure: BaseException | None = None
        with self.batch_update(), self.suspend():
            self._is_lent = True
            try:
                yield
            except BaseException as error:  # noqa: BLE001  # raised again below
                # Textual 8.2 takes the terminal back only where nothing is raised in here.
                failure = error
            finally:
                self._is_lent = False
        if failure is not None:
            raise failure

    def _on_signal(self, number: int) -> None:
        """Leave, unless it is the Ctrl+C of a program that has the terminal."""
        if not (self._is_lent and number == signal.SIGINT):
            self.exit(128 + number)

    def _begin_leaving(self) -> None:
        self.turns.stop()
        self.run_worker(self._leave(), group="leave", exclusive=True)

    async def _leave(self) -> None:
        """Give an interrupted turn the time to store what it has, then exit."""
        await self.shell.close()
        await self.turns.wait_until_idle(_LEAVE_SECONDS)
        self.exit(0)

    def _announce(self, state: State) -> None:
        self.announcer.announce(state)
        if state == "idle":
            self.run_worker(self.host.failures.noticed(self.session_name.make()), group="title")

    def _ring(self, why: str) -> None:
        """Call the person, with a notification where nobody looks."""
        if self._is_mounted and not self._is_lent:
            self.bell()
            if not self.app_focus:
                self._write(terminal.notify(why))

    def _write(self, sequence: str) -> None:
        """Write a sequence that Textual has no call for to the terminal, where there is one."""
        if sequence and self._driver is not None and not self.is_headless and not self._is_lent:
            self._driver.write(sequence)

    def _copy(self, text: str) -> str:
        """Copy `text` for pasting here and elsewhere; return how. Without a terminal no clipboard is touched."""
        self._clipboard = text
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
        if self._crash is None:
            if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
                error = error.error
            self._crash = f"qcode stopped: {self.setup.report(error)}"
        self.panic()
