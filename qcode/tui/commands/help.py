"""The commands `/help`, `/keys` and `/doctor`, and the texts of help and keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from qcode.text.clean import quoted
from qcode.text.match import suggestion, with_hint
from qcode.tui.commands.command import (
    Command,
    CommandContext,
    find_command,
    is_prompt_empty,
    key_names,
    table_text,
    typed_names,
)
from qcode.tui.commands.keymap import current_keys
from qcode.tui.prompt.editing import EDITING_KEYS

PROMPT_KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "Send the prompt; while the model works, queue it for the next step."),
    ("Shift+Enter, Alt+Enter, Ctrl+J", "Start a new line (\\ at the end of a line and Enter does the same)."),
    ("Up, Down", "Recall an earlier prompt (on the first line), or a later one (on the last line)."),
    ("Up", "Take back the last queued prompt if the prompt is empty."),
    ("Backspace", "Remove the last attachment if the prompt is empty."),
    ("Tab", "Complete a command or a file; expand a pasted text."),
    ("Esc Esc", "Clear the prompt (Up restores it); rewind if the prompt is empty."),
    ("@", "Attach a file (@path), lines of it (@path:10-20) or a folder list (@folder/)."),
    ("!", "Run a shell command; its output goes to the model with your next message."),
)
"""Keys of the prompt itself, for the list of keys. Its editing keys are `EDITING_KEYS`."""

_DEMO, _ALL = "demo", "all"
"""The topics of `/help` that are not commands."""
_LINEAR_COMMANDS = (
    "help",
    "model",
    "mode",
    "plan",
    "clear",
    "trust",
    "output",
    "todos",
    "diff",
    "cost",
    "export",
    "quit",
)
"""The commands that `/help` explains in the linear mode; it only names the others, because the text is read aloud."""


def help_text(context: CommandContext) -> str:
    """Return the list of slash commands and help topics; in the linear mode only the main commands are explained."""
    if context.app_view is None:
        return _linear_help(context, _LINEAR_COMMANDS)
    rows = [(command.usage, command.help) for command in context.commands if command.names]
    return f"{table_text(rows)}\n\nTopics: /help {_DEMO}\n\n{_keys_of_lists(context)}".rstrip()


def _keys_of_lists(context: CommandContext) -> str:
    """Return the sentence with the keys of the key list and the palette; empty if the user has removed them."""
    keys = current_keys(context)
    list_keys = (*keys["keys-empty"], *keys["keys"])
    sentences = [f"{' or '.join(key_names([key]) for key in list_keys)} shows the keys."] if list_keys else []
    if keys["palette"]:
        sentences.append(f"{key_names(keys['palette'][:1])} opens the palette.")
    return " ".join(sentences)


def _linear_help(context: CommandContext, explained: Sequence[str]) -> str:
    """Return the `explained` commands as sentences, the names of the others, and the keys of the linear mode."""
    commands = [command for command in context.commands if command.names]
    lines = [f"{command.usage}: {command.help}" for command in commands if command.names[0] in explained]
    if others := [f"/{command.names[0]}" for command in commands if command.names[0] not in explained]:
        lines.append(f"More commands: {', '.join(others)}.")
        lines.append(f"/help {_ALL} explains all of them, /help with a name explains one.")
    return "\n".join([*lines, f"/help {_DEMO} lists what the demo model answers.", _LINEAR_KEYS])


_LINEAR_KEYS = (
    "Ctrl+C interrupts a turn; twice at the prompt, it quits. Ctrl+D quits; at a question it means no. A backslash at "
    "the end of a line continues it on the next one."
)


def demo_text() -> str:
    """Return the prompts that the demo model understands."""
    from qcode.providers.demo.scenarios import SCENARIOS

    width = max(len(scenario.request) for scenario in SCENARIOS)
    rows = [f"  {scenario.request:<{width}}  {scenario.result}" for scenario in SCENARIOS]
    return "\n".join(("The demo model answers these requests:", *rows))


def keys_text(context: CommandContext) -> str:
    """Return the list of keys, including those the user has changed."""
    keys = current_keys(context)
    commands = [command for command in context.commands if keys[command.id]]
    command_keys = [(key_names(keys[command.id]), command.help) for command in commands]
    editing_keys = [(key_names(names.split(",")), meaning) for names, _, meaning in EDITING_KEYS]
    text = f"{table_text([*PROMPT_KEYS, *command_keys])}\n\nEditing\n{table_text(editing_keys)}"
    if not context.required_app_view.prompt.has_vim:
        return text
    from qcode.tui.prompt.vim.grammar import VIM_KEYS

    return f"{text}\n\nVim mode\n{table_text(VIM_KEYS)}"


def _keys(context: CommandContext, _argument: str) -> None:
    context.required_app_view.toggle_panel("Keys", keys_text(context))


def _help(context: CommandContext, topic: str) -> None:
    if not topic:
        context.view.show_panel("Help", help_text(context))
    elif topic == _ALL:
        explains_all = context.app_view is not None
        text = help_text(context) if explains_all else _linear_help(context, typed_names(context.commands))
        context.view.show_panel("Help", text)
    elif topic == _DEMO:
        context.view.show_panel("Demo model", demo_text())
    elif (command := find_command(topic.removeprefix("/"), context.commands)) is not None:
        aliases = ", ".join(f"/{alias}" for alias in command.names[1:])
        context.view.show_panel(command.usage, command.help + (f"\nAlso: {aliases}" if aliases else ""))
    else:
        hint = suggestion(topic, [_DEMO, _ALL, *typed_names(context.commands)], "/help lists the topics.", "/help {}")
        context.refuse(with_hint(f"No help on {quoted(topic)}", hint))


def _help_topics(context: CommandContext) -> Sequence[str]:
    return (_DEMO, _ALL, *(command.names[0] for command in context.commands if command.names))


HELP: tuple[Command, ...] = (
    Command(
        "help",
        "Help",
        "Show the commands, or help on one topic.",
        _help,
        names=("help",),
        argument="[topic]",
        choices=_help_topics,
    ),
    Command(
        "keys",
        "Show keys",
        "Show or hide the list of keys.",
        _keys,
        names=("keys",),
        keys=("f1",),
        needs_app=True,
    ),
    Command(
        "keys-empty",
        "Show keys",
        "Show or hide the list of keys if the prompt is empty.",
        _keys,
        keys=("question_mark",),
        when=is_prompt_empty,
        needs_app=True,
    ),
)


def _doctor(context: CommandContext, _argument: str) -> None:
    if context.app_view is not None:
        from qcode.tui.screens.inspection import FindingsScreen

        examine = partial(context.agent.doctor_lines, is_in_app=True)
        context.app_view.open_screen(FindingsScreen(examine, context.app_view.copy_text), lambda _: None)
    else:
        context.view.run_later(_show_findings(context))


async def _show_findings(context: CommandContext) -> None:
    context.view.show_panel("Doctor", "\n".join(await asyncio.to_thread(context.agent.doctor_lines, is_in_app=True)))


DOCTOR: tuple[Command, ...] = (
    Command(
        "doctor",
        "Doctor",
        "Check terminal, tools and configuration.",
        _doctor,
        names=("doctor",),
    ),
)
