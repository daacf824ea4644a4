"""The one table of commands, read by the slash menu, the key bindings, the palette and `/help`.

A new command goes into the module of its group beside this one; the order of the groups is the order of the menu.
Commands from files become commands like all others.
"""

from __future__ import annotations

from functools import partial

from qcode.config.definitions import CustomCommand
from qcode.protocol.approvals import TurnOptions
from qcode.tui.commands.chat import CHAT, LEAVING, PROMPT, TODOS
from qcode.tui.commands.command import Command, CommandContext
from qcode.tui.commands.controls import CONTROLS, SERVERS
from qcode.tui.commands.help import HELP
from qcode.tui.commands.models import MODELS
from qcode.tui.commands.sessions import SESSIONS
from qcode.tui.commands.view import SETTINGS, VIEW

COMMANDS: tuple[Command, ...] = (
    *HELP,
    *MODELS,
    *CHAT,
    *CONTROLS,
    *SESSIONS,
    *SERVERS,
    *TODOS,
    *PROMPT,
    *VIEW,
    *SETTINGS,
    *LEAVING,
)


def by_id(command_id: str) -> Command:
    return next(command for command in COMMANDS if command.id == command_id)


_CUSTOM_PREFIX = "custom:"


def as_command(custom: CustomCommand) -> Command:
    """Return the command; running it sends its prompt."""
    where = "of this project" if custom.is_from_project else "yours"
    description = custom.description or custom.prompt.strip().split("\n", 1)[0]
    return Command(
        f"{_CUSTOM_PREFIX}{custom.name}",
        f"/{custom.name}",
        f"{description} ({where})",
        partial(_send_custom, custom=custom),
        (custom.name,),
        custom.argument,
    )


def _send_custom(context: CommandContext, arguments: str, *, custom: CustomCommand) -> None:
    options = TurnOptions(custom.model, custom.output, custom.foreign(arguments))
    context.view.send(custom.expand(arguments), f"/{custom.name} {arguments}".rstrip(), options)
