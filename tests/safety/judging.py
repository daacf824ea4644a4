"""Judges commands as a trusted session in default mode does, with a repository that holds nothing to worry about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.shell.judge import Looks, Repository
from qcode.safety.verdict import Verdict

CLEAN = Looks(lambda _: "", Repository)
"""bash takes every command, and the configuration of git is harmless."""


def policy_for(root: Path, looks: Looks = CLEAN, **more: Any) -> Policy:
    more = {"mode": "default", "rules": Rules(), "is_trusted": True, "home": root.parent / "home", **more}
    return Policy(root=root, looks=looks, **more)


def judge_shell(command: str, root: Path, looks: Looks = CLEAN, **more: Any) -> Verdict:
    return policy_for(root, looks, **more).judge("shell", {"command": command})
