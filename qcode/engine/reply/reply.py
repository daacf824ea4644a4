"""The state machine of one reply over all its attempts; it carries out the decisions of `recovery`.

The shown, the stored and the classified text are always the same. A reply ends with a `ReplyResult` and then ignores
every input. `failures` handles a broken stream, a full window and a truncated call; `requests` builds the requests.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine import caps, synthetic
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Effect, Emit, RateLimitAnswered, ReplyFailed, StopRequest
from qcode.engine.ledger import Ledger
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.reply import failures, requests
from qcode.engine.reply.assembler import ReplyShape
from qcode.engine.reply.attempt import Attempt
from qcode.engine.reply.phase import (
    AtRateLimit,
    Backoff,
    Finished,
    KeepTruncated,
    NeedsCompaction,
    NeedsModel,
    Reopened,
    ReplyPhase,
    ReplyResult,
    Streaming,
)
from qcode.engine.reply.recovery import (
    AskForAnswer,
    Budget,
    CommitPaused,
    Continue,
    Decision,
    Done,
    Escalate,
    Fail,
    RepairCall,
    ResumeCall,
    RunCalls,
    decide,
)
from qcode.engine.reply.requests import ReplyPlan
from qcode.engine.reply.state import (
    ReplyState,
    describe_cut,
    describe_empty,
    describe_full_window,
    describe_overspent,
    describe_repetition,
    describe_thinking_only,
    join_drafts,
    without_calls,
    without_trailing_reasoning,
)
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    CANCELLED_NOTE,
    ContinuationAttempt,
    Notice,
    OutputEscalated,
    Retry,
    StopReasonObserved,
    ToolPayloadRepair,
)
from qcode.protocol.messages import Message
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import EventDamaged, Limit, ReplyEnded, ReplyEvent, StopReason
from qcode.protocol.usage import Usage


class Reply:
    """One reply. `begin` sends the first request; then each input returns its effects.

    `ledger` counts the requests, tokens and costs of the turn.
    """

    def __init__(
        self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter, ledger: Ledger, *, turn: int, step: int
    ) -> None:
        self._state = ReplyState(plan, model, counter, ledger)
        self._turn = turn
        self._step = step

    def __repr__(self) -> str:
        return f"Reply({self.phase!r})"

    @property
    def phase(self) -> ReplyPhase:
        """The current phase.

        In `NeedsCompaction`, call `resume` or `abort_uncompacted`; in `NeedsModel`, `resume_with_model` or
        `resume_without_model`.
        """
        return self._state.phase

    @property
    def result(self) -> ReplyResult | None:
        phase = self._state.phase
        return phase.result if isinstance(phase, Finished) else None

    @property
    def model(self) -> KnownModel:
        """The model, with the facts learned from its host during this reply."""
        return self._state.model

    def begin(self) -> list[Effect]:
        """Send the first request; if the prompt fills the window, request a compaction or end at once."""
        state = self._state
        request = requests.first_request(state.plan, state.model, state.caps.first)
        cap = state.fit_cap(request, request.max_tokens)
        if cap is None:
            return failures.compact_or_end_unsent(state, request)
        return state.send("first", replace(request, max_tokens=cap), "initial")

    def handle_event(self, event: ReplyEvent) -> list[Effect]:
        """Handle an event of the current stream. Events in any other phase are ignored."""
        phase = self._state.phase
        if not isinstance(phase, Streaming):
            return []
        attempt = phase.attempt
        if isinstance(event, EventDamaged):
            attempt.has_begun = True
            if (restarted := failures.restart_after_damage(self._state)) is not None:
                return restarted
        effects: list[Effect] = [*attempt.receive(event)]
        if attempt.is_repeating:
            return effects + self._stop_repeating(attempt)
        return effects + self._attempt_ended(attempt, event) if isinstance(event, ReplyEnded) else effects

    def handle_failure(self, failure: ReplyFailed) -> list[Effect]:
        """Retry, wait or end after the stream failed.

        If the attempt had replaced a truncated one, the truncated one may be reopened and decided on again.
        """
        state = self._state
        effects = failures.handle_attempt_failure(state, failure)
        phase = state.phase
        if not isinstance(phase, Reopened):
            return effects
        decision = decide(phase.shape, self._budget(phase.attempt, phase.shape))
        return effects + self._perform(decision, phase.attempt, phase.shape)

    def handle_wait_elapsed(self, seconds: float = 0.0) -> list[Effect]:
        """Continue after a wait that took `seconds`."""
        match self._state.phase:
            case Backoff() as phase:
                return failures.retry(self._state, phase)
            case AtRateLimit(is_question=False) as phase:
                return failures.handle_rate_limit_wait(self._state, phase, seconds)
            case _:
                return []

    def handle_rate_limit_answered(self, answer: RateLimitAnswered) -> list[Effect]:
        """Wait or end, as the user decided when a rate limit was reached."""
        phase = self._state.phase
        if not isinstance(phase, AtRateLimit) or not phase.is_question:
            return []
        return failures.handle_rate_limit_answer(self._state, phase, answer)

    def resume_with_model(self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter) -> list[Effect]:
        """Continue with another model after `NeedsModel`."""
        return failures.resume_with_model(self._state, plan, model, counter)

    def resume_without_model(self, limit: ErrorInfo | None = None) -> list[Effect]:
        """Wait or end after `NeedsModel`, because no other model is available.

        `limit` is the rate limit of another model that ends first; None if there is none.
        """
        return failures.resume_without_model(self._state, limit)

    def resume(self, messages: tuple[Message, ...]) -> list[Effect]:
        """Continue the text after the compacted history `messages`, or start again if there is no text."""
        return failures.resume_compacted(self._state, messages)

    def abort_uncompacted(self) -> list[Effect]:
        """End with the fallback of `NeedsCompaction`, because the conversation could not be compacted."""
        phase = self._state.phase
        if not isinstance(phase, NeedsCompaction):
            return []
        return failures.end_uncompacted(self._state, phase.fallback, phase.attempt)

    def cancel(self, *, is_unsent: bool = False) -> list[Effect]:
        """End now and keep the shown text. `is_unsent`: the last request was not sent."""
        state = self._state
        attempt: Attempt | None = None
        match state.phase:
            case Finished():
                return []
            case Streaming(cause=cause) if is_unsent:
                state.ledger.undo_count(cause)
            case Streaming(attempt=attempt):
                state.close_attempt(attempt, "cancelled")
            case NeedsCompaction(attempt=attempt) | NeedsModel(attempt=attempt):
                pass
            case AtRateLimit(after_wait=NeedsModel(attempt=attempt)):
                pass
        effects = state.keep_longest_text(attempt, is_interrupted=True)
        return effects + state.finish("cancelled", termination="cancelled", note=CANCELLED_NOTE)

    def _attempt_ended(self, attempt: Attempt, ended: ReplyEnded) -> list[Effect]:
        """Record the ended attempt, classify it, and carry out the decision about it."""
        state = self._state
        state.close_attempt(attempt, str(ended.stop))
        state.reset_failures()
        usage = attempt.assembler.usage
        state.counter.record(attempt.request, usage.input, usage.output)
        model = state.model
        effects: list[Effect] = [
            Emit(StopReasonObserved(model.provider, model.name, ended.stop, ended.raw_stop, self._turn, self._step))
        ]
        shape = attempt.assembler.shape(attempt.request.max_tokens, has_earlier_text=bool(state.text.strip()))
        if attempt.completes_call and not _is_stopped(shape):
            return effects + failures.handle_arguments(state, attempt, shape)
        if attempt.completes_call:
            # The reply ends without the truncated call, and without what was received of its arguments.
            attempt.assembler.drafts = []
            state.reply_drafts = without_calls(state.reply_drafts)
        if attempt.kind == "repair":
            is_repaired = shape.stop is not StopReason.MALFORMED_CALL
            effects.append(Emit(ToolPayloadRepair("malformed_call", attempted=True, succeeded=is_repaired)))
        effects += self._learn_silent_cap(attempt, shape)
        if state.superseded is not None:
            shape = self._compare_with_superseded(attempt, shape, effects)
        return effects + self._perform(decide(shape, self._budget(attempt, shape)), attempt, shape)

    def _stop_repeating(self, attempt: Attempt) -> list[Effect]:
        """Stop an attempt in which the model repeats itself; the reply ends and keeps its text."""
        state = self._state
        state.close_attempt(attempt, "repetition")
        stopped: list[Effect] = [StopRequest()]
        if attempt.completes_call:
            return stopped + failures.reject_truncated_call(state, attempt.request.max_tokens, "")
        if attempt.kind == "continuation" and state.was_cut:
            state.absorb_text(attempt)
            note = describe_cut(state.records, "repetition")
            return stopped + state.finish("cut", StopReason.MAX_TOKENS, termination="no_progress", note=note)
        stopped += state.keep_longest_text(attempt)
        note = describe_repetition(has_text=bool(state.text.strip()))
        error = ErrorInfo(ErrorKind.REPETITION, note)
        return stopped + state.finish("failed", termination="error", note=note, error=error)

    def _learn_silent_cap(self, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """Learn that the host truncates far below the cap, if the escalated attempt was hardly longer."""
        superseded = self._state.superseded
        tokens = shape.output_tokens
        before = superseded.attempt.assembler.usage.output if superseded else None
        if attempt.kind != "escalated" or shape.stop is not StopReason.MAX_TOKENS or before is None or tokens is None:
            return []
        is_longer = tokens > before * self._state.plan.output.min_escalation_gain
        if is_longer or not caps.is_far_below_cap(tokens, shape.cap):
            return []
        return [self._state.learn(Learn("silently_capped"))]

    def _compare_with_superseded(self, attempt: Attempt, shape: ReplyShape, effects: list[Effect]) -> ReplyShape:
        """Drop the superseded text, or restore it if the new attempt has no text, or was stopped with less text.

        Return the shape of the attempt that stays. The events of a restoration are added to `effects`.
        """
        state = self._state
        superseded = state.superseded
        assert superseded is not None
        is_worse = not shape.has_text or (_is_stopped(shape) and attempt.shown_chars < len(superseded.text))
        has_calls = bool(shape.calls) and not _is_stopped(shape)
        if has_calls or not superseded.text.strip() or not is_worse:
            state.superseded = None
            return shape
        state.discard(attempt)
        effects += state.restore_superseded()
        # `_perform` adds the blocks and tokens of `attempt` to the reply; the restored text must stay as it is.
        attempt.assembler.drafts = []
        attempt.assembler.usage = Usage()
        has_final_stop = _is_stopped(shape) or shape.stop is StopReason.MALFORMED_CALL
        if state.was_cut and not has_final_stop:
            shape = replace(shape, stop=StopReason.MAX_TOKENS, raw_stop=state.cut_raw_stop)
        return replace(shape, output_tokens=None, has_text=True, has_reasoning=False, last="text", calls=())

    def _budget(self, attempt: Attempt, shape: ReplyShape) -> Budget:
        """Return the remaining budget after `attempt`, for `recovery.decide`."""
        state = self._state
        output = state.plan.output
        tokens = state.kept_tokens + state.tokens_of(attempt)
        chars = sum(draft.size for draft in state.reply_drafts) + sum(draft.size for draft in attempt.drafts)
        needs_more = shape.has_hit_cap or shape.has_incomplete_arguments
        return Budget(
            escalation_cap=self._escalation_cap(attempt) if needs_more else None,
            continuation_cap=self._continuation_cap(attempt) if needs_more else None,
            continuations_left=output.max_continuations - state.continuations,
            tokens_left=state.caps.total_tokens - tokens,
            chars_left=state.caps.total_chars - chars,
            repairs_left=state.repairs_left,
            resumed_calls_left=failures.argument_requests_left(state, attempt) if needs_more else 0,
            prefers_continuing=output.policy == "continue",
            is_append_only=output.is_append_only,
            is_continuation=attempt.kind == "continuation",
            is_affordable=state.is_affordable,
        )

    def _escalation_cap(self, attempt: Attempt) -> int | None:
        """Return the cap for an escalation of `attempt`, None if it cannot be escalated."""
        state = self._state
        if state.has_escalated or attempt.kind != "first" or state.reply_drafts or state.caps.escalation is None:
            return None
        cap = state.fit_cap(attempt.request, state.caps.escalation)
        gain = state.plan.output.min_escalation_gain * attempt.request.max_tokens
        return cap if cap is not None and cap >= gain else None

    def _continuation_cap(self, attempt: Attempt) -> int | None:
        """Return the cap for a continuation after `attempt`, None if it does not fit the window."""
        state = self._state
        requested = state.caps.continuation
        cap = state.fit_cap(self._continuation_request(attempt), requested)
        if cap is None or state.plan.output.max_total_completion_tokens is None:
            return cap
        tokens_left = state.caps.total_tokens - state.kept_tokens - state.tokens_of(attempt)
        return min(cap, tokens_left) if tokens_left > 0 else cap

    def _continuation_request(self, attempt: Attempt) -> ModelRequest:
        """Return the request that would continue the text so far; the same request if there is no text."""
        state = self._state
        drafts = without_trailing_reasoning(join_drafts(state.reply_drafts, attempt.drafts))
        if not any(draft.kind == "text" for draft in drafts):
            return attempt.request
        return requests.continuation_request(state.plan, state.model, drafts, state.caps.continuation, is_broken=False)

    def _perform(self, decision: Decision, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """Carry out a decision about `attempt`."""
        state = self._state
        match decision:
            case Escalate():
                return self._escalate(attempt, shape, decision.cap)
            case Continue():
                return self._continue(attempt, shape, decision.cap)
            case AskForAnswer():
                return self._ask_for_answer(attempt, shape)
            case RepairCall():
                return self._repair(attempt)
            case ResumeCall():
                state.mark_cut(shape.raw_stop)
                state.absorb(attempt)
                return failures.ask_for_arguments(state)
            case RunCalls():
                return self._run_calls(decision, attempt, shape)
            case CommitPaused():
                state.absorb(attempt)
                return state.finish("paused", shape.stop, shape.raw_stop)
            case Done():
                return self._finish_done(decision, attempt, shape)
            case Fail():
                return self._fail(decision, attempt, shape)

    def _run_calls(self, decision: RunCalls, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """Commit the reply with its calls; an incomplete last call is rejected."""
        state = self._state
        state.absorb(attempt)
        cap = attempt.request.max_tokens
        if not shape.has_incomplete_arguments:
            return state.finish("calls", shape.stop, shape.raw_stop, cap=cap)
        state.mark_cut(shape.raw_stop)
        return state.finish(
            "calls",
            StopReason.MAX_TOKENS,
            shape.raw_stop,
            termination="retry_limit",
            cap=cap,
            escalates_next_request=decision.escalates_next_request,
        )

    def _escalate(self, attempt: Attempt, shape: ReplyShape, cap: int) -> list[Effect]:
        """Send the request again with a larger cap; the truncated attempt is superseded."""
        state = self._state
        state.mark_cut(shape.raw_stop)
        state.has_escalated = True
        state.supersede(attempt, shape)
        return [
            state.retract_text("max_tokens", 1, cap),
            Emit(OutputEscalated(attempt.request.max_tokens, cap)),
            *state.send("escalated", replace(attempt.request, max_tokens=cap), "escalations"),
        ]

    def _continue(self, attempt: Attempt, shape: ReplyShape, cap: int) -> list[Effect]:
        """Request the continuation of the truncated text."""
        state = self._state
        state.mark_cut(shape.raw_stop)
        state.absorb(attempt)
        state.continuations += 1
        state.attempt_count += 1
        tokens_left = state.caps.total_tokens - state.kept_tokens
        return [
            Emit(Retry(is_continuation=True, reason="max_tokens", attempt=state.continuations, max_tokens=cap)),
            Emit(ContinuationAttempt(state.continuations, state.kept_tokens, len(state.text), tokens_left)),
            *state.send_continuation(cap, "continuations", is_broken=False),
        ]

    def _ask_for_answer(self, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """Ask once for the answer itself, after reasoning used up the cap."""
        state = self._state
        state.mark_cut(shape.raw_stop)
        state.repairs_left -= 1
        state.supersede(attempt)
        request = requests.answer_request(state.plan, state.model, state.caps.continuation)
        cap = state.fit_cap(request, request.max_tokens)
        if cap is None:
            return failures.compact_or_end_unsent(state, request)
        return [
            state.retract_text("thinking", 1, cap),
            *state.send("nudge", replace(request, max_tokens=cap), "repairs"),
        ]

    def _repair(self, attempt: Attempt) -> list[Effect]:
        """Ask once for a well-formed call.

        The reply keeps the text of earlier attempts, and text of this attempt that the front end cannot remove. If
        there is none, this attempt is superseded.
        """
        state = self._state
        state.repairs_left -= 1
        is_continued = bool(state.reply_drafts) or (state.plan.output.is_append_only and attempt.has_nonblank_text)
        if is_continued:
            state.absorb_text(attempt)
            state.reply_drafts = without_trailing_reasoning(state.reply_drafts)
        else:
            state.supersede(attempt)
        request = requests.repair_request(state.plan, state.model, state.reply_drafts, state.caps.continuation)
        cap = state.fit_cap(request, request.max_tokens)
        if cap is None:
            return failures.compact_or_end_unsent(state, request)
        effects: list[Effect] = []
        ended = attempt.assembler.ended
        if ended is not None and ended.detail:
            effects.append(Emit(Notice("warning", synthetic.unreadable_call_notice(ended.detail))))
        if is_continued:
            effects.append(Emit(Retry(is_continuation=True, reason="call", attempt=1, max_tokens=cap)))
        else:
            effects.append(state.retract_text("call", 1, cap))
        return effects + state.send("repair", replace(request, max_tokens=cap), "repairs")

    def _finish_done(self, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """End the reply: complete, refused, or truncated with a note for the user."""
        state = self._state
        if _is_stopped(shape):
            state.absorb_text(attempt)
            return failures.finish_stopped(state, decision, attempt, shape)
        if decision.is_cut:
            return self._finish_cut(decision, attempt, shape)
        state.absorb(attempt)
        effects: list[Effect] = []
        if shape.stop is StopReason.UNKNOWN:
            reason = f'"{shape.raw_stop}"' if shape.raw_stop else "none"
            model = state.model.title
            text = f"{model}: the reply ended with an unknown stop reason ({reason}); its text is kept."
            effects.append(Emit(Notice("warning", text, is_once=True)))
        return effects + state.finish("done", shape.stop, shape.raw_stop)

    def _finish_cut(self, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """End the reply as truncated, or request a compaction if only the full window prevents a continuation."""
        state = self._state
        continuing = self._continuation_request(attempt)
        state.absorb(attempt)
        state.mark_cut(shape.raw_stop)
        termination, stop, raw_stop = decision.termination, StopReason.MAX_TOKENS, shape.raw_stop
        is_exhausted = termination == "budget_exhausted"
        cost_limit = state.plan.max_budget_usd
        if is_exhausted and cost_limit is not None and not state.is_affordable:
            note = describe_overspent(state.records, cost_limit)
            return state.finish("cut", stop, raw_stop, termination=termination, note=note, limit=Limit.COST)
        if is_exhausted and state.fit_cap(continuing, continuing.max_tokens) is None:
            note = describe_full_window(state.counter.size_of(continuing, threshold=0), state.model.window)
            return failures.compact_or_end(state, KeepTruncated(stop, raw_stop, termination, note))
        note = describe_cut(state.records, termination, can_raise_cap=state.can_raise_cap)
        return failures.end_uncompacted(state, KeepTruncated(stop, raw_stop, termination, note))

    def _fail(self, decision: Fail, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """End a reply that has nothing usable."""
        state = self._state
        raw = shape.raw_stop or "none given"
        can_raise_cap = state.can_raise_cap
        match decision.cause:
            case "empty":
                return self._fail_truncated(shape, describe_empty(state.records, can_raise_cap=can_raise_cap))
            case "thinking_only":
                thinking_chars = sum(draft.size for draft in attempt.drafts)
                note = describe_thinking_only(state.records, thinking_chars, can_raise_cap=can_raise_cap)
                return self._fail_truncated(shape, note)
            case "malformed":
                text = f"The model sent an unreadable tool call twice ({raw}). Try again, or rephrase the request."
                error = ErrorInfo(ErrorKind.UNREADABLE_CALL, text)
            case "unknown":
                text = f"The reply was empty and ended for an unknown reason ({raw}). Try again, or try another model."
                error = ErrorInfo(ErrorKind.BAD_RESPONSE, text)
        state.absorb_text(attempt)
        return state.finish("failed", shape.stop, shape.raw_stop, termination="error", error=error)

    def _fail_truncated(self, shape: ReplyShape, note: str) -> list[Effect]:
        """End a truncated reply that has no text."""
        self._state.mark_cut(shape.raw_stop)
        return self._state.finish("cut", StopReason.MAX_TOKENS, shape.raw_stop, termination="no_progress", note=note)


def _is_stopped(shape: ReplyShape) -> bool:
    """Return whether the provider refused the reply or the window is full, so a continuation cannot succeed."""
    return shape.stop in (StopReason.REFUSAL, StopReason.CONTEXT_WINDOW_EXCEEDED)
