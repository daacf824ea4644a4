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

from qcode.protocol.approvals import RuleConfig
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_.-]*")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")


_MAX_SERVER_NAME = 30
SERVER_NAME_RULE = f"a server's name has letters, digits, - and single _ inside, {_MAX_SERVER_NAME} characters at most"


def is_server_name(name: str) -> bool:
    """Return whether `name` is a valid name of a tool server."""
    # No two underscores in a row and none at an end, so that the server's name in `server__tool` is unambiguous.
    parts = name.replace("-", "a").split("_")
    return len(name) <= _MAX_SERVER_NAME and name.isascii() and all(map(str.isalnum, parts))


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The validation and conversion of a configured value."""

    expected: str
    """Completes "must be …"."""
    convert: Callable[[object], object]
    """Returns the converted value or raises `ValueError`."""
    choices: tuple[str, ...] = ()
    """The allowed strings; empty if any string is allowed."""
    schema: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The JSON Schema that an editor checks with."""


def _list_schema(**item: object) -> Mapping[str, object]:
    return {"type": "array", "items": {"type": "string", **item}}


_LINE_SCHEMA: Mapping[str, object] = {"type": "string", "minLength": 1}


def integer(minimum: int) -> ValueKind:
    """Return the kind for a whole number of at least `minimum`."""

    def convert(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError
        return value

    return ValueKind(f"a whole number of at least {minimum}", convert, schema={"type": "integer", "minimum": minimum})


def number(minimum: float, *, is_exclusive: bool = False) -> ValueKind:
    """Return the kind for a finite number of at least `minimum`, or greater than it if `is_exclusive` is set."""

    def convert(value: object) -> float:
        number = float(_decimal(value))
        if number < minimum or (is_exclusive and number == minimum):
            raise ValueError
        return number

    schema = {"type": "number", "exclusiveMinimum" if is_exclusive else "minimum": minimum}
    return ValueKind(
        f"a number {'greater than' if is_exclusive else 'of at least'} {minimum:g}", convert, schema=schema
    )


def price() -> ValueKind:
    """Return the kind for a price in USD per million tokens, exact."""

    def convert(value: object) -> Decimal:
        amount = _decimal(value)
        if amount < 0:
            raise ValueError
        return amount

    schema = {"type": "number", "minimum": 0}
    return ValueKind("a number of at least 0 (USD per million tokens)", convert, schema=schema)


BOOLEAN_VALUES = "true or false"


def boolean() -> ValueKind:
    """Return the kind for true and false."""

    def convert(value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return ValueKind(BOOLEAN_VALUES, convert, schema={"type": "boolean"})


def auto_or_boolean() -> ValueKind:
    """Return the kind for `"auto"`, true and false."""

    def convert(value: object) -> bool | str:
        if not isinstance(value, bool) and value != "auto":
            raise ValueError
        return value if isinstance(value, bool) else "auto"

    return ValueKind('"auto", true or false', convert, schema={"enum": ["auto", True, False]})


def text() -> ValueKind:
    """Return the kind for a string of one line that is not blank."""
    return ValueKind("a string", _line, schema=_LINE_SCHEMA)


def raw_text() -> ValueKind:
    """Return the kind for any string, also empty or with several lines."""

    def convert(value: object) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise ValueError
        return value

    return ValueKind("a string", convert, schema={"type": "string"})


def choice(*choices: str, aliases: Mapping[str, str] = MappingProxyType({})) -> ValueKind:
    """Return the kind for one of `choices`; `aliases` are other names of the choices."""

    def convert(value: object) -> str:
        if not isinstance(value, str) or aliases.get(value, value) not in choices:
            raise ValueError
        return aliases.get(value, value)

    def listed(choice: str) -> str:
        return " ".join((f'"{choice}"', *(f'(or "{alias}")' for alias, name in aliases.items() if name == choice)))

    schema = {"enum": [*choices, *aliases]}
    return ValueKind("one of " + ", ".join(map(listed, choices)), convert, choices, schema)


def strings() -> ValueKind:
    """Return the kind for a list of strings, converted to a tuple."""
    return ValueKind("a list of strings", _strings, schema=_list_schema(minLength=1))


def rules() -> ValueKind:
    """Return the kind for a list of rules, converted to a tuple of strings and `RuleConfig`.

    A rule is a string, or a table with examples.
    """

    def convert(value: object) -> tuple[str | RuleConfig, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(_rule(item) for item in value)

    examples = _list_schema(minLength=1)
    table = {
        "type": "object",
        "properties": {"rule": _LINE_SCHEMA, "examples": examples, "counterexamples": examples},
        "required": ["rule"],
        "additionalProperties": False,
    }
    expected = 'a list of rules: strings, or tables such as { rule = "...", examples = ["..."] }'
    return ValueKind(expected, convert, schema={"type": "array", "items": {"anyOf": [_LINE_SCHEMA, table]}})


def _rule(value: object) -> str | RuleConfig:
    if not isinstance(value, dict):
        return _line(value)
    if "rule" not in value or not set(value) <= {"rule", "examples", "counterexamples"}:
        raise ValueError
    examples, counterexamples = ([*_strings(value.get(name, []))] for name in ("examples", "counterexamples"))
    return RuleConfig(_line(value["rule"]), tuple(examples), tuple(counterexamples))


@dataclass(frozen=True, slots=True)
class HookConfig:
    """A hook as written in a file, with either `command` or `argv`."""

    matcher: str = ""
    command: str = ""
    """A shell command."""
    argv: tuple[str, ...] = ()
    """A program with its arguments, which needs no shell."""
    timeout_s: float | None = None
    """None means the default of the event."""
    on_failure: str | None = None
    """None means the default of the event."""
    may_allow: bool = False
    """The hook may allow a call without a question to the user."""
    env: tuple[str, ...] = ()
    """The names of the environment variables that the hook gets in addition."""

    def __str__(self) -> str:
        return self.command or " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class CommandConfig:
    """A command line as written in a file."""

    line: str
    """The command line; `{file}` in it stands for the path of a file."""
    pattern: str = ""
    """The pattern of the files for which the command runs, empty for every file."""

    def __str__(self) -> str:
        return f"{self.pattern}: {self.line}" if self.pattern else self.line


FILE_PLACEHOLDER = "{file}"


def commands() -> ValueKind:
    """Return the kind for commands, converted to a tuple of `CommandConfig`.

    The value is a command line, a list of arguments, or a table of either by file pattern.
    """

    def convert(value: object) -> tuple[CommandConfig, ...]:
        if isinstance(value, dict):
            return tuple(CommandConfig(_command_line(item), _line(pattern)) for pattern, item in value.items())
        return () if value in ("", [], ()) else (CommandConfig(_command_line(value)),)

    entry = {"anyOf": [{"type": "string"}, _list_schema()]}
    table = {"type": "object", "additionalProperties": entry}
    expected = "a command line, a list of arguments, or a table of them by file pattern"
    return ValueKind(expected, convert, schema={"anyOf": [*entry["anyOf"], table]})


def _command_line(value: object) -> str:
    """Return a command as one line; the arguments of a list are quoted, except for the placeholder."""
    if isinstance(value, str):
        return _line(value)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError
    parts = (word if word == FILE_PLACEHOLDER else shlex.quote(word) for word in value)
    return _line(" ".join(parts))


def hooks() -> ValueKind:
    """Return the kind for a list of hooks, each a table, converted to a tuple of `HookConfig`."""

    def convert(value: object) -> tuple[HookConfig, ...]:
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
        convert,
        schema={"type": "array", "items": table},
    )


def variables() -> ValueKind:
    """Return the kind for a list of names of environment variables, converted to a tuple."""
    item = _pattern_converter(_VARIABLE)

    def convert(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(item(name) for name in value)

    schema = _list_schema(pattern=f"^{_VARIABLE.pattern}$")
    return ValueKind("a list of names of environment variables", convert, schema=schema)


@cache
def _hook_fields() -> Mapping[str, ValueKind]:
    return {
        "matcher": raw_text(),
        "command": raw_text(),
        "argv": raw_strings(),
        "timeout_s": number(0, is_exclusive=True),
        "on_failure": choice("ask", "block", "go-on"),
        "may_allow": boolean(),
        "env": variables(),
    }


def _hook(value: object) -> HookConfig:
    if not isinstance(value, dict) or ("command" in value) == ("argv" in value):
        raise ValueError
    fields = _hook_fields()
    if not set(value) <= set(fields):
        raise ValueError
    converted: dict[str, Any] = {name: fields[name].convert(item) for name, item in value.items()}
    hook = HookConfig(**converted)
    program = hook.argv[0] if hook.argv else hook.command.strip()
    if not program:
        raise ValueError
    return hook


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_line(item) for item in value)


def models(maximum: int) -> ValueKind:
    """Return the kind for a list of at most `maximum` models, converted to a tuple."""

    def convert(value: object) -> tuple[str, ...]:
        names = _strings(value)
        if len(names) > maximum:
            raise ValueError
        return names

    schema = {**_list_schema(minLength=1), "maxItems": maximum}
    return ValueKind(f"a list of at most {maximum} models", convert, schema=schema)


def subset_of(*choices: str) -> ValueKind:
    """Return the kind for a list of some of the choices, converted to a tuple."""

    def convert(value: object) -> tuple[str, ...]:
        chosen = _strings(value)
        if not set(chosen) <= set(choices):
            raise ValueError
        return chosen

    schema = {"type": "array", "items": {"enum": [*choices]}}
    return ValueKind("a list of " + ", ".join(f'"{text}"' for text in choices), convert, schema=schema)


def raw_strings() -> ValueKind:
    """Return the kind for a list of arbitrary strings, such as the arguments of a program, converted to a tuple."""

    def convert(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
            raise ValueError
        return tuple(value)

    return ValueKind("a list of strings", convert, schema=_list_schema())


def command() -> ValueKind:
    """Return the kind for a program with its arguments, converted to a tuple.

    The value is a list, or a string that is split as a shell does.
    """

    def convert(value: object) -> tuple[str, ...]:
        argv = tuple(shlex.split(_line(value))) if isinstance(value, str) else raw_strings().convert(value)
        if not isinstance(argv, tuple) or not argv or not argv[0].strip():
            raise ValueError
        return argv

    schema = {"anyOf": [_LINE_SCHEMA, {**_list_schema(), "minItems": 1}]}
    return ValueKind('a command: a string, or a list such as ["pass", "show", "work/key"]', convert, schema=schema)


def url() -> ValueKind:
    """Return the kind for an http or https address with a host."""

    def convert(value: object) -> str:
        address = _line(value)
        parts = urlsplit(address)
        # `port` raises ValueError for `http://host:99999`.
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or " " in address:
            raise ValueError
        return address

    schema = {"type": "string", "pattern": "^ *https?://"}
    return ValueKind("a URL that starts with http:// or https:// and has a valid host and port", convert, schema=schema)


def variable() -> ValueKind:
    """Return the kind for the name of an environment variable."""
    expected = "the name of an environment variable, not a key"
    return ValueKind(
        expected, _pattern_converter(_VARIABLE), schema={"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}
    )


def field_name() -> ValueKind:
    """Return the kind for the name of a field in a provider's requests or replies, such as `max_completion_tokens`."""
    schema = {"type": "string", "pattern": f"^{_FIELD.pattern}$"}
    return ValueKind("the name of a field", _pattern_converter(_FIELD), schema=schema)


def _pattern_converter(pattern: re.Pattern[str]) -> Callable[[object], str]:
    """Return a converter that accepts the strings that `pattern` matches completely."""

    def convert(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError
        return value

    return convert


def _line(value: object) -> str:
    """Return a string without surrounding blanks; raise `ValueError` if it is blank or has control characters."""
    if not isinstance(value, str) or not value.strip() or _CONTROL.search(value):
        raise ValueError
    return value.strip()


def _decimal(value: object) -> Decimal:
    """Return a finite number as a `Decimal`; raise `ValueError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError
    number = Decimal(str(value))
    if not number.is_finite():
        raise ValueError
    return number


def toml_type_name(value: object) -> str:
    """Return the name of the TOML type of `value`, without the value."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a string" if value.strip() else "an empty string"
    if isinstance(value, int | float | Decimal):
        return "a number"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return "a date or time" if hasattr(value, "isoformat") else type(value).__name__
