"""Test runners: the rule that may be offered for them after a warning, its scope, and sandboxed runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qcode.protocol.approvals import ApprovalMode
from qcode.safety.rules import Rules, parse_rule
from tests.fakes.tools import spec_of
from tests.safety.policies import CLEAN as SANDBOX
from tests.safety.policies import LANDLOCK, NO_SANDBOX, judge_shell, policy_for

RUNNERS = {
    "pytest -q tests": "shell(pytest *)",
    "python -m pytest": "shell(python -m pytest *)",
    "python3 -m pytest -k x": "shell(python3 -m pytest *)",
    "uv run pytest tests": "shell(uv run pytest *)",
    "npm test": "shell(npm test *)",
    "cargo test name": "shell(cargo test *)",
    "go test ./...": "shell(go test *)",
}


@pytest.mark.parametrize("command", RUNNERS)
def test_test_runner_gets_a_rule_for_all_its_arguments(tmp_path: Path, command: str) -> None:
    verdict = judge_shell(command, tmp_path)
    assert (verdict.verdict, verdict.prefix_rule) == ("ask", RUNNERS[command])
    assert judge_shell(command, tmp_path, rules=Rules.of([verdict.prefix_rule])).verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "make test",
        "npm run test",
        "npx pytest",
        "python -m http.server",
        "python test.py",
        "uv run python x.py",
        "uv --project /x run pytest",
        "pytest > out.txt",
        "pytest && rm -r x",
        "cd src && pytest",
        "sudo pytest",
        "./pytest",
        "PYTHONPATH=/x pytest",
        "go run ./...",
        "cargo run",
    ],
)
def test_no_other_command_gets_a_runner_rule(tmp_path: Path, command: str) -> None:
    (tmp_path / "src").mkdir()
    assert judge_shell(command, tmp_path).prefix_rule == ""


@pytest.mark.parametrize("more", [{"is_trusted": False}, {"mode": "plan"}])
def test_restricted_folder_and_plan_mode_offer_no_runner_rule(tmp_path: Path, more: dict[str, Any]) -> None:
    verdict = judge_shell("pytest", tmp_path, **more)
    assert (verdict.prefix_rule, verdict.sandboxed_rule) == ("", "")


@pytest.mark.parametrize(
    "command",
    [
        "pytest --basetemp=/home/me",
        "pytest -p evil",
        "pytest --rootdir /tmp/evil",
        "pytest; rm -rf /",
        "pytest $(touch x)",
        "pytest > /etc/passwd",
        "python -m pytest --junitxml=x.py",
        "python -m pytest -c /tmp/evil.ini",
        "uv run pytest --pastebin=all",
        "uv run pytest -p evil",
        "uv run --with evil pytest",
        "npm test --script-shell=/tmp/evil",
        "npm test --prefix /tmp/evil",
        "cargo test --config x",
        "cargo test --manifest-path /tmp/evil/Cargo.toml",
        "go test -exec /tmp/evil ./...",
        "go test -C /tmp/evil",
        "cd /tmp && pytest",
    ],
)
def test_runner_rule_covers_no_option_that_writes_or_runs_other_programs(tmp_path: Path, command: str) -> None:
    assert judge_shell(command, tmp_path, rules=Rules.of(RUNNERS.values())).verdict != "allow"


def _sandboxed(root: Path, command: str, *, wants_out: bool = False, **more: Any) -> tuple[str, str | None]:
    policy = policy_for(
        root, **{"sandbox_rules": (parse_rule("shell(pytest *)"), parse_rule("shell(make test)")), **more}
    )
    verdict = policy.judge(spec_of("shell"), {"command": command, "unconfined": wants_out})
    return verdict.verdict, verdict.confinement


@pytest.mark.parametrize("command", [*RUNNERS, "make test"])
def test_sandboxed_rule_is_offered_if_a_sandbox_works(tmp_path: Path, command: str) -> None:
    assert judge_shell(command, tmp_path).sandboxed_rule == RUNNERS.get(command, "shell(make test)")
    for probes in (NO_SANDBOX, replace(SANDBOX, sandbox=lambda: LANDLOCK)):
        assert judge_shell(command, tmp_path, probes).sandboxed_rule == ""


@pytest.mark.parametrize("mode", ["default", "accept-edits"])
def test_command_with_a_sandboxed_rule_runs_unasked_in_the_workspace_sandbox(
    tmp_path: Path, mode: ApprovalMode
) -> None:
    assert _sandboxed(tmp_path, "pytest -q", mode=mode) == ("allow", "workspace")
    assert _sandboxed(tmp_path, "make test", mode=mode) == ("allow", "workspace")


@pytest.mark.parametrize(
    "command",
    ["make deploy", "make test deploy", "pytest > x", "pytest && make test", "cargo test"],
)
def test_command_without_a_sandboxed_rule_asks(tmp_path: Path, command: str) -> None:
    assert _sandboxed(tmp_path, command) == ("ask", None)


def test_sandboxed_rule_does_not_allow_more_than_the_workspace_sandbox(tmp_path: Path) -> None:
    assert _sandboxed(tmp_path, "pytest", probes=NO_SANDBOX) == ("ask", None)
    assert _sandboxed(tmp_path, "pytest", wants_out=True) == ("ask", None)
    assert _sandboxed(tmp_path, "pytest", is_trusted=False) == ("ask", None)
    assert _sandboxed(tmp_path, "pytest", rules=Rules.of(ask=["shell(pytest *)"])) == ("ask", None)
    assert _sandboxed(tmp_path, "pytest", rules=Rules.of(deny=["shell(pytest *)"]))[0] == "deny"
    assert _sandboxed(tmp_path, "pytest", mode="plan")[0] == "deny"
    assert _sandboxed(tmp_path, "pytest", probes=SANDBOX) == ("allow", "workspace")
