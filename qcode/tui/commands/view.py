"""The commands of the view: theme, folds, scrolling, copying, settings, the palette.

A screen is loaded when it is opened. `open_palette` runs what the user picks there.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.agent.settings import outcome_text
from qcode.text.match import nearest
from qcode.tui.commands.command import Command, CommandHost, table_text


def _theme(host: CommandHost, name: str) -> None:
    if name:
        host.use_theme(name)
        return
    from qcode.tui.screens.palette import ThemePicker

    host.open_screen(
        ThemePicker(host.themes, host.theme_name, host.try_theme),
        lambda chosen: host.use_theme(chosen) if chosen is not None else None,
    )


VIEW: tuple[Command, ...] = (
    Command(
        "theme",
        "Switch the theme",
        "Try the themes on and pick one, or switch to one by name.",
        _theme,
        ("theme",),
        "[name]",
        lambda host: host.theme_names,
        has_screen=True,
    ),
    Command(
        "copy",
        "Copy the last reply",
        "Copy the last reply to the clipboard.",
        lambda host, _: host.copy_reply(),
        ("copy",),
    ),
    Command(
        "fold",
        "Fold or unfold",
        "Fold or unfold thinking and tool output.",
        lambda host, _: host.toggle_folds(),
        keys=("ctrl+o",),
    ),
    Command(
        "page-up", "Scroll up", "Scroll up a page.", lambda host, _: host.scroll_transcript("page_up"), keys=("pageup",)
    ),
    Command(
        "page-down",
        "Scroll down",
        "Scroll down a page.",
        lambda host, _: host.scroll_transcript("page_down"),
        keys=("pagedown",),
    ),
    Command(
        "top",
        "Scroll to the start",
        "Scroll to the start.",
        lambda host, _: host.scroll_transcript("home"),
        keys=("ctrl+home",),
    ),
    Command(
        "bottom",
        "Scroll to the end",
        "Scroll to the end and stay there.",
        lambda host, _: host.scroll_transcript("end"),
        keys=("ctrl+end",),
    ),
    Command(
        "search",
        "Search the transcript",
        "Search the transcript; again: stay where it led.",
        lambda host, _: host.toggle_search(),
        keys=("ctrl+f",),
    ),
    Command(
        "previous-message",
        "Your earlier message",
        "Go to your message above.",
        lambda host, _: host.jump(-1),
        keys=("alt+up",),
    ),
    Command(
        "next-message",
        "Your later message",
        "Go to your message below, after the last one to the end.",
        lambda host, _: host.jump(1),
        keys=("alt+down",),
    ),
    Command("redraw", "Redraw", "Draw the screen again.", lambda host, _: host.redraw(), keys=("ctrl+l",)),
    Command(
        "palette", "Command palette", "Find a command by name.", lambda host, _: open_palette(host), keys=("ctrl+p",)
    ),
)


def _config(host: CommandHost, argument: str) -> None:
    name, _, value = argument.partition(" ")
    try:
        settings = {setting.name: setting for setting in host.agent.settings.settings()}
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    if name and name not in settings:
        close = nearest(name, list(settings))
        host.say("warning", f"There is no setting {name!r}." + (f" Did you mean {close}?" if close else ""))
    elif value.strip():
        _change_setting(host, name, value.strip())
    elif host.has_screens:
        _open_settings(host, name)
    else:
        shown = [settings[name]] if name else list(settings.values())
        lines = table_text([(one.name, f"{one.shown}  ({one.origin})") for one in shown])
        host.show_panel("Settings", f"{lines}\n/config NAME VALUE changes one, in {host.agent.settings.file}.")


def _change_setting(host: CommandHost, name: str, value: str) -> None:
    try:
        setting = host.agent.settings.change(name, value)
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.say("info", outcome_text(setting, is_now=host.apply_setting(setting)))


def _open_settings(host: CommandHost, wanted: str) -> None:
    from qcode.tui.screens.settings import SettingsScreen

    screen = SettingsScreen(host.agent.settings, host.theme_names, host.apply_setting, wanted=wanted)
    host.open_screen(screen, lambda _: None)


def _setting_choices(host: CommandHost) -> Sequence[str]:
    try:
        settings = host.agent.settings.settings()
    except ValueError:
        return ()
    return tuple(setting.name for setting in settings if not setting.fixed)


SETTINGS: tuple[Command, ...] = (
    Command(
        "config",
        "Settings",
        "Show the settings and where they come from, and change them.",
        _config,
        ("config", "settings"),
        "[name [value]]",
        _setting_choices,
        has_screen=True,
    ),
)


def open_palette(host: CommandHost) -> None:
    """Let the person pick a command, and then what it takes."""
    from qcode.tui.screens.palette import PalettePicker

    def picked(command_id: str | None) -> None:
        command = next((one for one in host.commands if one.id == command_id), None)
        if command is not None:
            _run_picked(host, command)

    host.open_screen(PalettePicker(host, host.agent.settings.choices.recent), picked)


def _run_picked(host: CommandHost, command: Command) -> None:
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
