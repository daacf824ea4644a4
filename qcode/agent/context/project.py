"""The project root of a folder, and the branch and commit of its repository. Starts no process.

Separate from `environment` because the first paint needs it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from qcode.protocol.errors import InputError
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_MAX_POINTER_BYTES = 4096
_POINTER = "gitdir:"


def find_project_root(folder: Path) -> Path:
    """Return the nearest of `folder` and its parents with a valid `.git`, otherwise `folder`; links are resolved."""
    real_folder = folder.resolve()
    return next((path for path in (real_folder, *real_folder.parents) if git_folder(path) is not None), real_folder)


def git_folder(root: Path) -> Path | None:
    """Return the folder of the repository whose work tree is `root`, or None if there is none.

    A valid `.git` is a folder with `HEAD`, `objects` and `refs`, or a file that points to such a folder, as in a linked
    work tree or a submodule. See https://git-scm.com/docs/gitrepository-layout.
    """
    git_folder_path = root / ".git"
    pointer = read_small_file(git_folder_path)
    if pointer is None:
        return git_folder_path if _has_head(git_folder_path) and _has_object_store(git_folder_path) else None
    if not pointer.startswith(_POINTER):
        return None
    target = root / pointer[len(_POINTER) :].strip()
    if not _has_head(target):
        return None
    common = read_small_file(target / "commondir")  # a linked work tree shares the object store of its repository
    store = target if common is None else target / common.strip()
    return target if _has_object_store(store) else None


def read_small_file(path: Path) -> str | None:
    """Return the text of a small regular file, or None for anything else; follows no link and never blocks."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.read(handle, _MAX_POINTER_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)


# In these two functions `pathlib` would raise an error for a folder of another user, and for a name that is too long.


def _has_head(folder: Path) -> bool:
    return os.path.isfile(folder / "HEAD")  # noqa: PTH113  # never raises


def _has_object_store(folder: Path) -> bool:
    return os.path.isdir(folder / "objects") and os.path.isdir(folder / "refs")  # noqa: PTH112  # never raises


_BRANCH = lazy_pattern(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\n?")
_COMMIT = lazy_pattern(r"([0-9a-f]{40}|[0-9a-f]{64})\n?")


@dataclass(frozen=True, slots=True)
class GitState:
    """The state of a repository."""

    is_repository: bool = False
    branch: str = ""
    commit: str = ""
    """The commit if no branch is checked out, otherwise empty."""
    changed_files: int | None = None
    """The number of uncommitted and untracked files, None if unknown."""
    reason: str = ""
    """Why `changed_files` is unknown in a repository, for the user."""


def read_head(root: Path) -> GitState:
    """Return branch and commit of the repository at `root`. Never raises."""
    git_folder_path = git_folder(root)
    if git_folder_path is None:
        return GitState()
    head = read_small_file(git_folder_path / "HEAD") or ""
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    name = branch[1] if branch and branch[1] != ".invalid" else ""
    return GitState(is_repository=True, branch=name, commit=commit[1] if commit else "")


def resolve_added_folder(path: str | Path, message_prefix: str = "") -> Path:
    """Return the full path of a folder to add to the workspace; raise `InputError` for anything else."""
    try:
        full_path = Path(path).expanduser().absolute()
        is_folder = full_path.is_dir()
    except (RuntimeError, OSError) as error:
        raise InputError(f"{message_prefix}{path}: {getattr(error, 'strerror', None) or error}") from None
    if not is_folder:
        raise InputError(f"{message_prefix}{path} {'is not a folder' if full_path.exists() else 'does not exist'}")
    return full_path
