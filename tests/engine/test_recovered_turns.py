"""Budgets, the window, learned limits and prefill: each edge case of recovery as one played turn."""

from __future__ import annotations

from decimal import Decimal

import pytest

from qcode.engine.caps import OutputSettings
from qcode.engine.effects import TurnSettings
from qcode.engine.model_facts import HostKnowledge, KnownModel, Learn, LearnedLimit
from qcode.protocol import events as ev
from qcode.protocol.errors import ErrorKind
from qcode.protocol.messages import Text, ToolCall, ToolResult, assistant
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import (
    Limit,
    Outcome,
    ReasoningDelta,
    ReplyEnded,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.usage import Price, Usage
from tests.engine.play import (
    TOOLS,
    Player,
    Script,
    broken,
    calls,
    cut,
    finished,
    play,
    reasons,
    refused,
    retries,
    text,
)

SMALL_MODEL = OutputSettings(override=500)
PREFILL = ModelFacts(can_prefill=True, max_output_tokens=4_096)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_continuations_stop_at_the_configured_count(count: int) -> None:
    output = OutputSettings(override=500, max_continuations=count)
    played = play(*[cut(f"{index} ") for index in range(count + 1)], output=output)
    assert len(played.requests) == count + 1
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert reasons(played) == ["retry_limit"]


def test_first_truncation_is_escalated_without_continuations() -> None:
    played = play(cut("lost"), cut("kept"), output=OutputSettings(max_continuations=0))
    assert played.caps == [8_000, 64_000]
    assert played.end.text == "kept"


def test_continue_policy_never_withdraws_shown_text() -> None:
    played = play(cut("One, "), cut("two, "), text("three."), output=OutputSettings(policy="continue"))
    assert played.caps == [8_000, 64_000, 64_000]
    assert played.end.text == "One, two, three."
    assert retries(played) == [(True, "max_tokens")] * 2


APPEND_ONLY = OutputSettings(is_append_only=True)


def test_append_only_text_is_continued_and_never_taken_back() -> None:
    played = play(cut("One, "), cut("two, "), text("three."), output=APPEND_ONLY)
    assert played.caps == [8_000, 64_000, 64_000]
    assert played.end.text == "One, two, three."
    assert retries(played) == [(True, "max_tokens")] * 2


def test_append_only_reply_without_text_is_escalated() -> None:
    played = play(calls(("write", '{"path": "a'), stop=StopReason.MAX_TOKENS), text("done"), output=APPEND_ONLY)
    assert played.caps == [8_000, 64_000]
    assert retries(played) == [(False, "max_tokens")]


def test_append_only_text_before_a_truncated_call_stays_and_the_next_request_has_the_larger_cap() -> None:
    half = calls(("shell", '{"command": "ls"}'), ("write", '{"path": "a'), stop=StopReason.MAX_TOKENS, before="Both.")
    played = play(half, text("done"), text("again"), output=APPEND_ONLY)
    assert played.caps == [8_000, 64_000]
    assert [run.call.name for run in played.ran] == ["shell"]
    assert retries(played) == []
    guidance = played.requests[1].messages[-1].blocks[-1]
    assert isinstance(guidance, ToolResult)
    assert guidance.content == (
        "The output limit of 8000 tokens cut this `write` call before its arguments were complete. It was not run. "
        "Send it again: the limit is higher now."
    )


def test_append_only_call_that_is_truncated_again_gets_split_guidance() -> None:
    half = calls(("write", '{"path": "a'), stop=StopReason.MAX_TOKENS, before="Now.")
    played = play(half, half, text("done"), output=APPEND_ONLY)
    assert played.caps == [8_000, 64_000, 8_000]
    guidance = played.requests[2].messages[-1].blocks[-1]
    assert isinstance(guidance, ToolResult)
    assert "You MUST split it" in guidance.content


def test_tokens_of_a_call_truncated_at_the_limit_of_the_model_are_counted_apart_from_discarded_ones() -> None:
    half = '{"path": "a", "content": "' + "word " * 100
    truncated = calls(("write", half), stop=StopReason.MAX_TOKENS, output=8_000, before="Now.")
    played = play(truncated, truncated, text("done"))
    assert played.caps == [8_000, 64_000, 8_000]
    assert played.end.discarded_output_tokens == 8_000, "the first attempt was replaced"
    assert played.end.truncated_call_tokens == len(half) // 4 + 1
    first_reply = next(event for event in played.events if isinstance(event, ev.ReplyFinished))
    (_, record) = first_reply.attempts
    assert record.truncated_call_tokens == played.end.truncated_call_tokens
    assert not record.is_discarded
    few = calls(("write", half), stop=StopReason.MAX_TOKENS, output=5)
    assert play(few, text("done"), output=SMALL_MODEL).end.truncated_call_tokens == 5, "no more than the host reported"
    complete = calls(("shell", '{"command": "ls"}'), stop=StopReason.MAX_TOKENS)
    assert play(complete, text("done"), output=SMALL_MODEL).end.truncated_call_tokens == 0


def test_append_only_text_before_a_broken_call_is_continued_without_the_call() -> None:
    begun = broken(TextDelta(0, "First. "), ToolCallStarted(1, "c0", "shell"), ToolArgsDelta(1, '{"command": "rm'))
    played = play(begun, calls(("shell", '{"command": "ls"}')), text("done"), output=APPEND_ONLY)
    assert [run.arguments for run in played.ran] == [{"command": "ls"}]
    assert retries(played) == [(True, "transport")]
    assert played.messages[1].text == "First. "


def test_append_only_text_before_an_unreadable_call_is_continued() -> None:
    unreadable = text("First. ", stop=StopReason.MALFORMED_CALL)
    played = play(unreadable, text("second."), output=APPEND_ONLY)
    assert retries(played) == [(True, "call")]
    assert played.end.text == "First. second."


def test_text_is_continued_at_the_first_cap_without_escalation() -> None:
    played = play(cut("One, "), text("two."), output=OutputSettings(can_escalate=False))
    assert played.caps == [8_000, 8_000]


def test_token_budget_bounds_the_last_continuation_and_then_ends_recovery() -> None:
    output = OutputSettings(override=500, max_total_completion_tokens=800)
    played = play(cut("One ", output=500), cut("two ", output=300), output=output)
    assert played.caps == [500, 300]
    assert reasons(played) == ["budget_exhausted"]
    assert [e.tokens_left for e in played.events if isinstance(e, ev.ContinuationAttempt)] == [300]


def test_unreported_tokens_are_estimated() -> None:
    output = OutputSettings(override=500, max_total_completion_tokens=100)
    played = play(cut("x" * 400), output=output)
    assert len(played.requests) == 1
    assert reasons(played) == ["budget_exhausted"]


def test_discarded_attempt_does_not_count_in_the_budget() -> None:
    output = OutputSettings(max_total_completion_tokens=70_000)
    played = play(cut("lost", output=8_000), cut("kept ", output=64_000), text("end"), output=output)
    assert played.caps == [8_000, 64_000, 6_000]


def test_character_budget_is_checked_before_a_continuation_not_during_one() -> None:
    output = OutputSettings(override=500, max_total_output_chars=10)
    played = play(cut("0123456789 and more"), output=output)
    assert played.end.text == "0123456789 and more"
    assert reasons(played) == ["budget_exhausted"]


def test_restored_partial_counts_in_the_budget_and_its_replacement_does_not() -> None:
    output = OutputSettings(max_total_completion_tokens=10_000)
    thought: Script = [
        ReasoningDelta(0, "hm"),
        UsageReported(Usage(output=64_000)),
        ReplyEnded(StopReason.MAX_TOKENS, ""),
    ]
    played = play(cut("One ", output=8_000), thought, text("two."), output=output)
    assert played.caps == [8_000, 64_000, 2_000]
    assert played.end.text == "One two."


def test_reply_is_escalated_only_once() -> None:
    output = OutputSettings(min_escalation_gain=1.0)
    played = play(cut("lost", output=8_000), cut("One ", output=64_000), text("two."), output=output)
    assert played.end.api_calls.escalations == 1
    assert played.end.text == "One two."


def test_each_reply_has_new_budgets() -> None:
    played = play(
        cut("a"), calls(("read", '{"path": "x"}'), before="b"), cut("c"), text("d"), output=OutputSettings(override=64)
    )
    assert played.end.api_calls.initial == 2
    assert [e.index for e in played.events if isinstance(e, ev.ContinuationAttempt)] == [1, 1]


def test_cost_budget_applies_without_reported_usage() -> None:
    price = Price(Decimal(1_000), Decimal(1_000))
    settings = TurnSettings("s", TOOLS, max_budget_usd=Decimal("0.01"))
    played = play(calls(("read", '{"path": "x"}'), output=None), settings=settings, facts=ModelFacts(price=price))
    assert played.end.limit is Limit.COST
    assert played.end.cost is None


@pytest.mark.parametrize(
    ("limit", "caps"), [("0.001", [8_000]), ("0.02", [8_000, 64_000]), ("0.05", [8_000, *[64_000] * 2])]
)
def test_cost_budget_ends_a_recovery_and_keeps_the_text(limit: str, caps: list[int]) -> None:
    price = Price(Decimal(0), Decimal(1))
    settings = TurnSettings("s", TOOLS, max_budget_usd=Decimal(limit))
    replies = (cut("one", output=8_000), cut("one two", output=20_000), cut(" three", output=40_000), text(" four"))
    played = play(*replies, settings=settings, facts=ModelFacts(price=price))
    assert played.caps == caps
    assert played.end.limit is Limit.COST
    assert played.end.outcome is Outcome.MAX_TURN_REQUESTS
    assert played.end.text == ("one", "one two", "one two three")[len(caps) - 1]
    assert limit in finished(played).note


def test_broken_stream_is_not_replayed_if_the_cost_budget_is_spent() -> None:
    price = Price(Decimal(0), Decimal(1))
    settings = TurnSettings("s", TOOLS, max_budget_usd=Decimal("0.000001"))
    played = play(broken(TextDelta(0, "some text")), text("more"), settings=settings, facts=ModelFacts(price=price))
    assert len(played.requests) == 1
    assert played.end.text == "some text"


def test_request_that_never_reached_the_host_costs_nothing() -> None:
    facts = ModelFacts(price=Price(Decimal(1), Decimal(1)))
    played = play(broken(kind=ErrorKind.UNREACHABLE), text("Hi."), facts=facts)
    assert played.end.cost == Decimal("0.00011")


def test_prompt_without_room_is_refused_before_any_request() -> None:
    player = Player(facts=ModelFacts(context_window=5_000))
    played = player.play("word " * 3_000)
    assert played.requests == []
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.CONTEXT_OVERFLOW
    assert (played.end.replies, played.end.api_calls.total) == (0, 0)


@pytest.mark.parametrize(
    ("window", "sum"),
    [
        (5_000, "(about 3,839 tokens) leaves no room for a reply in the context window of 5,000 (2,048 are a safety "),
        (3_000, "(about 3,839 tokens) leaves no room for a reply in the context window of 3,000. Shorten it"),
    ],
)
def test_message_for_a_prompt_without_room_has_the_numbers_that_exceed_the_window(window: int, sum: str) -> None:
    played = Player(facts=ModelFacts(context_window=window)).play("word " * 3_000)
    assert played.end.error is not None
    assert sum in played.end.error.message


def test_every_request_is_clamped_again_as_the_text_grows() -> None:
    long = "".join(f"line {index} of many\n" for index in range(300))
    played = play(cut(long), text("end"), facts=ModelFacts(context_window=12_000, max_output_tokens=9_000))
    first, second = played.caps
    assert first == 8_000
    assert second < 9_000


def test_reply_without_room_to_continue_keeps_its_text_and_names_the_figures() -> None:
    long = "".join(f"line {index} of many\n" for index in range(1_200))
    played = play(cut(long), output=SMALL_MODEL, facts=ModelFacts(context_window=8_000))
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.end.text == long
    assert "8,000" in finished(played).note
    assert reasons(played) == ["budget_exhausted"]


def test_broken_stream_without_room_to_continue_keeps_the_text() -> None:
    long = "".join(f"line {index} of many\n" for index in range(1_200))
    played = play(broken(TextDelta(0, long)), facts=ModelFacts(context_window=8_000))
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.end.text == played.shown == long


@pytest.mark.parametrize("before", [[], ["Some text."]])
def test_full_context_keeps_the_text(before: list[str]) -> None:
    played = play(text(*before, stop=StopReason.CONTEXT_WINDOW_EXCEEDED))
    assert played.end.text == "".join(before)
    assert played.end.outcome is (Outcome.MAX_TOKENS if before else Outcome.ERROR)
    assert played.end.stop is StopReason.CONTEXT_WINDOW_EXCEEDED


def test_escalation_without_a_gain_is_skipped() -> None:
    played = play(cut("The first half "), refused("Range of max_tokens should be [1, 8192]"), text("and the second."))
    assert played.caps == [8_000, 64_000, 8_192]
    assert played.shown == played.end.text == "The first half and the second."
    assert [record.is_discarded for record in finished(played).attempts] == [False, False, False]
    counts = played.end.api_calls
    assert (counts.escalations, counts.continuations, counts.retries) == (1, 1, 0)


def test_cut_call_whose_escalation_gains_nothing_is_rejected() -> None:
    half = calls(("write", '{"path": "a", "content": "x'), stop=StopReason.MAX_TOKENS, output=8_000, before="Now:")
    played = play(half, refused("Range of max_tokens should be [1, 8192]"), text("Smaller, then."))
    assert [block.call_id for block in played.messages[1].blocks if isinstance(block, ToolCall)] == ["c0"]
    assert played.messages[1].text == "Now:"
    assert played.ran == []


def test_escalation_is_retried_at_a_learned_limit_that_is_large_enough() -> None:
    played = play(cut("lost"), refused("supports at most 16384 completion tokens"), text("whole"))
    assert played.caps == [8_000, 64_000, 16_384]
    assert played.end.text == "whole"
    assert retries(played) == [(False, "max_tokens")]


def test_window_named_by_a_refusal_is_learned_with_the_size_of_the_prompt() -> None:
    played = play(refused("max_total_tokens (33802) must be <= max_seq_len (32768)"), text("Hi."))
    assert played.learned == [Learn(LearnedLimit("window", 32_768, total=33_802))]
    assert played.caps == [8_000, 32_768 - 25_802 - 1_024]


def test_named_window_is_trusted_over_the_local_count() -> None:
    played = play(refused("This model's maximum context length is 9000 tokens."), text("Hi."))
    assert played.caps[1] < 8_000 - 1_024


def test_prompt_larger_than_the_learned_window_ends_with_the_figures_and_is_remembered() -> None:
    played = play(refused("prompt is too long: 210000 tokens > 200000 maximum", ErrorKind.CONTEXT_OVERFLOW))
    assert len(played.learned) == 1
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.CONTEXT_OVERFLOW
    assert "210,000" in played.end.error.message


def test_limit_is_learned_once_per_request() -> None:
    message = "supports at most 4096 completion tokens"
    played = play(refused(message), refused(message))
    assert played.caps == [8_000, 4_096]
    assert played.end.outcome is Outcome.ERROR


def test_refusal_that_names_no_limit_is_an_ordinary_error() -> None:
    played = play(refused("tools: too many"))
    assert played.learned == []
    assert played.end.error is not None
    assert played.end.error.message == "tools: too many"


def test_silently_truncating_host_is_remembered_and_not_escalated_again() -> None:
    short = "word " * 400
    played = play(cut(short, output=2_000), cut(short, output=2_000), text("end"))
    assert played.learned == [Learn("silently_capped")]
    model = KnownModel("test", "m", host=HostKnowledge(is_silently_capped=True))
    assert play(cut("One "), text("two."), model=model).caps == [8_000, 64_000]


def test_host_that_reports_no_usage_is_not_suspected() -> None:
    played = play(cut("word " * 400), cut("word " * 400), text("end"))
    assert played.learned == []


def test_longer_escalated_attempt_does_not_mark_the_host() -> None:
    played = play(cut("x", output=2_000), cut("x", output=20_000), text("end"))
    assert played.learned == []


def test_host_that_continues_a_message_gets_a_prefill_and_its_seam_is_unchanged() -> None:
    played = play(cut("The end, the end,"), text(" the end, the end."), facts=PREFILL)
    resumed = played.requests[1]
    assert resumed.is_prefill
    assert resumed.messages[-1] == assistant(Text("The end, the end,"))
    assert played.end.text == "The end, the end, the end, the end."


def test_host_that_refuses_a_prefill_is_remembered_and_gets_a_resume_message() -> None:
    played = play(cut("One, two,"), refused("prefill is not supported"), text("two, three."), facts=PREFILL)
    assert played.learned == [Learn("refuses_prefill")]
    assert not played.requests[2].is_prefill
    assert [message.role for message in played.requests[2].messages] == ["user", "assistant", "user"]
    assert played.end.api_calls.continuations == played.end.api_calls.retries == 1
