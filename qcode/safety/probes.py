"""Facts about the machine and the workspace for the judges, and the functions that determine them.

Each function needs a process or a walk over the disk, so the judges receive it and do not depend on its module.
`Repository` describes a git repository, `WorkspaceContents` the protected files of a workspace. `launcher`,
`git_repository`, `sandbox` and the session implement the functions. By default, nothing that depends on these facts is
allowed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from qcode.safety.verdict import SandboxSupport
from qcode.values import dataclass


def _unchecked(_: str) -> str:
    return "bash was not asked whether it accepts the command"


def _unchecked_repository() -> Repository:
    return Repository("the git configuration was not checked")


def _unwalked() -> WorkspaceContents:
    return WorkspaceContents(is_complete=False)


@dataclass(frozen=True, slots=True)
class Probes:
    """The functions that return facts. The default results allow nothing."""

    syntax: Callable[[str], str] = _unchecked
    """Returns why bash rejects a command, empty if it accepts the command."""
    repository: Callable[[], Repository] = _unchecked_repository
    """Describes the repository of the workspace."""
    sandbox: Callable[[], SandboxSupport] = SandboxSupport
    """Describes the sandbox of this machine."""
    contents: Callable[[], WorkspaceContents] = _unwalked
    """Lists the protected files of the workspace."""


@dataclass(frozen=True, slots=True)
class TrackedFiles:
    """The files in the index of git, relative to the top of the work tree."""

    files: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    """Files whose names are protected."""


_NO_FILES = TrackedFiles()


@dataclass(frozen=True, slots=True)
class Repository:
    """The result of probing a repository. The default is a harmless repository.

    Each `find_` function may start git. After a timeout, the first two return None.
    """

    problem: str = ""
    """The reason why git needs approval there, empty if it does not."""
    has_submodules: bool = False
    has_credentials: bool = False
    is_present: bool = True
    """Git finds a repository. Without one, some commands compare files outside any repository."""
    top: str = ""
    """The absolute path of the work tree, empty if it is not known."""
    find_tracked: Callable[[], TrackedFiles | None] = lambda: _NO_FILES
    """The files in the index."""
    find_history_secrets: Callable[[], tuple[str, ...] | None] = tuple
    """Files with protected names in commits, the stash and the reflogs. Files with equal content have one entry."""
    find_linked_folder: Callable[[], str] = str
    """A folder of tracked files that was replaced by a link, which git would follow; empty if there is none.

    `a folder` if the index could not be listed.
    """


MAX_MASKED = 1_000
"""The maximum number of secret files that a sandbox masks one by one.

If there are more, it covers their folders, and commands that search files need approval.
"""


@dataclass(frozen=True, slots=True)
class WorkspaceContents:
    """The protected files of a workspace. Paths are absolute, below the real path of a root, and sorted."""

    secrets: tuple[str, ...] = ()
    """Files with the name of a secret, git configurations with credentials, and hard links to these files."""
    control_paths: tuple[str, ...] = ()
    """Files and folders that programs later execute or take instructions from, such as git hooks.

    Those in dependency folders are left out.
    """
    git_control_paths: tuple[str, ...] = ()
    """The `control_paths` that belong to git."""
    control_path_links: tuple[str, ...] = ()
    """Hard links in the workspace to files in `control_paths`."""
    is_complete: bool = True
    """The walk finished in time."""

    @property
    def can_be_masked(self) -> bool:
        """Whether a sandbox that masks files can hide all the secrets."""
        return len(self.secrets) <= MAX_MASKED

    def secrets_below(self, folder: str) -> tuple[str, ...]:
        """Return the secrets in `folder` and its subfolders."""
        return _paths_below(self.secrets, folder)


def _paths_below(paths: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Return the part of sorted `paths` that is `folder` or below it."""
    base = folder.rstrip("/")
    first = bisect_left(paths, f"{base}/")
    last = bisect_left(paths, f"{base}0")  # "0" is the character after "/"
    index = bisect_left(paths, base)
    is_listed = index < len(paths) and paths[index] == base
    return (*((base,) if is_listed else ()), *paths[first:last])
