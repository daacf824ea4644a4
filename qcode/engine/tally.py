"""The usage, denials, signals and limits of one turn.

A sub-agent's turn runs `within` its caller's: its usage counts for both, and the limits of the prompt apply to all
turns together.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from qcode.engine import synthetic
from qcode.engine.calls import CallLimits, CallRound
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import TurnSettings
from qcode.engine.ledger import Ledger
from qcode.engine.model_facts import KnownModel
from qcode.engine.reply.phase import ReplyResult
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import Denial, Signal, TurnEnded, UsageUpdated, inner_id
from qcode.protocol.reply import Limit, Outcome
from qcode.protocol.usage import Price
from qcode.text.numbers import count_text


class Tally:
    """Usage, denials, signals and limits of one turn.

    For a sub-agent, `within` is the tally of the calling turn, and `call_id` is the call that started it.
    """

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
        """Return the tally for a sub-agent started by the call `call_id` of this turn."""
        return Tally(settings, price, within=self, call_id=call_id)

    @property
    def is_inside(self) -> bool:
        """Whether this is the tally of a sub-agent."""
        return self._within is not None

    def exceeded(self, steps: int = 0) -> Limit | None:
        """Return the limit that forbids another step after `steps` steps, None if there is room."""
        settings = self._settings
        replies = max(steps, self.ledger.api_calls.initial)
        if settings.max_turns is not None and replies >= settings.max_turns:
            return Limit.TURNS
        if self._within is not None:
            return self._within.exceeded()
        if settings.max_budget_usd is not None and self.ledger.spent >= settings.max_budget_usd:
            return Limit.COST
        return None

    @property
    def limits_note(self) -> str:
        """The rest of the limits that the user set, as a note for the model; empty without any."""
        if self._within is not None:
            return self._within.limits_note
        settings, ledger, left = self._settings, self.ledger, []
        if settings.max_tool_calls is not None:
            left.append(count_text(max(0, settings.max_tool_calls - self.limits.calls), "tool call"))
        if settings.tells_turns and settings.max_turns is not None:
            replies = max(0, settings.max_turns - ledger.api_calls.initial)
            left.append(f"{count_text(replies, 'reply', 'replies')} (this one included)")
        if settings.max_budget_usd is not None:
            left.append(f"${max(Decimal(0), settings.max_budget_usd - ledger.spent):.4f}")
        return synthetic.limits_note(left)

    def take(self, calls: CallRound) -> None:
        """Add the denials and signals of a step's calls."""
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
        """Return the last event of the turn. `result` is its last reply, `text` its answer."""
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
