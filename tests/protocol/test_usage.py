"""The cost of a request and the cached part of its input; None if unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from qcode.protocol.usage import Price, Usage, cache_hit_rate, cost_of

PRICE = Price(Decimal(2), Decimal(10), Decimal("0.2"), Decimal("2.5"))


@pytest.mark.parametrize(
    ("usage", "rate"),
    [
        (Usage(input=1_000, cache_read=750), 0.75),
        (Usage(input=1_000, cache_read=0), 0.0),
        (Usage(input=1_000, cache_write=500), None),
        (Usage(cache_read=10), None),
        (Usage(input=0, cache_read=0), None),
        (Usage(input=5, cache_read=50), 1.0),
        (Usage(), None),
    ],
)
def test_hit_rate_is_none_if_caching_is_not_reported(usage: Usage, rate: float | None) -> None:
    assert cache_hit_rate(usage) == rate


def test_session_hit_rate_weights_requests_by_input() -> None:
    assert cache_hit_rate(Usage(input=100, cache_read=0) + Usage(input=300, cache_read=300)) == 0.75


def test_cached_input_has_its_own_price_and_reasoning_is_output() -> None:
    usage = Usage(input=1_000_000, output=100_000, cache_read=500_000, cache_write=100_000, reasoning=90_000)
    assert cost_of(usage, PRICE) == Decimal("0.8") + Decimal("0.1") + Decimal("0.25") + Decimal(1)


@pytest.mark.parametrize("usage", [Usage(input=1), Usage(output=1), Usage()])
def test_cost_is_none_without_a_count_or_a_price(usage: Usage) -> None:
    assert cost_of(usage, PRICE) is None
    assert cost_of(usage, Price(Decimal(0), Decimal(0))) == 0  # a free model
    assert cost_of(Usage(1, 1), None) is None
