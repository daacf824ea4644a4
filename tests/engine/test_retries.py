"""When a failed request is sent again, and after which wait."""

from __future__ import annotations

import pytest

from qcode.engine.reply.retries import delay_before_retry
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import RetrySettings

SETTINGS = RetrySettings(max_retries=7)
BUSY = ProviderError(ErrorKind.OVERLOADED, "busy")


def test_longest_wait_before_a_retry_doubles_up_to_16_seconds() -> None:
    waits = [delay_before_retry(BUSY, failures, 1.0, SETTINGS) for failures in range(1, 9)]
    assert waits == [1, 2, 4, 8, 16, 16, 16, None]


def test_wait_before_a_retry_is_a_random_part_of_the_longest_one() -> None:
    assert delay_before_retry(BUSY, 4, 0.25, SETTINGS) == 2
    assert delay_before_retry(BUSY, 4, 0.0, SETTINGS) == 0


@pytest.mark.parametrize(("named", "wait"), [(3.0, 3.0), (120.0, 120.0), (121.0, None)])
def test_wait_is_at_least_as_long_as_the_server_asks_up_to_a_limit(named: float, wait: float | None) -> None:
    error = ProviderError(ErrorKind.OVERLOADED, "busy", retry_after=named)
    assert delay_before_retry(error, 1, 1.0, SETTINGS) == wait


def test_refused_connection_is_tried_once_more() -> None:
    error = ProviderError(ErrorKind.UNREACHABLE, "refused")
    assert [delay_before_retry(error, failures, 1.0, SETTINGS) for failures in (1, 2)] == [0.5, None]
