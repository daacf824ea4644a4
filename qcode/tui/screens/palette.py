"""Command palette and theme picker.

The palette lists every command with its keys, recently used ones first, then the values of its argument. The theme
picker applies each theme while it is highlighted; Enter keeps it, closing restores the previous one.

Separate from the commands because it loads only when it opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from qcode.tui.commands.command import Command, CommandContext, frequency_rank, key_names
from qcode.tui.commands.help import keys_of
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import DescribedPicker, Picker

NO_ARGUMENT = "\0"
"""Id of the row that runs a command without an argument."""
_EXCLUDED = frozenset({"palette", "escape", "interrupt", "keys-empty", "quit-empty"})


class PalettePicker(DescribedPicker):
    """Picks a command by its id."""

    ENTER = "run"
    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("", 1, is_number=False),)

    def __init__(self, context: CommandContext, recent: Sequence[str]) -> None:
        rows = [command_row(command, context) for command in context.commands if command.id not in _EXCLUDED]
        order = {command_id: index for index, command_id in enumerate(recent)}
        frequency = {command.id: frequency_rank(command) for command in context.commands}
        rows.sort(key=lambda row: (order.get(row.id, len(order)), frequency[row.id]))
        super().__init__("Commands", rows)


class ArgumentPicker(Picker):
    """Picks the argument of a command; `NO_ARGUMENT` if it is optional."""

    ENTER = "run"

    def __init__(self, command: Command, choices: Sequence[str]) -> None:
        rows = [PickerRow(choice, choice) for choice in choices]
        if command.argument.startswith("["):
            rows.insert(0, PickerRow(NO_ARGUMENT, f"/{command.names[0]}", "without an argument"))
        super().__init__(command.title, rows)


def command_row(command: Command, context: CommandContext) -> PickerRow:
    """Return a row: title, its keys or its name, and description."""
    typed = f"/{command.names[0]}" if command.names else ""
    keys = key_names(keys_of(command, context))
    slashed = tuple(f"/{name}" for name in command.names)
    also = " ".join((*slashed, command.id))
    return PickerRow(
        command.id, command.title, command.help, cells=(keys or typed,), also=also, names=(*command.names, *slashed)
    )


class ThemePicker(Picker):
    """Picks a theme. `use` applies one by name; `themes` are names with a note each."""

    ENTER = "select"

    def __init__(self, themes: Sequence[tuple[str, str]], current: str, use: Callable[[str], None]) -> None:
        rows = [PickerRow(name, name, detail, name == current) for name, detail in themes]
        super().__init__("Theme", rows, empty="No themes found. Reinstall qcode.")
        self._current = current
        self._use = use
        self._previewed_name = current

    def show_row(self, row: PickerRow | None) -> None:
        name = row.id if row is not None else self._current
        if name != self._previewed_name:
            self._previewed_name = name
            self._use(name)

    def action_leave(self) -> None:
        """Clear the filter; without one, close and restore the previous theme."""
        if self.finder.clear_filter():
            return
        if self._previewed_name != self._current:
            self._use(self._current)
        self.dismiss(None)
