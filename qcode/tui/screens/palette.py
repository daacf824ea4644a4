"""Command palette and theme picker.

The palette lists every command with its keys, recently used commands first; a second list has the values of the chosen
command's argument. The theme picker applies each theme while it is highlighted; Enter keeps it, closing restores the
previous theme. A separate module, because it loads when one of them first opens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from qcode.tui.commands.command import Command, CommandContext, frequency_rank, key_names
from qcode.tui.commands.keymap import current_keys
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import Picker

NO_ARGUMENT = "\0"
"""Id of the row that runs a command without an argument."""
_EXCLUDED = frozenset({"palette", "escape", "interrupt", "keys-empty", "quit-empty"})
"""Commands that only make sense as a key: a row would do nothing, or repeat the row of another command."""


class PalettePicker(Picker):
    """Picks a command; the result is its id."""

    ENTER = "run"
    HAS_DESCRIPTION = True
    FILLS_SCREEN = True
    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("", weight=1, is_number=False),)

    def __init__(self, context: CommandContext, recent: Sequence[str]) -> None:
        keys = current_keys(context)
        rows = [command_row(command, keys[command.id]) for command in context.commands if command.id not in _EXCLUDED]
        recent_positions = {command_id: index for index, command_id in enumerate(recent)}
        frequency = {command.id: frequency_rank(command) for command in context.commands}
        rows.sort(key=lambda row: (recent_positions.get(row.id, len(recent_positions)), frequency[row.id]))
        super().__init__("Commands", rows)


class ArgumentPicker(Picker):
    """Picks the argument of a command. If it is optional, the first row has the id `NO_ARGUMENT`."""

    ENTER = "run"

    def __init__(self, command: Command, choices: Sequence[str]) -> None:
        rows = [PickerRow(choice, choice) for choice in choices]
        if command.argument.startswith("["):
            rows.insert(0, PickerRow(NO_ARGUMENT, f"/{command.names[0]}", "without an argument"))
        super().__init__(command.title, rows)


def command_row(command: Command, keys: Sequence[str]) -> PickerRow:
    """Return the row of a command: its title, its keys or the text to type, and its description."""
    slash_names = tuple(f"/{name}" for name in command.names)
    keys_or_name = key_names(keys) or next(iter(slash_names), "")
    return PickerRow(
        command.id,
        command.title,
        command.help,
        cells=(keys_or_name,),
        search_text=" ".join((*slash_names, command.id)),
        names=(*command.names, *slash_names),
    )


class ThemePicker(Picker):
    """Picks a theme. `notes` has a note about each theme, by its name."""

    ENTER = "select"

    def __init__(self, notes: Mapping[str, str], current: str, apply: Callable[[str], None]) -> None:
        rows = [PickerRow(name, name, note, is_current=name == current) for name, note in notes.items()]
        super().__init__("Theme", rows, empty="No themes found. Reinstall qcode.")
        self._current = current
        self._apply = apply
        """Applies the theme with a name."""
        self._previewed_name = current

    def show_row(self, row: PickerRow | None) -> None:
        name = row.id if row is not None else self._current
        if name != self._previewed_name:
            self._previewed_name = name
            self._apply(name)

    def action_leave(self) -> None:
        """Clear the filter; without one, close and restore the previous theme."""
        if self.finder.clear_filter():
            return
        if self._previewed_name != self._current:
            self._apply(self._current)
        self.dismiss(None)
