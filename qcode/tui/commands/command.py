"""What a command is, what it may do, and how it is typed and completed.

A command acts through its `CommandContext`: the services of the agent, and the `View` of the app or the linear mode.
`choices_for` makes the rows of the menu above the prompt; it is pure, apart from the choices that a command supplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from qcode.agent.settings import Setting
from qcode.protocol.approvals import ApprovalMode, TurnOptions
from qcode.protocol.events import Level
from qcode.text.match import nearest
from qcode.tools.dialog import TodoItem
from qcode.tui.prompt.menu import MenuItem
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.tui.preferences import ModelUse
    from qcode.tui.view import AppView


class View(Protocol):
    """A front end as every command sees it: the app, or the linear mode."""

    @property
    def is_turn_running(self) -> bool: ...

    @property
    def todos(self) -> Sequence[TodoItem]:
        """The model's to-do list."""
        ...

    def toggle_todos(self) -> bool:
        """Open or fold the to-do list; return False if there is none."""
        ...

    def say(self, level: Level, text: str) -> None: ...
    def show_panel(self, title: str, text: str) -> None: ...

    def show_mode(self) -> None:
        """Show the permission mode of the conversation after a change."""
        ...

    def show_trust(self) -> None:
        """Show whether the folder is trusted after a change."""
        ...

    def show_new_session(self) -> None:
        """Show the conversation after it was cleared."""
        ...

    def apply_setting(self, setting: Setting) -> bool:
        """Apply a changed setting now; return False if only the next start reads it."""
        ...

    def copy_reply(self) -> None:
        """Copy the last reply of the model."""
        ...

    def send(self, text: str, shown: str, options: TurnOptions) -> None:
        """Send `text` as a prompt that is shown as `shown`; if a turn runs, send it after the turn."""
        ...

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background; an error in it ends in a notice."""
        ...

    def leave(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The capabilities of a command: the agent with its services, and the front end.

    `commands` are those of this front end. `app` is None in the linear mode.
    """

    agent: Agent
    commands: tuple[Command, ...]
    model_use: ModelUse
    view: View
    app: AppView | None = None

    @property
    def screen(self) -> AppView:
        """The app, for a command that `needs_screen`."""
        assert self.app is not None, "a command that needs a screen was run without one"
        return self.app

    def use_mode(self, mode: ApprovalMode) -> None:
        """Switch the permission mode."""
        self.agent.conversation.set_mode(mode)
        self.view.show_mode()


def is_prompt_empty(context: CommandContext) -> bool:
    """Return whether nothing is being written, for the keys of a command that needs an empty prompt."""
    return context.screen.is_prompt_empty


def _always(_context: CommandContext) -> bool:
    return True


def _nothing(_context: CommandContext) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """Something a person can invoke.

    `names` are typed after the slash, the first is its name and the others are aliases; none: by key or palette only.
    `choices` are what `argument` may be, offered while it is typed. `run` gets the argument, stripped.
    `opens_picker`: without an argument it opens a screen to choose from, if there is one. `needs_screen`: it is not
    offered in the linear mode.
    `when` False: its keys do what they did before.
    """

    id: str
    title: str
    help: str
    run: Callable[[CommandContext, str], None]
    names: tuple[str, ...] = ()
    argument: str = ""
    choices: Callable[[CommandContext], Sequence[str]] = _nothing
    keys: tuple[str, ...] = ()
    when: Callable[[CommandContext], bool] = _always
    opens_picker: bool = False
    needs_screen: bool = False

    @property
    def usage(self) -> str:
        """`/model [name]`, or the keys of a command that is not typed."""
        return f"/{self.names[0]} {self.argument}".rstrip() if self.names else key_names(self.keys)


def run_command(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app, and remember that it was used if it can be typed."""
    if command.names:
        context.agent.settings.choices.keep_recent(command.id)
    act(context, command, argument)


def act(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app; an error in it ends in a notice."""
    with context.screen.failures.noticing():
        command.run(context, argument)
        context.screen.session_name.refresh()


def find(name: str, commands: Sequence[Command]) -> Command | None:
    """Return the command typed as `/name`, by its name or an alias."""
    return next((command for command in commands if name in command.names), None)


def typed_names(commands: Sequence[Command]) -> list[str]:
    """Return every name and alias that can be typed after a slash."""
    return [name for command in commands for name in command.names]


def unknown_command(name: str, commands: Sequence[Command]) -> str:
    """Return what to say about a name that is no command."""
    close = nearest(name, typed_names(commands))
    return f"Unknown command /{name}." + (f" Did you mean /{close}?" if close else " /help lists them.")


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


def choices_for(text: str, context: CommandContext) -> tuple[MenuItem, ...]:
    """Return the rows for `text`: commands while the name is typed, then the choices for its argument."""
    typed = split_command(text)
    if typed is None:
        return ()
    name, argument = typed
    if " " not in text:
        return _command_rows(name.lower(), context)
    command = find(name, context.commands)
    if command is None:
        return ()
    wanted = argument.lower()
    offered = sorted(command.choices(context), key=lambda choice: not choice.lower().startswith(wanted))
    if argument in offered:
        return ()  # it is whole: Enter must run this one, not a longer one that holds it
    return tuple(MenuItem(f"/{name} {choice}", choice) for choice in offered if wanted in choice.lower())


def _command_rows(start: str, context: CommandContext) -> tuple[MenuItem, ...]:
    """Commands whose name or alias begins with `start`, or has it after a colon; exact names first."""
    rows: list[tuple[int, MenuItem]] = []
    for command in context.commands:
        match = next((name for name in command.names if name.startswith(start)), None)
        inner = next((name for name in command.names if start and f":{start}" in name), None)
        if match is not None or inner is not None:
            rank = 0 if match == start else 1 if match else 2
            rows.append((rank, _command_row(command, match or inner or "", context)))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _command_row(command: Command, match: str, context: CommandContext) -> MenuItem:
    is_open = command.opens_picker and context.app is not None
    has_choices = bool(command.argument) and not is_open and command.id != "help" and bool(command.choices(context))
    label = f"/{match} {command.argument}".rstrip()
    return MenuItem(f"/{match} " if command.argument else f"/{match}", label, command.help, not has_choices)
