"""How a turn ended, in a sentence: what happened and what to do. Pure."""

from __future__ import annotations

from typing import assert_never

from qcode.protocol.events import ApiCalls, Notice, TurnEnded
from qcode.protocol.stops import Limit, Outcome
from qcode.tui.figures import count_text
from qcode.tui.text import one_line

_LIMITS = {
    Limit.TURNS: "the limit of model replies was reached (--max-turns)",
    Limit.TOOL_CALLS: "the limit of tool calls was reached (--max-tool-calls)",
    Limit.COST: "the cost limit was reached (--max-budget-usd)",
}


def ending_notice(event: TurnEnded, *, has_said_why: bool) -> Notice | None:
    """Return what to say about an ending, None where there is nothing to add.

    `has_said_why`: a reply of this turn already carried its own sentence about being cut or refused.
    """
    match event.outcome:
        case Outcome.END_TURN | Outcome.CANCELLED:
            return None
        case Outcome.ERROR:
            message = event.error.message if event.error is not None else "The turn failed for an unknown reason."
            return Notice("error", one_line(message, 1_000))
        case Outcome.MAX_TOKENS:
            text = "The reply is still cut at the output limit; what came is kept. Ask for the rest, or for less."
            return None if has_said_why else Notice("warning", text)
        case Outcome.REFUSAL:
            text = "The model or its provider refused to go on. Rephrase the request, or try another model with /model."
            return None if has_said_why else Notice("warning", text)
        case Outcome.MAX_TURN_REQUESTS:
            reason = _LIMITS[event.limit] if event.limit is not None else "a limit was reached"
            return Notice("warning", f"The turn ended: {reason}. Send a message to go on.")
        case _:
            assert_never(event.outcome)


def requests_note(event: TurnEnded) -> str:
    """Return what recovery cost, such as `5 API calls (1 initial + 1 escalation + 3 continuations)`; else empty."""
    calls = event.api_calls
    if not calls.escalations and not calls.continuations:
        return ""
    discarded = event.discarded_output_tokens
    note = f"{count_text(calls.total, 'API call')} ({_causes(calls)})"
    return note + (f", {count_text(discarded, 'discarded output token')}" if discarded else "")


def _causes(calls: ApiCalls) -> str:
    parts = (
        f"{calls.initial} initial" if calls.initial else "",
        _part(calls.escalations, "escalation"),
        _part(calls.continuations, "continuation"),
        _part(calls.repairs, "repair"),
        _part(calls.retries, "retry", "retries"),
    )
    return " + ".join(part for part in parts if part)


def _part(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}" if count else ""
