"""The palette: every command by what it does, with its keys, those used last first; then what a command takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from qcode.tui.commands.command import Command, CommandHost, key_names
from qcode.tui.commands.keymap import keys_of
from qcode.tui.screens.picker import Picker
from qcode.tui.screens.rows import Column, Row

ALONE = "\0"
"""The id of the row that runs a command without an argument."""
_LEFT_OUT = frozenset({"palette", "escape", "interrupt", "keys-empty", "quit-empty"})


class PalettePicker(Picker):
    """Picks a command by its id."""

    ENTER = "run"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("", 2, is_number=False),
        Column("", 1, is_number=False),
    )

    def __init__(self, host: CommandHost, recent: Sequence[str]) -> None:
        rows = [command_row(command, host) for command in host.commands if command.id not in _LEFT_OUT]
        order = {command_id: place for place, command_id in enumerate(recent)}
        rows.sort(key=lambda row: order.get(row.id, len(order)))
        super().__init__("Commands", rows)


class ArgumentPicker(Picker):
    """Picks what a command is run with; `ALONE` where it can do without."""

    ENTER = "run"

    def __init__(self, command: Command, choices: Sequence[str]) -> None:
        rows = [Row(choice, choice) for choice in choices]
        if command.argument.startswith("["):
            rows.insert(0, Row(ALONE, f"/{command.names[0]}", "as it is"))
        super().__init__(command.title, rows)


def command_row(command: Command, host: CommandHost) -> Row:
    """Return a row: the title, how it is typed, its keys, and what it does."""
    typed = f"/{command.names[0]}" if command.names else ""
    keys = key_names(keys_of(command, host))
    also = " ".join((*(f"/{name}" for name in command.names), command.id))
    return Row(command.id, command.title, command.help, cells=(typed, keys), also=also)
