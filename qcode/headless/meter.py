"""How long a turn took, and how much of it was waiting for the model. Pure: the clock is given."""

from __future__ import annotations

from collections.abc import Callable

from qcode.protocol.events import AgentEvent, ReplyFinished, StepStarted, TurnEnded, TurnEvent, Waiting


class Meter:
    """Feed it every event. API time runs from a request to its decided reply, back-off between tries left out.

    That of sub-agents is added, so where several work at once it may be more than the time that went by.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._asked_at: float | None = None
        self._waits_since: float | None = None
        self._api = 0.0
        self._inner: dict[str, Meter] = {}

    def see(self, event: TurnEvent) -> None:
        now = self._clock()
        if self._waits_since is not None and self._asked_at is not None:
            self._asked_at += now - self._waits_since
            self._waits_since = None
        match event:
            case StepStarted():
                self._stop(now)
                self._asked_at = now
            case Waiting():
                self._waits_since = now
            case ReplyFinished() | TurnEnded():
                self._stop(now)
            case AgentEvent(call_id=call_id, event=inner):
                self._inner.setdefault(call_id, Meter(self._clock)).see(inner)
            case _:
                pass

    @property
    def elapsed(self) -> float:
        """Seconds since the turn began."""
        return self._clock() - self._began

    @property
    def duration_ms(self) -> int:
        return round(self.elapsed * 1000)

    @property
    def api_ms(self) -> int:
        running = 0.0 if self._asked_at is None else (self._waits_since or self._clock()) - self._asked_at
        return round((self._api + running) * 1000) + sum(one.api_ms for one in self._inner.values())

    def _stop(self, now: float) -> None:
        if self._asked_at is not None:
            self._api += now - self._asked_at
        self._asked_at = None
