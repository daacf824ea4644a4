"""What a conversation can say about itself: what fills its window, and what everything cost."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from qcode.protocol.events import ApiCalls
from qcode.protocol.usage import Usage
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ContextReport:
    """Tokens by what they are for. `is_counted`: the provider counted the prompt; otherwise all of it is an estimate.

    `reserve` is what the next reply may take at first. What is left is free.
    """

    model: str
    window: int
    system: int
    instructions: int
    tools: int
    messages: int
    tool_output: int
    reserve: int
    is_counted: bool = False
    is_window_known: bool = True
    compacts_at: float = 0.8

    @property
    def used(self) -> int:
        return self.system + self.instructions + self.tools + self.messages + self.tool_output

    @property
    def free(self) -> int:
        return max(0, self.window - self.used - self.reserve)


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """What one turn used. `cost` None: the price is not known."""

    prompt: str
    model: str
    usage: Usage
    cost: Decimal | None
    api_calls: ApiCalls
    discarded_output_tokens: int = 0


class Reports(Protocol):
    def context(self) -> ContextReport:
        """Return what the next prompt consists of."""
        ...

    def usage(self) -> tuple[TurnUsage, ...]:
        """Return what each turn of the session used, the first one first; turns of an earlier run as far as known."""
        ...
