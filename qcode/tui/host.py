"""What commands do to the app: the one `CommandHost`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.app import App
from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets.text_area import Selection

from qcode.protocol.conversation import ApprovalMode, Conversation
from qcode.protocol.events import Level
from qcode.tui import terminal
from qcode.tui.commands.command import Command, Result, Scroll, nearest
from qcode.tui.commands.table import by_id, enabled
from qcode.tui.connect import Connected, ConnectScreen
from qcode.tui.figures import count_text
from qcode.tui.palette import CommandProvider
from qcode.tui.replay import replay
from qcode.tui.setup import AppSetup
from qcode.tui.themes import theme_note
from qcode.tui.turns import Turns, noticed
from qcode.tui.welcome import welcome_lines
from qcode.tui.widgets import Widgets

_AGAIN_SECONDS = 2.0


class Host:
    """Acts on the widgets and the conversation; `leave` and `write` are the app's."""

    def __init__(
        self,
        app: App[int],
        conversation: Conversation,
        setup: AppSetup,
        widgets: Widgets,
        turns: Turns,
        *,
        themes: tuple[str, ...],
        leave: Callable[[], None],
        write: Callable[[str], None],
    ) -> None:
        self.conversation = conversation
        self.setup = setup
        self.theme_names = themes
        self._app = app
        self._widgets = widgets
        self._turns = turns
        self._leave = leave
        self._write = write
        self._models: tuple[str, ...] | None = None
        self._session_id = conversation.session_id
        self._again: tuple[str, float] | None = None

    @property
    def commands(self) -> tuple[Command, ...]:
        return tuple(enabled(self.setup))

    @property
    def is_turn_running(self) -> bool:
        return self._turns.is_running

    @property
    def is_prompt_empty(self) -> bool:
        """Whether nothing is being written, in the prompt or as an answer to a question."""
        return self._widgets.prompt.is_empty and not self._widgets.approval.is_telling

    @property
    def themes(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, theme_note(self._app.available_themes[name])) for name in self.theme_names)

    @property
    def theme_name(self) -> str:
        return self._app.theme

    @property
    def model_names(self) -> tuple[str, ...]:
        if self._models is None:
            self._models = self.setup.models()
        return self._models

    @property
    def provider_names(self) -> tuple[str, ...]:
        connecting = self.setup.connect
        return tuple(choice.name for choice in connecting.choices()) if connecting is not None else ()

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
        self._app.run_worker(noticed(work, self.say), group="command")

    def clear_conversation(self) -> None:
        self.conversation.clear()
        self._session_id = self.conversation.session_id
        self._widgets.transcript.clear()
        self._widgets.status.forget_session()
        self._widgets.transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))

    def show_conversation(self) -> None:
        transcript = self._widgets.transcript
        transcript.clear()
        if self._session_id != self.conversation.session_id:
            self._session_id = self.conversation.session_id
            self._widgets.status.forget_session()
        transcript.add_welcome(welcome_lines(self.setup, self.conversation.model))
        replay(self.conversation.messages, transcript)
        transcript.scroll_end(animate=False)
        context = self.conversation.reports.context()
        self._widgets.status.change(context_tokens=context.used, context_window=context.window)

    def put_in_prompt(self, text: str) -> None:
        if self._widgets.prompt.is_empty:
            self._widgets.prompt.put_back(text)

    def compact(self, focus: str) -> None:
        self._turns.compact(focus)

    def use_model(self, name: str) -> None:
        try:
            self.conversation.set_model(name)
        except ValueError as refusal:
            self.say("error", str(refusal))
            return
        self._widgets.status.change(model=self.conversation.model, context_window=0)
        self.say("info", f"Model: {self.conversation.model}, from the next turn on.")

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
        self._models = None
        if connected.model:
            self.use_model(connected.model)

    def use_mode(self, mode: ApprovalMode) -> None:
        self.conversation.set_mode(mode)
        self._widgets.status.change(mode=self.conversation.mode)

    def use_theme(self, name: str) -> None:
        if name in self.theme_names:
            self._app.theme = name
            if self.setup.keep_theme is not None:
                self.setup.keep_theme(name)
            return
        close = nearest(name, self.theme_names)
        self.say(
            "warning", f"There is no theme {name!r}." + (f" Did you mean {close}?" if close else " /theme lists them.")
        )

    def trust_folder(self) -> None:
        self.say("info", self.setup.trust() if self.setup.trust is not None else "There is nothing to trust here.")

    def copy_reply(self) -> None:
        replies = (message.text for message in reversed(self.conversation.messages) if message.role == "assistant")
        text = next((reply for reply in replies if reply), "")
        if not text:
            self.say("info", "There is no reply to copy yet.")
            return
        self.say("info", f"Copied the last reply ({count_text(len(text), 'character')}) {self.copy_text(text)}.")

    def copy_text(self, text: str) -> str:
        self._copy(text)
        return "through the terminal (OSC 52)"

    def leave(self) -> None:
        self._leave()

    def escape(self) -> None:
        """Close what is open; otherwise interrupt; otherwise, the second time, clear the prompt, or rewind."""
        widgets = self._widgets
        if (
            widgets.help.close()
            or widgets.prompt.close_menu()
            or widgets.approval.leave_telling()
            or self._turns.stop()
        ):
            return
        if not widgets.prompt.is_empty:
            if self._is_pressed_again("Esc", "clear the prompt"):
                widgets.prompt.stash()
        elif self._is_pressed_again("Esc", "rewind"):
            by_id("rewind").run(self, "")

    def interrupt(self) -> None:
        """Copy a selection; otherwise interrupt; otherwise clear the prompt; otherwise, the second time, quit."""
        prompt = self._widgets.prompt
        selected = self._app.screen.get_selected_text() or prompt.selected_text
        if selected:
            self._copy(selected)
            self._app.screen.clear_selection()
            prompt.selection = Selection.cursor(prompt.cursor_location)
        elif self._turns.stop():
            return
        elif not prompt.is_empty:
            prompt.stash()
        elif self._is_pressed_again("Ctrl+C", "quit"):
            self._leave()

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

    def open_palette(self) -> None:
        self._app.push_screen(CommandPalette(providers=[CommandProvider], placeholder="Find a command"))

    def _copy(self, text: str) -> None:
        self._app.copy_to_clipboard(text)
        self._write(terminal.copy_through_tmux(text))

    def _is_pressed_again(self, key: str, purpose: str) -> bool:
        """Whether `key` was pressed before, just now; otherwise say that a second time will do `purpose`."""
        now = self.setup.clock()
        before, self._again = self._again, None
        self._hint("")
        if before is not None and before[0] == key and now - before[1] <= _AGAIN_SECONDS:
            return True
        self._again = (key, now)
        self._hint(f"press {key} again to {purpose}")
        self._app.set_timer(_AGAIN_SECONDS, lambda: self._hint(""), name="hint")
        return False

    def _hint(self, text: str) -> None:
        self._widgets.status.change(hint=text)
