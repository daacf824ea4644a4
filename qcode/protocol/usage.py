"""Token usage and cost of requests.

`cache_read` and `cache_write` are included in `input`, and `reasoning` is included in `output`. None means "not
reported", which is different from 0.
"""

from __future__ import annotations

from decimal import Decimal

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
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.reasoning, other.reasoning),
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
    """Return the cost of `usage` in USD, or None if the price or a required count is unknown; 0 for a free model."""
    if price is not None and not any((price.input, price.output, price.cache_read, price.cache_write)):
        return Decimal(0)
    if price is None or usage.input is None or usage.output is None:
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


def _sum(left: int | None, right: int | None) -> int | None:
    """Return the sum of two counts, in which None counts as 0; two None give None."""
    if left is None:
        return right
    return left if right is None else left + right
