"""The definition of a command, its context, and its completion.

A command acts through its `CommandContext`: the services of the agent, and the `View` of the app or the linear mode.
`choices_for` makes the rows of the completion menu; it is pure, apart from the choices that a command supplies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rich.cells import cell_len

from qcode.agent.settings import Setting
from qcode.protocol.approvals import NO_OPTIONS, ApprovalMode, TurnOptions
from qcode.protocol.events import Level
from qcode.text.clean import one_line, quoted_line
from qcode.text.match import unknown_name_error
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


TURN_RUNS = "A turn is running. Press Esc to interrupt it first."
"""The refusal of a command that needs an idle conversation."""


class View(Protocol):
    """The interface of a front end for commands. The app and the linear mode implement it."""

    @property
    def is_turn_running(self) -> bool: ...

    @property
    def todos(self) -> Sequence[TodoItem]:
        """The model's to-do list."""
        ...

    def toggle_todos(self) -> bool:
        """Show the to-do list, or in the app dismiss it if it is open; return False if there is none."""
        ...

    def notify(self, level: Level, text: str) -> None:
        """Show a notice, such as the answer to a command. `text` is one sentence or several."""
        ...

    def show_panel(self, title: str, text: str) -> None:
        """Show text of several lines under a title. The text must be sanitized or written by qcode."""
        ...

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
        """Let the user copy a reply of the model, or say how."""
        ...

    def send(self, text: str, typed: str, options: TurnOptions) -> None:
        """Send `text` as a prompt that is shown as `typed`; if a turn runs, queue it."""
        ...

    def run_later(self, work: Coroutine[Any, Any, object], *, may_open_screen: bool = False) -> None:
        """Run `work` in the background; an error in it ends in a notice.

        If it may open a screen, the keys typed until then go to that screen.
        """
        ...

    @property
    def jobs(self) -> JobWatch:
        """The background jobs."""
        ...

    @property
    def aside(self) -> AsideTalk:
        """The side questions (`/btw`)."""
        ...

    def ask_aside(self, question: str) -> None:
        """Ask a side question, and cancel an earlier one."""
        ...

    def leave(self) -> None:
        """Quit qcode; ask first if that stops background jobs."""
        ...


API_KEY_HELD_BACK = (
    "This looks like an API key, so it was not sent to the model. {advice}. To send it as text, send it again."
)
"""The notice about a prompt that `ApiKeyGuard` holds back. `advice` names the command that stores a key."""


class ApiKeyGuard:
    """A check that holds back a prompt that is only an API key, until the user sends it a second time."""

    def __init__(self) -> None:
        self._held_text = ""

    def holds_back(self, text: str) -> bool:
        from qcode.safety.redaction import is_secret  # not needed for the first paint

        is_held = text != self._held_text and is_secret(text)
        self._held_text = text if is_held else ""
        return is_held


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The agent and the front end on which a command acts."""

    agent: Agent
    base_commands: tuple[Command, ...]
    """The commands of this front end, without the prompts of tool servers."""
    model_use: ModelUse
    view: View
    """The front end."""
    app_view: AppView | None = None
    """The same object as `view` in the app; None in the linear mode."""
    typed: str = ""
    """The command as typed, empty for a command run by a key. `keep_typed` puts it back into the prompt."""
    api_key_guard: ApiKeyGuard = field(default_factory=ApiKeyGuard)

    def refuse(self, text: str) -> None:
        """Show why the command cannot run, and put its text back into the prompt."""
        self.view.notify("warning", text)
        self.keep_typed()

    def keep_typed(self) -> None:
        """Put the text of the command back into the prompt: selected, or in front of text typed since."""
        if self.app_view is not None and self.typed:
            self.app_view.put_back_command(self.typed)

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands, including the prompts of the tool servers that run now."""
        if self.agent.servers is None:
            return self.base_commands
        from qcode.agent.mcp.mentions import prompts_of

        used_names = typed_names(self.base_commands)
        prompts = (prompt for prompt in prompts_of(self.agent.servers) if prompt.handle not in used_names)
        return (*self.base_commands, *map(_as_prompt_command, prompts))

    @property
    def required_app_view(self) -> AppView:
        """`app_view`, for a command that `needs_app`."""
        assert self.app_view is not None, "a command that needs the app was run in the linear mode"
        return self.app_view

    def use_mode(self, mode: ApprovalMode) -> None:
        """Switch the permission mode."""
        self.agent.conversation.set_mode(mode)
        self.view.show_mode()
        from qcode.tui.preferences import pending_mode_notice  # loads after the first paint

        if notice := pending_mode_notice(mode, is_trusted=self.agent.trust.is_trusted):
            self.view.notify("info", notice)


def is_prompt_empty(context: CommandContext) -> bool:
    """Return whether the user is writing nothing, for keys that need an empty prompt."""
    return context.required_app_view.is_prompt_empty


def _is_always_available(_context: CommandContext) -> bool:
    return True


def _no_choices(_context: CommandContext) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the app."""

    id: str
    """The name in the config table `[ui.keys]` and in the list of recent commands."""
    title: str
    """The label in the palette."""
    help: str
    run: Callable[[CommandContext, str], None]
    """Runs the command with its argument, without spaces around it."""
    names: tuple[str, ...] = ()
    """The name typed after the slash, then its aliases, in lower case.

    A command without names only has keys, or is in the palette.
    """
    argument: str = ""
    """The argument as help shows it, such as `[name]`; in brackets if it is optional."""
    choices: Callable[[CommandContext], Sequence[str]] = _no_choices
    """Returns the completions of the argument."""
    keys: tuple[str, ...] = ()
    when: Callable[[CommandContext], bool] = _is_always_available
    """Returns whether the keys run the command now; otherwise they keep their usual effect."""
    opens_picker: bool = False
    """The command opens a picker if it has no argument, except in the linear mode."""
    needs_app: bool = False
    """The command is not available in the linear mode."""
    is_prompt: bool = False
    """The command sends a prompt, and takes any argument."""

    @property
    def needs_argument(self) -> bool:
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def usage(self) -> str:
        """`/model [name]`, or the keys of a command that is not typed."""
        return f"/{self.names[0]} {self.argument}".rstrip() if self.names else key_names(self.keys)


def run_command(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app. If it has a name, add it to the recent commands of the palette."""
    if command.names:
        context.agent.settings.choices.save_recent_command(command.id)
    run_unrecorded(context, command, argument)


def run_unrecorded(context: CommandContext, command: Command, argument: str) -> None:
    """Run a command in the app without adding it to the recent commands; show a notice if it raises an error."""
    with context.required_app_view.failures.report_errors():
        command.run(context, argument)
        context.required_app_view.session_title.refresh()


_PROMPT_PREFIX = "prompt:"


def _as_prompt_command(prompt: ServerPrompt) -> Command:
    """Return the command that sends a prompt of a tool server."""
    return Command(
        f"{_PROMPT_PREFIX}{prompt.handle}",
        f"/{prompt.handle}",
        f"{prompt.description or prompt.prompt.name} (prompt of {prompt.server})",
        partial(_send_prompt, prompt=prompt),
        names=(prompt.handle,),
        argument=prompt.hint,
        choices=partial(_prompt_choices, prompt=prompt),
        is_prompt=True,
    )


def _send_prompt(context: CommandContext, argument: str, *, prompt: ServerPrompt) -> None:
    """Send the prompt of a tool server, which returns the text when the turn begins.

    If one required argument is missing, put its name into the prompt, where the server completes the value. If several
    are missing, open a form.
    """
    from qcode.agent.mcp.mentions import arguments_of, missing_arguments
    from qcode.protocol.errors import InputError

    typed = f"/{prompt.handle} {argument}".rstrip()
    try:
        values = arguments_of(prompt.prompt, argument)
        missing = missing_arguments(prompt.prompt, values)
    except InputError as refusal:
        _refuse_prompt(context, f"/{prompt.handle}: {refusal}.", typed)
        return
    if not missing:
        context.view.send(typed, typed, NO_OPTIONS)
    elif len(missing) > 1 and context.app_view is not None:
        _open_form(context, prompt, values, typed)
    else:
        names = ", ".join(one_line(missing_argument.name) for missing_argument in missing)
        problem = f"/{prompt.handle} needs {names}. Add the value and press Enter."
        _refuse_prompt(context, problem, f"{typed} {one_line(missing[0].name)}=")


def _refuse_prompt(context: CommandContext, problem: str, text_to_complete: str) -> None:
    """Show why the prompt was not sent, and put `text_to_complete` into the prompt."""
    context.view.notify("warning", problem)
    if context.app_view is not None:
        context.app_view.prompt.put_back(text_to_complete)


def _open_form(context: CommandContext, prompt: ServerPrompt, values: Mapping[str, str], typed: str) -> None:
    """Ask for the arguments in a form; if the user closes it, put the typed text back into the prompt."""
    from qcode.tui.screens.arguments import ArgumentsForm

    app_view = context.required_app_view

    def on_close(text: str | None) -> None:
        if text:
            context.view.send(text, text, NO_OPTIONS)
        else:
            app_view.prompt.put_back(typed)

    app_view.open_screen(ArgumentsForm(prompt, values), on_close)


def _prompt_choices(context: CommandContext, *, prompt: ServerPrompt) -> Sequence[str]:
    """Return completions of the server for the arguments that are being typed."""
    command_start = f"/{prompt.handle} "
    if context.app_view is None or not context.app_view.prompt.text.lower().startswith(command_start):
        return ()
    completion = context.app_view.attachments.servers
    if completion is None:
        return ()
    return completion.arguments(prompt, context.app_view.prompt.text[len(command_start) :])


def find_command(name: str, commands: Sequence[Command]) -> Command | None:
    """Return the command typed as `/name`, by its name or an alias. Case is ignored."""
    lower_name = name.lower()
    return next((command for command in commands if lower_name in command.names), None)


def typed_names(commands: Sequence[Command]) -> list[str]:
    """Return every name and alias that can be typed after a slash."""
    return [name for command in commands for name in command.names]


def unknown_command(name: str, commands: Sequence[Command]) -> str:
    """Return the error about an unknown command, with the nearest name."""
    return unknown_name_error(f"command /{name}", name, typed_names(commands), "/help lists them.", "/{}")


def unexpected_argument(name: str, argument: str, command: Command) -> str:
    """Return the error about an argument of a command that takes none; empty if there is no error."""
    if not argument or command.argument or command.is_prompt:
        return ""
    return f"/{name} takes no argument. Type /{name} without {quoted_line(argument, 40)}."


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
    left_widths = [cell_len(left) for left, _ in rows]
    width = max((cells for cells in left_widths if cells <= _MAX_LEFT_CELLS), default=0)
    lines: list[str] = []
    for (left, right), cells in zip(rows, left_widths, strict=True):
        fits = cells <= width
        lines += [] if fits else [left]
        lines.append(f"{left}{' ' * (width - cells)}  {right}" if fits else f"{' ' * width}  {right}")
    return "\n".join(lines)


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
    command = find_command(name, context.commands)
    if command is None:
        return ()
    query = argument.lower()
    choices = sorted(command.choices(context), key=lambda choice: _match_rank(choice.lower(), query))
    if argument in choices:
        return ()  # the command is complete: Enter must run it, not a longer one that starts with it
    # Enter after `/mcp restart` must not restart the first of several servers, only insert its name.
    is_ambiguous = sum(choice.lower().startswith(f"{query} ") for choice in choices) > 1
    return tuple(_argument_row(name, choice, is_sent=not is_ambiguous) for choice in choices if query in choice.lower())


def _match_rank(choice: str, query: str) -> int:
    """Return a sort key for a choice. `gpt-5` finds `openai/gpt-5` before `openai/gpt-5.6`, which also contains it."""
    last_part = choice.rpartition("/")[2]
    if choice == query or last_part == query:
        return 0
    if choice.startswith(query):
        return 1
    return 2 if last_part.startswith(query) else 3


def _argument_row(name: str, choice: str, *, is_sent: bool) -> MenuItem:
    """Return the row of a choice. `is_sent`: Enter also sends the command.

    A choice that ends in `…`, such as `check …` or `allow shell(…)`, is inserted up to there, for the user to complete.
    """
    if choice.endswith(("…", "…)")):
        text = choice.removesuffix(")").removesuffix("…")
        return MenuItem(f"/{name} {text}", choice, is_complete=False)
    return MenuItem(f"/{name} {choice}", choice, is_complete=is_sent)


_FREQUENT = (
    "help", "model", "clear", "resume", "compact", "undo", "diff", "copy", "mode", "cost", "context", "config", "export"
)  # fmt: skip


def frequency_rank(command: Command) -> int:
    """Return a sort key that puts the commands used most first, and all others after them."""
    return _FREQUENT.index(command.id) if command.id in _FREQUENT else len(_FREQUENT)


def _command_rows(start: str, context: CommandContext) -> tuple[MenuItem, ...]:
    """Return the rows of the commands whose name or alias starts with `start`.

    An exact name comes first, then names that start with it, then names such as `docs:review`, whose part after the
    colon starts with it.
    """
    found = filter(None, (_find_name(command, start) for command in context.commands))
    ordered = sorted(found, key=lambda match: (match.rank, frequency_rank(match.command)))
    return tuple(_command_row(match.command, match.name, context) for match in ordered)


class _NameMatch(NamedTuple):
    """A command that is found by the start of one of its names."""

    command: Command
    name: str
    """The name or alias that was found."""
    rank: int
    """0 for the whole name, 1 for its start, 2 for the start of its part after a colon."""


def _find_name(command: Command, start: str) -> _NameMatch | None:
    """Return the first name or alias of a command that `start` finds, None if there is none."""
    for name in command.names:
        if name.startswith(start):
            return _NameMatch(command, name, rank=0 if name == start else 1)
    return next((_NameMatch(command, name, rank=2) for name in command.names if f":{start}" in name), None)


def _command_row(command: Command, name: str, context: CommandContext) -> MenuItem:
    opens_picker = command.opens_picker and context.app_view is not None
    # Enter on a command with choices inserts it and lists the choices.
    has_choices = bool(command.argument) and not opens_picker and bool(command.choices(context))
    is_complete = not has_choices or command.id == "help"
    text = f"/{name} " if command.argument else f"/{name}"
    return MenuItem(text, f"/{name}", command.help, is_complete, hint=command.argument)


def argument_hint(text: str, context: CommandContext) -> str:
    """Return the argument hint to show after `text`, which is a command and nothing else; empty for other text."""
    typed = split_command(text)
    if typed is None:
        return ""
    name, argument = typed
    command = find_command(name, context.commands)
    if argument or command is None or not command.argument:
        return ""
    return command.argument if text.endswith(" ") else f" {command.argument}"
