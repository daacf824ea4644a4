"""The folders of qcode's own files: the configuration and the state (sessions, trust, limits)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from qcode.protocol.errors import ConfigError
from qcode.values import dataclass

CONFIG_NAME = "config.toml"
HISTORY_NAME = "history.jsonl"
"""The sent prompts, in the state folder."""
DRAFTS_FOLDER = "drafts"
"""The unsent prompts, beside `HISTORY_NAME`."""
PROJECT_FOLDER = ".qcode"
CLAUDE_FOLDER = ".claude"
"""The folder of Claude Code in the home and in a project. Its commands, agents and instructions are read."""

CLAUDE_SETTINGS = (f"{CLAUDE_FOLDER}/settings.json", f"{CLAUDE_FOLDER}/settings.local.json")
"""Claude Code's settings in a project, whose hooks may be read."""

AGENTS_FOLDER = "agents"
COMMANDS_FOLDER = "commands"
QCODE_SKILL_FOLDER = f"{PROJECT_FOLDER}/skills"
OTHER_SKILL_FOLDERS = (".agents/skills", ".claude/skills")
"""The folders of skills that other programs read, in a project or in the home."""
SKILL_FOLDERS = (QCODE_SKILL_FOLDER, *OTHER_SKILL_FOLDERS)
"""The folders of a project's skills, qcode's first."""
MCP_FILE = ".mcp.json"


@dataclass(frozen=True, slots=True)
class ConfigPaths:
    """Absolute folders, which need not exist."""

    config_dir: Path
    state_dir: Path

    @property
    def config_file(self) -> Path:
        return self.config_dir / CONFIG_NAME

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> ConfigPaths:
        """Return the folders: all under `QCODE_HOME` if it is set, otherwise the platform's usual folders.

        Raise `ConfigError` if `QCODE_HOME` starts with a `~` that cannot be expanded, or if there is no home folder.
        """
        home = env.get("QCODE_HOME", "").strip()
        if home:
            return cls._below_home(home)
        from platformdirs import PlatformDirs

        dirs = PlatformDirs("qcode", appauthor=False)
        try:
            return cls(dirs.user_config_path, dirs.user_state_path)
        except RuntimeError:  # no HOME, and the user has no entry in the password database
            raise ConfigError("this user has no home folder; set HOME or QCODE_HOME to a folder for qcode") from None

    @classmethod
    def _below_home(cls, home: str) -> ConfigPaths:
        try:
            root = Path(home).expanduser().absolute()
        except RuntimeError:
            raise ConfigError(
                "QCODE_HOME starts with ~, but that home folder does not exist; set an absolute path"
            ) from None
        return cls(root, root / "state")


def with_tilde(path: str) -> str:
    """Return an absolute path with `~` for the home folder; a line number may follow it."""
    home = os.path.expanduser("~")  # noqa: PTH111  # never raises
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


@dataclass(frozen=True, slots=True)
class DefinitionFolder:
    """A folder of definitions, one in each file."""

    path: Path
    project: Path | None = None
    """The project: links in the folder must not lead out of it; None for a folder of the user."""


def exists_or_unknown(path: Path) -> bool:
    """Return whether a file, folder or link exists at `path`; True if the folder above it cannot be searched."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_same_file(left: Path, right: Path) -> bool:
    """Return whether both are the same existing file or folder, whatever their names."""
    try:
        return left.samefile(right)
    except OSError:
        return False


def project_file(project_root: Path) -> Path:
    """Return the path of a project's settings file."""
    return project_root / PROJECT_FOLDER / CONFIG_NAME
