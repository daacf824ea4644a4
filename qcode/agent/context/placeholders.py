"""Placeholders in prompts from Markdown files: arguments, variables, and shell commands to run before sending. Pure.

`$ARGUMENTS` is the text typed after the name; `$ARGUMENTS[0]` and `$0` are its first word, `$name` is a word named in
the front matter. In a file with `$1` and no `$0`, `$1` is the first word, as in the commands of older tools. `\\$1` is
literal. Values are never expanded again. `` !`command` `` at the start of a line or after a blank is a command, and so
is a block that begins with ```` ```! ````.
Format: https://code.claude.com/docs/en/skills. A separate module because only skills and commands in Markdown need it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_PLACEHOLDER = lazy_pattern(
    r"(?P<literal>\\)?\$(?:"
    r"\{(?P<variable>[A-Z][A-Z0-9_]*)\}"
    r"|ARGUMENTS(?:\[(?P<item>\d{1,3})\])?(?![A-Za-z0-9_])"
    r"|(?P<number>\d{1,3})(?![A-Za-z0-9_])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*))"
)
# A command to run: a block that begins with ```` ```! ````, or `` !`command` `` at the start or after a blank.
_COMMAND = lazy_pattern(
    r"^```!(?:[ \t]*\n)(?P<block>.*?)^```[ \t]*$|(?:(?<=\s)|(?<![\s\S]))!`(?P<inline>[^`\n]+)`",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of an expanded prompt."""

    text: str
    kind: Literal["file", "typed", "command", "output"] = "file"
    """Text of the file, an argument as it was typed, a command to run, or the output of a command."""


def expand(
    text: str,
    arguments: str,
    names: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    *,
    runs_commands: bool = False,
) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt; without `runs_commands` its commands stay text.

    If the text uses no argument, a last line `ARGUMENTS: ...` is added. A placeholder without a value stays unchanged.
    """
    values = _PlaceholderValues(text, arguments.strip(), names, variables or {})
    parts: list[PromptPart] = []
    end = 0
    for match in _COMMAND.finditer(text) if runs_commands else ():
        parts += values.expanded(text[end : match.start()])
        command = match["block"] if match["block"] is not None else match["inline"]
        parts.append(PromptPart("".join(part.text for part in values.expanded(command)).strip("\n"), "command"))
        end = match.end()
    parts += values.expanded(text[end:])
    if values.typed and not values.is_used:
        parts += [PromptPart("\n\nARGUMENTS: "), PromptPart(values.typed, "typed")]
    return tuple(part for part in parts if part.text)


def has_commands(text: str) -> bool:
    """Return whether the text has commands to run before it is sent."""
    return _COMMAND.search(text) is not None


def counts_from_one(text: str) -> bool:
    """Return whether `$1` is the first argument of this text."""
    numbers = {match["number"] for match in _PLACEHOLDER.finditer(text) if not match["literal"]}
    return "1" in numbers and "0" not in numbers


class _PlaceholderValues:
    """The values of the placeholders of one text. `typed` are the arguments."""

    def __init__(self, text: str, typed: str, names: Sequence[str], variables: Mapping[str, str]) -> None:
        self.typed = typed
        self.is_used = False  # whether an argument was inserted
        self._words = _words(typed)
        self._first_number = 1 if counts_from_one(text) else 0
        self._names = {name: index for index, name in enumerate(names)}
        self._variables = variables

    def expanded(self, text: str) -> Iterator[PromptPart]:
        end = 0
        for match in _PLACEHOLDER.finditer(text):
            part = self._value(match)
            if part is None:
                continue
            yield PromptPart(text[end : match.start()])
            yield part
            end = match.end()
        yield PromptPart(text[end:])

    def _value(self, match: re.Match[str]) -> PromptPart | None:
        """Return the value of a placeholder, None if it stays unchanged."""
        variable, item, number, name = (match[key] for key in ("variable", "item", "number", "name"))
        if variable is not None and variable not in self._variables:
            return None
        if name is not None and name not in self._names:
            return None
        if match["literal"]:
            return PromptPart(match[0].removeprefix("\\"))
        if variable is not None:
            return PromptPart(self._variables[variable])
        self.is_used = True
        if item is not None:
            index = int(item)
        elif number is not None:
            index = int(number) - self._first_number
        elif name is not None:
            index = self._names[name]
        else:
            return PromptPart(self.typed, "typed")
        return PromptPart(self._words[index], "typed") if 0 <= index < len(self._words) else None


def _words(typed: str) -> list[str]:
    """Split as a shell does; at blanks if a quote is not closed."""
    try:
        return shlex.split(typed)
    except ValueError:
        return typed.split()
