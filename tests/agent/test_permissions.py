"""The rules in force and the decisions of a session, over a real conversation and real files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.agent.permissions import Origins, Permissions, judge_with_hook
from qcode.config.folder_rules import FolderRule, FolderRules
from qcode.protocol.approvals import Allow, CallApproval, Decision, Deny
from qcode.protocol.events import ApprovalRequested, Notice, TurnEvent
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import NetworkAccess, ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Verdict
from qcode.text.json import JsonObject
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import call_reply, text_reply
from tests.fakes.tools import spec_of
from tests.safety.policies import CLEAN, NO_SANDBOX, policy_for

TOUCH = call_reply("shell", {"command": "touch a"})


def answering(it: Talk, decision: Decision, asked: list[CallApproval]) -> Callable[[TurnEvent], None]:
    def answered(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, decision)

    return answered


def play(it: Talk, decision: Decision, *then: Callable[[], object]) -> list[int]:
    """Play a turn, and one more after each of `then`; return the number of questions in each."""
    counts: list[int] = []

    async def turn() -> None:
        asked: list[CallApproval] = []
        await it.play("do it", answering(it, decision, asked))
        counts.append(len(asked))

    async def turns() -> None:
        await turn()
        for step in then:
            step()
            await turn()

    asyncio.run(turns())
    return counts


def permissions(base: Path, rules: Rules | None = None, *, is_trusted: bool = True) -> Permissions:
    work = base / "work"
    work.mkdir(exist_ok=True)
    policy = Policy("default", rules or Rules.of(), is_trusted, work, probes=NO_SANDBOX)
    return Permissions(policy, Origins({"deny": ("my.toml:3",)}, "the default", FolderRules(base / "state", work)))


def test_mode_that_is_chosen_again_keeps_its_origin(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    here.set_mode("default")
    assert here.mode_origin == "the default"
    here.set_mode("plan")
    assert here.mode_origin.startswith("chosen at ")


def test_folder_that_is_made_readable_twice_is_listed_once(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    for _ in range(2):
        here.make_readable(tmp_path / "skill")
    assert here.policy.read_only == (tmp_path / "skill",)


def test_revoked_always_rule_asks_again(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("1"), TOUCH, text_reply("2"), TOUCH, text_reply("3"))

    def undo() -> None:
        [rule] = it.conversation.permissions.rules()
        assert (rule.effect, rule.text, rule.scope) == ("allow", "shell(touch a)", "session")
        assert rule.origin.startswith("your answer to shell touch a at ")
        it.conversation.permissions.remove(rule.number)
        assert it.conversation.permissions.rules() == ()

    assert play(it, Allow("session"), lambda: None, undo) == [1, 0, 1]


def test_every_decision_is_listed_with_its_reason(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        call_reply("shell", {"command": "ls"}),
        TOUCH,
        text_reply("1"),
        call_reply("read", {"path": "/etc/shadow"}),
        text_reply("2"),
    )
    play(it, Deny("not now"), lambda: None)
    decided = [(decision.call.name, decision.decision) for decision in it.conversation.permissions.decisions()]
    assert decided == [("shell", "ran"), ("shell", "denied"), ("read", "refused")]
    ran, denied, refused = it.conversation.permissions.decisions()
    assert (ran.reason, denied.reason) == ("it only reads", "not now")
    assert refused.rule.startswith("path:")
    assert ran.timestamp <= denied.timestamp <= refused.timestamp


def test_approval_open_at_the_end_of_the_turn_is_listed_as_unanswered(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH)

    def cancel(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            it.conversation.cancel()

    asyncio.run(it.play("do it", cancel))
    assert [decision.decision for decision in it.conversation.permissions.decisions()] == ["unanswered"]


def test_folder_rule_applies_in_the_next_session_until_revoked(tmp_path: Path) -> None:
    origins = Origins(stored_rules=FolderRules(tmp_path / "state", tmp_path / "work"))
    (tmp_path / "work").mkdir()
    first = talk(tmp_path, TOUCH, text_reply("1"), origins=origins)
    assert play(first, Allow("folder")) == [1]
    assert [record.decision for record in first.conversation.permissions.decisions()] == ["folder"]
    later = talk(tmp_path, TOUCH, text_reply("1"), TOUCH, text_reply("2"), origins=origins)

    def undo() -> None:
        [rule] = later.conversation.permissions.rules()
        assert rule.scope == "folder"
        later.conversation.permissions.remove(rule.number)

    assert play(later, Allow(), undo) == [0, 1]
    assert FolderRules(tmp_path / "state", tmp_path / "work").read() == ()
    assert not list((tmp_path / "work").glob(".*"))


def test_stored_rules_apply_to_exactly_this_folder(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    here.save_rule(here.add("allow", "shell(make)").number)
    (tmp_path / "other").mkdir()
    assert FolderRules(tmp_path / "state", tmp_path / "other").read() == ()
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "work").mkdir()
    assert permissions(tmp_path).rules() == ()


def test_file_writable_by_others_stores_no_rule(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    here.save_rule(here.add("allow", "shell(make)").number)
    assert len(permissions(tmp_path).rules()) == 1
    (tmp_path / "state/rules.json").chmod(0o666)
    assert permissions(tmp_path).rules() == ()


def test_saved_text_that_is_not_a_rule_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    saved = FolderRules(tmp_path / "state", tmp_path / "work")
    saved.add(FolderRule("allow", "shell(make", 0.0))
    saved.add(FolderRule("deny", "shell(rm *)", 0.0))
    assert [rule.text for rule in permissions(tmp_path).rules()] == ["shell(rm *)"]


def test_answer_that_cannot_be_stored_applies_to_the_session_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "file").write_text("")
    origins = Origins(stored_rules=FolderRules(tmp_path / "file" / "state", tmp_path / "work"))
    it = talk(tmp_path, TOUCH, text_reply("1"), TOUCH, text_reply("2"), origins=origins)
    notices: list[str] = []

    async def turns() -> None:
        for _ in range(2):
            for event in await it.play("do it", answering(it, Allow("folder"), [])):
                notices.extend([event.text] if isinstance(event, Notice) else [])

    asyncio.run(turns())
    assert len(notices) == 1
    assert "to this session only" in notices[0]
    assert it.conversation.permissions.rules()[0].scope == "session"
    assert it.conversation.permissions.decisions()[0].decision == "session"


def test_rules_are_stored_only_for_a_trusted_folder(tmp_path: Path) -> None:
    here = permissions(tmp_path, is_trusted=False)
    rule = here.add("deny", "shell(make)")
    with pytest.raises(ValueError, match="/trust"):
        here.save_rule(rule.number)
    assert not here.can_save_rules
    here.trust_folder()
    here.save_rule(rule.number)
    assert FolderRules(tmp_path / "state", tmp_path / "work").read()[0].text == "shell(make)"


def test_answers_of_one_session_do_not_apply_to_the_next(tmp_path: Path) -> None:
    it = talk(tmp_path, TOUCH, text_reply("1"), TOUCH, text_reply("2"))
    assert play(it, Allow("session"), it.conversation.clear) == [1, 1]
    assert len(it.conversation.permissions.decisions()) == 1


def test_rules_from_settings_are_shown_and_cannot_be_removed(tmp_path: Path) -> None:
    here = permissions(tmp_path, Rules.of(deny=["shell(rm *)"]))
    [rule] = here.rules()
    assert (rule.effect, rule.text, rule.origin, rule.number) == ("deny", "shell(rm *)", "my.toml:3", 0)
    with pytest.raises(ValueError, match="settings"):
        here.remove(rule.number)
    assert here.policy.judge(spec_of("shell"), {"command": "rm x"}).verdict == "deny"


def test_revoked_rule_leaves_an_equal_rule_of_the_settings(tmp_path: Path) -> None:
    here = permissions(tmp_path, Rules.of(deny=["shell(make)"]))
    number = here.add("ask", "shell(make)").number
    here.remove(number)
    assert [(rule.effect, rule.number) for rule in here.rules()] == [("deny", 0)]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("shell(python *)", "can run programs, delete data"),
        ("shell(/usr/bin/curl *)", "can run programs, delete data"),
        ("shell(rm *)", "can run programs, delete data"),
        ("shell(npm exec *)", "can do more"),
        ("shell(git *)", "every git command"),
        ("shell(git -c *)", "before its command"),
        ("shell(uv run *)", "uv run can start"),
        ("shell", "covers everything"),
        ("mcp(*)", "covers everything"),
        ("fetch(*.example.com)", "exact host"),
        ("read(src/**)", "needs no rule"),
        ("shell(make", "the closing bracket is missing"),
        ("shell(make) now", "position 12: nothing may follow the closing bracket"),
        ("run(make)", "not a kind of rule"),
    ],
)
def test_rule_broader_than_it_reads_is_not_added(tmp_path: Path, rule: str, why: str) -> None:
    here = permissions(tmp_path)
    with pytest.raises(ValueError, match=why):
        here.add("allow", rule)
    assert here.rules() == ()


@pytest.mark.parametrize(
    "rule", ["shell(make *)", "shell(git log *)", "edit(src/**)", "fetch(docs.python.org)", "mcp(a/b)"]
)
def test_plain_rule_is_added_once(tmp_path: Path, rule: str) -> None:
    here = permissions(tmp_path)
    assert here.add("allow", rule).scope == "session"
    with pytest.raises(ValueError, match="already"):
        here.add("allow", rule)


def test_rule_is_added_although_it_already_allows_calls_in_the_sandbox(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    here.allow_sandboxed("shell(make *)", ToolCall("c", "shell", '{"command": "make all"}'))
    assert here.add("allow", "shell(make *)").scope == "session"
    assert here.check("shell", "make all").verdict == "allow"


def test_answer_for_the_folder_is_no_warning_if_the_rule_is_already_saved(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    touch = ToolCall("c", "shell", '{"command": "touch a"}')
    assert [here.allow_always("shell(touch a)", touch, is_saved=True) for _ in range(2)] == ["", ""]
    assert [record.decision for record in here.decisions()] == ["folder", "folder"]


def test_deny_rule_may_be_broad(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    here.add("deny", "shell")
    assert here.check("shell", "ls").verdict == "deny"


def test_check_uses_the_current_rules_and_mode(tmp_path: Path) -> None:
    here = permissions(tmp_path)
    tried = here.check("shell", "make test")
    assert (tried.verdict, tried.proposed_rule) == ("ask", "shell(make test)")
    here.add("allow", tried.proposed_rule)
    assert here.check("shell", "make test").verdict == "allow"
    assert here.check("write", "a.py").verdict == "ask"
    here.set_mode("accept-edits")
    assert here.check("write", "a.py").verdict == "allow"
    assert here.check("fetch", "http://127.0.0.1/").verdict == "deny"
    assert here.mode_origin.startswith("chosen at ")


def test_hook_that_asks_is_the_first_of_all_reasons(tmp_path: Path) -> None:
    policy = policy_for(tmp_path, CLEAN)
    hook = Verdict("ask", "the hook wants to know", "hook:ask")
    command: JsonObject = {"command": "rm -rf x; sudo a; git push -f; kill -9 1; mv x y"}
    verdict = judge_with_hook(policy, spec_of("shell"), command, hook)
    assert verdict.all_reasons[:2] == ("the hook wants to know", "rm -rf deletes files")
    assert judge_with_hook(policy, spec_of("shell"), {"command": "make"}, hook).all_reasons == ()


@pytest.mark.parametrize("rule", ["fetch", "fetch(example.com)"])
def test_hook_does_not_allow_a_call_that_asks_because_of_a_rule(rule: str, tmp_path: Path) -> None:
    hook = Verdict("allow", "the hook allows it", "hook:PreToolUse")
    tool = ToolSpec("fetch", "", {}, safety=NetworkAccess(url_argument="url"))
    url: JsonObject = {"url": "https://example.com/"}
    assert judge_with_hook(policy_for(tmp_path, CLEAN), tool, url, hook).is_allowed
    policy = policy_for(tmp_path, CLEAN, rules=Rules.of(ask=[rule]))
    assert judge_with_hook(policy, tool, url, hook).verdict == "ask"
