"""Failures by real error responses: kind, message, wait, and no key and no page in any of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx2
import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.connection import Connection, ConnectionOrigin, checked_address
from qcode.providers.errors import error_of_response, error_of_stream, redact, with_origin
from qcode.providers.sdk import connection_lost_error, convert_error, response_error, unreachable_error
from qcode.text.json import Json, JsonObject

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
KEY = "sk-live-0123456789abcdef"
ORIGIN = ConnectionOrigin(provider="acme", base_url="https://acme.test/v1", key_source="ACME_API_KEY", key=KEY)


def answer(status: int, body: Json | bytes, headers: dict[str, str] | None = None) -> ProviderError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of_response(ORIGIN, status, headers or {}, content, now=NOW)


def openai(
    message: str, kind: str = "invalid_request_error", code: str | None = None, param: str | None = None
) -> Json:
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}


def anthropic(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_9"}


def google(code: int, status: str, message: str, *details: Json) -> Json:
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}


_QUOTA_TEXT = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, openai("Incorrect API key provided", code="invalid_api_key"), ErrorKind.AUTH),
        (401, anthropic("authentication_error", "invalid x-api-key"), ErrorKind.AUTH),
        (403, anthropic("permission_error", "Your key may not use this resource"), ErrorKind.AUTH),
        (400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), ErrorKind.AUTH),
        (404, openai("The model `gpt-9` does not exist", code="model_not_found"), ErrorKind.UNKNOWN_MODEL),
        (404, anthropic("not_found_error", "model: claude-9"), ErrorKind.UNKNOWN_MODEL),
        (404, google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta"), ErrorKind.UNKNOWN_MODEL),
        (404, {"error": "model 'llama9' not found"}, ErrorKind.UNKNOWN_MODEL),
        (404, {"detail": "Not Found"}, ErrorKind.BAD_REQUEST),
        (404, b"<html><title>404 Not Found</title></html>", ErrorKind.BAD_REQUEST),
        (400, openai("acme/x is not a valid model ID"), ErrorKind.UNKNOWN_MODEL),
        (400, openai("Model Not Exist"), ErrorKind.UNKNOWN_MODEL),
        (400, openai("'temperature' is not supported with this model", param="temperature"), ErrorKind.BAD_REQUEST),
        (400, openai("This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
         ErrorKind.CONTEXT_OVERFLOW),
        (400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
         ErrorKind.CONTEXT_OVERFLOW),
        (400, anthropic("invalid_request_error",
                        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
         ErrorKind.CONTEXT_OVERFLOW),
        (400, google(400, "INVALID_ARGUMENT",
                     "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
         ErrorKind.CONTEXT_OVERFLOW),
        (400, {"object": "error", "message": "max_total_tokens (33802) must be <= max_seq_len (32768)", "code": 400},
         ErrorKind.CONTEXT_OVERFLOW),
        (400, {"error": {"code": 400, "message": "the request exceeds the available context size",
                         "type": "exceed_context_size_error"}}, ErrorKind.CONTEXT_OVERFLOW),
        (413, anthropic("request_too_large", "Request exceeds the maximum size"), ErrorKind.CONTEXT_OVERFLOW),
        (400, openai("max_tokens is too large: 64000. This model supports at most 16384 completion tokens",
                     param="max_tokens"), ErrorKind.BAD_REQUEST),
        (400, anthropic("invalid_request_error",
                        "max_tokens: 65536 > 64000, which is the maximum allowed number of output tokens"),
         ErrorKind.BAD_REQUEST),
        (422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "must be at most 8192"}]}, ErrorKind.BAD_REQUEST),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access the API"), ErrorKind.QUOTA),
        (402, {"error": {"message": "Insufficient Balance"}}, ErrorKind.QUOTA),
        (429, openai(_QUOTA_TEXT, "insufficient_quota", "insufficient_quota"), ErrorKind.QUOTA),
        (403, anthropic("billing_error", "Your plan has ended"), ErrorKind.QUOTA),
        (429, openai("Rate limit reached for gpt-x", "requests", "rate_limit_exceeded"), ErrorKind.RATE_LIMIT),
        (429, anthropic("rate_limit_error", "This request would exceed your rate limit"), ErrorKind.RATE_LIMIT),
        (429, google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT), ErrorKind.RATE_LIMIT),
        (429, google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT,
                     {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}),
         ErrorKind.RATE_LIMIT),
        (429, google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT,
                     {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}),
         ErrorKind.RATE_LIMIT),
        (429, b"", ErrorKind.RATE_LIMIT),
        (408, b"", ErrorKind.SERVER),
        (409, b"", ErrorKind.SERVER),
        (500, anthropic("api_error", "Internal server error"), ErrorKind.SERVER),
        (502, b"<html><h1>Bad Gateway</h1></html>", ErrorKind.SERVER),
        (503, google(503, "UNAVAILABLE", "The model is overloaded."), ErrorKind.OVERLOADED),
        (529, anthropic("overloaded_error", "Overloaded"), ErrorKind.OVERLOADED),
        (302, b"", ErrorKind.BAD_RESPONSE),
        (424, {"__type": "ModelErrorException", "message": "The model failed"}, ErrorKind.SERVER),
        (400, {"__type": "com.amazon.coral.service#ThrottlingException", "message": "slow"}, ErrorKind.RATE_LIMIT),
        (403, {"__type": "AccessDeniedException", "Message": "no"}, ErrorKind.AUTH),
    ],
)  # fmt: skip
def test_error_is_classified_by_status_and_message(status: int, body: Json | bytes, kind: ErrorKind) -> None:
    error = answer(status, body)
    assert (error.kind, error.status) == (kind, status)
    assert "\n" not in error.message


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (anthropic("overloaded_error", "Overloaded"), ErrorKind.OVERLOADED),
        (anthropic("rate_limit_error", "Slow down"), ErrorKind.RATE_LIMIT),
        (anthropic("api_error", "Internal server error"), ErrorKind.SERVER),
        (anthropic("timeout_error", "The request timed out"), ErrorKind.SERVER),
        (anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ErrorKind.CONTEXT_OVERFLOW),
        (anthropic("invalid_request_error", "messages: bad"), ErrorKind.BAD_REQUEST),
        (anthropic("authentication_error", "no"), ErrorKind.AUTH),
        (anthropic("billing_error", "no"), ErrorKind.QUOTA),
        (openai("The server had an error", "server_error"), ErrorKind.SERVER),
        (openai("Over", "insufficient_quota", "insufficient_quota"), ErrorKind.QUOTA),
        (openai("Too long", code="context_length_exceeded"), ErrorKind.CONTEXT_OVERFLOW),
        ({"error": {"code": 429, "message": "Rate limited upstream"}}, ErrorKind.RATE_LIMIT),
        ({"error": {"code": 502, "message": "Upstream gone"}}, ErrorKind.SERVER),
        ({"error": "something broke"}, ErrorKind.SERVER),
        ({"object": "error", "message": "bad input", "type": "BadRequestError", "code": 400}, ErrorKind.BAD_REQUEST),
        (google(503, "UNAVAILABLE", "Try later"), ErrorKind.OVERLOADED),
        (google(500, "INTERNAL", "Oops"), ErrorKind.SERVER),
    ],
)
def test_error_inside_a_stream_is_classified_by_its_type(sent: Json, kind: ErrorKind) -> None:
    assert isinstance(sent, dict)
    assert error_of_stream(sent).kind is kind


def test_error_type_in_a_header_is_used() -> None:
    headers = {"x-amzn-errortype": "ModelNotReadyException:http://x.test/doc"}
    error = answer(429, {"message": "wait"}, headers)
    assert (error.kind, error.code, error.message) == (
        ErrorKind.OVERLOADED,
        "ModelNotReadyException",
        "acme: wait (429)",
    )


def test_daily_limit_of_another_host_stays_a_rate_limit() -> None:
    text = "Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 7m12s."
    assert answer(429, openai(text, "tokens", "rate_limit_exceeded")).kind is ErrorKind.RATE_LIMIT


def test_every_error_type_of_the_anthropic_sdk_is_classified() -> None:
    from typing import get_args

    from anthropic.types.shared.error_type import ErrorType

    kinds = {word: error_of_stream({"error": {"type": word, "message": "x"}}).kind for word in get_args(ErrorType)}
    assert {word for word, kind in kinds.items() if kind is ErrorKind.BAD_REQUEST} == {"invalid_request_error"}
    assert {word for word, kind in kinds.items() if kind is ErrorKind.AUTH} == {
        "authentication_error",
        "permission_error",
    }


def test_refused_key_is_named_by_its_variable_and_never_shown() -> None:
    error = answer(401, openai(f"Incorrect API key provided: {KEY}. Find yours at https://acme.test"))
    assert "ACME_API_KEY" in error.message
    assert KEY not in error.message
    assert KEY not in repr(ORIGIN)


def test_missing_key_for_a_server_that_needs_one_is_reported() -> None:
    error = error_of_response(ConnectionOrigin("local"), 401, {}, b'{"error":"Unauthorized"}', now=NOW)
    assert error.message == (
        "local requires a key: Unauthorized; store one with qcode auth login local, "
        "or set api_key_env in the config to the variable that holds it"
    )


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "sk-proj-****************abcd",
        "sk-ant-api03-XyZ_123-abc",
        "AIzaSyA1234567890abcdef",
        "gsk_abcdefghijkl",
        KEY,
    ],
)
def test_key_like_text_is_redacted(text: str) -> None:
    assert redact(f"key {text} is wrong", KEY) == "key *** is wrong"


def test_ordinary_words_are_not_redacted() -> None:
    line = "max_tokens: 65536 > 64000; key_values_1; task-list; sk-1"
    assert redact(line, "") == line


def test_message_of_a_refused_request_quotes_the_server_without_added_numbers() -> None:
    text = "max_tokens: 65536 > 64000, which is the maximum allowed number of output tokens"
    assert answer(400, anthropic("invalid_request_error", text)).message == f"acme refused the request: {text}"


def test_error_code_and_parameter_are_kept() -> None:
    error = answer(400, openai("too large", code="integer_above_max_value", param="max_tokens"))
    assert (error.code, error.param) == ("integer_above_max_value", "max_tokens")


def test_error_of_the_host_behind_a_router_is_kept() -> None:
    body: JsonObject = {
        "error": {"code": 400, "message": "Provider returned error", "metadata": {"raw": "supports at most 16384"}}
    }
    assert "supports at most 16384" in answer(400, body).message
    without_message: JsonObject = {"error": {"metadata": {"raw": "too large"}}}
    assert answer(400, without_message).message.endswith("refused the request: too large")


def test_long_message_is_shortened_to_one_line() -> None:
    message = answer(400, openai("line\nbreak \x1b[31m" + "x" * 5000)).message
    assert len(message) < 700
    assert message.isprintable()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<!DOCTYPE html><html><head><title>502 Bad\n Gateway</title></head><body>" + b"x" * 9000,
         "acme: the server returned a web page (\"502 Bad Gateway\") (502)"),
        (b"<html><body><h1>Oh &amp; <b>no</b></h1></body></html>",
         "acme: the server returned a web page (\"Oh & no\") (502)"),
        (b"", "acme: Bad Gateway (502)"),
        (b"upstream connect error", "acme: upstream connect error (502)"),
        (b"null", "acme: Bad Gateway (502)"),
        (b"[]", "acme: Bad Gateway (502)"),
        (b'[{"error":{"code":502,"message":"in a list"}}]', "acme: in a list (502)"),
        (b"\xff\xfe\x00", "acme: Bad Gateway: returned 3 bytes that are not text (502)"),
        (b"caf\xe9 is not available", "acme: caf\ufffd is not available (502)"),
    ],
)  # fmt: skip
def test_page_or_an_empty_body_becomes_one_line(body: bytes, expected: str) -> None:
    assert answer(502, body).message == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_requested_wait_is_read_in_seconds(headers: dict[str, str], expected: float | None) -> None:
    assert answer(429, b"", headers).retry_after == expected


def test_wait_inside_a_google_error_is_read() -> None:
    details: Json = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "23.5s"}
    assert answer(429, google(429, "RESOURCE_EXHAUSTED", _QUOTA_TEXT, details)).retry_after == 23.5


@pytest.mark.parametrize("name", ["request-id", "x-request-id", "x-amzn-requestid"])
def test_request_id_is_kept(name: str) -> None:
    assert answer(500, b"", {name: "req_1"}).request_id == "req_1"
    assert answer(500, anthropic("api_error", "x")).request_id == "req_9"


def test_error_of_a_decoder_gets_its_provider_and_keeps_its_facts() -> None:
    bare = ProviderError(
        ErrorKind.OVERLOADED, f"too much {KEY}", status=529, retry_after=3, request_id="r", code="c", param="p"
    )
    error = with_origin(bare, ORIGIN)
    assert error.message == "acme: too much *** (529)"
    assert (error.kind, error.status, error.retry_after) == (bare.kind, 529, 3)
    assert (error.request_id, error.code, error.param) == ("r", "c", "p")


@pytest.mark.parametrize(
    ("base_url", "shown"),
    [
        ("https://me:canary1@acme.test/v1", "https://(hidden)@acme.test/v1"),
        ("https://canary1@acme.test/v1/chat/completions", "https://(hidden)@acme.test/v1"),
        ("https://me:canary1/canary2@acme.test/v1", "https://(hidden)@acme.test/v1"),
        ("https://acme.test/v1?key=canary1", "https://acme.test/v1?(hidden)"),
    ],
)
def test_credentials_in_the_address_are_never_shown(base_url: str, shown: str) -> None:
    connection = Connection(name="acme", base_url=base_url, base_url_source="ACME_BASE_URL")
    failures = [
        error_of_response(connection.origin, 404, {}, b"", now=NOW),
        connection_lost_error(connection),
        convert_error(connection, OSError("broken")),
        convert_error(connection, httpx2.ReadTimeout("silence")),
        convert_error(connection, httpx2.InvalidURL("no")),
        response_error(connection, 301, {"location": "https://other.test"}, b""),
        unreachable_error(connection, "no route"),
    ]
    assert [failure.message for failure in failures if shown not in failure.message] == []
    assert "canary" not in str(failures)


def test_credentials_in_an_invalid_address_are_never_shown() -> None:
    with pytest.raises(ProviderError, match=r"acme: \"https://\(hidden\)@acme.test:99999/v1\"") as caught:
        checked_address("acme", "https://me:canary@acme.test:99999/v1")
    assert "canary" not in caught.value.message
