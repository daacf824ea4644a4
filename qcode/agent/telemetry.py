"""The debug log, and metrics of the recovery from output limits, both fed by the events of the turns.

The log is optional: JSON lines of requests, events and decisions. It contains no key, and the first write error ends
it without disturbing the turn. `RecoveryMetrics` holds counts and histograms, no text. Crash reports are in `crash`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from qcode.protocol.events import ContinuationAttempt, ReplyFinished, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEvent, StopReason
from qcode.values import dataclass


class DebugLog:
    """A log appended to `path`, which only its owner can read. Raises `OSError` if it cannot be opened."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        path.touch(mode=0o600, exist_ok=True)
        self._file: TextIO | None = path.open("a", encoding="utf-8", errors="backslashreplace")
        self._redact = redact

    def event(self, event: TurnEvent) -> None:
        self._write({"event": type(event).__name__, **_fields(event)})

    def metrics(self, sums: dict[str, object]) -> None:
        """Log the recovery metrics of the conversation so far."""
        self._write({"metrics": sums})

    def request(self, provider: str, request: ModelRequest) -> None:
        """Log a request: sizes, settings, and the messages themselves."""
        self._write(
            {
                "request": provider,
                "model": request.model,
                "max_tokens": request.max_tokens,
                "effort": request.effort,
                "is_prefill": request.is_prefill,
                "allows_calls": request.allows_calls,
                "tools": [tool.name for tool in request.tools],
                "messages": [_fields(message) for message in request.messages],
            }
        )

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # Closing flushes the buffer; data that cannot be written is lost either way.
            with contextlib.suppress(OSError):
                file.close()

    def _write(self, row: dict[str, object]) -> None:
        if self._file is None:
            return
        line = json.dumps({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), **row}, default=str)
        try:
            self._file.write(self._redact(line) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            self.close()


class LoggedProvider:
    """A provider whose requests are logged before they are sent."""

    def __init__(self, provider: Provider, log: DebugLog) -> None:
        self.name = provider.name
        self.host = provider.host
        self._provider = provider
        self._log = log

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self._log.request(self.name, request)
        return self._provider.stream(request)

    async def model_names(self) -> tuple[str, ...]:
        return await self._provider.model_names()

    def warm_up(self) -> None:
        self._provider.warm_up()

    async def close(self) -> None:
        await self._provider.close()


def _fields(value: object) -> dict[str, object]:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else {}


LATENCY_BOUNDS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Inclusive upper bounds of the latency buckets; one more bucket holds everything above."""


@dataclass(slots=True)
class RecoveryMetrics:
    """The metrics of one conversation; `observe` is given every event of every turn, in order.

    continuations                       requests that continued a truncated text, by `provider/model`
    truncations_without_continuation    truncated replies that were not continued, by `provider/model`
    attempts_per_turn                   number of turns by the number of their requests
    continued_turn_seconds              number of turns with a continuation by their duration, see `LATENCY_BOUNDS_S`
    """

    continuations: Counter[str] = field(default_factory=Counter)
    truncations_without_continuation: Counter[str] = field(default_factory=Counter)
    attempts_per_turn: Counter[int] = field(default_factory=Counter)
    continued_turn_seconds: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    _began: float = 0.0
    _is_continued: bool = False

    def observe(self, event: TurnEvent, model: str, now: float) -> None:
        """Count one event of a turn with `model` (`provider/model`); `now` is in seconds of any clock."""
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
        """Return the metrics as JSON values; buckets are named by their upper bound, the last one `more`."""
        bounds = (*(f"{bound:g}" for bound in LATENCY_BOUNDS_S), "more")
        return {
            "continuations": dict(self.continuations),
            "truncations_without_continuation": dict(self.truncations_without_continuation),
            "attempts_per_turn": {str(count): turns for count, turns in sorted(self.attempts_per_turn.items())},
            "continued_turn_seconds": dict(zip(bounds, self.continued_turn_seconds, strict=True)),
        }


def _is_cut(reply: ReplyFinished) -> bool:
    """Return whether a limit truncated any attempt, by its stop reason or by the recovery that followed."""
    if reply.stop is StopReason.MAX_TOKENS:
        return True
    return any(
        attempt.stop == str(StopReason.MAX_TOKENS) or attempt.kind in ("escalated", "nudge", "resume")
        for attempt in reply.attempts
    )


class TurnObserver:
    """An observer of events that feeds `log` and the metrics; `model` returns the name of the current model."""

    def __init__(self, log: DebugLog, model: Callable[[], str]) -> None:
        self.metrics = RecoveryMetrics()
        self._log = log
        self._model = model

    def seen(self, event: TurnEvent) -> TurnEvent:
        self.metrics.observe(event, self._model(), time.monotonic())
        self._log.event(event)
        if isinstance(event, TurnEnded):
            self._log.metrics(self.metrics.as_json())
        return event

    def close(self) -> None:
        self._log.close()
