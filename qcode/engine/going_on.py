"""What happens to a reply that met a full window, once the conversation was compacted or could not be.

A text is continued as after any cut, so that it stays one text; without one the reply is asked for again.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine import broken, requests
from qcode.engine.assembler import ReplyShape
from qcode.engine.attempt import Attempt
from qcode.engine.effects import Effect, Emit
from qcode.engine.recovery import Done
from qcode.engine.reply_state import ReplyState
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import Retry
from qcode.protocol.messages import Message
from qcode.protocol.stops import StopReason


def go_on(state: ReplyState, messages: tuple[Message, ...]) -> list[Effect]:
    """Go on over `messages`, a shorter history, with the text there is, or else from the start."""
    wanted, state.wants_room = state.wants_room, None
    assert wanted is not None
    state.plan = replace(state.plan, messages=messages)
    effects = state.salvage(wanted.attempt)
    if not state.text.strip():
        return effects + _begin_again(state, wanted.attempt)
    wished = state.caps.continuation
    request = requests.continuing_request(state.plan, state.model, state.base, wished, is_broken=False)
    cap = state.fitted(request, wished)
    if cap is None:
        return effects + broken.end_without_room(state, request)
    state.parts += 1
    told = Emit(Retry(is_continuation=True, reason="context", attempt=1, max_tokens=cap))
    return [*effects, told, *state.send_continuation(cap, "retries", is_broken=False)]


def give_up(state: ReplyState) -> list[Effect]:
    """End, because there is no room and none could be made."""
    wanted, state.wants_room = state.wants_room, None
    return wanted.give_up() if wanted is not None else []


def finish_stopped(state: ReplyState, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
    """End on a refusal, the text stays and the reason is named; on a full context go on once if room can be made."""
    ended = attempt.assembler.ended
    detail = f": {ended.detail}" if ended and ended.detail else ""
    if shape.stop is StopReason.REFUSAL:
        note = f"The provider refused or filtered the reply ({shape.raw_stop}){detail}. What came before is kept."
        return state.finish("refused", shape.stop, shape.raw_stop, why=decision.why, note=note)
    note = "The context window is full, so the reply stops here. Start a new session or shorten the conversation."

    def end() -> list[Effect]:
        if state.text.strip():
            return state.finish("cut", shape.stop, shape.raw_stop, why=decision.why, note=note)
        error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, note)
        return state.finish("failed", shape.stop, shape.raw_stop, why="error", error=error)

    return state.ask_for_room(end)


def _begin_again(state: ReplyState, attempt: Attempt | None) -> list[Effect]:
    state.base = []
    request = requests.first_request(state.plan, state.model, state.caps.first)
    cap = state.fitted(request, request.max_tokens)
    if cap is None:
        return broken.end_without_room(state, request)
    is_first = not state.records
    effects: list[Effect] = []
    if attempt is not None:
        state.discard(attempt)
        if attempt.has_shown_anything:
            effects.append(state.start_over("context", 1, cap))
    return effects + state.send("first", replace(request, max_tokens=cap), "initial" if is_first else "retries")
