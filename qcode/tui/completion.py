"""What the menu above the prompt offers for what is typed so far. Pure, apart from the choices a command supplies."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost, find, split_command
from qcode.tui.slash_menu import Choice


def choices_for(text: str, host: CommandHost) -> tuple[Choice, ...]:
    """Return the rows for `text`: commands while the name is typed, then the choices for its argument."""
    typed = split_command(text)
    if typed is None:
        return ()
    name, argument = typed
    if " " not in text:
        return _commands(name.lower(), host)
    command = find(name, host.commands)
    if command is None:
        return ()
    wanted = argument.lower()
    offered = sorted(command.choices(host), key=lambda choice: not choice.lower().startswith(wanted))
    if argument in offered:
        return ()  # it is whole: Enter must run this one, not a longer one that holds it
    return tuple(Choice(f"/{name} {choice}", choice) for choice in offered if wanted in choice.lower())


def _commands(start: str, host: CommandHost) -> tuple[Choice, ...]:
    """Commands whose name or alias begins with `start`, or has it after a colon; exact names first."""
    rows: list[tuple[int, Choice]] = []
    for command in host.commands:
        match = next((name for name in command.names if name.startswith(start)), None)
        inner = next((name for name in command.names if start and f":{start}" in name), None)
        if match is not None or inner is not None:
            rows.append((0 if match == start else 1 if match else 2, _row(command, match or inner or "", host)))
    return tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))


def _row(command: Command, match: str, host: CommandHost) -> Choice:
    is_open = command.has_screen and host.has_screens
    has_choices = bool(command.argument) and not is_open and command.id != "help" and bool(command.choices(host))
    label = f"/{match} {command.argument}".rstrip()
    return Choice(f"/{match} " if command.argument else f"/{match}", label, command.help, not has_choices)
