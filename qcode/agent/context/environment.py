"""The environment section of the system prompt: folder, system, shell, date, and the state of version control.

Untrusted text (paths, branch names) is reduced to one line without control characters. The branch is read from a file.
git runs only in a trusted folder, and only if the repository's configuration, which is listed first, has no setting
that could start a program.
Facts: https://git-scm.com/docs/git-config, https://git-scm.com/docs/git-status.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from pathlib import Path

from qcode.agent.context.project import GitState, read_head
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_UNPRINTABLE = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_MAX_LINE_CHARS = 400


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a session."""

    folder: Path
    project_root: Path
    system: str
    """The operating system and its release."""
    shell: str
    """The shell that runs commands."""
    today: date
    """The local date."""
    git: GitState = field(default_factory=GitState)
    added_folders: tuple[Path, ...] = ()


def read_environment(
    folder: Path,
    project_root: Path,
    env: Mapping[str, str],
    today: date,
    *,
    is_trusted: bool,
    shell: str = "bash",
    added_folders: tuple[Path, ...] = (),
) -> Environment:
    """Return the environment. May block for a second; runs git only in a trusted folder."""
    system = os.uname()
    return Environment(
        folder,
        project_root,
        system=f"{system.sysname} {system.release}",
        shell=shell,
        today=today,
        git=read_git(project_root, env, is_trusted=is_trusted),
        added_folders=added_folders,
    )


def environment_section(environment: Environment, model: str) -> str:
    """Return the environment as a section of the prompt; `model` is the name shown to the user."""
    lines = ["# Environment", f"- Folder: {_one_line(environment.folder)}"]
    if environment.project_root != environment.folder:
        lines.append(f"- Project root: {_one_line(environment.project_root)}")
    lines += [f"- Added folder: {_one_line(folder)}" for folder in environment.added_folders]
    lines += [
        f"- Model: {_one_line(model)}",
        f"- System: {_one_line(environment.system)}",
        f"- Commands run in: {_one_line(environment.shell)}",
        f"- Date: {environment.today.isoformat()}",
        f"- Version control: {_git_text(environment.git)}",
    ]
    return "\n".join(lines)


def _git_text(state: GitState) -> str:
    if not state.is_repository:
        return "none (not a git repository)"
    if state.branch:
        repository = f"git, branch {_one_line(state.branch)}"
    elif state.commit:
        repository = f"git, no branch, at commit {state.commit[:12]}"
    else:
        repository = "git, branch unknown"
    if state.changed_files is None:
        return repository
    if state.changed_files == 0:
        return f"{repository}, no uncommitted changes"
    return f"{repository}, {count_text(state.changed_files, 'uncommitted change')} when the session began"


def _one_line(value: object) -> str:
    text = _UNPRINTABLE.sub("?", str(value))
    return text if len(text) <= _MAX_LINE_CHARS else text[: _MAX_LINE_CHARS - 1] + "…"


TIMEOUT_S = 1.0

_NO_EXTERNAL_DIFF = (("diff.external", ""),)
"""A setting for git: run no external diff program. Not in `hardened_environment`, because `git diff` fails with it."""


class _StateUnknown(Exception):  # noqa: N818  # control flow inside this module, never seen outside
    """The state of the repository is unknown; the text says why."""


def read_git(root: Path, env: Mapping[str, str], *, is_trusted: bool, timeout_s: float = TIMEOUT_S) -> GitState:
    """Return the state of the repository at `root`, in part if git exceeds `timeout_s`. Never raises."""
    head = read_head(root)
    if not head.is_repository:
        return head
    if not is_trusted:
        return replace(head, reason="the folder is not trusted, so git was not asked")
    try:
        return replace(head, changed_files=_Git(root, env, timeout_s).count_changes())
    except _StateUnknown as unknown:
        return replace(head, reason=str(unknown))


def list_files(root: Path, folder: Path, env: Mapping[str, str], timeout_s: float) -> tuple[str, ...] | None:
    """Return the files below `folder` that git does not ignore, as paths relative to `folder`.

    `root` must be trusted. A submodule or nested repository is listed as a folder with a final `/`. Return None if git
    cannot or may not run.
    """
    try:
        git = _Git(root, env, timeout_s, folder)
        git.check()
        tracked = git.run("ls-files", "-z", "--stage")
        deleted = frozenset(git.run("ls-files", "-z", "--deleted").split(b"\0"))
        new = git.run("ls-files", "-z", "--others", "--exclude-standard")
    except _StateUnknown:
        return None
    names: list[bytes] = []
    for line in tracked.split(b"\0"):
        mode_hash_and_stage, _, name = line.partition(b"\t")
        if name and name not in deleted:
            is_submodule = mode_hash_and_stage.startswith(b"160000")
            names.append(name + b"/" if is_submodule else name)
    names += filter(None, new.split(b"\0"))
    # A file with a merge conflict has several lines, one for each stage.
    return tuple(map(os.fsdecode, dict.fromkeys(names)))


class _Git:
    """The git commands for one repository, with one time limit for all of them."""

    def __init__(self, root: Path, env: Mapping[str, str], timeout_s: float, folder: Path | None = None) -> None:
        from qcode.safety.git_repository import hardened_environment
        from qcode.safety.launcher import find_program, safe_parts

        path = env.get("PATH", "")
        program = find_program("git", path, root)
        if program is None:
            raise _StateUnknown("no git outside the project was found")
        self._command = (program, "-C", str(folder or root))
        path_outside_project = os.pathsep.join(safe_parts(path, root))
        self._env = hardened_environment(env, path_outside_project, _NO_EXTERNAL_DIFF)
        self._deadline = time.monotonic() + timeout_s

    def check(self) -> None:
        """Raise `_StateUnknown` if the repository has a setting that is not known to be harmless."""
        listed = self.run("config", "--list", "--show-scope", "--show-origin", "--name-only", "-z")
        from qcode.safety.git_repository import risky_settings

        setting = next(risky_settings(listed.split(b"\0")), None)
        if setting is not None:
            raise _StateUnknown(f"the repository's configuration sets {setting}, so git was not asked for its state")

    def count_changes(self) -> int:
        self.check()
        status = self.run("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        return _count_entries(status.split(b"\0"))

    def run(self, *arguments: str) -> bytes:
        from qcode.safety.launcher import ProgramUnavailable, run

        try:
            result = run((*self._command, *arguments), self._env, self._deadline - time.monotonic())
        except ProgramUnavailable as unavailable:
            raise _StateUnknown(f"git {unavailable}") from None
        if result.exit_code != 0:
            raise _StateUnknown("git could not read the state of this repository")
        return result.output


def _count_entries(fields: Sequence[bytes]) -> int:
    """Count the entries of `git status --porcelain -z`. The old name of a rename or copy is a separate field."""
    count = 0
    is_old_name = False
    for entry in fields:
        if is_old_name or not entry:
            is_old_name = False
            continue
        count += 1
        status = entry[:2]
        is_old_name = b"R" in status or b"C" in status
    return count
