"""`--json` of the lists of subcommands: the fields that `docs/output-formats.md` names, as one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.agent.trust.store import TrustStore
from qcode.cli.main import main
from qcode.engine.model_facts import HostKnowledge
from tests.arch.sources import ROOT

ROWS = dict(
    re.findall(
        r"^\| `qcode ([a-z ]+)` \| (.*) \|$",
        (ROOT / "docs/output-formats.md").read_text(encoding="utf-8").split("## Lists")[1].split("## `")[0],
        re.MULTILINE,
    )
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a trusted folder with a server, a rule, a hook and a skill in the user's configuration."""
    home, work = tmp_path / "home", tmp_path / "work"
    (home / "skills" / "pdf").mkdir(parents=True)
    (home / "skills" / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: Read PDF files.\n---\nRead it.\n")
    (home / "config.toml").write_text(
        '[permissions]\nallow = ["shell(make test)"]\n[mcp_servers.git]\ncommand = "git-mcp"\n'
        '[[hooks.Stop]]\ncommand = "true"\n'
    )
    work.mkdir()
    (work / "AGENTS.md").write_text("Be brief.")
    TrustStore(home / "state").remember(work)
    monkeypatch.setenv("QCODE_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return work


def listed(capfd: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    output = capfd.readouterr().out
    assert output.count("\n") == 1
    return json.loads(output)


@pytest.mark.parametrize("command", [name for name in ROWS if name != "themes"])
def test_fields_of_a_list_are_those_of_the_page(command: str, work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = command.split()
    found = listed(capfd, *words, *([] if words[:2] == ["trust", "list"] else ["-C", str(work)]))
    named = set(re.findall(r"`(\w+)`", ROWS[command]))
    first = found[0] if isinstance(found, list) else found
    inner = [
        field
        for value in first.values()
        if isinstance(value, list)
        for item in value[:1]
        if isinstance(item, dict)
        for field in item
    ]
    states = {"trusted", "changed", "unknown", "unpinned", "unpinnable"} if command == "trust list" else set()
    assert {*first, *inner} == named - states


def test_lists_have_the_configured_values(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rules = listed(capfd, "permissions", "-C", str(work))
    assert isinstance(rules, dict)
    assert (rules["is_trusted"], rules["rules"][0]["rule"]) == (True, "shell(make test)")
    assert listed(capfd, "trust", "list") == [{"folder": str(work), "state": "trusted"}]
    assert isinstance(listed(capfd, "auth", "status"), list)
    output = listed(capfd, "-C", str(work), "trust")
    assert isinstance(output, dict)
    assert (output["state"], output["files"]) == ("trusted", ["AGENTS.md"])


def test_deleted_limits_are_counted_in_json(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LimitStore(work.parent / "home" / "state").remember("https://host/v1", "big", HostKnowledge(output=8_192))
    assert listed(capfd, "models", "forget") == {"deleted": 1}
    assert listed(capfd, "models", "forget") == {"deleted": 0}


@pytest.mark.parametrize(
    "words",
    [("permissions", "check", "shell", "ls"), ("skills", "show", "pdf"), ("mcp", "show", "git"), ("trust", "accept")],
)
def test_json_is_for_lists_only(words: tuple[str, ...], work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == 2
    assert "--json" in capfd.readouterr().err
