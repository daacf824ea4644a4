"""The models of a conversation beside the one in use: one borrowed for a turn, one for summaries, those left behind."""

from __future__ import annotations

from dataclasses import replace

from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ApiCalls, TurnEnded, TurnEvent, TurnStarted
from qcode.protocol.provider import Provider
from qcode.protocol.stops import Outcome
from qcode.protocol.usage import Usage
from qcode.runtime.reached import Reached
from qcode.runtime.surroundings import Connected, Wiring


class Models:
    """Owns every connection but that of the model in use."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._retired: list[Provider] = []
        self._borrowed: dict[str, Connected] = {}
        self._summarizer: Connected | None = None

    def retire(self, provider: Provider) -> None:
        """Keep a connection that is not used any more, to be closed with the others."""
        self._retired.append(provider)

    def borrow(self, name: str, current: Connected) -> Connected:
        """Return the model of one turn; raise `ValueError` with one line where there is none of that name."""
        if name in ("", current.name):
            return current
        if name not in self._borrowed:
            self._borrowed[name] = self._wiring.connect(name)
        return self._borrowed[name]

    def writer(self) -> tuple[Connected | None, tuple[str, ...]]:
        """Return the model for summaries where it is another one, and a complaint where it cannot be had."""
        if self._summarizer is None:
            try:
                self._summarizer = self._wiring.summarizer()
            except ValueError as error:
                return None, (f"small_model: {error}",)
        return self._summarizer, ()

    def small(self) -> Connected | None:
        """Return the model for small tasks, None where none is set or it cannot be had."""
        small, _ = self.writer()
        return None if small is None else replace(small, provider=Reached(self._wiring, small).provider)

    async def close(self) -> None:
        others = (*self._borrowed.values(), *((self._summarizer,) if self._summarizer is not None else ()))
        for provider in (*self._retired, *(one.provider for one in others)):
            await provider.close()


def refused_turn(prompt: str, why: str) -> tuple[TurnEvent, ...]:
    """Return the events of a turn that cannot begin, because its model cannot be had."""
    error = ErrorInfo(ErrorKind.UNKNOWN_MODEL, why)
    ended = TurnEnded(Outcome.ERROR, None, "", "", 0, Usage(), None, ApiCalls(), error=error, is_answered=False)
    return TurnStarted(prompt), ended
