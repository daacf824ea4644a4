"""The person's own keys: what is wrong with them, and which keys each command has in the end. Pure."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence

from textual.binding import Binding, BindingsMap
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key, key_to_character

from qcode.tui.commands.command import Command, CommandHost, nearest

NO_KEY = "none"
"""What takes a command its keys away."""

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})
_NAMED = frozenset((*(str(key.value) for key in Keys), *KEY_NAME_REPLACEMENTS.values()))


def keymap(own: Mapping[str, str], commands: Sequence[Command]) -> dict[str, tuple[str, ...]]:
    """Return the keys of each command by its id. A key the person gave away is taken from whoever had it."""
    known = {command.id for command in commands}
    given = {command_id: _split(keys) for command_id, keys in own.items() if command_id in known}
    taken = {key for keys in given.values() for key in keys}
    return {
        command.id: given[command.id] if command.id in given else tuple(key for key in command.keys if key not in taken)
        for command in commands
    }


def bindings(own: Mapping[str, str], commands: Sequence[Command]) -> BindingsMap:
    """Return what the keys of the app do; they come before any widget's."""
    keys = keymap(own, commands)
    return BindingsMap(
        Binding(key, f"command('{command.id}')", command.title, show=False, priority=True, id=command.id)
        for command in commands
        for key in keys[command.id]
    )


def keys_of(command: Command, host: CommandHost) -> tuple[str, ...]:
    """Return the keys of a command after the person's own bindings."""
    return keymap(host.setup.keys, host.commands).get(command.id, command.keys)


def problems(own: Mapping[str, str], commands: Sequence[Command]) -> Iterator[tuple[str, str]]:
    """Yield the id and, in words, what is wrong: an unknown command, no key, one key for two commands."""
    known = [command.id for command in commands]
    owners: dict[str, str] = {}
    for command_id, keys in own.items():
        if command_id not in known:
            close = nearest(command_id, known)
            hint = f"the nearest is {close}" if close else f"they are {', '.join(sorted(known))}"
            yield command_id, f"there is no command {command_id}; {hint}"
            continue
        for key in _split(keys):
            if not _is_key(key):
                yield command_id, f'"{key}" is no key; keys are written like ctrl+y, alt+enter, f5 or question_mark'
            elif key in owners:
                yield command_id, f"{key} is also the key of {owners[key]}; one key runs one command"
            owners.setdefault(key, command_id)


def _split(keys: str) -> tuple[str, ...]:
    """Return the keys of a list with commas, in the words of Textual."""
    if keys.strip().lower() == NO_KEY:
        return ()
    return tuple(_named(key) for one in keys.split(",") if (key := one.strip()))


def _named(key: str) -> str:
    """Return a key with its modifiers in order and signs by their names, as key presses come."""
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if len(last) == 1 and not last.isalnum():
        last = _character_to_key(last)
    if len(last) > 1 or modifiers:
        last = last.lower()
    return "+".join((*sorted(modifier.lower() for modifier in modifiers), last))


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+")
    if not set(modifiers) <= _MODIFIERS or len(set(modifiers)) != len(modifiers):
        return False
    # Every name of a character would be one otherwise, down to fruit.
    return len(last) == 1 or last in _NAMED or (key_to_character(last) or "\0") in string.punctuation
