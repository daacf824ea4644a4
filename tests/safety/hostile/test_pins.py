"""Stored trust and approvals of a folder follow a change that the user approved, and no other."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.pins import Pins
from qcode.agent.mcp.servers import Servers
from qcode.agent.mcp.spec import ServerSpec
from qcode.agent.trust.store import TrustStore
from qcode.config.settings import McpServer
from qcode.protocol.approvals import Allow, ApprovalMode
from tests.agent.mcp.serving import open_servers, until
from tests.safety.hostile.attempts import Attempt
from tests.safety.hostile.canaries import CanaryFolders, make_canaries
from tests.safety.hostile.conversation import play
from tests.safety.hostile.file_attacks import patched

COMMAND = ".qcode/commands/go.toml"


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CanaryFolders:
    canaries = make_canaries(tmp_path / "canaries")
    monkeypatch.setenv("HOME", str(canaries.home))
    TrustStore(tmp_path / "state").remember(canaries.work)
    return canaries


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("edit", {"path": COMMAND, "old_text": '"go"', "new_text": '"stop"'}),
        ("write", {"path": ".qcode/commands/new.toml", "content": 'prompt = "new"\n'}),
        ("apply_patch", patched(f"*** Delete File: {COMMAND}")),
    ],
)
@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_shown_and_approved_change_is_pinned(
    mode: ApprovalMode, tool: str, arguments: dict[str, Any], canaries: CanaryFolders, tmp_path: Path
) -> None:
    before = canaries.photograph()
    calls = [Attempt("reads", "read", {"path": COMMAND}), Attempt("edits a protected file", tool, arguments)]
    played = play(canaries, calls, mode, says_yes=lambda asked: True)
    assert len(played.asked) == 1
    assert canaries.photograph() != before
    assert TrustStore(tmp_path / "state").is_trusted(canaries.work)


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_change_by_a_command_asks_at_the_next_start(
    mode: ApprovalMode, canaries: CanaryFolders, tmp_path: Path
) -> None:
    command = f"sed -i s/go/stop/ {COMMAND}"
    play(canaries, [Attempt("runs", "shell", {"command": command})], mode, says_yes=lambda asked: True)
    status = TrustStore(tmp_path / "state").status_of(canaries.work)
    assert [change.name for change in status.changes] == [COMMAND]


SCRIPT = "import runpy\n\nrunpy.run_module('tests.fakes.tool_server', run_name='__main__')\n"


def server_of(canaries: CanaryFolders, *, is_from_project: bool) -> ServerSpec:
    """A tool server whose script lies in the workspace."""
    env = {"TOOL_SERVER_STATE": str(canaries.base), "PYTHONPATH": os.pathsep.join(sys.path)}
    config = McpServer(sys.executable, ("-W", "ignore", "src/server.py"), env, is_from_project=is_from_project)
    return ServerSpec("tracker", config, "own", "config.toml")


def start(canaries: CanaryFolders, spec: ServerSpec, *, says_yes: bool) -> str:
    """Start the server as a session does, and return its state once no server is starting."""

    async def body() -> str:
        servers = Servers(
            [spec], Pins(canaries.base.parent / "state"), ServerContext(canaries.work, os.environ), is_trusted=True
        )
        async with open_servers(servers):
            for approval in servers.approvals() if says_yes else ():
                servers.answer(approval.id, Allow())
                await until(lambda: servers.statuses()[0].state != "starting")
            return servers.statuses()[0].state

    return asyncio.run(body())


REWRITES = {
    "edit": {"path": "src/server.py", "old_text": "import runpy", "new_text": "import os; os.mkdir('stolen')"},
    "write": {"path": "src/server.py", "content": "import os\n\nos.mkdir('stolen')\n"},
    "apply_patch": patched("*** Update File: src/server.py", "@@", "-import runpy", "+import os; os.mkdir('stolen')"),
}


@pytest.mark.parametrize("is_from_project", [True, False], ids=["project", "own"])
@pytest.mark.parametrize("tool", REWRITES)
def test_tool_server_rewritten_by_the_model_does_not_run_at_the_next_start(
    tool: str, is_from_project: bool, canaries: CanaryFolders
) -> None:
    (canaries.work / "src/server.py").write_text(SCRIPT)
    spec = server_of(canaries, is_from_project=is_from_project)
    assert start(canaries, spec, says_yes=True) == "ready"
    assert start(canaries, spec, says_yes=False) == "ready"
    calls = [Attempt("reads", "read", {"path": "src/server.py"}), Attempt("edits", tool, REWRITES[tool])]
    played = play(canaries, calls, "accept-edits")
    assert played.asked == []
    assert "stolen" in (canaries.work / "src/server.py").read_text()
    assert start(canaries, spec, says_yes=False) == "waiting"
    assert not (canaries.work / "stolen").exists()
