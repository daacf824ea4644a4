"""Replies that only think, pause, break or are malformed: the stored part and the notice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qcode.engine.caps import OutputSettings
from qcode.engine.effects import CancelRequested, TurnSettings, UserSubmitted
from qcode.engine.model_facts import KnownModel
from qcode.protocol import events as ev
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Message, Opaque, Reasoning, Text, ToolCall, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import (
    BlockEnded,
    Limit,
    Outcome,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.usage import Usage
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
    thinking,
)

SMALL_MODEL = OutputSettings(override=500)


def test_thinking_only_reply_is_asked_for_the_answer_with_less_effort() -> None:
    settings = TurnSettings("s", TOOLS, effort="high")
    played = play(thinking("hm"), thinking("hm"), text("Answer."), settings=settings)
    assert [request.effort for request in played.requests] == ["high", "high", "low"]
    assert played.end.text == "Answer."
    assert reasons(played) == ["completed"]


def test_empty_truncated_reply_is_escalated_once_and_not_nudged() -> None:
    played = play(cut(), cut())
    assert played.caps == [8_000, 64_000]
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert "before any text" in finished(played).note


def test_notice_suggests_a_higher_output_limit_unless_a_request_failed() -> None:
    remedy = "or set a higher --max-output-tokens."
    assert finished(play(cut("One "), cut("One "), *[cut("more ")] * 3)).note.endswith(f"Ask to continue, {remedy}")
    note = finished(play(cut("One "), refused("no"))).note
    assert note.endswith("the last request failed: no. Ask to continue.")


@pytest.mark.parametrize(
    ("limit", "override", "suggests"),
    [(None, None, True), (64_000, None, False), (64_000, 8_000, True), (8_000, 8_000, False)],
)
@pytest.mark.parametrize(
    ("script", "advice"),
    [
        ([cut("One ")] * 5, "Ask to continue"),
        ([thinking("hm")] * 3, "Lower the reasoning effort"),
        ([cut()] * 3, "Ask for less at once"),
    ],
    ids=["text", "thinking", "empty"],
)
def test_higher_output_limit_is_suggested_only_below_the_limit_of_the_model(
    script: list[Script], advice: str, limit: int | None, override: int | None, suggests: bool
) -> None:
    model = KnownModel("p", "m", ModelFacts(max_output_tokens=limit))
    note = finished(play(*script, model=model, output=OutputSettings(override=override))).note
    assert note.endswith(f"{advice}, or set a higher --max-output-tokens." if suggests else f"{advice}.")


def test_higher_output_limit_is_not_suggested_if_the_window_lowered_the_cap() -> None:
    model = KnownModel("p", "m", ModelFacts(context_window=12_000))
    assert finished(play(*[cut("One ")] * 5, model=model)).note.endswith("Ask to continue.")


def test_higher_output_limit_is_not_suggested_if_an_output_budget_is_used_up() -> None:
    output = OutputSettings(max_total_completion_tokens=9_000)
    assert finished(play(*[cut("One ", output=8_000)] * 5, output=output)).note.endswith("Ask to continue.")


@pytest.mark.parametrize(("limit", "suggests"), [(None, True), (500, False)])
def test_higher_output_limit_is_suggested_for_a_truncated_call_only_if_the_model_allows_it(
    limit: int | None, suggests: bool
) -> None:
    model = KnownModel("p", "m", ModelFacts(max_output_tokens=limit))
    reads = [calls(("shell", '{"command": "ec'), stop=StopReason.MAX_TOKENS)] * 2
    notices = [
        event.text for event in play(*reads, model=model, output=SMALL_MODEL).events if isinstance(event, ev.Notice)
    ]
    assert any("2 times in a row" in text for text in notices)
    assert any("--max-output-tokens" in text for text in notices) is suggests


def test_partial_text_is_preferred_to_an_escalated_thinking_only_attempt() -> None:
    played = play(cut("The first half ", output=8_000), thinking("hm"), text("and the second."))
    assert played.shown == played.end.text == "The first half and the second."
    assert [record.is_discarded for record in finished(played).attempts] == [False, True, False]
    assert played.end.discarded_output_tokens == 0
    assert len(played.of(ev.PartialRestored)) == 1


def test_escalated_attempt_that_is_truncated_with_less_text_is_continued() -> None:
    played = play(cut("The first half ", output=8_000), cut("One, ", output=64_000), text("two."))
    assert played.shown == played.end.text == "One, two."
    assert played.caps == [8_000, 64_000, 64_000]
    assert not played.of(ev.PartialRestored)


def test_escalated_attempt_replaces_a_longer_partial_if_it_is_complete_or_has_a_call() -> None:
    assert play(cut("A long first half "), text("Short.")).end.text == "Short."
    called = play(cut("A long first half "), calls(("read", '{"path": "a"}'), before="Look."), text("Done."))
    assert called.messages[1].text == "Look."
    assert len(called.ran) == 1


def test_refusal_with_a_call_keeps_the_partial() -> None:
    refused_call = calls(("read", '{"path": "a"}'), stop=StopReason.REFUSAL)
    played = play(cut("The partial."), refused_call)
    assert played.end.outcome is Outcome.REFUSAL
    assert played.end.text == played.shown == "The partial."
    assert played.ran == []


def test_refusal_says_that_text_was_kept_only_if_there_is_text() -> None:
    kept = play(text("No", stop=StopReason.REFUSAL, raw="content_filter"))
    assert finished(kept).note.endswith("(content_filter). The text before that is kept.")
    empty = play(text("", stop=StopReason.REFUSAL, raw="content_filter"))
    assert finished(empty).note.endswith("(content_filter). Rephrase the request, or try another model.")


def malformed(*events: ReplyEvent) -> Script:
    return [*events, ReplyEnded(StopReason.MALFORMED_CALL, "MALFORMED_FUNCTION_CALL")]


def test_unreadable_call_is_requested_once_more() -> None:
    played = play(malformed(TextDelta(0, "Reading.")), calls(("read", '{"path": "a"}')), text("Done."))
    assert "could not be parsed" in played.requests[1].messages[-1].text
    assert played.of(ev.ToolPayloadRepair) == [ev.ToolPayloadRepair("malformed_call", attempted=True, succeeded=True)]
    assert len(played.ran) == 1
    assert played.end.text == "Done."


def test_second_unreadable_call_ends_the_turn_with_the_text() -> None:
    played = play(malformed(TextDelta(0, "Reading.")), malformed())
    assert played.end.outcome is Outcome.ERROR
    assert played.end.text == played.shown == "Reading."


def test_unreadable_call_after_continued_text_keeps_the_text() -> None:
    played = play(
        cut("Let me see. "), malformed(TextDelta(0, "I read it.")), calls(("read", '{"path": "a"}')), text("Done."),
        output=SMALL_MODEL,
    )  # fmt: skip
    asked = played.requests[2].messages
    assert [message.role for message in asked] == ["user", "assistant", "user"]
    assert asked[1].text == "Let me see. I read it."
    assert played.messages[1].text == "Let me see. I read it."
    assert retries(played) == [(True, "max_tokens"), (True, "call")]


def test_paused_reply_is_resumed_and_both_parts_are_the_answer() -> None:
    played = play(text("First, ", stop=StopReason.PAUSED), text("then the rest."))
    assert played.requests[1].messages == (user("go"), assistant(Text("First,")))
    assert played.end.text == "First, then the rest."
    assert played.end.replies == 2


def test_reply_truncated_after_a_pause_is_continued_in_one_assistant_message() -> None:
    played = play(text("First, ", stop=StopReason.PAUSED), cut("then "), text("the rest."), output=SMALL_MODEL)
    assert [message.role for message in played.requests[2].messages] == ["user", "assistant", "user"]
    assert played.end.text == "First, then the rest."


def test_pauses_are_bounded_by_the_turn_limit() -> None:
    settings = TurnSettings("s", TOOLS, max_turns=2)
    played = play(*[text("x", stop=StopReason.PAUSED)] * 2, settings=settings)
    assert played.end.limit is Limit.TURNS


def test_shown_thinking_is_replayed_without_using_the_budget_of_breaks() -> None:
    thought = broken(ReasoningDelta(0, "hm"))
    played = play(thought, thought, thought, thought, text("Answer."))
    assert played.end.text == "Answer."
    assert retries(played) == [(False, "transport")] * 4


def test_stream_broken_after_only_white_space_is_replayed() -> None:
    played = play(broken(TextDelta(0, "\n\n")), text("Answer."))
    assert played.requests[0].messages == played.requests[1].messages
    assert played.end.text == played.shown == "Answer."


def test_text_resets_the_count_of_consecutive_failures() -> None:
    flood = [refused("slow down", ErrorKind.RATE_LIMIT)] * 5
    played = play(*flood, broken(TextDelta(0, "Half ")), *flood[:4], text("and half."))
    assert played.end.text == "Half and half."
    assert played.waits[5] <= 1


def test_breaks_inside_recovery_use_no_continuation() -> None:
    played = play(
        cut("a"), broken(TextDelta(0, "One ")), cut("two "), cut("three "), refused("busy", ErrorKind.OVERLOADED),
        cut("four "), cut("five"),
    )  # fmt: skip
    counts = played.end.api_calls
    assert (counts.escalations, counts.continuations, counts.retries) == (1, 3, 2)
    assert played.end.text == played.shown == "One two three four five"
    assert played.end.outcome is Outcome.MAX_TOKENS


def test_unfinished_call_in_a_broken_continuation_is_dropped_and_the_text_continued() -> None:
    half = broken(TextDelta(0, "two "), ToolCallStarted(1, "c9", "read"), ToolArgsDelta(1, '{"path": "z"}'))
    played = play(
        cut("one "), half, calls(("read", '{"path": "a"}'), before="three"), text("Done."), output=SMALL_MODEL
    )
    assert [run.arguments["path"] for run in played.ran] == ["a"]
    assert played.messages[1].text == "one two three"


def test_text_is_a_truncated_answer_after_the_last_retry_of_a_recovery() -> None:
    played = play(cut("One "), *[refused("busy", ErrorKind.OVERLOADED)] * 6, output=SMALL_MODEL)
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.end.text == "One "
    assert reasons(played) == ["error"]
    assert "busy (after 5 retries)" in finished(played).note


def test_cancel_in_a_backoff_sends_nothing_and_keeps_the_text() -> None:
    player = Player(broken(TextDelta(0, "Half ")), text("never"))
    player.give(UserSubmitted(user("go")))
    while not player.played.waits:
        player.step()
    player.give(CancelRequested())
    player.drop_queued()
    assert len(player.played.requests) == 1
    assert player.played.messages[-1] == assistant(Text("Half "))
    assert finished(player.played).note


def test_signed_thinking_keeps_its_position_and_trailing_unsigned_is_dropped() -> None:
    signature = Opaque("anthropic", "{}")
    signed: Script = [ReasoningDelta(0, "a"), BlockEnded(0, signature), TextDelta(1, "Text "), ReasoningDelta(2, "b")]
    played = play([*signed, ReplyEnded(StopReason.MAX_TOKENS, "length")], text("end."), output=SMALL_MODEL)
    assert played.messages[-1] == assistant(Reasoning("a", signature), Text("Text end."))


def test_white_space_after_dropped_thinking_stays_in_the_text() -> None:
    begun: Script = [TextDelta(0, "One"), ReasoningDelta(1, "hm"), TextDelta(2, "\n")]
    played = play([*begun, ReplyEnded(StopReason.MAX_TOKENS, "length")], text("two."), output=SMALL_MODEL)
    assert played.end.text == played.shown == "One\ntwo."


def test_unsigned_thinking_is_kept_before_a_call_and_dropped_between_text_and_call() -> None:
    call: Script = [ToolCallStarted(8, "c", "read"), ToolArgsDelta(8, '{"path": "a"}')]
    end: Script = [ReplyEnded(StopReason.TOOL_USE, "tool_calls")]
    first = play([ReasoningDelta(0, "hm"), *call, *end], text("Done."))
    assert first.messages[1].blocks == (Reasoning("hm"), ToolCall("c", "read", '{"path": "a"}'))
    second = play([TextDelta(0, "x"), ReasoningDelta(1, "hm"), *call, *end], text("Done."))
    assert second.messages[1].blocks == (Text("x"), ToolCall("c", "read", '{"path": "a"}'))


def test_white_space_is_stored_as_shown_and_not_sent() -> None:
    played = play(calls(("read", '{"path": "a"}'), before="\n\n"), text("Done."))
    assert played.messages[1].text == "\n\n"
    assert played.requests[1].messages[1].text == ""


def test_message_is_stored_once_with_its_attempts() -> None:
    played = play(cut("a", output=8_000), cut("One ", output=64_000), text("two.", output=9))
    records = finished(played).attempts
    assert [(r.kind, r.max_tokens, r.stop, r.is_discarded) for r in records] == [
        ("first", 8_000, "max_tokens", True),
        ("escalated", 64_000, "max_tokens", False),
        ("continuation", 64_000, "end_turn", False),
    ]
    assert played.end.discarded_output_tokens == 8_000
    assert played.end.usage == Usage(input=300, output=72_009)
    assert sum(message.role == "assistant" for message in played.messages) == 1


@pytest.mark.parametrize(
    "later",
    [
        [refused("no")],
        [broken(TextDelta(0, "One two")), *[refused("busy", ErrorKind.OVERLOADED)] * 6],
        [cut("two "), [TextDelta(0, "same line\n" * 400), ReplyEnded(StopReason.END_TURN, "stop")]],
    ],
    ids=["refused", "broken", "repetition"],
)
@pytest.mark.parametrize("output", [OutputSettings(), SMALL_MODEL], ids=["escalated", "continued"])
def test_truncated_text_has_the_stop_reason_of_its_attempt_whatever_fails_later(
    later: list[Script], output: OutputSettings
) -> None:
    played = play(cut("One "), *later, output=output)
    assert played.end.stop is StopReason.MAX_TOKENS
    assert played.end.raw_stop == finished(played).raw_stop == "max_tokens"


def test_truncated_call_reported_as_tool_use_ends_as_truncated() -> None:
    half = calls(("write", '{"path": "a", "content": "x'), stop=StopReason.TOOL_USE, output=500)
    played = play(half, text("Smaller."), output=SMALL_MODEL)
    first = next(event for event in played.events if isinstance(event, ev.ReplyFinished))
    assert first.stop is StopReason.MAX_TOKENS
    assert reasons(played) == ["retry_limit"]


def test_each_stop_reason_is_observed_once_with_turn_and_step() -> None:
    played = play(cut("a"), text("b", raw="stop"))
    seen = [event for event in played.events if isinstance(event, ev.StopReasonObserved)]
    assert [(event.reason, event.raw, event.turn, event.step) for event in seen] == [
        (StopReason.MAX_TOKENS, "max_tokens", 1, 1),
        (StopReason.END_TURN, "stop", 1, 1),
    ]


def test_error_in_a_first_attempt_keeps_its_text_and_kind() -> None:
    dies: Script = [TextDelta(0, "Half"), UsageReported(Usage(input=5)), ProviderError(ErrorKind.QUOTA, "no money")]
    played = play(dies)
    assert played.end.error is not None
    assert (played.end.error.kind, played.end.text) == (ErrorKind.QUOTA, "Half")
    assert played.messages[-1] == Message("assistant", (Text("Half"),))
    assert finished(replace(played)).stop is None
