"""Opens the palette and runs what is picked there; also notes which commands a person uses."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost


def open_palette(host: CommandHost) -> None:
    """Let the person pick a command, and then what it takes."""
    from qcode.tui.screens.palette import PalettePicker

    def picked(command_id: str | None) -> None:
        command = next((one for one in host.commands if one.id == command_id), None)
        if command is not None:
            _run(host, command)

    host.open_screen(PalettePicker(host, host.recent_commands), picked)


def _run(host: CommandHost, command: Command) -> None:
    """Run a command; one that offers values asks for one first, one that needs a word of the person gets a prompt."""
    choices = command.choices(host) if command.argument and not command.has_screen else ()
    if choices:
        from qcode.tui.screens.palette import ALONE, ArgumentPicker

        def picked(argument: str | None) -> None:
            if argument is not None:
                host.run_command(command, "" if argument == ALONE else argument)

        host.open_screen(ArgumentPicker(command, choices), picked)
    elif command.argument and not command.argument.startswith("["):
        host.write_prompt(f"/{command.names[0]} ")
    else:
        host.run_command(command, "")
