"""`qcode permissions check`: the verdict of a session, from the command line and as a stream."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qcode.cli.main import main
from qcode.config.folder_rules import FolderRule, FolderRules
from qcode.safety.sandbox.detection import find_sandbox


class Asked:
    """Runs the command in a temporary folder and returns its output."""

    def __init__(self, base: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.work = base / "work"
        self.work.mkdir()
        (self.work / "a.txt").write_text("x\n")
        self._capfd = capfd

    def __call__(self, *argv: str, code: int = 0) -> str:
        assert main(("permissions", *argv)) == code
        out, err = self._capfd.readouterr()
        return out + err

    def verdict(self, *argv: str) -> str:
        return self("check", *argv).split(":")[0]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Asked:
    asked = Asked(tmp_path, capfd)
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return asked


def test_value_of_each_kind_gets_its_verdict(asked: Asked) -> None:
    here = ("-C", str(asked.work), "--trust")
    assert asked.verdict("shell", "ls -la | wc", *here) == "allow"
    assert asked.verdict(*here, "shell", "rm a.txt") == "ask"
    assert asked.verdict("--trust", "read", "a.txt", "-C", str(asked.work)) == "allow"
    assert asked.verdict("read", "/etc/shadow", *here) == "deny"
    assert asked.verdict("write", "AGENTS.md", *here) == "ask"
    assert asked.verdict("fetch", "https://docs.python.org/", *here) == "ask"
    assert asked.verdict("fetch", "http://127.0.0.1/", *here) == "deny"
    assert asked.verdict(*here, "--", "shell", "-la") == "ask"


def test_auto_mode_is_judged_with_the_sandbox_of_a_session(asked: Asked) -> None:
    sandbox = find_sandbox()
    sandboxed = "allow" if sandbox is not None and "workspace" in sandbox.levels else "ask"
    here = ("-C", str(asked.work), "--trust", "--permission-mode", "auto")
    assert asked.verdict("shell", "make test", *here) == sandboxed
    assert asked.verdict("write", "a.txt", *here) == sandboxed
    without = asked.work.parent / "without.toml"
    without.write_text('[tools]\nsandbox = "off"\n')
    assert asked.verdict("shell", "make test", *here, "--settings", str(without)) == "ask"


def test_answer_contains_the_reason_and_the_rule_that_would_allow_it(asked: Asked) -> None:
    text = asked("check", "shell", "make test", "-C", str(asked.work), "--trust")
    assert text == (
        "ask: make may do more than read [shell:not-read-only]\na rule that would allow it: shell(make test)\n"
    )


def test_reasons_left_out_of_the_line_are_listed(asked: Asked) -> None:
    command = "rm -rf x; sudo a; git push -f; kill -9 1; mv x y"
    first, *reasons = asked("check", "shell", command, "-C", str(asked.work), "--trust").splitlines()
    assert "and 1 more" in first
    assert reasons[0] == "  - rm -rf deletes files"
    assert reasons[4] == "  - mv can replace files"


def test_modes_rules_and_trust_count(asked: Asked) -> None:
    here = ("-C", str(asked.work))
    assert asked.verdict("write", "a.txt", *here) == "ask"
    trusted = (*here, "--trust")
    assert asked.verdict("write", "a.txt", *trusted) == "allow"
    assert asked.verdict("write", "a.txt", *trusted, "--permission-mode", "default") == "ask"
    assert asked.verdict("write", "a.txt", *trusted, "--permission-mode", "plan") == "deny"
    assert asked.verdict("shell", "rm x", *trusted, "--yolo") == "allow"
    assert asked.verdict("shell", "rm x", *trusted, "--yolo", "--disallowed-tools", "shell(rm *)") == "deny"
    assert asked.verdict("shell", "make x", *trusted, "--allowed-tools", "shell(make *)") == "allow"


def test_permission_check_runs_no_file_of_the_folder(asked: Asked) -> None:
    (asked.work / "bin").mkdir()
    for name in ("git", "bash", "ls"):
        (asked.work / "bin" / name).write_text(f"#!/bin/sh\ntouch {asked.work}/mark\n")
        (asked.work / "bin" / name).chmod(0o755)
    subprocess.run(["git", "init", "-q", str(asked.work)], check=True, timeout=60)
    subprocess.run(
        ["git", "-C", str(asked.work), "config", "core.fsmonitor", f"{asked.work}/bin/git"], check=True, timeout=60
    )
    for command in ("git status", "ls", "touch mark", "$(touch mark)", "make"):
        asked("check", "shell", command, "-C", str(asked.work), "--trust")
    assert asked.verdict("shell", "git status", "-C", str(asked.work), "--trust") == "ask"
    assert not (asked.work / "mark").exists()


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (("show",), "use: qcode permissions [list]"),
        (("list", "--jsonl"), "--jsonl only works with check"),
        (("check",), "a kind and one value"),
        (("check", "shell"), "a kind and one value"),
        (("check", "run", "x"), 'unknown kind "run"'),
        (("check", "shell", "ls", "x"), "in quotes"),
        (("check", "shell", "ls", "--bogus"), "--bogus"),
        (("check", "shell", "ls", "--permission-mode", "x"), '"x" is not one of plan'),
        (("check", "--jsonl", "shell", "ls"), "standard input"),
        (("check", "shell", "ls", "--allowed-tools", "run(x)"), "not a kind of rule"),
    ],
)
def test_invalid_usage_is_an_error_with_a_hint(argv: tuple[str, ...], hint: str, asked: Asked) -> None:
    assert hint in asked(*argv, code=2)


def test_rule_example_that_does_not_match_is_a_configuration_error(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    config = tmp_path / "home/config.toml"
    config.write_text('[permissions]\ndeny = [{ rule = "shell(git push *)", examples = ["git push -f"] }]\n')
    assert asked.verdict("shell", "git push", "-C", str(asked.work), "--trust") == "deny"
    config.write_text('[permissions]\ndeny = [{ rule = "shell(git push *)", examples = ["git fetch"] }]\n')
    assert "does not cover its example" in asked("check", "shell", "ls", "-C", str(asked.work), "--trust", code=52)
    config.write_text('[permissions]\ndeny = [{ rules = "shell" }]\n')
    assert "list of rules" in asked("check", "shell", "ls", "-C", str(asked.work), "--trust", code=52)


def _stream(lines: list[str], work: Path, home: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "qcode", "permissions", "check", "--jsonl", "-C", str(work), "--trust"],
        input="\n".join(lines).encode("utf-8", "surrogatepass") + b"\n",
        env={"PATH": "/usr/bin:/bin", "QCODE_HOME": str(home), "HOME": str(home)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_stream_is_answered_line_by_line_after_an_invalid_line_too(asked: Asked, tmp_path: Path) -> None:
    answers = _stream(
        [
            '{"kind": "shell", "value": "ls"}', "", "nonsense", "[1]", '{"kind": "x", "value": "y"}',
            '{"kind": "shell"}', '{"kind": "read", "value": "a\\u0000b"}', '{"kind": "shell", "value": "\\ud800"}',
            "[" * 100_000, '{"kind": "fetch", "value": "http://[::1]/"}', '{"kind": "write", "value": "a.txt"}',
        ],
        asked.work,
        tmp_path / "home",
    )  # fmt: skip
    verdicts = [answer.get("verdict", "error") for answer in answers]
    assert verdicts == ["allow", "error", "error", "error", "error", "deny", "ask", "error", "deny", "allow"]
    assert all(set(answer) in ({"error"}, {"verdict", "reason", "rule"}) for answer in answers[:-1])
    assert answers[-1]["note"] == "this applies in every mode; default mode still asks before each change"


def test_rules_are_listed_with_their_lines_and_those_of_the_folder(asked: Asked, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(
        '[permissions]\nmode = "accept-edits"\nallow = [\n  "shell(make test)",\n  "shell(make lint)",\n]\n'
    )
    FolderRules(home / "state", asked.work).add(FolderRule("allow", "shell(make doc)", 0.0, "shell make doc"))
    flags = ("-C", str(asked.work), "--trust", "--disallowed-tools", "shell(rm *)")
    for words in ((), ("list",)):
        lines = asked(*words, *flags).splitlines()
        assert lines[0] == f"mode accept-edits ({home / 'config.toml'}:2)"
        assert lines[1] == "deny shell(rm *) (--disallowed-tools)"
        assert lines[2] == f"allow shell(make test) ({home / 'config.toml'}:4)"
        assert lines[3] == f"allow shell(make lint) ({home / 'config.toml'}:5)"
        assert lines[4].startswith("allow shell(make doc) (saved for this folder, your answer to shell make doc, ")
    assert asked.verdict("shell", "make doc", *flags) == "allow"
    assert "allow rules do not apply" in asked("-C", str(asked.work))
    assert asked.verdict("shell", "make doc", "-C", str(asked.work)) == "ask"


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ('[permissions]\nallow = [\n  "read",\n  "shell(ls",\n]\n', ':4: permissions.allow: invalid rule "shell(ls"'),
        ('[permissions]\ndeny = ["nonsense"]\n', ':2: permissions.deny: invalid rule "nonsense"'),
        (
            '[permissions]\nask = [{ rule = "shell(ls *)", examples = ["rm x"] }]\n',
            ':2: permissions.ask: the rule "shell(ls *)" does not cover its example "rm x"',
        ),
    ],
)
@pytest.mark.parametrize(
    "argv", [["-m", "demo/demo", "-p", "hi", "--no-stdin"], ["permissions", "list"], ["doctor"], ["models"]]
)
def test_invalid_rule_is_reported_with_file_and_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    config: str,
    place: str,
    argv: list[str],
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(config)
    assert main(argv) == 52
    assert f"{tmp_path / 'config.toml'}{place}" in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ('{\n "permissions": {\n  "allow": ["Read",\n   "Nope(x)"]}}', 0, ":4: allow Nope(x): Nope is not a tool"),
        ('{\n "permissions": {"deny": [\n"shell(ls"]}}', 52, ':3: permissions.deny: invalid rule "shell(ls"'),
        ('{\n "permissions": {"deny": [\n"Bash(* --help)"]}}', 52, ":3: deny Bash(* --help)"),
    ],
)
def test_invalid_rule_of_claude_settings_is_reported_with_file_and_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    settings: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.json").write_text(settings)
    assert main(["--settings", "settings.json", "-m", "demo/demo", "-p", "hi", "--no-stdin"]) == code
    assert f"settings.json{message}" in capfd.readouterr().err
