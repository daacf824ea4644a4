from __future__ import annotations

import pytest

from qcode.agent.outcomes import denial_line
from qcode.protocol.approvals import Answer, CallApproval, Deny, ImpossibleCall, Question, RepeatedCall, ToolApproval
from qcode.protocol.events import ApprovalRequested, Denial
from tests.headless.scripted import Scripted, call, ended, reply, run


def shell(command: str = "npm test", rule: str = "shell(npm test)", call_id: str = "c1") -> ApprovalRequested:
    return ApprovalRequested(ToolApproval(call(call_id=call_id), f"Run {command}?", command, rule))


def test_call_that_needs_approval_is_denied_with_a_reason_for_the_model() -> None:
    conversation = Scripted(reply("t", call()), shell(), ended("an answer anyway"))
    ran = run(conversation)
    decision = conversation.answers["c1"]
    assert isinstance(decision, Deny)
    assert "no rule allows it" in decision.message
    assert (ran.code, ran.stdout) == (0, b"an answer anyway\n")


def test_denials_without_an_answer_exit_with_55_and_a_message() -> None:
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
    asked = Scripted(shell(), shell(call_id="c2"), ended("", is_answered=False))
    ran = run(asked)
    assert ran.code == 55
    assert ran.stderr.splitlines()[-1].endswith(
        "did not run (non-interactive mode); to allow them: --allowed-tools 'shell(npm test)'"
    )


@pytest.mark.parametrize(
    ("asked", "flags", "unallowable", "ending"),
    [
        (1, "", 1, "no flag allows it, only an approval in the app"),
        (2, "", 2, "no flag allows them, only an approval in the app"),
        (3, "--trust", 1, "no flag allows 1 of them, only an approval in the app; to allow the rest: --trust"),
        (1, "--trust", 0, "to allow it: --trust"),
    ],
)
def test_no_flag_is_proposed_for_a_call_that_no_flag_allows(
    asked: int, flags: str, unallowable: int, ending: str
) -> None:
    assert denial_line(asked, flags, unallowable).endswith(f"did not run (non-interactive mode); {ending}")


def test_no_line_is_printed_without_a_denial() -> None:
    assert denial_line(0, "", 0) == ""


def test_call_denied_by_a_rule_has_no_flag_to_offer() -> None:
    ran = run(Scripted(ended("x", denials=(Denial(call(), "a rule"),))))
    assert ran.stderr == ""


def test_reason_of_a_rule_is_printed_without_an_answer() -> None:
    ran = run(Scripted(ended("", denials=(Denial(call(), "outside the workspace"),), is_answered=False)))
    assert ran.stderr == "qcode: the turn ended on denied calls, without an answer: outside the workspace\n"


@pytest.mark.parametrize(
    ("approval", "message"),
    [
        (Question(call(), "Which?"), "No answer"),
        (RepeatedCall(call(), "Which?", ""), "Try a different approach"),
    ],
)
def test_question_for_the_user_gets_an_answer_and_is_not_a_denial(approval: CallApproval, message: str) -> None:
    conversation = Scripted(reply("t", call()), ApprovalRequested(approval), ended("an answer"))
    ran = run(conversation, "json")
    decision = conversation.answers["c1"]
    assert isinstance(decision, Answer)
    assert message in decision.text
    assert ran.code == 0
    assert ran.result["permission_denials"] == []
    assert ran.stderr == ""


def test_invalid_calls_are_not_approved_without_a_user() -> None:
    conversation = Scripted(ApprovalRequested(ImpossibleCall(call(), "Again?", "{}")), ended("an answer"))
    ran = run(conversation, "json")
    assert conversation.answers["c1"] == Deny()
    assert (ran.code, ran.result["permission_denials"]) == (0, [])
