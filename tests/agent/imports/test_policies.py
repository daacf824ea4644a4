"""Policies of Codex and Gemini CLI as rules of qcode: how each row is converted, and which parts are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.imports.configuration.findings import AddRule, SourceSetting, read_settings
from qcode.agent.imports.configuration.policies import MAX_RULES, add_codex_policy, add_gemini_policy
from qcode.safety.rules import parse_rule


def converted(folder: Path, name: str, text: str, *, is_project: bool = False) -> list[SourceSetting]:
    path = folder / name
    path.write_text(text)
    file = read_settings(path, str(folder), is_project=is_project)
    assert file is not None
    (add_codex_policy if path.suffix == ".rules" else add_gemini_policy)(file)
    return file.findings


def rules(found: list[SourceSetting]) -> list[str]:
    return [f"{change.effect} {change.rule}" for row in found for change in row.changes if isinstance(change, AddRule)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('prefix_rule(pattern=["git", "status"])', ["allow shell(git status *)"]),
        ('prefix_rule(pattern=["gh", ["pr", "issue"], "view"], decision="prompt")',
         ["ask shell(gh pr view *)", "ask shell(gh issue view *)"]),
        ('prefix_rule(["rm", "-rf"], "forbidden", match=["rm -rf /"], not_match=[["rm", "x"]])',
         ["deny shell(rm -rf *)"]),
        ('READ = ["cat", "head"]\nprefix_rule(\n    pattern = [READ + ["wc"]],\n)',
         ["allow shell(cat *)", "allow shell(head *)", "allow shell(wc *)"]),
        ('"""Text."""\n# comment\nprefix_rule(pattern=["git", "log --all", "*.py"], decision="forbidden")',
         ["deny shell(git 'log --all' '*.py' *)"]),
        ('network_rule(host="evil.example", protocol="https", decision="deny")', ["deny fetch(evil.example)"]),
    ],
)  # fmt: skip
def test_codex_calls_become_rules(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = converted(tmp_path, "default.rules", text)
    assert rules(found) == expected
    for rule in expected:
        parse_rule(rule.partition(" ")[2])


@pytest.mark.parametrize(
    ("text", "line", "is_denial"),
    [
        ('for x in ["a"]:\n    prefix_rule(pattern=[x], decision="forbidden")', 1, True),
        ('\nprefix_rule(pattern=["a"] + other)', 2, False),
        ('prefix_rule(pattern=[], decision="forbidden")', 1, True),
        ('prefix_rule(pattern=["a"], decision="never")', 1, False),
        ('prefix_rule(pattern=["a", 1])', 1, False),
        ('prefix_rule(pattern=["a"], level=3)', 1, False),
        ('load("x.star", "rules")', 1, False),
        ('host_executable(name="git", paths=["/usr/bin/git"])', 1, False),
        ('network_rule(host="a.example", protocol="https", decision="allow")', 1, False),
        (f'x = ["a"]\nprefix_rule(pattern=[{"x + x, " * 8}])', 2, False),
        ('prefix_rule(pattern=["a"], decision="forbidden"', 1, True),
        ("x = " + "(" * 5_000, 1, False),
        ('a = "' + "a" * 6_000 + '"\nb = a + a', 2, False),
    ],
)
def test_codex_statements_that_are_not_converted_are_named(
    tmp_path: Path, text: str, line: int, is_denial: bool
) -> None:
    found = converted(tmp_path, "default.rules", text)
    assert rules(found) == []
    (row,) = found
    assert row.location == f"~/default.rules:{line}"
    assert row.reason
    assert row.is_lost_denial is is_denial


def test_alternatives_of_codex_are_bounded(tmp_path: Path) -> None:
    words = ", ".join(f'"w{number}"' for number in range(MAX_RULES + 1))
    (row,) = converted(tmp_path, "a.rules", f'prefix_rule(pattern=[[{words}]], decision="forbidden")')
    assert row.is_lost_denial
    assert f"more than {MAX_RULES} rules" in row.reason


def policy(values: str, decision: str = "allow", priority: int = 100) -> str:
    return f'[[rule]]\n{values}\ndecision = "{decision}"\npriority = {priority}\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (policy('toolName = "run_shell_command"\ncommandPrefix = "git status"'), ["allow shell(git status *)"]),
        (policy('commandPrefix = ["rm -rf", "dd"]', "deny"), ["deny shell(rm -rf *)", "deny shell(dd *)"]),
        (policy('commandRegex = "git (commit|push)"', "ask_user"), ["ask shell(git *)"]),
        (policy('commandRegex = "npm run build"'), ["allow shell(npm run build *)"]),
        (policy('mcpName = "jira"\ntoolName = ["get", "list"]'), ["allow mcp(jira/get)", "allow mcp(jira/list)"]),
        (policy('mcpName = "jira"', "deny"), ["deny mcp(jira/*)"]),
        (policy('toolName = "mcp_jira_get_issue"', "deny"), ["deny mcp(jira/get_issue)"]),
        (policy('toolName = "web_fetch"', "deny"), ["deny fetch"]),
        (policy('toolName = ["write_file", "replace"]\ndenyMessage = "no"', "deny"), ["deny edit"]),
        (policy('commandPrefix = "ls"\nmodes = ["default", "autoEdit", "yolo"]'), ["allow shell(ls *)"]),
        (policy('commandPrefix = "ls"\nmodes = ["yolo"]', "deny"), ["deny shell(ls *)"]),
    ],
)
def test_gemini_policies_become_rules(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = converted(tmp_path, "a.toml", text)
    assert list(dict.fromkeys(rules(found))) == expected
    assert {row.location for row in found} == {"~/a.toml:1"}


@pytest.mark.parametrize(
    ("text", "is_denial"),
    [
        (policy('toolName = "run_shell_command"'), False),
        (policy('toolName = "run_shell_command"', "ask_user"), False),
        (policy('toolName = "*"', "deny"), True),
        (policy('toolName = "mcp_*"', "deny"), True),
        (policy('commandRegex = ".*--force"', "deny"), True),
        (policy('commandRegex = "git (log|show)|rm .*"', "deny"), True),
        (policy('commandRegex = "git ?push"', "deny"), True),
        (policy('commandRegex = "git (log|diff)"'), False),
        (policy('commandPrefix = "ls"\nmodes = ["yolo"]'), False),
        (policy('commandPrefix = "ls"\ninteractive = true'), False),
        (policy('commandPrefix = "ls"\nsubagent = "x"'), False),
        (policy("toolName = \"write_file\"\nargsPattern = '\\.env'", "deny"), True),
        ('[[rule]]\ntoolName = "x"\ndecision = "maybe"\n', False),
        ('[[rule]]\ntoolName = "x"\ndecision = "deny"\npriority = "high"\n', True),
        (policy("", "deny"), True),
    ],
)
def test_gemini_policies_that_are_not_converted_are_named(tmp_path: Path, text: str, is_denial: bool) -> None:
    found = converted(tmp_path, "a.toml", f"# a comment\n{text}")
    assert rules(found) == []
    (row,) = found
    assert row.location == "~/a.toml:2"
    assert row.reason
    assert row.is_lost_denial is is_denial


def test_priority_over_a_denial_is_reported_as_lost(tmp_path: Path) -> None:
    text = policy('commandPrefix = "git"', "deny", 10) + policy('commandPrefix = "git log"', "allow", 20)
    denied, allowed = converted(tmp_path, "a.toml", text)
    assert denied.losses == ()
    assert "its priority has no equivalent" in allowed.losses[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.rules", 'prefix_rule(pattern=["ls"])'), ("a.toml", policy('commandPrefix = "ls"'))],
)
def test_policy_of_a_project_allows_nothing(tmp_path: Path, name: str, text: str) -> None:
    (row,) = converted(tmp_path, name, text, is_project=True)
    assert row.changes == ()
    assert "may not allow" in row.reason
