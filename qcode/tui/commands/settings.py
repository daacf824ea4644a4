"""The command of the settings."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.commands.command import Command, CommandHost, nearest, table_text
from qcode.tui.configuring import Setting, outcome_text


def _config(host: CommandHost, argument: str) -> None:
    configuring = host.setup.configuring
    if configuring is None:
        host.say("warning", "The settings cannot be seen here.")
        return
    name, _, value = argument.partition(" ")
    try:
        settings = {setting.name: setting for setting in configuring.settings()}
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    if name and name not in settings:
        close = nearest(name, list(settings))
        host.say("warning", f"There is no setting {name!r}." + (f" Did you mean {close}?" if close else ""))
    elif value.strip():
        _set(host, name, value.strip())
    elif host.has_screens:
        _open(host, name)
    else:
        shown = [settings[name]] if name else list(settings.values())
        lines = table_text([(one.name, f"{one.shown}  ({one.origin})") for one in shown])
        host.show_panel("Settings", f"{lines}\n/config NAME VALUE changes one, in {configuring.file}.")


def _set(host: CommandHost, name: str, value: str) -> None:
    assert host.setup.configuring is not None
    try:
        setting = host.setup.configuring.change(name, value)
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.say("info", outcome_text(setting, is_now=host.apply_setting(setting)))


def _open(host: CommandHost, wanted: str) -> None:
    from qcode.tui.screens.settings import SettingsScreen

    assert host.setup.configuring is not None
    screen = SettingsScreen(host.setup.configuring, host.theme_names, host.apply_setting, wanted=wanted)
    host.open_screen(screen, lambda _: None)


def _choices(host: CommandHost) -> Sequence[str]:
    configuring = host.setup.configuring
    try:
        settings: tuple[Setting, ...] = configuring.settings() if configuring is not None else ()
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
        _choices,
        has_screen=True,
    ),
)
