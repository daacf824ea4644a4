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
    against: the same with estimates in the place of counts that never came. What a turn `within` another one uses
    counts for both."""

    def __init__(self, price: Price | None, *, within: Ledger | None = None) -> None:
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0) if price is not None else None
        self.spent = Decimal(0)
        self.discarded_output_tokens = 0
        self._price = price
        self._within = within
        self._counts: dict[RequestCause, int] = {}

    @property
    def whole(self) -> Ledger:
        """The ledger of the prompt that all this is for."""
        return self if self._within is None else self._within.whole

    def count(self, cause: RequestCause, requests: int = 1) -> None:
        self._counts[cause] = self._counts.get(cause, 0) + requests
        if self._within is not None:
            self._within.count(cause, requests)

    def uncount(self, cause: RequestCause) -> None:
        """Take a `count` back: the request never left."""
        self.count(cause, -1)

    def add(self, usage: Usage, estimate: Usage, *, is_unused: bool = False) -> None:
        """Add one request's usage. `is_unused`: the host never began to answer, so nothing was used."""
        if is_unused:
            self._put(usage, Decimal(0), Decimal(0))
            return
        counts = replace(
            usage,
            input=estimate.input if usage.input is None else usage.input,
            output=estimate.output if usage.output is None else usage.output,
        )
        self._put(usage, cost_of(usage, self._price), cost_of(counts, self._price) or Decimal(0))

    def discard(self, usage: Usage) -> None:
        """Mark usage that was added before as belonging to an attempt that was thrown away."""
        self._discard(usage.output or 0)

    def keep(self, usage: Usage) -> None:
        """Take a `discard` back: the attempt is what is left after all."""
        self._discard(-(usage.output or 0))

    def take(self, other: Ledger) -> None:
        """Add what a compaction used: all its requests, whatever their cause was there."""
        is_unknown = other.cost is None and other.api_calls.total > 0
        self._put(other.usage, None if is_unknown else other.cost or Decimal(0), other.spent)
        self.count("compactions", other.api_calls.total)

    def _put(self, usage: Usage, cost: Decimal | None, spent: Decimal) -> None:
        self.usage = self.usage + usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self.spent += spent
        if self._within is not None:
            self._within._put(usage, cost, spent)

    def _discard(self, tokens: int) -> None:
        self.discarded_output_tokens += tokens
        if self._within is not None:
            self._within._discard(tokens)

    @property
    def api_calls(self) -> ApiCalls:
        return ApiCalls(**self._counts)
