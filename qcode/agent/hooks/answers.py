"""The answers of hooks: parsed from an exit code and output, or from a function, and merged. Pure.

The format is that of Claude Code's hooks (https://code.claude.com/docs/en/hooks). An answer can deny, ask, stop the
turn and add text; `allow` has an effect only if the hook may allow. An invalid answer is a failure and never allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from qcode.agent.hooks.events import EVENTS, EventSpec, Handler, OnFailure
from qcode.text.clean import clean, one_line, single_spaced
from qcode.text.json import Json, JsonObject, parse_object
from qcode.text.numbers import exit_text
from qcode.values import dataclass

HookDecision: TypeAlias = Literal["", "allow", "ask", "deny"]
"""`deny` also stands for `decision: "block"`."""

BLOCKING_EXIT = 2
"""The exit code with which a command blocks."""
MAX_FAILURE_CHARS = 400
"""The maximum number of characters of the reason of a failure."""
_MAX_REASON_CHARS = MAX_FAILURE_CHARS - 50
_STRICTNESS: Mapping[HookDecision, int] = {"": 0, "allow": 1, "ask": 2, "deny": 3}
_ON_FAILURE: Mapping[OnFailure, HookDecision] = {"ask": "ask", "block": "deny", "go-on": ""}
_PERMISSIONS: Mapping[str, HookDecision] = {
    "allow": "allow", "deny": "deny", "ask": "ask", "defer": "ask", "approve": "allow", "block": "deny",
}  # fmt: skip
"""The decisions by the words of a PreToolUse hook: those of `permissionDecision`, and of the older `decision`."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one handler, or the merged answer of several handlers."""

    decision: HookDecision = ""
    reason: str = ""
    """The reason of the decision."""
    input: JsonObject | None = None
    """Replaces the input of the call."""
    output: Json = None
    """Replaces the result of the call for the model."""
    context: tuple[str, ...] = ()
    """Texts for the model."""
    messages: tuple[str, ...] = ()
    """Texts for the user."""
    stops_turn: bool = False
    """The turn ends after the running calls, for the reason `stop_reason`."""
    stop_reason: str = ""
    interrupts_turn: bool = False
    """A denial also ends the turn."""
    failure: str = ""
    """Why the handler failed, in one line; empty if it did not fail."""
    failures: tuple[str, ...] = ()
    """Lines for the user about the handlers that failed."""


class _InvalidAnswer(Exception):  # noqa: N818  # becomes the failure of an answer
    """An answer has a field of the wrong type or value."""


def failed(reason: str) -> HookAnswer:
    """Return the answer of a handler that failed."""
    return HookAnswer(failure=single_spaced(clean(reason), MAX_FAILURE_CHARS) or "it failed")


def _end_of(stderr: str) -> str:
    """Return the end of an error text, because a traceback names the reason in its last line."""
    text = single_spaced(stderr)
    return text if len(text) <= _MAX_REASON_CHARS else f"…{text[-_MAX_REASON_CHARS:]}"


def answer_from_exit(event: str, code: int, stdout: str, stderr: str) -> HookAnswer:
    """Return the answer of a command that ended with `code`, negative for a signal."""
    event_spec = EVENTS[event]
    text = stdout.strip()
    message = clean(stderr).strip()
    if code < 0:
        return failed(exit_text(code))
    is_json = text.startswith("{") and text.endswith("}")
    json_answer = _answer_from_json_text(event, text) if is_json else None
    if code == BLOCKING_EXIT:
        return _blocking_answer(event_spec, json_answer, message)
    if json_answer is not None:
        return json_answer
    if code != 0:
        return failed(f"{exit_text(code)}: {_end_of(message)}" if message else exit_text(code))
    if is_json:
        return failed("its output is not valid JSON")
    if text and event_spec.text_is_context:
        return HookAnswer(context=(clean(text),))
    return HookAnswer()


def _answer_from_json_text(event: str, text: str) -> HookAnswer | None:
    """Return the answer in the JSON output of a command, None if the JSON is not valid."""
    first_line = parse_object(text.partition("\n")[0])
    if first_line is not None and first_line.get("async") is True:
        # Claude Code does not wait for an asynchronous hook, so its further output is ignored.
        return HookAnswer()
    values = parse_object(text)
    return None if values is None else answer_from_object(event, values)


def _blocking_answer(event_spec: EventSpec, json_answer: HookAnswer | None, message: str) -> HookAnswer:
    """Return the answer of a command with exit code 2: it blocks, even if its JSON output allows."""
    answer = json_answer or HookAnswer()
    if answer.failure:
        answer = HookAnswer()
    if event_spec.can_block:
        return replace(answer, decision="deny", reason=message or answer.reason, input=None)
    if message:
        return replace(answer, messages=(*answer.messages, message))
    return answer


def answer_from_object(event: str, values: Mapping[str, Any]) -> HookAnswer:
    """Return the answer in a JSON object."""
    try:
        return _parse_answer(event, values)
    except _InvalidAnswer as problem:
        return failed(str(problem))


def answer_from_function(event: str, value: object) -> HookAnswer:
    """Return the answer from a function's return value: a mapping, or None for no answer."""
    if value is None:
        return HookAnswer()
    if not isinstance(value, Mapping):
        return failed(f"the function returned {type(value).__name__}, not a dict")
    try:
        values = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return failed("the function returned a dict that is not JSON")
    if values.get("async") is True:
        return HookAnswer()  # an asynchronous hook decides nothing
    return answer_from_object(event, values)


def _parse_answer(event: str, values: Mapping[str, Any]) -> HookAnswer:
    event_spec = EVENTS[event]
    event_output = values.get("hookSpecificOutput")
    if event_output is None:
        event_output = {}
    if not isinstance(event_output, dict):
        raise _InvalidAnswer("hookSpecificOutput is not an object")
    messages = [_text(values, "systemMessage")]
    if event_output.get("hookEventName", event) != event:
        if event in ("PreToolUse", "PermissionRequest"):
            raise _InvalidAnswer(f"hookEventName is not {event}")
        # An example of the Claude Agent SDK answers UserPromptSubmit with the output of SessionStart.
        messages.append(f"A hook of {event} answered with the output of another event, which is ignored.")
        event_output = {}
    answer = HookAnswer(
        stops_turn=not _flag(values, "continue", default=True),
        stop_reason=_text(values, "stopReason"),
        messages=tuple(filter(None, messages)),
    )
    if event_spec.has_context:
        context = _text(event_output, "additionalContext")
        answer = replace(answer, context=(context,) if context else ())
    if event == "PreToolUse":
        return _with_permission_decision(answer, values, event_output)
    if event == "PermissionRequest":
        return _with_request_decision(answer, event_output)
    if event in ("PostToolUse", "PostToolUseFailure"):
        answer = replace(answer, output=event_output.get("updatedToolOutput"))
    decision = values.get("decision")
    if decision not in (None, "block", "approve"):
        raise _InvalidAnswer('decision must be "block"')
    if decision == "block" and event_spec.can_block:
        return replace(answer, decision="deny", reason=_text(values, "reason"))
    return answer


def _with_permission_decision(
    answer: HookAnswer, values: Mapping[str, Any], event_output: Mapping[str, Any]
) -> HookAnswer:
    """Add the decision of a PreToolUse hook, in its new or its old form."""
    word = event_output.get("permissionDecision")
    if word is None:
        word = values.get("decision")
        allowed_words = 'decision must be "approve" or "block"'
    else:
        allowed_words = "permissionDecision must be allow, deny or ask"
    decision: HookDecision = ""
    if word is not None:
        if not isinstance(word, str) or word not in _PERMISSIONS:
            raise _InvalidAnswer(allowed_words)
        decision = _PERMISSIONS[word]
    reason = _text(event_output, "permissionDecisionReason") or _text(values, "reason")
    return replace(answer, decision=decision, reason=reason, input=_object(event_output, "updatedInput"))


def _with_request_decision(answer: HookAnswer, event_output: Mapping[str, Any]) -> HookAnswer:
    """Add the decision of a PermissionRequest hook."""
    decision = event_output.get("decision")
    if decision is None:
        return answer
    if not isinstance(decision, dict):
        raise _InvalidAnswer("decision is not an object")
    behavior = decision.get("behavior")
    if behavior not in ("allow", "deny"):
        raise _InvalidAnswer("decision.behavior must be allow or deny")
    return replace(
        answer,
        decision=behavior,
        reason=_text(decision, "message"),
        interrupts_turn=_flag(decision, "interrupt", default=False) and behavior == "deny",
        input=_object(decision, "updatedInput"),
    )


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _InvalidAnswer(f"{name} is not a string")
    return clean(value).strip()


def _flag(values: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = values.get(name, default)
    if not isinstance(value, bool):
        raise _InvalidAnswer(f"{name} is not true or false")
    return value


def _object(values: Mapping[str, Any], name: str) -> JsonObject | None:
    value = values.get(name)
    if value is not None and not isinstance(value, dict):
        raise _InvalidAnswer(f"{name} is not an object")
    return value


def effective_answer(handler: Handler, answer: HookAnswer) -> HookAnswer:
    """Return the answer as it takes effect: a failure becomes a decision, and forbidden effects are dropped.

    Only a hook with `may_allow` can allow, and a hook of a project cannot replace a result.
    """
    if answer.failure:
        line = f"The {handler.event} hook `{one_line(clean(handler.label), 80)}` failed: {answer.failure}"
        decision = _decision_on_failure(handler)
        return HookAnswer(decision, line if decision else "", failures=(line,))
    if answer.decision == "allow" and not handler.can_allow:
        answer = replace(answer, decision="", reason="")
    if answer.output is not None and handler.origin == "project":
        answer = replace(answer, output=None)
    return answer


def _decision_on_failure(handler: Handler) -> HookDecision:
    """Return the decision if a handler fails. Only before a call can the user be asked instead."""
    decision = _ON_FAILURE[handler.on_failure]
    if decision != "ask" or handler.event in ("PreToolUse", "PermissionRequest"):
        return decision
    return "deny" if handler.event == "UserPromptSubmit" else ""


def merge_answers(answers: Sequence[HookAnswer]) -> HookAnswer:
    """Merge the answers of an event: deny overrides ask, ask overrides allow, and texts are joined in order.

    If two answers replace the input differently, that is a failure, and the call asks.
    """
    decision: HookDecision = max((answer.decision for answer in answers), key=_STRICTNESS.__getitem__, default="")
    reasons = [answer.reason for answer in answers if answer.decision == decision] if decision else []
    failures = [line for answer in answers for line in answer.failures]
    inputs = [answer.input for answer in answers if answer.input is not None]
    if any(other != inputs[0] for other in inputs):
        line = "Two hooks replaced the input of the call differently; neither is used."
        failures.append(line)
        inputs.clear()
        if decision in ("", "allow"):
            decision = "ask"
            reasons = [line]
    stopping = next((answer for answer in answers if answer.stops_turn), None)
    return HookAnswer(
        decision=decision,
        reason="\n".join(dict.fromkeys(filter(None, reasons))),
        input=inputs[0] if inputs else None,
        output=next((answer.output for answer in answers if answer.output is not None), None),
        context=tuple(text for answer in answers for text in answer.context),
        messages=tuple(text for answer in answers for text in answer.messages),
        stops_turn=stopping is not None,
        stop_reason="" if stopping is None else stopping.stop_reason,
        interrupts_turn=any(answer.interrupts_turn for answer in answers),
        failures=tuple(failures),
    )
