"""The conversion of failures to `ProviderError`: HTTP responses, and error objects in a stream.

Errors are classified by the server's status, code and type, never by an SDK's class, so that all protocols and
compatible servers share one table. A message is one line without keys or HTML, and keeps the server's wording, because
limits are learned from it. Bodies are JSON in seven shapes, HTML, text or empty: OpenAI and Anthropic
(`error.message/type/code/param/details`), Google (`error.status/details`), Ollama (`error` is text), vLLM and Mistral
(flat), FastAPI (`detail`), OpenRouter (`error.metadata.raw`), Amazon (flat, `__type` or a header).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.connection import ConnectionOrigin, describe_key, is_command
from qcode.text.clean import single_spaced
from qcode.text.json import Json, JsonObject, object_in, objects_in, text_in
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.providers.rate_limits import Reset

# These patterns are strings, which the first error compiles, because most runs have no error.
_QUOTA = (
    r"(?i)insufficient[_ ](quota|balance|credit|fund)|billing|credit balance|spend_limit|spending limit|out of credits"
    r"|payment required|exceeded your current quota|quota_exceeded|too many tokens per day"
)
_CONTEXT = (
    r"(?i)context[_ ](length|size|window|limit)|maximum context|model_max_prompt_tokens|max_seq_len|prompt is too long"
    r"|(input|prompt) (token count|length|tokens?)\b.{0,80}\bexceed|exceeds? the (maximum|max) number of tokens"
    r"|too many (input )?tokens|reduce the length of|request_too_large|input is too long"
)
_MODEL = lazy_pattern(r"\bmodels?\b|\bdeployment\b", re.IGNORECASE)
_UNKNOWN_NAME = (
    r"(?i)model_not_found|(does not|doesn't|not) exist|not[ _]found|is not a valid model|unknown model|invalid model"
    r"|model identifier is invalid|not supported"
)
_BAD_KEY = r"(?i)api[_ ]key[_ ](not valid|invalid|expired)|invalid[_ ]api[_ ]key|API_KEY_INVALID"
_OVERLOAD = lazy_pattern(r"overload|over capacity|at capacity|insufficient_system_resource", re.IGNORECASE)
_REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid")
_KEY_SHAPES = (
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\b(?:sk|gsk|xai|pplx|nvapi|hf|r8|tgp)[-_][A-Za-z0-9*._-]{6,}"
    r"|\bAIza[A-Za-z0-9_*-]{10,}"
)

_BY_TYPE: Mapping[str, ErrorKind] = {
    "overloaded_error": ErrorKind.OVERLOADED,
    "unavailable": ErrorKind.OVERLOADED,
    "rate_limit_error": ErrorKind.RATE_LIMIT,
    "rate_limit_exceeded": ErrorKind.RATE_LIMIT,
    "resource_exhausted": ErrorKind.RATE_LIMIT,
    "requests": ErrorKind.RATE_LIMIT,
    "usage_limit_reached": ErrorKind.RATE_LIMIT,
    "tokens": ErrorKind.RATE_LIMIT,
    "authentication_error": ErrorKind.AUTH,
    "permission_error": ErrorKind.AUTH,
    "permission_denied": ErrorKind.AUTH,
    "unauthenticated": ErrorKind.AUTH,
    "billing_error": ErrorKind.QUOTA,
    "insufficient_quota": ErrorKind.QUOTA,
    "invalid_request_error": ErrorKind.BAD_REQUEST,
    "badrequesterror": ErrorKind.BAD_REQUEST,
    "invalid_argument": ErrorKind.BAD_REQUEST,
    "failed_precondition": ErrorKind.BAD_REQUEST,
    "not_found_error": ErrorKind.UNKNOWN_MODEL,
    "model_not_found": ErrorKind.UNKNOWN_MODEL,
    "not_found": ErrorKind.UNKNOWN_MODEL,
}
_BY_AWS_TYPE: Mapping[str, ErrorKind] = {
    "throttlingexception": ErrorKind.RATE_LIMIT,
    "toomanyrequestsexception": ErrorKind.RATE_LIMIT,
    "serviceunavailableexception": ErrorKind.OVERLOADED,
    "modelnotreadyexception": ErrorKind.OVERLOADED,
    "internalserverexception": ErrorKind.SERVER,
    "internalfailure": ErrorKind.SERVER,
    "modelerrorexception": ErrorKind.SERVER,
    "modelstreamerrorexception": ErrorKind.SERVER,
    "modeltimeoutexception": ErrorKind.SERVER,
    "servicequotaexceededexception": ErrorKind.QUOTA,
    "accessdeniedexception": ErrorKind.AUTH,
    "expiredtokenexception": ErrorKind.AUTH,
    "incompletesignature": ErrorKind.AUTH,
    "invalidclienttokenid": ErrorKind.AUTH,
    "invalidsignatureexception": ErrorKind.AUTH,
    "missingauthenticationtokenexception": ErrorKind.AUTH,
    "unrecognizedclientexception": ErrorKind.AUTH,
    "validationexception": ErrorKind.BAD_REQUEST,
    "resourcenotfoundexception": ErrorKind.UNKNOWN_MODEL,
}
"""Amazon's error names that are more precise than the status (API reference, "Common Errors" and Converse)."""


def error_of_response(
    origin: ConnectionOrigin, status: int, headers: Mapping[str, str], content: bytes, *, now: datetime
) -> ProviderError:
    """Convert a response with a status other than 2xx. `now` has a time zone."""
    body = read_body(status, content)
    if not body.type and (aws_type := headers.get("x-amzn-errortype", "")):
        body = replace(body, type=aws_type.partition(":")[0])
    kind = _kind_of_status(status, body)
    reset = _reset(kind, headers, body, now)
    return ProviderError(
        kind,
        _error_message(origin, kind, body.message, status),
        status=status,
        retry_after=reset.after,
        resets_at=reset.at,
        period=reset.period,
        may_retry=headers.get("x-should-retry", "").lower() != "false",
        request_id=_request_id(headers) or body.request_id or None,
        code=body.code or body.type or None,
        param=body.param or None,
    )


def _request_id(headers: Mapping[str, str]) -> str:
    """Return the id of the request in the headers of its response, empty if they have none."""
    return next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")


def error_of_stream(data: JsonObject) -> ProviderError:
    """Convert an error object in a stream with status 200, by its type; an unknown type counts as a server error."""
    body = read_object(data)
    kind = _kind_of_type(body)
    if kind is None and body.status is not None and body.status >= 400:
        kind = _kind_of_status(body.status, body)
    kind = kind or ErrorKind.SERVER
    reset = _reset(kind, {}, body, datetime.now(UTC))
    return ProviderError(
        kind,
        body.message,
        status=body.status,
        retry_after=reset.after,
        resets_at=reset.at,
        period=reset.period,
        request_id=body.request_id or None,
        code=body.code or body.type or None,
        param=body.param or None,
    )


def with_origin(error: ProviderError, origin: ConnectionOrigin) -> ProviderError:
    """Return a copy of an error, with the provider's name added to its message and the key removed from it."""
    return ProviderError(
        error.kind,
        _error_message(origin, error.kind, error.message, error.status),
        status=error.status,
        retry_after=error.retry_after,
        resets_at=error.resets_at,
        period=error.period,
        may_retry=error.may_retry,
        request_id=error.request_id,
        code=error.code,
        param=error.param,
    )


def _reset(kind: ErrorKind, headers: Mapping[str, str], body: ErrorBody, now: datetime) -> Reset:
    from qcode.providers.rate_limits import read_reset, read_retry_after

    if kind is ErrorKind.RATE_LIMIT:
        return read_reset(headers, body.error, body.message, body.quota_ids, now=now)
    return read_retry_after(headers, body.error, now=now)


def redact(text: str, key: str) -> str:
    """Remove `key`, and everything else that looks like a key, from `text`."""
    if len(key) >= 4:
        text = text.replace(key, "***")
    return re.sub(_KEY_SHAPES, "***", text)


def _kind_of_status(status: int, body: ErrorBody) -> ErrorKind:
    """Return the kind of an error by its status, and by its type and message."""
    if (kind := _kind_of_aws_type(body)) is not None:
        return kind
    if status in (401, 403):
        return ErrorKind.QUOTA if _is_quota(body) else ErrorKind.AUTH
    if status == 402:
        return ErrorKind.QUOTA
    if status == 429:
        return ErrorKind.QUOTA if _is_quota(body) else ErrorKind.RATE_LIMIT
    if status == 529:
        return ErrorKind.OVERLOADED
    if status in (408, 409) or status >= 500:
        return ErrorKind.OVERLOADED if _OVERLOAD.search(body.all_text) else ErrorKind.SERVER
    if status == 413:
        return ErrorKind.CONTEXT_OVERFLOW
    if status == 404:
        return ErrorKind.UNKNOWN_MODEL if _MODEL.search(body.all_text) else ErrorKind.BAD_REQUEST
    if status < 400:
        return ErrorKind.BAD_RESPONSE
    return _kind_of_bad_request(body)


def _kind_of_bad_request(body: ErrorBody) -> ErrorKind:
    """Return the kind of an error with status 400, or with a type that means the same."""
    if re.search(_BAD_KEY, body.all_text):
        return ErrorKind.AUTH
    if _is_quota(body):
        return ErrorKind.QUOTA
    if re.search(_CONTEXT, body.all_text):
        return ErrorKind.CONTEXT_OVERFLOW
    if body.code == "model_not_found" or (body.param in ("", "model") and _is_about_unknown_model(body.message)):
        return ErrorKind.UNKNOWN_MODEL
    return ErrorKind.BAD_REQUEST


def _is_about_unknown_model(message: str) -> bool:
    match = re.search(r"\bmodel\b", message, re.IGNORECASE)
    if match is None or not re.search(_UNKNOWN_NAME, message):
        return False
    # "temperature is not supported with this model" is about a parameter. An unknown model is named at the start.
    names_model_first = match.start() < 20
    return names_model_first or "not supported" not in message.lower()


def _kind_of_aws_type(body: ErrorBody) -> ErrorKind | None:
    """Return the kind of an error with one of Amazon's names, None for any other."""
    kind = _BY_AWS_TYPE.get(body.type.lower())
    if kind is not None and _is_quota(body):
        return ErrorKind.QUOTA
    return _kind_of_bad_request(body) if kind is ErrorKind.BAD_REQUEST else kind


def _kind_of_type(body: ErrorBody) -> ErrorKind | None:
    """Return the kind of an error by its type, code and message; None if they do not determine it."""
    if _is_quota(body):
        return ErrorKind.QUOTA
    if (kind := _kind_of_aws_type(body)) is not None:
        return kind
    for word in (body.type, body.code):
        kind = _BY_TYPE.get(word.lower())
        if kind is ErrorKind.BAD_REQUEST:
            return _kind_of_bad_request(body)
        if kind is not None:
            return kind
    if _OVERLOAD.search(body.all_text):
        return ErrorKind.OVERLOADED
    return ErrorKind.CONTEXT_OVERFLOW if re.search(_CONTEXT, body.all_text) else None


def _is_quota(body: ErrorBody) -> bool:
    """Return whether the account has no quota left, as opposed to a rate limit that ends by itself.

    Gemini mentions plan and billing in messages about its limits per minute and per day too. An error with the time at
    which a limit ends is a rate limit, whatever its message is.
    """
    if body.quota_ids or body.type.upper() == "RESOURCE_EXHAUSTED" or body.has_reset_time:
        return False
    return re.search(_QUOTA, body.all_text) is not None


def _error_message(origin: ConnectionOrigin, kind: ErrorKind, message: str, status: int | None) -> str:
    """Return the line for the user: the provider, the server's message, and what to do about a refused key."""
    text = redact(single_spaced(message, MAX_MESSAGE_CHARS), origin.key) or "no reason given"
    match kind:
        case ErrorKind.AUTH:
            if not origin.key and origin.sign_in:
                return f"{origin.provider} refused the credentials: {text.rstrip('.')}; {origin.sign_in}"
            if not origin.key:
                command = f"qcode auth login {origin.provider}"
                hint = f"store one with {command}, or set api_key_env in the config to the variable that holds it"
                return f"{origin.provider} requires a key: {text.rstrip('.')}; {hint}"
            verb = "store" if is_command(origin.key_source) else "set"
            return (
                f"{origin.provider} refused {describe_key(origin.key_source)}: {text.rstrip('.')}; {verb} a valid one"
            )
        case ErrorKind.BAD_REQUEST | ErrorKind.CONTEXT_OVERFLOW | ErrorKind.UNKNOWN_MODEL:
            # Without the status, because limits are learned from the numbers in this line.
            hint = _address_hint(origin) if status == 404 and kind is ErrorKind.BAD_REQUEST else ""
            return f"{origin.provider} refused the request: {text}{hint}"
        case ErrorKind.BAD_RESPONSE if status == 200:
            return f"{origin.provider}: {text}{_address_hint(origin)}"
        case _ if status is not None and status >= 400:
            return f"{origin.provider}: {text} ({status})"
        case _:
            return f"{origin.provider}: {text}"


def _address_hint(origin: ConnectionOrigin) -> str:
    """Return a hint for a server that does not know the path of the request: the address may be wrong."""
    if not origin.base_url_source or not origin.base_url:
        return ""
    given = origin.shown_address.rstrip("/")
    address = re.sub(r"/(chat/completions|responses|messages|models)$", "", given)
    has_version = re.search(r"/v\d{1,9}(?:[a-z]{1,9}\d{0,9})?$", address) is not None
    if address != given:
        return f"; the address from {origin.base_url_source} names an operation: try {address}"
    if origin.expects_version and not has_version:
        return f"; the address from {origin.base_url_source} may lack a version: try {address}/v1"
    return f"; check the address {address} from {origin.base_url_source}"


def is_error_object(data: Mapping[str, Json]) -> bool:
    """Return whether an object of a stream is an error: it has an `error`, or `"object": "error"` (vLLM, Mistral)."""
    return bool(data.get("error")) or data.get("object") == "error"


MAX_MESSAGE_CHARS = 600
"""The maximum length of a server's message in an error, in characters."""

_TITLE = lazy_pattern(r"<title[^<>]{0,500}>(.{0,2000}?)</title>", re.IGNORECASE | re.DOTALL)
_HEADING = lazy_pattern(r"<h1[^<>]{0,500}>(.{0,2000}?)</h1>", re.IGNORECASE | re.DOTALL)
_TAG = lazy_pattern(r"<[^<>]+>")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The parsed error in a response; a field that the response lacks is empty."""

    message: str
    """One line, never empty."""
    type: str = ""
    code: str = ""
    param: str = ""
    status: int | None = None
    request_id: str = ""
    error: JsonObject = field(default_factory=dict)
    """The error object as the server sent it."""
    quota_ids: tuple[str, ...] = ()
    """The limits that Gemini names as exceeded."""

    @property
    def has_reset_time(self) -> bool:
        """Whether the error contains the time at which a limit ends."""
        if any(key in self.error for key in ("resets_at", "resets_in_seconds", "retry_after_seconds")):
            return True
        return any("retryDelay" in detail for detail in objects_in(self.error.get("details")))

    @property
    def all_text(self) -> str:
        """The type, code and message, which the patterns search."""
        return f"{self.type} {self.code} {self.message}"


def read_body(status: int, content: bytes) -> ErrorBody:
    """Parse the body of a response with an error status."""
    text = content[:65_536].decode("utf-8", "replace").strip()
    if text.count("\ufffd") > len(text) // 10:
        return ErrorBody(_status_line(status) + f": returned {len(content):,} bytes that are not text")
    try:
        body: Json = json.loads(text)
    except (ValueError, RecursionError):
        return ErrorBody(_text_line(status, text) if text else _status_line(status))
    if isinstance(body, list):
        body = next(iter(objects_in(body)), None)
    if isinstance(body, dict):
        return read_object(body, status)
    message = single_spaced(body, MAX_MESSAGE_CHARS) if isinstance(body, str) else ""
    return ErrorBody(message or _status_line(status))


def read_object(data: JsonObject, status: int | None = None) -> ErrorBody:
    """Parse an error object from a response body or a stream event."""
    inner = data.get("error")
    error = inner if isinstance(inner, dict) else data
    details = objects_in(error.get("details"))
    message = (
        text_in(inner)
        or text_in(error.get("message"))
        or _detail(data)
        or text_in(error.get("msg"))
        or text_in(error.get("Message"))
    )
    raw = text_in(object_in(error.get("metadata")).get("raw"))
    if raw:
        message = f"{message}: {raw}" if message else raw
    code = error.get("code")
    error_code = next((text_in(detail.get("error_code")) for detail in details if detail.get("error_code")), "")
    reason = next((text_in(detail.get("reason")) for detail in details if detail.get("reason")), "")
    return ErrorBody(
        single_spaced(message, MAX_MESSAGE_CHARS) or _status_line(status or _http_status(code)),
        type=text_in(error.get("type")) or text_in(error.get("status")) or _shape_name(error.get("__type")),
        code=error_code or reason or text_in(code),
        param=text_in(error.get("param")),
        status=status if status is not None else _http_status(code),
        request_id=text_in(data.get("request_id")),
        error=error,
        quota_ids=_quota_ids(details),
    )


def page_title(text: str) -> str:
    """Return the title or first heading of an HTML page, empty if it has none."""
    # The import loads a table of thousands of names, which few runs need.
    from html import unescape

    for pattern in (_TITLE, _HEADING):
        match = pattern.search(text)
        if match and (title := single_spaced(unescape(_TAG.sub(" ", match.group(1))), MAX_MESSAGE_CHARS)):
            return title
    return ""


def is_html_page(text: str) -> bool:
    """Return whether `text` is an HTML page, by its beginning."""
    head = text[:512].lstrip("\ufeff \t\r\n").lower()
    return head.startswith(("<!doctype", "<html", "<head", "<body", "<?xml", "<h1", "<title"))


def _text_line(status: int, text: str) -> str:
    """Return a body that is not JSON as one line; of a web page only the title."""
    if not is_html_page(text):
        return single_spaced(text, MAX_MESSAGE_CHARS)
    title = page_title(text)
    return (
        f'the server returned a web page ("{title}")' if title else f"the server returned a web page, status {status}"
    )


def _status_line(status: int | None) -> str:
    """Return the standard phrase of an HTTP status, such as `Bad Gateway`."""
    if status is None:
        return "no reason given"
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _detail(data: JsonObject) -> str:
    """Return FastAPI's `detail`, which is text or a list of `{loc, msg}`."""
    detail = data.get("detail")
    if isinstance(detail, str):
        return detail
    lines: list[str] = []
    for item in objects_in(detail):
        location = item.get("loc")
        steps = location if isinstance(location, list) else []
        parameter = ".".join(str(step) for step in steps if step != "body")
        message = text_in(item.get("msg"))
        lines.append(f"{parameter}: {message}" if parameter else message)
    return "; ".join(line for line in lines if line)


def _quota_ids(details: list[JsonObject]) -> tuple[str, ...]:
    """Return the exceeded limits of a google.rpc.QuotaFailure."""
    return tuple(
        text_in(violation.get("quotaId"))
        for detail in details
        for violation in objects_in(detail.get("violations"))
        if violation.get("quotaId")
    )


def _http_status(code: Json) -> int | None:
    """Return a `code` that is an HTTP status, None for any other."""
    return code if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600 else None


def _shape_name(value: Json) -> str:
    """Return the last part of an Amazon shape such as `com.amazon.coral.service#ThrottlingException`."""
    return text_in(value).rpartition("#")[2]
