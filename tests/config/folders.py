"""Writes configuration files into a temporary folder and loads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.config.settings import Settings


class Folders:
    """The configuration of a user and a project, both empty at first."""

    def __init__(self, base: Path) -> None:
        self.paths = ConfigPaths(base / "home", base / "home/state")
        self.project = base / "project"
        self.user_file = self.paths.config_file
        self.project_file = self.project / ".qcode/config.toml"
        self.user_file.parent.mkdir()
        self.project_file.parent.mkdir(parents=True)

    def user(self, text: str) -> Folders:
        self.user_file.write_text(text, encoding="utf-8")
        return self

    def in_project(self, text: str) -> Folders:
        self.project_file.write_text(text, encoding="utf-8")
        return self

    def load(
        self,
        env: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
        *,
        is_trusted: bool = True,
        extra: Path | Mapping[str, object] | None = None,
        user_config: bool = True,
    ) -> Settings:
        return load(
            self.paths,
            env or {},
            flags or {},
            self.project,
            is_trusted,
            further_settings=extra,
            user_config=user_config,
        )
