"""The findings of an import: each setting of another program, with the corresponding changes of qcode's configuration.

Also reads settings as the other programs do: JSON with comments and trailing commas.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from qcode.config.lines import find_lines
from qcode.config.load import parse_toml, read_config_text
from qcode.protocol.approvals import ApprovalMode, RuleEffect
from qcode.protocol.errors import ConfigError
from qcode.text.clean import one_line
from qcode.values import dataclass

SettingKind: TypeAlias = Literal["server", "rule", "mode", "command", "agent", "hooks", "setting", "file"]

# Both patterns also match strings, which remain unchanged: `"http://x"` contains no comment.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


class NotConvertibleError(ValueError):
    """A setting of another program has no equivalent in qcode; the text is the reason."""


@dataclass(frozen=True, slots=True)
class AddServer:
    """A table `[mcp_servers.NAME]`."""

    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddRule:
    """One item of a list in `[permissions]`."""

    effect: RuleEffect
    rule: str


@dataclass(frozen=True, slots=True)
class SetMode:
    """The value of `permissions.mode`."""

    mode: ApprovalMode


@dataclass(frozen=True, slots=True)
class WriteFile:
    """A Markdown file in the folder `commands` or `agents`."""

    folder: Literal["commands", "agents"]
    name: str
    """The path in the folder, with `:` for `/` and without the extension: `git:commit`."""
    text: str


Change: TypeAlias = AddServer | AddRule | SetMode | WriteFile


@dataclass(frozen=True, slots=True)
class SourceSetting:
    """A finding: a setting, command, agent or file of another program."""

    kind: SettingKind
    name: str
    location: str
    """The `file:line` for the user."""
    changes: tuple[Change, ...] = ()
    """The changes that add an equivalent to the configuration of qcode."""
    reason: str = ""
    """The reason if there are no changes, or a hint for the user."""
    losses: tuple[str, ...] = ()
    """A line for each detail of the setting that `changes` do not cover."""
    is_lost_denial: bool = False
    """The setting is a denial without an equivalent, so qcode would allow more than the other program."""
    is_read: bool = False
    """qcode reads the file as it is, without an import."""


@dataclass(slots=True)
class SettingsFile:
    """A settings file of another program, and the findings in it."""

    path: Path
    is_project: bool
    label: str
    """The path for the user."""
    text: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    findings: list[SourceSetting] = field(default_factory=list)

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    def location(self, *keys: str) -> str:
        """Return `file:line` of a key, or of the nearest key above it."""
        line = self._toml_line(keys) if self.is_toml else self._json_line(keys)
        return f"{self.label}:{line}" if line else self.label

    def _toml_line(self, keys: tuple[str, ...]) -> int:
        lines = find_lines(self.text)
        return next((lines[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in lines), 0)

    def _json_line(self, keys: tuple[str, ...]) -> int:
        position = -1
        for key in keys:
            # A key is followed by a colon; the last key may also be an item of a list.
            end = r"\s*:" if key != keys[-1] else ""
            match = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + end).search(self.text, position + 1)
            if match is None:
                break
            position = match.start()
        return self.text.count("\n", 0, position) + 1 if position >= 0 else 0

    def table(self, *keys: str) -> Mapping[str, Any]:
        """Return the table at a path of keys, empty if there is no table."""
        value: Any = self.values
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def strings(self, *keys: str) -> tuple[str, ...]:
        """Return the strings in the list at a path of keys, empty if there is no list."""
        value = self.table(*keys[:-1]).get(keys[-1])
        return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()

    def report_invalid_table(self, *keys: str, may_deny: bool = False) -> None:
        """Add a finding if the value at a path is neither a table nor empty.

        `may_deny`: the value may contain a denial, which would be lost.
        """
        value = self.table(*keys[:-1]).get(keys[-1])
        if value and not isinstance(value, Mapping):
            name, location = ".".join(keys), self.location(*keys)
            self.add(SourceSetting("setting", name, location, reason="it is not a table", is_lost_denial=may_deny))

    def add(self, finding: SourceSetting) -> None:
        self.findings.append(finding)


def read_settings(path: Path, home: str, *, is_project: bool) -> SettingsFile | None:
    """Read a file of settings (JSON, TOML) or rules (text); return None if it does not exist.

    An error becomes a finding in the returned file.
    """
    file = SettingsFile(path, is_project, shown_path(path, home))
    try:
        text = read_config_text(path, must_exist=False)
        if text is None:
            return None
        file.text = text
        if path.suffix != ".rules":
            file.values = parse_toml(text, path) if file.is_toml else parse_relaxed(text)
    except ConfigError as error:
        file.add(SourceSetting("file", path.name, file.label, reason=str(error).removeprefix(f"{path}: ")))
    return file


def parse_relaxed(text: str) -> Mapping[str, Any]:
    """Parse a JSON object that may have comments and trailing commas; raise `ConfigError`."""
    # Comments become spaces, so that an error names the right line.
    strict = _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
    strict = _TRAILING_COMMA.sub(lambda match: match[1] or " ", strict)
    try:
        values = json.loads(strict or "{}")
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError(f"not valid JSON{f' at line {line}' if line else ''}") from None
    if not isinstance(values, dict):
        raise ConfigError("settings must be a JSON object")
    return values


def shown_path(path: Path, home: str) -> str:
    """Return a path for the user, on one line, with `~` for the home folder."""
    text = os.fspath(path)
    return one_line(f"~{text[len(home) :]}" if home and text.startswith(f"{home.rstrip('/')}/") else text)
