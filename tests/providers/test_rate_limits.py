"""The end of a rate limit, as each provider says it in headers and body. Times are relative to 2026-03-01 12:00 UTC."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.connection import ConnectionOrigin
from qcode.providers.errors import error_of_response, error_of_stream
from qcode.text.json import Json, JsonObject

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
DAY_ID = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"


def refused(body: Json = None, status: int = 429, **headers: str) -> ProviderError:
    """Return the error of a response; underscores in the names of `headers` are dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    origin = ConnectionOrigin("p", "http://host/v1", "", "", "")
    return error_of_response(origin, status, named, json.dumps(body).encode(), now=NOW)


def error(message: str = "slow down", **fields: Json) -> JsonObject:
    return {"error": {"message": message, **fields}}


def google(*details: JsonObject, message: str = "You exceeded your current quota") -> JsonObject:
    return {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message, "details": list(details)}}


def quota(name: str) -> JsonObject:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": name}]}


def delay(text: str) -> JsonObject:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": text}


@pytest.mark.parametrize(
    ("found", "seconds", "period"),
    [
        pytest.param(refused(error(), retry_after="90"), 90, "", id="retry-after"),
        pytest.param(refused(error(), retry_after_ms="1500", retry_after="90"), 1.5, "", id="retry-after-ms"),
        pytest.param(
            refused(error(), anthropic_ratelimit_tokens_reset="2026-03-01T12:05:00Z",
                    anthropic_ratelimit_tokens_remaining="0",
                    anthropic_ratelimit_requests_reset="2026-03-01T13:00:00Z",
                    anthropic_ratelimit_requests_remaining="40"), 300, "", id="anthropic"),
        pytest.param(
            refused(error(), anthropic_ratelimit_tokens_reset="2026-03-01T12:05:00Z",
                    anthropic_ratelimit_tokens_remaining="0", retry_after="12"), 12, "", id="anthropic, asked"),
        pytest.param(
            refused(error(), anthropic_ratelimit_unified_reset=str(EPOCH + 7200)), 7200, "plan", id="anthropic plan"),
        pytest.param(
            refused(error("Rate limit reached for requests per minute (RPM)"), x_ratelimit_reset_requests="6m0s",
                    x_ratelimit_remaining_requests="0", x_ratelimit_reset_tokens="9h",
                    x_ratelimit_remaining_tokens="10"), 360, "minute", id="openai"),
        pytest.param(
            refused(error(), x_ratelimit_reset_requests="12ms", x_ratelimit_remaining_requests="0"), 0.012, "",
            id="openai milliseconds"),
        pytest.param(refused(error(), x_ratelimit_reset_tokens="45"), 45, "", id="azure"),
        pytest.param(refused(error(), x_ratelimit_reset_tokens="-1"), None, "", id="azure without a time"),
        pytest.param(
            refused(error("The usage limit has been reached", type="usage_limit_reached", resets_at=EPOCH + 3600)),
            3600, "plan", id="codex plan"),
        pytest.param(
            refused(error(type="usage_limit_reached", resets_in_seconds=500)), 500, "plan", id="codex plan, seconds"),
        pytest.param(refused(error(), x_codex_primary_reset_at=str(EPOCH + 60)), 60, "", id="codex header"),
        pytest.param(
            refused(google(quota("GenerateRequestsPerMinute"), delay("34.07s"))), 34.07, "minute", id="gemini minute"),
        pytest.param(refused(google(quota(DAY_ID), delay("38s"))), 20 * 3600, "day", id="gemini day, useless delay"),
        pytest.param(refused(google(message="Please retry in 34.07s.")), 34.07, "", id="gemini text"),
        pytest.param(
            refused(error(metadata={"headers": {"X-RateLimit-Reset": str((EPOCH + 30) * 1000)},
                                    "limit_source": "openrouter_free_tier_daily"})), 30, "day", id="openrouter"),
        pytest.param(
            refused(error(metadata={"retry_after_seconds": 8})), 8, "", id="openrouter metadata"),
        pytest.param(
            refused(error("requests per day"), x_ratelimit_reset_requests="2m59.56s",
                    x_ratelimit_remaining_requests="0"), 179.56, "day", id="groq"),
        pytest.param(refused(error("Rate limit: try again in 20s")), 20, "", id="text, seconds"),
        pytest.param(refused(error("Please try again in 7m12s.")), 432, "", id="text, minutes"),
        pytest.param(refused(error("Limit reached. Try again in 2 hours")), 7200, "", id="text, hours"),
        pytest.param(refused(error("Rate limit exceeded")), None, "", id="nothing"),
    ],
)  # fmt: skip
def test_end_of_a_limit_is_read_from_every_header_and_message(
    found: ProviderError, seconds: float | None, period: str
) -> None:
    assert found.kind is ErrorKind.RATE_LIMIT
    assert found.period == period
    if seconds is None:
        assert (found.retry_after, found.resets_at) == (None, None)
        return
    assert found.retry_after == pytest.approx(seconds, abs=0.001)
    assert found.resets_at is not None
    assert 0 <= found.resets_at - EPOCH - seconds < 1


def test_clock_that_differs_from_the_server_is_corrected() -> None:
    late = refused(error(type="usage_limit_reached", resets_at=EPOCH - 3600 + 60), date="Sun, 01 Mar 2026 11:00:00 GMT")
    assert late.retry_after == 60
    assert late.resets_at == EPOCH + 60


@pytest.mark.parametrize(
    "resets_at",
    [EPOCH - 5, "soon", True, None, 1e400, {"in": 5}],
    ids=["past", "word", "bool", "none", "inf", "object"],
)
def test_invalid_time_is_ignored(resets_at: Json) -> None:
    assert refused(error(type="usage_limit_reached", resets_at=resets_at)).resets_at is None


_ODD = (
    *("0", "-1", "1e308", "1e400", "nan", "-inf", "", "\x00", "9" * 5_000, "9" * 400 + "d", "6m0s", "\u0663", "1_000"),
    *("Mon, 01 Jan 99999 00:00:00 GMT", f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", "Mon, 99 Foo 2026 00:00:00 GMT"),
    *("Wed, 21 Oct 2026 07:28:00 +999999", f"Wed, 21 Oct 2026 07:28:00 -{'9' * 30}", "9999-12-31T23:59:59Z"),
    *("0001-01-01T00:00:00+23:59", "2026-11-23T25:00:00Z", ",:" * 40, "Sun, 06 Nov 1994 08:49:37 GMT"),
)


@pytest.mark.parametrize(
    "name",
    ["retry_after", "retry_after_ms", "date", "x_ratelimit_reset", "x_ratelimit_reset_tokens",
     "anthropic_ratelimit_unified_reset", "anthropic_ratelimit_requests_reset"],
)  # fmt: skip
def test_any_header_value_gives_a_finite_wait_or_none(name: str) -> None:
    for value in _ODD:
        for body in (error(), error(resets_at=EPOCH + 60), google(quota(DAY_ID), delay(value))):
            found = refused(body, **{name: value, "x_ratelimit_remaining_tokens": "0"})  # type: ignore[arg-type]  # headers
            assert found.retry_after is None or 0 <= found.retry_after < math.inf, value
            assert found.resets_at is None or found.resets_at <= EPOCH + 35 * 86_400, value
    for number in (10**400, -(10**400), 1e308):
        assert refused(error(resets_at=number, resets_in_seconds=number)).resets_at is None


def test_time_over_35_days_ahead_is_ignored() -> None:
    far = refused(error(), retry_after=str(36 * 86_400))
    assert (far.retry_after, far.resets_at) == (36 * 86_400, None)


def test_pacific_midnight_follows_summer_time() -> None:
    summer = datetime(2026, 7, 1, 12, tzinfo=UTC)
    origin = ConnectionOrigin("p", "http://host/v1", "", "", "")
    found = error_of_response(origin, 429, {}, json.dumps(google(quota(DAY_ID))).encode(), now=summer)
    assert found.resets_at == datetime(2026, 7, 2, 7, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("status", "body"),
    [(402, error("Insufficient credits")), (429, error(code="insufficient_quota", type="insufficient_quota"))],
)
def test_empty_account_has_no_time_to_wait_for(status: int, body: JsonObject) -> None:
    found = refused(body, status, x_ratelimit_reset_requests="6m0s", x_ratelimit_remaining_requests="0")
    assert (found.kind, found.resets_at) == (ErrorKind.QUOTA, None)


def test_overload_uses_only_a_requested_wait() -> None:
    found = refused(error("Overloaded"), 529, anthropic_ratelimit_tokens_reset="2026-03-01T12:05:00Z")
    assert (found.kind, found.retry_after) == (ErrorKind.OVERLOADED, None)
    assert refused(error("Overloaded"), 529, retry_after="5").retry_after == 5


def test_server_can_forbid_another_attempt() -> None:
    assert not refused(error(), x_should_retry="false").may_retry
    assert refused(error(), x_should_retry="true").may_retry


def test_limit_inside_a_stream_has_its_end() -> None:
    found = error_of_stream(error("limit", type="usage_limit_reached", resets_in_seconds=500))
    assert (found.kind, found.retry_after, found.period) == (ErrorKind.RATE_LIMIT, 500, "plan")


def test_reading_hostile_text_is_linear() -> None:
    """The wait is searched in the provider's words, which may be anything."""
    started = time.process_time()
    for text in ("try again in " * 50, "retry in " + "1m" * 300, "9" * 600):
        refused(error(text))
    assert time.process_time() - started < 0.5
