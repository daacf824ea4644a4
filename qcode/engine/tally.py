"""What a turn has used, been refused and signalled so far, and the limits that hold for it.

The turn of a sub-agent is `within` the one that called it: what it uses counts for both, and the limits of the prompt
hold for all of them together, however many run at once.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine.calls import CallLimits, CallRound
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter
from qcode.engine.knowledge import KnownModel
from qcode.engine.ledger import Ledger
from qcode.engine.result import ReplyResult
from qcode.engine.turn_settings import TurnSettings
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import Denial, Signal, TurnEnded, UsageUpdated, inner_id
from qcode.protocol.stops import Limit, Outcome
from qcode.protocol.usage import Price


class Tally:
    """`call_id` is the call of the turn `within` which this one runs."""

    def __init__(
        self, settings: TurnSettings, price: Price | None, *, within: Tally | None = None, call_id: str = ""
    ) -> None:
        outer = None if within is None else within.limits
        self.ledger: Ledger = Ledger(price, within=None if within is None else within.ledger)
        self.limits: CallLimits = CallLimits(
            settings.max_tool_calls, settings.output.max_tool_repair_attempts, within=outer
        )
        self._settings = settings
        self._within = within
        self._call_id = call_id
        self._denials: list[Denial] = []
        self._signals: list[Signal] = []

    def inside(self, settings: TurnSettings, price: Price | None, call_id: str) -> Tally:
        """Return the tally of a sub-agent that the call `call_id` of this turn starts."""
        return Tally(settings, price, within=self, call_id=call_id)

    @property
    def is_inside(self) -> bool:
        """Whether this is the tally of a sub-agent."""
        return self._within is not None

    def exceeded(self, steps: int = 0) -> Limit | None:
        """Return the limit that keeps a turn of so many steps from going on, its own or one of the prompt."""
        settings = self._settings
        replies = max(steps, self.ledger.api_calls.initial)
        if settings.max_turns is not None and replies >= settings.max_turns:
            return Limit.TURNS
        if self._within is not None:
            return self._within.exceeded()
        if settings.max_budget_usd is not None and self.ledger.spent >= settings.max_budget_usd:
            return Limit.COST
        return None

    def take(self, calls: CallRound) -> None:
        """Note what came of the calls of a step beside their results."""
        self._deny(calls.denials)
        self._signals += calls.signals

    def _deny(self, denials: list[Denial]) -> None:
        self._denials += denials
        if self._within is not None:
            named = (replace(one.call, call_id=inner_id(self._call_id, one.call.call_id)) for one in denials)
            self._within._deny([Denial(call, one.reason) for call, one in zip(named, denials, strict=True)])

    def usage(self, counter: PromptCounter, model: KnownModel) -> UsageUpdated:
        ledger, window = self.ledger, model.window or DEFAULT_CONTEXT_WINDOW
        return UsageUpdated(ledger.usage, ledger.cost, counter.context_tokens, window)

    def ended(
        self,
        outcome: Outcome,
        result: ReplyResult | None,
        text: str,
        *,
        is_answered: bool,
        limit: Limit | None,
        error: ErrorInfo | None,
    ) -> TurnEnded:
        """Return the last event of the turn; `result` is its last reply, `text` its answer."""
        ledger = self.ledger
        return TurnEnded(
            outcome=outcome,
            stop=result.stop if result else None,
            raw_stop=result.raw_stop if result else "",
            text=text,
            replies=ledger.api_calls.initial,
            usage=ledger.usage,
            cost=ledger.cost,
            api_calls=ledger.api_calls,
            discarded_output_tokens=ledger.discarded_output_tokens,
            denials=tuple(self._denials),
            signals=tuple(self._signals),
            limit=limit,
            error=error,
            is_answered=is_answered,
        )
