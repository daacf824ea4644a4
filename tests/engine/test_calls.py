"""The calls of a reply: one result for each, and the budgets that end the turn."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from qcode.engine import synthetic
from qcode.engine.caps import OutputSettings
from qcode.engine.effects import ApprovalAnswered, CancelRequested, SteerQueued, ToolEnded, TurnSettings, UserSubmitted
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import Notice, SteeringAdded, ToolFinished, ToolPayloadRepair, ToolStarted
from qcode.protocol.messages import Text, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Limit, Outcome, StopReason
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.protocol.usage import Price
from qcode.text.json import JsonObject
from tests.engine.play import TOOLS, WRITES, Played, Player, Script, calls, cut, play, text
from tests.engine.test_turn import results_of

READ, BAD_READ = ("read", '{"path": "a"}'), ("read", '{"path": }')
FIXED = OutputSettings(override=64_000)


def cut_call(name: str, raw: str, *before: tuple[str, str]) -> Script:
    return calls(*before, (name, raw), stop=StopReason.MAX_TOKENS, output=64_000)


def states(played: Played) -> list[str]:
    return [event.state for event in played.events if isinstance(event, ToolFinished)]


def test_two_malformed_calls_in_one_reply_count_as_one_repair() -> None:
    played = play(calls(BAD_READ, BAD_READ), text("Sorry."))
    assert states(played) == ["rejected", "rejected"]
    assert played.end.outcome is Outcome.END_TURN


def test_executed_call_resets_the_repair_budget() -> None:
    played = play(calls(BAD_READ), calls(READ), calls(BAD_READ), calls(READ), text("Done."))
    assert states(played) == ["rejected", "done", "rejected", "done"]
    assert played.end.outcome is Outcome.END_TURN


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ('{"path": "src/long name.py", "content": "a\\nb', "src/long name.py"),
        ('{"path":"a\\u001b[2J.py","content":"', "a\x1b[2J.py"),
        ('{"path": "src/lo', None),
        ('{"content": "x", "path": "a.py"', None),
    ],
)
def test_truncated_write_keeps_its_path_if_that_is_known(raw: str, path: str | None) -> None:
    played = play(cut_call("write", raw), text("Sorry."), output=OutputSettings(override=64_000))
    (result,) = [event for event in played.events if isinstance(event, ToolFinished)]
    assert json.loads(result.call.arguments).get("path") == path
    assert result.outcome.shown == "truncated by the output limit of 64,000 tokens"


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_repair_budget_is_configurable(attempts: int) -> None:
    output = OutputSettings(override=64_000, max_tool_repair_attempts=attempts)
    played = play(*[cut_call("shell", '{"command": "ec')] * (attempts + 1), output=output)
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert len(played.requests) == attempts + 1
    assert "truncated by the output limit" in played.end.note
    assert Notice("warning", played.end.note) in played.events


def test_call_truncated_inside_its_name_counts_as_a_repair() -> None:
    played = play(cut_call("wri", ""), cut_call("wri", ""), output=FIXED)
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert states(played) == ["rejected", "rejected"]


def test_rejections_for_different_files_are_not_consecutive() -> None:
    scripts = [cut_call("write", f'{{"path": "{name}", "content": "x') for name in "abababa"]
    played = play(*scripts, text("Done."), output=FIXED)
    assert played.end.outcome is Outcome.END_TURN


def test_rejections_for_one_file_stay_consecutive_across_contents_and_read_calls() -> None:
    scripts: list[Script] = []
    for number in range(5):
        scripts += [cut_call("write", f'{{"path": "a", "content": "{number}'), calls(READ)]
    played = play(*scripts[:-1], output=FIXED)
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert states(played).count("rejected") == 5


def test_successful_write_resets_the_rejection_count() -> None:
    cut_write = cut_call("write", '{"path": "a", "content": "x')
    whole = calls(("write", '{"path": "a", "content": "x"}'))
    played = play(*[cut_write] * 4, whole, *[cut_write] * 4, text("Done."), output=FIXED)
    assert played.end.outcome is Outcome.END_TURN


def test_call_missing_an_argument_below_the_cap_gets_its_name() -> None:
    played = play(calls(("write", '{"path": "a"}')), text("Oh."))
    (result,) = results_of(played.messages[2])
    assert "`content`" in result.content
    assert "split" not in result.content


def test_call_missing_an_argument_at_the_cap_gets_split_guidance() -> None:
    played = play(cut_call("write", '{"path": "a"}'), text("Oh."), output=FIXED)
    assert "MUST split" in results_of(played.messages[2])[0].content
    assert played.ran == []


def test_each_rejection_is_reported_once() -> None:
    played = play(cut_call("write", '{"path": "a'), text("Oh."), output=FIXED)
    assert played.of(ToolPayloadRepair) == [ToolPayloadRepair("cut_arguments", attempted=True, succeeded=False)]


def test_verdict_or_outcome_for_another_call_is_ignored() -> None:
    player = Player(calls(READ), text("Done."))
    player.give(UserSubmitted(user("go")))
    while not player.played.asked:
        player.step()
    player.give(ApprovalAnswered("nobody", True))
    player.give(ToolEnded("c0", ToolOutcome("too early")))
    assert player.played.ran == []
    player.give(ApprovalAnswered("c0", True))
    player.give(ApprovalAnswered("c0", False))
    assert [run.call.call_id for run in player.played.ran] == ["c0"]


def test_steering_continues_a_turn_of_only_signals() -> None:
    player = Player(calls(("note", "{}")), text("As you say."))
    player.give(UserSubmitted(user("go")))
    player.give(SteerQueued("wait"))
    while player.step():
        pass
    assert player.played.end.text == "As you say."
    assert player.played.of(SteeringAdded) == [SteeringAdded("wait")]


def test_signal_uses_no_budget_and_a_call_beyond_the_budget_is_refused() -> None:
    settings = TurnSettings("s", TOOLS, max_tool_calls=1)
    played = play(calls(("note", '{"n": 1}'), READ, ("note", '{"n": 2}'), READ), settings=settings)
    assert states(played) == ["done", "done", "done", "rejected"]
    assert [signal.arguments for signal in played.end.signals] == [{"n": 1}, {"n": 2}]
    assert played.end.limit is Limit.TOOL_CALLS


def _until_asked(player: Player, count: int) -> None:
    player.give(UserSubmitted(user("go")))
    while len(player.played.asked) < count and player.step():
        pass
    player.drop_queued()


def test_read_calls_run_in_parallel_with_ordered_results() -> None:
    player = Player(calls(READ, READ, READ), text("Done."))
    _until_asked(player, 3)
    assert [asked.call.call_id for asked in player.played.asked] == ["c0", "c1", "c2"]
    for call_id in ("c2", "c0"):
        player.give(ApprovalAnswered(call_id, True))
    assert [run.call.call_id for run in player.played.ran] == ["c2", "c0"]
    player.drop_queued()
    player.give(ToolEnded("c2", ToolOutcome("third")))
    player.give(ApprovalAnswered("c1", False, "no"))
    player.give(ToolEnded("c0", ToolOutcome("first")))
    while player.step():
        pass
    results = results_of(player.played.messages[2])
    assert [(result.call_id, result.content) for result in results] == [
        ("c0", "first"),
        ("c1", "Denied: no"),
        ("c2", "third"),
    ]
    assert player.played.end.outcome is Outcome.END_TURN


def test_one_changing_call_makes_all_calls_run_in_sequence() -> None:
    player = Player(calls(READ, ("shell", '{"command": "ls"}'), READ), text("Done."))
    _until_asked(player, 1)
    assert len(player.played.asked) == 1
    player.give(ApprovalAnswered("c0", True))
    player.drop_queued()
    player.give(ToolEnded("c0", ToolOutcome("ok")))
    assert [asked.call.call_id for asked in player.played.asked] == ["c0", "c1"]


def test_cancel_reaches_every_parallel_call() -> None:
    player = Player(calls(READ, READ, READ))
    _until_asked(player, 3)
    player.give(ApprovalAnswered("c0", True))
    player.give(ApprovalAnswered("c2", True))
    player.give(CancelRequested())
    assert states(player.played) == ["cancelled"] * 3
    results = [result.content for result in results_of(player.played.messages[2])]
    assert ["partly done" in text for text in results] == [True, False, True]


def test_call_budget_counts_parallel_calls() -> None:
    settings = TurnSettings("s", TOOLS, max_tool_calls=2)
    played = play(calls(READ, READ, READ), settings=settings)
    assert sorted(states(played)) == ["done", "done", "rejected"]
    assert "budget exhausted (the limit of tool calls" in results_of(played.messages[2])[2].content


def test_third_identical_call_with_the_same_result_asks_the_user() -> None:
    again = ("shell", '{ "command":"ls" }')
    scripts = [calls(again), calls(("shell", '{"command": "ls"}')), calls(again), calls(again), calls(again)]
    played = play(*scripts, text("Done."))
    assert [asked.repeats for asked in played.asked] == [0, 0, 0, 3, 0]
    assert len(played.ran) == 5


def test_different_call_or_result_resets_the_repetition_count() -> None:
    shell = ("shell", '{"command": "ls"}')
    played = play(*[calls(shell)] * 2, calls(READ), *[calls(shell)] * 3, text("."))
    assert [asked.repeats for asked in played.asked] == [0] * 6
    player = Player(*[calls(shell)] * 6, text("."))
    results = iter("aabbcc")
    player.outcome = lambda run: ToolOutcome(next(results))
    assert [asked.repeats for asked in player.play().asked] == [0] * 6


def test_calls_that_did_not_run_do_not_count_as_repeated() -> None:
    player = Player(*[calls(("shell", '{"command": "ls"}'))] * 3, text("."))
    player.allows = lambda asked: False
    assert [asked.repeats for asked in player.play().asked] == [0] * 3


def test_text_answer_is_the_result_and_the_call_does_not_run() -> None:
    player = Player(calls(("shell", '{"command": "ls"}')), text("Done."))
    _until_asked(player, 1)
    player.give(ApprovalAnswered("c0", True, text="Use git instead."))
    while player.step():
        pass
    assert player.played.ran == []
    (result,) = results_of(player.played.messages[2])
    assert (result.content, result.is_error) == ("Use git instead.", False)
    assert player.played.end.denials == ()


@pytest.mark.parametrize(("tool", "expected"), [("apply_patch", "`apply_patch`"), ("edit", "`edit`")])
def test_split_guidance_names_the_available_append_tool(tool: str, expected: str) -> None:
    parameters: JsonObject = {"type": "object", "required": ["path"]}
    write = ToolSpec("write", "d", parameters, safety=WRITES)
    settings = TurnSettings("s", (write, replace(write, name=tool, edit_format="passage")), output=FIXED)
    played = play(cut_call("write", '{"path": "a'), text("Oh."), settings=settings)
    assert f"with {expected} calls" in results_of(played.messages[2])[0].content


def test_truncated_patch_is_identified_by_its_file() -> None:
    spec = ToolSpec("apply_patch", "d", {"type": "object", "required": ["input"]}, safety=WRITES)
    cuts = [
        cut_call("apply_patch", f'{{"input": "*** Begin Patch\\n*** Update File: a.py\\n@@\\n-{number}')
        for number in range(5)
    ]
    played = play(*cuts, settings=TurnSettings("s", (spec,), output=FIXED))
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert any(isinstance(event, Notice) and "`apply_patch` call 5 times" in event.text for event in played.events)


@pytest.mark.parametrize(
    "raw", ['{"command": "ls", "command": "rm -r x"}', '{"command": "ls", "env": {"A": "1", "A": "2"}}']
)
def test_call_with_a_duplicate_key_is_malformed_and_never_runs(raw: str) -> None:
    played = play(calls(("shell", raw)), calls(("shell", '{"command": "ls"}')), text("Done."))
    assert [run.arguments for run in played.ran] == [{"command": "ls"}]
    assert "twice" in results_of(played.messages[2])[0].content
    assert json.loads(played.messages[1].calls[0].arguments) == json.loads(synthetic.placeholder_arguments(raw))


def test_call_with_a_duplicate_key_at_the_cap_never_runs() -> None:
    raw = '{"path": "a", "path": "b", "content": "x"}'
    played = play(calls(("write", raw), stop=StopReason.MAX_TOKENS), text("Oh."), output=FIXED)
    assert played.ran == []


UNKNOWN = ("nothing", '{"n": 1}')
SHORT_OF = ("shell", "{}")


@pytest.mark.parametrize("call", [UNKNOWN, SHORT_OF])
def test_invalid_calls_get_three_errors_and_end_the_turn_if_denied(call: tuple[str, str]) -> None:
    player = Player(*[calls(call)] * 4, text("."))
    player.allows = lambda asked: not asked.obstacle
    played = player.play()
    assert len(played.requests) == 4
    assert [bool(asked.obstacle) for asked in played.asked] == [True]
    assert played.end.outcome is Outcome.ERROR
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.TOOL_FAILURE
    assert "The turn has ended." in played.end.error.message
    assert "qcode stopped" not in played.end.error.message
    assert played.end.denials == ()
    last = results_of(played.messages[-3])[0].content
    assert "another such reply may end the turn" in last
    assert "`shell` (requires command)" in last
    assert len(played.messages) == 1 + 4 + 4


def test_different_invalid_calls_end_the_turn_too() -> None:
    player = Player(*[calls((f"tool_{number}", "{}")) for number in range(4)], text("."))
    player.allows = lambda asked: False
    assert player.play().end.outcome is Outcome.ERROR


def test_executed_call_resets_the_count_of_invalid_calls() -> None:
    played = play(*[calls(UNKNOWN)] * 3, calls(READ), *[calls(UNKNOWN)] * 3, calls(UNKNOWN, READ), text("Done."))
    assert played.end.outcome is Outcome.END_TURN
    assert [asked.obstacle for asked in played.asked if asked.obstacle] == ["there is no such tool"]


def test_user_may_allow_another_try_or_send_a_message() -> None:
    player = Player(*[calls(UNKNOWN)] * 7, text("Done."))
    player.play()
    assert player.played.end.outcome is Outcome.END_TURN
    assert sum(bool(asked.obstacle) for asked in player.played.asked) == 2
    player = Player(*[calls(UNKNOWN)] * 4, text("Done."))
    _until_asked(player, 1)
    player.give(ApprovalAnswered("c0", False, "use grep"))
    while player.step():
        pass
    assert player.played.end.outcome is Outcome.END_TURN
    assert "use grep" in results_of(player.played.messages[8])[0].content


def test_signals_between_invalid_calls_do_not_reset_the_count() -> None:
    player = Player(*[calls(("note", "{}"), UNKNOWN)] * 4, text("."))
    player.allows = lambda asked: False
    played = player.play()
    assert played.end.outcome is Outcome.ERROR
    assert len(played.end.signals) == 4


def test_remaining_calls_of_a_reply_that_ends_the_turn_do_not_run() -> None:
    player = Player(*[calls(UNKNOWN)] * 3, calls(UNKNOWN, ("shell", '{"command": "ls"}')), text("."))
    player.allows = lambda asked: not asked.obstacle
    played = player.play()
    assert played.ran == []
    assert [result.content for result in results_of(played.messages[-1])][1] == "Not run: the turn has ended."


def test_strict_tools_fail_the_turn_and_run_no_call_of_the_reply() -> None:
    settings = TurnSettings("s", TOOLS, has_strict_tools=True)
    played = play(calls(("shell", '{"command": "ls"}'), UNKNOWN), text("."), settings=settings)
    assert (played.ran, len(played.requests)) == ([], 1)
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.TOOL_FAILURE
    assert "nothing" in played.end.error.message
    assert play(calls(SHORT_OF), text("."), settings=settings).end.outcome is Outcome.END_TURN


def test_repeated_denied_call_ends_the_turn_as_denied() -> None:
    player = Player(*[calls(("shell", '{"command": "ls"}'), before="Let me.")] * 4, text("."))
    player.allows = lambda asked: False
    played = player.play()
    assert len(played.requests) == 4
    assert (played.end.outcome, played.end.is_answered) == (Outcome.END_TURN, False)
    assert len(played.end.denials) == 4
    assert "3 times" in results_of(played.messages[6])[0].content


def test_different_denied_calls_do_not_end_the_turn() -> None:
    player = Player(*[calls(("shell", f'{{"command": "ls {number}"}}')) for number in range(9)], text("Well."))
    player.allows = lambda asked: False
    assert player.play().end.text == "Well."


def test_repeated_call_that_is_never_approved_ends_the_turn() -> None:
    player = Player(*[calls(("shell", '{"command": "ls"}'))] * 7, text("."))
    player.allows = lambda asked: not asked.repeats
    played = player.play()
    assert (len(played.requests), len(played.ran)) == (7, 3)
    assert played.end.error is not None
    assert played.end.error.kind == ErrorKind.TOOL_FAILURE


@pytest.mark.parametrize("raw", ["{", "[1]", "", '{"a": 1, "a": 2}', "nonsense"])
def test_signal_is_recorded_with_its_raw_arguments(raw: str) -> None:
    played = play(calls(("note", raw)))
    assert played.end.outcome is Outcome.END_TURN
    assert [signal.arguments for signal in played.end.signals] == [raw or {}]


def test_signals_are_not_in_the_next_request() -> None:
    played = play(calls(("note", '{"n": 1}'), READ, before="Look."), text("Done."))
    assistant, answer = played.requests[1].messages[1:]
    assert [call.name for call in assistant.calls] == ["read"]
    assert [result.name for result in results_of(answer)] == ["read"]
    assert len(results_of(played.messages[2])) == 2


def test_only_signals_with_steering_leave_a_valid_history() -> None:
    player = Player(calls(("note", "{}")), text("As you say."))
    player.give(UserSubmitted(user("go")))
    player.give(SteerQueued("wait"))
    while player.step():
        pass
    (message,) = player.played.requests[1].messages
    assert [block.text for block in message.blocks if isinstance(block, Text)] == ["go", "wait"]


def test_reused_ids_hide_no_other_call() -> None:
    played = play(calls(("note", "{}"), READ), calls(READ), text("Done."))
    history = played.requests[2].messages
    assert [call.name for message in history for call in message.calls] == ["read", "read"]


def test_request_states_the_remaining_user_limits() -> None:
    settings = TurnSettings("s", TOOLS, max_turns=4, shows_turns_left=True, max_tool_calls=2, max_budget_usd=Decimal(1))
    played = play(calls(READ), text("Done."), settings=settings, facts=ModelFacts(price=Price(Decimal(1), Decimal(1))))
    assert [request.note for request in played.requests] == [
        "[Limits of this task: 2 tool calls, 4 replies (this one included), $1.0000 left. Finish within them.]",
        "[Limits of this task: 1 tool call, 3 replies (this one included), $0.9999 left. Finish within them.]",
    ]
    assert "Limits" not in str(played.messages)


def test_request_has_no_note_without_user_limits() -> None:
    settings = TurnSettings("s", TOOLS, max_turns=100)
    assert [request.note for request in play(calls(READ), text("."), settings=settings).requests] == ["", ""]


def test_request_that_continues_a_reply_has_no_limit_note() -> None:
    settings = TurnSettings("s", TOOLS, max_tool_calls=2)
    played = play(cut("one"), cut("two"), text("three"), settings=settings)
    assert [bool(request.note) for request in played.requests] == [True, True, False]


def test_signal_behind_an_unknown_tool_is_recorded_when_strict_tools_end_the_turn() -> None:
    settings = TurnSettings("s", TOOLS, has_strict_tools=True)
    played = play(calls(("nosuch", "{}"), ("note", '{"n": 1}')), settings=settings)
    assert played.end.outcome is Outcome.ERROR
    assert [signal.arguments for signal in played.end.signals] == [{"n": 1}]


def test_signal_behind_a_running_call_is_recorded_when_the_turn_is_cancelled() -> None:
    player = Player(calls(("shell", '{"command": "sleep 9"}'), ("note", '{"n": 1}')))
    player.play_until(ToolStarted)
    player.drop_queued()
    player.give(CancelRequested())
    assert player.played.end.outcome is Outcome.CANCELLED
    assert [signal.arguments for signal in player.played.end.signals] == [{"n": 1}]
