"""A verdict about a command costs next to nothing once bash and git were asked."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.safety import paths
from qcode.safety.rules import Rules
from qcode.safety.shell.judge import read_flow
from tests.fakes.tools import spec_of
from tests.perf.conftest import Bars
from tests.safety.policies import judge_shell, policy_for

COMMANDS = ("ls -la src", "git log --oneline -5 | head", "grep -rn foo src && cat a b", "make test", "cat <<'E'\nx\nE")
pytestmark = pytest.mark.perf


def cpu_ms(action: Callable[[], object], rounds: int = 40) -> float:
    """Return the least CPU time of an action: other programs make one slower, never faster."""
    taken = []
    for _ in range(rounds):
        began = time.thread_time()
        action()
        taken.append(1_000 * (time.thread_time() - began))
    return min(taken)


def test_verdict_takes_less_than_a_millisecond(bars: Bars, tmp_path: Path) -> None:
    policy = policy_for(tmp_path, search_path=os.environ["PATH"])
    judge_shell("ls", tmp_path)

    def judge(command: str) -> None:
        read_flow.cache_clear()
        policy.judge(spec_of("shell"), {"command": command})

    worst = max(cpu_ms(lambda command=command: judge(command)) for command in COMMANDS)  # type: ignore[misc]  # a loop
    bars.hold("the verdict on a daily command", worst, 1, "ms")


@pytest.mark.parametrize("command", ["cat {names}", "cat src/*.py", "for f in src/*.py; do head -5 $f; done"])
def test_each_file_of_a_command_costs_a_few_system_calls(bars: Bars, command: str, tmp_path: Path) -> None:
    names = [f"src/m{number}.py" for number in range(80)]
    (tmp_path / "src").mkdir()
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    policy, spelled = policy_for(tmp_path), command.format(names=" ".join(names))

    def judge() -> None:
        read_flow.cache_clear()
        assert policy.judge(spec_of("shell"), {"command": spelled}).is_allowed

    def look() -> None:
        for name in names:
            os.lstat(f"{tmp_path}/{name}")
            opened = os.open(f"{tmp_path}/{name}", os.O_RDONLY)
            os.read(opened, 128)
            os.close(opened)

    ratio = cpu_ms(judge) / cpu_ms(look)
    bars.hold(f"the verdict on {command}, against looking into its 80 files", ratio, 2.5, known=4.5)


@pytest.mark.parametrize(
    "command",
    ["cat src/*.py", "ls -la src/*.py", "for f in src/*.py; do head -5 $f; done", "grep -n x src/*.py | head"],
)
def test_wildcard_with_250_matches_costs_little_more_than_their_stat_calls(
    bars: Bars, command: str, tmp_path: Path
) -> None:
    names = [f"module_{number}.py" for number in range(250)]
    (tmp_path / "src").mkdir()
    for name in names:
        (tmp_path / "src" / name).write_text("x = 1\n" * 40)
    time.sleep(0.05)  # a file or folder that changed just now is read each time
    policy = policy_for(tmp_path, search_path=os.environ["PATH"])

    def judge() -> None:
        read_flow.cache_clear()
        assert policy.judge(spec_of("shell"), {"command": command}).is_allowed

    def judge_first() -> None:
        paths.files_without_key.clear()
        judge()

    def look() -> None:
        for name in names:
            os.lstat(f"{tmp_path}/src/{name}")

    status = cpu_ms(look)
    bars.hold(f"the verdict on {command}, against the status of its 250 files", cpu_ms(judge) / status, 2.5, known=3.5)
    bars.hold(f"the first verdict on {command}, which reads their first bytes", cpu_ms(judge_first) / status, 6)
    bars.hold(f"the verdict on {command} with 250 files", cpu_ms(judge), 1, "ms")


def test_read_rules_cost_little_for_each_of_250_files(bars: Bars, tmp_path: Path) -> None:
    names = [f"module_{number}.py" for number in range(250)]
    (tmp_path / "src").mkdir()
    for name in names:
        (tmp_path / "src" / name).write_text("x = 1\n" * 40)
    policy = policy_for(tmp_path, rules=Rules.of(deny=["read(private/**)"], ask=["read(drafts/**)"]))

    def look() -> None:
        for name in names:
            os.lstat(f"{tmp_path}/src/{name}")

    ratio = cpu_ms(lambda: policy.judge(spec_of("shell"), {"command": "cat src/*.py"})) / cpu_ms(look)
    bars.hold("the verdict on cat src/*.py with two rules about reading, against the status", ratio, 25, known=30)


EVENT = {
    "hook_event_name": "PreToolUse",
    "session_id": "s",
    "transcript_path": "/tmp/none",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_use_id": "toolu_1",
    "tool_input": {"command": "git log --oneline -5 | head"},
}


def child_cpu(command: list[str], given: str, env: dict[str, str]) -> float:
    """Return the CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=given, text=True, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_permission_hook_of_another_program_answers_soon(bars: Bars, tmp_path: Path) -> None:
    """It runs before each call of that program. The bar is about 200 ms where `python -c pass` takes 10 ms."""
    env = {**os.environ, "HOME": str(tmp_path), "QCODE_HOME": str(tmp_path / "qcode")}
    hook = [sys.executable, "-m", "qcode", "permissions", "hook", "--for", "claude"]
    given = json.dumps({**EVENT, "cwd": str(tmp_path)})
    child_cpu(hook, given, env)  # byte code is written once
    runs = [(child_cpu([sys.executable, "-c", "pass"], "", env), child_cpu(hook, given, env)) for _ in range(9)]
    ratio = min(one for _, one in runs) / min(one for one, _ in runs)
    bars.hold("`qcode permissions hook`: CPU time beside `python -c pass`", ratio, 20)
