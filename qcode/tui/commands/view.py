"""The commands of the view: theme, folds, scrolling, copying, settings, the palette.

A screen is loaded when it opens. `open_palette` runs the command that the user picks there.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.agent.settings import outcome_text
from qcode.config.paths import with_tilde
from qcode.text.clean import quoted
from qcode.text.match import unknown_name_error
from qcode.tui.commands.command import Command, CommandContext, is_prompt_empty, run_command, table_text
from qcode.tui.theme import AUTO


def _theme(context: CommandContext, name: str) -> None:
    if name:
        if context.required_app_view.use_theme(name):
            context.view.notify("info", _theme_text(context, name))
        else:
            context.keep_typed()
        return
    from qcode.tui.screens.palette import ThemePicker

    def on_pick(chosen: str | None) -> None:
        if chosen is not None:
            _theme(context, chosen)

    app = context.required_app_view.themed_app
    screen = ThemePicker(app.theme_notes, app.theme_choice, app.apply_theme)
    context.required_app_view.open_screen(screen, on_pick)


def _theme_text(context: CommandContext, name: str) -> str:
    """Return the name of the chosen theme, with a reason if the theme is not in effect now or at the next start."""
    app = context.required_app_view.themed_app
    text = f"Theme: {name}"
    if name != AUTO and app.has_few_colors and not app.available_themes[name].ansi:
        text += " (needs 256 colors; this terminal has 16 or fewer)"
    try:
        settings = context.agent.settings.settings()
    except ValueError:  # the configuration file is invalid
        settings = ()
    setting = next((setting for setting in settings if setting.name == "ui.theme"), None)
    has_other_theme = setting is not None and setting.value not in (None, "", name)
    # A flag, whose origin starts with `--`, is not given again at the next start.
    if setting is not None and has_other_theme and not setting.origin.startswith("--"):
        source = setting.origin.rpartition("/")[2].partition(":")[0]  # `config.toml` for `/home/a/config.toml:3`
        text += f", for this session; ui.theme ({source}) sets {setting.value} at the next start"
    return f"{text}."


VIEW: tuple[Command, ...] = (
    Command(
        "theme",
        "Switch the theme",
        "Preview and choose a theme, or switch by name.",
        _theme,
        names=("theme",),
        argument="[name]",
        choices=lambda context: (AUTO, *context.required_app_view.themed_app.theme_names),
        opens_picker=True,
        needs_app=True,
    ),
    Command(
        "copy",
        "Copy a reply or code",
        "Choose a reply or a code block and copy it.",
        lambda context, _: context.view.copy_reply(),
        names=("copy",),
        opens_picker=True,
    ),
    Command(
        "suspend",
        "Suspend",
        "Suspend qcode; fg in the shell resumes it. If the prompt has changes to undo, Ctrl+Z undoes them first.",
        lambda context, _: context.required_app_view.suspend(),
        keys=("ctrl+z",),
        when=is_prompt_empty,
        needs_app=True,
    ),
    Command(
        "fold",
        "Fold or unfold",
        "Fold or unfold reasoning and tool output; show all of a long question.",
        lambda context, _: context.required_app_view.fold(),
        keys=("ctrl+o",),
        needs_app=True,
    ),
    Command(
        "choose-card",
        "Choose a card",
        "Choose a card with j and k; Enter folds or unfolds it, Esc returns to the prompt.",
        lambda context, _: context.required_app_view.choose_card(),
        keys=("alt+o",),
        needs_app=True,
    ),
    Command(
        "page-up",
        "Scroll up",
        "Scroll up a page.",
        lambda context, _: context.required_app_view.scroll_transcript("page_up"),
        keys=("pageup",),
        needs_app=True,
    ),
    Command(
        "page-down",
        "Scroll down",
        "Scroll down a page.",
        lambda context, _: context.required_app_view.scroll_transcript("page_down"),
        keys=("pagedown",),
        needs_app=True,
    ),
    Command(
        "top",
        "Scroll to the start",
        "Scroll to the start.",
        lambda context, _: context.required_app_view.scroll_transcript("home"),
        keys=("ctrl+home",),
        needs_app=True,
    ),
    Command(
        "bottom",
        "Scroll to the end",
        "Scroll to the end and stay there.",
        lambda context, _: context.required_app_view.scroll_transcript("end"),
        keys=("ctrl+end",),
        needs_app=True,
    ),
    Command(
        "search",
        "Search the transcript",
        "Search the transcript. Press it again to stay at the match.",
        lambda context, _: context.required_app_view.toggle_search(),
        keys=("ctrl+f",),
        needs_app=True,
    ),
    Command(
        "previous-message",
        "Your previous message",
        "Go to your previous message.",
        lambda context, _: context.required_app_view.jump(-1),
        keys=("alt+up",),
        needs_app=True,
    ),
    Command(
        "next-message",
        "Your next message",
        "Go to your next message, or to the end.",
        lambda context, _: context.required_app_view.jump(1),
        keys=("alt+down",),
        needs_app=True,
    ),
    Command(
        "redraw",
        "Redraw",
        "Redraw the screen.",
        lambda context, _: context.required_app_view.themed_app.redraw(),
        keys=("ctrl+l",),
        needs_app=True,
    ),
    Command(
        "palette",
        "Command palette",
        "Find a command by name.",
        lambda context, _: open_palette(context),
        keys=("ctrl+p",),
        needs_app=True,
    ),
)


def _config(context: CommandContext, argument: str) -> None:
    name, _, value = argument.partition(" ")
    try:
        settings = {setting.name: setting for setting in context.agent.settings.settings()}
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    if name and name not in settings:
        context.refuse(unknown_name_error(f"setting {quoted(name)}", name, settings, "/config lists them."))
    elif value.strip():
        _change_setting(context, name, value.strip())
    elif context.app_view is not None:
        _open_settings(context, name)
    else:
        listed = [settings[name]] if name else list(settings.values())
        lines = table_text([(setting.name, f"{setting.display}  ({with_tilde(setting.origin)})") for setting in listed])
        hint = f"/config NAME VALUE changes one. File: {context.agent.settings.file}."
        context.view.show_panel("Settings", f"{lines}\n{hint}")


def _change_setting(context: CommandContext, name: str, value: str) -> None:
    themes = (AUTO, *context.app_view.themed_app.theme_names) if context.app_view is not None else ()
    if name == "ui.theme" and themes and value not in themes:
        context.refuse(unknown_name_error(f"theme {quoted(value)}", value, themes, "/theme lists them."))
        return
    try:
        setting = context.agent.settings.change(name, value)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    context.view.notify("info", outcome_text(setting, is_now=context.view.apply_setting(setting)))


def _vim(context: CommandContext, _argument: str) -> None:
    """Turn vim mode on or off, and save the choice in the user's config file."""
    is_on = not context.required_app_view.prompt.has_vim
    try:
        setting = context.agent.settings.change("ui.vim", "true" if is_on else "false")
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    context.view.apply_setting(setting)
    if setting.overridden_by:
        context.view.notify("info", outcome_text(setting, is_now=True))
    else:
        context.view.notify("info", "Vim mode on: Esc for normal mode, i to type." if is_on else "Vim mode off.")


def _open_settings(context: CommandContext, name: str) -> None:
    from qcode.tui.screens.settings import SettingsScreen

    app_view = context.required_app_view
    screen = SettingsScreen(context.agent.settings, app_view.themed_app.theme_names, app_view.apply_setting, name=name)
    app_view.open_screen(screen, lambda _: None)


def _setting_choices(context: CommandContext) -> Sequence[str]:
    try:
        settings = context.agent.settings.settings()
    except ValueError:
        return ()
    return tuple(setting.name for setting in settings if not setting.fixed_reason)


SETTINGS: tuple[Command, ...] = (
    Command(
        "config",
        "Settings",
        "Show and change settings.",
        _config,
        names=("config", "settings"),
        argument="[name [value]]",
        choices=_setting_choices,
        opens_picker=True,
    ),
    Command(
        "vim",
        "Switch vim mode",
        "Turn vim mode for the prompt on or off.",
        _vim,
        names=("vim",),
        needs_app=True,
    ),
)


def open_palette(context: CommandContext) -> None:
    """Let the user pick a command, and then its argument."""
    from qcode.tui.screens.palette import PalettePicker

    def on_pick(command_id: str | None) -> None:
        command = next((candidate for candidate in context.commands if candidate.id == command_id), None)
        if command is not None:
            _run_picked(context, command)

    context.required_app_view.open_screen(
        PalettePicker(context, context.agent.settings.choices.recent_commands), on_pick
    )


def _run_picked(context: CommandContext, command: Command) -> None:
    """Run a command. If it has choices, ask for one first; if it needs typed text, put it into the prompt."""
    choices = command.choices(context) if command.argument and not command.opens_picker else ()
    if choices:
        from qcode.tui.screens.palette import NO_ARGUMENT, ArgumentPicker

        def on_pick(argument: str | None) -> None:
            if argument is not None:
                run_command(context, command, "" if argument == NO_ARGUMENT else argument)

        context.required_app_view.open_screen(ArgumentPicker(command, choices), on_pick)
    elif command.needs_argument:
        context.required_app_view.write_prompt(f"/{command.names[0]} ")
    else:
        run_command(context, command, "")
