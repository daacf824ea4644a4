"""Recovery metrics over the turns of a conversation."""

from __future__ import annotations

from qcode.agent.usage import RecoveryMetrics, TurnUsage, usage_report_text
from qcode.engine.caps import OutputSettings
from qcode.engine.effects import TurnSettings
from qcode.protocol.events import AgentEvent, ApiCalls, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.usage import Usage
from tests.engine.play import TOOLS, Script, cut, play, text


def observed(
    metrics: RecoveryMetrics, *replies: Script, seconds: float = 0.0, output: OutputSettings | None = None
) -> None:
    settings = TurnSettings("s", TOOLS, output=output or OutputSettings())
    events: list[TurnEvent] = play(*replies, settings=settings).events
    for number, event in enumerate(events):
        metrics.observe(event, "test/m", None, 100.0 + (seconds if number == len(events) - 1 else 0.0))


def test_continued_reply_counts_by_model_with_its_attempts_and_duration() -> None:
    metrics = RecoveryMetrics()
    observed(metrics, cut("a"), cut("a b"), cut(" c"), text(" d"), seconds=7.0)
    sums = metrics.as_json()
    assert sums["continuations"] == {"test/m": 2}
    assert sums["truncated_without_continuation"] == {}
    assert sums["continuation_attempts"] == {"2": 1}
    assert sums["recovered_turn_seconds"] == {
        "1": 0, "2": 0, "5": 0, "10": 1, "30": 0, "60": 0, "120": 0, "300": 0, "more": 0,
    }  # fmt: skip


def test_only_replies_that_stay_truncated_count_as_truncated_without_continuation() -> None:
    metrics = RecoveryMetrics()
    observed(metrics, cut("a"), text("a whole reply"), seconds=1_000.0)
    observed(metrics, cut("a"), output=OutputSettings(override=64, max_continuations=0))
    observed(metrics, text("never cut"))
    assert metrics.truncated_without_continuation == {"test/m": 1}
    assert metrics.continuations == {}
    assert metrics.continuation_attempts == {0: 3}
    # The escalated turn was recovered, the truncated one was not.
    assert metrics.recovered_turn_seconds[-1] == 1
    assert sum(metrics.recovered_turn_seconds) == 1


def test_duration_equal_to_a_bound_is_in_its_bucket_and_a_longer_one_in_the_last() -> None:
    metrics = RecoveryMetrics()
    for seconds in (301.0, 300.0, 0.0):
        observed(metrics, cut("a"), text("b"), seconds=seconds, output=OutputSettings(override=64))
    assert metrics.recovered_turn_seconds == [1, 0, 0, 0, 0, 0, 0, 1, 1]


def test_small_caps_save_reserved_tokens_and_an_escalation_costs_some() -> None:
    metrics = RecoveryMetrics()
    observed(metrics, text("short"))
    assert (metrics.reserved_output_tokens, metrics.saved_output_tokens) == (8_000, 56_000)
    observed(metrics, cut("a"), text("long"))
    assert (metrics.reserved_output_tokens, metrics.saved_output_tokens) == (80_000, 48_000)


def test_sub_agent_counts_under_its_own_model() -> None:
    metrics = RecoveryMetrics()
    inner = play(cut("a"), cut("a b"), text(" c")).events
    metrics.observe(TurnStarted("p"), "first/one", None, 0.0)
    for event in inner:
        metrics.observe(AgentEvent("c0", event), "first/one", None, 0.0)
    (end,) = [event for event in inner if isinstance(event, TurnEnded)]
    metrics.observe(end, "first/one", None, 3.0)
    assert metrics.continuations == {"test/m": 1}
    assert metrics.continuation_attempts == {1: 1}


def test_cost_leaves_out_reasoning_of_no_tokens() -> None:
    def output_line(reasoning: int) -> str:
        usage = Usage(input=10, output=20, reasoning=reasoning)
        report = usage_report_text([TurnUsage("go", "demo/x", usage, None, ApiCalls(initial=1))])
        return next(line for line in report.split("\n") if line.startswith("Output"))

    assert output_line(0) == "Output      20"
    assert output_line(5) == "Output      20  (reasoning 5)"


def test_cost_names_the_causes_of_requests_in_words_for_users() -> None:
    usage = TurnUsage("go", "demo/x", Usage(), None, ApiCalls(initial=1, escalations=1, repairs=2))
    metrics = RecoveryMetrics(reserved_output_tokens=324_000, saved_output_tokens=976_000)
    report = usage_report_text([usage], metrics)
    assert "Reserved    324k output tokens instead of 1.3M, by requesting a short reply first" in report
    assert "API calls   4 (1 first attempt, 1 retry with a higher output limit, 2 corrections of tool calls)" in report
