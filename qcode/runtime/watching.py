"""Watches the events of a conversation: counts what recovery does, and writes the debug log where one is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable

from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.runtime.debug_log import DebugLog
from qcode.runtime.metrics import RecoveryMetrics


class Watching:
    """`log` is None where none is wanted, `model` gives the name of the one in use. It changes nothing that passes."""

    def __init__(self, log: DebugLog | None, model: Callable[[], str]) -> None:
        self.metrics = RecoveryMetrics()
        self._log = log
        self._model = model

    def seen(self, event: TurnEvent) -> TurnEvent:
        self.metrics.observe(event, self._model(), time.monotonic())
        if self._log is not None:
            self._log.event(event)
            if isinstance(event, TurnEnded):
                self._log.metrics(self.metrics.as_json())
        return event

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
