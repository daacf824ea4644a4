"""How recovery from output limits goes over the turns of a conversation, folded from the events of its turns.

Counts and histograms only, no text: which reply was cut, and where, is the debug log's to tell.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from qcode.protocol.events import ContinuationAttempt, ReplyFinished, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.stops import StopReason

LATENCY_BOUNDS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds, inclusive, of the buckets of a latency; one more holds what is longer."""


@dataclass(slots=True)
class RecoveryMetrics:
    """The sums of one conversation; `observe` is given every event of every turn, in order.

    continuations                       requests that went on with a cut text, by `provider/model`
    truncations_without_continuation    replies that a limit cut and that were not gone on with, by `provider/model`
    attempts_per_turn                   how many turns took this many requests
    continued_turn_seconds              how many turns with a continuation took so long, by `LATENCY_BOUNDS_S`
    """

    continuations: Counter[str] = field(default_factory=Counter)
    truncations_without_continuation: Counter[str] = field(default_factory=Counter)
    attempts_per_turn: Counter[int] = field(default_factory=Counter)
    continued_turn_seconds: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    _began: float = 0.0
    _is_continued: bool = False

    def observe(self, event: TurnEvent, model: str, now: float) -> None:
        """Take one event of a turn with `model` (`provider/model`); `now` is in seconds of any clock."""
        match event:
            case TurnStarted():
                self._began, self._is_continued = now, False
            case ContinuationAttempt():
                self._is_continued = True
                self.continuations[model] += 1
            case ReplyFinished():
                if _is_cut(event) and not any(attempt.kind == "continuation" for attempt in event.attempts):
                    self.truncations_without_continuation[model] += 1
            case TurnEnded():
                self.attempts_per_turn[event.api_calls.total] += 1
                if self._is_continued:
                    self.continued_turn_seconds[bisect_left(LATENCY_BOUNDS_S, now - self._began)] += 1
            case _:
                return

    def as_json(self) -> dict[str, object]:
        """Return the sums as JSON values; buckets are named by their upper bound, the last one `more`."""
        bounds = (*(f"{bound:g}" for bound in LATENCY_BOUNDS_S), "more")
        return {
            "continuations": dict(self.continuations),
            "truncations_without_continuation": dict(self.truncations_without_continuation),
            "attempts_per_turn": {str(count): turns for count, turns in sorted(self.attempts_per_turn.items())},
            "continued_turn_seconds": dict(zip(bounds, self.continued_turn_seconds, strict=True)),
        }


def _is_cut(reply: ReplyFinished) -> bool:
    """Whether a limit cut any attempt; a cut is also known by what it led to, whatever reason the host gave."""
    if reply.stop is StopReason.MAX_TOKENS:
        return True
    return any(
        attempt.stop == str(StopReason.MAX_TOKENS) or attempt.kind in ("escalated", "nudge", "resume")
        for attempt in reply.attempts
    )
