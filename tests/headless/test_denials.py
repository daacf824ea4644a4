from __future__ import annotations

import shlex

import pytest

from qcode.headless.closing import allowing_flags
from qcode.protocol.events import ApprovalRequested, Denial
from tests.headless.scripted import Scripted, call, ended, reply, run

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def shell(command: str = "npm test", rule: str = "shell(npm test)", call_id: str = "c1") -> ApprovalRequested:
    return ApprovalRequested(call(call_id=call_id), f"Run {command}?", command, rule)


def edit(rule: str = "") -> ApprovalRequested:
    return ApprovalRequested(call("edit", '{"path":"x.py"}', "c9"), "Change x.py?", DIFF, rule)


def test_a_call_that_needs_approval_is_denied_with_a_reason_for_the_model() -> None:
    conversation = Scripted(reply("t", call()), shell(), ended("an answer anyway"))
    ran = run(conversation)
    answer = conversation.answers["c1"]
    assert not answer.is_allowed
    assert "no rule allows it" in answer.reason
    assert (ran.code, ran.stdout) == (0, b"an answer anyway\n")


def test_denials_without_an_answer_are_55_and_say_so() -> None:
    denials = (Denial(call(), "no"),)
    ran = run(Scripted(shell(), ended("earlier", denials=denials, is_answered=False)), "json")
    assert ran.code == 55
    assert ran.result["subtype"] == "error_during_execution"
    assert ran.result["error"]["kind"] == "denied"
    assert ran.result["stop_reason"] == "end_turn"


def test_each_denied_call_is_listed_once() -> None:
    denials = (Denial(call(call_id="c0"), "a rule"), Denial(call(), "asked"))
    ran = run(Scripted(shell(), shell(call_id="c2"), ended("x", denials=denials)), "json")
    assert ran.result["permission_denials"] == [
        {"tool_name": "shell", "tool_use_id": call_id, "tool_input": {"command": "npm test"}}
        for call_id in ("c0", "c1", "c2")
    ]


def test_stderr_ends_with_the_flags_that_would_have_allowed_it() -> None:
    ran = run(Scripted(shell(), ended("", is_answered=False)))
    assert ran.code == 55
    assert ran.stderr.splitlines()[-1].endswith(" to allow it: --allowed-tools 'shell(npm test)'")


def test_a_call_denied_by_a_rule_has_no_flag_to_offer() -> None:
    ran = run(Scripted(ended("x", denials=(Denial(call(), "a rule"),))))
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("asked", "flags"),
    [
        ([], ""),
        ([shell(), shell(call_id="c2")], "--allowed-tools 'shell(npm test)'"),
        ([edit()], "--permission-mode accept-edits"),
        ([edit("edit(x.py)")], "--allowed-tools 'edit(x.py)'"),
        ([edit(), shell()], "--permission-mode accept-edits --allowed-tools 'shell(npm test)'"),
        ([shell(rule=""), edit(), shell()], "--permission-mode bypass"),
    ],
)
def test_the_flags_are_the_narrowest_that_cover_all(asked: list[ApprovalRequested], flags: str) -> None:
    assert allowing_flags(asked, is_trusted=True) == flags


def test_an_untrusted_folder_needs_trust_as_well() -> None:
    assert allowing_flags([shell()], is_trusted=False) == "--trust --allowed-tools 'shell(npm test)'"


@pytest.mark.parametrize("rule", ["shell(echo 'a b')", "shell(echo $HOME)", "edit(a b/*.py)", "shell(echo `id`)"])
def test_a_pasted_flag_reaches_the_program_as_the_rule(rule: str) -> None:
    assert shlex.split(allowing_flags([shell(rule=rule)], is_trusted=True)) == ["--allowed-tools", rule]
