"""The commands that explain: help and the list of keys."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.commands.command import (
    Command,
    CommandHost,
    find,
    is_prompt_empty,
    key_names,
    keys_of,
    nearest,
    table_text,
    typed_names,
)

PROMPT_KEYS: tuple[tuple[str, str], ...] = (
    ("Enter", "Send; while the model works: queue for its next step."),
    ("Shift+Enter, Alt+Enter, Ctrl+J", "New line (also a \\ at the end of the line, then Enter)."),
    ("Up, Down", "At the first or last line: earlier and later prompts."),
    ("Tab", "Complete a command; unfold a pasted text."),
    ("Esc Esc", "Clear the prompt; Up brings it back. Empty: rewind."),
)
"""Keys of the prompt itself, for the list of keys."""


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
        keys = keys_of(command, host.setup)
        if keys:
            rows.append((key_names(keys), command.help))
    return table_text(rows)


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
