"""Every event of a turn, as calls on a recording transcript."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from qcode.agent.call_titles import main_argument
from qcode.engine.synthetic import placeholder_arguments
from qcode.protocol.approvals import LIMIT_ID, Question, ToolApproval, TurnApproval
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    ApiCalls,
    ApprovalRequested,
    CallState,
    Compacted,
    ContinuationAttempt,
    LimitReached,
    ModelFellBack,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    Retry,
    SteeringAdded,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, StopReason, TextDelta
from qcode.protocol.tools import SandboxUse, ToolOutcome
from qcode.tui.presenter import Presenter
from qcode.tui.status import Activity
from qcode.tui.transcript.cards import CardUpdate
from tests.tui.scripted import FixedClock, call, ended, reply


class Recorder:
    """A transcript, a status line and an interaction in one, which record their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.activity: Activity | None = None

    def add_user(self, text: str) -> None:
        self.calls.append(("user", text))

    def add_attached(self, lines: Sequence[str]) -> None:
        self.calls.append(("attached", *lines))

    def append_text(self, text: str) -> None:
        self.calls.append(("text", text))

    def append_reasoning(self, text: str) -> None:
        self.calls.append(("reasoning", text))

    def end_reasoning(self, seconds: float) -> None:
        self.calls.append(("thought", seconds))

    def settle(self) -> None:
        self.calls.append(("settle",))

    def restart(self, label: str) -> None:
        self.calls.append(("restart", label))

    def restore(self, text: str, reasoning: str = "") -> None:
        self.calls.append(("restore", text, reasoning))

    def add_mark(self, text: str) -> None:
        self.calls.append(("mark", text))

    def add_notice(self, level: str, text: str) -> None:
        self.calls.append(("notice", level, text))

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        self.calls.append(("card", call_id, name, argument))

    def update_card(self, call_id: str, update: CardUpdate) -> None:
        changes = {key: value for key, value in asdict(update).items() if value is not None}
        self.calls.append(("update", call_id, changes))

    def show_activity(self, activity: Activity | None) -> None:
        self.activity = activity

    def show_usage(self, event: UsageUpdated) -> None:
        self.calls.append(("usage", event.context_tokens))

    def add_turn(self, event: TurnEnded) -> None:
        self.calls.append(("turn", event.usage, event.cost))

    def ask(self, approval: TurnApproval, position: str) -> None:
        self.calls.append(("ask", approval.id, position) if position else ("ask", approval.id))

    def withdraw(self, approval_id: str) -> bool:
        self.calls.append(("withdraw", approval_id))
        return True

    def show_steering(self, text: str) -> None:
        self.calls.append(("steering", text))

    def of(self, *kinds: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.calls if entry[0] in kinds]


def present(*events: TurnEvent) -> Recorder:
    recorder = Recorder()
    presenter = Presenter(recorder, recorder, recorder, FixedClock())
    for event in (TurnStarted("go"), StepStarted(1), *events):
        presenter.present(event)
    return recorder


LIMIT_END = 1_792_499_400
LIMIT = ErrorInfo(ErrorKind.RATE_LIMIT, "p: limit reached", 429, None, 7_800, LIMIT_END)


def test_limit_asks_whether_to_wait() -> None:
    record = present(LimitReached(LIMIT, 7_800, is_question=True))
    assert record.of("ask") == [("ask", LIMIT_ID)]
    assert record.activity is not None
    assert not record.activity.is_moving


def test_wait_for_a_limit_is_a_countdown_to_its_end() -> None:
    record = present(LimitReached(LIMIT, 7_800))
    assert record.activity is not None
    assert record.activity.until == record.activity.since + 7_800
    assert "limit until" in record.activity.text


def test_fallback_names_the_reason_and_the_next_model() -> None:
    record = present(ModelFellBack("p/m", "q/n", LIMIT))
    assert record.of("notice") == [("notice", "warning", "p: limit reached. This turn continues with q/n.")]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("lab refused the key from LAB_KEY: wrong; set a valid one", "wrong; set a valid one and restart qcode"),
        (
            "lab refused the key stored with qcode auth login lab: wrong; store a valid one",
            "stored with /connect lab: wrong; store a valid one with /connect",
        ),
        ("lab requires a key: none; store one with qcode auth login lab", "none; add one with /connect lab"),
    ],
)
def test_advice_of_a_failed_turn_names_commands_of_the_app(message: str, advice: str) -> None:
    record = present(replace(ended(Outcome.ERROR), error=ErrorInfo(ErrorKind.AUTH, message)))
    ((_, level, text),) = record.of("notice")
    assert level == "error"
    assert text.endswith(advice)


def test_text_and_thinking_are_streamed_to_the_transcript() -> None:
    record = present(ReasoningDelta(0, "hm"), TextDelta(1, "a"), TextDelta(1, "b"), reply("ab"))
    assert record.of("text", "reasoning", "settle") == [("reasoning", "hm"), ("text", "a"), ("text", "b"), ("settle",)]


def test_escalation_restarts_the_reply_and_names_both_caps() -> None:
    retry, escalated = Retry(False, "max_tokens", 1, 64_000), OutputEscalated(8_000, 64_000)
    record = present(TextDelta(0, "half"), retry, escalated, TextDelta(0, "whole"))
    assert record.of("text", "restart") == [
        ("text", "half"),
        ("restart", "truncated at 8,000 tokens; retrying with 64,000 tokens"),
        ("text", "whole"),
    ]
    assert present(TextDelta(0, "half"), retry, TextDelta(0, "whole")).of("restart") == [
        ("restart", "truncated at the output limit; retrying with 64,000 tokens")
    ]


def test_continuation_is_a_mark_in_the_same_text() -> None:
    record = present(
        TextDelta(0, "one "), Retry(True, "max_tokens", 1, 64_000), ContinuationAttempt(1, 9, 9, 9), TextDelta(0, "two")
    )
    assert record.of("text", "mark", "restart", "settle") == [
        ("text", "one "),
        ("mark", "continued 1/3"),
        ("text", "two"),
    ]
    assert record.activity is not None
    assert record.activity.text == "continued 1/3: writing"


def test_recovery_stays_in_the_status_until_the_reply_is_decided() -> None:
    retry = Retry(False, "max_tokens", 1, 64_000)
    record = present(TextDelta(0, "half"), retry, OutputEscalated(8_000, 64_000), TextDelta(0, "whole"))
    assert record.activity is not None
    assert record.activity.text == "truncated at the output limit, retrying: writing"
    record = present(retry, OutputEscalated(8_000, 64_000), reply("whole"), StepStarted(2), TextDelta(0, "x"))
    assert record.activity is not None
    assert record.activity.text == "writing"


def test_retry_before_any_text_is_silent() -> None:
    assert present(Retry(False, "transport", 1, 8_000), TextDelta(0, "x")).of("restart", "mark") == []
    assert present(TextDelta(0, "x"), Retry(False, "transport", 1, 8_000), TextDelta(0, "x")).of("restart") == [
        ("restart", "connection lost; retrying")
    ]


def test_reply_continued_after_a_lost_connection_is_marked() -> None:
    assert present(TextDelta(0, "x"), Retry(True, "transport", 2, 8_000)).of("mark") == [
        ("mark", "connection lost, continued 2/3")
    ]


def test_restored_partial_replaces_the_new_attempt() -> None:
    record = present(
        TextDelta(0, "half"), Retry(False, "max_tokens", 1, 9), TextDelta(0, "x"), PartialRestored("half", "r")
    )
    assert record.of("restore", "mark") == [
        ("restore", "half", "r"),
        ("mark", "retry failed; first text kept"),
    ]
    record = present(TextDelta(0, "half"), Retry(False, "max_tokens", 1, 9), PartialRestored("half", "", True))
    assert record.of("mark") == [("mark", "retry interrupted; first text kept")]


def test_call_has_one_card_from_its_first_character_to_its_result() -> None:
    shell = call()
    record = present(
        ToolCallProgress(1, "c1", "shell", 1_200),
        ToolCallProgress(1, "c1", "shell", 2_400),
        reply("", shell, stop=StopReason.TOOL_USE),
        ToolStarted(shell),
        ToolOutput("c1", "file\n"),
        ToolFinished(shell, ToolOutcome("file\n", summary="1 line"), "done"),
    )
    assert record.of("card") == [("card", "c1", "shell", "")]
    states = [entry[2].get("state") for entry in record.of("update")]
    assert states == ["writing", "writing", "waiting", "running", None, "done", None]
    assert ("update", "c1", {"append": "file\n"}) in record.calls
    assert record.calls[-1] == ("update", "c1", {"summary": "1 line"})


def test_card_of_a_call_shows_its_size_from_the_first_argument_on() -> None:
    record = present(ToolCallProgress(1, "c1", "shell", 0), ToolCallProgress(1, "c1", "shell", 1_200))
    sizes = [entry[2].get("argument") for entry in record.of("update")]
    assert sizes == ["", "1.2k characters"]


def test_unstreamed_output_comes_with_the_result_and_a_diff_replaces_it() -> None:
    shell = call()
    record = present(ToolStarted(shell), ToolFinished(shell, ToolOutcome("all of it", is_error=True), "failed"))
    assert ("update", "c1", {"output": "all of it"}) in record.calls
    record = present(ToolStarted(shell), ToolFinished(shell, ToolOutcome("edited a", diff="@@ -1 +1 @@"), "done"))
    assert ("update", "c1", {"diff": "@@ -1 +1 @@"}) in record.calls


def test_problems_of_an_edit_are_shown_below_its_diff() -> None:
    edit = call()
    outcome = ToolOutcome(
        "for the model", summary="+1, 1 new problem", diff="@@ -1 +1 @@", problems="a.py:1:1: error: x"
    )
    record = present(ToolStarted(edit), ToolFinished(edit, outcome, "done"))
    assert record.calls[-1] == (
        "update",
        "c1",
        {"output": "a.py:1:1: error: x", "diff": "@@ -1 +1 @@", "summary": "+1, 1 new problem"},
    )


def test_rejected_call_that_never_started_has_a_card_with_its_reason() -> None:
    write = call("write", '{"path": "big.py"}', "c9")
    record = present(
        reply("", write),
        ToolFinished(write, ToolOutcome("MUST be split", is_error=True, summary="not run"), "rejected"),
    )
    assert record.of("card") == [("card", "c9", "write", "big.py")]
    assert ("update", "c9", {"state": "rejected", "argument": "big.py"}) in record.calls
    assert ("update", "c9", {"output": "MUST be split"}) in record.calls


def test_card_of_a_discarded_attempt_is_not_changed_again() -> None:
    record = present(
        ToolCallProgress(1, "c1", "write", 100),
        Retry(False, "max_tokens", 1, 9),
        OutputEscalated(1, 9),
        reply("x"),
        ended(),
    )
    after = record.calls[record.calls.index(("restart", "truncated at 1 tokens; retrying with 9 tokens")) :]
    assert [entry for entry in after if entry[0] == "update"] == []


def test_open_cards_are_cancelled_with_the_turn() -> None:
    record = present(ToolStarted(call()), ended(Outcome.CANCELLED))
    assert ("update", "c1", {"state": "cancelled"}) in record.calls
    assert record.of("mark") == [("mark", "interrupted")]
    assert record.of("notice") == []
    long = replace(ended(Outcome.CANCELLED), seconds=49.0)
    assert present(long).of("mark") == [("mark", "interrupted · 49 s · $0.0021")]
    assert record.activity is None


def test_approval_pauses_the_timer_and_is_shown() -> None:
    record = present(ApprovalRequested(ToolApproval(call(), "Run?", "ls")))
    assert record.of("ask") == [("ask", "c1")]
    assert record.activity is not None
    assert not record.activity.is_moving


def test_wait_is_a_countdown() -> None:
    record = present(Waiting(3.0, "rate limited", 2, max_retries=5))
    assert record.activity == Activity("rate limited", 1_000.0, 1_003.0, 2, max_retries=5)


@pytest.mark.parametrize(
    ("events", "mark"),
    [
        ((Waiting(3.0, "rate limited", 2),), "interrupted while waiting · 12 s · rate limited"),
        ((LimitReached(LIMIT, 7_800),), "interrupted while waiting · 12 s · limit until"),
        ((Waiting(3.0, "rate limited", 2), StepStarted(1)), "interrupted · 12 s"),
    ],
)
def test_mark_of_a_turn_that_was_interrupted_during_a_wait_names_the_wait_after_the_figures(
    events: Sequence[TurnEvent], mark: str
) -> None:
    over = replace(ended(Outcome.CANCELLED, cost=None), seconds=12.0)
    (_, first), (_, second) = present(*events, over, over).of("mark")
    assert first.startswith(mark)
    assert second == "interrupted · 12 s"


def test_message_of_a_stop_hook_is_a_notice_and_no_prompt() -> None:
    shown = present(SteeringAdded('<hook event="Stop">\nThe tests fail.\n</hook>'))
    assert shown.of("notice") == [("notice", "info", "Stop hook: The tests fail.")]


def test_note_of_a_reply_is_shown_once() -> None:
    cut = ReplyFinished(StopReason.MAX_TOKENS, "length", 4, None, note="Still cut after 5 requests.")
    once = [("notice", "warning", "Still cut after 5 requests.")]
    assert present(cut, ended(Outcome.MAX_TOKENS)).of("notice") == once
    repeated = Notice("warning", "Still cut after 5 requests.")
    assert present(cut, repeated, ended(Outcome.MAX_TOKENS)).of("notice") == once
    of_call = Notice("warning", "The call was truncated twice.")
    assert present(of_call, replace(ended(Outcome.MAX_TOKENS), note=of_call.text)).of("notice") == [
        ("notice", "warning", "The call was truncated twice.")
    ]
    interrupted = ReplyFinished(StopReason.UNKNOWN, "", 1, None, note="Interrupted.")
    assert present(interrupted, ended(Outcome.CANCELLED)).of("notice") == []


def test_every_outcome_states_the_event_and_the_next_step() -> None:
    def notices(outcome: Outcome, **how: Any) -> list[tuple[Any, ...]]:
        return present(ended(outcome, **how)).of("notice")

    assert notices(Outcome.END_TURN) == []
    assert notices(Outcome.ERROR, error="No key for anthropic. Set ANTHROPIC_API_KEY.") == [
        ("notice", "error", "No key for anthropic. Set ANTHROPIC_API_KEY.")
    ]
    assert "still truncated" in notices(Outcome.MAX_TOKENS)[0][2]
    assert "refused" in notices(Outcome.REFUSAL)[0][2]
    for limit, flag in (
        (Limit.TURNS, "--max-turns"),
        (Limit.TOOL_CALLS, "--max-tool-calls"),
        (Limit.COST, "--max-budget-usd"),
    ):
        assert flag in notices(Outcome.MAX_TURN_REQUESTS, limit=limit)[0][2]


def test_error_message_cannot_carry_escape_sequences_or_lines() -> None:
    error = ErrorInfo("server", "bad\x1b[31m\nnews")
    record = present(replace(ended(Outcome.ERROR), error=error))
    assert record.of("notice") == [("notice", "error", "bad⏎news")]


def test_cost_of_recovery_is_reported_at_the_end() -> None:
    calls = ApiCalls(initial=1, escalations=1, continuations=3)
    assert present(ended(Outcome.END_TURN, api_calls=calls, discarded=8_000)).of("notice")[-1] == (
        "notice",
        "info",
        "5 API calls for 1 reply: 1 retry with a higher output limit, 3 continuations; 8,000 output "
        "tokens were discarded.",
    )


def test_notice_about_a_truncated_reply_is_not_followed_by_the_same_in_other_words() -> None:
    calls = ApiCalls(initial=1, escalations=1, continuations=3)
    over = ended(Outcome.MAX_TOKENS, api_calls=calls, discarded=8_000)
    cut = "The reply is incomplete after 5 requests."
    assert present(TurnStarted("go"), reply("text", note=cut), over).of("notice") == [
        ("notice", "warning", cut),
        ("notice", "info", "5 API calls for 1 reply; 8,000 output tokens were discarded."),
    ]


def test_truncated_call_is_named_by_its_path_or_as_incomplete() -> None:
    assert main_argument(call("write", placeholder_arguments('{"path": "a.py", "content": "x'))) == "a.py"
    assert main_argument(call("write", placeholder_arguments('{"content": "x'))) == "incomplete arguments"


def test_title_of_a_plan_is_its_heading_without_markup() -> None:
    assert main_argument(call("exit_plan_mode", '{"plan": "# Write `a.py` **now**\\n\\nx"}')) == "Write a.py now"


def test_main_argument_is_one_line_without_invisible_characters() -> None:
    assert main_argument(call(arguments='{"timeout": 5, "command": "ls\\n-la\\u001b[2J"}')) == "ls⏎-la\\x1b[2J"
    assert main_argument(call(arguments='{"path": "a.py", "content": "x"}')) == "a.py"
    emoji = json.dumps({"command": "echo 👩\u200d💻 a\u200db \u202e"})
    assert main_argument(call(arguments=emoji)) == "echo 👩\u200d💻 a\\u200db \\u202e"
    assert main_argument(call(arguments='{"depth": 2, "what": "this"}')) == "this"
    assert main_argument(call(arguments="{}")) == ""
    assert main_argument(call(arguments='{"command": ["git", "log"]}')) == "git log"


def last_update(*events: TurnEvent) -> dict[str, Any]:
    found: dict[str, Any] = present(*events).of("update")[-1][2]
    return found


def test_failed_call_and_answer_are_not_repeated() -> None:
    shell = call()
    failed = ToolOutcome("no such file", is_error=True, summary="no such file")
    assert last_update(ToolStarted(shell), ToolFinished(shell, failed, "failed")) == {"summary": "no such file"}
    longer = ToolOutcome("no passage\nnearest: line 3", is_error=True, summary="no passage")
    assert last_update(ToolStarted(shell), ToolFinished(shell, longer, "failed")) == {
        "summary": "no passage",
        "output": "nearest: line 3",
    }
    question = call("ask_person", '{"question": "Which?"}', "c2")
    assert last_update(ToolFinished(question, ToolOutcome("blue", summary="blue"), "done")) == {"summary": "blue"}


def test_notes_to_the_model_are_not_shown() -> None:
    shell = call()
    outcome = ToolOutcome("one\n[exit code 3]", is_error=True, summary="exit 3", shown="one\n")
    assert last_update(ToolStarted(shell), ToolFinished(shell, outcome, "failed"))["output"] == "one\n"


@pytest.mark.parametrize(
    ("sandbox", "place"),
    [
        ("", None),
        ("read-only", None),
        ("workspace", "in the sandbox"),
        ("protect", "outside the sandbox"),
        ("outside", "outside the sandbox"),
    ],
)
def test_result_of_a_command_says_where_it_ran_unless_it_only_reads(sandbox: SandboxUse, place: str | None) -> None:
    outcome = ToolOutcome("", summary="exit 0", shown="", sandbox=sandbox)
    update = last_update(ToolStarted(call()), ToolFinished(call(), outcome, "done"))
    assert update.get("sandbox_note") == place


def test_failure_of_a_command_that_only_reads_says_that_it_was_sandboxed() -> None:
    outcome = ToolOutcome("", is_error=True, summary="exit 128", shown="", sandbox="read-only")
    assert last_update(ToolStarted(call()), ToolFinished(call(), outcome, "failed"))["sandbox_note"] == "in the sandbox"


def test_search_shows_its_pattern_and_folder() -> None:
    found = main_argument(call("grep", '{"path": "src", "pattern": "TODO|FIXME", "glob": "*.py"}'))
    assert found == "TODO|FIXME in src (*.py)"
    assert main_argument(call("glob", '{"path": ".", "pattern": "**/*.py"}')) == "**/*.py"


def test_listing_without_a_path_shows_the_workspace() -> None:
    arguments = ("{}", '{"path": ""}', '{"depth": 2}', '{"path": "src"}')
    assert [main_argument(call("ls", text)) for text in arguments] == [".", ".", ".", "src"]


def test_main_argument_of_a_todo_list_is_the_task_in_progress() -> None:
    rows = '{"task": "read it", "state": "done"}, {"task": "change\\nit", "state": "in_progress"}'
    assert main_argument(call("todo", f'{{"items": [{rows}]}}')) == "change⏎it"
    assert main_argument(call("todo", '{"items": [{"task": "read it", "state": "done"}]}')) == ""
    assert main_argument(call("todo", '{"items": "x"}')) == ""


def test_summary_leaves_out_what_the_argument_or_the_todo_panel_says() -> None:
    def summary_of(made: ToolCall, summary: str, state: CallState) -> list[str]:
        shown = present(ToolFinished(made, ToolOutcome("text", summary=summary), state))
        return [changes["summary"] for _, _, changes in shown.of("update") if "summary" in changes]

    assert summary_of(call("read", '{"path": "a.py"}'), "a.py does not exist", "failed") == ["does not exist"]
    assert summary_of(call("read", '{"path": "a.py"}'), "3 lines", "done") == ["3 lines"]
    approved = "Plan approved · qcode asks before each change"
    assert summary_of(call("exit_plan_mode", '{"plan": "# Plan"}'), approved, "done") == [approved]
    items = '{"items": [{"task": "read it", "state": "%s"}]}'
    assert summary_of(call("todo", items % "in_progress"), "0 of 1 done", "done") == []
    assert summary_of(call("todo", items % "done"), "1 of 1 done", "done") == ["1 of 1 done"]
    assert summary_of(call("todo", items % "in_progress"), "no valid items", "failed") == ["no valid items"]


def test_cancelled_call_is_reported_once_and_the_next_call_is_announced() -> None:
    calls = [call("edit", "{}", "c1"), call("shell", "{}", "c2")]
    cancelled = ToolFinished(
        calls[0], ToolOutcome("Cancelled by the user; it was not run.", is_error=True), "cancelled"
    )
    shown = present(reply("", *calls, stop=StopReason.TOOL_USE), cancelled)
    assert not any("output" in changes or "summary" in changes for _, _, changes in shown.of("update"))
    assert shown.activity is not None
    assert shown.activity.text == "starting the next call"


def test_question_counts_the_other_questions_of_the_reply() -> None:
    calls = [call("edit", "{}", "c1"), call("read", "{}", "c2"), call("shell", "{}", "c3"), call("write", "{}", "c4")]
    asked = [ApprovalRequested(ToolApproval(one, "Run it?", "", "", False)) for one in calls]
    ran = ToolFinished(calls[2], ToolOutcome("fine"), "done")
    shown = present(reply("", *calls, stop=StopReason.TOOL_USE), asked[0], asked[0], ran, asked[3])
    assert shown.of("ask") == [("ask", "c1", "1 of 3"), ("ask", "c1", "1 of 3"), ("ask", "c4", "2 of 2")]
    assert present(reply("", *calls[:2], stop=StopReason.TOOL_USE), asked[0]).of("ask") == [("ask", "c1")]


DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-old\n--- dashes\n+new\n same\n"
NEW = "--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,2 @@\n+one\n+two\n"


def test_turn_that_renames_a_file_ends_with_one_file() -> None:
    renamed = "--- a/old.py\n+++ b/new.py\n@@ -1 +1 @@\n-old\n+new\n"
    record = present(
        ToolFinished(call(), ToolOutcome("x", diff=renamed), "done"), replace(ended(cost=None), seconds=2.0)
    )
    assert record.of("mark") == [("mark", "2 s · 1 file +1 -1")]


def test_closing_line_counts_files_that_commands_changed_once() -> None:
    over = replace(ended(cost=None), seconds=2.0)
    ran = ToolFinished(call(), ToolOutcome("x", is_error=True, files_without_diff=("a.py", "c.py")), "failed")
    assert present(ran, over).of("mark") == [("mark", "2 s · 2 files changed")]
    edited = ToolFinished(call(call_id="c2"), ToolOutcome("x", diff=DIFF), "done")
    assert present(edited, ran, over).of("mark") == [("mark", "2 s · 2 files +1 -2")]


def test_turn_ends_with_its_time_files_and_cost() -> None:
    one, two, lost = call(call_id="c1"), call(call_id="c2"), call(call_id="c3")
    done = [
        ToolFinished(one, ToolOutcome("x", diff=DIFF), "done"),
        ToolFinished(two, ToolOutcome("x", diff=NEW), "done"),
    ]
    failed = ToolFinished(lost, ToolOutcome("x", is_error=True, diff=NEW), "denied")
    record = present(*done, failed, replace(ended(cost="0.031"), seconds=34.2))
    assert record.of("mark") == [("mark", "34 s · 2 files +3 -2 · $0.0310")]
    assert present(replace(ended(cost=None), seconds=0.2)).of("mark") == []
    compaction = replace(ended(cost=None), seconds=2.0)
    record = present(*done, ended(), TurnStarted("again"), compaction)
    assert record.of("mark") == [("mark", "2 s")]
    record = present(*done, replace(ended(), seconds=34.2), compaction)
    assert record.of("mark")[1:] == [("mark", "2 s")]


def test_notice_of_a_compaction_names_what_undo_reverts() -> None:
    compacted = Compacted(12_000, 3_000, "summary")
    by_command = present(TurnStarted("go"), ended(), compacted, ended()).of("notice")
    in_turn = present(TurnStarted("go"), compacted, ended()).of("notice")
    text = "Compacted: older messages summarized (12k → 3k tokens). "
    assert by_command == [("notice", "info", f"{text}/undo reverts this; the session file keeps everything.")]
    assert in_turn == [("notice", "info", f"{text}/undo reverts it with its turn; the session file keeps everything.")]


def test_open_question_of_a_server_is_closed_with_its_call() -> None:
    made = call("db__search", "{}", "c1")
    question = Question(made, "Which table?", server="db", number=2)
    finished = ToolFinished(made, ToolOutcome("gone", is_error=True), "failed")
    recorder = present(StepStarted(1), ToolStarted(made), ApprovalRequested(question), finished)
    assert ("withdraw", "c1:2") in recorder.of("withdraw")
    assert recorder.of("notice") == [("notice", "info", "The question of db was closed: its call has ended.")]
    # One that was answered leaves no notice.
    recorder = Recorder()
    recorder.withdraw = lambda approval_id: False  # type: ignore[method-assign]
    presenter = Presenter(recorder, recorder, recorder, FixedClock())
    for event in (ToolStarted(made), ApprovalRequested(question), finished):
        presenter.present(event)
    assert recorder.of("notice") == []


def test_call_that_did_not_run_says_why_once_and_in_words_for_the_user() -> None:
    made = call("shell", '{"command": "make"}', "c1")

    def finished(state: CallState, text: str, shown: str | None = None) -> dict[str, Any]:
        outcome = ToolOutcome(text, is_error=True, summary=state, shown=shown)
        update: dict[str, Any] = present(ToolFinished(made, outcome, state)).of("update")[-1][2]
        return update

    assert finished("denied", "Denied by the user.") == {}
    assert finished("denied", "Denied: use make check") == {"summary": "use make check"}
    assert finished("denied", "Denied: two\nlines") == {"output": "two\nlines"}
    message = "Rejected: You MUST split it."
    assert finished("rejected", message, "truncated by the output limit") == {
        "summary": "truncated by the output limit"
    }
    assert finished("rejected", message) == {"output": message}


@pytest.mark.parametrize(
    ("name", "summary", "shown"),
    [
        ("shell", "declined", "declined"),
        ("shell", "denied", "denied"),
        ("exit_plan_mode", "declined", "declined"),
        ("ask_person", "declined", "unanswered"),
    ],
)
def test_card_of_a_denied_call_says_whether_the_user_or_a_rule_denied_it(name: str, summary: str, shown: str) -> None:
    outcome = ToolOutcome("Denied by the user.", is_error=True, summary=summary)
    updates = present(ToolFinished(call(name, "{}", "c1"), outcome, "denied")).of("update")
    assert [changes["state"] for _, _, changes in updates if "state" in changes] == [shown]


def test_reason_of_several_lines_for_declining_a_plan_is_shown() -> None:
    made = call("exit_plan_mode", '{"plan": "# Cache"}', "c1")
    outcome = ToolOutcome("Denied: x", is_error=True, summary="declined", shown="Denied: use a file\nand no index")
    update = present(ToolFinished(made, outcome, "denied")).of("update")[-1][2]
    assert update == {"output": "use a file\nand no index", "plan": "# Cache"}
