"""The state machine of a turn, from one user message until the model is done. `handle(Input) -> list[Effect]`, pure.

A turn is a sequence of steps; a step is one reply and its tool calls. `reply` handles the reply and `calls` the calls;
this module starts the next step or ends the turn. Time is passed in as `now`, in seconds. `Tally` holds the usage and
limits of the turn; the limits of the prompt also cover the turns of its sub-agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, cast

from qcode.engine import synthetic
from qcode.engine.calls import CallRound
from qcode.engine.caps import CAPPED_DEFAULT_MAX_TOKENS
from qcode.engine.compaction import Cause, CompactionResult, CompactionScheduler, compaction_effects
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    CancelRequested,
    CompactRequested,
    Confirm,
    Confirmed,
    Effect,
    Emit,
    EndTurn,
    HookStopped,
    Input,
    ModelSwitched,
    NoModelLeft,
    RateLimitAnswered,
    ReplyFailed,
    Review,
    Steering,
    SteerQueued,
    ToolEnded,
    TurnSettings,
    UserSubmitted,
    WaitElapsed,
)
from qcode.engine.ledger import Tally
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply.phase import NeedsCompaction, NeedsModel, ReplyResult
from qcode.engine.reply.reply import Reply
from qcode.engine.reply.requests import ReplyPlan
from qcode.engine.transcript import has_images, without_refused_parts, without_signals
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    CompactionStarted,
    ModelFellBack,
    Notice,
    ResultsCommitted,
    Signal,
    StepStarted,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.messages import Message, typed_text
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    Limit,
    Outcome,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    TextCallsRecognized,
    TextDelta,
    ToolArgsDelta,
)
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.engine.compactor import Compactor

MAX_PAUSES = 20
"""How often in one turn a provider may pause a reply, which qcode then sends back."""
MAX_HOOK_CONTINUATIONS = 8
"""How often hooks can continue one turn that would otherwise end."""
_DELTAS = frozenset({TextDelta, ReasoningDelta, ToolArgsDelta})


@dataclass(frozen=True, slots=True)
class Idle:
    """The turn has had no input yet."""


@dataclass(frozen=True, slots=True)
class Replying:
    """The reply of a step is in progress."""

    reply: Reply
    """`reply.phase` says what the reply waits for."""


@dataclass(frozen=True, slots=True)
class Calling:
    """The calls of a reply are being approved and run."""

    round: CallRound
    result: ReplyResult
    """The reply that contains the calls."""


@dataclass(frozen=True, slots=True)
class Compacting:
    """The transcript is being compacted."""

    compactor: Compactor
    then: AfterCompaction
    """The next action of the turn, also after a failed compaction."""


@dataclass(frozen=True, slots=True)
class ConfirmingEnd:
    """The hooks are asked whether the turn may end."""

    result: ReplyResult


@dataclass(frozen=True, slots=True)
class ConfirmingCompaction:
    """The hooks are asked whether a compaction may run."""

    cause: Cause
    then: AfterCompaction
    """The next action of the turn after the compaction."""
    focus: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over and ignores every input."""

    outcome: Outcome


TurnPhase: TypeAlias = Idle | Replying | Calling | Compacting | ConfirmingEnd | ConfirmingCompaction | Ended


@dataclass(frozen=True, slots=True)
class BeginStep:
    """Compaction started before a step, because the window was nearly full."""


@dataclass(frozen=True, slots=True)
class ResumeReply:
    """Compaction started during a reply, because the window was full: the reply's phase is `NeedsCompaction`."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class EndCompaction:
    """The user requested the compaction, which is the whole turn."""


AfterCompaction: TypeAlias = BeginStep | ResumeReply | EndCompaction


class Turn:
    """One turn, which is over once it has returned `EndTurn`.

    `messages` is the transcript so far. `number` counts turns from 1. `tally` is passed for the turn of a sub-agent.
    """

    def __init__(
        self,
        settings: TurnSettings,
        model: KnownModel,
        messages: Iterable[Message],
        counter: PromptCounter,
        *,
        number: int = 1,
        tally: Tally | None = None,
    ) -> None:
        # The driver may replace both before the first input, for example after a local server reported its window.
        self.model = model
        self.settings = settings
        self.phase: TurnPhase = Idle()
        """The current phase, which says what the turn waits for."""
        self._messages = list(messages)
        self._counter = counter
        self._number = number
        self.tally = tally or Tally(settings, model.facts.price)
        self._review = Review(settings.check)
        self._steering = Steering()
        self._step = 0
        self._pauses = 0
        self._started_at = self._now = 0.0
        self._text = ""
        """The last text of the model that is not blank: the answer of the turn."""
        self._reply_texts: list[str] = []
        """The text of each reply that has one; a paused reply and its continuation are one text."""
        self._paused_text = ""
        """The text before a pause of the provider; the next reply continues it."""
        self._is_answered = False
        """The last reply has text."""
        self._compaction = CompactionScheduler(settings.compaction)
        self._escalates_next_request = False
        """The next request has the larger cap, because the last reply could not be escalated."""
        self._hook_continuations = 0
        """How often a hook has continued the turn."""

    @property
    def is_over(self) -> bool:
        return isinstance(self.phase, Ended)

    def handle(self, incoming: Input, now: float = 0.0) -> list[Effect]:
        """Handle one input; return its effects in the order to perform them. Nothing follows `EndTurn`."""
        self._now = now
        phase = self.phase
        if isinstance(phase, Replying) and type(incoming) in _DELTAS:
            reply = phase.reply
            effects = reply.handle_event(cast("ReplyEvent", incoming))
            return effects if reply.result is None else self._relay_reply(reply, effects)
        return [] if isinstance(phase, Ended) else self._dispatch(incoming)

    def withdraw_steering(self, text: str) -> SteerQueued | None:
        """Remove the last queued message with this text and return it; None if it is not in the queue."""
        return self._steering.remove(text)

    def _dispatch(self, incoming: Input) -> list[Effect]:
        """Handle an input by its type. An input that does not fit the phase is ignored."""
        phase = self.phase
        if isinstance(phase, Compacting) and not isinstance(incoming, (SteerQueued, CancelRequested)):
            return self._relay_compaction(phase, phase.compactor.handle(incoming))
        match incoming:
            case UserSubmitted():
                return self._start(incoming.message)
            case CompactRequested():
                return self._compact("asked", EndCompaction(), incoming.focus)
            case ToolEnded() | ApprovalAnswered():
                return self._pass_to_round(phase, incoming) if isinstance(phase, Calling) else []
            case ModelSwitched() | NoModelLeft():
                return self._continue_after_fallback(phase.reply, incoming) if isinstance(phase, Replying) else []
            case SteerQueued():
                self._steering.add(incoming)
                return []
            case Confirmed():
                return self._apply_confirmation(phase, incoming)
            case HookStopped(reason=reason):
                self.tally.limits.ended_by = "stopped"
                self.tally.limits.note = reason
                return []
            case CancelRequested():
                self.tally.cancelled_by = incoming.limit
                return self._cancel(is_unsent=incoming.is_unsent)
            case TextCallsRecognized(is_first=is_first):
                return [Emit(Notice("info", synthetic.text_call_notice(self.model.name)))] if is_first else []
            case _:
                return self._pass_to_reply(phase.reply, incoming) if isinstance(phase, Replying) else []

    def _start(self, message: Message) -> list[Effect]:
        self._started_at = self._now
        effects = [self._append(message), Emit(TurnStarted(typed_text(message), message.blocks[:-1]))]
        if not self.model.sees_images and has_images([message]):
            text = f"{self.model.name} cannot see images. The model gets a note instead of the image."
            effects.append(Emit(Notice("warning", text)))
        limit = self.tally.reached_limit() if self.tally.is_subagent else None
        if limit is not None:
            return effects + self._end(Outcome.MAX_TURN_REQUESTS, result=None, limit=limit)
        return effects + self._next_step()

    def _next_step(self) -> list[Effect]:
        if self._compaction.is_due(self._plain_request(), self.model, self._counter):
            return self._compact("threshold", BeginStep())
        return self._begin_step()

    def _begin_step(self) -> list[Effect]:
        self._step += 1
        reply = Reply(self._plan(), self.model, self._counter, self.tally.ledger, turn=self._number, step=self._step)
        self.phase = Replying(reply)
        return [Emit(StepStarted(self._step)), *self._relay_reply(reply, reply.begin())]

    def _plan(self) -> ReplyPlan:
        settings = self.settings
        return ReplyPlan(
            settings.system,
            self._history(),
            settings.tools,
            settings.effort,
            settings.output,
            settings.retries,
            settings.max_budget_usd,
            can_compact=self._compaction.is_available,
            fallback=settings.fallback,
            note=self.tally.limits_note,
            starts_escalated=self._escalates_next_request,
            allows_calls=settings.allows_calls,
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The transcript so far."""
        return tuple(self._messages)

    def _history(self) -> tuple[Message, ...]:
        """Return the transcript in the form that can be sent to this model."""
        one_way = frozenset(tool.name for tool in self.settings.tools if tool.is_one_way)
        history = self._counter.history.prepare(without_signals(self._messages, one_way))
        return without_refused_parts(history, self.model)

    def _pass_to_reply(
        self, reply: Reply, incoming: ReplyEvent | ReplyFailed | WaitElapsed | RateLimitAnswered
    ) -> list[Effect]:
        match incoming:
            case ReplyFailed():
                return self._relay_reply(reply, reply.handle_failure(incoming))
            case WaitElapsed(seconds=seconds):
                return self._relay_reply(reply, reply.handle_wait_elapsed(seconds))
            case RateLimitAnswered():
                return self._relay_reply(reply, reply.handle_rate_limit_answered(incoming))
            case _:
                effects = reply.handle_event(incoming)
                is_over = isinstance(incoming, ReplyEnded) or reply.result is not None
                return self._relay_reply(reply, effects) if is_over else effects

    def _relay_reply(self, reply: Reply, effects: list[Effect]) -> list[Effect]:
        """Pass on a reply's effects, and continue the turn if the reply is finished."""
        self.model = reply.model
        if isinstance(reply.phase, NeedsCompaction):
            return effects + self._compact("full", ResumeReply(reply))
        effects = [*effects, Emit(self.usage_event)]
        result = reply.result
        if result is None:
            return effects
        if result.message is not None:
            self._messages.append(result.message)
        return effects + self._apply_result(result)

    def _continue_after_fallback(self, reply: Reply, incoming: ModelSwitched | NoModelLeft) -> list[Effect]:
        """Continue the reply with the next fallback model, or wait or end if none is left."""
        phase = reply.phase
        if not isinstance(phase, NeedsModel):
            return []
        skipped: list[Effect] = [Emit(Notice("warning", line)) for line in incoming.skipped_models]
        if isinstance(incoming, NoModelLeft):
            self.settings = replace(self.settings, fallback=None)
            return self._relay_reply(reply, skipped + reply.resume_without_model(incoming.limit))
        before = self.model
        self.model, self.settings, self._counter = incoming.model, incoming.settings, incoming.counter
        error = None if phase.has_waited else phase.failure.error.info
        changed = Emit(ModelFellBack(before.title, self.model.title, error, phase.has_waited))
        effects = reply.resume_with_model(self._plan(), self.model, self._counter)
        return self._relay_reply(reply, [*skipped, changed, *effects])

    def _apply_result(self, result: ReplyResult) -> list[Effect]:
        """Run the calls of a finished reply, start the next step, or end the turn."""
        self._escalates_next_request = result.escalates_next_request
        text = self._paused_text + (result.message.text if result.message else "")
        if self._paused_text and self._reply_texts:
            self._reply_texts.pop()  # `text` begins with it
        if text.strip():
            self._reply_texts.append(text)
        self._paused_text = text if result.ending == "paused" else ""
        self._is_answered = bool(text.strip())
        if self._is_answered:
            self._text = text
        match result.ending:
            case "calls":
                return self._begin_calls(result)
            case "paused":
                self._pauses += 1
                if self._pauses > MAX_PAUSES:
                    return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.TURNS)
                return self._continue(result)
            case "done" if self._steering:
                return self._continue(result)
            case "done" if self._review.asks_again(self._text):
                return self._ask_again(result)
            case "done":
                return self._end_reply(result)
            case "cut":
                outcome = Outcome.MAX_TOKENS if result.limit is None else Outcome.MAX_TURN_REQUESTS
                return self._end_with_note(result.note, outcome, result, limit=result.limit)
            case "refused":
                return self._end_with_note(result.note, Outcome.REFUSAL, result)
            case "cancelled":
                return self._end(Outcome.CANCELLED, result)
            case "failed":
                return self._end(Outcome.ERROR, result, error=result.error)

    def _end_reply(self, result: ReplyResult) -> list[Effect]:
        effects: list[Effect] = []
        if not self._is_answered:
            effects.append(Emit(Notice("warning", "The model ended its reply without any text.")))
        return effects + self._finish(result)

    def _ask_again(self, result: ReplyResult) -> list[Effect]:
        """Reject an invalid final answer: run one more step of the same turn, under the same limits."""
        problem = self._review.problem
        assert problem is not None
        self._steering.add(SteerQueued(problem.request))
        notice = Emit(Notice("info", self._review.notice))
        effects = self._continue(result)
        return effects if self.is_over else [notice, *effects]

    def _finish(self, result: ReplyResult) -> list[Effect]:
        """End the turn after its last reply. The hooks are asked first, unless the answer is invalid."""
        error = self._review.error
        may_be_continued = self._hook_continuations < MAX_HOOK_CONTINUATIONS
        if error is None and "stop" in self.settings.steps_to_confirm and may_be_continued:
            self.phase = ConfirmingEnd(result)
            return [Confirm("stop", self._text, is_again=self._hook_continuations > 0)]
        return self._end(Outcome.ERROR if error else Outcome.END_TURN, result, error=error)

    def _apply_confirmation(self, phase: TurnPhase, incoming: Confirmed) -> list[Effect]:
        """Compact, or end the turn, unless the hooks prevent it."""
        match phase:
            case ConfirmingCompaction(cause, then, focus):
                if not incoming.reason:
                    return self._begin_compaction(cause, then, focus)
                self._compaction.block()
                notice = Emit(Notice("warning", f"A hook prevented the compaction: {incoming.reason}"))
                return [notice, *self._resume_after_compaction(then, is_shorter=False)]
            case ConfirmingEnd(result):
                if incoming.reason and not incoming.is_final:
                    self._hook_continuations += 1
                    self._steering.add(SteerQueued(incoming.reason))
                if self._steering and not incoming.is_final:
                    return self._continue(result)
                return self._end(Outcome.END_TURN, result)
            case _:
                return []

    def _compact(self, cause: Cause, then: AfterCompaction, focus: str = "") -> list[Effect]:
        """Compact the transcript, then continue with `then`. The hooks are asked first."""
        if "compact" not in self.settings.steps_to_confirm:
            return self._begin_compaction(cause, then, focus)
        self.phase = ConfirmingCompaction(cause, then, focus)
        return [Confirm("compact", focus, is_asked=cause == "asked")]

    def _begin_compaction(self, cause: Cause, then: AfterCompaction, focus: str) -> list[Effect]:
        from qcode.engine.compactor import Compactor

        tools = self.settings.tools
        retries = self.settings.retries.unattended
        messages = tuple(self._messages)
        size = self._counter.size_of(self._plain_request()).tokens
        writer = self._compaction.start(self.model)
        compactor = Compactor(messages, self.model, writer, tools, retries, cause=cause, size=size, focus=focus)
        self.phase = phase = Compacting(compactor, then)
        return [Emit(CompactionStarted(cause)), *self._relay_compaction(phase, compactor.begin())]

    def _relay_compaction(self, phase: Compacting, effects: list[Effect]) -> list[Effect]:
        """Pass on a compaction's effects, and continue the turn if the compaction is over."""
        compactor, result = phase.compactor, phase.compactor.result
        if result is None:
            return effects
        effects = [*effects, *self._record_compaction(compactor, result)]
        if not compactor.has_other_writer:
            self.model = compactor.writer
        if result.items is not None:
            from qcode.engine.compactor import resolve_items

            self._messages = resolve_items(result.items, self._messages)
            self._counter.context_tokens = result.after
        effects = [*effects, *compaction_effects(result), Emit(self.usage_event)]
        return effects + self._resume_after_compaction(phase.then, is_shorter=result.items is not None)

    def _resume_after_compaction(self, then: AfterCompaction, *, is_shorter: bool) -> list[Effect]:
        """Continue the turn after a compaction. `is_shorter`: it shortened the transcript."""
        match then:
            case BeginStep():
                return self._begin_step()
            case ResumeReply(reply):
                self.phase = Replying(reply)
                effects = reply.resume(self._history()) if is_shorter else reply.abort_uncompacted()
                return self._relay_reply(reply, effects)
            case EndCompaction():
                return self._end(Outcome.END_TURN, result=None)

    def _record_compaction(self, compactor: Compactor, result: CompactionResult) -> list[Effect]:
        self.tally.ledger.add_compaction(compactor.ledger)
        self._compaction.end(result)
        return compactor.record_effects

    def _plain_request(self) -> ModelRequest:
        """Return a request without any reply settings, to measure the size of the prompt."""
        settings = self.settings
        cap = CAPPED_DEFAULT_MAX_TOKENS
        return ModelRequest(self.model.name, settings.system, self._history(), settings.tools, cap)

    def _begin_calls(self, result: ReplyResult) -> list[Effect]:
        tools = {tool.name: tool for tool in self.settings.tools}
        current = CallRound(result.calls, tools, self.tally.limits, self.settings.has_strict_tools)
        self.phase = phase = Calling(current, result)
        return self._relay_round(phase, current.advance(self._elapsed))

    def _pass_to_round(self, phase: Calling, incoming: ApprovalAnswered | ToolEnded) -> list[Effect]:
        if isinstance(incoming, ApprovalAnswered):
            return self._relay_round(phase, phase.round.apply_answer(incoming, self._elapsed))
        return self._relay_round(phase, phase.round.store_outcome(incoming.call_id, incoming.outcome, self._elapsed))

    def _relay_round(self, phase: Calling, effects: list[Effect]) -> list[Effect]:
        """Pass on a round's effects, and continue the turn if every call has its result."""
        current, result = phase.round, phase.result
        if not current.is_over:
            return effects
        current.close()
        self.tally.add_calls(current)
        results, steering = self._steering.drain(current.results)
        committed = [*effects, self._append(results), Emit(ResultsCommitted(results)), *steering]
        if self.tally.limits.ended_by is not None:
            return committed + self._end_on_limits(result)
        if current.is_one_way and not steering:
            if self._review.asks_again(self._text):
                return committed + self._ask_again(result)
            return committed + self._finish(result)
        return committed + self._continue(result)

    def _end_on_limits(self, result: ReplyResult) -> list[Effect]:
        """End the turn because of the counters of its calls, or because a hook stopped it."""
        limits = self.tally.limits
        if limits.ended_by == "tool_calls":
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.TOOL_CALLS)
        if limits.ended_by == "cut":
            return self._end_with_note(limits.note, Outcome.MAX_TOKENS, result)
        if limits.ended_by == "denied":
            self._is_answered = False  # the text before the denied calls is not an answer
        if limits.ended_by in ("stopped", "denied"):
            return self._end_with_note(limits.note, Outcome.END_TURN, result)
        kind = ErrorKind.TOOL_FAILURE if limits.ended_by == "impossible" else ErrorKind.UNREADABLE_CALL
        return self._end(Outcome.ERROR, result, error=ErrorInfo(kind, limits.note))

    def _continue(self, result: ReplyResult) -> list[Effect]:
        """Start the next step unless a limit ends the turn."""
        limit = self.tally.reached_limit(self._step)
        if limit is not None:
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=limit)
        if not self._steering:
            return self._next_step()
        message, events = self._steering.drain()
        return [self._append(message), *events, *self._next_step()]

    def _cancel(self, *, is_unsent: bool) -> list[Effect]:
        match self.phase:
            case Replying(reply):
                return self._relay_reply(reply, reply.cancel(is_unsent=is_unsent))
            case Calling(current, result):
                effects = current.cancel(self._elapsed)
                self.tally.add_calls(current)
                results = Message("user", tuple(current.results))
                committed = [self._append(results), Emit(ResultsCommitted(results))]
                return [*effects, *committed, *self._end(Outcome.CANCELLED, result)]
            case ConfirmingCompaction(then=ResumeReply(reply)):
                self.phase = Replying(reply)
                return self._relay_reply(reply, reply.cancel())
            case ConfirmingEnd(result):
                return self._end(Outcome.CANCELLED, result)
            case Compacting(compactor, then):
                recorded = self._record_compaction(compactor, compactor.cancel(is_unsent=is_unsent))
                if isinstance(then, ResumeReply):
                    return recorded + self._relay_reply(then.reply, then.reply.cancel())
                return recorded + self._end(Outcome.CANCELLED, result=None)
            case _:
                return self._end(Outcome.CANCELLED, result=None)

    def _end_with_note(
        self, note: str, outcome: Outcome, result: ReplyResult, *, limit: Limit | None = None
    ) -> list[Effect]:
        return [Emit(Notice("warning", note)), *self._end(outcome, result, limit=limit, note=note)]

    def _end(
        self,
        outcome: Outcome,
        result: ReplyResult | None,
        *,
        limit: Limit | None = None,
        error: ErrorInfo | None = None,
        note: str = "",
    ) -> list[Effect]:
        ended = self.tally.end_event(
            outcome, result, self._text, is_answered=self._is_answered, limit=limit, error=error, note=note
        )
        self.phase = Ended(ended.outcome)
        return [Emit(replace(ended, whole_text="\n\n".join(self._reply_texts))), EndTurn()]

    def _append(self, message: Message) -> Effect:
        self._messages.append(message)
        return Append(message)

    @property
    def _elapsed(self) -> float:
        return self._now - self._started_at

    @property
    def signals(self) -> tuple[Signal, ...]:
        """The calls of one-way tools so far, also those of a step whose other calls still run."""
        running = self.phase.round.signals if isinstance(self.phase, Calling) else ()
        return (*self.tally.signals, *running)

    @property
    def usage_event(self) -> UsageUpdated:
        """The event with the usage of all requests so far, sub-agents included."""
        return self.tally.usage_event(self._counter, self.model)
