"""The commands of what is seen: theme, folds, scrolling, copying."""

from __future__ import annotations

from qcode.tui.commands.command import Command, CommandHost


def _theme(host: CommandHost, name: str) -> None:
    if name:
        host.use_theme(name)
        return
    from qcode.tui.screens.theme import ThemePicker

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
        "palette", "Command palette", "Find a command by name.", lambda host, _: host.open_palette(), keys=("ctrl+p",)
    ),
)
