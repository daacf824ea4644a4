"""What goes with the person's words: files and images that were attached, and what was said while a turn ran."""

from __future__ import annotations

from collections.abc import Callable

from qcode.protocol.messages import Block


class Waiting:
    """Blocks that wait for the next words. `mentioned` gives the files a text names, and a line for each it cannot."""

    def __init__(self, mentioned: Callable[[str], tuple[tuple[Block, ...], tuple[str, ...]]]) -> None:
        self._mentioned = mentioned
        self._attached: tuple[Block, ...] = ()
        self._steered: list[tuple[str, tuple[Block, ...]]] = []
        self.complaints: list[str] = []

    def attach(self, blocks: tuple[Block, ...]) -> None:
        """Keep blocks for the next words."""
        self._attached = (*self._attached, *blocks)

    def taken(self, text: str, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return what goes before `text`: what was kept for it, its images, and the files it names."""
        mentioned, complaints = self._mentioned(text)
        self.complaints += complaints
        kept, self._attached = self._attached, ()
        return (*kept, *attached, *mentioned)

    def steered(self, text: str, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """`taken` for words to a running turn, which may be withdrawn until it has taken them."""
        self._steered.append((text, self._attached))
        return self.taken(text, attached)

    def arrived(self, text: str) -> tuple[Block, ...]:
        """Words to a running turn wait no longer; return what had been kept for them."""
        for index in range(len(self._steered) - 1, -1, -1):
            if self._steered[index][0] == text:
                return self._steered.pop(index)[1]
        return ()

    def withdraw(self, text: str) -> None:
        """The person took words back: what had been kept for them waits again."""
        self._attached = (*self.arrived(text), *self._attached)

    def turn_over(self) -> None:
        """What a turn did not take waits for the next one."""
        self.complaints.clear()
        self._attached = (*(block for _, kept in self._steered for block in kept), *self._attached)
        self._steered.clear()
