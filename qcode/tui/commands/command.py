"""The definition of a command, the context it runs in, and its completion.

A command acts through its `CommandContext`: the services of the agent, and the `View` of the app or the linear mode.
`choices_for` makes the rows of the completion menu; it is pure, apart from the choices that a command supplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from qcode.agent.settings import Setting
from qcode.protocol.approvals import NO_OPTIONS, ApprovalMode, TurnOptions
from qcode.protocol.events import Level
from qcode.text.clean import one_line
from qcode.text.match import unknown
from qcode.tools.dialog import TodoItem
from qcode.tui.prompt.menu import MenuItem
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.mcp.mentions import ServerPrompt
    from qcode.tui.panels.aside import AsideTalk
    from qcode.tui.panels.jobs import JobWatch
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

    def notify(self, level: Level, text: str) -> None: ...
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

    def send(self, text: str, typed: str, options: TurnOptions) -> None:
        """Send `text` as a prompt that is shown as `typed`; if a turn runs, send it after the turn."""
        ...

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background; an error in it ends in a notice."""
        ...

    @property
    def jobs(self) -> JobWatch:
        """The background jobs."""
        ...

    @property
    def aside(self) -> AsideTalk:
        """The asides."""
        ...

    def ask_aside(self, question: str) -> None:
        """Ask an aside; an earlier one is cancelled."""
        ...

    def leave(self) -> None:
        """Quit qcode; ask first if that stops background jobs."""
        ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The capabilities of a command: the agent with its services, and the front end.

    `base_commands` are those of this front end without the prompts of tool servers. `app` is None in the linear mode.
    `typed` is the typed text of a command that has or needs an argument; `keep_typed` returns it to the prompt.
    """

    agent: Agent
    base_commands: tuple[Command, ...]
    model_use: ModelUse
    view: View
    app: AppView | None = None
    typed: str = ""

    def refuse(self, text: str) -> None:
        """Say why the command cannot run, and return it to the prompt."""
        self.view.notify("warning", text)
        self.keep_typed()

    def keep_typed(self) -> None:
        """Return the command to the prompt: selected, or in front of anything typed since."""
        if self.app is not None and self.typed:
            self.app.take_back(self.typed)

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands: also the prompts of the tool servers that run now."""
        if self.agent.servers is None:
            return self.base_commands
        from qcode.agent.mcp.mentions import prompts_of

        used_names = typed_names(self.base_commands)
        prompts = (item for item in prompts_of(self.agent.servers) if item.handle not in used_names)
        return (*self.base_commands, *map(_as_command, prompts))

    @property
    def screen(self) -> AppView:
        """The app, for a command that `needs_screen`."""
        assert self.app is not None, "a command that needs a screen was run without one"
        return self.app

    def use_mode(self, mode: ApprovalMode) -> None:
        """Switch the permission mode."""
        self.agent.conversation.set_mode(mode)
        self.view.show_mode()
        from qcode.tui.preferences import pending_mode_notice  # loads after the first paint

        if notice := pending_mode_notice(mode, is_trusted=self.agent.trust.is_trusted):
            self.view.notify("info", notice)


def is_prompt_empty(context: CommandContext) -> bool:
    """Return whether the user is writing nothing, for keys that need an empty prompt."""
    return context.screen.is_prompt_empty


def _is_always_available(_context: CommandContext) -> bool:
    return True


def _no_choices(_context: CommandContext) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the app.

    `names` are typed after the slash: its name, then aliases. A command without names has a key or is in the palette
    only. `choices` are the completions of `argument`. `run` gets the argument, stripped. `opens_picker`: without an
    argument it opens a picker, except in the linear mode. `needs_screen`: it is not available in the linear
    mode. `is_prompt`: it sends a prompt, with any argument. If `when` returns False, its keys keep their usual effect.
    """

    id: str
    title: str
    help: str
    run: Callable[[CommandContext, str], None]
    names: tuple[str, ...] = ()
    argument: str = ""
    choices: Callable[[CommandContext], Sequence[str]] = _no_choices
    keys: tuple[str, ...] = ()
    when: Callable[[CommandContext], bool] = _is_always_available
    opens_picker: bool = False
    needs_screen: bool = False
    is_prompt: bool = False

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def usage(self) -> str:
        """`/model [name]`, or the keys of a command that is not typed."""
        return f"/{self.names[0]} {self.argument}".rstrip() if self.names else key_names(self.keys)


def run_command(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app; remember its use if it has a name."""
    if command.names:
        context.agent.settings.choices.keep_recent(command.id)
    act(context, command, argument)


def act(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app; an error in it ends in a notice."""
    with context.screen.failures.report_errors():
        command.run(context, argument)
        context.screen.session_name.refresh()


_PROMPT_PREFIX = "prompt:"


def _as_command(prompt: ServerPrompt) -> Command:
    """Return the command that sends a prompt of a tool server."""
    return Command(
        f"{_PROMPT_PREFIX}{prompt.handle}",
        f"/{prompt.handle}",
        f"{prompt.description or prompt.prompt.name} (prompt of {prompt.server})",
        partial(_send_prompt, prompt=prompt),
        (prompt.handle,),
        prompt.hint,
        partial(_prompt_choices, prompt=prompt),
        is_prompt=True,
    )


def _send_prompt(context: CommandContext, argument: str, *, prompt: ServerPrompt) -> None:
    """Send the prompt, which is read when its turn begins; if arguments are missing, let the user add them.

    One is typed in the prompt, where the server completes it; several are fields of a form.
    """
    from qcode.agent.mcp.mentions import arguments_of, missing_arguments
    from qcode.protocol.errors import InputError

    typed, problem, start = f"/{prompt.handle} {argument}".rstrip(), "", ""
    try:
        values = arguments_of(prompt.prompt, argument)
        missing = missing_arguments(prompt.prompt, values)
    except InputError as refusal:
        problem, start = f"/{prompt.handle}: {refusal}.", typed
    else:
        if len(missing) > 1 and context.app is not None:
            _open_form(context, prompt, values, typed)
            return
        if missing:
            names = ", ".join(one_line(listed_argument.name) for listed_argument in missing)
            problem = f"/{prompt.handle} needs {names}. Add the value and press Enter."
            start = f"{typed} {one_line(missing[0].name)}="
    if not problem:
        context.view.send(typed, typed, NO_OPTIONS)
        return
    context.view.notify("warning", problem)
    if context.app is not None:
        context.app.prompt.put_back(start)


def _open_form(context: CommandContext, prompt: ServerPrompt, values: Mapping[str, str], typed: str) -> None:
    """Ask for the arguments in a form; the typed text returns to the prompt if the user closes it."""
    from qcode.tui.screens.arguments import ArgumentsForm

    screen = context.screen

    def take(text: str | None) -> None:
        if text:
            context.view.send(text, text, NO_OPTIONS)
        else:
            screen.prompt.put_back(typed)

    screen.open_screen(ArgumentsForm(prompt, values), take)


def _prompt_choices(context: CommandContext, *, prompt: ServerPrompt) -> Sequence[str]:
    """Return completions of the server for the arguments that are being typed."""
    head = f"/{prompt.handle} "
    if context.app is None or not context.app.prompt.text.lower().startswith(head):
        return ()
    completion = context.app.attachments.servers
    return completion.arguments(prompt, context.app.prompt.text[len(head) :]) if completion is not None else ()


def find(name: str, commands: Sequence[Command]) -> Command | None:
    """Return the command typed as `/name`, by its name or an alias."""
    return next((command for command in commands if name in command.names), None)


def typed_names(commands: Sequence[Command]) -> list[str]:
    """Return every name and alias that can be typed after a slash."""
    return [name for command in commands for name in command.names]


def unknown_command(name: str, commands: Sequence[Command]) -> str:
    """Return the error about an unknown command, with the nearest name."""
    return unknown(f"command /{name}", name, typed_names(commands), "/help lists them.", "/{}")


def unexpected_argument(name: str, argument: str, command: Command) -> str:
    """Return the error about an argument of a command that takes none; empty if there is no error."""
    if not argument or command.argument or command.is_prompt:
        return ""
    return f"/{name} takes no argument. Type /{name} without “{one_line(argument, 40)}”."


def split_command(text: str) -> tuple[str, str] | None:
    """Return name and argument of a slash command, None for other text, such as a path."""
    match = _TYPED.fullmatch(text)
    return (match[1] or "", (match[2] or "").strip()) if match else None


def key_names(keys: Sequence[str]) -> str:
    """Return keys as they are printed on keyboards: `ctrl+o` is `Ctrl+O`."""
    return ", ".join("+".join(_KEY_NAMES.get(part, part.capitalize()) for part in key.split("+")) for key in keys)


_MAX_LEFT_CELLS = 30
"""Maximum width of the left column; a wider one makes the right column too narrow in 80 columns."""


def table_text(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two columns as lines. If the left text is too long, the right one is on the next line."""
    width = max((len(left) for left, _ in rows if len(left) <= _MAX_LEFT_CELLS), default=0)
    space = " " * width
    return "\n".join(
        f"{left:<{width}}  {right}" if len(left) <= width else f"{left}\n{space}  {right}" for left, right in rows
    )


_TYPED = re.compile(r"/([A-Za-z][\w:-]*)?(?: (.*))?", re.DOTALL)
_KEY_NAMES = {
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "question_mark": "?",
    "escape": "Esc",
    "underscore": "_",
    "slash": "/",
}


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
    query = argument.lower()
    offered = sorted(command.choices(context), key=lambda choice: not choice.lower().startswith(query))
    # Enter after `/mcp restart` must not restart the first of several servers: it only inserts the name.
    is_action = sum(choice.lower().startswith(f"{query} ") for choice in offered) > 1
    if argument in offered:
        return ()  # the command is complete: Enter must run it, not a longer one that starts with it
    return tuple(_argument_row(name, choice, runs=not is_action) for choice in offered if query in choice.lower())


def _argument_row(name: str, choice: str, *, runs: bool) -> MenuItem:
    """Return the row of a choice; if it `runs`, Enter sends it. The `…` of `check …` is not inserted."""
    start, is_open = choice.removesuffix(")").removesuffix("…"), choice.endswith(("…", "…)"))
    return MenuItem(f"/{name} {start if is_open else choice}", choice, is_complete=runs and not is_open)


_FREQUENT = (
    "help", "model", "clear", "resume", "compact", "undo", "diff", "copy", "mode", "cost", "context", "config", "export"
)  # fmt: skip


def frequency_rank(command: Command) -> int:
    """Return the position of a command in a list that begins with those used most; the others are equal."""
    return _FREQUENT.index(command.id) if command.id in _FREQUENT else len(_FREQUENT)


def _command_rows(start: str, context: CommandContext) -> tuple[MenuItem, ...]:
    """Return the commands whose name or alias starts with `start`, also after a colon; exact names first."""
    rows: list[tuple[int, int, MenuItem]] = []
    for command in context.commands:
        match = next((name for name in command.names if name.startswith(start)), None)
        inner = next((name for name in command.names if start and f":{start}" in name), None)
        if match is not None or inner is not None:
            rank = 0 if match == start else 1 if match else 2
            rows.append((rank, frequency_rank(command), _command_row(command, match or inner or "", context)))
    return tuple(row for _, _, row in sorted(rows, key=lambda row: row[:2]))


def _command_row(command: Command, match: str, context: CommandContext) -> MenuItem:
    is_open = command.opens_picker and context.app is not None
    has_choices = bool(command.argument) and not is_open and command.id != "help" and bool(command.choices(context))
    text = f"/{match} " if command.argument else f"/{match}"
    return MenuItem(text, f"/{match}", command.help, not has_choices, hint=command.argument)


def argument_hint(text: str, context: CommandContext) -> str:
    """Return the argument of the command that `text` names completely, to be shown after it; empty otherwise."""
    typed = split_command(text)
    command = find(typed[0], context.commands) if typed is not None and not typed[1] else None
    if command is None or not command.argument:
        return ""
    return command.argument if text.endswith(" ") else f" {command.argument}"
