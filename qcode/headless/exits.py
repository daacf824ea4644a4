"""How a turn ended, as an exit code and as the `subtype` of the result. Pure tables; scripts rely on them."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import TurnEnded
from qcode.protocol.stops import Limit, Outcome

OK = 0
FAILED = 1
WRONG_USAGE = 2
NO_CREDENTIAL = 41
BAD_INPUT = 42
BAD_CONFIG = 52
LIMIT_REACHED = 53
DENIED = 55
INCOMPLETE = 56
REFUSED = 57
TRANSIENT = 75
INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143

_BY_OUTCOME: Mapping[Outcome, int] = {
    Outcome.END_TURN: OK,
    Outcome.MAX_TOKENS: INCOMPLETE,
    Outcome.MAX_TURN_REQUESTS: LIMIT_REACHED,
    Outcome.REFUSAL: REFUSED,
    Outcome.CANCELLED: INTERRUPTED,
}
# Kinds that are not listed are plain failures. The last three are found before a request is made.
_BY_KIND: Mapping[str, int] = {
    ErrorKind.NO_CREDENTIAL: NO_CREDENTIAL,
    ErrorKind.AUTH: NO_CREDENTIAL,
    ErrorKind.CONTEXT_OVERFLOW: BAD_INPUT,
    **{kind: TRANSIENT for kind in ErrorKind if kind.is_transient},
    "bad_input": BAD_INPUT,
    "bad_config": BAD_CONFIG,
    "usage": WRONG_USAGE,
}
_SUBTYPES: Mapping[Outcome, str] = {
    Outcome.MAX_TOKENS: "error_max_tokens",
    Outcome.REFUSAL: "error_refusal",
    Outcome.CANCELLED: "error_cancelled",
    Outcome.ERROR: "error_during_execution",
}
_LIMIT_SUBTYPES: Mapping[Limit | None, str] = {
    None: "error_max_turns",
    Limit.TURNS: "error_max_turns",
    Limit.TOOL_CALLS: "error_max_tool_calls",
    Limit.COST: "error_max_budget_usd",
}


def exit_code(ended: TurnEnded) -> int:
    """Return the exit code of a turn that ended so; a cancelled turn counts as interrupted (130)."""
    if ended.outcome is Outcome.ERROR:
        return _error_code(ended)
    if is_denied(ended):
        return DENIED
    return _BY_OUTCOME[ended.outcome]


def is_denied(ended: TurnEnded) -> bool:
    """Whether the turn came to its end on denials alone, with no answer."""
    return ended.outcome is Outcome.END_TURN and bool(ended.denials) and not ended.is_answered


def subtype(ended: TurnEnded) -> str:
    """Return the `subtype` of the result: `success` exactly where the exit code is 0."""
    if is_denied(ended):
        return "error_during_execution"
    if ended.outcome is Outcome.MAX_TURN_REQUESTS:
        return _LIMIT_SUBTYPES[ended.limit]
    if ended.error is not None and ended.error.kind == ErrorKind.STRUCTURED_OUTPUT:
        return "error_max_structured_output_retries"
    return _SUBTYPES.get(ended.outcome, "success")


def reported_error(ended: TurnEnded) -> ErrorInfo | None:
    """Return what the result names as its error: the turn's own, or that everything was denied."""
    if ended.error is None and is_denied(ended):
        return ErrorInfo("denied", "the turn ended on denied calls, without an answer")
    return ended.error


def signal_code(number: int) -> int:
    """Return the exit code after a signal: 130 for Ctrl+C, 143 for any other request to stop."""
    return INTERRUPTED if number == signal.SIGINT else TERMINATED


def _error_code(ended: TurnEnded) -> int:
    kind = ended.error.kind if ended.error else ""
    if kind == ErrorKind.CONTEXT_OVERFLOW and ended.text:
        return INCOMPLETE
    return _BY_KIND.get(kind, FAILED)
