"""Token usage and cost of requests.

`cache_read` and `cache_write` are included in `input`, and `reasoning` is included in `output`. None means "not
reported", which is different from 0.
"""

from __future__ import annotations

from decimal import Decimal

from qcode.text.json import sum_of
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one request, or of several."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Add field by field; a field that neither side reports stays None."""
        return Usage(
            input=sum_of(self.input, other.input),
            output=sum_of(self.output, other.output),
            cache_read=sum_of(self.cache_read, other.cache_read),
            cache_write=sum_of(self.cache_write, other.cache_write),
            reasoning=sum_of(self.reasoning, other.reasoning),
        )

    def updated(self, report: Usage) -> Usage:
        """Return the usage after a later report of the same request, which replaces the fields that it has."""
        return Usage(
            self.input if report.input is None else report.input,
            self.output if report.output is None else report.output,
            self.cache_read if report.cache_read is None else report.cache_read,
            self.cache_write if report.cache_write is None else report.cache_write,
            self.reasoning if report.reasoning is None else report.reasoning,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """A price in USD per million tokens."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    """The price of tokens read from a cache; None: the same as `input`."""
    cache_write: Decimal | None = None
    """The price of tokens written to a cache; None: the same as `input`."""


def cost_of(usage: Usage, price: Price | None) -> Decimal | None:
    """Return the cost of `usage` in USD, or None if the price or a required count is unknown."""
    if price is None:
        return None
    is_free = not any((price.input, price.output, price.cache_read, price.cache_write))
    if is_free:
        return Decimal(0)  # even without counts
    if usage.input is None or usage.output is None:
        return None
    read, write = usage.cache_read or 0, usage.cache_write or 0
    uncached = max(0, usage.input - read - write)
    cached = read * _price_or(price.cache_read, price.input) + write * _price_or(price.cache_write, price.input)
    return (uncached * price.input + cached + usage.output * price.output) / 1_000_000


def cache_hit_rate(usage: Usage) -> float | None:
    """Return the share of the input that was read from a cache, from 0 to 1.

    Return None if the host reports no cache usage or no input: the rate is unknown, not 0.
    """
    if usage.cache_read is None or not usage.input:
        return None
    return min(1.0, usage.cache_read / usage.input)


def _price_or(price: Decimal | None, fallback: Decimal) -> Decimal:
    return fallback if price is None else price
