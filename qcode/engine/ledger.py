"""Usage accounting of a turn: requests by cause, and the tokens and cost of all of them, discarded ones included."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.protocol.events import ApiCalls
from qcode.protocol.usage import Price, Usage, cost_of

RequestCause: TypeAlias = Literal["initial", "escalations", "continuations", "repairs", "retries", "compactions"]


class Ledger:
    """The totals of one turn. Usage of a sub-agent's turn is also added to the ledger it is `within`.

    `cost` is None as soon as the cost of one request is unknown. `spent` is compared with a budget: it uses estimates
    for counts that the provider did not report. `price` is that of the current model.
    """

    def __init__(self, price: Price | None, *, within: Ledger | None = None) -> None:
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0) if price is not None else None
        self.spent = Decimal(0)
        self.discarded_output_tokens = 0
        self.price = price
        self._within = within
        self._counts: dict[RequestCause, int] = {}

    @property
    def whole(self) -> Ledger:
        """The ledger of the outermost turn, which covers the whole prompt."""
        return self if self._within is None else self._within.whole

    def count(self, cause: RequestCause, requests: int = 1) -> None:
        self._counts[cause] = self._counts.get(cause, 0) + requests
        if self._within is not None:
            self._within.count(cause, requests)

    def uncount(self, cause: RequestCause) -> None:
        """Undo a `count`: the request was not sent."""
        self.count(cause, -1)

    def add(self, usage: Usage, estimate: Usage, *, is_unused: bool = False) -> None:
        """Add the usage of one request. `is_unused`: the host sent no response, so it costs nothing."""
        if is_unused:
            self._put(usage, Decimal(0), Decimal(0))
            return
        counts = replace(
            usage,
            input=estimate.input if usage.input is None else usage.input,
            output=estimate.output if usage.output is None else usage.output,
        )
        self._put(usage, cost_of(usage, self.price), cost_of(counts, self.price) or Decimal(0))

    def discard(self, usage: Usage) -> None:
        """Count the output of an attempt, added before, as discarded."""
        self._discard(usage.output or 0)

    def keep(self, usage: Usage) -> None:
        """Undo a `discard`: the attempt is used after all."""
        self._discard(-(usage.output or 0))

    def take(self, other: Ledger) -> None:
        """Add the usage of a compaction; all its requests count as `compactions`."""
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
