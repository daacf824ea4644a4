"""What stderr says when a turn is over: why it fell short, and how what was denied could have run.

Pure. Each sentence is one line, says what happened, and where there is something to do, what.
"""

from __future__ import annotations

from qcode.headless.exits import is_denied
from qcode.protocol.events import TurnEnded
from qcode.protocol.stops import Limit, Outcome

NOBODY = "nobody can approve this call in a run that is not interactive, and no rule allows it; it was not run"
"""What the model is told of a call that needs an approval."""

NOBODY_ANSWERS = (
    "Nobody can answer here: this run is not interactive. Decide yourself what is most likely wanted, go on, and say "
    "in your answer what you assumed."
)
"""What the model is told that asks the person something."""

CHANGE_APPROACH = (
    "Not run: this same call has brought the same result several times in a row, and would again. Change the approach, "
    "or say in your answer what is in the way."
)
"""What the model is told that goes round in circles."""

_FLAGS = {Limit.TURNS: "--max-turns", Limit.TOOL_CALLS: "--max-tool-calls", Limit.COST: "--max-budget-usd"}


def shortfall(ended: TurnEnded, note: str) -> str:
    """Return why the turn fell short, empty where it did not. `note` is what its last reply said of itself."""
    match ended.outcome:
        case Outcome.ERROR:
            return _failure(ended)
        case Outcome.CANCELLED:
            return "interrupted; the text so far was kept" if ended.text else "interrupted before there was any text"
        case Outcome.MAX_TOKENS:
            return note or _still_cut(ended)
        case Outcome.REFUSAL:
            return note or f"the model refused, or its reply was filtered ({ended.raw_stop or 'no reason given'})"
        case Outcome.MAX_TURN_REQUESTS:
            return _limit(ended)
        case Outcome.END_TURN:
            return _denied(ended) if is_denied(ended) else ""


def denial_line(asked: int, flags: str, hopeless: int) -> str:
    """Return the last line of stderr after `asked` calls nobody could approve; it ends with the flags themselves.

    `hopeless` is how many of them no flag would have allowed.
    """
    if not asked:
        return ""
    calls = "1 call needed" if asked == 1 else f"{asked} calls needed"
    line = f"{calls} an approval that nobody could give here and did not run"
    if not flags:
        return f"{line}; no flag allows {'it' if asked == 1 else 'them'}, only a person in the app"
    if not hopeless:
        return f"{line}; to allow {'it' if asked == 1 else 'them'}: {flags}"
    return f"{line}; no flag allows {hopeless} of them, only a person in the app; to allow the rest: {flags}"


def summary(ended: TurnEnded) -> str:
    """Return what the turn took, in one line: requests by cause, tokens, money."""
    calls = ended.api_calls
    causes = {
        "initial": calls.initial,
        "escalation": calls.escalations,
        "continuation": calls.continuations,
        "repair": calls.repairs,
        "retry": calls.retries,
    }
    parts = " + ".join(_count(number, word) for word, number in causes.items() if number)
    text = f"{calls.total} API call{'' if calls.total == 1 else 's'}" + (f" ({parts})" if parts else "")
    for number, what in ((ended.usage.input, "in"), (ended.usage.output, "out")):
        if number is not None:
            text += f", {number:,} tokens {what}"
    if ended.discarded_output_tokens:
        text += f" ({ended.discarded_output_tokens:,} of them discarded)"
    return text + ("" if ended.cost is None else f", ${ended.cost:.4f}")


def _failure(ended: TurnEnded) -> str:
    error = ended.error
    if error is None:
        return "the turn failed without saying why"
    has_id = error.request_id and error.request_id not in error.message
    return error.message + (f" (request {error.request_id})" if has_id else "")


def _still_cut(ended: TurnEnded) -> str:
    tries = f"after {ended.api_calls.total} API calls" if ended.api_calls.total > 1 else "by the output limit"
    advice = "raise --max-output-tokens or --max-continuations, or ask for it in parts"
    return f"the answer is incomplete: still cut {tries}; {advice}"


def _denied(ended: TurnEnded) -> str:
    """Say why as far as a rule said so; that nobody could approve is told by the line about flags."""
    reasons = dict.fromkeys(denial.reason for denial in ended.denials if denial.reason and denial.reason != NOBODY)
    why = f": {next(iter(reasons))}" if reasons else ""
    return f"the turn ended on denied calls, without an answer{why}"


def _limit(ended: TurnEnded) -> str:
    flag = _FLAGS[ended.limit or Limit.TURNS]
    replies = "1 model reply" if ended.replies == 1 else f"{ended.replies} model replies"
    return f"stopped after {replies}: the limit of {flag} was reached"


def _count(number: int, word: str) -> str:
    plural = {"initial": "initial", "retry": "retries"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"
