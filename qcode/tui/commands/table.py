"""The table of commands, used by the slash menu, the key bindings, the palette and `/help`.

A new command belongs in the module of its group; the order of the groups is the order of the menu. Custom commands
from files become ordinary commands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from qcode.config.definitions import CustomCommand
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.messages import Block
from qcode.text.clean import cut
from qcode.tui.commands.chat import CHAT, INTERRUPTS, PROMPT, TASKS
from qcode.tui.commands.command import (
    API_KEY_HELD_BACK,
    Command,
    CommandContext,
    find_command,
    key_names,
    run_command,
    run_unrecorded,
    split_command,
    unexpected_argument,
    unknown_command,
)
from qcode.tui.commands.extensions import EXTENSIONS, SERVERS, send_skill
from qcode.tui.commands.help import DOCTOR, HELP
from qcode.tui.commands.keymap import keymap
from qcode.tui.commands.models import MODELS
from qcode.tui.commands.permissions import PERMISSION_MODES, PERMISSIONS
from qcode.tui.commands.sessions import SESSIONS
from qcode.tui.commands.view import SETTINGS, VIEW
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.panels.todos import todos_in
from qcode.tui.prompt.queue import Submission

if TYPE_CHECKING:
    from qcode.agent.skills.skill import Skill

COMMANDS: tuple[Command, ...] = (
    *HELP,
    *MODELS,
    *PERMISSION_MODES,
    *CHAT,
    *PERMISSIONS,
    *EXTENSIONS,
    *DOCTOR,
    *SESSIONS,
    *SERVERS,
    *TASKS,
    *PROMPT,
    *VIEW,
    *SETTINGS,
    *INTERRUPTS,
)


def by_id(command_id: str) -> Command:
    """Return the built-in command with this id."""
    return next(command for command in COMMANDS if command.id == command_id)


_CUSTOM_PREFIX = "custom:"
_SKILL_PREFIX = "skill:"
_MAX_HELP_CHARS, _MAX_HINT_CHARS = 200, 40
_SENDS_PROMPT = frozenset({"plan", "init"})
"""Built-in commands that send a prompt."""
_CANNOT_TAKE_LABELS = "cannot take images or asides. Delete the label, or send it with a message."


def as_custom_command(custom: CustomCommand) -> Command:
    """Return the command that sends the prompt of a file in a `commands` folder."""
    owner = "of this project" if custom.is_from_project else "yours"
    description = custom.description or custom.prompt.strip().split("\n", 1)[0]
    return Command(
        f"{_CUSTOM_PREFIX}{custom.name}",
        f"/{custom.name}",
        f"{description} ({owner})",
        partial(_send_custom, custom=custom),
        names=(custom.name.lower(),),
        argument=custom.argument,
        is_prompt=True,
    )


def _send_custom(context: CommandContext, arguments: str, *, custom: CustomCommand) -> None:
    options = TurnOptions(custom.model, custom.output, external_spans=custom.project_ranges(arguments))
    context.view.send(custom.expand(arguments), f"/{custom.name} {arguments}".rstrip(), options)


def as_skill_command(skill: Skill) -> Command:
    """Return the command that runs a skill, or sends the prompt of a command in Markdown."""
    noun = "command" if skill.is_command else "skill"
    return Command(
        f"{_SKILL_PREFIX}{skill.handle}",
        f"/{skill.handle}",
        f"{cut(skill.description, _MAX_HELP_CHARS)} ({noun}, {skill.folder_label})",
        partial(send_skill, skill=skill),
        names=(skill.handle.lower(),),
        argument=cut(skill.hint, _MAX_HINT_CHARS),
        is_prompt=True,
    )


def can_run_by_key(context: CommandContext, command_id: str) -> bool:
    """Return whether the keys of a command run it now."""
    command = by_id(command_id)
    return command in context.commands and command.when(context)


def run_by_key(context: CommandContext, command_id: str) -> None:
    """Run the command of a key. It is not added to the recent commands."""
    run_unrecorded(context, by_id(command_id), "")


def submit_text(context: CommandContext, text: str, typed_text: str, attached: tuple[Block, ...]) -> None:
    """Send a submitted prompt, run a `/command`, or run a `!line` in the shell.

    `typed_text` is the text as the user typed it. In `text`, the labels of pastes are replaced by the pasted text.
    """
    app_view = context.required_app_view
    app_view.close_help()
    name_and_argument = split_command(text)
    if text.startswith("!"):
        if attached:
            replace(context, typed=typed_text).refuse(f"A shell command {_CANNOT_TAKE_LABELS}")
        elif line := text[1:].strip():
            app_view.start_shell(line)
        return
    if name_and_argument is None and context.api_key_guard.holds_back(text):
        notice = API_KEY_HELD_BACK.format(advice="/connect stores a key")
        replace(context, typed=typed_text).refuse(notice)
        return
    if name_and_argument is None:
        app_view.turns.submit(Submission(text, typed_text, attached))
        return
    name, argument = name_and_argument
    command = find_command(name, context.commands)
    if command is None:
        replace(context, typed=typed_text).refuse(unknown_command(name, context.commands))
        return
    if attached and not (command.is_prompt or command.id in _SENDS_PROMPT):
        replace(context, typed=typed_text).refuse(f"/{name} {_CANNOT_TAKE_LABELS}")
        return
    # Only a command that sends a prompt can have attachments, which are sent with this prompt.
    context.agent.conversation.attach(attached)
    # A command that refuses puts its text back into the prompt, ready for the argument if that is missing.
    lacks_argument = command.needs_argument and not argument
    context = replace(context, typed=f"/{name} " if lacks_argument else typed_text)
    if problem := unexpected_argument(name, argument, command):
        context.refuse(problem)
    else:
        run_command(context, command, argument)


def show_keys_and_todos(context: CommandContext, widgets: MainWidgets) -> None:
    """Pass the keys of commands to the widgets that show them, and show the to-do list of a resumed conversation."""
    keys = keymap(context.agent.context.settings.ui.keys, COMMANDS)
    widgets.todos.key = key_names(keys["todos"][:1])
    widgets.status.change(mode_key=key_names(keys["next-mode"][:1]))
    widgets.approval.mode_key = key_names(keys["next-mode"][:1])
    widgets.aside.attach_key = key_names(keys["add-aside"][:1])
    widgets.search.stay_key = key_names(keys["search"][:1])
    widgets.history_search.older_key = key_names(keys["history-search"][:1])
    widgets.approval.edit_key = widgets.prompt.editor_key = key_names(keys["editor"][:1])
    context.required_app_view.themed_app.fold_keys = keys["fold"]
    widgets.transcript.content.fold_key = widgets.approval.view.show_all_key = key_names(keys["fold"][:1])
    widgets.new_text.key = key_names(keys["bottom"][:1])
    widgets.prompt.show_hint = context.required_app_view.hint
    widgets.todos.replace_items(todos_in(context.agent.conversation.messages))
    context.required_app_view.show_background_key(key_names(keys["background"][:1]))
