"""The sandbox of a session: found once, when needed; commands run in it, and its denials are reported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.agent.toolbox import FetchGate, Toolbox
from qcode.config.settings import Tools
from qcode.protocol.tools import ToolOutcome
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.sandbox.detection import Sandbox, find_sandbox
from qcode.safety.verdict import Level
from qcode.text.json import Json
from qcode.tools.web import RequestTarget
from qcode.tools.workspace import Scratch


def test_sandbox_is_not_probed_until_needed_and_never_if_disabled(tmp_path: Path) -> None:
    looked: list[int] = []

    def find() -> Sandbox | None:
        looked.append(1)
        return None

    session_sandbox = SessionSandbox("auto", SandboxScope(tmp_path), find)
    assert session_sandbox.launch(None, ["/bin/true"]).argv == ("/bin/true",)
    assert looked == []
    assert session_sandbox.levels() == ()
    assert session_sandbox.levels() == ()
    assert looked == [1]
    assert SessionSandbox("off", SandboxScope(tmp_path), find).levels() == ()
    assert looked == [1]
    with pytest.raises(RuntimeError):
        session_sandbox.launch("read-only", ["/bin/true"])


def run(root: Path, command: str, level: Level | None, **more: Json) -> ToolOutcome:
    scratch = Scratch()
    session_sandbox = SessionSandbox("auto", SandboxScope(root, scratch=scratch.path, search_path="/usr/bin:/bin"))
    toolbox = Toolbox(root, (), Tools(), {"PATH": "/usr/bin:/bin"}, scratch=scratch, sandbox=session_sandbox)
    try:
        return asyncio.run(toolbox.run("shell", {"command": command, **more}, lambda text: None, level))
    finally:
        toolbox.close()


@pytest.mark.parametrize(("level", "can_write"), [(None, True), ("read-only", False), ("workspace", True)])
def test_command_runs_as_confined_as_its_verdict_requires(tmp_path: Path, level: Level | None, can_write: bool) -> None:
    sandbox = find_sandbox()
    if level is not None and (sandbox is None or level not in sandbox.levels):
        pytest.skip("no sandbox that can do this works here")
    done = run(tmp_path, "echo x > made", level)
    assert (tmp_path / "made").exists() is can_write
    assert done.is_error is not can_write
    assert ("unconfined: true" in done.content) is not can_write


def test_failure_unrelated_to_the_sandbox_does_not_blame_it(tmp_path: Path) -> None:
    if find_sandbox() is None:
        pytest.skip("no sandbox works here")
    assert "sandbox" not in run(tmp_path, "ls none", "read-only").content


@pytest.mark.parametrize(
    ("url", "address", "is_accepted"),
    [
        ("https://example.com/", "93.184.215.14", True),
        ("https://example.com/", "127.0.0.1", False),
        ("https://example.com/", "169.254.169.254", False),
        ("https://example.com/", "::ffff:10.0.0.1", False),
        ("https://example.com/", "64:ff9b::7f00:1", False),
        ("https://example.com/", "fe80::1%eth0", False),
        ("https://example.com/", "no address", False),
        ("http://localhost:8080/", "127.0.0.1", True),
        ("http://localhost:8080/", "10.0.0.1", False),
        ("http://127.0.0.1:8080/", "127.0.0.1", True),
    ],
)
def test_fetch_address_is_public_or_explicitly_local(tmp_path: Path, url: str, address: str, is_accepted: bool) -> None:
    gate = FetchGate(lambda: Policy("default", Rules.of(), True, tmp_path))
    target = gate.target(url)
    assert isinstance(target, RequestTarget)
    assert gate.accepts(target, address) is is_accepted


def test_current_rules_decide_which_addresses_are_fetched(tmp_path: Path) -> None:
    policy = Policy("default", Rules.of(allow=["fetch(docs.python.org)"]), True, tmp_path)
    gate = FetchGate(lambda: policy)
    assert gate.refusal("https://docs.python.org/3/") == ""
    assert gate.refusal("https://example.com/") != ""
    policy = replace(policy, rules=Rules.of(deny=["fetch"]))
    assert gate.refusal("https://docs.python.org/3/") != ""
    assert isinstance(gate.target("file:///etc/passwd"), str)
