"""The report of `qcode doctor` for a simulated machine and a temporary folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from qcode.agent.doctor import Finding, report_lines
from qcode.agent.models.limits import LimitStore
from qcode.agent.models.selection import known_specs
from qcode.agent.trust.store import TrustStore
from qcode.cli.main import main
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.errors import ExitCode

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the report for a trusted folder with a project file, a key, a learned limit and a user setting."""
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".qcode").mkdir(parents=True)
    (work / ".qcode" / "config.toml").write_text("[output]\nmax_continuations = 1\n")
    home.mkdir()
    (home / "config.toml").write_text('[tools]\nsandbox = "off"\n')
    TrustStore(home / "state").remember(work)
    LimitStore(home / "state").remember("http://host", "odd-model", HostKnowledge(output=8_192))
    monkeypatch.setenv("QCODE_HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setenv("VISUAL", "ed")
    monkeypatch.chdir(work)
    assert main(["doctor"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out.splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "  ✓ trust   trusted",
        "  ✓ openai  environment variable OPENAI_API_KEY",
        "  ! off  only basic read-only commands (cat, grep, ls and similar) run without asking; git, "
        "recursive searches and auto mode ask",
        "    learned from http://host: odd-model  output 8,192",
        "    editor  ed",
    ],
)
def test_doctor_reports_keys_files_and_limits(message: list[str], line: str) -> None:
    assert line.split() in [item.split() for item in message]


def test_doctor_names_files_that_are_trusted_for_this_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    work, skill = tmp_path / "work", tmp_path / "work" / ".qcode" / "skills" / "release" / "SKILL.md"
    work.mkdir()
    TrustStore(tmp_path / "home" / "state").remember(work)
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: Release it.\n---\nRelease it.\n")
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(work)
    name = ".qcode/skills/release/SKILL.md"
    assert main(["doctor", "--trust"]) == 0
    out = capfd.readouterr().out
    assert f"trusted for this run; not pinned, so qcode asks at the next start: {name}" in out
    assert not [line for line in out.splitlines() if line.split()[:1] == ["pinned"]]
    assert main(["doctor"]) == 0
    assert "! trust  files in this folder have changed since you trusted it" in capfd.readouterr().out


def test_doctor_begins_with_a_state_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "file"))
    assert main(["doctor"]) == 0
    first, second, third, *_ = capfd.readouterr().out.splitlines()
    assert first == "needs attention"
    assert second.split(maxsplit=2)[1:] == ["state", f"{tmp_path}/file/state, cannot be written"]
    assert "set QCODE_HOME" in third


def test_doctor_reports_file_paths_and_no_key(message: list[str], tmp_path: Path) -> None:
    text = "\n".join(message)
    assert str(tmp_path / "home" / "config.toml") in text
    assert f"the project's  {tmp_path / 'work' / '.qcode' / 'config.toml'}\n" in text
    assert KEY not in text
    assert "canary" not in text


def test_doctor_does_not_read_an_untrusted_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".qcode").mkdir()
    (tmp_path / ".qcode" / "config.toml").write_text("not toml at all")
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert "ignored because the folder is not trusted" in capfd.readouterr().out


def test_doctor_reports_a_project_folder_that_cannot_be_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".qcode").symlink_to("x" * 300)  # as a folder of another user
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert f"{tmp_path}/.qcode/config.toml, ignored because the folder is not trusted" in capfd.readouterr().out


def test_doctor_begins_with_what_needs_attention_and_its_fix(message: list[str]) -> None:
    until = message.index("qcode")
    assert message[0] == "needs attention"
    assert any(line.startswith("  ! off") for line in message[:until])
    assert '      set tools.sandbox = "auto" in the configuration' in message[:until]
    assert not any("✓" in line for line in message[:until])


FOLDER_COMMANDS = ("doctor", "config show", "auth status", "sessions list", "models", "stats")


@pytest.mark.parametrize(
    "command", (*FOLDER_COMMANDS, "permissions", "permissions --json", "skills", "mcp list --json")
)
def test_broken_configuration_is_reported_beside_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("modle = 3\n")
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 52
    out, err = capfd.readouterr()
    assert f"{tmp_path}/home/config.toml:1: " in out + err
    assert out.count("\n") >= 1
    if command == "doctor":
        assert out.splitlines()[1].startswith("  ✗ error  ")


@pytest.mark.parametrize("command", FOLDER_COMMANDS)
def test_folder_flags_work_with_each_subcommand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    work = tmp_path / "work"
    (work / ".qcode").mkdir(parents=True)
    (work / ".qcode" / "config.toml").write_text("[output]\nmax_continuations = 1\n")
    (tmp_path / "more.toml").write_text('model = "demo/demo"\n')
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    flags = ["-C", str(work), "--trust", "--settings", "../more.toml", "--json"]
    assert main([*flags, *command.split()]) == 0
    before, _ = capfd.readouterr()
    assert main([*command.split(), *flags]) == 0
    after, err = capfd.readouterr()
    assert err == ""
    assert before == after
    found = json.loads(after)
    if command == "config show":
        values = {row["key"]: row["value"] for row in found["settings"]}
        assert (values["model"], values["output.max_continuations"]) == ('"demo/demo"', "1")
    if command == "doctor":
        assert {"label": "root", "text": str(work), "mark": "", "fix": None} in found["sections"]["folder"]


def test_models_lists_what_can_be_used_first_with_limits_and_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["models"]) == 0
    usable, _ = capfd.readouterr()
    assert "anthropic/claude-sonnet-4-5 " in usable
    assert "openai/" not in usable
    assert "more models without a key: qcode models --all" in usable
    assert main(["models", "--all"]) == 0
    rows = capfd.readouterr().out.splitlines()
    assert rows[0].split() == ["model", "key", "context", "output", "$/M", "in", "$/M", "out"]
    ready = ["ANTHROPIC_API_KEY is set" in row for row in rows[1:-1] if row.startswith(("anthropic/", "openai/"))]
    assert ready == sorted(ready, reverse=True)
    sonnet = next(row for row in rows if row.startswith("anthropic/claude-sonnet-4-5 "))
    assert sonnet.split()[-4:] == ["200k", "64k", "3", "15"]


def test_every_listed_model_is_a_name_that_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["models", "--all", "--json"]) == 0
    names = [row["model"] for row in json.loads(capfd.readouterr().out)]
    specs = known_specs(load(ConfigPaths.from_env(os.environ), os.environ, {}, tmp_path, is_trusted=False))
    assert len(names) > 400
    assert {name.partition("/")[0] for name in names} <= specs.keys()


def test_doctor_with_arguments_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "now"]) == 2
    assert "use: qcode doctor" in capfd.readouterr().err


def test_rule_list_of_a_broken_configuration_has_the_rules_of_the_flags_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text('[permissions]\ndeny = ["shell(rm)", "nope(x)"]\n')
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["permissions", "--disallowed-tools", "shell(mv)", "--json"]) == 52
    out, err = capfd.readouterr()
    assert [rule["rule"] for rule in json.loads(out)["rules"]] == ["shell(mv)"]
    assert "nope(x)" in err
    assert main(["permissions"]) == 52
    out, err = capfd.readouterr()
    assert "no rules" not in out
    assert err.endswith("no rule of the configuration is listed\n")


def test_servers_of_other_files_are_listed_beside_a_broken_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text("modle = 3\n")
    (tmp_path / "more.json").write_text('{"mcpServers": {"git": {"command": "git-mcp"}}}')
    monkeypatch.setenv("QCODE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["mcp", "list", "--mcp-config", "more.json"]) == 52
    out, err = capfd.readouterr()
    assert out.startswith("git ")
    assert "config.toml:1: " in err


def test_themes_accept_the_folder_flag(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-C", str(tmp_path), "themes"]) == 0
    assert "dark" in capfd.readouterr().out.split()
    assert main(["themes", "-C", str(tmp_path / "none")]) == 42


def test_report_says_a_problem_once() -> None:
    findings = [Finding("keys", "no key", "attention", fix="add one"), Finding("local", "ollama")]
    lines = report_lines({"credentials": findings, "sandbox": [Finding("bubblewrap", "none", "attention")]})
    assert [line for line in lines if "no key" in line] == ["  ! keys  no key"]
    assert "credentials" in lines
    assert "    local  ollama" in lines
    assert "sandbox" not in lines, "a section whose only fact is a problem is left out"


def test_subcommand_answers_in_a_trusted_folder_with_an_invalid_project_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    (work / ".qcode").mkdir(parents=True)
    (work / ".qcode" / "config.toml").write_text("not toml\n")
    TrustStore(tmp_path / "home" / "state").remember(work)
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(work)
    assert main(["sessions"]) == ExitCode.BAD_CONFIG
    shown = capfd.readouterr()
    assert shown.out == "no sessions of this folder yet\n"
    assert f"{work}/.qcode/config.toml:1: not valid TOML" in shown.err
