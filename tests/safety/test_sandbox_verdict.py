"""The verdict on a command with a sandbox: which commands run unasked in it, and which still ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qcode.protocol.approvals import ApprovalMode
from qcode.safety.policy import Policy
from qcode.safety.probes import Probes, WorkspaceContents
from qcode.safety.rules import Rules
from qcode.safety.verdict import Level, SandboxSupport, Verdict
from qcode.text.json import Json
from tests.fakes.tools import spec_of

BOTH: tuple[Level, ...] = ("read-only", "workspace")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "file.txt").write_text("x")
    (root / ".env").write_text("KEY=1")
    return root


def judge(root: Path, mode: ApprovalMode, levels: tuple[Level, ...], command: str, **more: Json) -> Verdict:
    probes = Probes(lambda _: "", sandbox=lambda: SandboxSupport(levels), contents=WorkspaceContents)
    policy = Policy(mode, Rules.of(), True, root, search_path="/usr/bin:/bin", probes=probes)
    return policy.judge(spec_of("shell"), {"command": command, **more})


def test_read_command_runs_sandboxed_if_a_sandbox_works(repo: Path) -> None:
    assert judge(repo, "default", BOTH, "cat file.txt").confinement == "read-only"
    assert judge(repo, "default", ("read-only",), "cat file.txt").confinement == "read-only"
    without = judge(repo, "default", (), "cat file.txt")
    assert (without.verdict, without.confinement) == ("allow", None)


def test_command_that_lists_processes_asks(repo: Path) -> None:
    assert judge(repo, "default", BOTH, "ps").verdict == "ask"
    assert judge(repo, "default", BOTH, "ps >/dev/null; ls").verdict == "ask"


@pytest.mark.parametrize("command", ["make", "npm test", "rm -r build", "echo $(make)", "python3 x.py | tee log"])
def test_auto_mode_runs_undecided_commands_in_the_workspace_sandbox(repo: Path, command: str) -> None:
    verdict = judge(repo, "auto", BOTH, command)
    assert (verdict.verdict, verdict.confinement) == ("allow", "workspace")
    assert judge(repo, "default", BOTH, command).verdict == "ask"
    for levels in ((), ("read-only",)):
        asked = judge(repo, "auto", levels, command)
        assert asked.verdict == "ask"
        assert "sandbox" in asked.reason


@pytest.mark.parametrize("command", ["cat .env", "make && cat .env"])
def test_secret_asks_in_auto_mode_too(repo: Path, command: str) -> None:
    assert judge(repo, "auto", BOTH, command).verdict == "ask"


@pytest.mark.parametrize("mode", ["default", "accept-edits", "auto"])
@pytest.mark.parametrize("command", ["cat file.txt", "make"])
def test_command_that_leaves_the_sandbox_asks(repo: Path, mode: ApprovalMode, command: str) -> None:
    verdict = judge(repo, mode, BOTH, command, unconfined=True)
    assert verdict.verdict == "ask"
    assert verdict.confinement is None


def test_arguments_of_the_model_never_make_a_verdict_milder(repo: Path) -> None:
    for mode in ("plan", "default", "accept-edits", "auto", "bypass"):
        for command in ("cat file.txt", "make", "rm -rf /", "cat .env"):
            plain = judge(repo, mode, BOTH, command)
            for more in ({"unconfined": True}, {"unconfined": False}, {"background": True}, {"timeout_s": 5}):
                other = judge(repo, mode, BOTH, command, **more)
                order = ("allow", "ask", "deny")
                assert order.index(other.verdict) >= order.index(plain.verdict)


def test_rules_apply_in_auto_mode(repo: Path) -> None:
    probes = Probes(lambda _: "", sandbox=lambda: SandboxSupport(BOTH), contents=WorkspaceContents)
    rules = Rules.of(allow=["shell(git push *)"], ask=["shell(npm *)"], deny=["shell(curl *)"])
    policy = Policy("auto", rules, True, repo, search_path="/usr/bin:/bin", probes=probes)
    verdicts = {command: policy.judge_command(command) for command in ("git push x", "npm i", "curl x")}
    assert [verdict.verdict for verdict in verdicts.values()] == ["allow", "ask", "deny"]
    assert verdicts["git push x"].confinement is None, "a rule of the user allows the command without a sandbox"


def test_workspace_edits_run_in_auto_mode_with_a_sandbox(repo: Path) -> None:
    probes = Probes(sandbox=lambda: SandboxSupport(BOTH))
    policy = Policy("auto", Rules.of(), True, repo, probes=probes)
    assert policy.judge(spec_of("write"), {"path": "new.txt"}).verdict == "allow"
    assert policy.judge(spec_of("write"), {"path": "AGENTS.md"}).verdict == "ask"
    assert policy.judge(spec_of("write"), {"path": ".git/config"}).verdict == "deny"
    assert replace(policy, probes=Probes()).judge(spec_of("write"), {"path": "new.txt"}).verdict == "ask"


def test_untrusted_folder_asks_even_with_a_sandbox(repo: Path) -> None:
    probes = Probes(lambda _: "", sandbox=lambda: SandboxSupport(BOTH), contents=WorkspaceContents)
    policy = Policy("auto", Rules.of(), False, repo, search_path="/usr/bin:/bin", probes=probes)
    assert policy.judge(spec_of("shell"), {"command": "make"}).verdict == "ask"
    assert policy.judge(spec_of("shell"), {"command": "cat file.txt"}).confinement == "read-only"
