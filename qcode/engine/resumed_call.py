"""Finishes the arguments of a cut write or edit instead of rejecting it, where the person asked for that.

The rest of the JSON is asked for in a request without tools, cleaned at the seam, held in memory and parsed strictly;
a call that closes goes the normal way, approval included. Anything else falls back to the rejection.
"""

from __future__ import annotations

import re
from dataclasses import replace

from qcode.engine import requests
from qcode.engine.assembler import CallState, Draft, ReplyShape, ends_early
from qcode.engine.attempt import Attempt
from qcode.engine.caps import MAX_RESUMED_CALL_REQUESTS
from qcode.engine.effects import Effect, Emit
from qcode.engine.reply_state import ReplyState, tokens_of
from qcode.engine.requests import text_of
from qcode.engine.seam import Seam
from qcode.protocol.events import Retry, ToolPayloadRepair
from qcode.protocol.json import parse_object
from qcode.protocol.stops import StopReason
from qcode.protocol.tools import ToolSpec

_ISSUE = "cut_arguments"
_FENCE = re.compile(r"\A\s*```(?:json)?[ \t]*\n|\n?```\s*\Z")


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
        return _give_up(state, cap, "")
    state.resumed_calls += 1
    retry = Retry(is_continuation=True, reason="call", attempt=state.resumed_calls, max_tokens=fitted)
    sent = state.send("resume", replace(request, max_tokens=fitted), "repairs", seam=Seam(call.text))
    return [Emit(retry), *sent]


def attempt_ended(state: ReplyState, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
    """Append what came; run the call once its JSON closes, ask again while it is still cut, else reject it."""
    call = _cut_call(state)
    rest = _FENCE.sub("", text_of(attempt.drafts))
    call.append(rest)
    state.kept_tokens += tokens_of(attempt)
    judged = _judge(call, state.tools[call.name])
    cap = attempt.request.max_tokens
    if judged == "complete":
        call.state = "complete"
        repaired = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=True))
        return [repaired, *state.finish("calls", StopReason.TOOL_USE, shape.raw_stop, cap=cap)]
    if judged == "incomplete" and rest.strip() and state.resumed_calls < MAX_RESUMED_CALL_REQUESTS:
        return ask(state)
    return _give_up(state, cap, shape.raw_stop)


def _give_up(state: ReplyState, cap: int, raw_stop: str) -> list[Effect]:
    failed = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=False))
    return [failed, *state.finish("calls", StopReason.MAX_TOKENS, raw_stop, why="retry_limit", cap=cap)]


def _cut_call(state: ReplyState) -> Draft:
    return next(draft for draft in reversed(state.base) if draft.kind == "call")


def _judge(call: Draft, spec: ToolSpec) -> CallState:
    arguments = parse_object(call.text)
    if arguments is not None:
        return "complete" if all(name in arguments for name in spec.required) else "incomplete"
    return "incomplete" if ends_early(call.text) else "malformed"
