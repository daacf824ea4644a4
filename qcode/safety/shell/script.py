"""A shell command as a value, and the folders each of its simple commands may run in. Pure.

`cd` is followed: `cd src && cat x` reads `src/x`, and after `cd src; cat x` it may be either.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

from qcode.safety.shell.words import NotPlain, Word

_MOST_PLACES = 8

Operator: TypeAlias = Literal["&&", "||", ";"]


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: at least one word, the files it reads through `<`, and those it writes through `>`."""

    words: tuple[Word, ...]
    inputs: tuple[Word, ...] = ()
    outputs: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Scripts joined by operators, from left to right; a new line is a `;`."""

    first: Script
    rest: tuple[tuple[Operator, Script], ...]


@dataclass(frozen=True, slots=True)
class Piping:
    """Scripts that run beside one another, each in a shell of its own; a subshell is a pipe of one."""

    parts: tuple[Script, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    inner: Script


@dataclass(frozen=True, slots=True)
class Choice:
    """`if`: the condition, what follows where it holds, and what follows where it does not."""

    condition: Script
    then: Script
    otherwise: Script | None


Script: TypeAlias = "Command | Listing | Piping | Negation | Choice"

Places: TypeAlias = "frozenset[str]"
"""Normal absolute folders of which a command runs in one."""


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command with the folders it may run in."""

    command: Command
    places: Places


def parts_of(script: Script, start: str) -> tuple[Part, ...]:
    """Return the simple commands in order; raise `NotPlain` where nobody can say which folder one runs in."""
    found: list[Part] = []
    _walk(script, frozenset({start}), found)
    return tuple(found)


def target_of_cd(command: Command) -> str | None:
    """Return where a plain `cd DIR` goes, as spelled; None for any other command, `cd` with more to it included."""
    match command.words:
        case (Word("cd", False), folder) | (Word("cd", False), Word("--"), folder):
            is_plain = not (folder.is_home or folder.has_glob or folder.text.startswith("-"))
            return folder.text if is_plain and folder.text else None
    return None


def _walk(script: Script, places: Places, found: list[Part]) -> tuple[Places, Places]:
    """Add the parts of `script` and return the folders after it, where it succeeded and where it failed."""
    if len(places) > _MOST_PLACES:
        raise NotPlain("it changes the folder too often")
    match script:
        case Command():
            found.append(Part(script, places))
            target = target_of_cd(script)
            if target is None:
                return places, places
            return frozenset(os.path.normpath(f"{place}/{target}") for place in places), places
        case Piping():
            for part in script.parts:
                _walk(part, places, found)
            return places, places
        case Negation():
            yes, no = _walk(script.inner, places, found)
            return no, yes
        case Choice():
            yes, no = _walk(script.condition, places, found)
            done = _walk(script.then, yes, found)
            other = _walk(script.otherwise, no, found) if script.otherwise is not None else (no, no)
            return done[0] | other[0], done[1] | other[1]
        case Listing():
            yes, no = _walk(script.first, places, found)
            for operator, right in script.rest:
                if operator == "&&":
                    done = _walk(right, yes, found)
                    yes, no = done[0], done[1] | no
                elif operator == "||":
                    done = _walk(right, no, found)
                    yes, no = done[0] | yes, done[1]
                else:
                    yes, no = _walk(right, yes | no, found)
            return yes, no
