"""What the person said to a running turn, until its next step takes it."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.engine.effects import Effect, Emit, SteerQueued
from qcode.protocol.events import SteeringAdded
from qcode.protocol.messages import Block, Message


class Steering:
    """In the order it was said. False where nothing waits."""

    def __init__(self) -> None:
        self._waiting: list[SteerQueued] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, said: SteerQueued) -> None:
        self._waiting.append(said)

    def withdraw(self, text: str) -> SteerQueued | None:
        """Take back what was said last in these words; None where it was taken already."""
        for index in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[index].text == text:
                return self._waiting.pop(index)
        return None

    def take(self, before: Sequence[Block] = ()) -> tuple[Message, list[Effect]]:
        """Return the message that carries all of it, behind the blocks given, and the events that say so."""
        taken, self._waiting = self._waiting, []
        message = Message("user", (*before, *(block for one in taken for block in one.blocks)))
        return message, [Emit(SteeringAdded(one.text)) for one in taken]
