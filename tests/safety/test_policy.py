"""Modes, rules, trust and the layers below them, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.conversation import ApprovalMode
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules, parse_rule
from qcode.safety.verdict import Verdict

MODES = get_args(ApprovalMode)
EDIT: dict[str, Any] = {"path": "src/app.py"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src/app.py").write_text("x\n")
    return root


def _policy(root: Path, mode: ApprovalMode = "default", *, is_trusted: bool = True, **rules: list[str]) -> Policy:
    return Policy(mode, Rules.of(**rules), is_trusted, root, home=root.parent / "home")


def _shell(policy: Policy, command: str) -> str:
    return policy.judge("shell", {"command": command}).verdict


@pytest.mark.parametrize(
    ("mode", "read", "edit", "look", "run"),
    [
        ("plan", "allow", "deny", "deny", "deny"),
        ("default", "allow", "ask", "allow", "ask"),
        ("accept-edits", "allow", "allow", "allow", "ask"),
        ("auto", "allow", "ask", "allow", "ask"),
        ("bypass", "allow", "allow", "allow", "allow"),
    ],
)
def test_modes(mode: ApprovalMode, read: str, edit: str, look: str, run: str, repo: Path) -> None:
    policy = _policy(repo, mode)
    assert policy.judge("read", EDIT).verdict == read
    assert policy.judge("grep", {"pattern": "x"}).verdict == read
    assert policy.judge("edit", EDIT).verdict == edit
    assert policy.judge("write", {"path": "new.py"}).verdict == edit
    assert _shell(policy, "ls src") == look
    assert _shell(policy, "make test") == run
    assert policy.judge("server/tool", {}).verdict == run


@pytest.mark.parametrize("mode", MODES)
def test_an_untrusted_folder_asks_for_everything_but_reading(mode: ApprovalMode, repo: Path) -> None:
    policy = _policy(repo, mode, is_trusted=False, allow=["shell", "edit"])
    assert policy.judge("read", EDIT).verdict == "allow"
    expected = "deny" if mode == "plan" else "ask"
    assert policy.judge("edit", EDIT).verdict == expected
    assert _shell(policy, "ls") == expected
    assert _shell(policy, "echo $(ls)") == expected


@pytest.mark.parametrize("mode", MODES)
def test_the_path_layer_holds_in_every_mode(mode: ApprovalMode, repo: Path) -> None:
    policy = _policy(repo, mode, allow=["edit", "read"])
    assert policy.judge("write", {"path": ".git/hooks/pre-commit"}).verdict == "deny"
    assert policy.judge("read", {"path": "~/.ssh/id_rsa"}).verdict == "deny"
    assert policy.judge("read", {"path": ".env"}).verdict == "ask"
    assert policy.judge("write", {"path": "AGENTS.md"}).verdict == ("deny" if mode == "plan" else "ask")
    assert policy.judge("read", {"path": "/tmp/x"}).verdict == "deny"
    assert policy.judge("edit", {"path": "../x"}).verdict == "deny"


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_rule_holds_in_every_mode_and_against_allow(mode: ApprovalMode, repo: Path) -> None:
    rules: dict[str, list[str]] = {
        "deny": ["shell(rm *)", "edit(src/**)", "read(private/**)"],
        "allow": ["shell", "edit", "read"],
    }
    policy = Policy(mode, Rules.of(**rules), True, repo, home=repo.parent / "home")
    for command in ("rm -rf x", "ls; rm x", "r'm' x", "/bin/rm x", "timeout 5 rm x", "sudo rm x", "sh -c 'rm x'", "rm"):
        assert _shell(policy, command) == "deny", command
    assert _shell(policy, "echo $(rm x)") == "deny"
    assert policy.judge("edit", EDIT).verdict == "deny"
    assert policy.judge("edit", {"path": "SRC/App.py"}).verdict == "deny"
    assert policy.judge("read", {"path": "private/notes"}).verdict == "deny"
    assert policy.judge_file("private/notes", "read").verdict == "deny"


def test_a_command_that_was_not_understood_cannot_slip_past_a_deny_rule(repo: Path) -> None:
    policy = _policy(repo, "bypass", deny=["shell(rm *)"], allow=["shell"])
    assert _shell(policy, "$(echo r)m x") == "ask"
    assert _shell(_policy(repo, "bypass"), "$(echo r)m x") == "allow"


def test_a_denied_file_is_not_read_through_the_shell_either(repo: Path) -> None:
    (repo / "private").mkdir()
    (repo / "private/notes").write_text("x\n")
    assert _shell(_policy(repo), "cat private/notes") == "allow"
    policy = _policy(repo, deny=["read(private/**)"])
    assert _shell(policy, "cat private/notes") == "ask"
    assert _shell(policy, "cat private/*") == "ask"
    assert _shell(policy, "grep -r x .") == "ask"
    assert _shell(policy, "grep -r x src") == "allow"


def test_an_ask_rule_beats_an_allow_rule(repo: Path) -> None:
    policy = _policy(repo, "accept-edits", ask=["shell(git push *)", "edit(*.lock)"], allow=["shell(git *)", "edit"])
    assert _shell(policy, "git push origin") == "ask"
    assert _shell(policy, "git log") == "allow"
    assert policy.judge("edit", {"path": "deep/down/uv.lock"}).verdict == "ask"
    assert policy.judge("edit", EDIT).verdict == "allow"


def test_an_allow_rule_must_cover_every_part_of_a_list(repo: Path) -> None:
    policy = _policy(repo, allow=["shell(make test)", "shell(git log *)", "shell(npm run test:*)"])
    allowed = ("make test", "git log", "git log -p --stat", "make 'test' && git log | head -n 3", "npm run test:unit")
    asked = ("make", "make test x", "git logs", "git -c x=y log", "make test; rm x", "make test > out", "git log $(x)")
    assert [command for command in allowed if _shell(policy, command) != "allow"] == []
    assert [command for command in asked if _shell(policy, command) != "ask"] == []
    assert _shell(policy, "git log < .env") == "ask"


def test_edit_rules_cover_every_tool_that_changes_files_and_both_ends_of_a_link(repo: Path) -> None:
    (repo / "docs").mkdir()
    (repo / "docs/link.py").symlink_to("../src/app.py")
    policy = _policy(repo, allow=["edit(src/**)"])
    assert policy.judge("edit", EDIT).verdict == "allow"
    assert policy.judge("write", {"path": "src/new/x.py"}).verdict == "allow"
    assert policy.judge("edit", {"path": "docs/link.py"}).verdict == "ask"
    assert policy.judge("edit", {"path": "app.py"}).verdict == "ask"
    assert _policy(repo, deny=["edit(src/**)"]).judge("edit", {"path": "docs/link.py"}).verdict == "deny"


def test_always_proposes_a_rule_that_allows_exactly_the_call_again(repo: Path) -> None:
    policy = _policy(repo)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("shell", {"command": "make test"}),
        ("shell", {"command": "git commit -m 'a (b) c'"}),
        ("shell", {"command": "ls && make all"}),
        ("edit", EDIT),
        ("write", {"path": "new folder/x.py"}),
        ("server/tool", {}),
        ("fetch", {"url": "https://docs.python.org/3/"}),
    ]
    for name, arguments in calls:
        verdict = policy.judge(name, arguments)
        assert (verdict.verdict, bool(verdict.proposed_rule)) == ("ask", True), name
        assert policy.with_allow(verdict.proposed_rule).judge(name, arguments).verdict == "allow"
    taught = policy.with_allow(policy.judge("edit", EDIT).proposed_rule)
    assert taught.judge("edit", {"path": "src/other.py"}).verdict == "ask"
    assert taught.judge("edit", {"path": "deep/src/app.py"}).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    ["python3 x.py", "rm x", "sudo ls", "npx x", "curl x", "git push", "git -c a=b log", "a; b", "./run", "X=1 make",
     "bash x", "make *", "uv run x", "npm install", "echo $(x)", "xargs rm"],
)  # fmt: skip
def test_no_rule_is_proposed_where_it_would_be_worth_more_than_it_says(command: str, repo: Path) -> None:
    verdict = _policy(repo).judge("shell", {"command": command})
    assert (verdict.verdict, verdict.proposed_rule) == ("ask", "")


def test_auto_says_that_it_has_no_sandbox(repo: Path) -> None:
    assert "sandbox" in _policy(repo, "auto").judge("shell", {"command": "make"}).reason


def test_a_malformed_call_asks(repo: Path) -> None:
    policy = _policy(repo, "bypass")
    assert policy.judge("write", {}).verdict == "ask"
    assert policy.judge("shell", {"command": 5}).verdict == "ask"
    assert policy.judge("read", {"path": ["x"]}).verdict == "ask"


def test_a_folder_added_for_reading_is_inside(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "scratch"
    other.mkdir()
    policy = Policy("bypass", Rules(), True, repo, read_only=(other,), home=tmp_path / "home")
    assert policy.judge("read", {"path": f"{other}/out.txt"}).verdict == "allow"
    assert policy.judge("write", {"path": f"{other}/out.txt"}).verdict == "ask"


def test_fetch_and_mcp_rules(repo: Path) -> None:
    policy = _policy(
        repo, allow=["fetch(docs.python.org)", "fetch(*.rust-lang.org)", "mcp(files/*)"], deny=["mcp(files/drop)"]
    )
    assert policy.judge("fetch", {"url": "https://docs.python.org/3/"}).verdict == "allow"
    assert policy.judge("fetch", {"url": "https://doc.rust-lang.org/"}).verdict == "allow"
    assert policy.judge("fetch", {"url": "https://evil-docs.python.org.example/"}).verdict == "ask"
    assert policy.judge("fetch", {"url": "docs.python.org"}).verdict == "ask"
    assert policy.judge("files/list", {}).verdict == "allow"
    assert policy.judge("files/drop", {}).verdict == "deny"
    assert policy.judge("other/list", {}).verdict == "ask"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("run(x)", "not a kind of rule"),
        ("write(src/**)", "edit(...)"),
        ("shell(git log", "closing bracket"),
        ("shell()", "nothing stands"),
        ("shell(a | b)", "one command"),
        ("shell(echo $x)", "expansion"),
        ("shell(*x y)", "written out"),
        ("edit(!x)", "cannot begin"),
        ("edit(a/../b)", "'..'"),
        ("fetch(https://x/y)", "a host"),
        ("mcp(server)", "server/tool"),
    ],
)
def test_a_bad_rule_says_what_and_where(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match="position") as caught:
        parse_rule(text)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@given(
    st.text(max_size=30)
    | st.sampled_from(["shell", "edit", "read"]).flatmap(
        lambda kind: st.text(max_size=20).map(lambda body: f"{kind}({body})")
    )
)
def test_any_text_is_a_rule_or_a_value_error(text: str) -> None:
    try:
        rule = parse_rule(text)
    except ValueError as error:
        assert str(error).startswith("bad rule")
    else:
        assert rule.kind in text


@given(st.sampled_from(MODES), st.booleans(), st.text(max_size=30))
def test_any_command_and_path_has_a_verdict(mode: ApprovalMode, is_trusted: bool, text: str) -> None:
    policy = Policy(mode, Rules.of(["shell(ls *)"], ["read(x)"], ["edit(y/**)"]), is_trusted, Path("/nowhere/repo"))
    for name, argument in (("shell", "command"), ("read", "path"), ("write", "path"), ("fetch", "url")):
        verdict = policy.judge(name, {argument: text})
        assert verdict.verdict in ("allow", "ask", "deny")
        assert verdict.reason


def test_a_patch_is_judged_by_every_file_it_names(repo: Path) -> None:
    def verdict(mode: ApprovalMode, *lines: str, **rules: Any) -> Verdict:
        text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
        return _policy(repo, mode, **rules).judge("apply_patch", {"input": text})

    change = ("*** Update File: src/app.py", "-a", "+b")
    assert verdict("default", *change).verdict == "ask"
    assert verdict("default", *change).proposed_rule == "edit(./src/app.py)"
    assert verdict("default", *change, "*** Add File: new.py", "+x").proposed_rule == ""
    assert verdict("accept-edits", *change).verdict == "allow"
    assert verdict("plan", *change).verdict == "deny"
    for line in ("*** Move to: .git/hooks/pre-commit", "*** Move to: ../out.py"):
        assert verdict("bypass", "*** Update File: src/app.py", line).verdict == "deny"
    assert verdict("bypass", *change, "*** Delete File: AGENTS.md").verdict == "ask"
    assert verdict("accept-edits", *change, "*** Add File: .git/x", "+x").verdict == "deny"
    assert verdict("bypass", *change, "*** Delete File: uv.lock", deny=["edit(uv.lock)"]).verdict == "deny"
    assert verdict("default", *change, allow=["edit(src/**)"]).verdict == "allow"
    assert verdict("default", *change, "*** Add File: b", "+", allow=["edit(src/**)"]).verdict == "ask"
    assert verdict("bypass", "nonsense").verdict == "ask"
    assert _policy(repo, "bypass").judge("apply_patch", {"input": 5}).verdict == "ask"
