"""The commands of what is seen: theme, folds, scrolling, copying."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost
from qcode.tui.screens.theme import ThemePicker


def _theme(host: CommandHost, name: str) -> None:
    if name:
        host.use_theme(name)
        return
    host.open_screen(
        ThemePicker(host.themes, host.theme_name, host.use_theme), lambda chosen: _say_theme(host, chosen or "")
    )


def _say_theme(host: CommandHost, chosen: str) -> None:
    if chosen:
        host.say("info", f'Theme {chosen}, for this run. To keep it: theme = "{chosen}" under [ui] in config.toml.')


VIEW: tuple[Command, ...] = (
    Command(
        "theme",
        "Switch the theme",
        "Try the themes on and pick one, or switch to one by name.",
        _theme,
        ("theme",),
        "[name]",
        lambda host: host.theme_names,
    ),
    Command(
        "copy",
        "Copy the last reply",
        "Copy the last reply to the clipboard, through the terminal.",
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
    Command("redraw", "Redraw", "Draw the screen again.", lambda host, _: host.redraw(), keys=("ctrl+l",)),
    Command(
        "palette", "Command palette", "Find a command by name.", lambda host, _: host.open_palette(), keys=("ctrl+p",)
    ),
)
