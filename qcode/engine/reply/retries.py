"""Rules for retries: when a failed request is sent again, after which wait, and when a fallback model replaces it.

Separate from `failures`, which applies the rules to a reply: these are functions of the error and the settings only.
Waits are in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.protocol.errors import ErrorKind, ProviderError

if TYPE_CHECKING:
    from qcode.engine.effects import Fallback
    from qcode.protocol.model import RetrySettings

MAX_TRANSPORT_CONTINUATIONS = 3
"""How often a reply is continued after its stream broke."""
MAX_LIMIT_WAITS = 3
"""How many rate limits a reply waits for."""
MAX_LIMIT_JITTER_S = 30.0
"""The maximum random delay after the end of a rate limit."""
MAX_OVERSLEPT_S = 1_800.0
"""If a limit ended longer ago than this, because the machine was asleep, the user is asked before the request."""
LIMIT_REPORT_S = 60.0
"""The interval at which front ends get the remaining wait."""
QUICK_RETRY_S = 0.5
"""The wait before the only retry of a refused connection."""
_MAX_STEP_S = 16.0
"""The maximum wait before a retry, unless the server asks for a longer one."""


def delay_before_retry(error: ProviderError, failures: int, jitter: float, settings: RetrySettings) -> float | None:
    """Return the seconds to wait before the next attempt, or None to give up.

    `failures` counts this failure and the failures directly before it. The wait is `jitter`, a random number in [0, 1),
    times 1, 2, 4, 8, then 16 seconds ("full jitter"). It is never shorter than the wait that the server asks for. A
    refused connection gets one quick retry.
    """
    if not error.kind.is_transient or not error.may_retry or failures > settings.max_retries:
        return None
    if error.retry_after is None and error.period in ("day", "plan"):
        return None
    if error.kind is ErrorKind.UNREACHABLE:
        return QUICK_RETRY_S if failures == 1 else None
    if error.retry_after is not None and error.retry_after > settings.retry_after_max_s:
        return None
    step = min(_MAX_STEP_S, float(2 ** (failures - 1)))
    return max(jitter * step, error.retry_after or 0.0)


def may_fall_back(error: ProviderError, fallback: Fallback) -> bool:
    """Return whether another model may succeed: the host is overloaded, broken, unreachable or at a limit.

    Another model does not help after a bad key or request, a full window, or a failure of this machine's network.
    """
    if error.kind is ErrorKind.QUOTA:
        return fallback.on_quota
    return error.kind in (ErrorKind.OVERLOADED, ErrorKind.SERVER, ErrorKind.RATE_LIMIT, ErrorKind.UNREACHABLE)


def allowed_limit_wait(error: ProviderError, past_waits: int, settings: RetrySettings) -> float | None:
    """Return the seconds until the end of a rate limit, or None if the reply must not wait for it.

    `past_waits` counts the limits that this reply has already waited for. Missing credit is not such a limit.
    """
    if error.kind is not ErrorKind.RATE_LIMIT or not error.may_retry or error.resets_at is None:
        return None
    return allowed_wait(error.retry_after, past_waits, settings)


def allowed_wait(wait: float | None, past_waits: int, settings: RetrySettings) -> float | None:
    """Return `wait`, the time until the end of a limit, if the settings allow this wait; otherwise None."""
    if settings.wait_for_limit == "never" or wait is None or past_waits >= MAX_LIMIT_WAITS:
        return None
    return wait if wait <= settings.limit_wait_max_s else None
