"""The list of the settings for the user, with their origins and with secrets hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from qcode.config.kinds import commands
from qcode.config.lines import parse_key
from qcode.config.load import parse_toml, read_config_text
from qcode.config.paths import project_file
from qcode.config.schema import KEYS, Key, find_key, toml_string
from qcode.config.settings import Origin, Settings
from qcode.protocol.errors import ConfigError
from qcode.text.clean import visible_line
from qcode.text.credentials import HIDDEN, without_credentials
from qcode.values import dataclass

COMMAND_STEPS = ("format", "check", "test")
"""The keys of `after_edit` with commands."""

_SECRET = re.compile(
    r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AIza|AKIA|ASIA)[-_A-Za-z0-9]{8,}"
    r"|\beyJ[-_A-Za-z0-9]{8,}\.[-_.A-Za-z0-9]+"
    r"|(?i:\b(?:bearer|token|api[-_]?key|secret|password)\b[ =:]+)\S+"
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting in the list."""

    key: str
    value: str
    """A TOML literal, `(not set)` or `(hidden)`."""
    origin: Origin


def setting_rows(settings: Settings) -> tuple[SettingRow, ...]:
    """Return all global keys, set or not, and then the settings of providers, models and servers."""
    rows = [
        SettingRow(key.name, value_text(key, _read(settings, key)), settings.origin(key.name)) for key in _global_keys()
    ]
    rows.extend(_table_rows(settings))
    return tuple(rows)


def _global_keys() -> Iterator[Key]:
    return (key for key in KEYS if "*" not in key.path)


def _read(settings: Settings, key: Key) -> object:
    value: object = settings
    for part in key.path:
        value = getattr(value, part)
    return value


def _table_rows(settings: Settings) -> Iterator[SettingRow]:
    for name in sorted(settings.explicit_values):
        key = find_key(parse_key(name))
        if key is not None and "*" in key.path:
            yield SettingRow(name, value_text(key, settings.explicit_values[name]), settings.origin(name))


def value_text(key: Key, value: object) -> str:
    """Return a value as a TOML literal; `(not set)` for None, and `(hidden)` for a secret."""
    if value is None:
        return "(not set)"
    if key.meta.is_secret:
        return HIDDEN if value else "[]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_quoted_text(str(item)) for item in value) + "]"
    if isinstance(value, str):
        return _quoted_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _quoted_text(value: str) -> str:
    if value.startswith(("http://", "https://")):
        value = without_credentials(value)
    return toml_string(_SECRET.sub(HIDDEN, value))


def project_command_rows(root: Path) -> list[tuple[str, str]]:
    """Return the rows of the trust question for the commands that run after an edit: the step, and `runs COMMAND`."""
    file = project_file(root)
    try:
        table = parse_toml(read_config_text(file, must_exist=False) or "", file).get("after_edit", {})
    except ConfigError:
        return []
    if not isinstance(table, dict):
        return []
    rows: list[tuple[str, str]] = []
    for step in COMMAND_STEPS:
        try:
            configured = commands().convert(table.get(step, ()))
        except ValueError:
            continue
        assert isinstance(configured, tuple)
        rows += [(f"after an edit: {step}", f"runs {visible_line(str(command), 400)}") for command in configured]
    return rows
