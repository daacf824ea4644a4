"""What stderr says when a turn is over: why it fell short, and the flags that would have allowed what was denied.

Pure. Each sentence is one line, says what happened, and where there is something to do, what.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from qcode.headless.exits import is_denied
from qcode.protocol.events import ApprovalRequested, TurnEnded
from qcode.protocol.stops import Limit, Outcome

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
            return "the turn ended on denied calls, without an answer" if is_denied(ended) else ""


def allowing_flags(asked: Sequence[ApprovalRequested], *, is_trusted: bool) -> str:
    """Return the flags, quoted for a shell, with which every call of `asked` would have run; empty for none.

    The narrow rule of a request wins. A change of files without one is covered by `accept-edits`, anything else
    only by `bypass`: some programs never get a rule.
    """
    if not asked:
        return ""
    flags = [] if is_trusted else ["--trust"]
    modes = {_mode(request) for request in asked if not request.rule}
    rules = dict.fromkeys(request.rule for request in asked if request.rule)
    if "bypass" in modes:
        return " ".join([*flags, "--permission-mode bypass"])
    if modes:
        flags.append("--permission-mode accept-edits")
    return " ".join([*flags, *(f"--allowed-tools {shlex.quote(rule)}" for rule in rules)])


def denial_line(asked: Sequence[ApprovalRequested], *, is_trusted: bool) -> str:
    """Return the last line of stderr after a denial; it ends with the flags themselves."""
    flags = allowing_flags(asked, is_trusted=is_trusted)
    if not flags:
        return ""
    calls = "1 call needed" if len(asked) == 1 else f"{len(asked)} calls needed"
    return f"{calls} an approval that nobody could give here and did not run; to allow it: {flags}"


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


def _limit(ended: TurnEnded) -> str:
    flag = _FLAGS[ended.limit or Limit.TURNS]
    replies = "1 model reply" if ended.replies == 1 else f"{ended.replies} model replies"
    return f"stopped after {replies}: the limit of {flag} was reached"


def _mode(request: ApprovalRequested) -> str:
    return "accept-edits" if request.preview.startswith(("--- ", "diff ")) else "bypass"


def _count(number: int, word: str) -> str:
    plural = {"initial": "initial", "retry": "retries"}.get(word, f"{word}s")
    return f"{number} {word if number == 1 else plural}"
