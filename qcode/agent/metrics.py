"""Metrics of the recovery from output limits: counts and histograms of the turns of a conversation, no text.

They are in the `metrics` of a result, in `/cost` and in the debug log. Sub-agents count like the conversation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import field

from qcode.engine.caps import ESCALATED_MAX_TOKENS
from qcode.protocol.events import (
    AgentEvent,
    ContinuationAttempt,
    ReplyFinished,
    StopReasonObserved,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from qcode.protocol.reply import StopReason
from qcode.text.json import JsonObject
from qcode.values import dataclass

LATENCY_BOUNDS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Inclusive upper bounds of the latency buckets; one more bucket holds everything above."""


@dataclass(slots=True)
class RecoveryMetrics:
    """The metrics of one conversation; `observe` is given every event of every turn, in order.

    continuations                      requests that continued a truncated text, by `provider/model`
    truncated_without_continuation     replies that stayed truncated and were not continued, by `provider/model`
    continuation_attempts              number of turns by the number of their continuations
    recovered_turn_seconds             number of turns with an escalation or continuation by their duration
    reserved_output_tokens             sum of the output caps of all requests
    saved_output_tokens                reservations avoided: one request at the larger cap for each reply, minus those
    """

    continuations: Counter[str] = field(default_factory=Counter)
    truncated_without_continuation: Counter[str] = field(default_factory=Counter)
    continuation_attempts: Counter[int] = field(default_factory=Counter)
    recovered_turn_seconds: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    reserved_output_tokens: int = 0
    saved_output_tokens: int = 0
    _began: float = 0.0
    _continued: int = 0
    _models: dict[str, str] = field(default_factory=dict)

    def observe(self, event: TurnEvent, model: str, limit: int | None, now: float) -> None:
        """Count one event of a turn with `model` (`provider/model`), whose own output limit is `limit`.

        `now` is in seconds of any clock.
        """
        match event:
            case TurnStarted():
                self._began, self._continued = now, 0
                self._models.clear()
            case TurnEnded():
                self._end_turn(event, now)
            case AgentEvent(call_id=call_id, event=inner):
                self._count(inner, call_id, model, None)
            case _:
                self._count(event, "", model, limit)

    def _count(self, event: TurnEvent, agent: str, model: str, limit: int | None) -> None:
        match event:
            case StopReasonObserved():
                # Precedes the recovery of the reply, and names the model that a sub-agent uses.
                self._models[agent] = f"{event.provider}/{event.model}"
            case ContinuationAttempt():
                self._continued += 1
                self.continuations[self._models.get(agent, model)] += 1
            case ReplyFinished() if event.attempts:
                self._reserve(event, limit)
                is_continued = any(attempt.kind == "continuation" for attempt in event.attempts)
                if event.stop is StopReason.MAX_TOKENS and not is_continued:
                    self.truncated_without_continuation[self._models.get(agent, model)] += 1
            case _:
                return

    def _reserve(self, reply: ReplyFinished, limit: int | None) -> None:
        reserved = sum(attempt.max_tokens for attempt in reply.attempts)
        largest = max(attempt.max_tokens for attempt in reply.attempts)
        self.reserved_output_tokens += reserved
        self.saved_output_tokens += max(limit or ESCALATED_MAX_TOKENS, largest) - reserved

    def _end_turn(self, ended: TurnEnded, now: float) -> None:
        self.continuation_attempts[self._continued] += 1
        if self._continued or ended.api_calls.escalations:
            self.recovered_turn_seconds[bisect_left(LATENCY_BOUNDS_S, now - self._began)] += 1

    def as_json(self) -> JsonObject:
        """Return the metrics as JSON values; buckets are named by their upper bound, the last one `more`."""
        bounds = (*(f"{bound:g}" for bound in LATENCY_BOUNDS_S), "more")
        return {
            "continuations": dict(self.continuations),
            "truncated_without_continuation": dict(self.truncated_without_continuation),
            "continuation_attempts": {str(count): turns for count, turns in sorted(self.continuation_attempts.items())},
            "recovered_turn_seconds": dict(zip(bounds, self.recovered_turn_seconds, strict=True)),
            "reserved_output_tokens": self.reserved_output_tokens,
            "saved_output_tokens": self.saved_output_tokens,
        }
