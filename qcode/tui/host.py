"""What commands do to the app: the one `CommandHost`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.screen import Screen

from qcode.protocol.conversation import ApprovalMode, Conversation, TurnOptions
from qcode.protocol.events import Level
from qcode.protocol.messages import Image
from qcode.protocol.model import Effort
from qcode.tools.todo import Item
from qcode.tui import terminal
from qcode.tui.attaching import Attaching
from qcode.tui.commands.command import Command, Result, Scroll, find, nearest, split_command, unknown_command
from qcode.tui.commands.table import by_id, enabled
from qcode.tui.completion import choices_for
from qcode.tui.configuring import Setting
from qcode.tui.escapes import Escapes
from qcode.tui.failures import Failures
from qcode.tui.figures import count_text
from qcode.tui.model_use import ModelUse, shown_effort
from qcode.tui.naming import SessionName
from qcode.tui.outside import Outside
from qcode.tui.palette import open_palette
from qcode.tui.queued import Submission
from qcode.tui.replay import replay
from qcode.tui.servers import ServerWatch
from qcode.tui.setup import AppSetup
from qcode.tui.shell_lines import ShellLines
from qcode.tui.slash_menu import Choice
from qcode.tui.text import shorten
from qcode.tui.themes import theme_note
from qcode.tui.todo_list import todos_in
from qcode.tui.turns import Turns
from qcode.tui.welcome import welcome_lines
from qcode.tui.widgets import Widgets

if TYPE_CHECKING:
    from qcode.tui.connect import Connected


class Host:
    """Acts on widgets and conversation; `leave`, `copy` and `apply` are the app's. `lend` gives the terminal away."""

    def __init__(
        self,
        app: App[int],
        conversation: Conversation,
        setup: AppSetup,
        widgets: Widgets,
        turns: Turns,
        shell: ShellLines,
        attaching: Attaching,
        servers: ServerWatch,
        session_name: SessionName,
        *,
        themes: tuple[str, ...],
        leave: Callable[[], None],
        copy: Callable[[str], str],
        lend: Callable[[], AbstractContextManager[None]],
        apply: Callable[[Setting], bool],
    ) -> None:
        self.conversation = conversation
        self.setup = setup
        self.has_screens = True
        self.theme_names = themes
        self.servers = servers
        self._app = app
        self._widgets = widgets
        self._turns = turns
        self._shell = shell
        self._leave = leave
        self._copy = copy
        self.failures = Failures(setup.report, self.say)
        self._session_name = session_name
        self.has_chosen_theme = False
        self.apply_setting = apply
        self._session_id = conversation.session_id
        self._model_use = ModelUse(conversation, setup.offering, say=self.say, shown=self._show_model)
        widgets.status.change(effort=shown_effort(conversation))
        self._escapes = Escapes(app, widgets, turns, shell, servers, clock=setup.clock, copy=copy)
        self._outside = Outside(app, widgets.prompt, attaching, say=self.say, hint=self.hint, lend=lend)

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(enabled(self.setup))

    @property
    def is_turn_running(self) -> bool:
        return self._turns.is_running

    @property
    def is_prompt_empty(self) -> bool:
        """Whether nothing is being written, in the prompt, as an answer to a question or as what to look for."""
        widgets = self._widgets
        return widgets.prompt.is_empty and not widgets.approval.is_telling and not widgets.search.is_open

    @property
    def is_writing(self) -> bool:
        return self._app.focused is self._widgets.prompt

    @property
    def themes(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, theme_note(self._app.available_themes[name])) for name in self.theme_names)

    @property
    def theme_name(self) -> str:
        return self._app.theme

    @property
    def model_names(self) -> tuple[str, ...]:
        """Every model of the providers that can be used, as it is typed."""
        offered = self.setup.offering.providers() if self.setup.offering is not None else ()
        return tuple(f"{one.name}/{model.name}" for one in offered if one.is_ready for model in one.models)

    @property
    def provider_names(self) -> tuple[str, ...]:
        connecting = self.setup.connect
        return tuple(choice.name for choice in connecting.choices()) if connecting is not None else ()

    def choices(self, text: str) -> tuple[Choice, ...]:
        """Return the rows of the menu for what is typed so far."""
        return choices_for(text, self)

    def is_possible(self, command_id: str) -> bool:
        """Whether the keys of a command do something now."""
        command = by_id(command_id)
        return command in self.commands and command.when(self)

    def run(self, command_id: str) -> None:
        self._act(by_id(command_id), "")

    def take(self, text: str, shown: str, images: tuple[Image, ...]) -> None:
        """Do what was typed and sent: a prompt, a `/command`, or a `!line` for the shell."""
        self._widgets.help.close()
        typed = split_command(text)
        if text.startswith("!"):
            if text[1:].strip():
                self._shell.start(text[1:].strip())
                self._widgets.transcript.scroll_end(animate=False)
            return
        if typed is None:
            self._turns.submit(Submission(text, shown, images))
            return
        name, argument = typed
        command = find(name.lower(), self.commands)
        if command is None:
            self.say("warning", unknown_command(name, self.commands))
            self._widgets.prompt.put_back(shown)
        else:
            self.run_command(command, argument)

    def send_first(self, prompt: str) -> None:
        """Send what was given at the start, as if it had been typed."""
        self._widgets.prompt.sent.add(prompt)
        self._turns.submit(Submission(prompt, prompt))

    @property
    def todos(self) -> tuple[Item, ...]:
        return self._widgets.todos.items

    def toggle_todos(self) -> bool:
        return self._widgets.todos.toggle()

    def say(self, level: Level, text: str) -> None:
        self._widgets.transcript.add_notice(level, text)

    def show_panel(self, title: str, text: str) -> None:
        self._widgets.help.show(title, text)

    def toggle_panel(self, title: str, text: str) -> None:
        panel = self._widgets.help
        if panel.heading == title and panel.is_open:
            panel.close()
        else:
            panel.show(title, text)

    def open_screen(self, screen: Screen[Result], then: Callable[[Result | None], None]) -> None:
        self._app.push_screen(screen, then)

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self.failures.noticed(work), group="command")

    def clear_conversation(self) -> None:
        self.conversation.clear()
        self._session_id = self.conversation.session_id
        self._widgets.transcript.clear()
        self._widgets.status.forget_session()
        self._widgets.todos.become(())
        self._widgets.transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))

    def show_conversation(self) -> None:
        transcript = self._widgets.transcript
        transcript.clear()
        if self._session_id != self.conversation.session_id:
            self._session_id = self.conversation.session_id
            self._widgets.status.forget_session()
        transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))
        replay(self.conversation.messages, transcript)
        self._widgets.todos.become(todos_in(self.conversation.messages))
        self._session_name.refresh()
        transcript.scroll_end(animate=False)
        context = self.conversation.reports.context()
        self._widgets.status.change(context_tokens=context.used, context_window=context.window)

    def put_in_prompt(self, text: str) -> None:
        if self._widgets.prompt.is_empty:
            self._widgets.prompt.put_back(text)

    def compact(self, focus: str) -> None:
        self._turns.compact(focus)

    def use_model(self, name: str) -> None:
        self._model_use.use(name)

    @property
    def effort(self) -> Effort | None:
        return self._model_use.wanted

    def use_effort(self, effort: Effort | None) -> None:
        self._model_use.use_effort(effort)

    def choose_model(self, name: str, effort: Effort | None) -> None:
        self._model_use.choose(name, effort)

    def _show_model(self) -> None:
        self._widgets.status.change(
            model=self.conversation.model, context_window=0, effort=shown_effort(self.conversation)
        )
        self._widgets.status.forget_problem()

    def connect(self, provider: str) -> None:
        """Open the connect screen, at the key of `provider` where that is a name."""
        connecting = self.setup.connect
        if connecting is None:
            self.say("warning", "Keys cannot be added here.")
            return
        names = self.provider_names
        if provider and provider not in names:
            close = nearest(provider, names)
            hint = f" Did you mean {close}?" if close else " /connect lists them."
            self.say("warning", f"There is no provider {provider!r}.{hint}")
            return
        from qcode.tui.connect import ConnectScreen

        screen = ConnectScreen(
            connecting,
            self.setup.clock,
            themes=self.theme_names,
            current_model=self.conversation.model,
            provider=provider,
        )
        self.open_screen(screen, self._connected)

    def _connected(self, connected: Connected | None) -> None:
        if connected is None:
            return
        if connected.theme:
            self.use_theme(connected.theme)
        if connected.prompt:
            self._widgets.prompt.submit(connected.prompt)
        if connected.lines:
            self.say("info", "\n".join(connected.lines))
        if connected.model:
            self.use_model(connected.model)

    def use_mode(self, mode: ApprovalMode) -> None:
        self.conversation.set_mode(mode)
        self._widgets.status.change(mode=self.conversation.mode)

    def try_theme(self, name: str) -> None:
        self._app.theme = name

    def use_theme(self, name: str) -> None:
        if name in self.theme_names:
            self._app.theme = name
            self.has_chosen_theme = True
            if self.setup.keep_theme is not None:
                self.setup.keep_theme(name)
            return
        close = nearest(name, self.theme_names)
        self.say(
            "warning", f"There is no theme {name!r}." + (f" Did you mean {close}?" if close else " /theme lists them.")
        )

    def trust_folder(self) -> None:
        self.say("info", self.setup.trust() if self.setup.trust is not None else "There is nothing to trust here.")
        self._widgets.status.change(is_restricted=self.setup.is_restricted())

    def copy_reply(self) -> None:
        replies = (message.text for message in reversed(self.conversation.messages) if message.role == "assistant")
        text = next((reply for reply in replies if reply), "")
        if not text:
            self.say("info", "There is no reply to copy yet.")
            return
        self.say("info", f"Copied the last reply ({count_text(len(text), 'character')}) {self.copy_text(text)}.")

    def copy_text(self, text: str) -> str:
        return self._copy(text)

    def open_link(self, address: str) -> None:
        """Open `address` in a browser; where there is none to see, copy it."""
        if terminal.has_browser(os.environ, sys.platform) and not self._app.is_headless:
            self._app.open_url(address)
            self.hint(f"opening {shorten(address, 60)}")
        else:
            self.hint(f"copied {shorten(address, 40)} {self._copy(address)}")

    def toggle_search(self) -> None:
        search = self._widgets.search
        if not search.close(is_going_back=False):
            self._widgets.help.close()
            search.open()

    def jump(self, step: int) -> None:
        if not self._widgets.transcript.jump(step):
            self.hint("no earlier message of yours" if step < 0 else "this is the end")

    def leave(self) -> None:
        self._leave()

    def escape(self) -> None:
        self._escapes.escape(self)

    def interrupt(self) -> None:
        self._escapes.interrupt(self)

    def toggle_folds(self) -> None:
        self._widgets.transcript.toggle_folds()

    def redraw(self) -> None:
        self._app.refresh(repaint=True, layout=True)

    def scroll_transcript(self, to: Scroll) -> None:
        """Scroll the transcript, or by pages the help that lies over its end."""
        panel, transcript = self._widgets.help, self._widgets.transcript
        if panel.is_open and to in ("page_up", "page_down"):
            panel.scroll_page(-1 if to == "page_up" else 1)
            return
        match to:
            case "page_up":
                transcript.scroll_page_up(animate=False)
            case "page_down":
                transcript.scroll_page_down(animate=False)
            case "home":
                transcript.scroll_home(animate=False)
            case "end":
                transcript.scroll_end(animate=False)

    def send(self, text: str, shown: str, options: TurnOptions) -> None:
        self._turns.submit(Submission(text, shown, options=options))

    def open_editor(self) -> None:
        self.run_later(self._outside.edit())

    def edit_file(self, path: str) -> None:
        self.run_later(self._outside.edit_file(path))

    def search_history(self) -> None:
        self._widgets.prompt.search_history()

    def paste(self) -> None:
        self.run_later(self._outside.paste())

    def open_palette(self) -> None:
        open_palette(self)

    @property
    def recent_commands(self) -> tuple[str, ...]:
        return self.setup.usage.recent if self.setup.usage is not None else ()

    def run_command(self, command: Command, argument: str) -> None:
        if self.setup.usage is not None and command.names:
            self.setup.usage.keep_recent(command.id)
        self._act(command, argument)

    def _act(self, command: Command, argument: str) -> None:
        with self.failures.noticing():
            command.run(self, argument)
            self._session_name.refresh()

    def write_prompt(self, text: str) -> None:
        self._widgets.prompt.stash()
        self._widgets.prompt.put_back(text)

    def hint(self, text: str) -> None:
        """Show `text` at the foot for a moment."""
        self._escapes.hint(text)
