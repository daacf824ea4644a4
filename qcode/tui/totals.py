"""Tokens and cost of the session: finished turns and the running one. Pure."""

from __future__ import annotations

from decimal import Decimal

from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Totals:
    """`cost` None: no turn had a known cost. `has_unknown_cost`: some turn used tokens at an unknown price."""

    tokens: int = 0
    cost: Decimal | None = None
    has_unknown_cost: bool = False

    def plus(self, tokens: int, cost: Decimal | None) -> Totals:
        """Return the totals with one more turn."""
        if cost is None:
            return Totals(self.tokens + tokens, self.cost, self.has_unknown_cost or tokens > 0)
        return Totals(self.tokens + tokens, (self.cost or Decimal(0)) + cost, self.has_unknown_cost)
