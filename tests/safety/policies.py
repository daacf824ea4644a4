"""Policies and verdicts of a trusted session in default mode, whose repository is harmless."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from qcode.safety.policy import Policy
from qcode.safety.probes import Probes, Repository, WorkspaceContents
from qcode.safety.rules import Rules
from qcode.safety.verdict import SandboxSupport, Verdict
from tests.fakes.tools import spec_of

BUBBLEWRAP = SandboxSupport(("read-only", "workspace", "protect"), masks=True, kind="bubblewrap")
LANDLOCK = SandboxSupport(("read-only",), kind="landlock")

CLEAN = Probes(lambda _: "", Repository, lambda: BUBBLEWRAP, WorkspaceContents)
"""bash accepts every command, the configuration of git is harmless, bubblewrap works, and no secret is in reach."""
NO_SANDBOX = replace(CLEAN, sandbox=SandboxSupport)


def policy_for(root: Path, probes: Probes = CLEAN, **more: Any) -> Policy:
    more = {"mode": "default", "rules": Rules(), "is_trusted": True, "home": root.parent / "home", **more}
    return Policy(root=root, probes=probes, **more)


def judge_shell(command: str, root: Path, probes: Probes = CLEAN, **more: Any) -> Verdict:
    return policy_for(root, probes, **more).judge(spec_of("shell"), {"command": command})
