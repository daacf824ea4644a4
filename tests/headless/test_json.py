from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode import __version__
from qcode.agent.options import OutputFormat
from qcode.agent.usage import RecoveryMetrics
from qcode.headless.lines import encode
from qcode.headless.run import run_headless
from qcode.protocol import events as ev
from qcode.protocol.approvals import ToolApproval
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolResult, assistant
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.text.json import Json
from tests.headless.scripted import Scripted, Step, agent_of, call, ended, kinds, reply, run


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
    assert UUID(result.pop("uuid")).version == 4
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
        "error": None,
        "errors": [],
        "terminal_reason": "completed",
        "api_error_status": None,
        "modelUsage": {
            "demo/scripted": {
                "inputTokens": 15,
                "outputTokens": 30,
                "cacheReadInputTokens": 100,
                "cacheCreationInputTokens": 5,
                "webSearchRequests": 0,
                "costUSD": 0.0123,
                "contextWindow": 200_000,
                "maxOutputTokens": 32_000,
            }
        },
    }


def without_ids(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines of stream-json without the ids that differ from run to run; all of them differ."""
    ids = [line["uuid"] for line in lines]
    assert len(set(ids)) == len(ids)
    assert {line["session_id"] for line in lines} == {"s-1"}
    bare = json.loads(json.dumps(lines))
    for line in bare:
        del line["uuid"], line["session_id"]
        for message in (line.get("message", {}), line.get("event", {}).get("message", {})):
            if "id" in message:
                assert message.pop("id").startswith("msg_")
    return bare  # type: ignore[no-any-return]  # json.loads is Any by nature


NO_USAGE = {
    "input_tokens": None,
    "output_tokens": None,
    "cache_read_input_tokens": None,
    "cache_creation_input_tokens": None,
    "reasoning_tokens": None,
}


def answered(content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    """Return an assistant line without its ids."""
    message = {
        "type": "message",
        "role": "assistant",
        "model": "demo/scripted",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": NO_USAGE,
    }
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


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
        ev.ToolFinished(call(), ToolOutcome("exit code 0\nok", shown="ok"), "done"),
        ev.ResultsCommitted(results),
        ev.ToolPayloadRepair("cut", True, False),
        ev.Waiting(1.5, "rate limit", 2),
        ev.Notice("warning", "careful"),
        ev.StepStarted(2),
        reply("done"),
        ended("done"),
    )
    lines = run(conversation, "stream-json").lines
    assert without_ids(lines)[:-1] == [
        {
            "type": "system",
            "subtype": "init",
            "cwd": "/project",
            "model": "demo/scripted",
            "tools": ["read", "shell"],
            "permission_mode": "default",
            "version": __version__,
            "permissionMode": "default",
            "apiKeySource": "none",
            "mcp_servers": [],
            "slash_commands": [],
            "agents": [],
            "skills": [],
            "plugins": [],
            "output_style": "default",
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
        answered(
            [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "look"},
                {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": "npm test"}},
            ],
            "tool_use",
        ),
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok", "is_error": False}],
            },
            "parent_tool_use_id": None,
            "tool_use_result": {"stdout": "ok", "stderr": "", "interrupted": False, "isImage": False},
        },
        {"type": "system", "subtype": "tool_payload_repair", "issue": "cut", "attempted": True, "succeeded": False},
        {"type": "system", "subtype": "api_retry", "attempt": 2, "delay_ms": 1500, "error": "rate limit"},
        {"type": "system", "subtype": "notice", "level": "warning", "text": "careful"},
        answered([{"type": "text", "text": "done"}], "end_turn"),
    ]
    assert lines[-1]["type"] == "result"


def streamed(*steps: Step) -> list[dict[str, Any]]:
    """Return the stream events of a turn without ids."""
    lines = run(Scripted(*steps, ended()), "stream-json", include_partial_messages=True).lines
    events = [line for line in without_ids(lines) if line["type"] == "stream_event"]
    assert {line["parent_tool_use_id"] for line in events} <= {None}
    return [line["event"] for line in events]


def delta_of(index: int, kind: str, text: str) -> dict[str, Any]:
    field = kind.removesuffix("_delta") if kind != "input_json_delta" else "partial_json"
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}}


def block_of(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def ending_of(stop_reason: str) -> list[dict[str, Any]]:
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": NO_USAGE}, {"type": "message_stop"}]


START = {"type": "message_start", "message": answered([], None)["message"]}


def test_stream_events_are_sent_only_on_request() -> None:
    assert "stream_event" not in kinds(run(Scripted(TextDelta(0, "hi"), reply("hi"), ended("hi")), "stream-json").lines)


def test_stream_events_are_the_whole_sequence_of_a_message() -> None:
    message = assistant(Reasoning("hm"), Text("hi"), call())
    assert streamed(
        ReasoningDelta(0, "hm"),
        TextDelta(1, "h"),
        TextDelta(1, "i"),
        ev.ToolCallProgress(2, "c1", "shell", 10),
        ev.ReplyFinished(StopReason.TOOL_USE, "tool_calls", 1, message),
    ) == [
        START,
        block_of(0, type="thinking", thinking="", signature=""),
        delta_of(0, "thinking_delta", "hm"),
        {"type": "content_block_stop", "index": 0},
        block_of(1, type="text", text=""),
        delta_of(1, "text_delta", "h"),
        delta_of(1, "text_delta", "i"),
        {"type": "content_block_stop", "index": 1},
        block_of(2, type="tool_use", id="c1", name="shell", input={}),
        delta_of(2, "input_json_delta", '{"command": "npm test"}'),
        {"type": "content_block_stop", "index": 2},
        *ending_of("tool_use"),
    ]


def test_streamed_message_has_the_id_of_its_assistant_line() -> None:
    lines = run(Scripted(TextDelta(0, "a"), reply("a"), ended()), "stream-json", include_partial_messages=True).lines
    started = next(line["event"]["message"]["id"] for line in lines if line["type"] == "stream_event")
    assert [line["message"]["id"] for line in lines if line["type"] == "assistant"] == [started]


def test_continuation_is_streamed_as_one_message_and_an_escalation_starts_a_new_one() -> None:
    continued = streamed(TextDelta(0, "a"), ev.Retry(True, "max_tokens", 1, 9), TextDelta(0, "b"), reply("ab"))
    assert [event["type"] for event in continued].count("message_start") == 1
    escalated = streamed(TextDelta(0, "a"), ev.Retry(False, "max_tokens", 1, 9), TextDelta(0, "b"), reply("b"))
    assert [event["type"] for event in escalated] == [
        *("message_start", "content_block_start", "content_block_delta"),
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


def test_truncated_call_is_never_streamed() -> None:
    cut = ev.ReplyFinished(StopReason.MAX_TOKENS, "length", 1, assistant(Text("a")))
    kinds_seen = [event["type"] for event in streamed(TextDelta(0, "a"), ev.ToolCallProgress(1, "c", "write", 9), cut)]
    assert kinds_seen.count("content_block_start") == 1


def test_usage_of_a_reply_is_its_last_request_with_all_kept_output() -> None:
    attempts = (
        ev.AttemptRecord("first", 8_000, "max_tokens", Usage(100, 8_000), is_discarded=True),
        ev.AttemptRecord("escalated", 64_000, "max_tokens", Usage(100, 64_000, cache_read=20)),
        ev.AttemptRecord("continuation", 64_000, "end_turn", Usage(64_100, 5, cache_read=30)),
    )
    finished = ev.ReplyFinished(StopReason.END_TURN, "stop", 2, assistant(Text("a")), attempts)
    (line,) = [item for item in run(Scripted(finished, ended()), "stream-json").lines if item["type"] == "assistant"]
    usage = line["message"]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (64_070, 30, 64_005)


def test_several_results_have_their_outcomes_in_order() -> None:
    write = call("write", '{"path": "a.txt", "content": "x"}', "c2")
    results = Message("user", (ToolResult("c1", "shell", "no", is_error=True), ToolResult("c2", "write", "written")))
    lines = run(
        Scripted(
            ev.ToolFinished(write, ToolOutcome("written"), "done"),
            ev.ToolFinished(call(), ToolOutcome("no", is_error=True), "cancelled"),
            ev.ResultsCommitted(results),
            ended(),
        ),
        "stream-json",
    ).lines
    assert lines[1]["tool_use_result"] == [
        {"stdout": "no", "stderr": "", "interrupted": True, "isImage": False},
        {"filePath": "a.txt", "success": True},
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outcome": Outcome.MAX_TOKENS}, "completed"),
        ({"outcome": Outcome.CANCELLED}, "aborted_streaming"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.TOOL_CALLS}, "max_turns"),
        ({"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.COST}, "budget_exhausted"),
        ({"outcome": Outcome.ERROR, "error": ErrorInfo("context_overflow", "too long", 400)}, "prompt_too_long"),
        ({"outcome": Outcome.ERROR, "error": ErrorInfo("overloaded", "busy", 529)}, "api_error"),
        (
            {"outcome": Outcome.ERROR, "error": ErrorInfo("structured_output", "no")},
            "structured_output_retry_exhausted",
        ),
    ],
)
def test_error_result_says_why_in_errors_and_in_terminal_reason(changes: dict[str, Any], reason: str) -> None:
    ran = run(Scripted(ended("so far", **changes)), "stream-json")
    assert ran.result["terminal_reason"] == reason
    (text,) = ran.result["errors"]
    assert f"qcode: {text}" in ran.stderr
    error = changes.get("error")
    assert ran.result["api_error_status"] == (error.status if error is not None else None)


def test_turn_that_is_cancelled_while_a_tool_runs_says_so() -> None:
    result = run(Scripted(ev.ToolStarted(call()), ended("", outcome=Outcome.CANCELLED)), "json").result
    assert result["terminal_reason"] == "aborted_tools"


def test_usage_is_split_between_models_and_sums_up() -> None:
    first = ev.ModelUsage("demo/scripted", Usage(10, 1), Decimal("0.5"))
    other = ev.ModelUsage("demo/other", Usage(20, 3), Decimal("0.25"))
    result = run(
        Scripted(
            ev.UsageUpdated(Usage(10, 1), Decimal("0.5"), 11, 1_000, (first,)),
            ev.ModelFellBack("demo/scripted", "demo/other", None),
            ev.UsageUpdated(Usage(30, 4), Decimal("0.75"), 34, 2_000, (first, other)),
            ended("x", usage=Usage(30, 4), cost=Decimal("0.75"), by_model=(first, other)),
        ),
        "json",
    ).result
    rows = result["modelUsage"]
    assert {model: (row["inputTokens"], row["outputTokens"], row["costUSD"]) for model, row in rows.items()} == {
        "demo/scripted": (10, 1, 0.5),
        "demo/other": (20, 3, 0.25),
    }
    assert [row["contextWindow"] for row in rows.values()] == [1_000, 2_000]


def test_refused_model_costs_nothing_if_another_one_answers() -> None:
    refused = ev.ModelUsage("demo/scripted", Usage(), Decimal(0))
    other = ev.ModelUsage("demo/other", Usage(20, 3), Decimal("0.25"))
    result = run(
        Scripted(
            ev.UsageUpdated(Usage(), Decimal(0), 11, 1_000, (refused,)),
            ev.ModelFellBack("demo/scripted", "demo/other", None),
            ended("x", usage=Usage(20, 3), cost=Decimal("0.25"), by_model=(refused, other)),
        ),
        "json",
    ).result
    costs = {model: row["costUSD"] for model, row in result["modelUsage"].items()}
    assert costs == {"demo/scripted": 0, "demo/other": 0.25}


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


@pytest.mark.parametrize("format", ["json", "stream-json"])
def test_long_text_is_never_shortened(format: OutputFormat) -> None:
    text = "line of text\n" * 100_000
    ran = run(Scripted(reply(text), ended(text)), format)
    assert (ran.result["result"], ran.result["text"]) == (text, text)
    if format == "stream-json":
        assert ran.lines[1]["message"]["content"] == [{"type": "text", "text": text}]


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


def test_signal_that_json_cannot_represent_is_kept_as_text() -> None:
    sent = ev.Signal("report", {"grade": float("inf")}, 1.25)
    result = run(Scripted(ended("x", signals=(sent,))), "json").result
    assert result["signals"][0]["arguments"] == '{"grade": Infinity}'


def test_signal_that_is_nested_too_deeply_is_replaced_by_a_note() -> None:
    signals = tuple(ev.Signal("report", nested(depth), 1.25) for depth in (*range(800, 1000), 3_000))
    result = run(Scripted(ended("x", signals=signals)), "json").result
    listed = [signal["arguments"] for signal in result["signals"]]
    assert listed[0] == nested(800)
    assert listed[-1] == "(nested too deeply)"


def nested(depth: int) -> dict[str, Json]:
    value: dict[str, Json] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


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
    assert [block["input"] for block in lines[1]["message"]["content"]] == [
        {"raw": '{"n": 1e999}'},
        {"raw": "not json"},
    ]


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
