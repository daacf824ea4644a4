"""The table of `decide`: every kind of ending with every state of the budget, and the rules for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.reply.assembler import ReplyShape
from qcode.engine.reply.recovery import (
    AskForAnswer,
    Budget,
    CommitPaused,
    Continue,
    Decision,
    Done,
    Escalate,
    Fail,
    RepairCall,
    ResumeCall,
    RunCalls,
    decide,
)
from qcode.protocol.reply import StopReason

TEXT = ReplyShape(StopReason.END_TURN, "stop", 8000, 100, has_text=True, has_reasoning=False, last="text")
CUT = replace(TEXT, stop=StopReason.MAX_TOKENS, raw_stop="length", output_tokens=8000)
CALLS = replace(TEXT, stop=StopReason.TOOL_USE, last="call", calls=("complete",))
CUT_CALL = replace(CUT, last="call", calls=("incomplete",))
THOUGHT = replace(CUT, has_text=False, has_reasoning=True, last="reasoning")
EMPTY = replace(CUT, has_text=False, last=None)

FRESH = Budget(escalation_cap=64000, continuation_cap=64000, continuations_left=3, tokens_left=9000, chars_left=9000)
ESCALATED = replace(FRESH, escalation_cap=None)
APPEND_ONLY = replace(FRESH, is_append_only=True)
CONTINUED = replace(ESCALATED, continuations_left=2, is_continuation=True)

SPENT = replace(FRESH, is_affordable=False)

TABLE: list[tuple[str, ReplyShape, Budget, Decision]] = [
    ("a whole text is done", TEXT, FRESH, Done()),
    ("a whole call runs", CALLS, FRESH, RunCalls()),
    ("a call runs whatever the reason says", replace(CALLS, stop=StopReason.END_TURN), FRESH, RunCalls()),
    ("a call beside an unknown reason runs", replace(CALLS, stop=StopReason.UNKNOWN), FRESH, RunCalls()),
    ("a first cut text is escalated", CUT, FRESH, Escalate(64000)),
    ("a first cut call is escalated", CUT_CALL, FRESH, Escalate(64000)),
    ("first cut thinking is escalated", THOUGHT, FRESH, Escalate(64000)),
    ("a first empty cut is escalated", EMPTY, FRESH, Escalate(64000)),
    ("a cap reached under another reason is a cut", replace(CUT, stop=StopReason.END_TURN), FRESH, Escalate(64000)),
    ("a cap reached within its tolerance is a cut", replace(TEXT, output_tokens=7961), FRESH, Escalate(64000)),
    ("a count below the tolerance is not a truncation", replace(TEXT, output_tokens=7959), FRESH, Done()),
    ("far above the cap the reason decides", replace(TEXT, output_tokens=9000), FRESH, Done()),
    ("an unclosed call is a cut whatever was reported", replace(CUT_CALL, stop=StopReason.TOOL_USE), FRESH,
     Escalate(64000)),
    ("the policy continues plain text instead", CUT, replace(FRESH, prefers_continuing=True), Continue(64000)),
    ("the policy does not spare a cut call", CUT_CALL, replace(FRESH, prefers_continuing=True), Escalate(64000)),
    ("append-only text is continued", CUT, APPEND_ONLY, Continue(64000)),
    ("append-only thinking is escalated", THOUGHT, APPEND_ONLY, Escalate(64000)),
    ("a cut call without text is escalated", replace(CUT_CALL, has_text=False), APPEND_ONLY, Escalate(64000)),
    ("a cut call after append-only text is answered", CUT_CALL, APPEND_ONLY, RunCalls(escalates_next_request=True)),
    ("a cut write after append-only text may be resumed", CUT_CALL, replace(APPEND_ONLY, resumed_calls_left=3),
     ResumeCall()),
    ("an append-only call at the last cap gets no larger one", CUT_CALL, replace(APPEND_ONLY, escalation_cap=None),
     RunCalls()),
    ("a text cut again is continued", CUT, ESCALATED, Continue(64000)),
    ("a closed call at the cap runs", replace(CUT_CALL, calls=("complete",)), FRESH, RunCalls()),
    ("a call cut at the last cap is answered", CUT_CALL, ESCALATED, RunCalls()),
    ("calls before a cut text run at the last cap", replace(CUT, calls=("complete",)), ESCALATED, RunCalls()),
    ("a cut write may be resumed", CUT_CALL, replace(ESCALATED, resumed_calls_left=3), ResumeCall()),
    ("thinking at the last cap is asked for an answer", THOUGHT, ESCALATED, AskForAnswer()),
    ("thinking again after that fails", THOUGHT, replace(ESCALATED, repairs_left=0), Fail("thinking_only")),
    ("nothing at the last cap fails without a request for an answer", EMPTY, ESCALATED, Fail("empty")),
    ("no continuation is left", CUT, replace(ESCALATED, continuations_left=0), Done(True, "retry_limit")),
    ("no token is left", CUT, replace(ESCALATED, tokens_left=0), Done(True, "budget_exhausted")),
    ("no character is left", CUT, replace(ESCALATED, chars_left=0), Done(True, "budget_exhausted")),
    ("no room is left in the window", CUT, replace(ESCALATED, continuation_cap=None), Done(True, "budget_exhausted")),
    ("a continuation that adds nothing ends it", replace(CUT, has_progress=False), CONTINUED,
     Done(True, "no_progress")),
    ("a continuation that adds text is continued", CUT, CONTINUED, Continue(64000)),
    ("a cut that cannot be paid for stays cut", CUT, SPENT, Done(True, "budget_exhausted")),
    ("cut thinking that cannot be paid for stays cut", THOUGHT, SPENT, Done(True, "budget_exhausted")),
    ("a cut call that cannot be paid for is answered", CUT_CALL, replace(SPENT, resumed_calls_left=3), RunCalls()),
    ("an unreadable call is not repaired for money that is spent", replace(TEXT, stop=StopReason.MALFORMED_CALL), SPENT,
     Fail("malformed")),
    ("a whole text is done whatever it cost", TEXT, SPENT, Done()),
    ("a refusal ends it", replace(CUT, stop=StopReason.REFUSAL), FRESH, Done(termination="safety_blocked")),
    ("a refusal runs no call", replace(CALLS, stop=StopReason.REFUSAL), FRESH, Done(termination="safety_blocked")),
    ("a full window ends it", replace(CUT, stop=StopReason.CONTEXT_WINDOW_EXCEEDED), FRESH,
     Done(True, "budget_exhausted")),
    ("a pause is sent back", replace(TEXT, stop=StopReason.PAUSED), FRESH, CommitPaused()),
    ("an unreadable call is repaired once", replace(TEXT, stop=StopReason.MALFORMED_CALL), FRESH, RepairCall()),
    ("a second unreadable call fails", replace(TEXT, stop=StopReason.MALFORMED_CALL), replace(FRESH, repairs_left=0),
     Fail("malformed")),
    ("text with an unknown reason is done", replace(TEXT, stop=StopReason.UNKNOWN), FRESH, Done()),
    ("nothing with an unknown reason fails", replace(EMPTY, stop=StopReason.UNKNOWN, output_tokens=None), FRESH,
     Fail("unknown")),
    ("malformed arguments below the cap are answered", replace(CALLS, calls=("malformed",)), FRESH, RunCalls()),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "budget", "decision"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_decision_follows_the_table(shape: ReplyShape, budget: Budget, decision: Decision) -> None:
    assert decide(shape, budget) == decision


SHAPES = st.builds(
    ReplyShape,
    stop=st.sampled_from(StopReason),
    raw_stop=st.just("x"),
    cap=st.sampled_from([100, 8000, 64000]),
    output_tokens=st.one_of(st.none(), st.sampled_from([0, 50, 100, 7990, 8000, 64000])),
    has_text=st.booleans(),
    has_reasoning=st.booleans(),
    last=st.sampled_from(["text", "reasoning", "call", None]),
    calls=st.lists(st.sampled_from(["complete", "incomplete", "malformed"]), max_size=3).map(tuple),
    has_progress=st.booleans(),
)
BUDGETS = st.builds(
    Budget,
    escalation_cap=st.one_of(st.none(), st.just(64000)),
    continuation_cap=st.one_of(st.none(), st.just(64000)),
    continuations_left=st.integers(0, 3),
    tokens_left=st.integers(-5, 5),
    chars_left=st.integers(-5, 5),
    repairs_left=st.integers(0, 1),
    resumed_calls_left=st.integers(0, 3),
    prefers_continuing=st.booleans(),
    is_append_only=st.booleans(),
    is_continuation=st.booleans(),
    is_affordable=st.booleans(),
)


def _is_possible(shape: ReplyShape) -> bool:
    return (shape.last != "call" or bool(shape.calls)) and (shape.last != "text" or shape.has_text)


@given(SHAPES.filter(_is_possible), BUDGETS)
def test_decision_to_send_a_request_uses_a_remaining_budget(shape: ReplyShape, budget: Budget) -> None:
    decision = decide(shape, budget)
    if isinstance(decision, (Escalate, Continue, AskForAnswer, RepairCall, ResumeCall)):
        assert budget.is_affordable
    match decision:
        case Escalate():
            assert decision.cap == budget.escalation_cap
        case Continue():
            assert budget.continuations_left > 0
            assert decision.cap == budget.continuation_cap
            assert shape.has_text
            assert not shape.calls
        case AskForAnswer() | RepairCall():
            assert budget.repairs_left > 0
        case ResumeCall():
            assert budget.resumed_calls_left > 0
            assert shape.calls[-1] == "incomplete"
        case CommitPaused():
            assert shape.stop is StopReason.PAUSED
        case Done() | RunCalls() | Fail():
            pass


@given(SHAPES.filter(_is_possible), BUDGETS)
def test_reply_that_hit_its_cap_is_never_complete(shape: ReplyShape, budget: Budget) -> None:
    decision = decide(shape, budget)
    if shape.has_hit_cap and not shape.calls and shape.stop is not StopReason.REFUSAL:
        assert decision != Done()
