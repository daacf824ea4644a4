"""Finishes the arguments of a cut write or edit instead of rejecting it, where the person asked for that.

The rest of the JSON is asked for in a request without tools, cleaned at the seam, held in memory and parsed strictly;
a call that closes goes the normal way, approval included. Anything else falls back to the rejection.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from qcode.engine import requests
from qcode.engine.assembler import Draft, ReplyShape, ends_early
from qcode.engine.attempt import Attempt
from qcode.engine.caps import MAX_RESUMED_CALL_REQUESTS
from qcode.engine.effects import Effect, Emit
from qcode.engine.reply_state import ReplyState
from qcode.engine.requests import text_of
from qcode.engine.seam import Seam
from qcode.protocol.events import Retry, ToolPayloadRepair
from qcode.protocol.json import parse_object
from qcode.protocol.stops import StopReason

_ISSUE = "cut_arguments"
_OPENED_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n")


def requests_left(state: ReplyState, attempt: Attempt) -> int:
    """Return how many requests may still ask for the rest of the last call: none unless it is a write and it is on."""
    if state.plan.output.tool_call_repair != "resume":
        return 0
    last = next((draft for draft in reversed(attempt.drafts) if draft.kind == "call"), None)
    spec = state.tools.get(last.name) if last else None
    return MAX_RESUMED_CALL_REQUESTS - state.resumed_calls if spec is not None and spec.writes_files else 0


def ask(state: ReplyState) -> list[Effect]:
    """Ask for what follows the arguments that `base` ends with."""
    call = _cut_call(state)
    cap = state.caps.continuation
    request = requests.resumed_call_request(state.plan, state.model, state.base, call, call.text, cap)
    fitted = state.fitted(request, cap)
    if fitted is None:
        return give_up(state, cap, "")
    state.resumed_calls += 1
    retry = Retry(is_continuation=True, reason="call", attempt=state.resumed_calls, max_tokens=fitted)
    sent = state.send("resume", replace(request, max_tokens=fitted), "repairs", seam=Seam(call.text))
    return [Emit(retry), *sent]


def attempt_ended(state: ReplyState, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
    """Append what came; run the call once its JSON closes, ask again where that was cut as well, else reject it."""
    call = _cut_call(state)
    rest = _OPENED_FENCE.sub("", text_of(attempt.drafts))
    state.kept_tokens += state.tokens_of(attempt)
    cap = attempt.request.max_tokens
    closed = _closed_object(call.text + rest)
    if closed is not None:
        arguments = parse_object(closed)
        if arguments is None or any(name not in arguments for name in state.tools[call.name].required):
            return give_up(state, cap, shape.raw_stop)
        call.pieces[:], call.size, call.state = [closed], len(closed), "complete"
        repaired = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=True))
        return [repaired, *state.finish("calls", StopReason.TOOL_USE, shape.raw_stop, cap=cap)]
    # A model that stops by itself with the JSON still open sent something else, an apology say.
    if not shape.hit_cap or not ends_early(call.text + rest):
        return give_up(state, cap, shape.raw_stop)
    call.append(rest)
    if rest.strip() and state.resumed_calls < MAX_RESUMED_CALL_REQUESTS:
        return ask(state)
    return give_up(state, cap, shape.raw_stop)


def give_up(state: ReplyState, cap: int, raw_stop: str) -> list[Effect]:
    """Leave the call incomplete: it is rejected as it would have been without this."""
    failed = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=False))
    return [failed, *state.finish("calls", StopReason.MAX_TOKENS, raw_stop, why="retry_limit", cap=cap)]


def _cut_call(state: ReplyState) -> Draft:
    return next(draft for draft in reversed(state.base) if draft.kind == "call")


def _closed_object(text: str) -> str | None:
    """Return the JSON value that `text` begins with, None while it is open; what follows it was not asked for."""
    start = len(text) - len(text.lstrip())
    try:
        end = json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
    return text[start:end]
