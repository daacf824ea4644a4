"""Grants that come with an answer to one call, and calls that wait while the mode changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.agent.outcomes import UNAPPROVED
from qcode.agent.toolbox import Toolbox
from qcode.protocol.approvals import Allow, Deny, Scope, ToolApproval
from qcode.protocol.events import ApprovalRequested, ToolFinished, TurnEvent
from qcode.protocol.tools import ToolOutcome
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from qcode.safety.verdict import Level
from qcode.text.json import JsonObject
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import Call, Steps, call_reply, calls_reply, text_reply
from tests.safety.policies import CLEAN

WRITE = call_reply("write", {"path": "a.txt", "content": "x\n"})
RUN = call_reply("shell", {"command": "make x"})


def asked_in(it: Talk, decide: Callable[[ToolApproval], None]) -> tuple[list[ToolApproval], list[ToolFinished]]:
    """Play a turn whose approvals `decide` answers; return them and the results of the calls."""
    asked: list[ToolApproval] = []

    def see(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            assert isinstance(event.approval, ToolApproval)
            asked.append(event.approval)
            decide(event.approval)

    events = asyncio.run(it.play("go", see))
    return asked, [event for event in events if isinstance(event, ToolFinished)]


def answering(it: Talk, *scopes: Scope) -> Callable[[ToolApproval], None]:
    left = list(scopes)
    return lambda approval: it.conversation.answer(approval.id, Allow(left.pop(0)))


def two_files(base: Path, **given: object) -> Talk:
    calls = [Call("write", {"path": name, "content": "x\n"}, name) for name in ("a.txt", "b.txt")]
    return talk(base, calls_reply(*calls), text_reply("Done."), **given)  # type: ignore[arg-type]  # what `talk` takes


def test_accepting_all_edits_switches_the_mode(tmp_path: Path) -> None:
    it = two_files(tmp_path)
    asked, results = asked_in(it, answering(it, "edits"))
    assert [(item.kind, item.offers, item.reason) for item in asked] == [("edit", ("edits",), "")]
    assert it.conversation.mode == "accept-edits"
    assert [result.state for result in results] == ["done", "done"]


def test_approval_of_a_command_gives_its_reason_and_the_missing_sandbox(tmp_path: Path) -> None:
    it = talk(tmp_path, RUN, text_reply("Done."))
    (asked,), _ = asked_in(it, lambda approval: it.conversation.answer(approval.id, Deny()))
    assert asked.kind == "command"
    assert asked.reason == f"Asks because make may do more than read · {asked.location}"
    assert asked.location.startswith("the command runs ")
    assert "sandbox" in asked.reason
    assert "edits" not in asked.offers


def test_scope_that_was_not_offered_means_once(tmp_path: Path) -> None:
    it = talk(tmp_path, RUN, RUN, text_reply("Done."))
    asked, _ = asked_in(it, answering(it, "edits", "once"))
    assert len(asked) == 2
    assert it.conversation.mode == "default"


def test_switch_to_a_mode_that_allows_an_open_edit_runs_it(tmp_path: Path) -> None:
    it = two_files(tmp_path)
    asked, results = asked_in(it, lambda _: it.conversation.set_mode("accept-edits"))
    assert len(asked) == 1
    assert [result.state for result in results] == ["done", "done"]
    assert (it.work / "a.txt").read_text() == "x\n"


def test_accepting_edits_does_not_approve_a_command(tmp_path: Path) -> None:
    it = talk(tmp_path, RUN, text_reply("Done."))

    def decide(approval: ToolApproval) -> None:
        it.conversation.set_mode("accept-edits")
        it.conversation.answer(approval.id, Deny("no"))

    _, results = asked_in(it, decide)
    assert [(result.state, result.outcome.summary) for result in results] == [("denied", "declined")]
    assert (results[0].outcome.content, results[0].outcome.shown) == ("Denied: no", "Declined: no")


def test_call_that_no_user_could_answer_is_not_declined(tmp_path: Path) -> None:
    it = talk(tmp_path, RUN, text_reply("Done."))
    _, results = asked_in(it, lambda approval: it.conversation.answer(approval.id, Deny(UNAPPROVED)))
    assert [(result.state, result.outcome.summary) for result in results] == [("denied", "denied")]


def test_path_with_half_of_a_character_is_denied_with_the_reason(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("read", {"path": "half-\ud83d"}), text_reply("Done."))
    asked, (result,) = asked_in(it, lambda approval: it.conversation.answer(approval.id, Deny("no")))
    assert asked == []
    assert result.outcome.content == "Denied: the path contains half of a character (a lone surrogate)"


def test_denied_edit_shows_its_diff_to_the_user_and_not_to_the_model(tmp_path: Path) -> None:
    it = talk(tmp_path, WRITE, text_reply("Done."))
    (asked,), (result,) = asked_in(it, lambda approval: it.conversation.answer(approval.id, Deny("no file")))
    assert result.state == "denied"
    assert result.outcome.diff == asked.detail
    assert "+x" in result.outcome.diff
    assert result.outcome.content == "Denied: no file"
    assert not (it.work / "a.txt").exists()


@pytest.mark.parametrize("scope", ["once", "trust"])
def test_restricted_folder_offers_trust_and_no_permanent_approval(tmp_path: Path, scope: Scope) -> None:
    it = two_files(tmp_path, is_trusted=False)
    asked, results = asked_in(it, answering(it, scope, scope))
    assert [(item.offers, item.rule, item.is_keepable) for item in asked] == 2 * [(("trust",), "", False)]
    assert "this folder is restricted" in asked[0].reason
    # The front end trusts the folder; the answer alone does not.
    assert [result.state for result in results] == ["done", "done"]
    assert not it.conversation.permissions.is_trusted


PYTEST = call_reply("shell", {"command": "pytest --version"})


def test_approved_rule_lets_a_test_runner_run_without_asking(tmp_path: Path) -> None:
    it = talk(tmp_path, PYTEST, call_reply("shell", {"command": "pytest -h"}), text_reply("Done."))
    asked, _ = asked_in(it, answering(it, "prefix"))
    assert [(item.prefix_rule, "prefix" in item.offers) for item in asked] == [("shell(pytest *)", True)]
    (rule,) = it.conversation.permissions.rules()
    assert (rule.text, rule.scope) == ("shell(pytest *)", "session")


@pytest.mark.parametrize(
    ("reply", "scope", "decided"),
    [
        (PYTEST, "once", ("allowed", "")),
        (PYTEST, "session", ("session", "shell(pytest --version)")),
        (PYTEST, "folder", ("allowed", "")),  # not offered here
        (PYTEST, "prefix", ("session", "shell(pytest *)")),
        (WRITE, "edits", ("session", "mode:accept-edits")),
    ],
)
def test_allowed_call_is_listed_with_the_extent_of_the_answer(
    tmp_path: Path, reply: Steps, scope: Scope, decided: tuple[str, str]
) -> None:
    it = talk(tmp_path, reply, text_reply("Done."))
    asked_in(it, answering(it, scope))
    (record,) = it.conversation.permissions.decisions()
    assert (record.decision, record.rule) == decided


def test_approval_for_the_sandbox_runs_this_and_later_calls_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[Level | None] = []
    work = tmp_path / "work"
    policy = Policy("default", Rules.of(), True, work, probes=CLEAN)
    it = talk(tmp_path, PYTEST, PYTEST, text_reply("Done."), policy=policy)

    async def run(
        _: Toolbox, name: str, arguments: JsonObject, output: object, level: Level | None, *__: object, **___: object
    ) -> ToolOutcome:
        levels.append(level)
        return ToolOutcome("8.0")

    monkeypatch.setattr(Toolbox, "run", run)  # no sandbox may work here
    asked, _ = asked_in(it, answering(it, "sandbox"))
    assert [item.sandboxed_rule for item in asked] == ["shell(pytest *)"]
    assert levels == ["workspace", "workspace"]
    first = it.conversation.permissions.decisions()[0]
    assert (first.decision, first.reason, first.rule) == ("session", "in the sandbox", "shell(pytest *)")
    (rule,) = it.conversation.permissions.rules()
    assert rule.origin.startswith("in the sandbox, your answer to shell pytest")
    with pytest.raises(ValueError, match="session only"):
        it.conversation.permissions.save_rule(rule.number)
    it.conversation.permissions.remove(rule.number)
    assert it.conversation.policy.sandbox_rules == ()
