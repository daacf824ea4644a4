"""The kinds of configured values: each describes itself, and validates and converts a TOML value.

An error never repeats the value, which may be an API key in the wrong place.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from qcode.protocol.approvals import WrittenRule
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_.-]*")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")


_MAX_SERVER_NAME = 30
SERVER_NAME_WORDS = f"a server's name has letters, digits, - and single _ inside, {_MAX_SERVER_NAME} characters at most"


def is_server_name(name: str) -> bool:
    """Return whether `name` is a valid name of a tool server."""
    # No two underscores in a row and none at an end, so that the server's name in `server__tool` is unambiguous.
    parts = name.replace("-", "a").split("_")
    return len(name) <= _MAX_SERVER_NAME and name.isascii() and all(map(str.isalnum, parts))


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of value. `words` completes "must be …"; `accept` returns the converted value or raises `ValueError`.

    `choices` are the allowed strings, empty if any is allowed. `schema` is the JSON Schema that an editor checks with.
    """

    words: str
    accept: Callable[[object], object]
    choices: tuple[str, ...] = ()
    schema: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


def _list_of(**item: object) -> Mapping[str, object]:
    return {"type": "array", "items": {"type": "string", **item}}


_SCHEMA_OF_LINE: Mapping[str, object] = {"type": "string", "minLength": 1}


def whole(least: int) -> ValueKind:
    """A whole number of at least `least`."""

    def accept(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError
        return value

    return ValueKind(f"a whole number of at least {least}", accept, schema={"type": "integer", "minimum": least})


def number(least: float, *, above: bool = False) -> ValueKind:
    """A finite number of at least `least`, or greater than it if `above` is set."""

    def accept(value: object) -> float:
        found = float(_decimal(value))
        if found < least or (above and found == least):
            raise ValueError
        return found

    schema = {"type": "number", "exclusiveMinimum" if above else "minimum": least}
    return ValueKind(f"a number {'greater than' if above else 'of at least'} {least:g}", accept, schema=schema)


def price() -> ValueKind:
    """USD per million tokens, exact."""

    def accept(value: object) -> Decimal:
        found = _decimal(value)
        if found < 0:
            raise ValueError
        return found

    schema = {"type": "number", "minimum": 0}
    return ValueKind("a number of at least 0 (USD per million tokens)", accept, schema=schema)


BOOLEAN_WORDS = "true or false"


def boolean() -> ValueKind:
    def accept(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return ValueKind(BOOLEAN_WORDS, accept, schema={"type": "boolean"})


def automatic() -> ValueKind:
    """`"auto"`, true or false."""

    def accept(value: object) -> bool | str:
        if not isinstance(value, bool) and value != "auto":
            raise ValueError
        return value if isinstance(value, bool) else "auto"

    return ValueKind('"auto", true or false', accept, schema={"enum": ["auto", True, False]})


def text() -> ValueKind:
    """One line of text that is not blank."""
    return ValueKind("text", _line, schema=_SCHEMA_OF_LINE)


def raw_text() -> ValueKind:
    """Any text, also empty or with several lines."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise ValueError
        return value

    return ValueKind("text", accept, schema={"type": "string"})


def choice(*choices: str, aliases: Mapping[str, str] = MappingProxyType({})) -> ValueKind:
    """One of `choices`; `aliases` are other names of them."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or aliases.get(value, value) not in choices:
            raise ValueError
        return aliases.get(value, value)

    schema = {"enum": [*choices, *aliases]}
    return ValueKind("one of " + ", ".join(f'"{text}"' for text in choices), accept, choices, schema)


def texts() -> ValueKind:
    """A list of strings, converted to a tuple."""

    return ValueKind("a list of strings", _texts, schema=_list_of(minLength=1))


def rules() -> ValueKind:
    """A list of rules, each a string or a table with examples, converted to a tuple of strings and `WrittenRule`."""

    def accept(value: object) -> tuple[str | WrittenRule, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(_rule(item) for item in value)

    examples = _list_of(minLength=1)
    table = {
        "type": "object",
        "properties": {"rule": _SCHEMA_OF_LINE, "examples": examples, "counterexamples": examples},
        "required": ["rule"],
        "additionalProperties": False,
    }
    words = 'a list of rules: strings, or tables such as { rule = "...", examples = ["..."] }'
    return ValueKind(words, accept, schema={"type": "array", "items": {"anyOf": [_SCHEMA_OF_LINE, table]}})


def _rule(value: object) -> str | WrittenRule:
    if not isinstance(value, dict):
        return _line(value)
    if "rule" not in value or not set(value) <= {"rule", "examples", "counterexamples"}:
        raise ValueError
    examples, counterexamples = ([*_texts(value.get(name, []))] for name in ("examples", "counterexamples"))
    return WrittenRule(_line(value["rule"]), tuple(examples), tuple(counterexamples))


@dataclass(frozen=True, slots=True)
class WrittenHook:
    """A hook as a file has it. Without `timeout_s` and `on_failure`, the event decides."""

    matcher: str = ""
    command: str = ""
    argv: tuple[str, ...] = ()
    timeout_s: float | None = None
    on_failure: str | None = None
    may_allow: bool = False
    env: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.command or " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class WrittenCommand:
    """A command line as a file has it, with `{file}` for the path of a file. An empty `pattern` is any file."""

    line: str
    pattern: str = ""

    def __str__(self) -> str:
        return f"{self.pattern}: {self.line}" if self.pattern else self.line


FILE_PLACEHOLDER = "{file}"


def commands() -> ValueKind:
    """A command line, a list of arguments, or a table of either by file pattern; converted to `WrittenCommand`s."""

    def accept(value: object) -> tuple[WrittenCommand, ...]:
        if isinstance(value, dict):
            return tuple(WrittenCommand(_command_line(item), _line(pattern)) for pattern, item in value.items())
        return () if value in ("", [], ()) else (WrittenCommand(_command_line(value)),)

    entry = {"anyOf": [{"type": "string"}, _list_of()]}
    table = {"type": "object", "additionalProperties": entry}
    words = "a command line, a list of arguments, or a table of them by file pattern"
    return ValueKind(words, accept, schema={"anyOf": [*entry["anyOf"], table]})


def _command_line(value: object) -> str:
    """Return a command as one line; the arguments of a list are quoted, except for the placeholder."""
    if isinstance(value, str):
        return _line(value)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError
    parts = (word if word == FILE_PLACEHOLDER else shlex.quote(word) for word in value)
    return _line(" ".join(parts))


def hooks() -> ValueKind:
    """A list of hooks, each a table, converted to a tuple of `WrittenHook`."""

    def accept(value: object) -> tuple[WrittenHook, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(_hook(item) for item in value)

    table = {
        "type": "object",
        "properties": {name: kind.schema for name, kind in _hook_fields().items()},
        "oneOf": [{"required": ["command"]}, {"required": ["argv"]}],
        "additionalProperties": False,
    }
    return ValueKind(
        "a list of tables with command or argv, and optionally matcher, timeout_s, on_failure, may_allow, env",
        accept,
        schema={"type": "array", "items": table},
    )


def variables() -> ValueKind:
    """A list of names of environment variables, converted to a tuple."""
    item = _matching(_VARIABLE)

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(item(name) for name in value)

    schema = _list_of(pattern=f"^{_VARIABLE.pattern}$")
    return ValueKind("a list of names of environment variables", accept, schema=schema)


@cache
def _hook_fields() -> Mapping[str, ValueKind]:
    return {
        "matcher": raw_text(),
        "command": raw_text(),
        "argv": words(),
        "timeout_s": number(0, above=True),
        "on_failure": choice("ask", "block", "go-on"),
        "may_allow": boolean(),
        "env": variables(),
    }


def _hook(value: object) -> WrittenHook:
    if not isinstance(value, dict) or ("command" in value) == ("argv" in value):
        raise ValueError
    fields = _hook_fields()
    if not set(value) <= set(fields):
        raise ValueError
    found: dict[str, Any] = {name: fields[name].accept(item) for name, item in value.items()}
    if not (found.get("command", "").strip() or any(found.get("argv", ())[:1])):
        raise ValueError
    return WrittenHook(**found)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_line(item) for item in value)


def models(most: int) -> ValueKind:
    """A list of at most `most` models, converted to a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        found = _texts(value)
        if len(found) > most:
            raise ValueError
        return found

    schema = {**_list_of(minLength=1), "maxItems": most}
    return ValueKind(f"a list of at most {most} models", accept, schema=schema)


def some_of(*choices: str) -> ValueKind:
    """A list of some of the choices, converted to a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        found = _texts(value)
        if not set(found) <= set(choices):
            raise ValueError
        return found

    schema = {"type": "array", "items": {"enum": [*choices]}}
    return ValueKind("a list of " + ", ".join(f'"{text}"' for text in choices), accept, schema=schema)


def words() -> ValueKind:
    """A list of arbitrary strings, such as the arguments of a program, converted to a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
            raise ValueError
        return tuple(value)

    return ValueKind("a list of strings", accept, schema=_list_of())


def command() -> ValueKind:
    """A program with its arguments, as a list or as a text split like a shell does; converted to a tuple."""

    def accept(value: object) -> tuple[str, ...]:
        import shlex  # only a configuration with a command needs it

        found = tuple(shlex.split(_line(value))) if isinstance(value, str) else words().accept(value)
        if not isinstance(found, tuple) or not found or not found[0].strip():
            raise ValueError
        return found

    schema = {"anyOf": [_SCHEMA_OF_LINE, {**_list_of(), "minItems": 1}]}
    return ValueKind('a command: a text, or a list such as ["pass", "show", "work/key"]', accept, schema=schema)


def url() -> ValueKind:
    """An http or https address with a host."""

    def accept(value: object) -> str:
        found = _line(value)
        parts = urlsplit(found)
        if parts.scheme not in ("http", "https") or not parts.hostname or " " in found:
            raise ValueError
        return found

    schema = {"type": "string", "pattern": "^ *https?://"}
    return ValueKind("a URL that starts with http:// or https://", accept, schema=schema)


def variable() -> ValueKind:
    """The name of an environment variable."""
    words = "the name of an environment variable, not a key"
    return ValueKind(words, _matching(_VARIABLE), schema={"type": "string", "pattern": f"^{_VARIABLE.pattern}$"})


def field_name() -> ValueKind:
    schema = {"type": "string", "pattern": f"^{_FIELD.pattern}$"}
    return ValueKind("the name of a field", _matching(_FIELD), schema=schema)


def _matching(pattern: re.Pattern[str]) -> Callable[[object], str]:
    def accept(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError
        return value

    return accept


def _line(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or _CONTROL.search(value):
        raise ValueError
    return value.strip()


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError
    found = Decimal(str(value))
    if not found.is_finite():
        raise ValueError
    return found


def type_words(value: object) -> str:
    """Return the name of the TOML type of `value`, without the value."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    if isinstance(value, int | float | Decimal):
        return "a number"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "a date or time" if hasattr(value, "isoformat") else type(value).__name__
