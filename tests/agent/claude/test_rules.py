"""Permission rules of Claude Code as rules of qcode: never broader if they allow, never narrower if they restrict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.claude.rules import RuleConversion, convert_rule, is_claude_rule
from qcode.agent.claude.settings import convert_rules
from qcode.agent.options import split_rules
from qcode.safety.rules import is_rule


@pytest.mark.parametrize(
    ("claude", "allow", "deny"),
    [
        ("Bash(npm run test *)", ("shell(npm run test *)",), ("shell(npm run test *)",)),
        ("Bash(npm run test:*)", ("shell(npm run test *)",), ("shell(npm run test *)",)),
        ("Bash(npm run test)", ("shell(npm run test)",), ("shell(npm run test)",)),
        ("Bash(npm run*)", ("shell(npm run* *)",), ("shell(npm run* *)",)),
        ("Bash(git * main)", ("shell(git * main)",), ("shell(git *)",)),
        ("Bash(git -C *)", ("shell(git -C *)",), ("shell(git -C *)",)),
        ("Bash(ls*)", (), ("shell(ls *)",)),
        ("Bash(* --help)", (), ()),
        ("Bash(make a && make b)", (), ("shell(make a *)",)),
        ("Bash(rm $HOME/x)", (), ("shell(rm *)",)),
        ("Bash(echo it's:*)", (), ("shell(echo *)",)),
        ("Bash(ls ?)", (), ("shell(ls ?)",)),
        ("Bash", ("shell",), ("shell",)),
        ("Bash(*)", ("shell",), ("shell",)),
        ("Read(//etc/x)", ("read(/etc/x)",), ("read(/etc/x)",)),
        ("Read(~/a)", ("read(~/a)",), ("read(~/a)",)),
        ("Edit(/src/**)", ("edit(./src/**)",), ("edit(./src/**)",)),
        ("Edit(./src/**)", ("edit(./src/**)",), ("edit(./src/**)",)),
        ("Write(src/**)", ("edit(./src/**)",), ("edit(src/**)",)),
        ("Read(../x)", (), ()),
        ("Read(!x)", ("read(./!x)",), ("read",)),
        ("WebFetch(domain:docs.python.org)", ("fetch(docs.python.org)",), ("fetch(docs.python.org)",)),
        ("WebFetch(domain:*.python.org)", ("fetch(*.python.org)",), ("fetch(*.python.org)",)),
        ("WebFetch(domain:a*b.org)", (), ("fetch",)),
        ("WebFetch(https://x/y)", (), ("fetch",)),
        ("mcp__git", ("mcp(git/*)",), ("mcp(git/*)",)),
        ("mcp__git__*", ("mcp(git/*)",), ("mcp(git/*)",)),
        ("mcp__git__log", ("mcp(git/log)",), ("mcp(git/log)",)),
        ("mcp__git__get_*", (), ("mcp(git/*)",)),
        ("mcp__*", (), ("mcp",)),
        ("Agent(explore)", (), ()),
        ("Tool(k:v)", (), ()),
    ],
)
def test_rule_becomes_narrower_if_it_allows_and_broader_if_it_denies(
    claude: str, allow: tuple[str, ...], deny: tuple[str, ...]
) -> None:
    assert (convert_rule(claude, "allow").rules, convert_rule(claude, "deny").rules) == (allow, deny)


@pytest.mark.parametrize("claude", ["Bash(* --help)", "Bash(ls*)", "Read(../x)", "Agent(explore)", "Tool(k:v)"])
def test_lost_part_of_a_deny_rule_is_named(claude: str) -> None:
    assert convert_rule(claude, "deny").loss


@pytest.mark.parametrize("claude", ["Bash(ls", "Read(x", "mcp__git("])
def test_rule_without_its_closing_parenthesis_is_named(claude: str) -> None:
    assert convert_rule(claude, "allow").loss == "the closing parenthesis is missing"


def test_path_of_the_users_settings_is_relative_to_their_folder() -> None:
    assert convert_rule("Read(/hooks/**)", "deny", "user").rules == ("read(~/.claude/hooks/**)",)


def test_rule_for_every_command_is_allowed_by_a_flag_only() -> None:
    assert convert_rule("Bash", "allow", "flag").rules == ("shell",)
    assert convert_rule("Bash(*)", "allow", "user") == RuleConversion(
        loss="a rule for every command is not imported; add `shell` yourself if you want it"
    )


def test_denied_tools_without_a_kind_of_rule_are_not_offered() -> None:
    assert convert_rule("Write", "deny").tools == ("write",)
    assert convert_rule("Task", "deny").tools == ("agent",)
    assert convert_rule("KillShell", "deny").tools == ("jobs",)
    assert convert_rule("mcp__git__log", "deny").tools == ("git__log",)
    assert convert_rule("Grep", "deny", "user").loss == "no rule covers Grep; use --disallowed-tools"


def test_rules_in_both_forms_can_be_mixed() -> None:
    found = convert_rules(("shell(rm *)", "Bash(curl:*)", "read", "Skill(x)", "Bash(* -f)"), "deny", "flag")
    assert found.rules == ("shell(rm *)", "shell(curl *)", "read")
    assert found.losses == (
        "deny Skill(x): a rule about the arguments of Skill has no equivalent",
        "deny Bash(* -f): a rule must name the program; this one covers any",
    )
    assert found.unenforced_denials == found.losses[1:]
    assert [is_claude_rule(text) for text in ("Bash", "mcp__a", "shell(x)", "")] == [True, True, False, False]


def test_rules_are_split_at_commas_and_blanks_outside_brackets() -> None:
    assert split_rules(["Bash(git log:*),Read Edit(a b, c)", " shell(echo '), x') ,read"]) == (
        "Bash(git log:*)",
        "Read",
        "Edit(a b, c)",
        "shell(echo '), x')",
        "read",
    )
    assert split_rules(["Bash(echo it's), Read"]) == ("Bash(echo it's)", "Read")


@given(st.sampled_from(["Bash", "Read", "Edit", "WebFetch", "mcp__a", "Foo"]), st.text(max_size=30))
def test_every_converted_rule_is_valid(tool: str, body: str) -> None:
    for effect in ("allow", "ask", "deny"):
        found = convert_rule(f"{tool}({body})", effect)
        assert all(map(is_rule, found.rules))
