"""The status line at every width, and its timer."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.trust.service import RESTRICTED_NOTICE
from qcode.agent.usage import TurnUsage
from qcode.protocol.approvals import ApprovalMode, ToolApproval
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    ApiCalls,
    ApprovalRequested,
    ModelUsage,
    Notice,
    ToolStarted,
    TurnEnded,
    UsageUpdated,
    Waiting,
)
from qcode.protocol.reply import Outcome
from qcode.protocol.usage import Usage
from qcode.text.numbers import cost_text, count_text, duration_text, exit_text, tokens_text
from qcode.tui.status import Activity, QuestionState, SessionTotals, Status, render_status
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, Script, ScriptedConversation, call, ended, says

FULL = Status(
    model="anthropic/claude-opus",
    mode="accept-edits",
    context_tokens=50_000,
    context_window=200_000,
    tokens=61_300,
    cost=Decimal("0.4231"),
    branch="feature/limits",
    activity=Activity("writing", 100.0),
)


def test_wide_status_line_shows_everything() -> None:
    line = render_status(FULL, 160, 112.5).plain
    for part in (
        "writing 12 s · Esc to interrupt",
        "anthropic/claude-opus",
        "accept edits",
        "━━──────",
        "━━────── context 25%",
        "session 61.3k tokens",
    ):
        assert part in line
    assert line.endswith("$0.42  feature/limits")


def test_shell_line_takes_the_place_of_the_mode_unless_a_question_waits() -> None:
    typed = replace(FULL, is_shell_prompt=True)
    assert render_status(typed, 160, 112.5).plain.startswith("shell command  ")
    assert "shell command · Enter runs it" in render_status(replace(typed, activity=None), 160, 112.5).plain
    waiting = replace(typed, activity=Activity("waiting for your answer", 100.0, is_moving=False))
    assert render_status(waiting, 160, 112.5).plain.startswith("accept edits  waiting for your answer")
    answering = replace(typed, question=QuestionState("writing an answer", "Enter send"))
    assert render_status(answering, 160, 112.5).plain.startswith("accept edits  writing an answer")


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 50, 40, 30, 20, 8])
def test_every_width_is_filled_exactly_and_keeps_the_mode(width: int) -> None:
    line = render_status(FULL, width, 112.5)
    assert line.cell_length == max(width, len("accept-edits"))
    assert line.plain.startswith(("accept edits", "accept-edits"))


def test_parts_are_dropped_in_order_of_importance() -> None:
    gone = []
    for width in range(160, 20, -1):
        line = render_status(FULL, width, 112.5).plain
        for part in (
            "feature/limits",
            "61.3k tokens",
            "anthropic/",
            "━━",
            "$0.42",
            "Esc to interrupt",
            "context 25%",
            "claude-opus",
            "12 s",
            " Esc",
        ):
            if part not in line and part not in gone:
                gone.append(part)
    assert gone == [
        "feature/limits",
        "━━",
        "61.3k tokens",
        "anthropic/",
        "$0.42",
        "context 25%",
        "Esc to interrupt",
        "claude-opus",
        "12 s",
    ]


ROUTED = replace(FULL, model="openrouter/anthropic/claude-sonnet-4.5", mode="default", mode_key="Shift+Tab", branch="")


@pytest.mark.parametrize(
    ("status", "width", "line"),
    [
        (ROUTED, 80, "ask  ⠋ writing 12 s · Esc to interrupt  claude-sonnet-4.5  context 25%  $0.42"),
        (ROUTED, 60, "ask  ⠋ writing 12 s · Esc to interrupt  claude-sonnet-4.5"),
        (ROUTED, 40, "ask  ⠋ writing 12 s · Esc to interrupt"),
        (
            replace(ROUTED, vim="INSERT"),
            90,
            "INSERT  ask  ⠋ writing 12 s · Ctrl+C to interrupt  claude-sonnet-4.5  context 25%  $0.42",
        ),
        (replace(ROUTED, vim="INSERT"), 40, "INSERT  ask  ⠋ writing 12 s · Ctrl+C"),
        (replace(ROUTED, vim="NORMAL"), 60, "NORMAL  ask  ⠋ writing 12 s · Esc stop  claude-sonnet-4.5"),
        (replace(ROUTED, activity=None), 80, "ask before edits · Shift+Tab  claude-sonnet-4.5  context 25%  $0.42"),
        (replace(ROUTED, activity=None), 40, "ask  claude-sonnet-4.5  context 25%"),
        (
            replace(ROUTED, activity=None, model="openai/m"),
            80,
            "ask before edits · Shift+Tab  openai/m  context 25%  session 61.3k tokens  $0.42",
        ),
        (replace(ROUTED, model="openai/m"), 60, "ask  ⠋ writing 12 s · Esc to interrupt  openai/m"),
        (replace(ROUTED, activity=None, model="openai/m"), 40, "ask  openai/m  context 25%  $0.42"),
        (replace(ROUTED, activity=None, model="openai/m", cost=None), 40, "ask  openai/m  context 25%  61.3k tokens"),
    ],
)
def test_narrow_line_keeps_the_interrupt_key_a_usable_model_name_and_a_total(
    status: Status, width: int, line: str
) -> None:
    shown = render_status(status, width, 112.5).plain
    assert "  ".join(part.strip() for part in shown.split("  ") if part.strip()) == line


def test_nearly_full_context_outlasts_the_words_of_the_interrupt_key() -> None:
    full = replace(ROUTED, context_tokens=190_000)
    assert "context 95%" in render_status(full, 58, 112.5).plain
    assert "Esc to interrupt" not in render_status(full, 58, 112.5).plain


def test_words_nearly_full_outlast_the_provider_of_a_short_name() -> None:
    full = replace(ROUTED, context_tokens=190_000, model="openai/model", activity=None)
    assert render_status(full, 36, 112.5).plain == "ask   model  context 95% nearly full"


def test_forty_columns_show_the_event_and_the_mode() -> None:
    line = render_status(FULL, 40, 112.5).plain
    assert line.startswith("accept edits  ⠋ writing 12 s · Esc stop ")


RETRYING = "truncated at the output limit, retrying with 64,000 tokens: waiting for the model"
BUSY = (
    Activity(RETRYING, 100.0),
    Activity("rate limited by the provider: Too many requests (429)", 100.0, 130.0, attempt=2),
    Activity("The connection was lost.", 100.0, 101.0),
    Activity("limit until 16:05", 100.0, 3_700.0, attempt=0),
    Activity("a sub-agent is running a command", 100.0),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("activity", BUSY)
def test_status_line_keeps_the_interrupt_key_and_whole_words_at_every_width(activity: Activity) -> None:
    widest = render_status(Status(activity=activity), 200, 100.5).plain
    for width in range(12, 200):
        line = render_status(replace(STATED, mode="default", activity=activity), width, 100.5).plain
        shown, interrupt, _ = line.partition("⠼")[2].partition(" Esc")
        assert interrupt
        assert {word.strip(",;:.…") for word in shown.split()} <= {word.strip(",;:.…") for word in widest.split()}, line


def test_long_activity_loses_whole_parts_before_words() -> None:
    lines = [
        render_status(Status(activity=Activity(RETRYING, 100.0)), width, 100.5).plain for width in (130, 78, 50, 40)
    ]
    assert [line.partition("⠼ ")[2].rstrip() for line in lines] == [
        f"{RETRYING} · Esc to interrupt",
        "truncated at the output limit, retrying with 64,000 tokens · Esc stop",
        "truncated at the output limit · Esc stop",
        "truncated at the output… · Esc",
    ]


def test_reason_of_a_wait_is_hidden_if_too_little_of_it_fits() -> None:
    waiting = Activity("rate limited by the provider", 100.0, 105.0)
    assert (
        render_status(Status(activity=waiting), 40, 102.2).plain.rstrip() == "ask  ⠧ retry 1 in 3 s · Esc to interrupt"
    )


def test_reason_of_a_wait_is_more_than_the_name_of_the_provider() -> None:
    why = "openai: Rate limit reached for gpt-5 in organization org-1 on tokens per minute: Limit 30000, Used…"
    status = Status(model="openai/gpt-5", activity=Activity(why, 100.0, 103.0, attempt=1))
    assert "⠧ openai: Rate limit reached for gpt-5…, retry 1 in 1 s · Esc" in render_status(status, 80, 102.2).plain


def test_wait_counts_down_and_a_long_reason_is_shortened_before_the_figures() -> None:
    waiting = Activity("The provider is overloaded and asks everybody to come back later.", 100.0, 105.0, attempt=2)
    for width in (160, 80, 40):
        line = render_status(Status(mode="default", activity=waiting), width, 102.2).plain
        assert "retry 2 in 3 s" in line
    assert "later, retry 2" in render_status(Status(mode="default", activity=waiting), 160, 102.2).plain


def test_exit_code_of_a_signal_names_the_signal() -> None:
    assert [exit_text(code) for code in (-9, 0, 3)] == ["ended by signal 9", "exit code 0", "exit code 3"]


@given(st.text(max_size=40), st.text(max_size=40), st.integers(1, 200), st.integers(0, 10**9), st.integers(0, 10**9))
def test_status_line_fits_with_any_text_and_number(
    model: str, branch: str, width: int, tokens: int, window: int
) -> None:
    status = Status(model, "plan", "F9", tokens, window, tokens, branch=branch, activity=Activity("running x", 0.0))
    line = render_status(status, width, 1.0)
    assert line.cell_length <= max(width, len("plan"))
    assert not set(line.plain) & set("\n\r\x1b\x07")


def test_figures_have_usual_units() -> None:
    assert [tokens_text(n) for n in (0, 999, 1_000, 8_249, 99_949, 128_000, 999_950, 1_300_000)] == [
        "0", "999", "1k", "8.2k", "99.9k", "128k", "1M", "1.3M",
    ]  # fmt: skip
    assert [cost_text(Decimal(c)) for c in ("0", "0.00001", "0.0042", "0.1", "12.346")] == [
        "$0", "<$0.0001", "$0.0042", "$0.10", "$12.35",
    ]  # fmt: skip
    assert [duration_text(s) for s in (-1, 4.9, 125, 3_720)] == ["0 s", "4 s", "2 min 05 s", "1 h 02 min"]
    assert [count_text(1, "line"), count_text(1_200, "line")] == ["1 line", "1,200 lines"]


def test_totals_mark_a_partly_unknown_cost() -> None:
    totals = SessionTotals().plus(100, Decimal("0.5")).plus(50, None)
    assert (totals.tokens, totals.cost, totals.has_unknown_cost) == (150, Decimal("0.5"), True)
    assert "at least $0.50" in render_status(Status(cost=totals.cost, has_unknown_cost=True), 80, 0.0).plain
    for cost in (None, Decimal(0), Decimal("0.00009")):  # not "at least <$0.0001"
        assert "cost unknown" in render_status(Status(cost=cost, has_unknown_cost=True), 80, 0.0).plain


def test_number_of_tokens_is_kept_longer_than_the_words_for_an_unknown_cost() -> None:
    status = Status(model="m/model", tokens=12_900, has_unknown_cost=True)
    assert "session 12.9k tokens  cost unknown" in render_status(status, 120, 0.0).plain
    lines = [render_status(status, width, 0.0).plain for width in range(20, 120)]
    assert all("12.9k tokens" in line for line in lines if "cost unknown" in line)
    assert any("12.9k tokens" in line and "cost unknown" not in line for line in lines)


@pytest.mark.parametrize(("cost", "shown"), [(None, "at least $0.50"), (Decimal(0), "$0.50")])
def test_cost_is_a_minimum_after_an_interrupted_reply_but_not_after_a_refused_request(
    cost: Decimal | None, shown: str
) -> None:
    totals = SessionTotals().plus(100, Decimal("0.5")).plus(0, None, [ModelUsage("m", Usage(), cost)])
    line = render_status(Status(cost=totals.cost, has_unknown_cost=totals.has_unknown_cost), 80, 0.0).plain
    assert line.endswith(f"  {shown}")


TYPING = QuestionState("typing an answer", "Enter send · Esc back")


@pytest.mark.parametrize("width", [120, 80, 60, 40, 24])
def test_hint_stands_before_the_activity_whose_key_stays(width: int) -> None:
    hinting = replace(FULL, mode="default", hint="type to replace the text · End to edit it")
    line = render_status(hinting, width, 112.5).plain
    assert "type" in line
    assert "Esc" in line.partition("type")[2]
    assert ("writing" in line) == (width >= 60)
    asking = replace(hinting, question=QuestionState("waiting for your answer", "Esc to interrupt"))
    assert "Esc" in render_status(asking, width, 112.5).plain.partition("type")[2]


@pytest.mark.parametrize(
    ("action", "keys", "width", "line"),
    [
        ("writing an answer", "Enter send · Esc back", 40, "ask  writing an… · Enter send · Esc back"),
        ("writing an answer", "Enter send · Esc back", 30, "ask  Enter send · Esc back"),
        ("writing an answer", "Enter send · Esc back", 20, "ask  Esc back"),
        ("writing an answer", "Enter send · Esc to interrupt", 50, "ask  writing an answer · Enter send · Esc stop"),
        ("writing a reason", "Enter stop the turn · Esc back", 40, "ask  Enter stop the turn · Esc back"),
    ],
)
def test_narrow_line_keeps_the_enter_key_of_the_text_field(action: str, keys: str, width: int, line: str) -> None:
    answering = Status(model="demo/demo", question=QuestionState(action, keys))
    assert render_status(answering, width, 0.0).plain.rstrip() == line


@pytest.mark.parametrize(
    ("hint", "question", "width", "line"),
    [
        ("", None, 60, "ask  ⠋ waiting for the model 5 s · Esc  claude-sonnet-4-5"),
        ("", None, 50, "ask  ⠋ waiting for the model 5 s · Esc stop"),
        ("copied 17 characters", None, 60, "ask  copied 17 characters  ⠋ waiting for the model 5 s · Esc"),
        ("copied 17 characters", TYPING, 80, "ask  copied 17 characters  typing an answer · Enter send · Esc back"),
        ("", TYPING, 60, "ask  typing an answer · Enter send · Esc back"),
        ("type to replace the text · End to edit it", None, 60, "ask  type to replace the text  ⠋ waiting for… · Esc"),
    ],
)
def test_activity_is_shown_before_the_model(hint: str, question: QuestionState | None, width: int, line: str) -> None:
    busy = Status("anthropic/claude-sonnet-4-5", hint=hint, question=question)
    busy = replace(busy, activity=Activity("waiting for the model", 0.0))
    assert render_status(busy, width, 5.0).plain.split() == line.split()


def test_tokens_and_cost_add_up_over_the_turns_of_a_session() -> None:
    gate = Gate()
    live = UsageUpdated(Usage(2_000, 500), Decimal("0.01"), 2_500, 10_000)
    scripts: list[Script] = [
        [*says("a"), ended()],
        [live, gate, *says("b"), ended(usage=Usage(4_000, 500), cost="0.02")],
    ]
    conversation = ScriptedConversation(*scripts)

    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert "1.5k tokens  $0.0021" in run.status
        await run.send("two")
        await gate.reached.wait()
        status = run.app.widgets.status.status
        assert (status.tokens, status.cost) == (4_000, Decimal("0.0121"))
        assert (status.context_tokens, status.context_window) == (2_500, 10_000)
        gate.open()
        await run.until_idle()
        assert (run.app.widgets.status.status.tokens, run.app.widgets.status.status.cost) == (6_000, Decimal("0.0221"))

    drive(test, conversation)


def test_timer_runs_only_while_something_changes() -> None:
    running, asking = Gate(), Gate()
    request = ApprovalRequested(ToolApproval(call(), "Run?", "ls"))
    conversation = ScriptedConversation([ToolStarted(call()), running, request, asking, ended()])

    async def test(run: Running) -> None:
        line = run.app.widgets.status
        seen = [(line.is_ticking, run.status.strip().split("  ")[1])]
        await run.send("go")
        await running.reached.wait()
        seen.append((line.is_ticking, run.status.strip().split("  ")[1]))
        running.open()
        await asking.reached.wait()
        seen.append((line.is_ticking, run.status.strip().split("  ")[1]))
        asking.open()
        await run.until_idle()
        seen.append((line.is_ticking, run.status.strip().split("  ")[1]))
        assert seen == [
            (False, ""),
            (True, "⠋ running a command · Esc to interrupt"),
            (False, "waiting for your answer · Esc to interrupt"),
            (False, ""),
        ]

    drive(test, conversation)


def test_wait_is_shown_with_its_countdown_and_can_be_cancelled() -> None:
    gate = Gate()
    conversation = ScriptedConversation([Waiting(5.0, "rate limited", 1), gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        run.clock.now += 2
        assert "rate limited, retry 1 in 3 s · Esc to interrupt" in run.status
        await run.pilot.press("escape")
        await run.until_idle()
        assert conversation.cancels == 1

    drive(test, conversation)


STATED = replace(FULL, effort="high", has_no_sandbox=True, is_restricted=True, problem="offline")


def test_status_line_drops_least_important_parts_first_and_never_wraps() -> None:
    gone: list[str] = []
    parts = ("no sandbox", "high", "restricted", "offline", "claude-opus", "25%", "$0.42")
    for width in range(220, 9, -1):
        line = render_status(STATED, width, 112.5)
        assert line.cell_length == width
        assert "\n" not in line.plain
        gone += [part for part in parts if part not in line.plain and part not in gone]
    assert gone == ["$0.42", "high", "no sandbox", "offline", "25%", "claude-opus", "restricted"]


def test_status_line_mentions_the_sandbox_only_if_there_is_none() -> None:
    assert "sandbox" not in render_status(FULL, 160, 0.0).plain
    assert "no sandbox" in render_status(replace(FULL, has_no_sandbox=True), 160, 0.0).plain


@pytest.mark.parametrize(
    ("mode", "words", "name"),
    [
        ("plan", "plan mode", "plan"),
        ("default", "ask before edits", "ask"),
        ("accept-edits", "accept edits", "accept edits"),
        ("auto", "auto mode", "auto"),
        ("bypass", "bypass: never asks", "bypass"),
    ],
)
def test_status_line_starts_with_the_mode_in_words_and_its_key(mode: ApprovalMode, words: str, name: str) -> None:
    status = Status(model="demo/demo", mode=mode, mode_key="Shift+Tab")
    assert render_status(status, 80, 0.0).plain.startswith(f"{words} · Shift+Tab  ")
    assert render_status(replace(status, mode_key=""), 80, 0.0).plain.startswith(f"{words}  ")
    busy = replace(status, activity=Activity("writing", 0.0))
    assert render_status(busy, 80, 0.0).plain.startswith(f"{words}  ⠋ writing")
    assert render_status(busy, 24, 0.0).plain.startswith(f"{name}  ⠋")


def test_status_line_counts_running_jobs() -> None:
    assert "job" not in render_status(FULL, 160, 0.0).plain
    assert "1 job " in render_status(replace(FULL, jobs=1), 160, 0.0).plain
    assert "2 jobs" in render_status(replace(FULL, jobs=2), 80, 112.5).plain
    narrow = Status(model="openai/gpt-5.1", jobs=2, context_tokens=900, context_window=128_000)
    assert "2 jobs  gpt-5.1  context <1%" in render_status(narrow, 38, 0.0).plain, "the provider leaves before the jobs"
    assert "openai/gpt-5.1  context <1%" in render_status(replace(narrow, jobs=0), 38, 0.0).plain


def test_forty_columns_still_show_the_problem() -> None:
    line = render_status(replace(STATED, mode="default", activity=None), 40, 0.0).plain
    assert "offline  restricted" in line
    assert line.startswith("ask")


def test_known_problem_leaves_before_the_words_of_the_interrupt_key_while_a_turn_runs() -> None:
    working = Status(model="demo/demo", problem="no key set", activity=Activity("waiting for the model", 0.0))
    assert "no key set" in render_status(working, 90, 5.0).plain
    narrow = render_status(working, 64, 5.0).plain
    assert "Esc to interrupt" in narrow
    assert "no key set" not in narrow
    assert "no key set" in render_status(replace(working, activity=None), 30, 5.0).plain


def test_opening_of_a_resumed_session_is_shown_instead_of_its_mode() -> None:
    opening = Status(model="demo/demo", mode="default", is_opening=True)
    assert [render_status(opening, width, 0.0).plain.split() for width in (80, 20)] == [
        ["opening", "the", "session", "demo/demo"],
        ["opening", "demo/demo"],
    ]
    assert render_status(replace(opening, is_opening=False), 80, 0.0).plain.startswith("ask")


def test_nearly_full_window_is_reported_in_words() -> None:
    assert "nearly full" not in render_status(replace(FULL, context_tokens=148_000), 160, 0.0).plain
    wide = replace(FULL, context_tokens=156_000)
    assert "context 78% nearly full" in render_status(wide, 160, 0.0).plain
    assert "context 78% nearly full" in render_status(replace(wide, activity=None), 80, 0.0).plain
    narrow = render_status(replace(wide, mode="default", activity=None), 30, 0.0).plain
    assert "78%" in narrow
    assert "full" not in narrow


def test_context_below_one_percent_is_not_rounded_up() -> None:
    for tokens, share in ((400, "<1%"), (1_999, "<1%"), (2_000, "1%"), (4_000, "2%")):
        assert f"context {share}" in render_status(replace(FULL, context_tokens=tokens), 160, 0.0).plain


def failing(kind: ErrorKind, retry_after: float | None = None) -> TurnEnded:
    return replace(
        ended(Outcome.ERROR, error="It failed."), error=ErrorInfo(kind, "It failed.", retry_after=retry_after)
    )


def test_connection_problem_is_shown_until_the_model_answers() -> None:
    gate = Gate()
    scripts: list[Script] = [[failing(ErrorKind.CONNECTION)], [gate, *says("back"), ended()], [failing(ErrorKind.AUTH)]]

    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert run.status.startswith("ask before edits · Shift+Tab  ")
        assert run.status.split()[5:7] == ["offline", "demo/scripted"]
        await run.send("two")
        await gate.reached.wait()
        assert "offline" in run.status
        gate.open()
        await run.until_idle()
        assert "offline" not in run.status
        await run.send("three")
        await run.until_idle()
        assert "key refused" in run.status
        await run.send("/model demo/other")
        await run.pilot.pause()
        assert "key refused" not in run.status

    drive(test, ScriptedConversation(*scripts))


def test_problem_of_another_model_ends_when_the_user_returns_to_the_first_model() -> None:
    async def test(run: Running) -> None:
        await run.send("/model demo/other")
        await run.send("one")
        await run.until_idle()
        assert "no server" in run.status
        await run.send("/model demo/scripted")
        await run.pilot.pause()
        assert "no server" not in run.status

    drive(test, ScriptedConversation([failing(ErrorKind.UNREACHABLE)]))


def test_refused_key_is_not_shown_after_the_provider_refused_a_later_request_for_another_reason() -> None:
    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert "key refused" in run.status
        await run.send("two")
        await run.until_idle()
        assert "key refused" not in run.status

    drive(test, ScriptedConversation([failing(ErrorKind.AUTH)], [failing(ErrorKind.BAD_REQUEST)]))


def test_rate_limit_counts_down_and_ends() -> None:
    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        line = run.app.widgets.status
        assert "rate limited, 5 min 00 s" in run.status
        assert line.is_ticking
        run.clock.now += 61
        assert "rate limited, 3 min 59 s" in run.status
        run.clock.now += 300
        await run.until(lambda: "rate limited" not in run.status)
        assert not line.is_ticking

    drive(test, ScriptedConversation([failing(ErrorKind.RATE_LIMIT, 300.0)]))


def test_missing_provider_is_shown_while_the_demo_model_answers() -> None:
    async def test(run: Running) -> None:
        assert "no key set" in run.status
        await run.send("one")
        await run.until_idle()
        assert "no key set" in run.status
        await run.send("/model demo/other")
        await run.pilot.pause()
        assert "no key set" not in run.status

    drive(test, ScriptedConversation([*says("hi"), ended()]), model=None)


def test_first_paint_reports_a_restricted_folder_once_and_again_after_an_undo() -> None:
    trusted: list[bool] = []

    async def test(run: Running) -> None:
        assert run.text.count("Restricted folder: qcode asks") == 1
        run.app.view.show_conversation()
        assert run.text.count("Restricted folder: qcode asks") == 1
        trusted.append(True)
        run.app.view.show_conversation()
        assert "Restricted folder" not in run.text

    notices = (Notice("info", RESTRICTED_NOTICE),)
    drive(test, notices=notices, is_trusted=lambda: bool(trusted))


def test_sandbox_is_probed_and_trust_removes_the_restriction() -> None:
    trusted: list[bool] = []

    def trust() -> str:
        trusted.append(True)
        return "Trusted."

    async def test(run: Running) -> None:
        await run.until(lambda: "no sandbox" in run.status)
        assert "restricted" in run.status
        await run.send("/trust")
        await run.pilot.pause()
        assert "restricted" not in run.status

    drive(test, has_sandbox=lambda: False, is_trusted=lambda: bool(trusted), trust=trust, size=(120, 24))


def test_totals_of_a_run_span_its_sessions_without_earlier_turns() -> None:
    usage = Usage(input=100, output=20)

    async def test(run: Running) -> None:
        status = run.app.widgets.status
        status.add_turns([TurnUsage("earlier", "m", Usage(input=5_000, output=1), Decimal(1), ApiCalls())])
        assert (status.run_totals.tokens, status.status.tokens) == (0, 5_001)
        status.add_turn(ended(usage=usage, cost="0.5"))
        status.forget_session()
        status.add_turn(ended(usage=usage, cost="0.25"))
        assert (status.run_totals.tokens, status.run_totals.cost) == (240, Decimal("0.75"))
        assert status.status.tokens == 120

    drive(test)
