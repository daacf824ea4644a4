"""Keeps in view why a turn could not reach its model, until one does. Reads events only."""

from __future__ import annotations

from collections.abc import Callable

from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import TurnEnded, TurnEvent
from qcode.protocol.reply import ReasoningDelta, TextDelta
from qcode.tui.status_line import StatusLine

_WORDS: dict[str, str] = {
    ErrorKind.NO_CREDENTIAL: "no key",
    ErrorKind.AUTH: "key refused",
    ErrorKind.CONNECTION: "offline",
    ErrorKind.TIMEOUT: "no answer",
    ErrorKind.UNREACHABLE: "no server",
    ErrorKind.RATE_LIMIT: "rate limited",
    ErrorKind.QUOTA: "quota used up",
    ErrorKind.OVERLOADED: "overloaded",
}


class Reaching:
    """Tells the status line; `clock` is in seconds."""

    def __init__(self, status: StatusLine, clock: Callable[[], float]) -> None:
        self._status = status
        self._clock = clock

    def see(self, event: TurnEvent) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                self._status.end_problem()
            case TurnEnded(error=error) if error is not None and error.kind in _WORDS:
                after = error.retry_after
                self._status.show_problem(_WORDS[error.kind], None if after is None else self._clock() + after)
            case _:
                pass
