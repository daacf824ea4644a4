"""Counts what a turn used: requests by cause, tokens and cost of every one of them, discarded ones included."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.protocol.events import ApiCalls
from qcode.protocol.usage import Price, Usage, cost_of

RequestCause: TypeAlias = Literal["initial", "escalations", "continuations", "repairs", "retries"]


class Ledger:
    """The sums of one turn. `cost` is None as soon as one request's cost is unknown."""

    def __init__(self, price: Price | None) -> None:
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0) if price is not None else None
        self.discarded_output_tokens = 0
        self._price = price
        self._counts: dict[RequestCause, int] = {}

    def count(self, cause: RequestCause) -> None:
        self._counts[cause] = self._counts.get(cause, 0) + 1

    def add(self, usage: Usage, *, is_discarded: bool = False, is_refused: bool = False) -> None:
        """Add one request's usage. `is_refused`: the host never began to answer, so nothing was used."""
        self.usage = self.usage + usage
        if is_discarded:
            self.discarded_output_tokens += usage.output or 0
        if not is_refused and self.cost is not None:
            cost = cost_of(usage, self._price)
            self.cost = None if cost is None else self.cost + cost

    def discard(self, usage: Usage) -> None:
        """Mark usage that was added before as belonging to an attempt that was thrown away."""
        self.discarded_output_tokens += usage.output or 0

    @property
    def api_calls(self) -> ApiCalls:
        return ApiCalls(**self._counts)
