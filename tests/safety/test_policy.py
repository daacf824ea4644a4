"""Modes, rules, trust and the layers below them, put together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.protocol.approvals import ApprovalMode, RuleConfig
from qcode.safety.policy import Policy
from qcode.safety.probes import Probes, Repository
from qcode.safety.rules import Rules, parse_rule, read_rules
from qcode.safety.verdict import Verdict
from tests.fakes.tools import spec_of
from tests.safety.policies import NO_SANDBOX, policy_for

MODES = get_args(ApprovalMode)
EDIT: dict[str, Any] = {"path": "src/app.py"}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src/app.py").write_text("x\n")
    return root


def _policy(root: Path, mode: ApprovalMode = "default", *, is_trusted: bool = True, **rules: list[str]) -> Policy:
    return policy_for(root, mode=mode, rules=Rules.of(**rules), is_trusted=is_trusted)


def _shell(policy: Policy, command: str) -> str:
    return policy.judge(spec_of("shell"), {"command": command}).verdict


@pytest.mark.parametrize(
    ("mode", "read", "edit", "look", "run"),
    [
        ("plan", "allow", "deny", "allow", "deny"),
        ("default", "allow", "ask", "allow", "ask"),
        ("accept-edits", "allow", "allow", "allow", "ask"),
        ("auto", "allow", "ask", "allow", "ask"),
        ("bypass", "allow", "allow", "allow", "allow"),
    ],
)
def test_modes_decide_calls(mode: ApprovalMode, read: str, edit: str, look: str, run: str, repo: Path) -> None:
    policy = policy_for(repo, NO_SANDBOX, mode=mode)
    assert policy.judge(spec_of("read"), EDIT).verdict == read
    assert policy.judge(spec_of("grep"), {"pattern": "x"}).verdict == read
    assert policy.judge(spec_of("edit"), EDIT).verdict == edit
    assert policy.judge(spec_of("write"), {"path": "new.py"}).verdict == edit
    assert _shell(policy, "ls src") == look
    assert _shell(policy, "make test") == run
    assert policy.judge(spec_of("server/tool"), {}).verdict == run


@pytest.mark.parametrize("mode", MODES)
def test_untrusted_folder_asks_except_for_reading(mode: ApprovalMode, repo: Path) -> None:
    policy = _policy(repo, mode, is_trusted=False, allow=["shell", "edit"])
    assert policy.judge(spec_of("read"), EDIT).verdict == "allow"
    expected = "deny" if mode == "plan" else "ask"
    assert policy.judge(spec_of("edit"), EDIT).verdict == expected
    assert _shell(policy, "ls") == "allow"
    assert _shell(policy, "git log") == expected
    assert _shell(policy, "make test") == expected
    assert _shell(policy, "echo $(make)") == expected


@pytest.mark.parametrize("mode", MODES)
def test_path_verdicts_apply_in_every_mode(mode: ApprovalMode, repo: Path) -> None:
    policy = _policy(repo, mode, allow=["edit", "read"])
    assert policy.judge(spec_of("write"), {"path": ".git/hooks/pre-commit"}).verdict == "deny"
    assert policy.judge(spec_of("read"), {"path": "~/.ssh/id_rsa"}).verdict == "deny"
    assert policy.judge(spec_of("read"), {"path": ".env"}).verdict == "ask"
    assert policy.judge(spec_of("write"), {"path": "AGENTS.md"}).verdict == ("deny" if mode == "plan" else "ask")
    assert policy.judge(spec_of("read"), {"path": "/tmp/x"}).verdict == "ask"
    assert policy.judge(spec_of("edit"), {"path": "../x"}).verdict == ("deny" if mode == "plan" else "ask")


@pytest.mark.parametrize("mode", MODES)
def test_deny_rule_applies_in_every_mode_and_overrides_allow(mode: ApprovalMode, repo: Path) -> None:
    rules: dict[str, list[str]] = {
        "deny": ["shell(rm *)", "edit(src/**)", "read(private/**)"],
        "allow": ["shell", "edit", "read"],
    }
    policy = policy_for(repo, mode=mode, rules=Rules.of(**rules))
    for command in ("rm -rf x", "ls; rm x", "r'm' x", "/bin/rm x", "timeout 5 rm x", "sudo rm x", "sh -c 'rm x'", "rm"):
        assert _shell(policy, command) == "deny", command
    assert _shell(policy, "echo $(rm x)") == "deny"
    assert policy.judge(spec_of("edit"), EDIT).verdict == "deny"
    assert policy.judge(spec_of("edit"), {"path": "SRC/App.py"}).verdict == "deny"
    assert policy.judge(spec_of("read"), {"path": "private/notes"}).verdict == "deny"
    assert policy.judge_file("private/notes", "read").verdict == "deny"


def test_command_that_was_not_understood_cannot_bypass_a_deny_rule(repo: Path) -> None:
    policy = _policy(repo, "bypass", deny=["shell(rm *)"], allow=["shell"])
    assert _shell(policy, "$(echo r)m x") == "ask"
    assert _shell(_policy(repo, "bypass"), "$(echo r)m x") == "allow"
    for command in ("x=rm; $x y", "r{m,} x", "$'\\x72m' x", "for c in rm; do command $c x; done"):
        assert _shell(_policy(repo, "auto"), command) == "allow"
        assert _shell(_policy(repo, "auto", deny=["shell(rm *)"]), command) != "allow"
        assert _shell(_policy(repo, "auto", ask=["shell(rm *)"]), command) != "allow"


def test_file_is_judged_in_the_folder_that_cd_really_goes_to(repo: Path) -> None:
    (repo.parent / "other/bin").mkdir(parents=True)
    (repo / "link").symlink_to("../other")
    policy = _policy(repo, "accept-edits", allow=["shell(cd *)", "shell(make *)"])
    # bash goes to ../bin beside the target of the link, because there is no bin beside the link.
    for change in ("cd ~", "cd", "cd -", "cd link/../bin", "cd src && cd ../link/../bin", "pushd ~"):
        for command in (f"{change}; echo x > a", f"{change} && make x"):
            assert _shell(policy, command) == "ask", command
    assert _shell(policy, "cd src; echo x > a") == "allow"


def test_denied_file_is_not_read_through_the_shell(repo: Path) -> None:
    (repo / "private").mkdir()
    (repo / "private/notes").write_text("x\n")
    assert _shell(_policy(repo), "cat private/notes") == "allow"
    policy = _policy(repo, deny=["read(private/**)"])
    assert _shell(policy, "cat private/notes") == "ask"
    assert _shell(policy, "cat private/*") == "ask"
    assert _shell(policy, "grep -r x .") == "ask"
    assert _shell(policy, "grep -r x src") == "allow"


def test_ask_rule_overrides_an_allow_rule(repo: Path) -> None:
    policy = _policy(repo, "accept-edits", ask=["shell(git push *)", "edit(*.lock)"], allow=["shell(git *)", "edit"])
    assert _shell(policy, "git push origin") == "ask"
    assert _shell(policy, "git log") == "allow"
    assert policy.judge(spec_of("edit"), {"path": "deep/down/uv.lock"}).verdict == "ask"
    assert policy.judge(spec_of("edit"), EDIT).verdict == "allow"


def test_allow_rule_must_cover_every_part_of_a_list(repo: Path) -> None:
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
    assert policy.judge(spec_of("edit"), EDIT).verdict == "allow"
    assert policy.judge(spec_of("write"), {"path": "src/new/x.py"}).verdict == "allow"
    assert policy.judge(spec_of("edit"), {"path": "docs/link.py"}).verdict == "ask"
    assert policy.judge(spec_of("edit"), {"path": "app.py"}).verdict == "ask"
    assert _policy(repo, deny=["edit(src/**)"]).judge(spec_of("edit"), {"path": "docs/link.py"}).verdict == "deny"


def test_proposed_rule_allows_exactly_the_same_call(repo: Path) -> None:
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
        verdict = policy.judge(spec_of(name), arguments)
        assert (verdict.verdict, bool(verdict.proposed_rule)) == ("ask", True), name
        assert policy.with_allow(verdict.proposed_rule).judge(spec_of(name), arguments).verdict == "allow"
    taught = policy.with_allow(policy.judge(spec_of("edit"), EDIT).proposed_rule)
    assert taught.judge(spec_of("edit"), {"path": "src/other.py"}).verdict == "ask"
    assert taught.judge(spec_of("edit"), {"path": "deep/src/app.py"}).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    ["python3 x.py", "rm x", "sudo ls", "npx x", "curl x", "git push", "git -c a=b log", "a; b", "./run", "X=1 make",
     "bash x", "make *", "uv run x", "npm install", "echo $(x)", "xargs rm"],
)  # fmt: skip
def test_no_rule_is_proposed_that_would_allow_more_than_it_reads(command: str, repo: Path) -> None:
    verdict = _policy(repo).judge(spec_of("shell"), {"command": command})
    assert (verdict.verdict, verdict.proposed_rule) == ("ask", "")


@pytest.mark.parametrize(
    ("mode", "command", "reason"),
    [
        ("default", "cat src/a.py && grep x src/b.py", "it reads src/a.py and src/b.py: {rule}"),
        ("default", "cat src/a; cat src/b; cat src/c", "it reads src/a, src/b and src/c: {rule}"),
        ("default", "cat src/a; curl x", "it reads src/a: {rule}; curl may do more than read"),
        (
            "default",
            "cat src/a; cat .env",
            "it reads src/a: {rule}; it reads .env: files with this name contain secrets",
        ),
        ("plan", "ls > docs/a", "plan mode only runs read-only commands: it writes to docs/a"),
        ("plan", "cat src/a", "plan mode only runs read-only commands: it reads src/a: {rule}"),
    ],
)
def test_reason_names_a_rule_once_and_the_mode_that_denies(
    mode: ApprovalMode, command: str, reason: str, repo: Path
) -> None:
    expected = reason.format(rule="the rule read(src/**) asks for it")
    assert _policy(repo, mode, ask=["read(src/**)"]).judge_command(command).reason == expected


def test_command_that_reads_a_file_of_a_deny_rule_asks_and_says_whom_the_rule_denies(repo: Path) -> None:
    policy = _policy(repo, deny=["read(src/**)"])
    verdict = policy.judge_command("cat src/a.py")
    reason = "it reads src/a.py: the rule read(src/**) denies it to the file tools"
    assert (verdict.verdict, verdict.reason) == ("ask", reason)
    assert policy.judge_file("src/a.py", "read").reason == "the rule read(src/**) denies it"


def test_denied_result_says_that_the_run_denies_calls_that_would_ask(repo: Path) -> None:
    verdict = replace(_policy(repo), never_asks=True).judge_command("ls > docs/a")
    assert verdict.reason == "it writes to docs/a, and this run denies everything that would ask"
    restricted = _policy(repo, is_trusted=False).judge_command("ls > docs/a")
    assert restricted.reason == "it writes to docs/a; this folder is restricted"


@pytest.mark.parametrize("command", ["cd src && make test", "(cd src; make test)", "cd src && pytest -q"])
def test_no_rule_is_proposed_that_would_not_allow_the_command(command: str, repo: Path) -> None:
    verdict = _policy(repo, allow=["shell(make test)"]).judge(spec_of("shell"), {"command": command})
    assert (verdict.verdict, verdict.proposed_rule, verdict.prefix_rule) == ("ask", "", "")


def test_auto_says_that_it_has_no_sandbox(repo: Path) -> None:
    assert "sandbox" in _policy(repo, "auto").judge(spec_of("shell"), {"command": "make"}).reason


def test_malformed_call_asks(repo: Path) -> None:
    policy = _policy(repo, "bypass")
    assert policy.judge(spec_of("write"), {}).verdict == "ask"
    assert policy.judge(spec_of("shell"), {"command": 5}).verdict == "ask"
    assert policy.judge(spec_of("read"), {"path": ["x"]}).verdict == "ask"


def test_folder_added_for_reading_is_inside(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "scratch"
    other.mkdir()
    policy = Policy("bypass", Rules(), True, repo, read_only=(other,), home=tmp_path / "home")
    assert policy.judge(spec_of("read"), {"path": f"{other}/out.txt"}).verdict == "allow"
    assert policy.judge(spec_of("write"), {"path": f"{other}/out.txt"}).verdict == "ask"


def test_fetch_and_mcp_rules_apply(repo: Path) -> None:
    policy = _policy(
        repo, allow=["fetch(docs.python.org)", "fetch(*.rust-lang.org)", "mcp(files/*)"], deny=["mcp(files/drop)"]
    )
    assert policy.judge(spec_of("fetch"), {"url": "https://docs.python.org/3/"}).verdict == "allow"
    assert policy.judge(spec_of("fetch"), {"url": "https://doc.rust-lang.org/"}).verdict == "allow"
    assert policy.judge(spec_of("fetch"), {"url": "https://evil-docs.python.org.example/"}).verdict == "ask"
    assert policy.judge(spec_of("fetch"), {"url": "docs.python.org"}).verdict == "deny"
    assert policy.judge(spec_of("files/list"), {}).verdict == "allow"
    assert policy.judge(spec_of("files/drop"), {}).verdict == "deny"
    assert policy.judge(spec_of("other/list"), {}).verdict == "ask"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("run(x)", "not a kind of rule"),
        ("write(src/**)", "edit(...)"),
        ("shell(git log", "closing bracket"),
        ("shell()", "brackets are empty"),
        ("shell(a | b)", "one plain command"),
        ("shell(echo $x)", "expansion"),
        ("shell(*x y)", "written out"),
        ("shell(git:*)", "written out; for all its arguments, write shell(git *)"),
        ("edit(!x)", "cannot start"),
        ("edit(a/../b)", "'..'"),
        ("fetch(https://x/y)", "a host"),
        ("mcp(server)", "server/tool"),
    ],
)
def test_invalid_rule_error_names_the_reason_and_position(text: str, hint: str) -> None:
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
        assert str(error).startswith("invalid rule")
    else:
        assert rule.kind in text


@given(st.sampled_from(MODES), st.booleans(), st.text(max_size=30))
def test_any_command_and_path_has_a_verdict(mode: ApprovalMode, is_trusted: bool, text: str) -> None:
    policy = Policy(mode, Rules.of(["shell(ls *)"], ["read(x)"], ["edit(y/**)"]), is_trusted, Path("/nowhere/repo"))
    for name, argument in (("shell", "command"), ("read", "path"), ("write", "path"), ("fetch", "url")):
        verdict = policy.judge(spec_of(name), {argument: text})
        assert verdict.verdict in ("allow", "ask", "deny")
        assert verdict.reason


def test_patch_is_judged_by_every_file_it_names(repo: Path) -> None:
    def verdict(mode: ApprovalMode, *lines: str, **rules: Any) -> Verdict:
        text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
        return _policy(repo, mode, **rules).judge(spec_of("apply_patch"), {"input": text})

    change = ("*** Update File: src/app.py", "-a", "+b")
    assert verdict("default", *change).verdict == "ask"
    assert verdict("default", *change).proposed_rule == "edit(./src/app.py)"
    assert verdict("default", *change, "*** Add File: new.py", "+x").proposed_rule == ""
    assert verdict("accept-edits", *change).verdict == "allow"
    assert verdict("plan", *change).verdict == "deny"
    for line, expected in (("*** Move to: .git/hooks/pre-commit", "deny"), ("*** Move to: ../out.py", "ask")):
        assert verdict("bypass", "*** Update File: src/app.py", line).verdict == expected
    assert verdict("bypass", *change, "*** Delete File: AGENTS.md").verdict == "ask"
    assert verdict("accept-edits", *change, "*** Add File: .git/x", "+x").verdict == "deny"
    assert verdict("bypass", *change, "*** Delete File: uv.lock", deny=["edit(uv.lock)"]).verdict == "deny"
    assert verdict("default", *change, allow=["edit(src/**)"]).verdict == "allow"
    assert verdict("default", *change, "*** Add File: b", "+", allow=["edit(src/**)"]).verdict == "ask"
    assert verdict("bypass", "nonsense").verdict == "ask"
    assert _policy(repo, "bypass").judge(spec_of("apply_patch"), {"input": 5}).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "x=1; echo evil >> ~/.bashrc",
        'x=1; echo evil >> "$HOME/.bashrc"',
        "x=1; echo evil >| ~/.bashrc",
        "x=1; echo evil >> ~/.ba?hrc",
        """x=1; echo evil | tee ~/.bash"rc" """,
        "x=1; cp evil ~/.ssh/authorized_keys",
        "x=1; cp evil .git/hooks/pre-commit",
        'f=a; echo evil > "$f"',
        "f() { cat > ~/.pro\\file; }; f",
        """awk 'BEGIN{print "x" > "/root/.bashrc"}'""",
        "docker run -v ~/.bashrc:/x image",
        "cd ~/.ssh:x; make",
        "cd ~; echo x >> .bashrc",
        "cd; echo x >> .bashrc",
        "cd .g*; echo x > config",
        "pushd ~; echo x >> .profile",
        "cp x git~1/config",
        "git remote -v add x y",
        "npm c set prefix x",
        "npm -g set prefix x",
        "pip config --user set global.index-url x",
        "git config core.hooksPath /tmp/x",
        "git config --global core.pager x",
        "git -c x=y config alias.x '!id'",
        "git remote set-url origin 'ext::sh -c id'",
        "npm config set prefix x",
        "pip3 config set global.index-url x",
        """cp x "$(git rev-parse --git-dir)/config" """,
        "find ~ -name '*rc' -exec tee -a {} ;",
        "find $HOME -name 'b*' -o -name '*shrc' -delete",
    ],
)
@pytest.mark.parametrize("around", ["{}", "true && {}", "{} || true", "( {} )"])
def test_bypass_mode_denies_a_command_that_may_write_a_protected_name(repo: Path, command: str, around: str) -> None:
    policy = policy_for(repo, NO_SANDBOX, mode="bypass")
    assert _shell(policy, around.format(command)) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "x=1; make > build.log",
        "make && git config --get user.name",
        "git status && git push",
        "git commit -m 'config add'",
        "npm install && npm run config",
        "find . -name '*.rc' -delete",
        "cp *.json dist/",
        "git rev-parse HEAD > version.txt",
    ],
)
def test_bypass_mode_runs_other_commands_without_a_sandbox(repo: Path, command: str) -> None:
    assert _shell(policy_for(repo, NO_SANDBOX, mode="bypass"), command) == "allow"


def test_redirection_is_an_edit(repo: Path) -> None:
    verdicts = [_shell(policy_for(repo, NO_SANDBOX, mode=mode), "ls src > out.txt") for mode in MODES]
    assert dict(zip(MODES, verdicts, strict=True)) == {
        "plan": "deny",
        "default": "ask",
        "accept-edits": "ask",
        "auto": "ask",
        "bypass": "allow",
    }
    verdict = policy_for(repo, mode="accept-edits").judge(spec_of("shell"), {"command": "ls src > out.txt"})
    assert (verdict.verdict, verdict.confinement) == ("allow", "workspace")
    policy = _policy(repo, "accept-edits", deny=["edit(vendor/**)"], allow=["shell(make test)"])
    assert _shell(policy, "ls > vendor/x") == "deny"
    assert _shell(policy, "make test > out.txt 2>&1") == "allow"
    assert _shell(policy, "cd src && ls > ../AGENTS.md") == "ask"
    for target in ("AGENTS.md", ".qcode/config.toml", "/etc/x", "../x", "*.txt", "/dev/tty"):
        assert _shell(policy, f"echo x > {target}") == "ask", target


@pytest.mark.parametrize("mode", MODES)
def test_no_rule_allows_a_redirection_into_protected_files(mode: ApprovalMode, repo: Path) -> None:
    policy = _policy(repo, mode, allow=["shell", "edit"])
    assert _shell(policy, "echo x > .git/config") == "deny"
    assert _shell(policy, "echo x >> ~/.bashrc") == "deny"


def test_rule_with_wildcards_does_not_allow_secrets(repo: Path) -> None:
    (repo / ".env").write_text("KEY=1\n")
    policy = _policy(repo, allow=["shell(cat *)"])
    assert _shell(policy, "cat src/app.py") == "allow"
    assert _shell(policy, "cat .env") == "ask"
    assert policy.judge(spec_of("shell"), {"command": "cat .env"}).proposed_rule == ""
    assert _shell(_policy(repo, allow=["shell(cat .env)"]), "cat .env") == "allow"


def test_rule_does_not_apply_in_another_folder(repo: Path) -> None:
    policy = _policy(repo, allow=["shell(make test)"])
    assert _shell(policy, "make test") == "allow"
    assert _shell(policy, "cd src && make test") == "ask"


def test_rule_does_not_allow_a_command_that_bash_rejects(repo: Path) -> None:
    probes = Probes(lambda _: "bash rejects its syntax", Repository)
    policy = policy_for(repo, probes, rules=Rules.of(allow=["shell(make test)"]))
    assert policy.judge(spec_of("shell"), {"command": "make test"}).check == "shell:syntax"


def test_denied_command_is_found_in_any_position(repo: Path) -> None:
    policy = _policy(repo, "bypass", deny=["shell(git push *)"])
    for command in (
        "ls | git push",
        "ls && git push origin",
        "(git push)",
        "{ git push; }",
        "! git push",
        "if git push; then ls; fi",
        "if ls; then git push; fi",
        "git 'push'",
        "ls\ngit push",
        "time git push",
        "git push > /dev/null",
        "cat <<'E' | git push\nx\nE",
        "echo $(git push)",
        "for i in a; do git push; done",
    ):
        assert _shell(policy, command) == "deny", command


def test_git_is_not_probed_in_an_untrusted_folder(repo: Path) -> None:
    def look() -> Repository:
        raise AssertionError("git was asked")

    policy = policy_for(repo, Probes(lambda _: "", look), is_trusted=False)
    assert _shell(policy, "git status") == "ask"


def test_read_only_command_is_recognized_with_any_git_configuration(repo: Path) -> None:
    policy = policy_for(repo, Probes(lambda _: "", lambda: Repository("it sets core.fsmonitor")))
    assert policy.only_reads("git status && ls")
    assert not policy.only_reads("git push")
    assert not policy.only_reads("git status $(x)")


def test_combined_policy_gives_the_stricter_verdict(repo: Path) -> None:
    wide = _policy(repo, "bypass")
    narrow = _policy(repo, "default", deny=["shell(rm *)"], allow=["shell(make *)"])
    for both in (wide.limited_by(narrow), narrow.limited_by(wide)):
        assert _shell(both, "rm x") == "deny"
        assert _shell(both, "make x") == "allow"
        assert _shell(both, "touch x") == "ask"
        assert both.judge(spec_of("edit"), EDIT).verdict == "ask"
        assert both.judge_file(".git/x", "write").verdict == "deny"
    assert _shell(wide.limited_by(narrow).limited_by(_policy(repo, "plan")), "make x") == "deny"


def test_fetch_rule_applies_to_a_host_and_its_default_port(repo: Path) -> None:
    hosts = ("a.example", "b.example:8443", "localhost:3000", "*.c.example")
    policy = _policy(repo, allow=[f"fetch({host})" for host in hosts])

    def judge(url: str) -> str:
        return policy.judge(spec_of("fetch"), {"url": url}).verdict

    assert judge("https://A.Example./x") == judge("http://a.example/") == "allow"
    assert judge("https://a.example:8443/") == judge("https://sub.a.example/") == "ask"
    assert judge("https://b.example:8443/") == "allow"
    assert judge("https://b.example/") == "ask"
    assert judge("https://x.c.example/") == "allow"
    assert judge("https://c.example/") == "ask"
    assert judge("http://localhost:3000/") == "allow"
    assert judge("http://localhost:3001/") == judge("http://127.0.0.1:3000/") == judge("http://10.0.0.1/") == "deny"
    assert judge("https://a.example@evil.example/") == "deny"
    bypass = _policy(repo, "bypass", allow=["fetch"], deny=["fetch(bad.example)"])
    assert bypass.judge(spec_of("fetch"), {"url": "https://bad.example:8443/"}).verdict == "deny"
    assert bypass.judge(spec_of("fetch"), {"url": "http://169.254.169.254/"}).verdict == "deny"
    assert bypass.judge(spec_of("fetch"), {"url": "http://localhost/"}).verdict == "deny"
    assert bypass.judge(spec_of("fetch"), {"url": "https://other.example/"}).verdict == "allow"


@pytest.mark.parametrize(
    ("rule", "examples", "counterexamples"),
    [
        (
            "shell(git log *)",
            ("git log", "git 'log' -5"),
            ("git push", "git log | wc", "git log $x"),
        ),
        ("edit(src/**)", ("src/a.py", "src/b/c"), ("a.py", "~/src/a")),
        ("read(~/notes/*)", ("~/notes/a",), ("notes/a",)),
        ("fetch(*.example)", ("https://a.example/x", "b.example"), ("https://example/", "http://a.example:81/")),
        ("mcp(files/*)", ("files/list",), ("other/list",)),
        ("shell", ("anything $(x)",), ()),
    ],
)
def test_examples_of_a_rule_are_checked(rule: str, examples: tuple[str, ...], counterexamples: tuple[str, ...]) -> None:
    read_rules(allow=[RuleConfig(rule, examples, counterexamples)])
    for example in examples:
        with pytest.raises(ValueError, match="covers its counterexample"):
            read_rules(deny=[RuleConfig(rule, (), (example,))])
    for example in counterexamples:
        with pytest.raises(ValueError, match="does not cover its example"):
            read_rules(ask=[RuleConfig(rule, (example,))])


@pytest.mark.parametrize(
    ("rule", "covered", "others"),
    [
        ("uniq *", ("uniq -c a",), ("uniq a b", "uniq - b")),
        ("date *", ("date +%F",), ("date 01010000", "date -s now", "date -f x")),
        ("date -s *", ("date -s now",), ("date -s now -f x",)),
        ("hostname *", ("hostname",), ("hostname x", "hostname -F x")),
        ("umask *", ("umask -S",), ("umask 0",)),
        ("command *", ("command -v ls",), ("command rm x",)),
        ("sort -o *", ("sort -o out a", "sort -o out -n a"), ("sort -o out --compress-program=x a",)),
        (
            "git log *",
            ("git log -p", "git 'log' -5"),
            ("git log --format=%G?", "git log --output=x", "git log --outp=x"),
        ),
        ("git branch *", ("git branch -a",), ("git branch new", "git branch -D main", "git branch --edit-description")),
        ("git branch -D *", ("git branch -D topic",), ("git branch -D x --edit-description",)),
        ("git tag *", ("git tag -l",), ("git tag v1", "git tag -d v1", "git tag -v v1")),
        ("git tag -a *", ("git tag -a v1",), ("git tag v1",)),
        ("git remote *", ("git remote -v",), ("git remote add x y", "git remote update")),
        ("git remote add *", ("git remote add x y",), ("git remote update", "git remote add x y --exec=z")),
        ("git stash *", ("git stash", "git stash pop"), ("git stash list --output=x",)),
        (
            "git *",
            ("git push", "git commit -m x", "git log"),
            ("git branch x", "git log --format=%GK", "git -c a.b=c log"),
        ),
        ("sed -i *", ("sed -i s/a/b/ x",), ("sed -i 1e x", "sed -i 's/a/b/w y' x")),
    ],
)
def test_rule_wildcard_covers_only_reading_unless_the_rule_names_more(
    rule: str, covered: tuple[str, ...], others: tuple[str, ...]
) -> None:
    read_rules(allow=[RuleConfig(f"shell({rule})", covered, others)])
