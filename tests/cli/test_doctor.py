"""The report of `qcode doctor` for a simulated machine and a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.agent.trust import TrustStore
from qcode.cli.main import main
from qcode.engine.model_facts import HostKnowledge

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
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
        "  trusted",
        "  openai: environment variable OPENAI_API_KEY",
        "  off (tools.sandbox): only basic read-only commands (cat, grep, ls and similar) run without asking; git, "
        "recursive searches and auto mode ask",
        "  learned from http://host: odd-model  output 8,192",
        "  editor: ed",
    ],
)
def test_doctor_reports_keys_files_and_limits(said: list[str], line: str) -> None:
    assert line in said


def test_doctor_reports_file_paths_and_no_key(said: list[str], tmp_path: Path) -> None:
    text = "\n".join(said)
    assert str(tmp_path / "home" / "config.toml") in text
    assert f"the project's: {tmp_path / 'work' / '.qcode' / 'config.toml'}\n" in text
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


def test_doctor_with_words_is_wrong_usage(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "now"]) == 2
    assert "use: qcode doctor" in capfd.readouterr().err
