"""The one error of the provider room, and its kinds.

ProviderError
    kind        what to do about it
    message     one line for a person: no key, no page of HTML, no traceback
    status      HTTP status, where there was one
    retry_after seconds the server asked to wait
    request_id  the server's id of the request
    code, param the server's own error code and the parameter it names
"""

from __future__ import annotations

from enum import StrEnum

from qcode.protocol.values import dataclass


class ErrorKind(StrEnum):
    """What a failure means for the turn. `is_transient` ones are worth the same request again."""

    NO_CREDENTIAL = "no_credential"
    AUTH = "auth"
    UNKNOWN_MODEL = "unknown_model"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER = "server"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    UNREACHABLE = "unreachable"
    BAD_RESPONSE = "bad_response"
    STRUCTURED_OUTPUT = "structured_output"
    INTERNAL = "internal"

    @property
    def is_transient(self) -> bool:
        return self in _TRANSIENT


_TRANSIENT = frozenset(
    {
        ErrorKind.RATE_LIMIT,
        ErrorKind.OVERLOADED,
        ErrorKind.SERVER,
        ErrorKind.TIMEOUT,
        ErrorKind.CONNECTION,
        ErrorKind.UNREACHABLE,
    }
)


class ProviderError(Exception):
    """A request failed, or a stream broke. Raised by providers only; the driver turns it into `ReplyFailed`."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.code = code
        self.param = param


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A failure as a front end and a session file see it. `retry_after` is in seconds, where the server said it."""

    kind: str
    message: str
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
