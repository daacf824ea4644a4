"""The handling of a broken stream, a full context window, and a truncated call.

Broken stream: the request is sent again with backoff, or the shown text is continued, at most three times. If the error
says why the request was refused, the request is changed first. These retries are not continuations of `recovery`. If
all retries fail, the reply keeps its text.
Full window: the reply resumes after a compaction, or ends.
Truncated write or edit: if the user chose this, its arguments are completed instead of rejected. The rest of the JSON
is requested without tools, joined at the seam and parsed strictly; a complete call then needs approval as usual.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from qcode.engine.caps import MAX_RESUMED_CALL_REQUESTS
from qcode.engine.effects import Effect, Emit, RateLimitAnswered, ReplyFailed, StopRequest, SwitchModel, Wait
from qcode.engine.model_facts import Learn, LearnedLimit, learn_limit
from qcode.engine.reply import requests
from qcode.engine.reply.assembler import BlockDraft, ReplyShape, ends_early
from qcode.engine.reply.attempt import Attempt
from qcode.engine.reply.phase import (
    AtRateLimit,
    Backoff,
    CompactionFallback,
    EndUnsent,
    EndWithError,
    KeepTruncated,
    NeedsCompaction,
    NeedsModel,
    Streaming,
)
from qcode.engine.reply.recovery import Done
from qcode.engine.reply.requests import continuation_request, text_of
from qcode.engine.reply.retries import (
    LIMIT_REPORT_S,
    MAX_LIMIT_JITTER_S,
    MAX_LIMIT_WAITS,
    MAX_OVERSLEPT_S,
    MAX_TRANSPORT_CONTINUATIONS,
    allowed_limit_wait,
    allowed_wait,
    delay_before_retry,
    may_fall_back,
)
from qcode.engine.reply.state import ReplyState, describe_cut, describe_full_window
from qcode.engine.transcript import RefusedPart, refused_part, refuses_all_images, without_part
from qcode.protocol.errors import ErrorInfo, ErrorKind, ProviderError
from qcode.protocol.events import LimitReached, Notice, Retry, ToolPayloadRepair, Waiting
from qcode.protocol.messages import Message
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import StopReason
from qcode.text.fences import without_opening
from qcode.text.json import DuplicateKeyError, parse_arguments
from qcode.text.numbers import count_text, duration_text

if TYPE_CHECKING:
    from qcode.engine.counting import PromptCounter
    from qcode.engine.model_facts import KnownModel
    from qcode.engine.reply.requests import ReplyPlan

_UNUSABLE = (ErrorKind.AUTH, ErrorKind.NO_CREDENTIAL, ErrorKind.UNKNOWN_MODEL)
"""If a fallback model fails with one of these, the next fallback model is tried. On the first model, the turn ends."""
_REFUSALS = (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW)
"""The message of such an error may say how to change the request."""


def handle_attempt_failure(state: ReplyState, failure: ReplyFailed) -> list[Effect]:
    """Return the effects of a failure of the current attempt.

    Text that the seam held back was never shown: it is lost with the attempt, and the model writes it again.
    """
    phase, error = state.phase, failure.error
    if not isinstance(phase, Streaming):
        return []
    attempt = phase.attempt
    state.close_attempt(attempt, "error")
    learned: list[Effect] = []
    if not attempt.has_shown_anything:
        handled = _resend_changed(state, attempt, error, learned)
        if handled or isinstance(state.phase, NeedsCompaction):
            return [*learned, *handled]
    if attempt.completes_call and not error.kind.is_transient:
        return [*learned, *reject_truncated_call(state, attempt.request.max_tokens, "")]
    return [*learned, *_retry_or_abort(state, attempt, failure)]


def restart_after_damage(state: ReplyState) -> list[Effect] | None:
    """Treat a damaged event as a broken stream, so that its text is requested again; return None to skip the event.

    This happens at most once per reply, because some hosts damage an event every time.
    """
    settings = state.plan.retries
    has_used_retries = state.consecutive_failures >= settings.max_retries
    has_used_continuations = state.text_resumptions >= MAX_TRANSPORT_CONTINUATIONS
    if state.has_restarted_after_damage or has_used_retries or has_used_continuations or not state.is_affordable:
        return None
    state.has_restarted_after_damage = True
    error = ProviderError(ErrorKind.CONNECTION, "part of the reply was damaged in transit")
    return [StopRequest(), *handle_attempt_failure(state, ReplyFailed(error, jitter=0.0))]


def _retry_or_abort(state: ReplyState, attempt: Attempt, failure: ReplyFailed) -> list[Effect]:
    """Send the request again or continue its text after a wait, switch to a fallback model, or end the reply."""
    error = failure.error
    if error.kind is ErrorKind.CONTEXT_OVERFLOW:
        return compact_or_end(state, EndWithError(error.info), attempt)
    is_continued = _can_continue(state, attempt)
    # New text is progress, so this failure does not follow directly on the earlier ones.
    state.consecutive_failures = 1 if is_continued else state.consecutive_failures + 1
    delay = delay_before_retry(error, state.consecutive_failures, failure.jitter, state.plan.retries)
    if delay is None and state.plan.fallback is not None and may_fall_back(error, state.plan.fallback):
        state.phase = NeedsModel(failure, attempt)
        return [SwitchModel(error.info if error.may_retry else replace(error.info, wait_refusal=_NO_RETRY))]
    if error.kind in _UNUSABLE and state.replaced_model_error is not None and state.plan.fallback is not None:
        state.phase = NeedsModel(failure, attempt)
        return [SwitchModel(error.info)]
    limit_wait = None if delay is not None else allowed_limit_wait(error, state.limit_waits, state.plan.retries)
    has_used_retries = delay is None and limit_wait is None
    has_used_continuations = is_continued and state.text_resumptions >= MAX_TRANSPORT_CONTINUATIONS
    if has_used_retries or has_used_continuations or not state.is_affordable:
        refusal = _wait_refusal(error.retry_after, state) if error.may_retry else _NO_RETRY
        final = replace(error.info, message=_with_retries(state, error), wait_refusal=refusal)
        return _abort(state, attempt, _as_replaced(state, final))
    if is_continued:
        state.superseded = None
        state.absorb_text(attempt)
    else:
        if not attempt.completes_call and attempt.has_nonblank_text and not state.reply_drafts:
            state.supersede(attempt)
        state.discard(attempt)
    backoff = Backoff("continue" if is_continued else "replay", attempt)
    if delay is not None:
        state.phase = backoff
        max_retries = state.plan.retries.max_retries
        waiting = Waiting(delay, error.message, state.consecutive_failures, error.status, max_retries)
        return [Emit(waiting), Wait(delay)]
    assert limit_wait is not None
    state.consecutive_failures = 0
    return _wait_or_ask(state, backoff, error.info, limit_wait, failure.jitter)


def _can_continue(state: ReplyState, attempt: Attempt) -> bool:
    """Return whether the next request can continue the text of a failed attempt; otherwise its request is repeated."""
    if state.superseded is not None and attempt.shown_chars <= len(state.superseded.text):
        return False  # the superseded text is longer
    if state.reply_drafts:
        return attempt.shown_chars > 0
    # A call in a broken stream may be incomplete, so an attempt with a call is sent again. Only text that the front end
    # cannot remove is continued, without the call.
    may_drop_call = not attempt.has_call or state.plan.output.is_append_only
    return attempt.has_nonblank_text and may_drop_call


def _wait_or_ask(
    state: ReplyState, after_wait: Backoff | NeedsModel, limit: ErrorInfo, wait: float, jitter: float
) -> list[Effect]:
    """Wait for the end of a limit, or ask the user whether to wait."""
    state.limit_waits += 1
    # A little later than the end of the limit, so that not all clients send a request in the same second.
    seconds = wait + jitter * min(MAX_LIMIT_JITTER_S, wait / 10)
    if state.plan.retries.wait_for_limit == "ask":
        state.phase = AtRateLimit(after_wait, limit, seconds, is_question=True)
        return [Emit(LimitReached(limit, seconds, is_question=True))]
    return _wait_for_limit(state, AtRateLimit(after_wait, limit, seconds, is_question=False))


def resume_with_model(state: ReplyState, plan: ReplyPlan, model: KnownModel, counter: PromptCounter) -> list[Effect]:
    """Continue the text so far with another model, or start again with it if there is no text.

    Reasoning is dropped, because its signatures are valid only on the host that made them.
    """
    phase = state.phase
    assert isinstance(phase, NeedsModel)
    effects = state.keep_longest_text(phase.attempt)
    if phase.has_waited:
        state.replaced_model_error = None
    elif phase.failure.error.kind not in _UNUSABLE:
        limited = state.model.title if phase.failure.error.resets_at is not None else ""
        state.replaced_model_error = replace(phase.failure.error.info, limited_model=limited)
    state.switch_model(plan, model, counter)
    if state.text.strip():
        state.reply_drafts = [draft for draft in state.reply_drafts if draft.kind == "text"]
        return effects + _continue_elsewhere(state, "fallback")
    return effects + _begin_again(state, phase.attempt, "fallback")


def resume_without_model(state: ReplyState, limit: ErrorInfo | None) -> list[Effect]:
    """Wait or end, because no fallback model could be used.

    `limit` is the rate limit of another model that ends first; None if there is none.
    """
    phase = state.phase
    assert isinstance(phase, NeedsModel)
    state.plan = replace(state.plan, fallback=None)
    if limit is None:
        return _retry_or_abort(state, phase.attempt, phase.failure)
    wait = None if limit.wait_refusal else allowed_wait(limit.retry_after, state.limit_waits, state.plan.retries)
    if wait is not None and state.is_affordable:
        return _wait_or_ask(state, phase, limit, wait, phase.failure.jitter)
    error = replace(
        _as_replaced(state, phase.failure.error.info),
        retry_after=limit.retry_after,
        resets_at=limit.resets_at,
        period=limit.period,
        wait_refusal=limit.wait_refusal or _wait_refusal(limit.retry_after, state),
        limited_model=limit.limited_model,
    )
    return _abort(state, phase.attempt, error)


def _as_replaced(state: ReplyState, error: ErrorInfo) -> ErrorInfo:
    """Return the error of the replaced model if `error` says that its fallback model cannot be used.

    The user can wait until the replaced model is available again. A fallback model without a valid key stays unusable.
    """
    if state.replaced_model_error is None or error.kind not in _UNUSABLE:
        return error
    message = (
        f"{state.replaced_model_error.message.rstrip('.')}. Fallback model {state.model.title} failed: {error.message}"
    )
    return replace(state.replaced_model_error, message=message)


def handle_rate_limit_answer(state: ReplyState, phase: AtRateLimit, answer: RateLimitAnswered) -> list[Effect]:
    """Wait for the end of the limit, or end the reply with the provider's error."""
    if not answer.should_wait:
        # Before a switch of models the attempt is still open; otherwise it was already absorbed or discarded.
        attempt = phase.after_wait.attempt if isinstance(phase.after_wait, NeedsModel) else None
        return _abort(state, attempt, phase.error)
    return _wait_for_limit(state, replace(phase, is_question=False, seconds_left=phase.seconds_left - answer.seconds))


def handle_rate_limit_wait(state: ReplyState, phase: AtRateLimit, seconds: float) -> list[Effect]:
    """Keep waiting, or send the request if the limit has ended.

    After a long sleep of the machine the user is asked first: the work may no longer be wanted.
    """
    seconds_left = phase.seconds_left - seconds
    if seconds_left < -MAX_OVERSLEPT_S and state.plan.retries.wait_for_limit == "ask":
        state.phase = replace(phase, seconds_left=0.0, is_question=True)
        return [Emit(LimitReached(phase.error, 0.0, is_question=True))]
    if seconds_left > 0:
        return _wait_for_limit(state, replace(phase, seconds_left=seconds_left))
    return retry(state, phase.after_wait)


_NO_RETRY = "and the provider asks not to retry"


def _with_retries(state: ReplyState, error: ProviderError) -> str:
    """Return the message of the last error, with the number of retries before it."""
    # `consecutive_failures` counts a failure twice if no fallback model could be used. In `records`, the first request
    # to a fallback model is a retry too.
    retries = min(
        state.consecutive_failures - 1 + state.text_resumptions, sum(record.is_retry for record in state.records)
    )
    if retries <= 0 or not error.kind.is_transient:
        return error.message
    return f"{error.message.rstrip('.')} (after {count_text(retries, 'retry', 'retries')})"


def _wait_refusal(retry_after: float | None, state: ReplyState) -> str:
    """Return the setting that forbids an automatic wait, as a part of the error message; empty if there is none."""
    settings = state.plan.retries
    if settings.wait_for_limit != "always" or retry_after is None:
        return ""
    if state.limit_waits >= MAX_LIMIT_WAITS:
        return f"after {state.limit_waits} waits"
    if retry_after <= settings.limit_wait_max_s:
        return ""
    return f"later than the maximum wait of {duration_text(settings.limit_wait_max_s)}"


def _wait_for_limit(state: ReplyState, phase: AtRateLimit) -> list[Effect]:
    if phase.seconds_left <= 0:
        return retry(state, phase.after_wait)
    state.phase = phase
    return [Emit(LimitReached(phase.error, phase.seconds_left)), Wait(min(phase.seconds_left, LIMIT_REPORT_S))]


def retry(state: ReplyState, after_wait: Backoff | NeedsModel) -> list[Effect]:
    """Send the next request after a wait, or connect the model that sends it."""
    if isinstance(after_wait, NeedsModel):
        state.phase = replace(after_wait, has_waited=True)
        return [SwitchModel(after_wait.failure.error.info, has_waited=True)]
    if after_wait.then == "continue":
        return _continue_broken_text(state, after_wait.failed_attempt.request.max_tokens)
    return _replay(state, after_wait.failed_attempt)


def compact_or_end(state: ReplyState, fallback: CompactionFallback, attempt: Attempt | None = None) -> list[Effect]:
    """Request a compaction, at most once per reply; otherwise end the reply with `fallback`."""
    if not state.plan.can_compact or state.has_compacted:
        return end_uncompacted(state, fallback, attempt)
    state.has_compacted = True
    state.phase = NeedsCompaction(fallback, attempt)
    return []


def end_uncompacted(state: ReplyState, fallback: CompactionFallback, attempt: Attempt | None = None) -> list[Effect]:
    """End the reply because the window is full and could not be compacted."""
    match fallback:
        case EndWithError():
            return _abort(state, attempt, fallback.error)
        case EndUnsent():
            return _end_unsent(state, fallback.request, attempt)
        case KeepTruncated():
            return _keep_truncated(state, fallback)


def _abort(state: ReplyState, attempt: Attempt | None, error: ErrorInfo) -> list[Effect]:
    """End the reply and keep its text: as truncated if an output limit had truncated this text, otherwise as failed."""
    effects = state.keep_longest_text(attempt)
    if state.was_cut and state.text.strip():
        note = describe_cut(state.records, "error", error.message)
        return effects + state.finish("cut", StopReason.MAX_TOKENS, termination="error", note=note)
    return effects + state.finish("failed", termination="error", error=error)


def compact_or_end_unsent(state: ReplyState, request: ModelRequest, attempt: Attempt | None = None) -> list[Effect]:
    """Request a compaction, or end the reply because `request` does not fit the window; the text is kept."""
    return compact_or_end(state, EndUnsent(request), attempt)


def _end_unsent(state: ReplyState, request: ModelRequest, attempt: Attempt | None) -> list[Effect]:
    """End the reply because `request` does not fit: as truncated if it has text, otherwise as failed."""
    note = describe_full_window(state.counter.size_of(request, threshold=0), state.model.window)
    effects = state.keep_longest_text(attempt)
    if state.text.strip():
        stop = StopReason.MAX_TOKENS if state.was_cut else StopReason.CONTEXT_WINDOW_EXCEEDED
        return effects + state.finish("cut", stop, termination="budget_exhausted", note=note)
    error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, note)
    return effects + state.finish("failed", StopReason.CONTEXT_WINDOW_EXCEEDED, termination="error", error=error)


def _continue_broken_text(state: ReplyState, cap: int) -> list[Effect]:
    """Continue a text whose stream broke, with the same cap."""
    request = continuation_request(state.plan, state.model, state.reply_drafts, cap, is_broken=True)
    fitting_cap = state.fit_cap(request, cap)
    if fitting_cap is None:
        return compact_or_end_unsent(state, request)
    state.text_resumptions += 1
    state.attempt_count += 1
    return [_retry_notice(state, fitting_cap), *state.send_continuation(fitting_cap, "retries", is_broken=True)]


def _replay(state: ReplyState, attempt: Attempt) -> list[Effect]:
    """Send the same request again. Front ends remove the text of the failed attempt, which is kept as superseded."""
    cap = state.fit_cap(attempt.request, attempt.request.max_tokens)
    if cap is None:
        return compact_or_end_unsent(state, attempt.request)
    effects: list[Effect] = []
    if attempt.has_shown_anything:
        if state.reply_drafts:
            effects.append(_retry_notice(state, cap))
        else:
            state.transport_retries += 1
            effects.append(state.retract_text("transport", state.transport_retries, cap))
    return effects + state.send_again(attempt, cap)


def _retry_notice(state: ReplyState, cap: int) -> Effect:
    state.transport_retries += 1
    return Emit(Retry(is_continuation=True, reason="transport", attempt=state.transport_retries, max_tokens=cap))


def _resend_changed(state: ReplyState, attempt: Attempt, error: ProviderError, learned: list[Effect]) -> list[Effect]:
    """Send a changed request once if the error says what to change; return [] otherwise.

    The effects that store a learned limit are added to `learned`.
    """
    is_refusal = error.kind in _REFUSALS
    if is_refusal and (handled := _resend_within_limits(state, attempt, error, learned)):
        return handled
    part = refused_part(error, attempt.request)
    if part is not None:
        return _resend_without_part(state, attempt, error, part)
    return _resend_without_prefill(state, attempt, error) if is_refusal else []


def _resend_within_limits(
    state: ReplyState, attempt: Attempt, error: ProviderError, learned: list[Effect]
) -> list[Effect]:
    """Learn the limit that an error states, and send the request once more within this limit, without an event."""
    limit = learn_limit(error.message, error.param, cap=attempt.request.max_tokens)
    if limit is None or limit.kind in state.learned_limit_kinds:
        return []
    state.learned_limit_kinds.add(limit.kind)
    learned.append(state.learn(Learn(limit)))
    request = attempt.request
    if limit.kind == "window":
        state.counter.record(request, _prompt_size(state, request, limit))
    cap = state.fit_cap(request, min(request.max_tokens, state.model.output_limit or request.max_tokens))
    superseded = state.superseded
    if attempt.kind == "escalated" and superseded is not None and superseded.attempt.kind == "first":
        gain = state.plan.output.min_escalation_gain * superseded.attempt.request.max_tokens
        if cap is None or cap < gain:
            return state.reopen_superseded()
    if cap is None:
        return compact_or_end_unsent(state, request, attempt)
    return state.send_again(attempt, cap) if cap < request.max_tokens else []


def _prompt_size(state: ReplyState, request: ModelRequest, limit: LearnedLimit) -> int:
    """Return the size of the refused prompt: the server's count, or the smallest size that explains the refusal."""
    if limit.prompt is not None:
        return limit.prompt
    if limit.total is not None and limit.total > request.max_tokens:
        return limit.total - request.max_tokens
    return max(state.counter.size_of(request, threshold=0).tokens, limit.tokens - request.max_tokens + 1)


def _resend_without_part(state: ReplyState, attempt: Attempt, error: ProviderError, part: RefusedPart) -> list[Effect]:
    """Send the request once more without the refused images or signatures; later requests also omit them."""
    effects: list[Effect] = []
    if part == "signatures":
        effects.append(state.learn(Learn("refuses_signatures")))
    else:
        if refuses_all_images(error):
            effects.append(state.learn(Learn("refuses_images")))
        text = f"{state.model.name} rejected an image ({error.message}). The model gets a note instead of the image."
        effects.append(Emit(Notice("warning", text)))
    state.plan = replace(state.plan, messages=without_part(state.plan.messages, part))
    request = replace(attempt.request, messages=without_part(attempt.request.messages, part))
    cap = state.fit_cap(request, request.max_tokens)
    if cap is None:
        return [*effects, *compact_or_end_unsent(state, request, attempt)]
    return [*effects, *state.send_again(attempt, cap, request)]


def _resend_without_prefill(state: ReplyState, attempt: Attempt, error: ProviderError) -> list[Effect]:
    """Learn that the host does not support prefill, and ask for the continuation in a user message."""
    if not attempt.request.is_prefill or error.kind is not ErrorKind.BAD_REQUEST:
        return []
    learned = state.learn(Learn("refuses_prefill"))
    max_tokens, is_broken = attempt.request.max_tokens, attempt.is_broken
    request = continuation_request(state.plan, state.model, state.reply_drafts, max_tokens, is_broken=is_broken)
    cap = state.fit_cap(request, max_tokens)
    if cap is None:
        return [learned, *compact_or_end_unsent(state, request, attempt)]
    return [learned, *state.send_continuation(cap, "retries", is_broken=is_broken)]


def resume_compacted(state: ReplyState, messages: tuple[Message, ...]) -> list[Effect]:
    """Continue the text so far after `messages`, the compacted history, or start again if there is no text."""
    phase = state.phase
    assert isinstance(phase, NeedsCompaction)
    state.plan = replace(state.plan, messages=messages)
    effects = state.keep_longest_text(phase.attempt)
    if not state.text.strip():
        return effects + _begin_again(state, phase.attempt, "context")
    return effects + _continue_elsewhere(state, "context")


def _continue_elsewhere(state: ReplyState, reason: str) -> list[Effect]:
    """Continue the text so far after a compacted history, or with another model."""
    is_broken = reason == "fallback" and not state.was_cut
    max_tokens = state.caps.first if is_broken else state.caps.continuation
    request = requests.continuation_request(
        state.plan, state.model, state.reply_drafts, max_tokens, is_broken=is_broken
    )
    cap = state.fit_cap(request, max_tokens)
    if cap is None:
        return compact_or_end_unsent(state, request)
    state.attempt_count += 1
    notice = Emit(Retry(is_continuation=True, reason=reason, attempt=1, max_tokens=cap))
    return [notice, *state.send_continuation(cap, "retries", is_broken=is_broken)]


def finish_stopped(state: ReplyState, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
    """End after a refusal, with its reason; if the window is full, compact or end. The text is kept."""
    ended = attempt.assembler.ended
    detail = f": {ended.detail}" if ended and ended.detail else ""
    if shape.stop is StopReason.REFUSAL:
        has_text = bool(state.text.strip())
        advice = "The text before that is kept." if has_text else "Rephrase the request, or try another model."
        note = f"The provider refused or filtered the reply ({shape.raw_stop}){detail}. {advice}"
        return state.finish("refused", shape.stop, shape.raw_stop, termination=decision.termination, note=note)
    note = "The context window is full, so the reply stops here. Start a new session or shorten the conversation."
    return compact_or_end(state, KeepTruncated(shape.stop, shape.raw_stop, decision.termination, note))


def _keep_truncated(state: ReplyState, fallback: KeepTruncated) -> list[Effect]:
    stop, raw_stop = fallback.stop, fallback.raw_stop
    if state.text.strip():
        return state.finish("cut", stop, raw_stop, termination=fallback.termination, note=fallback.note)
    error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, fallback.note)
    return state.finish("failed", stop, raw_stop, termination="error", error=error)


def _begin_again(state: ReplyState, attempt: Attempt | None, reason: str) -> list[Effect]:
    """Send the first request again after a compaction, or to another model; `attempt` is discarded."""
    state.reply_drafts = []
    request = requests.first_request(state.plan, state.model, state.caps.first)
    cap = state.fit_cap(request, request.max_tokens)
    if cap is None:
        return compact_or_end_unsent(state, request)
    is_first = not state.records
    effects: list[Effect] = []
    if attempt is not None:
        state.discard(attempt)
        if attempt.has_shown_anything:
            effects.append(state.retract_text(reason, 1, cap))
    return effects + state.send("first", replace(request, max_tokens=cap), "initial" if is_first else "retries")


_ISSUE = "cut_arguments"


def argument_requests_left(state: ReplyState, attempt: Attempt) -> int:
    """Return how many more requests may complete the last call: 0 if it is not a write, or the setting is off."""
    if state.plan.output.tool_call_repair != "resume":
        return 0
    last = next((draft for draft in reversed(attempt.drafts) if draft.kind == "call"), None)
    spec = state.tools.get(last.name) if last is not None else None
    if spec is None or not spec.writes_files:
        return 0
    return MAX_RESUMED_CALL_REQUESTS - state.resumed_calls


def ask_for_arguments(state: ReplyState) -> list[Effect]:
    """Request the remaining arguments of the truncated call in `reply_drafts`."""
    from qcode.engine.reply.seam import Seam

    call = _cut_call(state)
    cap = state.caps.continuation
    request = requests.arguments_request(state.plan, state.model, state.reply_drafts, call, call.text, cap)
    fitting_cap = state.fit_cap(request, cap)
    if fitting_cap is None:
        return reject_truncated_call(state, cap, "")
    state.resumed_calls += 1
    notice = Retry(is_continuation=True, reason="call", attempt=state.resumed_calls, max_tokens=fitting_cap)
    request = replace(request, max_tokens=fitting_cap)
    return [Emit(notice), *state.send("resume", request, "repairs", seam=Seam(call.text, is_json=True))]


def handle_arguments(state: ReplyState, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
    """Append the received arguments. Run the call if its JSON is complete, ask again if truncated, or reject it."""
    call = _cut_call(state)
    received = without_opening(text_of(attempt.drafts), "json")
    state.kept_tokens += state.tokens_of(attempt)
    cap = attempt.request.max_tokens
    if attempt.assembler.damaged_events:
        return reject_truncated_call(state, cap, shape.raw_stop)
    closed = _closed_object(call.text + received)
    if closed is not None:
        try:
            arguments = parse_arguments(closed)
        except DuplicateKeyError:
            arguments = None
        if arguments is None or any(name not in arguments for name in state.tools[call.name].required):
            return reject_truncated_call(state, cap, shape.raw_stop)
        call.fragments[:] = [closed]
        call.size = len(closed)
        call.state = "complete"
        repaired = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=True))
        return [repaired, *state.finish("calls", StopReason.TOOL_USE, shape.raw_stop, cap=cap)]
    # A model that stops by itself while the JSON is still open sent something else, such as an apology.
    if not shape.has_hit_cap or not ends_early(call.text + received):
        return reject_truncated_call(state, cap, shape.raw_stop)
    call.append(received)
    if received.strip() and state.resumed_calls < MAX_RESUMED_CALL_REQUESTS:
        return ask_for_arguments(state)
    return reject_truncated_call(state, cap, shape.raw_stop)


def reject_truncated_call(state: ReplyState, cap: int, raw_stop: str) -> list[Effect]:
    """Stop completing the call and reject it like any truncated call."""
    failed = Emit(ToolPayloadRepair(_ISSUE, attempted=True, succeeded=False))
    return [failed, *state.finish("calls", StopReason.MAX_TOKENS, raw_stop, termination="retry_limit", cap=cap)]


def _cut_call(state: ReplyState) -> BlockDraft:
    return next(draft for draft in reversed(state.reply_drafts) if draft.kind == "call")


def _closed_object(text: str) -> str | None:
    """Return the complete JSON value at the start of `text`, None if it is incomplete; text after it is ignored."""
    start = len(text) - len(text.lstrip())
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return text[start:end]
