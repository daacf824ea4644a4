"""How calls run: the settings of git for read-only commands and for others, and timeouts inside a tool."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.toolbox import Toolbox
from qcode.config.settings import Tools
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.safety.git_repository import override_variables
from qcode.text.json import JsonObject
from qcode.tools.tool import Preview, ToolRunContext
from qcode.tools.workspace import Workspace
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


class TimingOut:
    """A tool in which an operation times out."""

    spec = ToolSpec("slow", "", {})

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        return Preview("Run it?", "")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        raise TimeoutError(110, "Connection timed out")


@pytest.mark.parametrize("limit", [None, 30.0])
def test_timeout_inside_a_tool_is_not_the_time_limit_of_calls(tmp_path: Path, limit: float | None) -> None:
    toolbox = Toolbox(tmp_path, (), Tools(tool_timeout_s=limit), {}, program_tools=(TimingOut(),))
    try:
        outcome = asyncio.run(toolbox.run("slow", {}, lambda _: None))
    finally:
        toolbox.close()
    assert (outcome.content, outcome.is_error) == ("slow: Connection timed out", True)
