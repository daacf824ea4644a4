"""Attachments and steering messages that wait for the next request.

Apart from `attachments`, which loads with the first file that is attached.
"""

from __future__ import annotations

from collections.abc import Callable

from qcode.protocol.approvals import Spans
from qcode.protocol.messages import Block


class PendingAttachments:
    """Attachments that wait for the next prompt or steering message.

    `mentioned` returns the files that a text mentions, and a line for each that is not attached. Its second argument is
    the spans of the text that come from a file of the project.
    """

    def __init__(self, mentioned: Callable[[str, Spans], tuple[tuple[Block, ...], tuple[str, ...]]]) -> None:
        self._mentioned = mentioned
        self._attached: tuple[Block, ...] = ()
        self._steered: list[tuple[str, tuple[Block, ...]]] = []
        self.complaints: list[str] = []

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Hold blocks for the next prompt."""
        self._attached = (*self._attached, *blocks)

    def taken(self, text: str, attached: tuple[Block, ...], foreign: Spans = ()) -> tuple[Block, ...]:
        """Return the blocks to put before `text`: the held ones, its images, and the files it mentions."""
        mentioned, complaints = self._mentioned(text, foreign)
        self.complaints += complaints
        kept, self._attached = self._attached, ()
        return (*kept, *attached, *mentioned)

    def steered(self, text: str, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return the same as `taken` for a steering message, which can be withdrawn until the turn takes it."""
        self._steered.append((text, self._attached))
        return self.taken(text, attached)

    def arrived(self, text: str) -> tuple[Block, ...]:
        """Return the blocks of a steering message that the turn now takes."""
        for index in range(len(self._steered) - 1, -1, -1):
            if self._steered[index][0] == text:
                return self._steered.pop(index)[1]
        return ()

    def withdraw(self, text: str) -> None:
        """Hold the blocks of a withdrawn steering message for the next prompt."""
        self._attached = (*self.arrived(text), *self._attached)

    def turn_over(self) -> None:
        """Hold the blocks of steering messages that the turn did not take for the next turn."""
        self.complaints.clear()
        self._attached = (*(block for _, kept in self._steered for block in kept), *self._attached)
        self._steered.clear()
