"""Where the model works, in a few lines: folder, system, shell, date, and the state of version control.

Everything foreign in them (paths, branch names) is put on one line without control characters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import date
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.runtime.briefing.git import read_git
from qcode.runtime.briefing.head import GitState

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Environment:
    """`system` is the operating system with its release, `shell` what runs commands, `today` the local date."""

    folder: Path
    project_root: Path
    system: str
    shell: str
    today: date
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
    """Look at the system and at version control. May block for a second; runs git only in a trusted folder."""
    system = os.uname()
    return Environment(
        folder,
        project_root,
        f"{system.sysname} {system.release}",
        shell,
        today,
        read_git(project_root, env, is_trusted=is_trusted),
        added_folders,
    )


def describe(environment: Environment, model: str) -> str:
    """Return the environment as the part of a prompt; `model` is the name the person knows it by."""
    lines = ["# Environment", f"- Folder: {_one_line(environment.folder)}"]
    if environment.project_root != environment.folder:
        lines.append(f"- Project root: {_one_line(environment.project_root)}")
    lines += [f"- Added folder: {_one_line(folder)}" for folder in environment.added_folders]
    lines += [
        f"- Model: {_one_line(model)}",
        f"- System: {_one_line(environment.system)}",
        f"- Commands run in: {_one_line(environment.shell)}",
        f"- Date: {environment.today.isoformat()}",
        f"- Version control: {_git(environment.git)}",
    ]
    return "\n".join(lines)


def _git(state: GitState) -> str:
    if not state.is_repository:
        return "none (not a git repository)"
    if state.branch:
        where = f"git, branch {_one_line(state.branch)}"
    elif state.commit:
        where = f"git, no branch, at commit {state.commit[:12]}"
    else:
        where = "git, branch unknown"
    if state.changed is None:
        return where
    if state.changed == 0:
        return f"{where}, no uncommitted changes"
    return (
        f"{where}, {state.changed} uncommitted {'change' if state.changed == 1 else 'changes'} when the session began"
    )


def _one_line(value: object) -> str:
    text = _UNPRINTABLE.sub("?", str(value))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
