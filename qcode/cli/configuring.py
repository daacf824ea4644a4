"""The settings screen's way to the configuration: the same reading as at the start, and changes to the own file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qcode.cli.surroundings import Surroundings
from qcode.config.errors import ConfigError
from qcode.config.layers import file_layer
from qcode.config.lines import parse_key
from qcode.config.load import load
from qcode.config.schema import Key, find_key
from qcode.config.settings import Origin, Settings
from qcode.config.show import Shown, show
from qcode.tui.configuring import Setting

_FILE_MODES = ("plan", "default", "accept-edits", "auto")


class AppConfiguring:
    """Reads every file anew each time: somebody else may have changed it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._file = around.paths.config_file

    @property
    def file(self) -> str:
        try:
            return f"~/{self._file.relative_to(Path.home())}"
        except (ValueError, RuntimeError):
            return str(self._file)

    def settings(self) -> tuple[Setting, ...]:
        try:
            settings, own = self._read()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return tuple(self._setting(row, settings, own) for row in show(settings))

    def change(self, name: str, typed: str | None) -> Setting:
        from qcode.config.own_settings import change, is_changeable, read_typed

        path = parse_key(name)
        key = find_key(path)
        if key is None or not is_changeable(key):
            raise ValueError(f"{name} cannot be changed here; edit {self.file}")
        try:
            change(self._file, path, read_typed(key, typed) if typed is not None else None)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return next(one for one in self.settings() if one.name == name)

    def _read(self) -> tuple[Settings, Mapping[tuple[str, ...], object]]:
        around = self._around
        arguments = around.arguments
        settings = load(
            around.paths,
            around.env,
            arguments.flags(),
            around.root,
            around.is_trusted,
            settings_file=arguments.settings_file,
        )
        own = file_layer(self._file, "user")
        return settings, {path: found.value for path, found in own.values.items()}

    def _setting(self, row: Shown, settings: Settings, own: Mapping[tuple[str, ...], object]) -> Setting:
        from qcode.config.meanings import MEANINGS
        from qcode.config.own_settings import is_changeable

        path = parse_key(row.key)
        key = find_key(path)
        assert key is not None
        is_open = is_changeable(key)
        given = own.get(path)
        return Setting(
            row.key,
            row.value,
            _value(settings, path) if "*" not in key.path else None,
            str(row.origin),
            self._whose(row.origin),
            MEANINGS.get(row.key, ""),
            "" if given is None or not is_open else _typed(given),
            _choices(key),
            "" if is_open else self._why(key),
            self._above(row.origin),
        )

    def _whose(self, origin: Origin) -> str:
        if origin.kind != "file":
            return origin.where or origin.kind
        if origin.is_project:
            return "project"
        return "yours" if origin.where.startswith(f"{self._file}:") else "--settings"

    def _above(self, origin: Origin) -> str:
        is_own = origin.where.startswith(f"{self._file}:")
        return "" if origin.kind == "default" or is_own else origin.where

    def _why(self, key: Key) -> str:
        return f"{'a table' if '*' in key.path else 'a list'}: edit it in {self.file}"


def _value(settings: Settings, path: tuple[str, ...]) -> object:
    value: object = settings
    for part in path:
        value = getattr(value, part)
    return value


def _typed(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _choices(key: Key) -> tuple[str, ...]:
    if isinstance(key.default, bool):
        return ("true", "false")
    return _FILE_MODES if key.path == ("permissions", "mode") else key.kind.choices
