"""Every flag, path and exit code that a page names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qcode.cli.flags import FLAGS, SUBCOMMANDS
from qcode.protocol.errors import ExitCode
from tests.docs.blocks import PAGES, ROOT

OWN = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
NAMES = {name for flag in FLAGS for name in flag.names} | {
    name for command in SUBCOMMANDS.values() for flag in command.flags for name in flag.names
}
EXAMPLES = ("qcode/providers/acme/", "themes/NAME.toml")
FOREIGN: dict[str, set[str]] = {
    "CONTRIBUTING.md": {"-k", "-n"},
    "ci.md": {"--build-arg", "--privileged"},
    "comparison.md": {"-s"},
    "mcp.md": {"--require"},
    "from-claude-code.md": {"--flag", "--resume-session-at", "--resume-drops-turn", "--session-mirror"},
    "permissions.md": {"--force"},
    "providers.md": {"--context-length", "--max-model-len", "--parallel"},
}
"""Flags of other programs that a page names, and flags of Claude Code that qcode does not have."""


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", OWN, ids=lambda page: page.name)
def test_paths_of_a_page_exist(page: Path) -> None:
    found = re.findall(r"`((?:qcode|tests|scripts|docs|themes|\.ci|\.github)/[\w./-]+\.\w+)`", prose(page))
    assert [path for path in found if not path.startswith(EXAMPLES) and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", OWN, ids=lambda page: page.name)
def test_exit_codes_of_a_page_exist(page: Path) -> None:
    text = " ".join(prose(page).split())
    found = re.findall(r"\b[Ee]xit(?:s with| code| status)(?: of)?:? `?(\d+)", text)
    assert {int(code) for code in found} <= {int(code) for code in ExitCode}


@pytest.mark.parametrize("page", OWN, ids=lambda page: page.name)
def test_flags_that_a_page_names_alone_exist(page: Path) -> None:
    codes = re.findall(r"(?<!`)`(--?[a-zA-Z][\w-]*)(?:[ =][^`]*)?`(?!`)", prose(page))
    foreign = FOREIGN.get(page.name, set())
    assert {code for code in codes if code not in NAMES and code not in foreign} == set()
