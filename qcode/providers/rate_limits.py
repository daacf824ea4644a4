"""The end of a provider's rate limit, read from the headers and the body of its response.

Every provider has its own format: seconds, `6m0s`, milliseconds, a date, or the seconds since 1970. Some headers name
the time at which a budget is *full* again. `read_reset` reads all these formats. The first refused request loads this
module.

Sources: platform.claude.com "Rate limits" (`anthropic-ratelimit-…-reset`, RFC 3339), platform.openai.com "Rate limits"
(`x-ratelimit-reset-…`, a duration), console.groq.com "Rate limits" (`2m59.56s`), ai.google.dev "Rate limits" (requests
per day reset at midnight Pacific time) and google.rpc.RetryInfo, openrouter.ai "Limits" (milliseconds since 1970).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta, timezone, tzinfo

from qcode.protocol.errors import LimitPeriod
from qcode.text.json import Json, JsonObject, object_in, text_in
from qcode.values import dataclass

MAX_RESET = timedelta(days=35)
"""The maximum time until a limit ends; a later time is ignored. The longest known limit is that of a monthly plan."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?")
# Examples: "Please try again in 6m0s", "resets after about 3 hours".
_NAMED_WAIT = re.compile(
    r"(?:try again|retry|resets?|available again) (?:in|after) (?:about )?"
    r"(?:(?P<short>(?:\d{1,6}(?:\.\d{1,6})?(?:ms|[smhd]))+)"
    r"|(?P<number>\d{1,6}(?:\.\d{1,6})?) ?(?P<unit>second|minute|hour|day)s?)\b",
    re.IGNORECASE,
)
_DAY = re.compile(r"per[ _-]?day\b|perday|(?<![a-z])daily(?![a-z])|\b[rt]pd\b", re.IGNORECASE)
_MINUTE = re.compile(r"per[ _-]?minute\b|perminute|\b[rt]pm\b", re.IGNORECASE)
_PLAN = re.compile(r"usage limit|\bweekly\b|\bmonthly\b", re.IGNORECASE)
_ANTHROPIC_BUDGET_HEADER = "anthropic-ratelimit-{budget}-{field}"
_OPENAI_BUDGET_HEADER = "x-ratelimit-{field}-{budget}"
_BUDGETS = ("requests", "tokens", "input-tokens", "output-tokens")


@dataclass(frozen=True, slots=True)
class Reset:
    """The end of a limit."""

    after: float | None
    """The seconds until the end, None if the response does not name it."""
    at: int | None = None
    """The end in seconds since 1970; None if `after` is None, 0 or longer than `MAX_RESET`."""
    period: LimitPeriod = ""
    """The period of the limit, empty if unknown."""


def read_reset(
    headers: Mapping[str, str], error: JsonObject, message: str, quota_ids: tuple[str, ...], *, now: datetime
) -> Reset:
    """Return the end of the rate limit in a refused request.

    `error` is the error object of the body, `quota_ids` are the limits that Gemini names, `now` has a time zone. Times
    are compared with the `Date` of the response, because the clock of this machine may be wrong. A time in the past is
    ignored.
    """
    server_time = _date(headers.get("date", "")) or now
    period = _period(headers, error, message, quota_ids)
    # With its limit per day, Gemini also sends a `retryDelay`, which is sometimes correct and sometimes 38 seconds.
    is_per_day = period == "day" and bool(quota_ids)
    if is_per_day:
        after: float | None = _until_midnight_pacific(server_time)
    else:
        after = _first_wait(_possible_waits(headers, error, message, server_time))
    return Reset(after, _unix_time(now, after), period)


def read_retry_after(headers: Mapping[str, str], error: JsonObject, *, now: datetime) -> Reset:
    """Return the wait that a server asks for after a failure that is not a rate limit."""
    server_time = _date(headers.get("date", "")) or now
    return Reset(_first_wait((*_header_waits(headers, server_time), *_detail_waits(error))))


def _first_wait(waits: Iterable[float | None]) -> float | None:
    """Return the first wait that is known and not negative."""
    return next((wait for wait in waits if wait is not None and wait >= 0), None)


def _unix_time(now: datetime, after: float | None) -> int | None:
    if not after or after > MAX_RESET.total_seconds():
        return None
    return math.ceil(now.timestamp() + after)


def _possible_waits(
    headers: Mapping[str, str], error: JsonObject, message: str, server_time: datetime
) -> Iterator[float | None]:
    """Yield the wait in seconds by each header and field, the most reliable one first; None if it names no wait."""
    metadata = object_in(error.get("metadata"))
    # OpenRouter copies the headers of the model's host into the error.
    relayed = {key.lower(): str(value) for key, value in object_in(metadata.get("headers")).items()}
    for fields in (headers, relayed):
        yield from _header_waits(fields, server_time)
    yield from _detail_waits(error)
    for key in ("resets_in_seconds", "retry_after_seconds"):
        yield _positive(_seconds(error.get(key)) or _seconds(metadata.get(key)))
    yield _until(error.get("resets_at"), server_time)
    for fields in (headers, relayed):
        for name in ("anthropic-ratelimit-unified-reset", "x-codex-primary-reset-at", "x-codex-secondary-reset-at"):
            yield _until(fields.get(name), server_time)
        yield _budget_wait(fields, server_time)
        yield _until(fields.get("x-ratelimit-reset"), server_time)
    if (match := _NAMED_WAIT.search(message)) is not None:
        yield _positive(_wait_seconds(match))


def _header_waits(headers: Mapping[str, str], server_time: datetime) -> Iterator[float]:
    """Yield the wait of `retry-after-ms` or `Retry-After`, which is a number of seconds or a date."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        yield milliseconds / 1000
    retry_after = headers.get("retry-after", "")
    seconds = _seconds(retry_after)
    if seconds is not None:
        yield seconds
    elif (date := _date(retry_after)) is not None:
        yield max(0.0, (date - server_time).total_seconds())


def _detail_waits(error: JsonObject) -> Iterator[float]:
    """Yield the `retryDelay` of a google.rpc.RetryInfo, such as `34.07s`."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and (seconds := _duration(text_in(detail.get("retryDelay")))) is not None:
            yield seconds


def _budget_wait(headers: Mapping[str, str], server_time: datetime) -> float | None:
    """Return the longest wait of all exhausted budgets, None if no budget is exhausted.

    Example: with `x-ratelimit-remaining-requests: 0`, `…-reset-requests: 2m59.56s` and 900 tokens remaining, the wait
    is 179.56 s, whatever the reset of the tokens.
    """
    waits: list[float] = []
    for template in (_ANTHROPIC_BUDGET_HEADER, _OPENAI_BUDGET_HEADER):
        for budget in _BUDGETS:
            remaining = headers.get(template.format(budget=budget, field="remaining"))
            reset = headers.get(template.format(budget=budget, field="reset"), "")
            # Some servers with the headers of OpenAI send only the reset of the exhausted budget.
            may_lack_remaining = template == _OPENAI_BUDGET_HEADER
            is_exhausted = may_lack_remaining if remaining is None else _seconds(remaining) == 0
            if not reset or not is_exhausted:
                continue
            date = _date(reset)
            wait = _duration(reset) if date is None else (date - server_time).total_seconds()
            if wait is not None and wait > 0:
                waits.append(wait)
    return max(waits, default=None)


def _period(headers: Mapping[str, str], error: JsonObject, message: str, quota_ids: tuple[str, ...]) -> LimitPeriod:
    """Return the period of the limit by the words in the response, empty if unknown."""
    source = text_in(object_in(error.get("metadata")).get("limit_source"))
    words = " ".join((*quota_ids, text_in(error.get("type")), text_in(error.get("code")), source, message))
    if "usage_limit_reached" in words or "anthropic-ratelimit-unified-reset" in headers:
        return "plan"
    if _DAY.search(words):
        return "day"
    if _PLAN.search(words):
        return "plan"
    return "minute" if _MINUTE.search(words) else ""


def _wait_seconds(match: re.Match[str]) -> float | None:
    if match["short"]:
        return _duration(match["short"])
    unit = match["unit"][0].lower()  # `minutes` becomes `m`
    return float(match["number"]) * _UNITS[unit]


def _duration(text: str) -> float | None:
    """Return the seconds of `12ms`, `7.66s`, `6m0s`, `2m59.56s`, `1h2m3s` or a plain number; None for other text.

    Azure sends plain seconds; 0 and -1 have no meaning.
    """
    plain = _seconds(text)
    if plain is not None:
        return plain if plain > 0 else None
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, number, unit = match.groups()
    whole = sum(float(value) * _UNITS[name] for value, name in ((days, "d"), (hours, "h"), (minutes, "m")) if value)
    seconds = whole + (float(number) * _UNITS[unit] if number else 0.0)
    return seconds if seconds < math.inf else None


def _until(value: Json, server_time: datetime) -> float | None:
    """Return the seconds until a time in seconds or milliseconds since 1970, or an RFC 3339 time; None if it passed."""
    number = _seconds(value)
    if number is not None:
        # Seconds since 1970 reach 1e11 only in the year 5138, so a larger number is milliseconds.
        return _positive((number / 1000 if number > 1e11 else number) - server_time.timestamp())
    date = _date(value) if isinstance(value, str) else None
    return _positive((date - server_time).total_seconds()) if date is not None else None


def _positive(seconds: float | None) -> float | None:
    return seconds if seconds is not None and seconds > 0 else None


def _seconds(value: Json) -> float | None:
    """Return a finite number, or None for other values."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> datetime | None:
    """Return an RFC 3339 or HTTP date, None for other text."""
    text = text.strip()
    # `fromisoformat` would also read `20261121`, which is a number here, and `2026-11-21`, which lacks a time.
    if len(text) < 16 or not any(sign in text for sign in ":,"):
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        # The import loads half of the email package, which few runs need.
        from email.utils import parsedate_to_datetime

        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
    # Dates in the first and last year of the calendar cannot be converted to another zone.
    if not 1970 <= date.year < MAXYEAR:
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _until_midnight_pacific(now: datetime) -> float:
    """Return the seconds until the next midnight in California, where Gemini's day begins."""
    zone = _pacific()
    local = now.astimezone(zone)
    midnight = datetime(local.year, local.month, local.day, tzinfo=zone) + timedelta(days=1)
    return (midnight.astimezone(UTC) - now).total_seconds()


def _pacific() -> tzinfo:
    """Return the time zone of California."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo("America/Los_Angeles")
    except ZoneInfoNotFoundError:
        # A machine without time zones. Winter time is used all year: in summer, the wait is an hour too long.
        return timezone(timedelta(hours=-8))
