"""Matchers: lists of names, regular expressions, and those that would never end."""

from __future__ import annotations

import time

import pytest

from qcode.agent.claude.tool_names import claude_names
from qcode.agent.hooks.matcher import MAX_PATTERN_CHARS, MatcherError, matches


@pytest.mark.parametrize(
    ("matcher", "tool", "is_match"),
    [
        ("", "shell", True),
        ("*", "shell", True),
        ("Bash", "shell", True),
        ("shell", "shell", True),
        ("bash", "shell", False),
        ("Edit|Write", "write", True),
        ("Edit, Write", "write", True),
        (" Edit | Write ", "edit", True),
        ("Edit|Write", "multi_edit", False),
        ("Task", "agent", True),
        ("Agent", "agent", True),
        ("Edit.*", "multi_edit", True),
        ("^Edit$", "multi_edit", False),
        ("Notebook.*|Edit", "notebook_edit", True),
        ("mcp__files__.*", "files__read", True),
        ("mcp__files__read", "files__read", True),
        ("mcp__other__.*", "files__read", False),
        ("(?i)bash", "shell", True),
    ],
)
def test_matcher_selects_tools(matcher: str, tool: str, is_match: bool) -> None:
    assert matches(matcher, claude_names(tool)) is is_match


def test_event_without_a_subject_is_always_selected() -> None:
    assert matches("Bash", ())
    assert matches("^x", ())


@pytest.mark.parametrize("matcher", ["[", "(", "a)", "*a", "x" * MAX_PATTERN_CHARS + "."])
def test_unusable_matcher_is_an_error(matcher: str) -> None:
    with pytest.raises(MatcherError):
        matches(matcher, ("Bash",))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("matcher", [r"(a|aa)+$", r"(?:a+)+b", r"(.*)*\1x", "((a{1,99}){1,99}){1,99}b"])
def test_pattern_that_takes_too_long_is_an_error(matcher: str) -> None:
    began = time.monotonic()
    try:
        assert matches(matcher, ("a" * 200 + "c",)) is False
    except MatcherError as error:
        assert "longer than" in str(error) or "complex" in str(error) or "valid" in str(error)
    assert time.monotonic() - began < 5
