from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode import __version__
from qcode.agent.reports import RecoveryMetrics
from qcode.headless.lines import encode
from qcode.headless.run import run_headless
from qcode.protocol import events as ev
from qcode.protocol.approvals import ToolApproval
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolResult, assistant
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, StopReason, TextDelta
from qcode.protocol.usage import Usage
from qcode.text.json import Json
from tests.headless.scripted import Scripted, agent_of, call, ended, kinds, reply, run


def ticking(step: float) -> Iterator[float]:
    return (number * step for number in count())


def test_json_is_one_object_with_the_complete_result() -> None:
    clock = ticking(0.5)
    ran = run(Scripted(ended("hello")), "json", clock=lambda: next(clock))
    assert ran.code == 0
    assert ran.stdout.count(b"\n") == 1
    result = ran.result
    assert 0 < result.pop("duration_ms") <= 5000
    assert result.pop("metrics") == RecoveryMetrics().as_json()
    assert result == {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "hello",
        "text": "hello",
        "stop_reason": "end_turn",
        "raw_stop_reason": "stop",
        "session_id": "s-1",
        "num_turns": 1,
        "duration_api_ms": 0,
        "total_cost_usd": 0.0123,
        "usage": {
            "input_tokens": 15,
            "output_tokens": 30,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 5,
            "reasoning_tokens": 7,
        },
        "api_calls": {"total": 1, "initial": 1, "escalations": 0, "continuations": 0, "repairs": 0, "retries": 0},
        "discarded_output_tokens": 0,
        "permission_denials": [],
        "signals": [],
        "structured_output": None,
        "error": None,
    }


def test_events_of_a_turn_have_ordered_lines() -> None:
    message = assistant(Reasoning("hm", Opaque("anthropic", "{}")), Text("look"), call())
    results = Message("user", (ToolResult("c1", "shell", "ok"),))
    conversation = Scripted(
        ev.TurnStarted("do it"),
        ev.StepStarted(1),
        TextDelta(0, "look"),
        ev.Retry(False, "max_tokens", 1, 64_000),
        ev.OutputEscalated(8_000, 64_000),
        ev.PartialRestored("look"),
        ev.ContinuationAttempt(1, 70, 300, 5_000),
        ev.ContinuationTerminated("completed"),
        ev.StopReasonObserved("demo", "scripted", StopReason.TOOL_USE, "tool_calls", 1, 1),
        ev.ReplyFinished(StopReason.TOOL_USE, "tool_calls", 2, message),
        ev.ToolStarted(call()),
        ev.ToolOutput("c1", "ok"),
        ev.ResultsCommitted(results),
        ev.ToolPayloadRepair("cut", True, False),
        ev.Waiting(1.5, "rate limit", 2),
        ev.Notice("warning", "careful"),
        ev.StepStarted(2),
        reply("done"),
        ended("done"),
    )
    lines = run(conversation, "stream-json").lines
    assert lines[:-1] == [
        {
            "type": "system",
            "subtype": "init",
            "session_id": "s-1",
            "cwd": "/project",
            "model": "demo/scripted",
            "tools": ["read", "shell"],
            "permission_mode": "default",
            "version": __version__,
        },
        {
            "type": "system",
            "subtype": "retry",
            "is_continuation": False,
            "reason": "max_tokens",
            "attempt": 1,
            "max_tokens": 64_000,
        },
        {"type": "system", "subtype": "output_escalated", "from": 8_000, "to": 64_000},
        {"type": "system", "subtype": "partial_restored", "text": "look"},
        {
            "type": "system",
            "subtype": "continuation_attempt",
            "index": 1,
            "output_tokens": 70,
            "output_chars": 300,
            "tokens_left": 5_000,
        },
        {"type": "system", "subtype": "continuation_terminated", "reason": "completed"},
        {
            "type": "system",
            "subtype": "stop_reason_observed",
            "provider": "demo",
            "model": "scripted",
            "reason": "tool_use",
            "raw": "tool_calls",
            "turn": 1,
            "step": 1,
        },
        {
            "type": "assistant",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": "npm test"}},
                ],
            },
            "session_id": "s-1",
        },
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok", "is_error": False}],
            },
            "session_id": "s-1",
        },
        {"type": "system", "subtype": "tool_payload_repair", "issue": "cut", "attempted": True, "succeeded": False},
        {"type": "system", "subtype": "api_retry", "attempt": 2, "delay_ms": 1500, "error": "rate limit"},
        {"type": "system", "subtype": "notice", "level": "warning", "text": "careful"},
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            "session_id": "s-1",
        },
    ]
    assert lines[-1]["type"] == "result"


def test_deltas_are_streamed_only_on_request() -> None:
    def script() -> Scripted:
        return Scripted(ReasoningDelta(0, "hm"), TextDelta(1, "hi"), reply("hi"), ended("hi"))

    assert "stream_event" not in kinds(run(script(), "stream-json").lines)
    lines = run(script(), "stream-json", include_partial_messages=True).lines
    assert lines[1:3] == [
        {
            "type": "stream_event",
            "event": {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "hm"},
            },
        },
        {
            "type": "stream_event",
            "event": {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}},
        },
    ]


def test_discarded_attempt_never_appears_as_an_assistant_line() -> None:
    conversation = Scripted(
        TextDelta(0, "discarded"),
        ev.Retry(False, "max_tokens", 1, 64_000),
        reply("kept"),
        ended("kept"),
    )
    ran = run(conversation, "stream-json")
    assert b"discarded" not in ran.stdout.replace(b"discarded_output_tokens", b"")
    assert kinds(ran.lines) == ["init", "retry", "assistant", "result"]


def test_empty_reply_has_no_line() -> None:
    ran = run(Scripted(reply(""), ended("")), "stream-json")
    assert kinds(ran.lines) == ["init", "result"]


def test_each_line_is_written_before_the_turn_continues() -> None:
    stdout = io.BytesIO()
    seen: list[int] = []

    class Looking(Scripted):
        def answer(self, approval_id: str, decision: object) -> None:
            seen.append(stdout.getvalue().count(b"\n"))

    conversation = Looking(
        reply("a", call()), ev.ApprovalRequested(ToolApproval(call(), "run?", "npm test")), ended("x")
    )
    asyncio.run(run_headless(agent_of(conversation, "stream-json"), "p", stdout=stdout, stderr=io.BytesIO()))
    assert seen == [2]


@pytest.mark.parametrize(
    ("changes", "subtype", "stop_reason"),
    [
        ({"outcome": Outcome.MAX_TOKENS, "stop": StopReason.MAX_TOKENS}, "error_max_tokens", "max_tokens"),
        ({"outcome": Outcome.REFUSAL}, "error_refusal", "refusal"),
        ({"outcome": Outcome.CANCELLED, "stop": None}, "error_cancelled", "cancelled"),
        (
            {"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.TOOL_CALLS},
            "error_max_tool_calls",
            "max_turn_requests",
        ),
        ({"outcome": Outcome.ERROR, "stop": None}, "error_during_execution", None),
    ],
)
def test_incomplete_answer_is_an_error_with_the_text_so_far(
    changes: dict[str, object], subtype: str, stop_reason: str | None
) -> None:
    result = run(Scripted(ended("so far", **changes)), "stream-json").result
    assert result["subtype"] == subtype
    assert result["is_error"] is True
    assert result["result"] == "so far"
    assert result["stop_reason"] == stop_reason


def test_error_is_in_the_result_and_in_one_line_on_stderr() -> None:
    error = ErrorInfo("auth", "OPENAI_API_KEY was refused", 401, "req_9")
    ran = run(Scripted(ended("", outcome=Outcome.ERROR, stop=None, error=error)), "json")
    assert ran.code == 41
    assert ran.result["error"] == {
        "kind": "auth",
        "message": "OPENAI_API_KEY was refused",
        "status": 401,
        "request_id": "req_9",
    }
    assert ran.result["raw_stop_reason"] is None
    assert ran.stderr == "qcode: OPENAI_API_KEY was refused (request req_9)\n"


def test_unreported_usage_is_null_and_not_zero() -> None:
    result = run(Scripted(ended("x", usage=Usage(), cost=None)), "json").result
    assert set(result["usage"].values()) == {None}
    assert result["total_cost_usd"] is None


def test_signals_are_listed_in_order_with_their_arguments() -> None:
    sent = ev.Signal("report", {"grade": 3}, 1.25)
    result = run(Scripted(ended("x", signals=(sent,))), "json").result
    assert result["signals"] == [{"tool_name": "report", "arguments": {"grade": 3}, "emitted_at": 1.25}]


def test_result_with_an_image_keeps_it() -> None:
    results = Message("user", (ToolResult("c1", "read", "a picture", images=(Image("image/png", "AAAA"),)),))
    lines = run(Scripted(ev.ResultsCommitted(results), ended()), "stream-json").lines
    assert lines[1]["message"]["content"][0]["content"] == [
        {"type": "text", "text": "a picture"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]


def test_arguments_that_json_cannot_represent_are_kept_as_text() -> None:
    message = assistant(call(arguments='{"n": 1e999}'), replace(call(arguments="not json"), call_id="c2"))
    lines = run(Scripted(ev.ReplyFinished(StopReason.TOOL_USE, "t", 1, message), ended()), "stream-json").lines
    assert [block["input"] for block in lines[1]["message"]["content"]] == [{"raw": "{'n': inf}"}, {"raw": "not json"}]


def test_api_time_leaves_out_tools_and_back_off() -> None:
    # The clock moves one second with each event; the turn has 8 of them, its two replies took 2 s and 1 s.
    moments = ticking(1)
    conversation = Scripted(
        ev.StepStarted(1),
        ev.Waiting(1, "busy"),
        TextDelta(0, "a"),
        reply("a", call()),
        ev.ToolStarted(call()),
        ev.StepStarted(2),
        reply("b"),
        ended("b"),
    )
    result = run(conversation, "json", clock=lambda: next(moments)).result
    assert result["duration_api_ms"] == 3000
    assert result["duration_ms"] >= 8000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec=None), max_size=9), json_values, max_size=4))
def test_any_value_is_one_line_of_utf8_and_survives_a_round_trip(value: dict[str, Json]) -> None:
    line = encode(value)
    text = line.decode("utf-8")
    assert len(text.splitlines()) == 1
    assert json.loads(text) == _with_pairs_joined(value)


def _with_pairs_joined(value: Json) -> Json:
    """Return the text as a JSON reader decodes it: two escapes may form one character."""
    return json.loads(json.dumps(value))  # type: ignore[no-any-return]  # json.loads is Any by nature


def test_lines_of_a_sub_agent_name_the_call_that_started_it() -> None:
    read = call("read", '{"path": "a"}', "a1/c1")
    inside: list[ev.TurnEvent] = [
        ev.TurnStarted("Look."),
        ev.Retry(False, "max_tokens", 1, 64_000),
        reply("I read.", read),
        ev.ResultsCommitted(Message("user", (ToolResult("a1/c1", "read", "text"),))),
        ev.UsageUpdated(Usage(), None, 0, 0),
    ]
    ran = run(Scripted(*(ev.AgentEvent("a1", event) for event in inside), ended("done")), "stream-json")
    lines = ran.lines[1:-1]
    assert [line["type"] for line in lines] == ["user", "assistant", "user"]
    assert {line["parent_tool_use_id"] for line in lines} == {"a1"}
    assert lines[1]["message"]["content"][1]["id"] == lines[2]["message"]["content"][0]["tool_use_id"] == "a1/c1"
    assert ran.result["result"] == "done"


def test_model_time_of_a_sub_agent_counts_as_api_time() -> None:
    clock = ticking(1)
    inside = [ev.AgentEvent("a1", ev.StepStarted(1)), ev.AgentEvent("a1", reply("x"))]
    assert run(Scripted(*inside, ended("done")), "json", clock=lambda: next(clock)).result["duration_api_ms"] > 0
