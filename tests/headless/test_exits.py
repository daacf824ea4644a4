from __future__ import annotations

import signal
from typing import Any

import pytest

from qcode.agent.outcomes import exit_code, signal_code, subtype
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import Denial, TurnEnded
from qcode.protocol.reply import Limit, Outcome
from tests.headless.scripted import call, ended

DENIED = {"denials": (Denial(call(), "no"),)}


def failed(kind: str, text: str = "") -> TurnEnded:
    return ended(text, outcome=Outcome.ERROR, stop=None, error=ErrorInfo(kind, "it failed"))


@pytest.mark.parametrize(
    ("changes", "code", "kind"),
    [
        ({}, 0, "success"),
        ({"text": "", "is_answered": False}, 0, "success"),
        ({**DENIED}, 0, "success"),
        ({**DENIED, "text": "earlier text", "is_answered": False}, 55, "error_during_execution"),
        ({"outcome": Outcome.MAX_TOKENS}, 56, "error_max_tokens"),
        ({"outcome": Outcome.MAX_TOKENS, **DENIED, "is_answered": False}, 56, "error_max_tokens"),
        ({"outcome": Outcome.REFUSAL}, 57, "error_refusal"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.TURNS}, 53, "error_max_turns"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.TOOL_CALLS}, 53, "error_max_tool_calls"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.COST}, 53, "error_max_budget_usd"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": None}, 53, "error_max_turns"),
        ({"outcome": Outcome.CANCELLED}, 130, "error_cancelled"),
        ({"outcome": Outcome.ERROR, "error": None}, 1, "error_during_execution"),
    ],
)
def test_outcome_has_its_exit_code_and_subtype(changes: dict[str, Any], code: int, kind: str) -> None:
    turn = ended(**{"text": "t", **changes})
    assert (exit_code(turn), subtype(turn)) == (code, kind)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("no_credential", 41),
        ("auth", 41),
        ("unknown_model", 1),
        ("bad_request", 1),
        ("quota", 1),
        ("bad_response", 1),
        ("internal", 1),
        ("rate_limit", 75),
        ("overloaded", 75),
        ("server", 75),
        ("timeout", 75),
        ("connection", 75),
        ("unreachable", 75),
        ("tls", 1),
        ("bad_input", 42),
        ("bad_config", 52),
        ("usage", 2),
        ("never heard of", 1),
    ],
)
def test_failure_has_the_exit_code_of_its_kind(kind: str, code: int) -> None:
    assert exit_code(failed(kind)) == code


def test_every_kind_of_provider_error_has_an_exit_code() -> None:
    codes = {kind: exit_code(failed(kind)) for kind in ErrorKind}
    assert set(codes.values()) == {1, 41, 42, 55, 75}
    assert all(codes[kind] == 75 for kind in ErrorKind if kind.is_transient)


def test_full_context_is_bad_input_without_text_and_an_incomplete_answer_with_it() -> None:
    assert exit_code(failed("context_overflow")) == 42
    assert exit_code(failed("context_overflow", "half an answer")) == 56


def test_transient_failure_with_text_stays_transient() -> None:
    assert exit_code(failed("connection", "half an answer")) == 75


def test_success_is_exactly_exit_code_zero() -> None:
    for outcome in Outcome:
        for changes in ({}, DENIED, {**DENIED, "is_answered": False}):
            turn = ended("t", outcome=outcome, **changes)
            assert (subtype(turn) == "success") == (exit_code(turn) == 0)


def test_ctrl_c_and_termination_have_their_own_codes() -> None:
    assert signal_code(signal.SIGINT) == 130
    assert signal_code(signal.SIGTERM) == 143
    assert signal_code(signal.SIGHUP) == 143
