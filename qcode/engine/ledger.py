"""Counts what a turn used: requests by cause, tokens and cost of every one of them, discarded ones included."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.protocol.events import ApiCalls
from qcode.protocol.usage import Price, Usage, cost_of

RequestCause: TypeAlias = Literal["initial", "escalations", "continuations", "repairs", "retries", "compactions"]


class Ledger:
    """The sums of one turn. `cost` is None as soon as one request's cost is unknown; `spent` is what a budget is held
    against: the same with estimates in the place of counts that never came."""

    def __init__(self, price: Price | None) -> None:
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0) if price is not None else None
        self.spent = Decimal(0)
        self.discarded_output_tokens = 0
        self._price = price
        self._counts: dict[RequestCause, int] = {}

    def count(self, cause: RequestCause) -> None:
        self._counts[cause] = self._counts.get(cause, 0) + 1

    def uncount(self, cause: RequestCause) -> None:
        """Take a `count` back: the request never left."""
        self._counts[cause] -= 1

    def add(self, usage: Usage, estimate: Usage, *, is_unused: bool = False) -> None:
        """Add one request's usage. `is_unused`: the host never began to answer, so nothing was used."""
        self.usage = self.usage + usage
        if is_unused:
            return
        cost = cost_of(usage, self._price)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        counts = replace(
            usage,
            input=estimate.input if usage.input is None else usage.input,
            output=estimate.output if usage.output is None else usage.output,
        )
        self.spent += cost_of(counts, self._price) or 0

    def discard(self, usage: Usage) -> None:
        """Mark usage that was added before as belonging to an attempt that was thrown away."""
        self.discarded_output_tokens += usage.output or 0

    def keep(self, usage: Usage) -> None:
        """Take a `discard` back: the attempt is what is left after all."""
        self.discarded_output_tokens -= usage.output or 0

    def take(self, other: Ledger) -> None:
        """Add what a compaction used: all its requests, whatever their cause was there."""
        self.usage = self.usage + other.usage
        is_unknown = other.cost is None and other.api_calls.total > 0
        self.cost = None if self.cost is None or is_unknown else self.cost + (other.cost or 0)
        self.spent += other.spent
        self._counts["compactions"] = self._counts.get("compactions", 0) + other.api_calls.total

    @property
    def api_calls(self) -> ApiCalls:
        return ApiCalls(**self._counts)
