"""Read-only commands run with settings that stop git from starting programs; others run with the user's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from qcode.agent.toolbox import Toolbox
from qcode.config.settings import Tools
from qcode.safety.git_repository import override_variables
from tests.safety.policies import policy_for


def test_only_read_commands_get_the_overrides(tmp_path: Path) -> None:
    policy = policy_for(tmp_path)
    toolbox = Toolbox(
        tmp_path,
        (),
        Tools(),
        {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        shell_variables=lambda command: override_variables() if policy.only_reads(command) else {},
    )

    def run(command: str) -> str:
        return asyncio.run(toolbox.run("shell", {"command": command}, lambda _: None)).content

    try:
        assert "/dev/null" in run("git config --get core.hooksPath")
        assert "/dev/null" not in run("git config --get core.hooksPath; touch x")
    finally:
        toolbox.close()
