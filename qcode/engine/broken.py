"""What happens to a reply when a request fails or its stream breaks: learn, replay, go on, or give up with the text.

Budgets are its own: failures in a row are retried with backoff, a shown text is continued at most three times, and
none of it consumes a continuation of `recovery`.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine import resumed_call
from qcode.engine.attempt import Attempt
from qcode.engine.effects import Effect, Emit, Learn, ReplyFailed, Wait
from qcode.engine.learned import LearnedLimit, learn_limit
from qcode.engine.refused import Part, is_lasting, refused_part, without_part
from qcode.engine.reply_state import ReplyState
from qcode.engine.requests import continuing_request
from qcode.engine.result import describe_cut, describe_no_room
from qcode.engine.retries import MAX_TRANSPORT_CONTINUATIONS, delay_before_retry
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import Notice, Retry, Waiting
from qcode.protocol.model import ModelRequest
from qcode.protocol.stops import StopReason

_REFUSALS = (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW)


def attempt_failed(state: ReplyState, failure: ReplyFailed) -> list[Effect]:
    """Return what follows the failure of the attempt under way. Text the seam still held was never shown; it is lost
    with the attempt and comes again with the next."""
    attempt, error = state.attempt, failure.error
    if attempt is None:
        return []
    state.close_attempt(attempt, "error")
    learned: list[Effect] = []
    if not attempt.has_shown_anything:
        handled = _resend_changed(state, attempt, error, learned)
        if handled or state.wants_room is not None:
            return [*learned, *handled]
    if attempt.kind == "resume" and not error.kind.is_transient:
        return [*learned, *resumed_call.give_up(state, attempt.request.max_tokens, "")]
    return [*learned, *_retry_or_give_up(state, attempt, failure)]


def _retry_or_give_up(state: ReplyState, attempt: Attempt, failure: ReplyFailed) -> list[Effect]:
    error = failure.error
    if error.kind is ErrorKind.CONTEXT_OVERFLOW:
        return state.ask_for_room(lambda: give_up(state, attempt, error), attempt)
    is_shorter = state.aside is not None and attempt.shown_text <= len(state.aside.text)
    # A call of a stream that never ended counts for nothing, so its attempt is made anew, unless it continues a text.
    goes_on = attempt.shown_text > 0 if state.base else attempt.has_solid_text and not attempt.has_call
    goes_on = goes_on and not is_shorter
    # Text is progress: what failed before it is no longer in a row with this.
    state.failures = 1 if goes_on else state.failures + 1
    delay = delay_before_retry(error, state.failures, failure.jitter, state.plan.retries)
    if delay is None or not state.is_affordable or (goes_on and state.breaks >= MAX_TRANSPORT_CONTINUATIONS):
        return give_up(state, attempt, error)
    waiting: list[Effect] = [Emit(Waiting(delay, error.message, state.failures)), Wait(delay)]
    if goes_on:
        state.aside = None
        state.absorb_text(attempt)
        state.after_wait = lambda: _go_on(state, attempt.request.max_tokens)
        return waiting
    if attempt.kind != "resume" and attempt.has_solid_text and not state.base:
        state.set_aside(attempt)
    state.discard(attempt)
    state.after_wait = lambda: _replay(state, attempt)
    return waiting


def give_up(state: ReplyState, attempt: Attempt | None, error: ProviderError) -> list[Effect]:
    """End the reply with the text there is: as a cut one where it was being recovered, else as an error."""
    effects = state.salvage(attempt)
    if state.was_cut and state.text.strip():
        note = describe_cut(state.records, "error", error.message)
        return effects + state.finish("cut", StopReason.MAX_TOKENS, "", why="error", note=note)
    info = ErrorInfo(error.kind, error.message, error.status, error.request_id, error.retry_after)
    return effects + state.finish("failed", None, "", why="error", error=info)


def end_without_room(state: ReplyState, request: ModelRequest, attempt: Attempt | None = None) -> list[Effect]:
    """Ask for room, or end the reply because the window leaves none for `request`; the text there is stays."""
    return state.ask_for_room(lambda: _end_without_room(state, request, attempt), attempt)


def _end_without_room(state: ReplyState, request: ModelRequest, attempt: Attempt | None) -> list[Effect]:
    note = describe_no_room(state.counter.size_of(request, enough=0).tokens, state.model.window)
    effects = state.salvage(attempt)
    if state.text.strip():
        stop = StopReason.MAX_TOKENS if state.was_cut else StopReason.CONTEXT_WINDOW_EXCEEDED
        return effects + state.finish("cut", stop, "", why="budget_exhausted", note=note)
    error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, note)
    return effects + state.finish("failed", StopReason.CONTEXT_WINDOW_EXCEEDED, "", why="error", error=error)


def _go_on(state: ReplyState, cap: int) -> list[Effect]:
    """Continue a text whose stream broke, under the cap it had."""
    request = continuing_request(state.plan, state.model, state.base, cap, is_broken=True)
    fitted = state.fitted(request, cap)
    if fitted is None:
        return end_without_room(state, request)
    state.breaks += 1
    state.parts += 1
    return [_told_again(state, fitted), *state.send_continuation(fitted, "retries", is_broken=True)]


def _replay(state: ReplyState, attempt: Attempt) -> list[Effect]:
    """Send the same request again; what was shown of the attempt is taken back, and kept aside where it was text."""
    cap = state.fitted(attempt.request, attempt.request.max_tokens)
    if cap is None:
        return end_without_room(state, attempt.request)
    effects: list[Effect] = []
    if attempt.has_shown_anything:
        if state.base:
            effects.append(_told_again(state, cap))
        else:
            state.resends += 1
            effects.append(state.start_over("transport", state.resends, cap))
    return effects + state.send_again(attempt, cap)


def _told_again(state: ReplyState, cap: int) -> Effect:
    state.resends += 1
    return Emit(Retry(is_continuation=True, reason="transport", attempt=state.resends, max_tokens=cap))


def _resend_changed(state: ReplyState, attempt: Attempt, error: ProviderError, learned: list[Effect]) -> list[Effect]:
    """Send the request once more in a form the host may take, where its refusal tells which; nothing else."""
    is_refusal = error.kind in _REFUSALS
    if is_refusal and (handled := _resend_within_limits(state, attempt, error, learned)):
        return handled
    if (part := refused_part(error, attempt.request)) is not None:
        return _resend_without(state, attempt, error, part)
    return _resend_without_prefill(state, attempt, error) if is_refusal else []


def _resend_within_limits(
    state: ReplyState, attempt: Attempt, error: ProviderError, learned: list[Effect]
) -> list[Effect]:
    """Learn the limit that a refusal names and send the request once more under it; nothing is shown."""
    limit = learn_limit(error.message, error.param, cap=attempt.request.max_tokens)
    if limit is None or limit.kind in state.relearned:
        return []
    state.relearned.add(limit.kind)
    learned.append(state.learn(Learn(limit)))
    request = attempt.request
    if limit.kind == "window":
        state.counter.record(request, _prompt_size(state, request, limit))
    cap = state.fitted(request, min(request.max_tokens, state.model.output_limit or request.max_tokens))
    aside = state.aside
    if attempt.kind == "escalated" and aside is not None and aside.attempt.kind == "first":
        gain = state.plan.output.min_escalation_gain * aside.attempt.request.max_tokens
        if cap is None or cap < gain:
            return state.reopen_aside()
    if cap is None:
        return end_without_room(state, request, attempt)
    return state.send_again(attempt, cap) if cap < request.max_tokens else []


def _prompt_size(state: ReplyState, request: ModelRequest, limit: LearnedLimit) -> int:
    """Return how large the refused prompt is: as the server says, or at the least what a refusal means."""
    if limit.prompt is not None:
        return limit.prompt
    if limit.total is not None and limit.total > request.max_tokens:
        return limit.total - request.max_tokens
    return max(state.counter.size_of(request, enough=0).tokens, limit.tokens - request.max_tokens + 1)


def _resend_without(state: ReplyState, attempt: Attempt, error: ProviderError, part: Part) -> list[Effect]:
    """Send the request once more without what the host refuses in it, and leave that out from then on."""
    effects: list[Effect] = []
    if part == "marks":
        effects.append(state.learn(Learn("refuses_marks")))
    else:
        if is_lasting(error):
            effects.append(state.learn(Learn("refuses_images")))
        text = f"{state.model.name} refused an image ({error.message}); the model is told that one was there"
        effects.append(Emit(Notice("warning", text)))
    state.plan = replace(state.plan, messages=without_part(state.plan.messages, part))
    request = replace(attempt.request, messages=without_part(attempt.request.messages, part))
    cap = state.fitted(request, request.max_tokens)
    if cap is None:
        return [*effects, *end_without_room(state, request, attempt)]
    return [*effects, *state.send_again(attempt, cap, request)]


def _resend_without_prefill(state: ReplyState, attempt: Attempt, error: ProviderError) -> list[Effect]:
    """Remember a host that does not continue an assistant message, and ask in words."""
    if not attempt.request.is_prefill or error.kind is not ErrorKind.BAD_REQUEST:
        return []
    learned = state.learn(Learn("refuses_prefill"))
    wanted, is_broken = attempt.request.max_tokens, attempt.is_broken
    request = continuing_request(state.plan, state.model, state.base, wanted, is_broken=is_broken)
    cap = state.fitted(request, wanted)
    if cap is None:
        return [learned, *end_without_room(state, request, attempt)]
    return [learned, *state.send_continuation(cap, "retries", is_broken=is_broken)]
