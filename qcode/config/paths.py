"""Where qcode keeps its own files: the configuration, the state (sessions, trust, limits) and the cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qcode.protocol.errors import ConfigError
from qcode.values import dataclass

CONFIG_NAME = "config.toml"
PROJECT_FOLDER = ".qcode"
AGENTS_FOLDER = "agents"
MCP_FILE = ".mcp.json"


@dataclass(frozen=True, slots=True)
class ConfigPaths:
    """Absolute folders; none of them has to exist."""

    config_dir: Path
    state_dir: Path
    cache_dir: Path

    @property
    def config_file(self) -> Path:
        return self.config_dir / CONFIG_NAME

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> ConfigPaths:
        """Return the folders: all under `QCODE_HOME` where that is set, else those the platform sets aside.

        Raise `ConfigError` where `QCODE_HOME` begins with a `~` that stands for nobody.
        """
        home = env.get("QCODE_HOME", "").strip()
        if home:
            return cls._under(home)
        from platformdirs import PlatformDirs

        dirs = PlatformDirs("qcode", appauthor=False)
        return cls(dirs.user_config_path, dirs.user_state_path, dirs.user_cache_path)

    @classmethod
    def _under(cls, home: str) -> ConfigPaths:
        try:
            root = Path(home).expanduser().absolute()
        except RuntimeError:
            raise ConfigError("QCODE_HOME begins with ~ but there is no such home folder; set a full path") from None
        return cls(root, root / "state", root / "cache")


def may_exist(path: Path) -> bool:
    """Return False if there is nothing at `path`; what cannot be looked at may be there."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def project_file(project_root: Path) -> Path:
    """Return where a project keeps its settings."""
    return project_root / PROJECT_FOLDER / CONFIG_NAME
