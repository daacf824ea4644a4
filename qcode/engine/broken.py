"""What happens to a reply when a request fails or its stream breaks: learn, replay, go on, or give up with the text.

Budgets are its own: failures in a row are retried with backoff, a shown text is continued at most three times, and
none of it consumes a continuation of `recovery`.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine.attempt import Attempt
from qcode.engine.effects import Effect, Emit, Learn, ReplyFailed, Wait
from qcode.engine.learned import LearnedLimit, learn_limit
from qcode.engine.reply_state import ReplyState
from qcode.engine.requests import continuing_request
from qcode.engine.result import describe_cut
from qcode.engine.retries import MAX_TRANSPORT_CONTINUATIONS, delay_before_retry
from qcode.engine.seam import Seam
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import Retry, Waiting
from qcode.protocol.stops import StopReason


def attempt_failed(state: ReplyState, failure: ReplyFailed) -> list[Effect]:
    """Return what follows the failure of the attempt under way. Text the seam still held was never shown; it is lost
    with the attempt and comes again with the next."""
    attempt, error = state.attempt, failure.error
    if attempt is None:
        return []
    state.close_attempt(attempt, "error", is_refused=error.status is not None and not attempt.has_shown_anything)
    if error.kind in (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW) and not attempt.has_shown_anything:
        resent = _resend_within_limits(state, attempt, error) or _resend_without_prefill(state, attempt, error)
        if resent:
            return resent
    state.failures += 1
    delay = delay_before_retry(error, state.failures, failure.jitter, state.plan.retries)
    if delay is None:
        return give_up(state, attempt, error)
    waiting: list[Effect] = [Emit(Waiting(delay, error.message, state.failures)), Wait(delay)]
    goes_on = attempt.shown_text > 0 and not (attempt.has_call and not state.base)
    is_shorter = state.aside is not None and attempt.shown_text <= len(state.aside.text)
    if goes_on and not is_shorter:
        if state.breaks >= MAX_TRANSPORT_CONTINUATIONS:
            return give_up(state, attempt, error)
        state.aside = None
        state.absorb_text(attempt)
        state.after_wait = lambda: _go_on(state, attempt.request.max_tokens)
        return waiting
    if attempt.shown_text:
        state.discard_last(attempt)
        state.set_aside(attempt)
    state.after_wait = lambda: _replay(state, attempt)
    return waiting


def give_up(state: ReplyState, attempt: Attempt, error: ProviderError) -> list[Effect]:
    """End the reply with the text there is: as a cut one where it was being recovered, else as an error."""
    effects = state.salvage(attempt)
    if state.was_cut and state.text.strip():
        note = describe_cut(state.records, "error", error.message)
        return effects + state.finish("cut", StopReason.MAX_TOKENS, "", why="error", note=note)
    info = ErrorInfo(error.kind, error.message, error.status, error.request_id)
    return effects + state.finish("failed", None, "", why="error", error=info)


def _go_on(state: ReplyState, cap: int) -> list[Effect]:
    """Continue a text whose stream broke, under the cap it had."""
    state.breaks += 1
    state.parts += 1
    request = continuing_request(state.plan, state.model, state.base, cap, is_broken=True)
    fitted = state.fitted(request, cap) or cap
    retry = Retry(is_continuation=True, reason="transport", attempt=state.breaks, max_tokens=fitted)
    return [Emit(retry), *state.send_continuation(fitted, "retries", is_broken=True)]


def _replay(state: ReplyState, attempt: Attempt) -> list[Effect]:
    """Send the same request again; what was shown of the attempt is taken back, and kept aside where it was text."""
    effects: list[Effect] = []
    if attempt.has_shown_anything and not state.base and attempt.kind != "resume":
        state.breaks += 1
        effects.append(state.start_over("transport", state.breaks, attempt.request.max_tokens))
    seam = None
    if attempt.seam is not None:
        seam = attempt.seam.renewed()
    return effects + state.send(attempt.kind, attempt.request, "retries", seam=seam)


def _resend_within_limits(state: ReplyState, attempt: Attempt, error: ProviderError) -> list[Effect]:
    """Learn the limit that a refusal names and send the request once more under it; nothing is shown."""
    limit = learn_limit(error.message, error.param)
    if limit is None or limit.kind in state.relearned:
        return []
    state.relearned.add(limit.kind)
    learned = state.learn(Learn(limit))
    request = attempt.request
    if limit.prompt is not None:
        state.counter.record(request, limit.prompt)
    wanted = min(request.max_tokens, limit.tokens) if limit.kind == "output" else request.max_tokens
    cap = state.fitted(request, wanted)
    if cap is None or (cap >= request.max_tokens and not _is_smaller(limit, request.max_tokens)):
        return []
    seam = attempt.seam.renewed() if attempt.seam is not None else None
    return [learned, *state.send(attempt.kind, replace(request, max_tokens=cap), "retries", seam=seam)]


def _is_smaller(limit: LearnedLimit, cap: int) -> bool:
    return limit.kind == "output" and limit.tokens < cap


def _resend_without_prefill(state: ReplyState, attempt: Attempt, error: ProviderError) -> list[Effect]:
    """Remember a host that does not continue an assistant message, and ask in words."""
    if not attempt.request.is_prefill or error.kind is not ErrorKind.BAD_REQUEST:
        return []
    learned = state.learn(Learn("refuses_prefill"))
    request = continuing_request(
        state.plan, state.model, state.base, attempt.request.max_tokens, is_broken=state.breaks > 0
    )
    text = "".join(draft.text for draft in state.base if draft.kind == "text")
    return [learned, *state.send("continuation", request, "retries", seam=Seam(text))]
