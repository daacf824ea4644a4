"""The result of a turn for a Python program, and the errors for turns without a complete answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Generic, TypeVar

from qcode.agent.outcomes import exit_code
from qcode.protocol.errors import ErrorInfo, ErrorKind, ExitCode, QcodeError
from qcode.protocol.events import ApiCalls, Denial, Signal, TurnEnded
from qcode.protocol.reply import Limit, Outcome, StopReason
from qcode.protocol.usage import Usage
from qcode.text.diff import FileDiff
from qcode.values import dataclass

OutputT = TypeVar("OutputT")


@dataclass(frozen=True, slots=True)
class Result(Generic[OutputT]):
    """The result of a turn."""

    text: str
    """The last reply, even if it is incomplete."""
    output: OutputT
    """The answer as the requested type; None if no type was requested or the answer is incomplete."""
    outcome: Outcome
    stop: StopReason | None
    """The stop reason of the last reply."""
    raw_stop: str
    """The provider's name for `stop`."""
    usage: Usage
    cost: Decimal | None
    """In USD; None if a price is unknown."""
    api_calls: ApiCalls
    discarded_output_tokens: int
    """The output tokens of attempts whose text was discarded."""
    denials: tuple[Denial, ...]
    signals: tuple[Signal, ...]
    changes: tuple[FileDiff, ...]
    """The changes by file tools, not by commands."""
    session_id: str
    num_turns: int
    """The number of model replies."""
    duration: float
    """In seconds."""
    error: ErrorInfo | None = None


class TurnError(QcodeError):
    """A turn has no complete answer. `result` has everything that was received, including the incomplete text."""

    def __init__(self, text: str, result: Result[Any], exit_code: ExitCode | None = None) -> None:
        super().__init__(text, exit_code)
        self.result = result


class IncompleteError(TurnError):
    """The answer is still truncated at the output limit, after escalation and continuations."""

    exit_code: ExitCode = ExitCode.INCOMPLETE


class RefusedError(TurnError):
    """The model refused, or its reply was filtered."""

    exit_code: ExitCode = ExitCode.REFUSED


class LimitError(TurnError):
    """A limit of the turn was reached: `limit` names it."""

    exit_code: ExitCode = ExitCode.LIMIT_REACHED

    def __init__(self, text: str, result: Result[Any], limit: Limit) -> None:
        super().__init__(text, result)
        self.limit = limit


class DeniedError(TurnError):
    """The turn ended without an answer because calls were denied."""

    exit_code: ExitCode = ExitCode.DENIED


class SchemaError(TurnError):
    """No answer was valid under the requested type."""


class TurnCancelledError(TurnError):
    """The turn was cancelled."""

    exit_code: ExitCode = ExitCode.INTERRUPTED


class ModelError(TurnError):
    """A request to the model failed. If the error `is_transient`, the same turn may succeed later.

    `kind` is one of `ErrorKind`; `retry_after` is in seconds, if the server named it.
    """

    def __init__(self, text: str, result: Result[Any], exit_code: ExitCode, error: ErrorInfo) -> None:
        super().__init__(text, result, exit_code)
        self.kind: str = error.kind
        self.status: int | None = error.status
        self.request_id: str | None = error.request_id
        self.retry_after: float | None = error.retry_after
        self.is_transient: bool = exit_code is ExitCode.TRANSIENT


def raise_if_incomplete(ended: TurnEnded, note: str, result: Result[Any]) -> None:
    """Raise a `TurnError` with the text `note` if a turn has no complete answer."""
    if exit_code(ended) == ExitCode.OK:
        return
    match ended.outcome:
        case Outcome.MAX_TOKENS:
            raise IncompleteError(note, result)
        case Outcome.REFUSAL:
            raise RefusedError(note, result)
        case Outcome.MAX_TURN_REQUESTS:
            raise LimitError(note, result, ended.limit or Limit.TURNS)
        case Outcome.CANCELLED:
            raise TurnCancelledError(note, result)
        case Outcome.END_TURN:
            raise DeniedError(note, result)
        case Outcome.ERROR:
            error = ended.error or ErrorInfo(ErrorKind.INTERNAL, note)
            if error.kind == ErrorKind.STRUCTURED_OUTPUT:
                raise SchemaError(note, result)
            raise ModelError(note, result, exit_code(ended), error)
