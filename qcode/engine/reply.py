"""One reply over all its attempts: carries out what `recovery` decides, and keeps shown, stored and judged text one.

Ends with a `ReplyResult`; from then on it takes nothing more. What happens when a stream breaks is in `broken`,
how the rest of a cut call is asked for in `resumed_call`, the texts of requests in `requests`.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine import broken, caps, requests, resumed_call
from qcode.engine.assembler import ReplyShape
from qcode.engine.attempt import Attempt
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Effect, Emit, Learn, ReplyFailed
from qcode.engine.knowledge import KnownModel
from qcode.engine.ledger import Ledger
from qcode.engine.recovery import (
    Budget,
    Continue,
    Decision,
    Done,
    Escalate,
    Fail,
    Nudge,
    RepairCall,
    Resend,
    ResumeCall,
    RunCalls,
    decide,
)
from qcode.engine.reply_state import ReplyState, joined, tokens_of, without_trailing_reasoning
from qcode.engine.requests import ReplyPlan
from qcode.engine.result import ReplyResult, describe_cut, describe_empty, describe_thinking_only
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ContinuationAttempt, Notice, OutputEscalated, Retry, StopReasonObserved
from qcode.protocol.reply import ReplyEnded, ReplyEvent
from qcode.protocol.stops import StopReason


class Reply:
    """`begin` sends the first request; after that every input gives the effects that follow from it."""

    def __init__(
        self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter, ledger: Ledger, *, turn: int, step: int
    ) -> None:
        self._state = ReplyState(plan, model, counter, ledger)
        self._numbers = (turn, step)

    @property
    def result(self) -> ReplyResult | None:
        return self._state.result

    @property
    def model(self) -> KnownModel:
        """The model with what its host taught during this reply."""
        return self._state.model

    def begin(self) -> list[Effect]:
        """Send the first request, or end at once where the prompt leaves no room for a reply."""
        state = self._state
        request = requests.first_request(state.plan, state.model, state.caps.first)
        cap = state.fitted(request, request.max_tokens)
        if cap is None:
            size, window = state.counter.size_of(request).tokens, state.model.window or caps.DEFAULT_CONTEXT_WINDOW
            text = (
                f"The prompt (about {size:,} tokens) leaves no room for a reply in the context window of {window:,}. "
                "Shorten it, attach less, or start a new session."
            )
            error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, text)
            return state.finish("failed", StopReason.CONTEXT_WINDOW_EXCEEDED, "", error=error)
        return state.send("first", replace(request, max_tokens=cap), "initial")

    def handle_event(self, event: ReplyEvent) -> list[Effect]:
        attempt = self._state.attempt
        if attempt is None:
            return []
        effects: list[Effect] = [*attempt.feed(event)]
        if isinstance(event, ReplyEnded):
            effects += attempt.flush()
            effects += self._attempt_ended(attempt, event)
        return effects

    def handle_failure(self, failure: ReplyFailed) -> list[Effect]:
        return broken.attempt_failed(self._state, failure)

    def handle_wait_elapsed(self) -> list[Effect]:
        resume, self._state.after_wait = self._state.after_wait, None
        return resume() if resume is not None else []

    def cancel(self) -> list[Effect]:
        """End here: what was shown stays, nothing is asked any more."""
        state = self._state
        if state.result is not None:
            return []
        attempt = state.attempt
        state.after_wait = None
        if attempt is not None:
            state.close_attempt(attempt, "cancelled")
        effects = state.salvage(attempt)
        return effects + state.finish("cancelled", None, "", why="cancelled", note="Interrupted.")

    def _attempt_ended(self, attempt: Attempt, ended: ReplyEnded) -> list[Effect]:
        state = self._state
        state.close_attempt(attempt, str(ended.stop))
        state.failures = 0
        state.relearned.clear()
        usage = attempt.assembler.usage
        state.counter.record(attempt.request, usage.input, usage.output)
        model = state.model
        effects: list[Effect] = [
            Emit(StopReasonObserved(model.provider, model.name, ended.stop, ended.raw_stop, *self._numbers))
        ]
        shape = attempt.assembler.shape(attempt.request.max_tokens, base_has_text=bool(state.text.strip()))
        if attempt.kind == "resume":
            return effects + resumed_call.attempt_ended(state, attempt, shape)
        effects += self._note_silent_cap(attempt, shape)
        if state.aside is not None:
            shape = self._compare_with_aside(attempt, shape, effects)
        return effects + self._carry_out(decide(shape, self._budget(attempt, shape)), attempt, shape)

    def _note_silent_cap(self, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """Remember a host that cut an escalated attempt far below its cap, no later than the attempt before it."""
        before = self._state.aside.output_tokens if self._state.aside else None
        tokens = shape.output_tokens
        if attempt.kind != "escalated" or before is None or tokens is None or shape.stop is not StopReason.MAX_TOKENS:
            return []
        gained = tokens > before * self._state.plan.output.min_escalation_gain
        if gained or not caps.is_far_below(tokens, shape.cap):
            return []
        return [self._state.learn(Learn("silently_capped"))]

    def _compare_with_aside(self, attempt: Attempt, shape: ReplyShape, effects: list[Effect]) -> ReplyShape:
        """Drop the partial that was kept aside, unless what came instead is no text at all, or less and stopped."""
        state = self._state
        aside = state.aside
        assert aside is not None
        is_stopped = shape.stop in (StopReason.REFUSAL, StopReason.CONTEXT_WINDOW_EXCEEDED)
        is_less = not shape.has_text or (is_stopped and attempt.shown_text < len(aside.text))
        if shape.calls or not aside.text.strip() or not is_less:
            state.aside = None
            return shape
        state.discard_last(attempt)
        effects += state.restore_aside()
        attempt.assembler.drafts = []
        keeps_stop = is_stopped or shape.stop is StopReason.MALFORMED_CALL or not state.was_cut
        stop = shape.stop if keeps_stop else StopReason.MAX_TOKENS
        return replace(shape, stop=stop, has_text=True, has_reasoning=False, last="text", has_progress=True)

    def _budget(self, attempt: Attempt, shape: ReplyShape) -> Budget:
        state = self._state
        output = state.plan.output
        tokens = state.kept_tokens + tokens_of(attempt)
        chars = sum(draft.size for draft in state.base) + sum(draft.size for draft in attempt.drafts)
        needs_more = shape.hit_cap or shape.arguments_incomplete
        return Budget(
            escalation_cap=self._escalation_cap(attempt) if needs_more else None,
            continuation_cap=self._continuation_cap(attempt) if needs_more else None,
            continuations_left=output.max_continuations - state.continuations,
            tokens_left=state.caps.total_tokens - tokens,
            chars_left=state.caps.total_chars - chars,
            nudges_left=state.nudges_left,
            resumed_calls_left=resumed_call.requests_left(state, attempt) if needs_more else 0,
            prefers_continuing=output.policy == "continue",
            is_continuation=attempt.kind == "continuation",
        )

    def _escalation_cap(self, attempt: Attempt) -> int | None:
        state = self._state
        if state.has_escalated or attempt.kind != "first" or state.base or state.caps.escalated is None:
            return None
        cap = state.fitted(attempt.request, state.caps.escalated)
        gain = state.plan.output.min_escalation_gain * attempt.request.max_tokens
        return cap if cap is not None and cap >= gain else None

    def _continuation_cap(self, attempt: Attempt) -> int | None:
        state = self._state
        wanted = state.caps.continuation
        base = without_trailing_reasoning(joined(state.base, attempt.drafts))
        if not any(draft.kind == "text" for draft in base):
            return state.fitted(attempt.request, wanted)
        request = requests.continuing_request(state.plan, state.model, base, wanted, is_broken=False)
        cap = state.fitted(request, wanted)
        if cap is None or state.plan.output.max_total_completion_tokens is None:
            return cap
        left = state.caps.total_tokens - state.kept_tokens - tokens_of(attempt)
        return min(cap, left) if left > 0 else cap

    def _carry_out(self, decision: Decision, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        state = self._state
        match decision:
            case Escalate():
                return self._escalate(attempt, decision.cap)
            case Continue():
                return self._continue(attempt, decision.cap)
            case Nudge() | RepairCall():
                return self._nudge(attempt, "thinking" if isinstance(decision, Nudge) else "call")
            case ResumeCall():
                state.was_cut = True
                state.absorb(attempt)
                return resumed_call.ask(state)
            case RunCalls():
                state.absorb(attempt)
                return state.finish("calls", shape.stop, shape.raw_stop, cap=attempt.request.max_tokens)
            case Resend():
                state.absorb(attempt)
                return state.finish("paused", shape.stop, shape.raw_stop)
            case Done():
                return self._finish_done(decision, attempt, shape)
            case Fail():
                return self._fail(decision, attempt, shape)

    def _escalate(self, attempt: Attempt, cap: int) -> list[Effect]:
        state = self._state
        state.was_cut = state.has_escalated = True
        state.discard_last(attempt)
        state.set_aside(attempt)
        return [
            state.start_over("max_tokens", 1, cap),
            Emit(OutputEscalated(attempt.request.max_tokens, cap)),
            *state.send("escalated", replace(attempt.request, max_tokens=cap), "escalations"),
        ]

    def _continue(self, attempt: Attempt, cap: int) -> list[Effect]:
        state = self._state
        state.was_cut = True
        state.absorb(attempt)
        state.continuations += 1
        state.parts += 1
        index, tokens, left = state.continuations, state.kept_tokens, state.caps.total_tokens - state.kept_tokens
        return [
            Emit(Retry(is_continuation=True, reason="max_tokens", attempt=index, max_tokens=cap)),
            Emit(ContinuationAttempt(index, tokens, len(state.text), left)),
            *state.send_continuation(cap, "continuations", is_broken=False),
        ]

    def _nudge(self, attempt: Attempt, reason: str) -> list[Effect]:
        """Ask once more in other words; what was shown is kept aside."""
        state = self._state
        state.nudges_left -= 1
        state.discard_last(attempt)
        state.set_aside(attempt)
        state.was_cut = state.was_cut or reason == "thinking"
        is_thinking = reason == "thinking"
        build = requests.nudging_request if is_thinking else requests.repairing_request
        request = build(state.plan, state.model, state.caps.continuation)
        cap = state.fitted(request, request.max_tokens) or attempt.request.max_tokens
        return [
            state.start_over(reason, 1, cap),
            *state.send("nudge" if is_thinking else "repair", replace(request, max_tokens=cap), "repairs"),
        ]

    def _finish_done(self, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        state = self._state
        if shape.stop in (StopReason.REFUSAL, StopReason.CONTEXT_WINDOW_EXCEEDED):
            state.absorb_text(attempt)
            return self._finish_stopped(decision, attempt, shape)
        state.absorb(attempt)
        if decision.is_cut:
            note = describe_cut(state.records, decision.why)
            return state.finish("cut", StopReason.MAX_TOKENS, shape.raw_stop, why=decision.why, note=note)
        effects: list[Effect] = []
        if shape.stop is StopReason.UNKNOWN:
            reason = f'"{shape.raw_stop}"' if shape.raw_stop else "none"
            text = f"The reply ended with a stop reason qcode does not know ({reason}); its text is kept."
            effects.append(Emit(Notice("warning", text)))
        return effects + state.finish("done", shape.stop, shape.raw_stop)

    def _finish_stopped(self, decision: Done, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        """End on a refusal or a full context: the text stays, the reason is named."""
        state = self._state
        ended = attempt.assembler.ended
        detail = f": {ended.detail}" if ended and ended.detail else ""
        if shape.stop is StopReason.REFUSAL:
            note = f"The provider refused or filtered the reply ({shape.raw_stop}){detail}. What came before is kept."
            return state.finish("refused", shape.stop, shape.raw_stop, why=decision.why, note=note)
        note = "The context window is full, so the reply stops here. Start a new session or shorten the conversation."
        if state.text.strip():
            return state.finish("cut", shape.stop, shape.raw_stop, why=decision.why, note=note)
        error = ErrorInfo(ErrorKind.CONTEXT_OVERFLOW, note)
        return state.finish("failed", shape.stop, shape.raw_stop, why="error", error=error)

    def _fail(self, decision: Fail, attempt: Attempt, shape: ReplyShape) -> list[Effect]:
        state = self._state
        if decision.why in ("thinking_only", "empty"):
            state.was_cut = True
            is_empty = decision.why == "empty"
            note = (
                describe_empty(state.records)
                if is_empty
                else describe_thinking_only(state.records, sum(draft.size for draft in attempt.drafts))
            )
            return state.finish("cut", StopReason.MAX_TOKENS, shape.raw_stop, why="no_progress", note=note)
        raw = shape.raw_stop or "none given"
        text = (
            f"The model's tool call could not be read twice ({raw}). Try again, or put the request in other words."
            if decision.why == "malformed"
            else f"The reply was empty and ended for an unknown reason ({raw}). Try again, or try another model."
        )
        state.absorb_text(attempt)
        error = ErrorInfo(ErrorKind.BAD_RESPONSE, text)
        return state.finish("failed", shape.stop, shape.raw_stop, why="error", error=error)
