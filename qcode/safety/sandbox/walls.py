"""Which walls a session's folders call for: the confinement of a level. Looks at the disk, changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.safety.places import CREDENTIALS, is_history
from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.verdict import Level

_STEERING = (
    ".git/config", ".git/config.worktree", ".git/hooks", ".git/info", ".git/modules", ".qcode", ".mcp.json",
    "AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", ".vscode", ".idea", ".husky", ".gitattributes", ".gitmodules",
    ".github/workflows", ".envrc", ".env",
)  # fmt: skip
"""What runs or is obeyed later. What of it is not there yet cannot be walled off: a wall needs a place to stand."""
_COVERED = ("/run", "/tmp", "/var/tmp")  # noqa: S108  # compared, nothing is put there


@dataclass(frozen=True, slots=True)
class Grounds:
    """The folders of a session. `own` are qcode's, which no command needs; `scratch` is private to the session."""

    root: Path
    added: tuple[Path, ...] = ()
    scratch: Path | None = None
    home: Path | None = None
    own: tuple[Path, ...] = ()
    search_path: str = ""


def confinement_for(level: Level, grounds: Grounds) -> Confinement:
    """Return the walls for a command of the session, as things are on disk now."""
    roots = tuple(_real(path) for path in (grounds.root, *grounds.added))
    scratch = () if grounds.scratch is None else (_real(grounds.scratch),)
    programs = (_real(Path(part)) for part in grounds.search_path.split(":") if part.startswith("/"))
    visible = (*roots, *scratch, *(path for path in programs if _is_below(path, map(Path, _COVERED))))
    hidden = tuple(path for path in _secrets(grounds) if not any(base.is_relative_to(path) for base in visible))
    if level == "read-only":
        return Confinement(visible, (), (), hidden)
    protected = tuple(path for base in roots for name in _STEERING if (path := base / name).exists())
    return Confinement(visible, (*roots, *scratch), protected, hidden)


def _secrets(grounds: Grounds) -> Iterator[Path]:
    yield from (_real(path) for path in grounds.own if path.is_dir())
    home = grounds.home
    if home is None or not home.is_dir():
        return
    places = (home / name for name in (*CREDENTIALS, ".ssh"))
    try:
        histories = [path for path in home.iterdir() if is_history(path.name)]
    except OSError:
        histories = []
    yield from (_real(path) for path in (*places, *histories) if path.exists())


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
