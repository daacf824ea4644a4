"""The keys of each command, including the user's changes, and the key bindings of the app. Pure."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence

from textual.binding import Binding, BindingsMap
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

from qcode.text.match import nearest_hint
from qcode.tui.commands.command import Command, CommandContext
from qcode.tui.terminal.textual_internals import key_of_character

NO_KEY = "none"
"""The value that removes all keys of a command."""

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})
_TEXTUAL_KEYS = frozenset((*(str(key.value) for key in Keys), *KEY_NAME_REPLACEMENTS.values()))


def keymap(user_keys: Mapping[str, str], commands: Sequence[Command]) -> dict[str, tuple[str, ...]]:
    """Return the keys of each command by its id. A key the user assigns is removed from its previous command."""
    ids = {command.id for command in commands}
    assigned = {command_id: _split_keys(keys) for command_id, keys in user_keys.items() if command_id in ids}
    used_keys = {key for keys in assigned.values() for key in keys}
    defaults = {command.id: tuple(key for key in command.keys if key not in used_keys) for command in commands}
    return {**defaults, **assigned}


def bindings(user_keys: Mapping[str, str], commands: Sequence[Command]) -> BindingsMap:
    """Return the key bindings of the app, which take precedence over those of its widgets."""
    keys = keymap(user_keys, commands)
    return BindingsMap(
        Binding(key, f"command('{command.id}')", command.title, show=False, priority=True, id=command.id)
        for command in commands
        for key in keys[command.id]
    )


def current_keys(context: CommandContext) -> dict[str, tuple[str, ...]]:
    """Return the keys of each command by its id, including the user's changes."""
    return keymap(context.agent.context.settings.ui.keys, context.commands)


def key_problems(user_keys: Mapping[str, str], commands: Sequence[Command]) -> Iterator[tuple[str, str]]:
    """Yield the id and an error for each invalid entry: unknown command, unknown key, or one key for two commands."""
    ids = [command.id for command in commands]
    owners: dict[str, str] = {}
    for command_id, keys in user_keys.items():
        if command_id not in ids:
            yield command_id, f"unknown command {command_id}; {nearest_hint(command_id, ids)}"
            continue
        for written in _written_keys(keys):
            key = _textual_key(written)
            if advice := _spelling_advice(written, key):
                yield command_id, f'invalid key "{written}"; {advice}'
            elif not _is_key(key):
                yield command_id, f'unknown key "{key}"; write keys like ctrl+y, alt+enter, f5 or question_mark'
            elif key in owners:
                yield command_id, f"{key} is already the key of {owners[key]}"
            owners.setdefault(key, command_id)


def _split_keys(keys: str) -> tuple[str, ...]:
    """Return the keys in a comma-separated text, with Textual's names; none for `NO_KEY`."""
    return tuple(map(_textual_key, _written_keys(keys)))


def _written_keys(keys: str) -> list[str]:
    """Return the keys in a comma-separated text as the user wrote them; none for `NO_KEY`."""
    if keys.strip().lower() == NO_KEY:
        return []
    return [key.strip() for key in keys.split(",") if key.strip()]


def _textual_key(key: str) -> str:
    """Return a key as Textual reports it.

    Examples: `?` is `question_mark`, `Shift+Ctrl+Y` is `ctrl+shift+y`, `shift+y` is `Y`.
    """
    names = key.split("+")
    if names[-2:] == ["", ""]:
        names[-2:] = ["+"]  # the key `+` itself: `+` or `ctrl++`
    *modifiers, last = names
    if len(last) == 1 and not last.isalnum():
        last = key_of_character(last)
    modifiers = sorted(modifier.lower() for modifier in modifiers)
    is_character = len(last) == 1
    if modifiers == ["shift"] and is_character and last.isalpha():
        return last.upper()
    if modifiers or not is_character:
        last = last.lower()
    return "+".join((*modifiers, last))


def _spelling_advice(written: str, key: str) -> str:
    """Return what to write instead of a key that no terminal reports, or that may mean two keys; empty for others.

    `key` is the key with Textual's names. A terminal reports Shift+1 as the character that it types. `alt+Y` may be
    Alt with Y or Alt with Shift; `Alt+Y` is written as on the keyboard and in the list of keys.
    """
    *modifiers, last = key.split("+")
    if modifiers == ["shift"] and _is_character(last):
        return 'write the character that it types, such as "!" for Shift+1'
    if written.startswith("alt+") and modifiers == ["alt"] and written[-1:].isupper() and len(last) == 1:
        return f"write alt+{last} or alt+shift+{last}"
    return ""


def _is_key(key: str) -> bool:
    """Return whether Textual can report `key`, which has Textual's names."""
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS or len(set(modifiers)) != len(modifiers):
        return False
    return _is_character(last) or last in _TEXTUAL_KEYS


def _is_character(name: str) -> bool:
    """Return whether a key types a character, such as `a`, `1` or `question_mark`. The keys Space and Tab do not."""
    if len(name) == 1:
        return True
    # `key_to_character` accepts every Unicode name, such as `tangerine`, so the character must be on a keyboard.
    character = key_to_character(name)
    return character is not None and character in string.punctuation
