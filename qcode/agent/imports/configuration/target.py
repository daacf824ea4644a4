"""The configuration of qcode as the target of an import: new settings are added, and nothing is overwritten.

The user's settings are written to the user's configuration. The settings of a project are written to its `.qcode`, so
that trust and the approval of tool servers apply to them.
"""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from qcode.agent.imports.configuration.findings import (
    AddRule,
    AddServer,
    Change,
    SetMode,
    SourceSetting,
    WriteFile,
    shown_path,
)
from qcode.agent.subagent_kinds import KINDS
from qcode.config import state_file
from qcode.config.edit import replace_text, with_items, with_table, with_value
from qcode.config.load import parse_toml, read_config_text
from qcode.config.paths import AGENTS_FOLDER
from qcode.protocol.errors import ConfigError
from qcode.values import dataclass

ImportStatus: TypeAlias = Literal["new", "same", "taken", "lost", "read"]
"""The state of a finding. Only a `new` finding is written.

`same`: qcode already has this setting. `taken`: qcode has another setting of this name. `lost`: the setting cannot be
converted. `read`: qcode reads the file as it is.
"""


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """A finding, and whether it is written."""

    setting: SourceSetting
    status: ImportStatus
    reason: str
    """The reason if the status is `taken` or `lost`, or a hint for `read`; otherwise empty."""
    is_project: bool


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an import wrote."""

    path: Path
    is_backup: bool = False
    """The file is the configuration as it was before."""


class Target:
    """The configuration of the user, or of the project at `root`, with the planned changes.

    `folder` is the parent of the folders `commands` and `agents`. `home` shortens the shown paths.
    """

    def __init__(self, config_file: Path, folder: Path, home: str, root: Path | None = None) -> None:
        self.file = config_file
        self._folder = folder
        self._home = home
        self._root = root
        self._before = read_config_text(config_file, must_exist=False)
        """The text of the file, None if it does not exist."""
        self._text = self._before or ""
        """The text with the planned changes."""
        parse_toml(self._text, config_file)
        self._files: dict[Path, str] = {}
        """The planned files, with their texts."""

    def plan(self, setting: SourceSetting, *, is_project: bool) -> PlannedSetting:
        """Add the changes of a finding to the plan, if they overwrite nothing."""
        if not setting.changes:
            return PlannedSetting(setting, "read" if setting.is_read else "lost", setting.reason, is_project)
        text, files = self._text, dict(self._files)  # restored if one change of the finding is not possible
        statuses: list[ImportStatus] = []
        for change in setting.changes:
            try:
                status, reason = self._add(change)
            except (ValueError, ConfigError) as problem:
                status, reason = "lost", str(problem)
            if status in ("taken", "lost"):
                self._text, self._files = text, files
                return PlannedSetting(setting, status, reason, is_project)
            statuses.append(status)
        return PlannedSetting(setting, "new" if "new" in statuses else "same", "", is_project)

    def _add(self, change: Change) -> tuple[ImportStatus, str]:
        """Add a change to the plan; return its status, and the reason if it is not added."""
        values: Mapping[str, Any] = tomllib.loads(self._text)
        permissions = values.get("permissions", {})
        match change:
            case AddServer(name=name):
                existing = values.get("mcp_servers", {}).get(name)
                if existing is not None:
                    reason = f"{self._label} has another server of this name"
                    return ("same", "") if existing == dict(change.values) else ("taken", reason)
                self._text = with_table(self._text, ("mcp_servers", name), copy.deepcopy(dict(change.values)))
            case AddRule(effect=effect, rule=rule):
                if rule in permissions.get(effect, []):
                    return "same", ""
                self._text = with_items(self._text, ("permissions", effect), [rule])
            case SetMode(mode=mode):
                existing = permissions.get("mode")
                if existing is not None:
                    return ("same", "") if existing == mode else ("taken", f"permissions.mode is {existing}")
                self._text = with_value(self._text, ("permissions", "mode"), mode)
            case WriteFile():
                return self._add_file(change)
        return "new", ""

    def _add_file(self, change: WriteFile) -> tuple[ImportStatus, str]:
        path = self._folder.joinpath(change.folder, *change.name.split(":")).with_suffix(".md")
        if self._root is not None and not _is_inside(path, self._root):
            return "lost", f"{path.parent} is outside the project"
        if change.folder == AGENTS_FOLDER and change.name in {kind.name for kind in KINDS}:
            return "taken", "qcode has a sub-agent of this name"
        existing = self._files.get(path)
        if existing is None and path.is_file():
            existing = path.read_text("utf-8", "replace")
        # A definition in TOML has the same name. A path may exist without being a file: a folder or a broken link.
        if existing is None and not (os.path.lexists(path) or os.path.lexists(path.with_suffix(".toml"))):
            self._files[path] = change.text
            return "new", ""
        is_same = existing == change.text
        return ("same", "") if is_same else ("taken", f"{shown_path(path, self._home)} is already there")

    @property
    def _label(self) -> str:
        return shown_path(self.file, self._home)

    def write(self) -> list[WrittenFile]:
        """Write the plan; return the written files, the backup first. Raise `ConfigError`."""
        written = []
        try:
            if self._text != (self._before or ""):
                if self._before is not None:
                    backup = _backup_path(self.file)
                    state_file.replace(backup, self._before.encode("utf-8"), mode=self.file.stat().st_mode & 0o777)
                    written.append(WrittenFile(backup, is_backup=True))
                self.file.parent.mkdir(parents=True, exist_ok=True)
                replace_text(self.file, self._text)
                written.append(WrittenFile(self.file))
            for path, text in self._files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as stream:
                    stream.write(text)
                written.append(WrittenFile(path))
        except OSError as error:
            location = Path(error.filename) if isinstance(error.filename, str) else self.file
            raise ConfigError(f"cannot write the file: {error.strerror}", file=location) from None
        return written


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _backup_path(file: Path) -> Path:
    """Return the first of the paths `config.toml.bak`, `config.toml.bak2`, ... that does not exist yet."""
    names = (file.with_name(f"{file.name}.bak{number}") for number in ("", *range(2, 10_000)))
    return next(path for path in names if not os.path.lexists(path))
