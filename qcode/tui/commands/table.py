"""The one table of commands. The slash menu, the key bindings, the palette and `/help` all read it.

A new command goes into the module of its group beside this one; the order of the groups is the order of the menu.
"""

from __future__ import annotations

from collections.abc import Iterator

from qcode.tui.commands.chat import CHAT
from qcode.tui.commands.command import Command
from qcode.tui.commands.controls import CONTROLS
from qcode.tui.commands.custom import as_command
from qcode.tui.commands.help import HELP
from qcode.tui.commands.leaving import LEAVING
from qcode.tui.commands.models import MODELS
from qcode.tui.commands.prompt import PROMPT
from qcode.tui.commands.servers import SERVERS
from qcode.tui.commands.sessions import SESSIONS
from qcode.tui.commands.settings import SETTINGS
from qcode.tui.commands.todos import TODOS
from qcode.tui.commands.view import VIEW
from qcode.tui.setup import AppSetup

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


def enabled(setup: AppSetup) -> Iterator[Command]:
    """Yield the commands this app has, in the order of the table, and then those from files."""
    for command in COMMANDS:
        if setup.commands is None or command.id in setup.commands or not command.names:
            yield command
    yield from map(as_command, setup.custom_commands)


def by_id(command_id: str) -> Command:
    return next(command for command in COMMANDS if command.id == command_id)
