"""Commands from files as commands of the app: typed, in the menu, the palette and the help like all others."""

from __future__ import annotations

from functools import partial

from qcode.config.custom_commands import CustomCommand
from qcode.protocol.conversation import TurnOptions
from qcode.tui.commands.command import Command, CommandHost

_PREFIX = "custom:"


def as_command(custom: CustomCommand) -> Command:
    """Return the command; running it sends its prompt."""
    where = "of this project" if custom.is_from_project else "yours"
    description = custom.description or custom.prompt.strip().split("\n", 1)[0]
    return Command(
        f"{_PREFIX}{custom.name}",
        f"/{custom.name}",
        f"{description} ({where})",
        partial(_send, custom=custom),
        (custom.name,),
        custom.argument,
    )


def is_custom(command: Command) -> bool:
    return command.id.startswith(_PREFIX)


def _send(host: CommandHost, arguments: str, *, custom: CustomCommand) -> None:
    options = TurnOptions(custom.model, custom.output)
    host.send(custom.expand(arguments), f"/{custom.name} {arguments}".rstrip(), options)
