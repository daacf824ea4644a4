"""A rule of the person as it was written, before the safety room reads it."""

from __future__ import annotations

from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """`examples` are calls that the rule covers and `counterexamples` ones that it does not, as its author thinks."""

    text: str
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text
