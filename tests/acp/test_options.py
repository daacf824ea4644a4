"""The options of approvals in an editor, compared with the choices of the app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from qcode.acp.approvals import options_of
from qcode.protocol.approvals import (
    Allow,
    CallApproval,
    Choice,
    Deny,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    ServerApproval,
    ToolApproval,
)
from qcode.protocol.messages import ToolCall
from qcode.tui.panels.choices import form_of

CALL = ToolCall("c1", "shell", '{"command": "pytest"}')
OFFERS = ToolApproval(
    CALL,
    "Run this command?",
    "pytest",
    rule="shell(pytest)",
    is_keepable=True,
    kind="command",
    offers=("edits", "prefix", "sandbox", "trust"),
    prefix_rule="shell(pytest *)",
    sandboxed_rule="shell(pytest *)",
)
CONFIRMATION = Question(CALL, "Send?", "", (Choice("Send"), Choice("Decline", "tell it")), "s", 1, accepts_text=False)
APPROVALS: Mapping[str, tuple[CallApproval | ServerApproval, list[str]]] = {
    "tool": (OFFERS, ["once", "session", "folder", "deny"]),
    "rule for the session": (replace(OFFERS, is_keepable=False), ["once", "session", "deny"]),
    "no rule": (replace(OFFERS, rule=""), ["once", "deny"]),
    "plan": (PlanApproval(CALL, "?", "1. a"), ["default", "accept-edits", "plan"]),
    "plan in a restricted folder": (PlanApproval(CALL, "?", "1. a", is_trusted=False), ["default", "plan"]),
    "repeated call": (RepeatedCall(CALL, "?", ""), ["once", "deny"]),
    "impossible call": (ImpossibleCall(CALL, "?", ""), ["once", "deny"]),
    "login": (ServerApproval("s", "s", "?", "", is_login=True), ["once", "deny"]),
    "server": (ServerApproval("s", "s", "?", ""), ["once", "folder", "deny"]),
    "question": (Question(CALL, "?", choices=(Choice("red"), Choice("bl\u202eue"))), ["choice-1", "choice-2", "skip"]),
    "confirmation": (replace(CONFIRMATION, choices=CONFIRMATION.choices[:1]), ["choice-1", "skip"]),
}
ONLY_IN_EDITORS = {("Yes, in this session", Allow("session"))}
"""A client without a user takes the first option, so it approves a server for the session only."""


@pytest.mark.parametrize("name", APPROVALS)
def test_options_have_the_order_words_and_decisions_of_the_app(name: str) -> None:
    approval, ids = APPROVALS[name]
    options = options_of(approval)
    assert [option.option_id for option in options] == ids
    offered = [(option.name.removesuffix(": shell(pytest)"), option.decision) for option in options]
    if isinstance(approval, Question):
        offered.pop()  # `Skip`; the app has Esc
    chosen = [(option.label, option.decision) for option in form_of(approval).options]
    assert [item for item in offered if item not in ONLY_IN_EDITORS] == [item for item in chosen if item in offered]


def test_option_of_a_question_shows_the_detail_of_its_choice() -> None:
    assert [option.name for option in options_of(CONFIRMATION)] == ["Send", "Decline: tell it", "Skip"]


def test_denied_repeated_call_tells_the_model_to_change_the_approach() -> None:
    (_, deny) = options_of(RepeatedCall(CALL, "?", ""))
    assert isinstance(deny.decision, Deny)
    assert "change the approach" in deny.decision.message
