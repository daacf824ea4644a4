"""`qcode hooks`: what applies here, and what the hooks of an event answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qcode.cli.main import main

CONFIG = """
[[hooks.PreToolUse]]
matcher = "Bash"
command = "grep -q 'git push' && exit 2 || exit 0"
[[hooks.PreToolUse]]
matcher = "Write|Edit"
command = 'echo "not this file" >&2; exit 2'
[[hooks.Stop]]
command = "exit 7"
[[hooks.SessionStart]]
matcher = "resume"
command = "echo the notes"
[[hooks.PostToolUse]]
argv = ["./check.py"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "config.toml").write_text(CONFIG)
    monkeypatch.setenv("QCODE_HOME", str(home))
    monkeypatch.chdir(work)
    return work


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], given: object, *words: str) -> Any:
    """Run `qcode hooks test ... --json` with `given` on stdin and return the printed object."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as file:
        json.dump(given, file)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["hooks", "test", *words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_hooks_are_listed_with_those_that_do_not_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks"]) == 0
    out = capfd.readouterr().out
    assert "PreToolUse (Write|Edit): echo" in out
    assert "config.toml:5 · 600 s · on failure: ask" in out
    assert "not run: PostToolUse: ./check.py" in out
    assert main(["hooks", "list", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert [row["event"] for row in rows if row["why_not_run"] is None] == [
        "SessionStart", "PreToolUse", "PreToolUse", "Stop",
    ]  # fmt: skip
    assert next(row["why_not_run"] for row in rows if row["command"] == "./check.py")


def test_folder_without_hooks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["hooks"]) == 0
    out = capfd.readouterr().out
    assert "No hooks." in out
    assert "not trusted" not in out
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("{}")
    assert main(["hooks"]) == 0
    assert "this folder is not trusted" in capfd.readouterr().out


def test_listing_names_a_settings_file_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / ".claude").mkdir()
    (folder / ".claude/settings.json").write_text("{")
    (folder.parent / "home/config.toml").write_text('[hooks]\nclaude = "own"\n')
    assert main(["hooks"]) == 0
    assert ".claude/settings.json:1: is not valid JSON; its hooks do not run" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("hooks", "says"),
    [
        (["x"], ":2: `hooks` must be an object; its hooks do not run"),
        ({"Stop": "true"}, ":3: hooks.Stop must be a list; it does not run"),
        (
            {"PreToolUse": [{"matcher": "Stop", "hooks": []}], "Stop": "true"},
            ":9: hooks.Stop must be a list; it does not run",
        ),
        ({"Stop": ["true"]}, ":3: hooks.Stop[0] must be an object; it does not run"),
        ({"Stop": [{"type": "command", "command": "true"}]}, ":3: hooks.Stop[0] must have a list `hooks`"),
        ({"Stop": [{"hooks": {"command": "true"}}]}, ":3: hooks.Stop[0] must have a list `hooks`"),
        ({"Stop": [{"hooks": ["true"]}]}, ":3: hooks.Stop[0].hooks[0] must be an object; it does not run"),
    ],
)
def test_part_of_claude_settings_of_another_form_is_named_and_the_others_work(
    hooks: Any, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / ".claude").mkdir()
    valid = {"PostToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}
    values = {**hooks, **valid} if isinstance(hooks, dict) else hooks
    (folder / ".claude/settings.json").write_text(json.dumps({"hooks": values}, indent=1))
    (folder.parent / "home/config.toml").write_text('[hooks]\nclaude = "own"\n')
    assert main(["hooks"]) == 0
    printed = capfd.readouterr()
    assert f".claude/settings.json{says}" in printed.err
    assert ("PostToolUse: true" in printed.out) is isinstance(hooks, dict)


def test_claude_hook_with_invalid_args_never_runs_without_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    (folder / ".claude").mkdir()
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "/bin/true", "args": "--safe"}]}]}
    (folder / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
    (folder.parent / "home/config.toml").write_text('[hooks]\nclaude = "own"\n')
    assert main(["hooks"]) == 0
    assert "not run: Stop: /bin/true" in (out := capfd.readouterr().out)
    assert "its args are not a list of strings" in out


def test_failed_matcher_is_not_said_to_match_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "home/config.toml").write_text('[[hooks.PreToolUse]]\nmatcher = "("\ncommand = "true"\n')
    monkeypatch.setattr("sys.stdin", None)
    assert main(["hooks", "test", "PreToolUse", "--tool", "Bash"]) == 0
    out = capfd.readouterr().out
    assert "decision: ask: " in out
    assert "no hook matches" not in out


@pytest.mark.parametrize(
    ("tool", "given", "decision"),
    [
        ("Bash", {"command": "git push"}, "deny"),
        ("shell", {"command": "git push"}, "deny"),
        ("Bash", {"command": "git log"}, "none"),
        ("Edit", {"file_path": "/x"}, "deny"),
        ("edit", {"path": "x"}, "deny"),
        ("Read", {"file_path": "/x"}, "none"),
    ],
)
def test_call_is_tested_with_either_name_of_its_tool(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tool: str,
    given: dict[str, str],
    decision: str,
) -> None:
    found = run(monkeypatch, capfd, given, "PreToolUse", "--tool", tool)
    assert found["decision"] == decision
    if tool.lower() == "edit":
        assert found["reason"] == "not this file"
        assert found["hooks"][0]["exit_code"] == 2


def test_event_is_tested_with_its_whole_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capfd, {"source": "startup"}, "SessionStart")["hooks"] == []
    resumed = run(monkeypatch, capfd, {"source": "resume"}, "SessionStart")
    assert any("the notes" in text for text in resumed["context"])
    failed = run(monkeypatch, capfd, {}, "Stop")
    assert failed["decision"] == "none"
    assert "7" in failed["hooks"][0]["failure"]


@pytest.mark.parametrize(
    ("words", "given", "code", "message"),
    [
        (["test", "PreToolUs"], "", 2, "the nearest is PreToolUse"),
        (["test"], "", 2, "use: qcode hooks"),
        (["tset", "Stop"], "", 2, "use: qcode hooks"),
        (["test", "Stop"], "no json", 42, "is not JSON"),
        (["test", "Stop"], "[]", 42, "is not a JSON object"),
        pytest.param(["test", "Stop"], "[" * 20_000, 42, "it is nested too deeply", id="deep"),
    ],
)
def test_invalid_usage_is_a_one_line_error(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    given: str,
    code: int,
    message: str,
) -> None:
    read, write = os.pipe()
    os.write(write, given.encode())
    os.close(write)
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["hooks", *words]) == code
    err = capfd.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
