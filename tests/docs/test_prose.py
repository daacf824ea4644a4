"""The prose check finds banned patterns in docstrings, comments, messages and pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import prose

BANS = prose.load().bans


def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> list[tuple[int, str]]:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [
        (finding.line, finding.ban) for passage in prose.passages(path) for finding in prose.findings(passage, BANS)
    ]


@pytest.mark.parametrize(
    ("text", "ban"),
    [
        ("What a model sees.", "sentence starts with What"),
        ("It runs. Who asks, waits.", "sentence starts with Who"),
        ("Where it is missing, this fails.", "sentence starts with Where"),
        ("The file is read only where there is one.", "where for if"),
        ("The person decides.", "the person"),
        ("It waits for ever.", "for ever"),
        ("The turn goes on.", "goes on"),
        ("X is no color.", "is no"),
        ("A key of its own.", "of its own"),
        ("Give one, else it fails.", "else for otherwise"),
    ],
)
def test_banned_pattern_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, ban: str) -> None:
    assert (1, ban) in found(tmp_path, monkeypatch, "page.md", text)


@pytest.mark.parametrize(
    "text",
    [
        "What runs without asking?",
        "Of course it can fail.",
        "The folder where sessions are stored.",
        "There is no key.",
        "It is no longer read.",
        "The letter stands for a column.",
        "Type `go on` to continue.",
    ],
)
def test_plain_sentence_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert found(tmp_path, monkeypatch, "page.md", text) == []


def test_docstring_comment_and_message_are_checked_and_other_strings_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '''"""Nobody reads this."""
NAME = "anew"  # Nobody reads this.
PATTERN = r"nobody \\w reads"


def run(name: str) -> None:
    """Return it.

    Nobody reads this.
    """
    raise ValueError(f"{name}: nobody reads this")
'''
    assert sorted(line for line, _ in found(tmp_path, monkeypatch, "code.py", text)) == [1, 2, 9, 11]


def test_banned_pattern_is_found_across_a_line_break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, monkeypatch, "page.md", "The turn goes\non.") == [(1, "goes on")]


def test_long_line_and_table_without_a_header_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"{'word ' * 30}\n\n| | |\n|---|---|\n\n```\n{'code ' * 30}\n```\n", encoding="utf-8")
    assert [(item.line, item.ban) for item in prose.layout(page)] == [
        (1, "line too long"),
        (3, "table without a header"),
    ]


def test_exemption_that_is_not_needed_is_reported() -> None:
    config = prose.load()
    extra = prose.Exemption("scripts/prose.py", "anew", "anew", "stands for a test")
    lines = prose.check(["scripts/prose.py"], replace(config, allowed=(*config.allowed, extra)))
    assert lines == ["prose.toml: scripts/prose.py no longer needs the exemption of 'anew'"]
