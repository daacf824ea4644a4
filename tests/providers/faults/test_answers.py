"""Error responses: each status and each malformed body has one outcome in every protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from qcode.protocol.errors import ErrorKind, ExitCode
from tests.providers.clients import each_protocol, stream_of
from tests.providers.faults.runs import Ran, run, text_of
from tests.providers.loopback import Answer

PAGE = b"<html><head><title>Bad gateway</title></head><body>nginx</body></html>"
JSON = {"content-type": "application/json"}


def error(kind: str, message: str, **more: object) -> bytes:
    return json.dumps({"error": {"type": kind, "message": message, **more}}).encode()


@dataclass(frozen=True)
class Row:
    """`says` is part of the error line."""

    name: str
    status: int
    body: bytes
    kind: ErrorKind
    code: int
    says: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def answer(self) -> Answer:
        return Answer([self.body], self.status, {**JSON, **self.headers})


SLOW = error("rate_limit_error", "slow down")
one_of_each_kind = pytest.mark.parametrize("protocol", ["openai", "gemini"])
"""For behavior that all protocols share."""

ROWS = [
    Row("401", 401, error("authentication_error", "bad key"), ErrorKind.AUTH, ExitCode.NO_CREDENTIAL, "bad key"),
    Row("403 page", 403, PAGE, ErrorKind.AUTH, ExitCode.NO_CREDENTIAL, "Bad gateway"),
    Row("402", 402, error("billing_error", "pay first"), ErrorKind.QUOTA, ExitCode.FAILED, "pay first"),
    Row("404 model", 404, error("not_found_error", "model: m"), ErrorKind.UNKNOWN_MODEL, ExitCode.FAILED, "model: m"),
    Row("404 page", 404, PAGE, ErrorKind.BAD_REQUEST, ExitCode.FAILED, "Bad gateway"),
    Row("408", 408, b"", ErrorKind.SERVER, ExitCode.TRANSIENT, "(408)"),
    Row("409", 409, b"{}", ErrorKind.SERVER, ExitCode.TRANSIENT, "(409)"),
    Row("413", 413, PAGE, ErrorKind.CONTEXT_OVERFLOW, ExitCode.BAD_INPUT),
    Row("429", 429, SLOW, ErrorKind.RATE_LIMIT, ExitCode.TRANSIENT, "slow down"),
    Row(
        "429 quota", 429, error("insufficient_quota", "exceeded your current quota"), ErrorKind.QUOTA, ExitCode.FAILED,
        "quota",
    ),
    Row("500 empty", 500, b"", ErrorKind.SERVER, ExitCode.TRANSIENT, "(500)"),
    Row("502 page", 502, PAGE, ErrorKind.SERVER, ExitCode.TRANSIENT, "Bad gateway"),
    Row("503 not UTF-8", 503, b"\xff\xfe down", ErrorKind.SERVER, ExitCode.TRANSIENT, "(503)"),
    Row("504 broken JSON", 504, b'{"error": {"mess', ErrorKind.SERVER, ExitCode.TRANSIENT, "(504)"),
    Row("529", 529, error("overloaded_error", "Overloaded"), ErrorKind.OVERLOADED, ExitCode.TRANSIENT, "Overloaded"),
    Row("200 page", 200, PAGE, ErrorKind.BAD_RESPONSE, ExitCode.FAILED, "Bad gateway", {"content-type": "text/html"}),
    Row("200 error", 200, error("overloaded_error", "Busy"), ErrorKind.OVERLOADED, ExitCode.TRANSIENT, "Busy"),
    Row("200 empty", 200, b"", ErrorKind.CONNECTION, ExitCode.TRANSIENT),
    Row("200 other JSON", 200, b"[1, null]", ErrorKind.CONNECTION, ExitCode.TRANSIENT),
    Row("301 nowhere", 301, b"", ErrorKind.BAD_RESPONSE, ExitCode.FAILED),
]  # fmt: skip


@each_protocol
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_response_that_is_not_a_reply_ends_the_turn_in_one_line(row: Row, protocol: str) -> None:
    if protocol == "bedrock" and row.name in ("200 page", "200 other JSON"):
        pytest.skip("its frames begin with a length, so other content fails at the checksum")
    ran = run(protocol, row.answer)
    assert (ran.kind, ran.code, ran.requests) == (row.kind, row.code, 1)
    assert row.says in ran.message
    assert ran.end.text == ""


@one_of_each_kind
@pytest.mark.parametrize("row", [row for row in ROWS if row.code == ExitCode.TRANSIENT], ids=str)
def test_temporary_failure_is_retried_silently(row: Row, protocol: str) -> None:
    ran = run(protocol, row.answer, Answer([stream_of(protocol)]), retries=1)
    assert (ran.code, ran.end.text, ran.requests) == (ExitCode.OK, text_of(protocol), 2)


@one_of_each_kind
@pytest.mark.parametrize("row", [row for row in ROWS if row.code != ExitCode.TRANSIENT], ids=str)
def test_permanent_failure_is_not_retried(row: Row, protocol: str) -> None:
    assert run(protocol, row.answer, Answer([stream_of(protocol)]), retries=3).requests == 1


@each_protocol
def test_response_without_content_is_not_a_reply(protocol: str) -> None:
    ran = run(protocol, Answer([b"HTTP/1.1 204 No Content\r\n\r\n"], is_raw=True))
    assert ran.end.error is not None
    assert ran.code in (ExitCode.FAILED, ExitCode.TRANSIENT)


@each_protocol
@pytest.mark.parametrize("status", [302, 307, 308])
def test_redirect_never_forwards_the_key(protocol: str, status: int) -> None:
    ran = run(protocol, Answer([], status, {"location": "http://elsewhere.invalid/v1/take-the-key"}))
    assert (ran.kind, ran.code, ran.requests) == (ErrorKind.BAD_RESPONSE, ExitCode.FAILED, 1)
    assert "elsewhere.invalid" in ran.message


_DATES = {"a minute ago": timedelta(minutes=-1), "in an hour": timedelta(hours=1)}


def limited(protocol: str, wait: str, name: str = "retry-after") -> Ran:
    """Meet a rate limit once, and the reply behind it."""
    if wait in _DATES:
        wait = format_datetime(datetime.now(UTC) + _DATES[wait], usegmt=True)
    return run(protocol, Answer([SLOW], 429, {**JSON, name: wait}), Answer([stream_of(protocol)]), retries=1)


@one_of_each_kind
@pytest.mark.parametrize(
    "wait", ["0", "-5", "soon", "", "nan", "inf", "1e999", "a minute ago", "Thu, 99 Foo 2026", "0.01"]
)
def test_past_or_invalid_wait_does_not_delay(protocol: str, wait: str) -> None:
    ran = limited(protocol, wait)
    assert (ran.code, ran.requests) == (ExitCode.OK, 2)


@one_of_each_kind
@pytest.mark.parametrize("wait", ["3600", "99999999999", "in an hour"])
def test_wait_beyond_the_limit_ends_the_turn_with_a_message(protocol: str, wait: str) -> None:
    ran = limited(protocol, wait)
    assert (ran.kind, ran.code, ran.requests) == (ErrorKind.RATE_LIMIT, ExitCode.TRANSIENT, 1)


@one_of_each_kind
def test_retry_header_in_milliseconds_is_read(protocol: str) -> None:
    assert limited(protocol, "10", "retry-after-ms").code == ExitCode.OK
