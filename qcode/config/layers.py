"""One layer of settings: the values of a file, the environment or the flags, checked against the schema.

A layer maps the path of a key to its value and origin. `load` puts layers on top of one another.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from qcode.config.errors import ConfigError
from qcode.config.kinds import SERVER_NAME_WORDS, is_server_name, type_words
from qcode.config.schema import Key, canonical, dotted, find_key, is_table, nearest
from qcode.config.settings import Origin
from qcode.protocol import values

KeyPath: TypeAlias = "tuple[str, ...]"
Scope: TypeAlias = Literal["user", "project", "extra"]

_LARGEST = 1 << 20


@values.dataclass(frozen=True, slots=True)
class Value:
    """`items` are the origins of the items of a list that all layers join, in its order."""

    value: object
    origin: Origin
    items: tuple[Origin, ...] = ()


@dataclass(slots=True)
class Layer:
    """`tables` holds the tables of chosen names that a layer mentions, so that an empty one is seen as well."""

    values: dict[KeyPath, Value] = field(default_factory=dict)
    tables: dict[KeyPath, Origin] = field(default_factory=dict)


def file_layer(file: Path, scope: Scope) -> Layer:
    """Read a TOML file; one that does not exist is an empty layer, unless the person named it (`extra`).

    Raise `ConfigError` with file and line for everything the schema does not know or a project may not set.
    """
    text = read_toml_text(file, is_needed=scope == "extra")
    if text is None:
        return Layer()
    return _FileReader(file, scope, text).layer()


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """Check the values of flags, by the dotted name of the key they set; None means not given."""
    from qcode.config.lines import parse_key

    layer = Layer()
    for name, value in flags.items():
        if value is None:
            continue
        path = canonical(parse_key(name))
        key = find_key(path)
        if key is None:
            raise ConfigError(f"no key {name}; the nearest is {nearest(path)}")
        origin = Origin("flag", key.meta.flag or f"--{path[-1].replace('_', '-')}")
        found = checked(key, path, value, origin.where)
        items = (origin,) * len(found) if key.meta.is_joined and isinstance(found, tuple) else ()
        layer.values[path] = Value(found, origin, items)
    return layer


def checked(key: Key, path: KeyPath, value: object, subject: str = "") -> object:
    """Return `value` as the key keeps it, or raise `ConfigError` in the words of the key, without the value."""
    try:
        return key.kind.accept(value)
    except ValueError:
        pass
    hint = f", not {type_words(value)}"
    if key.kind.choices and isinstance(value, str):
        from difflib import get_close_matches

        close = get_close_matches(value, key.kind.choices, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else ""
    elif key.kind.words.startswith(type_words(value)):
        hint = ""
    raise ConfigError(f"{subject or dotted(path)} must be {key.kind.words}{hint}")


class _FileReader:
    def __init__(self, file: Path, scope: Scope, text: str) -> None:
        self._file = file
        self._scope = scope
        self._text = text
        self._lines: dict[KeyPath, int] | None = None

    def layer(self) -> Layer:
        layer = Layer()
        for path, value in self._walk(parse_toml(self._text, self._file), (), layer):
            place = canonical(path)
            if place in layer.values:
                self._fail(path, f"{dotted(place)} is set twice, directly and in a network table; keep one")
            layer.values[place] = Value(value, self._origin(path), self._items(path, value))
        return layer

    def _walk(self, table: Mapping[str, object], prefix: KeyPath, layer: Layer) -> Iterator[tuple[KeyPath, object]]:
        for name, value in table.items():
            path = (*prefix, name)
            key = find_key(canonical(path))
            if key is not None:
                yield path, self._accepted(key, path, value)
            elif not is_table(path):
                self._fail(path, f"unknown key {dotted(path)}; the nearest is {nearest(path)}")
            elif isinstance(value, dict):
                yield from self._walk(value, path, layer)
                if len(path) == 2:
                    layer.tables[path] = self._origin(path)
                    self._check_name(path)
            else:
                self._fail(path, f"{dotted(path)} must be a table, not {type_words(value)}")

    def _accepted(self, key: Key, path: KeyPath, value: object) -> object:
        if self._scope == "project" and not key.meta.is_project_allowed:
            self._fail(path, f"a project may not set {dotted(path)}; set it in your own configuration")
        try:
            found = checked(key, path, value)
        except ConfigError as error:
            self._fail(path, str(error))
        if path == ("permissions", "mode") and found == "bypass":
            self._fail(path, "bypass is no mode for a file; start with --permission-mode bypass")
        if path == ("tools", "sandbox") and self._scope == "project" and found != "required":
            self._fail(path, 'a project may only set tools.sandbox to "required"; set it in your own configuration')
        return found

    def _check_name(self, path: KeyPath) -> None:
        """Refuse a name that nothing could ever refer to, and a project's provider even where it sets nothing."""
        family, name = path
        if family == "providers" and self._scope == "project":
            self._fail(path, f"a project may not set {dotted(path)}; set it in your own configuration")
        if family == "providers" and (not name.strip() or "/" in name):
            self._fail(path, f"{dotted(path)}: a provider's name has no slash and is not empty")
        if family == "models" and not all(part.strip() for part in (*name.partition("/")[::2],)):
            self._fail(path, f'{dotted(path)}: a model is named with its provider: [models."PROVIDER/MODEL"]')
        if family == "mcp_servers" and not is_server_name(name):
            self._fail(path, f"{dotted(path)}: {SERVER_NAME_WORDS}")

    def _origin(self, path: KeyPath) -> Origin:
        return Origin("file", f"{self._file}:{self._line(path)}", self._scope == "project")

    def _items(self, path: KeyPath, value: object) -> tuple[Origin, ...]:
        key = find_key(canonical(path))
        if key is None or not key.meta.is_joined or not isinstance(value, tuple):
            return ()
        from qcode.config.lines import find_item_lines

        lines = find_item_lines(self._text).get(path, ())
        return tuple(Origin("file", f"{self._file}:{line}", self._scope == "project") for line in lines)

    def _line(self, path: KeyPath) -> int:
        if self._lines is None:
            from qcode.config.lines import find_lines

            self._lines = find_lines(self._text)
        for size in range(len(path), 0, -1):
            if path[:size] in self._lines:
                return self._lines[path[:size]]
        return 1

    def _fail(self, path: KeyPath, message: str) -> NoReturn:
        raise ConfigError(message, file=self._file, line=self._line(path))


def read_toml_text(file: Path, *, is_needed: bool) -> str | None:
    """Return the text of a regular file, without a byte order mark; None where there is none."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if is_needed:
            raise ConfigError("there is no such file", file=file) from None
        return None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise ConfigError("is not a file", file=file)
    with os.fdopen(handle, "rb") as stream:
        if found.st_size > _LARGEST:
            raise ConfigError("is larger than 1 MiB", file=file)
        data = stream.read(_LARGEST + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", file=file, line=line) from None


def parse_toml(text: str, file: Path) -> dict[str, Any]:
    """Return what a TOML text says; raise `ConfigError` with the line where it says nothing."""
    import tomllib

    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        what, line = _syntax(str(error), text)
        raise ConfigError(f"not valid TOML: {what}", file=file, line=line) from None
    except (ValueError, ArithmeticError, RecursionError):
        raise ConfigError("not valid TOML: a number or a nesting is out of range", file=file) from None


def _syntax(message: str, text: str) -> tuple[str, int]:
    """Split the reader's message into what is wrong and the line it names."""
    what, _, place = message.rpartition(" (at ")
    if place.startswith("line "):
        return what, int(place[5:].split(",", 1)[0])
    return what or message, len(text.rstrip().split("\n"))
