"""The cost of 50 skills, 20 hooks and 5 tool servers: until the first paint, and until the first request."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.perf.conftest import Bars
from tests.perf.test_app import Terminal
from tests.perf.test_skills import fill

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

ROUNDS = 7
HOOKS = "".join(
    f'[[hooks.{event}]]\nmatcher = "Tool{number}|mcp__server{number}__.*"\nargv = ["true", "{number}"]\n'
    for event in ("PreToolUse", "PostToolUse", "PermissionRequest", "PostToolUseFailure")
    for number in range(5)
)
SERVERS = "".join(
    f'[mcp_servers.server{number}]\ncommand = "{sys.executable}"\nargs = ["-m", "tests.fakes.tool_server"]\n'
    f'env = {{ PYTHONPATH = "{os.pathsep.join(filter(None, sys.path))}" }}\n'
    for number in range(5)
)


def place(folder: Path, config: str, *, has_skills: bool) -> Path:
    (folder / "qcode").mkdir(parents=True)
    (folder / "qcode/config.toml").write_text(config)
    (folder / "work").mkdir()
    if has_skills:
        fill(folder / ".claude/skills", 50)
    return folder


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "QCODE_HOME": str(home / "qcode")}


def one_shot(home: Path) -> float:
    """Return the CPU seconds of a one-shot on the demo model, with those of its tool servers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "qcode", "-p", "hi", "-m", "demo/demo"]
    subprocess.run(command, env=environment(home), cwd=home, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def paint(home: Path) -> float:
    """Return the CPU seconds up to the first paint of the app."""
    here = ["env", f"HOME={home}", f"QCODE_HOME={home / 'qcode'}"]
    terminal = Terminal([*here, sys.executable, "-m", "qcode", "-m", "demo/demo", "--trust"], home)
    try:
        terminal.until("demo/demo")
        return terminal.running_seconds()
    finally:
        terminal.end()


@pytest.mark.parametrize(
    ("measured", "what", "known"),
    [(paint, "first paint", 1.15), (one_shot, "one-shot up to its request", 1.2)],
    ids=["paint", "one-shot"],
)
def test_extensions_cost_at_most_a_tenth_more(
    tmp_path: Path, bars: Bars, measured: Callable[[Path], float], what: str, known: float
) -> None:
    none = place(tmp_path / "none", "", has_skills=False)
    full = place(tmp_path / "full", HOOKS + SERVERS, has_skills=True)
    for home in (none, full):
        measured(home)  # byte code is written once
    # In turns, so that other load of the machine affects both equally.
    pairs = [(measured(full), measured(none)) for _ in range(ROUNDS)]
    ratio = statistics.median(more for more, _ in pairs) / statistics.median(less for _, less in pairs)
    bars.hold(f"{what} with 50 skills, 20 hooks and 5 servers, CPU time against none", ratio, 1.1, known=known)
