"""Agents in Claude Code's form become kinds of sub-agents that only take away."""

from __future__ import annotations

from typing import Any

import pytest

from qcode.agent.claude.agents import MAX_DESCRIPTION, agent_kind
from qcode.agent.subagent_kinds import MAX_STEPS
from qcode.protocol.tools import ToolSpec

PLAIN = {"description": "reviews code", "prompt": "Review the diff."}


def offered(definition: dict[str, Any], *names: str) -> list[str]:
    kind = agent_kind("reviewer", {**PLAIN, **definition}).kind
    return [spec.name for spec in kind.offered(tuple(ToolSpec(name, "", {}) for name in names))]


def test_definition_without_tools_has_those_of_the_conversation() -> None:
    assert offered({}, "read", "shell", "git__log") == ["read", "shell", "git__log"]


@pytest.mark.parametrize("tools", ["Read, Grep, Bash", "Read Grep Bash", ["Read", "Grep", "Bash(git log:*)"]])
def test_tools_are_named_in_a_text_or_a_list(tools: object) -> None:
    assert offered({"tools": tools}, "read", "grep", "shell", "write", "edit") == ["read", "grep", "shell"]


def test_one_way_to_edit_stands_for_all() -> None:
    assert offered({"tools": "Edit"}, "edit", "apply_patch", "write") == ["edit", "apply_patch"]
    assert offered({"disallowedTools": ["Edit", "Write"]}, "edit", "apply_patch", "write", "read") == ["read"]


def test_tools_of_servers_are_named_one_by_one_or_all() -> None:
    names = ("git__log", "git__push", "web__get", "read")
    assert offered({"tools": ["mcp__git__log"]}, *names) == ["git__log"]
    assert offered({"tools": ["mcp__git", "Read"]}, *names) == ["git__log", "git__push", "read"]
    assert offered({"disallowedTools": "mcp__git__*"}, *names) == ["web__get", "read"]


def test_other_fields_are_mapped_or_listed() -> None:
    found = agent_kind(
        "reviewer",
        {**PLAIN, "model": "haiku", "permissionMode": "plan", "maxTurns": 3, "color": "red", "hooks": None},
    )
    kind = found.kind
    assert (kind.model, kind.only_reads, kind.max_turns, found.unused) == ("small", True, 3, ("color",))
    assert kind.role.endswith("\n\nReview the diff.")


@pytest.mark.parametrize("model", ["sonnet", "opus", "fable", "inherit", "claude-x", None])
def test_model_other_than_haiku_is_that_of_the_conversation(model: str | None) -> None:
    assert agent_kind("a", {**PLAIN, "model": model}).kind.model == "same"


def test_mode_that_would_widen_is_ignored() -> None:
    found = agent_kind("a", {**PLAIN, "permissionMode": "bypassPermissions", "maxTurns": 1_000})
    assert (found.kind.only_reads, found.unused, found.kind.max_turns) == (False, ("permissionMode",), MAX_STEPS)


def test_description_is_one_bounded_line() -> None:
    kind = agent_kind("a", {**PLAIN, "description": "When\n\\nto use <example>\x1b[31m" + "x" * 5_000}).kind
    assert kind.purpose.startswith("When to use <example>")
    assert len(kind.purpose) <= MAX_DESCRIPTION
    assert kind.purpose.isprintable()


@pytest.mark.parametrize(
    ("name", "definition", "problem"),
    [
        ("a b", PLAIN, "name of an agent"),
        ("a", {"description": "x"}, "prompt is missing"),
        ("a", {"prompt": "x", "description": " "}, "description is missing"),
        ("a", {**PLAIN, "tools": "LSP, Monitor"}, "none of its tools exists"),
        ("a", {**PLAIN, "tools": []}, "none of its tools exists"),
        ("a", {**PLAIN, "tools": "Agent"}, "none of its tools exists"),
        ("a", {**PLAIN, "tools": 3}, "tools must be"),
        ("a", {**PLAIN, "model": 3}, "model must be"),
        ("a", {**PLAIN, "maxTurns": True}, "maxTurns must be"),
    ],
)
def test_unusable_definition_is_refused_in_one_line(name: str, definition: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        agent_kind(name, definition)
