"""What only a process or a walk over the disk can tell the judges: values, and the questions that return them.

`Repository` is what is known of a git repository, `WorkspaceContents` what a workspace holds. `launcher`,
`git_repository`, `sandbox` and the session answer the questions; nothing is asked here. A judge without answers
allows nothing that depends on them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from qcode.safety.verdict import SandboxSupport
from qcode.values import dataclass


def _unchecked(_: str) -> str:
    return "bash was not asked whether it accepts the command"


def _unseen() -> Repository:
    return Repository("the configuration of the repository was not checked")


def _unwalked() -> WorkspaceContents:
    return WorkspaceContents(is_complete=False)


@dataclass(frozen=True, slots=True)
class Probes:
    """The questions. `syntax` returns why bash does not accept a command, empty if it does.

    `repository` is about the workspace. The defaults have looked at nothing.
    """

    syntax: Callable[[str], str] = _unchecked
    repository: Callable[[], Repository] = _unseen
    sandbox: Callable[[], SandboxSupport] = SandboxSupport
    contents: Callable[[], WorkspaceContents] = _unwalked


@dataclass(frozen=True, slots=True)
class Tracked:
    """What the index holds, relative to the top of the work tree."""

    files: frozenset[str] = frozenset()
    secrets: tuple[str, ...] = ()
    """Files whose names are protected."""


_NO_FILES = Tracked()


@dataclass(frozen=True, slots=True)
class Repository:
    """What a probe of a repository found. The default is a repository with nothing to worry about.

    `complaint` says why git may not run there unasked, empty if it may. What the `find_` fields return is looked for
    when it is asked for: each may start git, and is None if there was no answer in time.
    """

    complaint: str = ""
    has_submodules: bool = False
    has_credentials: bool = False
    is_present: bool = True
    """Whether git finds a repository. Without one, some commands compare files that nobody named to git."""
    top: str = ""
    """The absolute path of the work tree, empty if it is not known."""
    find_tracked: Callable[[], Tracked | None] = lambda: _NO_FILES
    find_history_secrets: Callable[[], tuple[str, ...] | None] = tuple
    """Files with protected names in commits, the stash and the reflogs. One of several equal files stands for all."""
    find_linked_folder: Callable[[], str] = str
    """A folder of tracked files that was replaced by a link, through which git would read files elsewhere."""


MAX_MASKED = 1_000
"""Secret files that a sandbox masks one by one. Of more, it covers the folders; then a search asks."""


@dataclass(frozen=True, slots=True)
class WorkspaceContents:
    """What a workspace holds. Paths are absolute, below the real path of a root, and sorted."""

    secrets: tuple[str, ...] = ()
    """Files whose name says that they hold secrets, git configurations with credentials, and their hard links."""
    steering: tuple[str, ...] = ()
    """Files and folders that run or instruct programs later, but not those in dependency folders."""
    git_steering: tuple[str, ...] = ()
    """Those of them that belong to git."""
    git_configs: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    """Further names in the workspace of the same file as one in `steering`."""
    is_complete: bool = True
    """Whether everything was looked at in time."""

    @property
    def can_be_masked(self) -> bool:
        """Whether a sandbox that masks files hides all the secrets."""
        return len(self.secrets) <= MAX_MASKED

    def secrets_below(self, folder: str) -> tuple[str, ...]:
        """Return the secrets in `folder` and its subfolders."""
        return _below(self.secrets, folder)


def _below(paths: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Return the part of sorted `paths` that is `folder` or below it."""
    base = folder.rstrip("/")
    first = bisect_left(paths, f"{base}/")
    last = bisect_left(paths, f"{base}0")  # "0" is the character after "/"
    at = bisect_left(paths, base)
    is_itself = at < len(paths) and paths[at] == base
    return (*((base,) if is_itself else ()), *paths[first:last])
