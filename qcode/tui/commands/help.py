"""The commands that explain: help and the list of keys."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.commands.command import (
    Command,
    CommandHost,
    find,
    is_prompt_empty,
    key_names,
    nearest,
    table_text,
    typed_names,
)
from qcode.tui.commands.keymap import keys_of
from qcode.tui.prompt_editing import EDITING_KEYS

PROMPT_KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "Send; while the model works: queue for its next step."),
    ("Shift+Enter, Alt+Enter, Ctrl+J", "New line (also a \\ at the end of the line, then Enter)."),
    ("Up, Down", "At the first or last line: earlier and later prompts."),
    ("Up", "On an empty prompt, while the model works: take back what was queued last."),
    ("Tab", "Complete a command or a file; unfold a pasted text."),
    ("Esc Esc", "Clear the prompt; Up brings the text back. On an empty prompt: rewind."),
    ("@", "Complete a file; @path attaches it, @path:10-20 some lines, @folder/ its list."),
    ("!", "At the start: run a line in the shell; its output goes to the model with your next message."),
)
"""Keys of the prompt itself, for the list of keys; those of its editing are `EDITING_KEYS`."""


def help_text(host: CommandHost) -> str:
    """Return the list of typed commands and of help topics."""
    rows = [(command.usage, command.help) for command in host.commands if command.names]
    lines = table_text(rows)
    if host.setup.help_topics:
        lines += f"\n\nTopics: {', '.join(f'/help {topic}' for topic in host.setup.help_topics)}"
    return f"{lines}\n\n? or F1 shows the keys, Ctrl+P the palette."


def keys_text(host: CommandHost) -> str:
    """Return the list of keys, the ones a person has rebound included."""
    rows = list(PROMPT_KEYS)
    for command in host.commands:
        keys = keys_of(command, host)
        if keys:
            rows.append((key_names(keys), command.help))
    editing = [(key_names(keys.split(",")), meaning) for keys, _, meaning in EDITING_KEYS]
    return f"{table_text(rows)}\n\nEditing\n{table_text(editing)}"


def _keys(host: CommandHost, _argument: str) -> None:
    host.toggle_panel("Keys", keys_text(host))


def _help(host: CommandHost, topic: str) -> None:
    topics = host.setup.help_topics
    if not topic:
        host.show_panel("Help", help_text(host))
    elif topic in topics:
        host.show_panel(topic, topics[topic]())
    elif (command := find(topic.removeprefix("/"), host.commands)) is not None:
        also = f"\nAlso: {', '.join('/' + name for name in command.names[1:])}" if command.names[1:] else ""
        host.show_panel(command.usage, command.help + also)
    else:
        close = nearest(topic, [*topics, *typed_names(host.commands)])
        host.say("warning", f"No help on {topic!r}." + (f" Did you mean /help {close}?" if close else ""))


def _help_topics(host: CommandHost) -> Sequence[str]:
    return (*host.setup.help_topics, *(c.names[0] for c in host.commands if c.names))


HELP: tuple[Command, ...] = (
    Command("help", "Help", "Show the commands, or help on one topic.", _help, ("help",), "[topic]", _help_topics),
    Command(
        "keys",
        "Show keys",
        "Show or hide the list of keys.",
        _keys,
        ("keys",),
        keys=("f1",),
    ),
    Command(
        "keys-empty",
        "Show keys",
        "Show or hide the list of keys, on an empty prompt.",
        _keys,
        keys=("question_mark",),
        when=is_prompt_empty,
    ),
)
