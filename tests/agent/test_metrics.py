"""Recovery metrics over the turns of a conversation."""

from __future__ import annotations

from qcode.agent.telemetry import RecoveryMetrics
from qcode.engine.caps import OutputSettings
from qcode.engine.effects import TurnSettings
from qcode.protocol.events import TurnEvent
from tests.engine.play import TOOLS, Script, cut, play, text


def observed(
    metrics: RecoveryMetrics, *replies: Script, seconds: float = 0.0, output: OutputSettings | None = None
) -> None:
    settings = TurnSettings("s", TOOLS, output=output or OutputSettings())
    events: list[TurnEvent] = play(*replies, settings=settings).events
    for number, event in enumerate(events):
        metrics.observe(event, "test/m", 100.0 + (seconds if number == len(events) - 1 else 0.0))


def test_a_continued_reply_counts_by_its_model_with_its_requests_and_its_time() -> None:
    metrics = RecoveryMetrics()
    observed(metrics, cut("a"), cut("a b"), cut(" c"), text(" d"), seconds=7.0)
    sums = metrics.as_json()
    assert sums["continuations"] == {"test/m": 2}
    assert sums["truncations_without_continuation"] == {}
    assert sums["attempts_per_turn"] == {"4": 1}
    assert sums["continued_turn_seconds"] == {
        "1": 0, "2": 0, "5": 0, "10": 1, "30": 0, "60": 0, "120": 0, "300": 0, "more": 0,
    }  # fmt: skip


def test_a_cut_that_escalation_made_good_is_one_without_a_continuation() -> None:
    metrics = RecoveryMetrics()
    observed(metrics, cut("a"), text("a whole reply"), seconds=1_000.0)
    observed(metrics, cut("a"), output=OutputSettings(override=64, max_continuations=0))
    observed(metrics, text("never cut"))
    assert metrics.truncations_without_continuation == {"test/m": 2}
    assert metrics.continuations == {}
    assert metrics.attempts_per_turn == {1: 2, 2: 1}
    assert sum(metrics.continued_turn_seconds) == 0


def test_a_time_beyond_every_bound_has_a_bucket_and_a_bound_belongs_to_its_own() -> None:
    metrics = RecoveryMetrics()
    for seconds in (301.0, 300.0, 0.0):
        observed(metrics, cut("a"), text("b"), seconds=seconds, output=OutputSettings(override=64))
    assert metrics.continued_turn_seconds == [1, 0, 0, 0, 0, 0, 0, 1, 1]
