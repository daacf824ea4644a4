"""Reads branch and state of a repository, without letting the repository run anything.

The branch comes from a file. Only in a trusted folder git itself is asked, and only after its configuration was listed
(which runs nothing) and holds no setting of the repository that could start a program.
Facts: https://git-scm.com/docs/git-config, https://git-scm.com/docs/git-status.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qcode.runtime.briefing.project import git_folder, read_small
from qcode.safety.launch.git_config import hardened, risky
from qcode.safety.launch.process import Unavailable, find_program, run, safe_parts

TIMEOUT_S = 1.0

_BRANCH = re.compile(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\n?")
# For `git status` alone: `git diff` fails with it.
_NO_DIFF = (("diff.external", ""),)
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

    @property
    def is_clean(self) -> bool | None:
        return None if self.changed is None else self.changed == 0


class _Unknown(Exception):  # noqa: N818  # control flow inside this module, never seen outside
    """The state cannot be told; the text says why."""


def read_git(root: Path, env: Mapping[str, str], *, is_trusted: bool, timeout: float = TIMEOUT_S) -> GitState:
    """Return what can be told of the repository at `root` within `timeout` seconds, never raising."""
    place = git_folder(root)
    if place is None:
        return GitState()
    head = read_small(place / "HEAD") or ""
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    name = branch[1] if branch and branch[1] != ".invalid" else ""
    at = commit[1] if commit else ""
    if not is_trusted:
        return GitState(True, name, at, None, "the folder is not trusted, so git was not asked")
    try:
        return GitState(True, name, at, _Git(root, env, timeout).count_changes())
    except _Unknown as unknown:
        return GitState(True, name, at, None, str(unknown))


class _Git:
    """Asks the git program about one repository, all within one time limit."""

    def __init__(self, root: Path, env: Mapping[str, str], timeout: float) -> None:
        path = env.get("PATH", "")
        program = find_program("git", path, root)
        if program is None:
            raise _Unknown("no git outside the project was found")
        self._command = (program, "-C", str(root))
        self._env = hardened(env, os.pathsep.join(safe_parts(path, root)), _NO_DIFF)
        self._deadline = time.monotonic() + timeout

    def count_changes(self) -> int:
        listed = self._run("config", "--list", "--show-scope", "--show-origin", "--name-only", "-z")
        found = next(risky(listed.split(b"\0")), None)
        if found is not None:
            raise _Unknown(f"the repository's configuration sets {found}, so git was not asked for its state")
        changes = self._run("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        return _count(changes.split(b"\0"))

    def _run(self, *arguments: str) -> bytes:
        try:
            code, output = run((*self._command, *arguments), self._env, self._deadline - time.monotonic())
        except Unavailable as unavailable:
            raise _Unknown(f"git {unavailable}") from None
        if code != 0:
            raise _Unknown("git could not tell the state of this repository")
        return output


def _count(fields: Sequence[bytes]) -> int:
    """Count the entries of `git status --porcelain -z`; a rename or copy has its old name as a field of its own."""
    count, is_old_name = 0, False
    for one in fields:
        if is_old_name or not one:
            is_old_name = False
            continue
        count += 1
        is_old_name = b"R" in one[:2] or b"C" in one[:2]
    return count
