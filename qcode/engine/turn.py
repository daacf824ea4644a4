"""A turn: one user message until the model is done with it. `handle(Input) -> list[Effect]`, pure.

A turn is steps; a step is one reply and the calls it made. The reply is in `reply`, the calls in `calls`; here is
what comes next, when it ends, and what it reports. Time arrives as `now`, in seconds of any clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from qcode.engine.calls import CallRound
from qcode.engine.caps import CAPPED_DEFAULT_MAX_TOKENS
from qcode.engine.compacting import Cause
from qcode.engine.compaction import resolved
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import (
    Append,
    ApprovalAnswered,
    CancelRequested,
    CompactRequested,
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
from qcode.engine.refused import has_images, readable
from qcode.engine.reply import Reply
from qcode.engine.requests import ReplyPlan
from qcode.engine.result import ReplyResult
from qcode.engine.review import Review
from qcode.engine.room import RoomMaker, told
from qcode.engine.steering import Steering
from qcode.engine.tally import Tally
from qcode.engine.transcript import prepared
from qcode.engine.turn_settings import TurnSettings
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import (
    CompactionStarted,
    Notice,
    ResultsCommitted,
    StepStarted,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.messages import Message, typed_text
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReasoningDelta, ReplyEnded, ReplyEvent, TextDelta, ToolArgsDelta, WebSearched
from qcode.protocol.stops import Limit, Outcome

MAX_PAUSES = 20
_DELTAS = frozenset({TextDelta, ReasoningDelta, ToolArgsDelta})


class Turn:
    """`messages` is the transcript so far, `number` counts turns of the session from 1. Over once it gave `EndTurn`.

    `tally` is that of a turn inside another one; of others it is their own.
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
        # Both may be exchanged before the first input, when more has become known.
        self.model = model
        self.settings = settings
        self.is_over = False
        self._messages = list(messages)
        self._counter = counter
        self._number = number
        self.tally = tally or Tally(settings, model.facts.price)
        self._review = Review(settings.check)
        self._reply: Reply | None = None
        self._round: CallRound | None = None
        self._steering = Steering()
        self._step = 0
        self._pauses = 0
        self._started_at = self._now = 0.0
        self._text = ""
        self._paused_text = ""
        self._is_answered = False
        self._result: ReplyResult | None = None
        self._room = RoomMaker(settings.compaction)
        self._then: Callable[[bool], list[Effect]] = lambda is_made: []

    def handle(self, given: Input, now: float = 0.0) -> list[Effect]:
        """Take one input; return the effects it has, in the order to perform them. Nothing follows `EndTurn`."""
        self._now = now
        if self.is_over:
            return []
        reply = self._reply if self._room.current is None else None
        if reply is not None and type(given) in _DELTAS:
            effects = reply.handle_event(cast("ReplyEvent", given))
            return effects if reply.result is None else self._from_reply(effects)
        return self._dispatch(given)

    def withdraw(self, text: str) -> SteerQueued | None:
        """Take back the last steering with this text; None where it has joined the turn, or never came."""
        return self._steering.withdraw(text)

    def _dispatch(self, given: Input) -> list[Effect]:
        if self._room.current is not None and not isinstance(given, (SteerQueued, CancelRequested)):
            return self._room_made(self._room.current.handle(given))
        match given:
            case UserSubmitted():
                return self._start(given.message)
            case CompactRequested():
                return self._make_room("asked", lambda is_made: self._end(Outcome.END_TURN, None), given.focus)
            case ReplyFailed():
                return self._from_reply(self._reply.handle_failure(given) if self._reply else [])
            case ToolEnded():
                return self._from_round(given)
            case ApprovalAnswered():
                return self._from_round(given)
            case SteerQueued():
                self._steering.add(given)
                return []
            case CancelRequested():
                return self._cancel(is_unsent=given.is_unsent)
            case WebSearched():
                return [Emit(given)]
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
        effects = [self._append(message), Emit(TurnStarted(typed_text(message)))]
        if not self.model.sees_images and has_images([message]):
            text = f"{self.model.name} cannot see images: it is told that one was there"
            effects.append(Emit(Notice("warning", text)))
        limit = self.tally.exceeded() if self.tally.is_inside else None
        if limit is not None:
            return effects + self._end(Outcome.MAX_TURN_REQUESTS, None, limit=limit)
        return effects + self._next_step()

    def _next_step(self) -> list[Effect]:
        self._round = None
        if self._room.is_due(self._plain_request(), self.model, self._counter):
            return self._make_room("threshold", lambda is_made: self._begin_step())
        return self._begin_step()

    def _begin_step(self) -> list[Effect]:
        self._step += 1
        settings = self.settings
        plan = ReplyPlan(
            settings.system,
            self._history(),
            settings.tools,
            settings.effort,
            settings.output,
            settings.retries,
            settings.max_budget_usd,
            can_make_room=self._room.is_able,
        )
        self._reply = Reply(plan, self.model, self._counter, self.tally.ledger, turn=self._number, step=self._step)
        return [Emit(StepStarted(self._step)), *self._from_reply(self._reply.begin())]

    def _history(self) -> tuple[Message, ...]:
        """Return the transcript as this model can be sent it."""
        return readable(prepared(self._messages), self.model)

    # Replies

    def _from_reply(self, effects: list[Effect]) -> list[Effect]:
        """Pass a reply's effects on, and go on with the turn where the reply is decided."""
        reply = self._reply
        if reply is None:
            return effects
        self.model = reply.model
        if reply.wants_room:
            return effects + self._make_room("full", self._room_for_reply)
        effects = [*effects, Emit(self.usage)]
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
        self._steering.add(SteerQueued(complaint.request))
        notice = Emit(Notice("info", self._review.notice))
        effects = self._go_on(result)
        return effects if self.is_over else [notice, *effects]

    def _finish(self, result: ReplyResult) -> list[Effect]:
        error = self._review.error
        return self._end(Outcome.ERROR if error else Outcome.END_TURN, result, error=error)

    # Room

    def _make_room(self, cause: Cause, then: Callable[[bool], list[Effect]], focus: str = "") -> list[Effect]:
        """Compact the transcript, then go on with `then`, which is told whether it is shorter now."""
        self._then = then
        size, settings = self._counter.size_of(self._plain_request()).tokens, self.settings
        compacting = self._room.start(self._messages, self.model, settings.tools, settings.retries, cause, size, focus)
        return [Emit(CompactionStarted(cause)), *self._room_made(compacting.begin())]

    def _room_made(self, effects: list[Effect]) -> list[Effect]:
        """Pass a compaction's effects on, and go on with the turn where it is over."""
        compacting = self._room.current
        if compacting is None or (result := compacting.result) is None:
            return effects
        self._room.end(self.tally.ledger)
        if not compacting.is_other:
            self.model = compacting.writer
        if result.parts is not None:
            self._messages = resolved(result.parts, self._messages)
            self._counter.context_tokens = result.after
        return [*effects, *told(result), Emit(self.usage), *self._then(result.parts is not None)]

    def _plain_request(self) -> ModelRequest:
        settings, cap = self.settings, CAPPED_DEFAULT_MAX_TOKENS
        return ModelRequest(self.model.name, settings.system, self._history(), settings.tools, cap)

    def _room_for_reply(self, is_made: bool) -> list[Effect]:
        reply = self._reply
        assert reply is not None
        return self._from_reply(reply.go_on(self._history()) if is_made else reply.give_up_room())

    # Calls

    def _begin_calls(self, result: ReplyResult) -> list[Effect]:
        self._result = result
        self._round = CallRound(result.calls, {tool.name: tool for tool in self.settings.tools}, self.tally.limits)
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
        self.tally.take(current)
        results, steering = self._steering.take(current.results)
        committed = [*effects, self._append(results), Emit(ResultsCommitted(results)), *steering]
        limits, result = self.tally.limits, self._result
        assert result is not None
        if limits.end is not None:
            return committed + self._end_on_limits(result)
        if current.is_one_way and not steering:
            if self._review.asks_again(self._text):
                return committed + self._ask_again(result)
            return committed + self._finish(result)
        return committed + self._go_on(result)

    def _end_on_limits(self, result: ReplyResult) -> list[Effect]:
        limits = self.tally.limits
        if limits.end == "tool_calls":
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=Limit.TOOL_CALLS)
        notice = Emit(Notice("warning", limits.note))
        if limits.end == "cut":
            return [notice, *self._end(Outcome.MAX_TOKENS, result)]
        error = ErrorInfo(ErrorKind.BAD_RESPONSE, limits.note)
        return self._end(Outcome.ERROR, result, error=error)

    # Going on and ending

    def _go_on(self, result: ReplyResult) -> list[Effect]:
        """Start the next step unless a limit ends the turn."""
        limit = self.tally.exceeded(self._step)
        if limit is not None:
            return self._end(Outcome.MAX_TURN_REQUESTS, result, limit=limit)
        effects: list[Effect] = []
        if self._steering:
            message, events = self._steering.take()
            effects = [self._append(message), *events]
        return effects + self._next_step()

    def _cancel(self, *, is_unsent: bool) -> list[Effect]:
        if self._room.current is not None:
            self._room.current.cancel(is_unsent=is_unsent)
            self._room.end(self.tally.ledger)
            is_unsent = False
        if self._reply is not None:
            return self._from_reply(self._reply.cancel(is_unsent=is_unsent))
        current = self._round
        if current is None or current.is_over:
            return self._end(Outcome.CANCELLED, None)
        effects = current.cancel()
        self.tally.take(current)
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
        ended = self.tally.ended(outcome, result, self._text, is_answered=self._is_answered, limit=limit, error=error)
        return [Emit(ended), EndTurn()]

    def _append(self, message: Message) -> Effect:
        self._messages.append(message)
        return Append(message)

    @property
    def _elapsed(self) -> float:
        return self._now - self._started_at

    @property
    def usage(self) -> UsageUpdated:
        """What all requests so far have used, those of its sub-agents among them."""
        return self.tally.usage(self._counter, self.model)
