"""The Textual app: one screen, its life, and the messages of its widgets.

What events look like is `presenter`'s, what keys mean is `commands`' and `host`'s, how a turn runs is `turns`'.
It must not touch the engine, a provider or the disk.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Coroutine
from typing import Any, ClassVar

from rich.text import Text as RichText
from textual import events
from textual.app import App, AutopilotCallbackType, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.driver import Driver
from textual.widgets import Static

from qcode.protocol.conversation import Conversation
from qcode.tui import terminal
from qcode.tui.approval import ApprovalPanel
from qcode.tui.commands.command import find, split_command, unknown_command
from qcode.tui.commands.table import COMMANDS, by_id
from qcode.tui.completion import choices_for
from qcode.tui.host import Host
from qcode.tui.outliving import outliving
from qcode.tui.prompt import Prompt
from qcode.tui.replay import replay
from qcode.tui.setup import AppSetup
from qcode.tui.status import Status
from qcode.tui.text import one_line
from qcode.tui.themes import load_themes
from qcode.tui.turns import State, Turns
from qcode.tui.welcome import welcome_lines
from qcode.tui.widgets import make_widgets

__all__ = ["AppSetup", "QcodeApp"]

_LEAVE_SECONDS = 3.0
_TITLE_MARKS: dict[State, str] = {"idle": "", "working": "… ", "asking": "? "}


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
        super().__init__()
        terminal.teach_alt_enter()
        self.conversation = conversation
        self.setup = setup
        themes, self._theme_problems = load_themes(setup.user_themes)
        for theme in themes.values():
            self.register_theme(theme)
        self.theme = setup.theme if setup.theme in themes else next(iter(themes))
        status = Status(model=conversation.model, mode=conversation.mode, branch=setup.git_branch)
        self.parts = make_widgets(setup, status, lambda text: choices_for(text, self.host))
        self.turns = Turns(conversation, setup, self.parts, spawn=self._spawn, announce=self._announce)
        self.host = Host(
            self,
            conversation,
            setup,
            self.parts,
            self.turns,
            themes=tuple(themes),
            leave=self._begin_leaving,
            write=self._write,
        )

    def get_driver_class(self) -> type[Driver]:
        return outliving(super().get_driver_class(), self.exit)

    def compose(self) -> ComposeResult:
        parts = self.parts
        yield parts.transcript
        yield parts.approval
        yield parts.help
        yield parts.queued
        yield parts.menu
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
        self.set_keymap({command_id: keys for command_id, keys in self.setup.keys.items() if keys})
        if not self.is_headless:
            terminal.on_signals(lambda number: self.exit(128 + number))
        if self.setup.has_title:
            self._write(terminal.SAVE_TITLE)
        self._announce("idle")
        self._show_start()
        self.parts.prompt.focus()
        self.call_after_refresh(self._after_first_paint)

    def on_unmount(self) -> None:
        if self.setup.has_title:
            self._write(terminal.RESTORE_TITLE)

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.parts.help.close()
        typed = split_command(event.text)
        if typed is None:
            self.turns.submit(event.text, event.shown)
            return
        name, argument = typed
        command = find(name.lower(), self.host.commands)
        if command is None:
            self.host.say("warning", unknown_command(name, self.host.commands))
            self.parts.prompt.put_back(event.shown)
        else:
            command.run(self.host, argument)

    def on_approval_panel_answered(self, event: ApprovalPanel.Answered) -> None:
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
        by_id(command_id).run(self.host, "")

    def _show_start(self) -> None:
        transcript = self.parts.transcript
        transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))
        replay(self.conversation.messages, transcript)
        if self.conversation.mode == "bypass":
            transcript.add_notice("warning", "Mode bypass: tools run without asking. Shift+Tab leaves it.")
        for notice in self.setup.notices:
            transcript.add_notice(notice.level, notice.text)
        for problem in self._theme_problems:
            transcript.add_notice("warning", problem)
        if self.setup.theme != self.theme:
            transcript.add_notice(
                "warning", f"There is no theme {self.setup.theme!r}; {self.theme} is used. /theme lists them."
            )
        known = {command.id for command in COMMANDS}
        for command_id in sorted(set(self.setup.keys) - known):
            transcript.add_notice(
                "warning", f"Keys are set for {command_id!r}, which is no command id; they do nothing."
            )

    def _after_first_paint(self) -> None:
        if self.setup.warm_up is not None:
            self.run_worker(self.setup.warm_up, thread=True, exit_on_error=False, group="warm-up")
        if self.setup.connect is not None and self.setup.connect.is_first:
            self.host.connect("")
        if self.setup.first_prompt.strip():
            self.parts.prompt.sent.add(self.setup.first_prompt)
            self.turns.submit(self.setup.first_prompt, self.setup.first_prompt)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.run_worker(coroutine, group="turn")

    def _begin_leaving(self) -> None:
        self.turns.stop()
        self.run_worker(self._leave(), group="leave", exclusive=True)

    async def _leave(self) -> None:
        """Give an interrupted turn the time to store what it has, then exit."""
        await self.turns.wait_until_idle(_LEAVE_SECONDS)
        self.exit(0)

    def _announce(self, state: State) -> None:
        """Show the state in the terminal's title, and ring where something waits for the person."""
        if self.setup.has_title:
            folder = one_line(self.setup.cwd).rstrip("/").rpartition("/")[2]
            self._write(terminal.set_title(f"{_TITLE_MARKS[state]}qcode{f' · {folder}' if folder else ''}"))
        if self.setup.has_bell and state != "working" and self._is_mounted:
            self.bell()

    def _write(self, sequence: str) -> None:
        """Write a sequence that Textual has no call for to the terminal, where there is one."""
        if sequence and self._driver is not None and not self.is_headless:
            self._driver.write(sequence)

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
