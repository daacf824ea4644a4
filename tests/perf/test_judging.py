"""A verdict about a command costs next to nothing once bash and git were asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakes.tools import spec_of
from tests.safety.judging import judge_shell, policy_for

COMMANDS = ("ls -la src", "git log --oneline -5 | head", "grep -rn foo src && cat a b", "make test", "cat <<'E'\nx\nE")
pytestmark = pytest.mark.perf


def test_a_verdict_takes_less_than_a_millisecond(tmp_path: Path) -> None:
    policy = policy_for(tmp_path)
    judge_shell("ls", tmp_path)
    rounds = 200
    began = time.perf_counter()
    for _ in range(rounds):
        for command in COMMANDS:
            policy.judge(spec_of("shell"), {"command": command})
    assert (time.perf_counter() - began) / (rounds * len(COMMANDS)) < 0.001
