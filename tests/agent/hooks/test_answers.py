"""The answers of hooks: every exit code and every field, and how several are merged."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from qcode.agent.hooks.answers import (
    HookAnswer,
    answer_from_exit,
    answer_from_function,
    answer_from_object,
    effective_answer,
    failed,
    merge_answers,
)
from qcode.agent.hooks.events import EVENTS, Handler, Hook, HookCommand, program_handler

OWN = Handler("PreToolUse", "", HookCommand("check"), 60, "ask", "own", label="check")
BLOCKING = sorted(event for event, form in EVENTS.items() if form.can_block)
OTHERS = sorted(set(EVENTS) - set(BLOCKING))


def test_success_without_output_decides_nothing() -> None:
    assert all(answer_from_exit(event, 0, "", "noise") == HookAnswer() for event in EVENTS)


@pytest.mark.parametrize("event", BLOCKING)
def test_exit_2_blocks_with_the_reason_on_stderr(event: str) -> None:
    answer = answer_from_exit(event, 2, "", "use rg\n")
    assert (answer.decision, answer.reason) == ("deny", "use rg")


@pytest.mark.parametrize("event", OTHERS)
def test_exit_2_is_a_message_if_the_event_cannot_be_blocked(event: str) -> None:
    assert answer_from_exit(event, 2, "", "seen") == HookAnswer(messages=("seen",))


def test_exit_2_blocks_beside_json_that_allows() -> None:
    allowed = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"command": "x"}}})
    answer = answer_from_exit("PreToolUse", 2, allowed, "no")
    assert (answer.decision, answer.reason, answer.input) == ("deny", "no", None)


@pytest.mark.parametrize("code", [1, 3, 126, 127])
@pytest.mark.parametrize("event", sorted(EVENTS))
def test_other_exit_code_is_a_failure_that_names_code_and_message(event: str, code: int) -> None:
    assert answer_from_exit(event, code, "", "oops\nmore").failure == f"exit code {code}: oops more"


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_signal_is_a_failure_whatever_was_printed(event: str) -> None:
    assert answer_from_exit(event, -9, "{}", "").failure == "ended by signal 9"


def test_json_answer_is_used_with_any_exit_code() -> None:
    denied = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}'
    assert answer_from_exit("PreToolUse", 1, denied, "").decision == "deny"


def test_broken_json_is_a_failure() -> None:
    assert answer_from_exit("PreToolUse", 0, '{"decision": }', "").failure == "its output is not valid JSON"


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_text_on_stdout_is_context_for_session_start_and_prompts(event: str) -> None:
    assert answer_from_exit(event, 0, "branch: main\n", "").context == ("branch: main",)


@pytest.mark.parametrize("event", ["PreToolUse", "Stop", "Notification", "PostToolUse"])
def test_text_on_stdout_is_ignored_for_other_events(event: str) -> None:
    assert answer_from_exit(event, 0, "done", "") == HookAnswer()


@pytest.mark.parametrize(
    ("decision", "expected"),
    [("allow", "allow"), ("deny", "deny"), ("ask", "ask"), ("defer", "ask"), (None, "")],
)
def test_permission_decision_is_read(decision: str | None, expected: str) -> None:
    values = {"hookSpecificOutput": {"permissionDecision": decision, "permissionDecisionReason": "why"}}
    assert answer_from_object("PreToolUse", values).decision == expected


@pytest.mark.parametrize(("old", "expected"), [("approve", "allow"), ("block", "deny")])
def test_old_form_of_a_permission_is_read(old: str, expected: str) -> None:
    answer = answer_from_object("PreToolUse", {"decision": old, "reason": "why"})
    assert (answer.decision, answer.reason) == (expected, "why")


def test_new_form_of_a_permission_overrides_the_old_one() -> None:
    values = {"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}
    assert answer_from_object("PreToolUse", values).decision == "deny"


@pytest.mark.parametrize(
    "values",
    [
        {"hookSpecificOutput": 3},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "deny"}},
        {"hookSpecificOutput": {"permissionDecision": "yes"}},
        {"hookSpecificOutput": {"permissionDecision": ["deny"]}},
        {"hookSpecificOutput": {"updatedInput": "rm"}},
        {"hookSpecificOutput": {"additionalContext": 3}},
        {"decision": "perhaps"},
        {"continue": "no"},
        {"systemMessage": ["x"]},
    ],
)
def test_malformed_field_is_a_failure(values: dict[str, Any]) -> None:
    assert answer_from_object("PreToolUse", values).failure


def test_malformed_decision_is_named_as_it_was_written() -> None:
    assert answer_from_object("PreToolUse", {"decision": 5}).failure == 'decision must be "approve" or "block"'
    special = {"hookSpecificOutput": {"permissionDecision": 5}, "decision": "block"}
    assert answer_from_object("PreToolUse", special).failure == "permissionDecision must be allow, deny or ask"


def test_continue_false_stops_with_a_reason() -> None:
    answer = answer_from_object("PostToolUse", {"continue": False, "stopReason": "enough", "suppressOutput": True})
    assert (answer.stops_turn, answer.stop_reason) == (True, "enough")


def test_permission_request_is_decided_by_json_alone() -> None:
    decision = {"behavior": "deny", "message": "not now", "interrupt": True}
    answer = answer_from_object("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})
    assert (answer.decision, answer.reason, answer.interrupts_turn) == ("deny", "not now", True)
    assert answer_from_exit("PermissionRequest", 2, "", "no").decision == ""


def test_permission_request_that_allows_does_not_interrupt_the_turn() -> None:
    decision = {"behavior": "allow", "interrupt": True}
    answer = answer_from_object("PermissionRequest", {"hookSpecificOutput": {"decision": decision}})
    assert (answer.decision, answer.interrupts_turn) == ("allow", False)


@pytest.mark.parametrize("behavior", ["ask", None, 3])
def test_permission_request_with_another_behavior_is_a_failure(behavior: object) -> None:
    values = {"hookSpecificOutput": {"decision": {"behavior": behavior}}}
    assert answer_from_object("PermissionRequest", values).failure


def test_escape_codes_never_leave_a_hook() -> None:
    answer = answer_from_exit("SessionStart", 0, "\x1b]0;title\x07a\x1b[2Jb", "")
    assert answer.context == ("ab",)


def test_function_may_return_nothing_or_an_object() -> None:
    assert answer_from_function("PreToolUse", None) == HookAnswer()
    assert answer_from_function("PreToolUse", {"async": True}) == HookAnswer()
    assert answer_from_function("Stop", {"decision": "block", "reason": "go on"}).decision == "deny"


@pytest.mark.parametrize("value", [True, "deny", [], {"a": object()}, {"a": float("nan")}])
def test_function_with_another_result_is_a_failure(value: object) -> None:
    assert answer_from_function("PreToolUse", value).failure


@pytest.mark.parametrize(
    ("origin", "may_allow", "counts"),
    [("own", True, True), ("own", False, False), ("program", True, True), ("project", True, False)],
)
def test_allow_has_an_effect_only_for_a_user_hook_with_may_allow(origin: Any, may_allow: bool, counts: bool) -> None:
    handler = replace(OWN, origin=origin, may_allow=may_allow)
    assert effective_answer(handler, HookAnswer("allow")).decision == ("allow" if counts else "")


def test_project_cannot_replace_a_result() -> None:
    assert effective_answer(replace(OWN, origin="project"), HookAnswer(output="fake")).output is None
    assert effective_answer(OWN, HookAnswer(output="new")).output == "new"


@pytest.mark.parametrize(
    ("event", "on_failure", "decision"),
    [
        ("PreToolUse", "ask", "ask"),
        ("PreToolUse", "block", "deny"),
        ("PreToolUse", "go-on", ""),
        ("PermissionRequest", "ask", "ask"),
        ("UserPromptSubmit", "block", "deny"),
        ("UserPromptSubmit", "ask", "deny"),
        ("Stop", "go-on", ""),
        ("Stop", "ask", ""),
    ],
)
def test_failure_decides_as_configured(event: str, on_failure: Any, decision: str) -> None:
    handler = replace(OWN, event=event, on_failure=on_failure)
    answer = effective_answer(handler, failed("exit code 127"))
    assert answer.decision == decision
    assert answer.failures == (f"The {event} hook `check` failed: exit code 127",)


def test_default_on_failure_is_strict_for_calls_and_prompts_only() -> None:
    strict = {event: form.on_failure for event, form in EVENTS.items() if form.on_failure != "go-on"}
    assert strict == {"PreToolUse": "ask", "PermissionRequest": "ask", "UserPromptSubmit": "block"}


def test_deny_overrides_ask_and_ask_overrides_allow() -> None:
    answers = [
        HookAnswer("allow", "a"),
        HookAnswer("ask", "b"),
        HookAnswer("deny", "c"),
        HookAnswer("deny", "d"),
        HookAnswer(),
    ]
    assert (merge_answers(answers).decision, merge_answers(answers).reason) == ("deny", "c\nd")
    assert (merge_answers(answers[:2]).decision, merge_answers(answers[:2]).reason) == ("ask", "b")
    assert merge_answers(answers[:1]).decision == "allow"
    assert merge_answers([]) == HookAnswer()


def test_texts_are_joined_in_order() -> None:
    both = merge_answers([HookAnswer(context=("a",), messages=("m",)), HookAnswer(context=("b",), messages=("n",))])
    assert (both.context, both.messages) == (("a", "b"), ("m", "n"))


def test_same_replaced_input_twice_is_used() -> None:
    assert merge_answers([HookAnswer(input={"a": 1}), HookAnswer(input={"a": 1})]).input == {"a": 1}


def test_two_different_replaced_inputs_ask() -> None:
    answer = merge_answers([HookAnswer("allow", input={"a": 1}), HookAnswer(input={"a": 2})])
    assert (answer.decision, answer.input) == ("ask", None)
    assert "neither is used" in answer.failures[0]
    assert merge_answers([HookAnswer("deny", "no", input={"a": 1}), HookAnswer(input={"a": 2})]).reason == "no"


def test_reason_of_the_first_stopping_answer_is_used() -> None:
    answer = merge_answers(
        [HookAnswer(), HookAnswer(stops_turn=True, stop_reason="a"), HookAnswer(stops_turn=True, stop_reason="b")]
    )
    assert (answer.stops_turn, answer.stop_reason) == (True, "a")


async def _check(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    return {}


def test_hook_of_a_program_names_the_nearest_event() -> None:
    with pytest.raises(ValueError, match="nearest is PreToolUse"):
        program_handler("PreTooUse", Hook("shell", _check))


def test_hook_that_goes_to_the_background_decides_nothing() -> None:
    text = '{"async": true, "asyncTimeout": 180000}\n{"decision": "block"}'
    assert answer_from_exit("PreToolUse", 0, text, "") == HookAnswer()
    assert answer_from_exit("PreToolUse", 2, text, "no").decision == "deny"


def test_output_for_another_event_is_ignored_with_a_message() -> None:
    given = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "pink"}, "decision": "block"}
    answer = answer_from_object("UserPromptSubmit", given)
    assert (answer.failure, answer.context, answer.decision) == ("", (), "deny")
    assert "the output of another event" in answer.messages[0]
