"""When a failed request is worth sending again, and after how long. Chance arrives as a number in [0, 1)."""

from __future__ import annotations

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.values import dataclass

MAX_TRANSPORT_CONTINUATIONS = 3
QUICK_RETRY_S = 0.5
_LONGEST_STEP_S = 16.0


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """`max_retries` failures in a row are retried, unless the server asks to wait longer than `retry_after_max_s`."""

    max_retries: int = 5
    retry_after_max_s: float = 120.0


def delay_before_retry(error: ProviderError, failures: int, jitter: float, settings: RetrySettings) -> float | None:
    """Return the seconds to wait before trying again, or None where it is not worth it.

    `failures` counts this failure and those directly before it. The wait is drawn from 0 up to 1, 2, 4, 8, 16 seconds
    ("full jitter"); a wait the server asks for is a floor. An address where nobody listens gets one quick retry.
    """
    if not error.kind.is_transient or failures > settings.max_retries:
        return None
    if error.kind is ErrorKind.UNREACHABLE:
        return QUICK_RETRY_S if failures == 1 else None
    if error.retry_after is not None and error.retry_after > settings.retry_after_max_s:
        return None
    step = min(_LONGEST_STEP_S, float(2 ** (failures - 1)))
    return max(jitter * step, error.retry_after or 0.0)
