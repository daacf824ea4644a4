"""The flags proposed after a denial are the narrowest ones with which the calls run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.permissions import AllowingFlags, flags_allowing
from qcode.cli.arguments import parse
from qcode.protocol.messages import ToolCall
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from tests.fakes.tools import spec_of
from tests.safety.policies import policy_for


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, json.dumps(arguments))


def policy(root: Path, *, is_trusted: bool = True) -> Policy:
    return policy_for(root, is_trusted=is_trusted, search_path="/usr/bin:/bin")


def again(before: Policy, flags: str) -> Policy:
    """Return the policy of a run with `flags`, read as the program reads them."""
    given = parse(["-p", "x", *shlex.split(flags)])
    rules = Rules.of(allow=given.allowed_tools)
    return replace(
        before, is_trusted=before.is_trusted or given.trust, mode=given.permission_mode or "default", rules=rules
    )


WRITE = call("write", path="new.txt", content="x")
TOUCH = call("shell", command="touch a")
ODD = call("shell", command="touch '), (x'")
REMOVE = call("shell", command="rm -rf build")


@pytest.mark.parametrize(
    ("calls", "is_trusted", "flags"),
    [
        ([TOUCH], True, "--allowed-tools 'shell(touch a)'"),
        ([call("shell", command="mkdir x")], True, "--allowed-tools 'shell(mkdir x)'"),
        ([call("shell", command="npm x")], True, "--allowed-tools 'shell(npm x)'"),
        ([call("shell", command="npm x > out")], True, "--permission-mode bypass"),
        ([TOUCH], False, "--trust --allowed-tools 'shell(touch a)'"),
        ([WRITE, TOUCH, TOUCH], True, "--allowed-tools 'edit(./new.txt)' --allowed-tools 'shell(touch a)'"),
        ([REMOVE], True, "--allowed-tools 'shell(rm -rf build)'"),
        (
            [REMOVE, WRITE],
            False,
            "--trust --allowed-tools 'shell(rm -rf build)' --allowed-tools 'edit(./new.txt)'",
        ),
        ([call("shell", command="ls")], False, "--trust"),
        ([], False, ""),
    ],
)
def test_proposed_flags_are_the_narrowest_that_cover_all_calls(
    calls: list[ToolCall], is_trusted: bool, flags: str, tmp_path: Path
) -> None:
    assert flags_allowing(policy(tmp_path, is_trusted=is_trusted), calls, spec_of) == AllowingFlags(flags, 0)


@pytest.mark.parametrize("calls", [[TOUCH], [WRITE], [ODD], [REMOVE], [WRITE, ODD, TOUCH], [REMOVE, WRITE]])
@pytest.mark.parametrize("is_trusted", [True, False])
def test_with_the_flags_every_call_runs(calls: list[ToolCall], is_trusted: bool, tmp_path: Path) -> None:
    before = policy(tmp_path, is_trusted=is_trusted)
    flags = flags_allowing(before, calls, spec_of)
    after = again(before, flags.text)
    assert flags.unallowable_count == 0
    for item in calls:
        arguments = json.loads(item.arguments)
        assert not before.judge(spec_of(item.name), arguments).is_allowed
        assert after.judge(spec_of(item.name), arguments).is_allowed


def test_call_that_asks_in_every_mode_is_counted_without_a_flag(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    secret = call("read", path=".env")
    assert flags_allowing(policy(tmp_path, is_trusted=False), [secret], spec_of) == AllowingFlags("", 1)
    both = flags_allowing(policy(tmp_path), [secret, TOUCH], spec_of)
    assert both == AllowingFlags("--allowed-tools 'shell(touch a)'", 1)
