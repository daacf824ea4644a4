"""Exceptions of Amazon's SDK, by name: their kind, and the advice in their message."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from typing import Any

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.bedrock.client import SIGN_IN, from_sdk_error
from qcode.providers.connection import ConnectionOrigin

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ORIGIN = ConnectionOrigin("bedrock", sign_in=SIGN_IN)

_FIELDS: dict[str, Any] = {
    "provider": "sso",
    "error_msg": "it has expired",
    "cred_var": "AWS_SECRET_ACCESS_KEY",
    "profile": "work",
    "region_name": "nowhere!",
    "endpoint_url": "https://x.test",
    "proxy_url": "http://p.test",
    "error": "broke",
    "report": "Invalid length\nfor modelId",
    "msg": "no such region",
    "path": "/x",
}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("NoCredentialsError", ErrorKind.NO_CREDENTIAL, "AWS_ACCESS_KEY_ID"),
        ("NoCredentialsError", ErrorKind.NO_CREDENTIAL, "AWS_PROFILE"),
        ("NoAuthTokenError", ErrorKind.NO_CREDENTIAL, "AWS_BEARER_TOKEN_BEDROCK"),
        ("PartialCredentialsError", ErrorKind.NO_CREDENTIAL, "AWS_SECRET_ACCESS_KEY"),
        ("ProfileNotFound", ErrorKind.NO_CREDENTIAL, "(work)"),
        ("CredentialRetrievalError", ErrorKind.AUTH, "it has expired"),
        ("TokenRetrievalError", ErrorKind.AUTH, "it has expired"),
        ("UnauthorizedSSOTokenError", ErrorKind.AUTH, "SSO"),
        ("SSOTokenLoadError", ErrorKind.AUTH, "it has expired"),
        ("NoRegionError", ErrorKind.BAD_REQUEST, "AWS_REGION"),
        ("InvalidRegionError", ErrorKind.BAD_REQUEST, "nowhere!"),
        ("ParamValidationError", ErrorKind.BAD_REQUEST, "Invalid length for modelId"),
        ("EndpointConnectionError", ErrorKind.UNREACHABLE, "https://x.test"),
        ("ConnectTimeoutError", ErrorKind.UNREACHABLE, "https://x.test"),
        ("ProxyConnectionError", ErrorKind.UNREACHABLE, "http://p.test"),
        ("SSLError", ErrorKind.UNREACHABLE, "https://x.test"),
        ("ReadTimeoutError", ErrorKind.TIMEOUT, "https://x.test"),
        ("ConnectionClosedError", ErrorKind.CONNECTION, "https://x.test"),
        ("EndpointResolutionError", ErrorKind.UNREACHABLE, "no such region"),
        ("ConfigNotFound", ErrorKind.INTERNAL, "/x"),
    ],
)
def test_exception_is_classified_by_its_name(name: str, kind: ErrorKind, message: str) -> None:
    exceptions = importlib.import_module("botocore.exceptions")
    error = from_sdk_error(ORIGIN, getattr(exceptions, name)(**_FIELDS), now=NOW)
    assert error is not None
    assert error.kind is kind
    assert message in error.message
    assert error.message.startswith("bedrock")
    assert "\n" not in error.message


def test_exception_is_classified_without_the_sdk() -> None:
    base = type("BotoCoreError", (Exception,), {})
    error = from_sdk_error(ORIGIN, type("NoCredentialsError", (base,), {})("Unable to locate credentials"), now=NOW)
    assert error is not None
    assert (error.kind, error.message) == (
        ErrorKind.NO_CREDENTIAL,
        "bedrock: Unable to locate credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
        "or AWS_BEARER_TOKEN_BEDROCK",
    )


def test_unrelated_exception_is_not_converted() -> None:
    assert from_sdk_error(ORIGIN, ValueError("x"), now=NOW) is None


def refused(code: str, message: str, status: int, **headers: str) -> ProviderError:
    error = Exception(message)
    error.response = {  # type: ignore[attr-defined]  # as botocore's ClientError carries it
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers, "RequestId": "req-1"},
    }
    found = from_sdk_error(ORIGIN, error, now=NOW)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("code", "status", "message", "kind"),
    [
        ("ThrottlingException", 429, "Too many requests, please wait", ErrorKind.RATE_LIMIT),
        ("ThrottlingException", 400, "Rate exceeded", ErrorKind.RATE_LIMIT),
        ("ThrottlingException", 429, "Too many tokens per day, please wait", ErrorKind.QUOTA),
        ("ServiceQuotaExceededException", 400, "Your quota is used up", ErrorKind.QUOTA),
        ("ModelNotReadyException", 429, "The model is not ready", ErrorKind.OVERLOADED),
        ("ServiceUnavailableException", 503, "Try again", ErrorKind.OVERLOADED),
        ("InternalServerException", 500, "Oops", ErrorKind.SERVER),
        ("ModelTimeoutException", 408, "It took too long", ErrorKind.SERVER),
        ("ModelErrorException", 424, "The model failed", ErrorKind.SERVER),
        ("ValidationException", 400, "messages: blank text", ErrorKind.BAD_REQUEST),
        ("ValidationException", 400, "Input is too long for requested model.", ErrorKind.CONTEXT_OVERFLOW),
        ("ValidationException", 400, "The provided model identifier is invalid.", ErrorKind.UNKNOWN_MODEL),
        ("ResourceNotFoundException", 404, "Could not resolve the foundation model", ErrorKind.UNKNOWN_MODEL),
        ("AccessDeniedException", 403, "You don't have access to the model", ErrorKind.AUTH),
        ("UnrecognizedClientException", 403, "The security token is invalid", ErrorKind.AUTH),
        ("ExpiredTokenException", 400, "The security token has expired", ErrorKind.AUTH),
        ("SomethingNew", 502, "?", ErrorKind.SERVER),
    ],
)
def test_response_read_by_the_sdk_is_classified_like_any_other(
    code: str, status: int, message: str, kind: ErrorKind
) -> None:
    error = refused(code, message, status)
    assert (error.kind, error.status, error.code, error.request_id) == (kind, status, code, "req-1")
    assert message.rstrip(".") in error.message


def test_refused_credentials_error_says_which_settings_to_check() -> None:
    error = refused("AccessDeniedException", "You don't have access to the model.", 403)
    assert error.message == (
        "bedrock refused the credentials: You don't have access to the model; check AWS_PROFILE or AWS_ACCESS_KEY_ID, "
        "and that your account has access to the model"
    )


def test_requested_wait_is_kept() -> None:
    assert refused("ThrottlingException", "slow", 429, **{"retry-after": "7"}).retry_after == 7
