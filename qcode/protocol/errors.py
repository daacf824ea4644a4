"""Errors with a message for the user and an exit code, and failures of providers with their kinds.

The text of a `QcodeError` is one line for the user: the program prints it and returns its exit code, and a front end
shows it. A `ProviderError` is a failed request, which the driver turns into an event. Other exceptions are bugs.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Literal, TypeAlias, TypeVar

from qcode.values import dataclass

LimitPeriod: TypeAlias = Literal["", "minute", "day", "plan"]
"""The period of a rate limit, empty if unknown. `plan`: a subscription with limits over hours, weeks or months."""


class ErrorKind(StrEnum):
    """The kind of a failure."""

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
    TLS = "tls"
    """The certificate of the host is not trusted, or the file of CA certificates cannot be read."""
    BAD_RESPONSE = "bad_response"
    STRUCTURED_OUTPUT = "structured_output"
    REPETITION = "repetition"
    """The model repeated itself endlessly."""
    UNREADABLE_CALL = "unreadable_call"
    """The model kept writing calls that cannot be parsed."""
    TOOL_FAILURE = "tool_failure"
    """The model kept making calls that can never run."""
    BUDGET = "budget"
    """A limit on the turns, tool calls, cost or time of the prompt was reached."""
    PROMPT_BLOCKED = "prompt_blocked"
    """A hook blocked the prompt."""
    INTERNAL = "internal"

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
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


_ErrorT = TypeVar("_ErrorT", bound=BaseException)


def _restore_error(cls: type[_ErrorT], args: tuple[object, ...], fields: dict[str, object]) -> _ErrorT:
    """Return an unpickled error without calling its constructor. Programs pass errors between processes."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class ProviderError(Exception):
    """A request failed, or its stream broke. Only providers raise it; the driver turns it into `ReplyFailed`."""

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
        resets_at: int | None = None,
        period: LimitPeriod = "",
        may_retry: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        """One line for the user, without keys, HTML or tracebacks."""
        self.status = status
        """The HTTP status, None if there was no response."""
        self.retry_after = retry_after
        """The wait in seconds that the server asks for."""
        self.request_id = request_id
        """The server's id of the request."""
        self.code = code
        """The server's error code."""
        self.param = param
        """The parameter that the server rejected."""
        self.resets_at = resets_at
        """The end of the rate limit in seconds since 1970, if the server names it."""
        self.period = period
        """The period of the rate limit."""
        self.may_retry = may_retry
        """False if the server forbids another attempt."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)

    @property
    def info(self) -> ErrorInfo:
        """The error as front ends and session files see it."""
        return ErrorInfo(
            kind=self.kind,
            message=self.message,
            status=self.status,
            request_id=self.request_id,
            retry_after=self.retry_after,
            resets_at=self.resets_at,
            period=self.period,
        )


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A failure as front ends and session files see it. See `ProviderError` for the fields that both have."""

    kind: str
    """An `ErrorKind`, or a kind that only a `QcodeError` has, such as `usage`."""
    message: str
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    resets_at: int | None = None
    period: LimitPeriod = ""
    wait_refusal: str = ""
    """The reason why qcode did not wait for the end of the limit, although the settings ask for it; otherwise empty."""
    limited_model: str = ""
    """The model whose limit ends at `resets_at`, empty if it is the model that failed."""


class ExitCode(IntEnum):
    """Exit codes of the program. Scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_CREDENTIAL = 41
    BAD_INPUT = 42
    BAD_CONFIG = 52
    LIMIT_REACHED = 53
    DENIED = 55
    """Calls were denied, and the turn ended without an answer."""
    INCOMPLETE = 56
    """The answer is still truncated after the recovery."""
    REFUSED = 57
    TRANSIENT = 75
    """A failure after which the same command may succeed."""
    INTERRUPTED = 130
    """Ctrl+C, or Ctrl+D at a question of the command line."""
    READER_GONE = 141
    """The reader of standard output closed the pipe."""
    TERMINATED = 143
    """SIGTERM."""


_KINDS_BY_EXIT_CODE = {
    ExitCode.USAGE: "usage",
    ExitCode.NO_CREDENTIAL: str(ErrorKind.NO_CREDENTIAL),
    ExitCode.BAD_INPUT: "bad_input",
    ExitCode.BAD_CONFIG: "bad_config",
    ExitCode.LIMIT_REACHED: str(ErrorKind.BUDGET),
}


class QcodeError(Exception):
    """An operation failed. The text is one line for the user."""

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, text: str, exit_code: ExitCode | None = None) -> None:
        super().__init__(text)
        if exit_code is not None:
            self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)

    @property
    def info(self) -> ErrorInfo:
        """The error as the field `error` of a result."""
        return ErrorInfo(_KINDS_BY_EXIT_CODE.get(self.exit_code, str(ErrorKind.INTERNAL)), " ".join(str(self).split()))


class ConfigError(QcodeError):
    """A setting is invalid. The text is one line for the user and never contains a configured value.

    It begins with the path `file` and the `line` (counted from 1), if they are known.
    """

    exit_code: ExitCode = ExitCode.BAD_CONFIG

    def __init__(self, message: str, *, file: object | None = None, line: int | None = None) -> None:
        location = ""
        if file is not None:
            location = f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(" ".join((location + message).split("\n")))


class UsageError(QcodeError):
    """An option has an invalid value, or a name cannot be resolved."""

    exit_code: ExitCode = ExitCode.USAGE


class InputError(QcodeError):
    """An input cannot be used: a file, an image, standard input."""

    exit_code: ExitCode = ExitCode.BAD_INPUT


class CredentialError(QcodeError):
    """There is no key for the model."""

    exit_code: ExitCode = ExitCode.NO_CREDENTIAL


class KeyStoreError(QcodeError):
    """The key file cannot be used; the text never contains a key."""


class KeyringError(QcodeError):
    """The system keyring cannot be used; the text completes the sentence "the keyring …"."""


class SessionError(InputError):
    """A session cannot be used."""


class SessionNotFound(SessionError):  # noqa: N818  # named for what happened
    """No session matches the id, or several do."""


class SessionBusy(SessionError):  # noqa: N818  # named for what happened
    """Another process writes to the session."""

    def __init__(self, text: str, session_id: str = "", holder: int = 0) -> None:
        super().__init__(text)
        self.session_id = session_id
        self.holder = holder
        """The id of the process that writes to it, 0 if unknown."""
