"""Walls of a session: looked for once, when needed; commands run behind them, and say when they end there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.config.settings import Tools
from qcode.protocol.json import Json
from qcode.protocol.tools import ToolOutcome
from qcode.runtime.fetching import FetchGate
from qcode.runtime.scratch import Scratch
from qcode.runtime.toolbox import Toolbox
from qcode.runtime.walls import Walls
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.sandbox.finding import Sandbox, find_sandbox
from qcode.safety.sandbox.walls import Grounds
from qcode.safety.verdict import Level
from qcode.tools.fetch import Target


def test_nobody_looks_for_a_sandbox_before_one_is_needed_or_where_none_is_wanted(tmp_path: Path) -> None:
    looked: list[int] = []

    def find() -> Sandbox | None:
        looked.append(1)
        return None

    walls = Walls("auto", Grounds(tmp_path), find)
    assert walls.wrap(None, ["/bin/true"]) == ["/bin/true"]
    assert looked == []
    assert walls.levels() == ()
    assert walls.levels() == ()
    assert looked == [1]
    assert Walls("off", Grounds(tmp_path), find).levels() == ()
    assert looked == [1]
    with pytest.raises(RuntimeError):
        walls.wrap("read-only", ["/bin/true"])


def run(root: Path, command: str, level: Level | None, **more: Json) -> ToolOutcome:
    scratch = Scratch()
    walls = Walls("auto", Grounds(root, scratch=scratch.path, search_path="/usr/bin:/bin"))
    toolbox = Toolbox(root, (), Tools(), {"PATH": "/usr/bin:/bin"}, scratch=scratch, walls=walls)
    try:
        return asyncio.run(toolbox.run("shell", {"command": command, **more}, lambda text: None, level))
    finally:
        toolbox.close()


@pytest.mark.parametrize(("level", "can_write"), [(None, True), ("read-only", False), ("workspace", True)])
def test_a_command_runs_as_confined_as_its_verdict_says(tmp_path: Path, level: Level | None, can_write: bool) -> None:
    sandbox = find_sandbox()
    if level is not None and (sandbox is None or level not in sandbox.levels):
        pytest.skip("no sandbox that can do this works here")
    done = run(tmp_path, "echo x > made", level)
    assert (tmp_path / "made").exists() is can_write
    assert done.is_error is not can_write
    assert ("unconfined: true" in done.content) is not can_write


def test_a_failure_that_is_not_the_walls_does_not_blame_them(tmp_path: Path) -> None:
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
def test_an_address_is_public_or_this_machine_named_as_such(
    tmp_path: Path, url: str, address: str, is_accepted: bool
) -> None:
    gate = FetchGate(lambda: Policy("default", Rules.of(), True, tmp_path))
    target = gate.target(url)
    assert isinstance(target, Target)
    assert gate.accepts(target, address) is is_accepted


def test_the_rules_of_the_moment_decide_where_to_fetch(tmp_path: Path) -> None:
    policy = Policy("default", Rules.of(allow=["fetch(docs.python.org)"]), True, tmp_path)
    gate = FetchGate(lambda: policy)
    assert gate.refusal("https://docs.python.org/3/") == ""
    assert gate.refusal("https://example.com/") != ""
    policy = replace(policy, rules=Rules.of(deny=["fetch"]))
    assert gate.refusal("https://docs.python.org/3/") != ""
    assert isinstance(gate.target("file:///etc/passwd"), str)
