"""What the files of a repository tell of it: its branch and commit. No program is run for it."""

from __future__ import annotations

import re
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.runtime.briefing.project import git_folder, read_small

_BRANCH = re.compile(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\n?")
_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\n?")


@dataclass(frozen=True, slots=True)
class GitState:
    """`changed` counts uncommitted changes, untracked files included; None where it was not or could not be asked.

    `why` says in words for a person why `changed` is None in a repository.
    """

    is_repository: bool = False
    branch: str = ""
    commit: str = ""
    changed: int | None = None
    why: str = ""


def read_head(root: Path) -> GitState:
    """Return branch and commit of the repository at `root`, never raising."""
    place = git_folder(root)
    if place is None:
        return GitState()
    head = read_small(place / "HEAD") or ""
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    name = branch[1] if branch and branch[1] != ".invalid" else ""
    return GitState(True, name, commit[1] if commit else "")
