"""Turns from the first request to the end: requests, shown text, stored messages and calls."""

from __future__ import annotations

import json

import pytest

from qcode.engine.caps import OutputSettings
from qcode.engine.effects import CancelRequested, SteerQueued, TurnSettings, UserSubmitted
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import (
    ContinuationTerminated,
    PartialRestored,
    ReplyFinished,
    Retry,
    SteeringAdded,
    ToolFinished,
    Waiting,
)
from qcode.protocol.messages import Message, Text, ToolResult, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Limit, Outcome, ReplyStarted, StopReason, TextDelta, ToolArgsDelta, ToolCallStarted
from qcode.protocol.tools import ToolOutcome
from tests.engine.play import TOOLS, Player, broken, calls, cut, play, refused, text, thinking


def results_of(message: Message) -> list[ToolResult]:
    return [block for block in message.blocks if isinstance(block, ToolResult)]


def test_plain_reply_costs_one_request_at_the_capped_default() -> None:
    played = play(text("Hello", " there"))
    assert played.caps == [8000]
    assert played.messages == [user("go"), assistant(Text("Hello there"))]
    assert played.end.outcome is Outcome.END_TURN
    assert played.end.text == played.shown == "Hello there"
    assert played.end.api_calls.total == 1


def test_reply_truncated_five_times_costs_exactly_five_requests() -> None:
    played = play(cut("go "), cut("one "), cut("two "), cut("three "), cut("four"))
    assert played.caps == [8000, 64000, 64000, 64000, 64000]
    assert played.shown == played.end.text == "one two three four"
    assert played.end.outcome is Outcome.MAX_TOKENS
    calls_made = played.end.api_calls
    assert (calls_made.initial, calls_made.escalations, calls_made.continuations) == (1, 1, 3)
    assert played.messages[-1] == assistant(Text("one two three four"))
    retries = [event for event in played.events if isinstance(event, Retry)]
    assert [(retry.is_continuation, retry.attempt) for retry in retries] == [
        (False, 1), (True, 1), (True, 2), (True, 3),
    ]  # fmt: skip
    assert [event.reason for event in played.of(ContinuationTerminated)] == ["retry_limit"]


def test_resume_message_is_sent_and_never_stored() -> None:
    played = play(cut("a"), cut("The first part "), text("and the second."))
    resumed = played.requests[2].messages
    assert [message.role for message in resumed] == ["user", "assistant", "user"]
    assert resumed[1].text == "The first part "
    assert "The first part" in resumed[2].text
    assert played.messages == [user("go"), assistant(Text("The first part and the second."))]


def test_explicit_cap_is_never_escalated_but_continued_at_the_same_cap() -> None:
    played = play(cut("One, "), cut("two, "), text("three."), output=OutputSettings(override=500))
    assert played.caps == [500, 500, 500]
    assert played.end.text == "One, two, three."
    assert played.end.api_calls.escalations == 0


def test_known_limit_below_the_default_skips_escalation() -> None:
    played = play(cut("One, "), text("two."), facts=ModelFacts(max_output_tokens=4096))
    assert played.caps == [4096, 4096]
    assert played.end.api_calls.continuations == 1


def test_failed_escalation_restores_the_partial() -> None:
    script = [refused("no", ErrorKind.QUOTA)]
    played = play(cut("The partial."), *script)
    restored = played.of(PartialRestored)
    assert [event.text for event in restored] == ["The partial."]
    assert played.shown == played.end.text == "The partial."
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.messages[-1] == assistant(Text("The partial."))


def test_truncated_write_is_escalated_then_rejected_with_split_guidance_and_never_runs() -> None:
    whole = json.dumps({"path": "a.py", "content": "line one\nline two\nline three"})
    half = whole[:-12]
    played = play(
        calls(("write", half), stop=StopReason.MAX_TOKENS, output=8000),
        calls(("write", half), stop=StopReason.MAX_TOKENS, output=64000),
        text("Splitting."),
    )
    assert played.caps == [8000, 64000, 8000]
    assert played.ran == []
    assert played.asked == []
    (rejected,) = results_of(played.messages[2])
    assert rejected.is_error
    assert "MUST split" in rejected.content
    assert "line two" in rejected.content
    stored = played.messages[1].calls[0]
    assert json.loads(stored.arguments)["received_characters"] == len(half)
    finished = [event for event in played.events if isinstance(event, ToolFinished)]
    assert [event.state for event in finished] == ["rejected"]


def test_fifth_identical_rejection_ends_the_turn() -> None:
    half = '{"path": "a.py", "content": "line'
    cut_write = calls(("write", half), stop=StopReason.MAX_TOKENS, output=64000)
    first = calls(("write", half), stop=StopReason.MAX_TOKENS, output=8000)
    played = play(*[script for _ in range(5) for script in (first, cut_write)])
    results = [results_of(message)[0].content for message in played.messages if results_of(message)]
    assert len(results) == 5
    assert ["change the approach" in result for result in results] == [False, False, True, True, True]
    assert played.end.outcome is Outcome.MAX_TOKENS


def test_complete_calls_before_a_truncated_one_run_in_order() -> None:
    played = play(
        calls(("read", '{"path": "a"}'), ("shell", '{"command": "ec'), stop=StopReason.MAX_TOKENS, output=64000),
        text("Done."),
        output=OutputSettings(override=64000),
    )
    assert [run.call.name for run in played.ran] == ["read"]
    first, second = results_of(played.messages[2])
    assert first.content == "ran read"
    assert second.is_error
    assert "one complete call" in second.content


def test_malformed_json_below_the_cap_is_not_a_truncation() -> None:
    played = play(calls(("read", '{"path": }'), output=20), text("Sorry."))
    assert played.caps == [8000, 8000]
    (result,) = results_of(played.messages[2])
    assert "not valid JSON" in result.content
    assert "split" not in result.content


def test_second_malformed_call_in_a_row_ends_the_turn_with_an_error() -> None:
    played = play(calls(("read", '{"path": }')), calls(("read", '{"path": }')))
    assert played.end.outcome is Outcome.ERROR
    assert played.end.error is not None


def test_truncated_call_reported_as_tool_use_is_still_truncated() -> None:
    half = '{"path": "a.py", "content": "li'
    played = play(
        calls(("write", half), stop=StopReason.TOOL_USE, output=8000),
        calls(("write", '{"path": "a.py", "content": "line"}'), stop=StopReason.TOOL_USE, output=9000),
        text("Done."),
    )
    assert played.caps[:2] == [8000, 64000]
    assert [run.arguments["content"] for run in played.ran] == ["line"]


def test_thinking_only_reply_is_escalated_then_asked_for_the_answer_then_reported() -> None:
    played = play(thinking("hm "), thinking("hmm "), thinking("hmmm "))
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.end.text == ""
    assert played.end.api_calls.repairs == 1
    (finished,) = played.of(ReplyFinished)
    assert isinstance(finished, ReplyFinished)
    assert "Thinking used up" in finished.note
    request = played.requests[2].messages
    assert [message.role for message in request] == ["user"]
    assert "answer now" in request[0].text.lower()


def test_refusal_during_recovery_keeps_the_longer_partial() -> None:
    played = play(cut("A long partial text."), text("No", stop=StopReason.REFUSAL, raw="content_filter"))
    assert played.end.outcome is Outcome.REFUSAL
    assert played.end.text == played.shown == "A long partial text."


def test_limit_named_by_a_refusal_is_learned_and_the_request_sent_once_more() -> None:
    played = play(refused("max_tokens: this model supports at most 4096 completion tokens"), text("Hi."))
    assert played.caps == [8000, 4096]
    assert [learn.fact.tokens for learn in played.learned] == [4096]  # type: ignore[union-attr]  # a limit
    assert played.end.outcome is Outcome.END_TURN
    assert played.end.api_calls.retries == 1
    assert not played.of(Retry)


def test_stream_broken_before_any_text_is_replayed_silently() -> None:
    played = play(broken(ReplyStarted("m", "r")), text("Hello."))
    assert played.requests[0] == played.requests[1]
    assert not played.of(Retry)
    assert len(played.of(Waiting)) == 1
    assert played.end.text == "Hello."


def test_stream_broken_inside_text_is_continued() -> None:
    played = play(broken(TextDelta(0, "The first half of it ")), text("first half of it and the second."))
    assert played.end.text == "The first half of it and the second."
    assert played.end.api_calls.retries == 1
    (retry,) = played.of(Retry)
    assert isinstance(retry, Retry)
    assert (retry.is_continuation, retry.reason) == (True, "transport")


def test_stream_broken_inside_a_call_is_replayed_and_the_call_not_run() -> None:
    played = play(
        broken(TextDelta(0, "Reading."), ToolCallStarted(1, "c0", "read"), ToolArgsDelta(1, '{"path": "a"}')),
        calls(("read", '{"path": "b"}'), before="Reading it."),
        text("Done."),
    )
    assert [run.arguments["path"] for run in played.ran] == ["b"]
    assert played.messages[1].text == "Reading it."


def test_failed_first_reply_is_an_error_with_its_text() -> None:
    dies = broken(TextDelta(0, "Half"))
    played = play(dies, *[broken(TextDelta(0, f" {n} and")) for n in range(3)])
    assert played.end.outcome is Outcome.ERROR
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.CONNECTION
    assert played.end.error.message.endswith(" (after 3 retries)")
    assert played.end.text.startswith("Half")


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([ErrorKind.OVERLOADED] * 6, "busy (after 5 retries)"),
        ([ErrorKind.UNREACHABLE] * 2, "busy (after 1 retry)"),
        ([ErrorKind.BAD_REQUEST], "busy."),
        # The key was revoked meanwhile, which no retry can change.
        ([ErrorKind.OVERLOADED, ErrorKind.AUTH], "busy."),
    ],
)
def test_error_after_the_last_retry_names_the_number_of_retries(kinds: list[ErrorKind], message: str) -> None:
    played = play(*(refused("busy.", kind) for kind in kinds))
    assert played.end.error is not None
    assert played.end.error.message == message


@pytest.mark.parametrize("after", [1, 2, 3])
def test_cancel_keeps_the_shown_text_and_sends_nothing_more(after: int) -> None:
    player = Player(cut("one ", "two ", "three "), text("never"))
    player.give(UserSubmitted(user("go")))
    for _ in range(after + 1):
        player.step()
    sent = len(player.played.requests)
    player.give(CancelRequested())
    player.drop_queued()
    assert len(player.played.requests) == sent
    assert player.played.end.outcome is Outcome.CANCELLED
    assert player.played.end.text == player.played.shown


def test_cancel_while_escalating_restores_the_partial() -> None:
    player = Player(cut("The partial text"), text("The", " partial text and more."))
    player.give(UserSubmitted(user("go")))
    while len(player.played.requests) < 2:
        player.step()
    player.step()
    player.step()
    player.give(CancelRequested())
    assert player.played.shown == player.played.end.text == "The partial text"
    assert player.played.messages[-1] == assistant(Text("The partial text"))


def test_cancel_while_tools_run_gives_every_call_a_result() -> None:
    player = Player(calls(("read", '{"path": "a"}'), ("read", '{"path": "b"}')))
    player.give(UserSubmitted(user("go")))
    while not player.played.asked:
        player.step()
    player.give(CancelRequested())
    assert len(results_of(player.played.messages[-1])) == 2
    assert player.played.end.outcome is Outcome.CANCELLED


def test_denied_call_is_answered_and_reported() -> None:
    player = Player(calls(("shell", '{"command": "rm x"}')), text("I could not."))
    player.allows = lambda asked: False
    played = player.play()
    assert played.ran == []
    assert [denial.call.name for denial in played.end.denials] == ["shell"]
    assert played.end.outcome is Outcome.END_TURN


def test_turn_limit_ends_the_turn_after_the_results() -> None:
    settings = TurnSettings("s", TOOLS, max_turns=1)
    played = play(calls(("read", '{"path": "a"}')), settings=settings)
    assert played.end.outcome is Outcome.MAX_TURN_REQUESTS
    assert played.end.limit is Limit.TURNS
    assert len(results_of(played.messages[-1])) == 1


def test_calls_beyond_the_budget_are_answered_and_end_the_turn() -> None:
    settings = TurnSettings("s", TOOLS, max_tool_calls=1)
    played = play(calls(("read", '{"path": "a"}'), ("read", '{"path": "b"}')), settings=settings)
    assert len(played.ran) == 1
    assert played.end.limit is Limit.TOOL_CALLS
    assert "limit of tool calls" in results_of(played.messages[-1])[1].content


def test_signal_calls_are_recorded_and_cost_no_request() -> None:
    played = play(calls(("note", '{"n": 1}'), before="Done."))
    assert [signal.arguments for signal in played.end.signals] == [{"n": 1}]
    assert played.end.outcome is Outcome.END_TURN
    assert len(played.requests) == 1


def test_unknown_tool_is_answered_with_the_nearest_name() -> None:
    played = play(calls(("raed", '{"path": "a"}')), text("Sorry."))
    assert "`read`" in results_of(played.messages[2])[0].content


def test_steering_joins_before_the_next_step() -> None:
    player = Player(calls(("read", '{"path": "a"}')), text("Ok."))
    player.give(UserSubmitted(user("go")))
    player.give(SteerQueued("be quick"))
    while player.step():
        pass
    sent = player.played.requests[1].messages[-1]
    assert sent.text == "be quick"
    assert len(player.played.of(SteeringAdded)) == 1


def test_failed_tool_continues_the_turn() -> None:
    player = Player(calls(("read", '{"path": "a"}')), text("It is not there."))
    player.outcome = lambda run: ToolOutcome("no such file", is_error=True)
    played = player.play()
    assert results_of(played.messages[2])[0].is_error
    assert played.end.text == "It is not there."
