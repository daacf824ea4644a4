"""Reads branch and state of a repository, without letting the repository run anything.

The branch comes from a file. Only in a trusted folder git itself is asked, and only after its configuration was listed
(which runs nothing) and holds no setting of the repository that could start a program.
Facts: https://git-scm.com/docs/git-config, https://git-scm.com/docs/git-status.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from qcode.runtime.briefing.head import GitState, read_head
from qcode.safety.launch.git_config import hardened, risky
from qcode.safety.launch.process import Unavailable, find_program, run, safe_parts

TIMEOUT_S = 1.0

# For `git status` alone: `git diff` fails with it.
_NO_DIFF = (("diff.external", ""),)


class _Unknown(Exception):  # noqa: N818  # control flow inside this module, never seen outside
    """The state cannot be told; the text says why."""


def read_git(root: Path, env: Mapping[str, str], *, is_trusted: bool, timeout: float = TIMEOUT_S) -> GitState:
    """Return what can be told of the repository at `root` within `timeout` seconds, never raising."""
    head = read_head(root)
    if not head.is_repository:
        return head
    if not is_trusted:
        return replace(head, why="the folder is not trusted, so git was not asked")
    try:
        return replace(head, changed=_Git(root, env, timeout).count_changes())
    except _Unknown as unknown:
        return replace(head, why=str(unknown))


def list_files(root: Path, folder: Path, env: Mapping[str, str], timeout: float) -> tuple[str, ...] | None:
    """Return the files of a trusted repository in and below `folder`, relative to it: what git does not ignore.

    A submodule or a nested repository is a folder, its name ends in `/`. None where git cannot or may not be asked.
    """
    try:
        git = _Git(root, env, timeout, folder)
        git.check()
        kept = git.run("ls-files", "-z", "--stage")
        gone = frozenset(git.run("ls-files", "-z", "--deleted").split(b"\0"))
        new = git.run("ls-files", "-z", "--others", "--exclude-standard")
    except _Unknown:
        return None
    names: dict[bytes, None] = {}
    for line in kept.split(b"\0"):
        stage, _, name = line.partition(b"\t")
        if name and name not in gone:
            names[name + b"/" if stage.startswith(b"160000") else name] = None
    names.update(dict.fromkeys(name for name in new.split(b"\0") if name))
    return tuple(map(os.fsdecode, names))


class _Git:
    """Asks the git program about one repository, all within one time limit."""

    def __init__(self, root: Path, env: Mapping[str, str], timeout: float, folder: Path | None = None) -> None:
        path = env.get("PATH", "")
        program = find_program("git", path, root)
        if program is None:
            raise _Unknown("no git outside the project was found")
        self._command = (program, "-C", str(folder or root))
        self._env = hardened(env, os.pathsep.join(safe_parts(path, root)), _NO_DIFF)
        self._deadline = time.monotonic() + timeout

    def check(self) -> None:
        """Raise `_Unknown` where the repository sets anything that is not known to be harmless."""
        listed = self.run("config", "--list", "--show-scope", "--show-origin", "--name-only", "-z")
        found = next(risky(listed.split(b"\0")), None)
        if found is not None:
            raise _Unknown(f"the repository's configuration sets {found}, so git was not asked for its state")

    def count_changes(self) -> int:
        self.check()
        found = self.run("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        return _count(found.split(b"\0"))

    def run(self, *arguments: str) -> bytes:
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
