"""What a command is, what it may do, and how it is typed and completed.

A command acts through `CommandHost`, which the app implements; it never queries a widget. `choices_for` makes the
rows of the menu above the prompt; it is pure, apart from the choices that a command supplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from textual.screen import Screen

from qcode.agent.settings import Setting
from qcode.protocol.approvals import ApprovalMode, TurnOptions
from qcode.protocol.events import Level
from qcode.protocol.model import Effort
from qcode.text.match import nearest
from qcode.tools.dialog import TodoItem
from qcode.tui.prompt.menu import Choice
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.tui.panels.servers import ServerWatch

Result = TypeVar("Result")
Scroll: TypeAlias = Literal["page_up", "page_down", "home", "end"]

MODES: dict[ApprovalMode, str] = {
    "plan": "reads only",
    "default": "asks before it changes anything",
    "accept-edits": "edits inside the folder run without asking",
}
"""The modes a person can reach inside the app, in the order Shift+Tab goes. `auto` and `bypass` are flags."""


class CommandHost(Protocol):
    """What a command may do."""

    @property
    def agent(self) -> Agent: ...

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands this app has, in the order of the table."""
        ...

    @property
    def is_turn_running(self) -> bool: ...

    @property
    def is_prompt_empty(self) -> bool: ...

    @property
    def is_writing(self) -> bool:
        """Whether what is typed goes into the prompt."""
        ...

    @property
    def theme_names(self) -> tuple[str, ...]: ...

    @property
    def themes(self) -> tuple[tuple[str, str], ...]:
        """The name of every theme with what to say about it."""
        ...

    @property
    def theme_name(self) -> str: ...

    @property
    def effort(self) -> Effort | None:
        """How much the person wants the model to think; None: as much as it likes."""
        ...

    @property
    def has_screens(self) -> bool:
        """Whether a screen can be laid over the app; without, a command says in lines what it would show."""
        ...

    @property
    def servers(self) -> ServerWatch: ...

    @property
    def todos(self) -> Sequence[TodoItem]:
        """The model's list of what is to do."""
        ...

    def toggle_todos(self) -> bool:
        """Open or fold the list of todos; return False where there is none."""
        ...

    def say(self, level: Level, text: str) -> None: ...
    def show_panel(self, title: str, text: str) -> None: ...

    def open_screen(self, screen: Screen[Result], then: Callable[[Result | None], None]) -> None:
        """Lay a screen over the app; `then` gets what it was dismissed with, None where it was left."""
        ...

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` beside the app's messages; an error in it ends in a notice."""
        ...

    def copy_text(self, text: str) -> str:
        """Put `text` on the clipboard; return how, as the end of a sentence about it."""
        ...

    def toggle_panel(self, title: str, text: str) -> None: ...
    def show_conversation(self) -> None:
        """Show the conversation anew: it is another one now, or at another point."""
        ...

    def put_in_prompt(self, text: str) -> None:
        """Put `text` into an empty prompt, to be changed and sent again."""
        ...

    def compact(self, focus: str) -> None: ...
    def clear_conversation(self) -> None: ...
    def use_model(self, name: str) -> None: ...
    def use_effort(self, effort: Effort | None) -> None: ...

    def choose_model(self, name: str, effort: Effort | None) -> None:
        """Use a model and an effort that were chosen together; what did not change is left alone."""
        ...

    def connect(self, provider: str) -> None: ...
    def use_mode(self, mode: ApprovalMode) -> None: ...
    def use_theme(self, name: str) -> None: ...

    def apply_setting(self, setting: Setting) -> bool:
        """Let a setting that was changed hold at once, where it can; return whether it does."""
        ...

    def try_theme(self, name: str) -> None:
        """Show a theme that is there, for as long as somebody looks at it."""
        ...

    def copy_reply(self) -> None: ...
    def trust_folder(self) -> None: ...
    def leave(self) -> None: ...
    def escape(self) -> None: ...
    def interrupt(self) -> None: ...
    def toggle_folds(self) -> None: ...
    def toggle_search(self) -> None: ...

    def jump(self, step: int) -> None:
        """Show the message of the person before (-1) or after (1) what is in view."""
        ...

    def redraw(self) -> None: ...
    def scroll_transcript(self, to: Scroll) -> None: ...

    def run_command(self, command: Command, argument: str) -> None:
        """Run a command and remember that it was used."""
        ...

    def write_prompt(self, text: str) -> None:
        """Put `text` into the prompt to be finished; what is there goes where Up finds it."""
        ...

    def send(self, text: str, shown: str, options: TurnOptions) -> None:
        """Send `text` as a prompt that is shown as `shown`; while a turn runs it waits for its end."""
        ...

    def open_editor(self) -> None: ...

    def edit_file(self, path: str) -> None:
        """Open a file in the person's own editor, making it where it is not there."""
        ...

    def search_history(self) -> None: ...
    def paste(self) -> None: ...


def is_prompt_empty(host: CommandHost) -> bool:
    return host.is_prompt_empty


def _always(_host: CommandHost) -> bool:
    return True


def _nothing(_host: CommandHost) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """Something a person can invoke.

    `names` are typed after the slash, the first is its name and the others are aliases; none: by key or palette only.
    `choices` are what `argument` may be, offered while it is typed. `run` gets the argument, stripped.
    `has_screen`: without an argument it opens a screen to choose on.
    `when` False: its keys do what they did before.
    """

    id: str
    title: str
    help: str
    run: Callable[[CommandHost, str], None]
    names: tuple[str, ...] = ()
    argument: str = ""
    choices: Callable[[CommandHost], Sequence[str]] = _nothing
    keys: tuple[str, ...] = ()
    when: Callable[[CommandHost], bool] = _always
    has_screen: bool = False

    @property
    def usage(self) -> str:
        """`/model [name]`, or the keys of a command that is not typed."""
        return f"/{self.names[0]} {self.argument}".rstrip() if self.names else key_names(self.keys)


def find(name: str, commands: Sequence[Command]) -> Command | None:
    """Return the command typed as `/name`, by its name or an alias."""
    return next((command for command in commands if name in command.names), None)


def typed_names(commands: Sequence[Command]) -> list[str]:
    """Return every name and alias that can be typed after a slash."""
    return [name for command in commands for name in command.names]


def unknown_command(name: str, commands: Sequence[Command]) -> str:
    """Return what to say about a name that is no command."""
    close = nearest(name, typed_names(commands))
    return f"There is no command /{name}." + (f" Did you mean /{close}?" if close else " /help lists them.")


def split_command(text: str) -> tuple[str, str] | None:
    """Return name and argument of a slash command, None for text that is none, such as a path."""
    match = _TYPED.fullmatch(text)
    return (match[1] or "", (match[2] or "").strip()) if match else None


def key_names(keys: Sequence[str]) -> str:
    """Return keys as they are printed on keyboards: `ctrl+o` is `Ctrl+O`."""
    return ", ".join("+".join(_KEY_NAMES.get(part, part.capitalize()) for part in key.split("+")) for key in keys)


_MAX_LEFT_CELLS = 30
"""Characters that the left of two columns may take, so that there is room for the right one in 80."""


def table_text(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two columns as lines; what is long on the left has its right side on the next line."""
    width = max((len(left) for left, _ in rows if len(left) <= _MAX_LEFT_CELLS), default=0)
    space = " " * width
    return "\n".join(
        f"{left:<{width}}  {right}" if len(left) <= width else f"{left}\n{space}  {right}" for left, right in rows
    )


_TYPED = re.compile(r"/([A-Za-z][\w:-]*)?(?: (.*))?", re.DOTALL)
_KEY_NAMES = {"pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?", "escape": "Esc"}


def choices_for(text: str, host: CommandHost) -> tuple[Choice, ...]:
    """Return the rows for `text`: commands while the name is typed, then the choices for its argument."""
    typed = split_command(text)
    if typed is None:
        return ()
    name, argument = typed
    if " " not in text:
        return _command_rows(name.lower(), host)
    command = find(name, host.commands)
    if command is None:
        return ()
    wanted = argument.lower()
    offered = sorted(command.choices(host), key=lambda choice: not choice.lower().startswith(wanted))
    if argument in offered:
        return ()  # it is whole: Enter must run this one, not a longer one that holds it
    return tuple(Choice(f"/{name} {choice}", choice) for choice in offered if wanted in choice.lower())


def _command_rows(start: str, host: CommandHost) -> tuple[Choice, ...]:
    """Commands whose name or alias begins with `start`, or has it after a colon; exact names first."""
    rows: list[tuple[int, Choice]] = []
    for command in host.commands:
        match = next((name for name in command.names if name.startswith(start)), None)
        inner = next((name for name in command.names if start and f":{start}" in name), None)
        if match is not None or inner is not None:
            rows.append((0 if match == start else 1 if match else 2, _command_row(command, match or inner or "", host)))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _command_row(command: Command, match: str, host: CommandHost) -> Choice:
    is_open = command.has_screen and host.has_screens
    has_choices = bool(command.argument) and not is_open and command.id != "help" and bool(command.choices(host))
    label = f"/{match} {command.argument}".rstrip()
    return Choice(f"/{match} " if command.argument else f"/{match}", label, command.help, not has_choices)
