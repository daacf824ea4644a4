"""A turn: one user message until the model is done with it. `handle(Input) -> list[Effect]`, pure.

A turn is steps; a step is one reply and the calls it made. The reply is in `reply`, the calls in `calls`; here is
what comes next, when it ends, and what it reports. Time arrives as `now`, in seconds of any clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast

from qcode.engine.calls import CallLimits, CallRound
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, OutputSettings
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    CancelRequested,
    Effect,
    Emit,
    EndTurn,
    Input,
    ReplyFailed,
    SteerQueued,
    ToolEnded,
    UserSubmitted,
    WaitElapsed,
)
from qcode.engine.knowledge import KnownModel
from qcode.engine.ledger import Ledger
from qcode.engine.refused import has_images, without_part
from qcode.engine.reply import Reply
from qcode.engine.requests import ReplyPlan
from qcode.engine.result import ReplyResult
from qcode.engine.retries import RetrySettings
from qcode.engine.review import AnswerCheck, Review
from qcode.engine.transcript import prepared
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    Denial,
    Notice,
    ResultsCommitted,
    Signal,
    SteeringAdded,
    StepStarted,
    TurnEnded,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.messages import Block, Message, Text
from qcode.protocol.model import Effort
from qcode.protocol.reply import ReasoningDelta, ReplyEnded, ReplyEvent, TextDelta, ToolArgsDelta
from qcode.protocol.stops import Limit, Outcome
from qcode.protocol.tools import ToolSpec

MAX_PAUSES = 20
_DELTAS = frozenset({TextDelta, ReasoningDelta, ToolArgsDelta})


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What a turn runs with. The limits are None where the person set none, `check` where any answer will do."""

    system: str
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    check: AnswerCheck | None = None


class Turn:
    """`messages` is the transcript so far, `number` counts turns of the session from 1. Over once it gave `EndTurn`."""

    def __init__(
        self,
        settings: TurnSettings,
        model: KnownModel,
        messages: Iterable[Message],
        counter: PromptCounter,
        *,
        number: int = 1,
    ) -> None:
        self.model = model
        self.is_over = False
        self._settings = settings
        self._messages = list(messages)
        self._counter = counter
        self._number = number
        self._ledger = Ledger(model.facts.price)
        self._limits = CallLimits(settings.max_tool_calls, settings.output.max_tool_repair_attempts)
        self._review = Review(settings.check)
        self._tools = {tool.name: tool for tool in settings.tools}
        self._reply: Reply | None = None
        self._round: CallRound | None = None
        self._steering: list[SteerQueued] = []
        self._denials: list[Denial] = []
        self._signals: list[Signal] = []
        self._step = 0
        self._pauses = 0
        self._started_at = self._now = 0.0
        self._text = ""
        self._paused_text = ""
        self._is_answered = False
        self._result: ReplyResult | None = None

    def handle(self, given: Input, now: float = 0.0) -> list[Effect]:
        """Take one input; return the effects it has, in the order to perform them. Nothing follows `EndTurn`."""
        self._now = now
        if self.is_over:
            return []
        reply = self._reply
        if reply is not None and type(given) in _DELTAS:
            effects = reply.handle_event(cast("ReplyEvent", given))
            return effects if reply.result is None else self._from_reply(effects)
        return self._dispatch(given)

    def withdraw(self, text: str) -> SteerQueued | None:
        """Take back the last steering with this text; None where it has joined the turn, or never came."""
        for index in range(len(self._steering) - 1, -1, -1):
            if self._steering[index].text == text:
                return self._steering.pop(index)
        return None

    def _dispatch(self, given: Input) -> list[Effect]:
        match given:
            case UserSubmitted():
                return self._start(given.message)
            case ReplyFailed():
                return self._from_reply(self._reply.handle_failure(given) if self._reply else [])
            case ToolEnded():
                return self._from_round(given)
            case ApprovalAnswered():
                return self._from_round(given)
            case SteerQueued():
                self._steering.append(given)
                return []
            case CancelRequested():
                return self._cancel(is_unsent=given.is_unsent)
            case WaitElapsed():
                return self._from_reply(self._reply.handle_wait_elapsed() if self._reply else [])
            case _:
                if self._reply is None:
                    return []
                effects = self._reply.handle_event(given)
                is_over = isinstance(given, ReplyEnded) or self._reply.result is not None
                return self._from_reply(effects) if is_over else effects

    def _start(self, message: Message) -> list[Effect]:
        self._started_at = self._now
        effects = [self._append(message), Emit(TurnStarted(_prompt_of(message)))]
        if not self.model.sees_images and has_images([message]):
            text = f"{self.model.name} cannot see images: it is told that one was there"
            effects.append(Emit(Notice("warning", text)))
        return effects + self._next_step()

    def _next_step(self) -> list[Effect]:
        self._step += 1
        self._round = None
        settings = self._settings
        plan = ReplyPlan(
            settings.system,
            self._history(),
            settings.tools,
            settings.effort,
            settings.output,
            settings.retries,
            settings.max_budget_usd,
        )
        self._reply = Reply(plan, self.model, self._counter, self._ledger, turn=self._number, step=self._step)
        return [Emit(StepStarted(self._step)), *self._from_reply(self._reply.begin())]

    def _history(self) -> tuple[Message, ...]:
        """Return the transcript as this model can be sent it."""
        messages = prepared(self._messages)
        if not self.model.sees_images and has_images(messages):
            messages = without_part(messages, "images")
        return without_part(messages, "marks") if self.model.host.refuses_marks else messages

    # Replies

    def _from_reply(self, effects: list[Effect]) -> list[Effect]:
        """Pass a reply's effects on, and go on with the turn where the reply is decided."""
        reply = self._reply
        if reply is None:
            return effects
        self.model = reply.model
        effects = [*effects, self._usage()]
        result = reply.result
        if result is None:
            return effects
        self._reply = None
        if result.message is not None:
            self._messages.append(result.message)
        return effects + self._reply_decided(result)

    def _reply_decided(self, result: ReplyResult) -> list[Effect]:
        text = self._paused_text + (result.message.text if result.message else "")
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
                return self._go_on(result)
            case "done" if self._steering:
                return self._go_on(result)
            case "done" if self._review.asks_again(self._text):
                return self._ask_again(result)
            case "done":
                return self._done(result)
            case "cut":
                outcome = Outcome.MAX_TOKENS if result.limit is None else Outcome.MAX_TURN_REQUESTS
                return [Emit(Notice("warning", result.note)), *self._end(outcome, result, limit=result.limit)]
            case "refused":
                return [Emit(Notice("warning", result.note)), *self._end(Outcome.REFUSAL, result)]
            case "cancelled":
                return self._end(Outcome.CANCELLED, result)
            case "failed":
                return self._end(Outcome.ERROR, result, error=result.error)

    def _done(self, result: ReplyResult) -> list[Effect]:
        effects: list[Effect] = []
        if not self._is_answered:
            effects.append(Emit(Notice("warning", "The model ended its reply without any text.")))
        return effects + self._finish(result)

    def _ask_again(self, result: ReplyResult) -> list[Effect]:
        """Send a last answer back that does not do: one more step of the same turn, with the same limits."""
        complaint = self._review.complaint
        assert complaint is not None
        self._steering.append(SteerQueued(complaint.request))
        notice = Emit(Notice("info", self._review.notice))
        effects = self._go_on(result)
        return effects if self.is_over else [notice, *effects]

    def _finish(self, result: ReplyResult) -> list[Effect]:
        error = self._review.error
        return self._end(Outcome.ERROR if error else Outcome.END_TURN, result, error=error)

    # Calls

    def _begin_calls(self, result: ReplyResult) -> list[Effect]:
        self._result = result
        self._round = CallRound(result.calls, self._tools, self._limits)
        return self._round_moved(self._round.advance(self._elapsed))

    def _from_round(self, given: ApprovalAnswered | ToolEnded) -> list[Effect]:
        current = self._round
        if current is None or current.is_over:
            return []
        if isinstance(given, ApprovalAnswered):
            effects = current.answered(given, self._elapsed)
        else:
            effects = current.ended(given.call_id, given.outcome, self._elapsed)
        return self._round_moved(effects)

    def _round_moved(self, effects: list[Effect]) -> list[Effect]:
        """Pass a round's effects on, and go on with the turn where every call has its result."""
        current = self._round
        if current is None or not current.is_over:
            return effects
        self._denials += current.denials
        self._signals += current.signals
        results = self._with_steering(current.results)
        committed: list[Effect] = [*effects, self._append(results), Emit(ResultsCommitted(results))]
        steering = self._taken_steering()
        committed += [Emit(SteeringAdded(one.text)) for one in steering]
        limits, result = self._limits, self._result
        assert result is not None
        if limits.end is not None:
            return committed + self._end_on_limits(result)
        if current.is_one_way and not steering:
            if self._review.asks_again(self._text):
                return committed + self._ask_again(result)
            return committed + self._finish(result)
        return committed + self._go_on(result)

    def _end_on_limits(self, result: ReplyResult) -> list[Effect]:
        limits = self._limits
        if limits.end == "tool_calls":
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.TOOL_CALLS)
        notice = Emit(Notice("warning", limits.note))
        if limits.end == "cut":
            return [notice, *self._end(Outcome.MAX_TOKENS, result)]
        error = ErrorInfo(ErrorKind.BAD_RESPONSE, limits.note)
        return self._end(Outcome.ERROR, result, error=error)

    def _with_steering(self, results: list[Block]) -> Message:
        return Message("user", (*results, *(block for one in self._steering for block in one.blocks)))

    def _taken_steering(self) -> list[SteerQueued]:
        taken, self._steering = self._steering, []
        return taken

    # Going on and ending

    def _go_on(self, result: ReplyResult) -> list[Effect]:
        """Start the next step unless a limit ends the turn."""
        settings = self._settings
        if settings.max_turns is not None and self._step >= settings.max_turns:
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.TURNS)
        if settings.max_budget_usd is not None and self._ledger.spent >= settings.max_budget_usd:
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.COST)
        effects: list[Effect] = []
        if self._steering:
            taken = self._taken_steering()
            effects.append(self._append(Message("user", tuple(block for one in taken for block in one.blocks))))
            effects += [Emit(SteeringAdded(one.text)) for one in taken]
        return effects + self._next_step()

    def _cancel(self, *, is_unsent: bool) -> list[Effect]:
        if self._reply is not None:
            return self._from_reply(self._reply.cancel(is_unsent=is_unsent))
        current = self._round
        if current is None or current.is_over:
            return self._end(Outcome.CANCELLED, None)
        effects = current.cancel()
        self._denials += current.denials
        self._signals += current.signals
        results = Message("user", tuple(current.results))
        committed = [self._append(results), Emit(ResultsCommitted(results))]
        return [*effects, *committed, *self._end(Outcome.CANCELLED, self._result)]

    def _end(
        self,
        outcome: Outcome,
        result: ReplyResult | None,
        *,
        limit: Limit | None = None,
        error: ErrorInfo | None = None,
    ) -> list[Effect]:
        self.is_over = True
        ledger = self._ledger
        ended = TurnEnded(
            outcome=outcome,
            stop=result.stop if result else None,
            raw_stop=result.raw_stop if result else "",
            text=self._text,
            replies=ledger.api_calls.initial,
            usage=ledger.usage,
            cost=ledger.cost,
            api_calls=ledger.api_calls,
            discarded_output_tokens=ledger.discarded_output_tokens,
            denials=tuple(self._denials),
            signals=tuple(self._signals),
            limit=limit,
            error=error,
            is_answered=self._is_answered,
        )
        return [Emit(ended), EndTurn()]

    def _append(self, message: Message) -> Effect:
        self._messages.append(message)
        return Append(message)

    @property
    def _elapsed(self) -> float:
        return self._now - self._started_at

    def _usage(self) -> Effect:
        usage = self._ledger.usage
        window = self.model.window or DEFAULT_CONTEXT_WINDOW
        return Emit(UsageUpdated(usage, self._ledger.cost, self._counter.context_tokens, window))


def _prompt_of(message: Message) -> str:
    """Return what was typed: the last text; attached files come before it."""
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    return texts[-1] if texts else ""
