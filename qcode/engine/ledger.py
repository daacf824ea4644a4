"""Accounting of a turn: requests by cause with their tokens and cost, and the limits, denials and signals.

`Ledger` counts the requests, discarded ones included. `Tally` adds limits, denials and signals. Each turn has one
`Ledger` and one `Tally`. Those of a sub-agent's turn also add their values to those of the calling turn.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from qcode.engine import synthetic
from qcode.engine.calls import CallLimits, CallRound
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import TurnSettings
from qcode.engine.model_facts import KnownModel
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import ApiCalls, Denial, ModelUsage, RequestCause, Signal, TurnEnded, UsageUpdated, inner_id
from qcode.protocol.reply import Limit, Outcome
from qcode.protocol.usage import Price, Usage, cost_of

if TYPE_CHECKING:
    from qcode.engine.reply.phase import ReplyResult


class Ledger:
    """The totals of one turn. Costs are in US dollars."""

    def __init__(self, price: Price | None, *, parent: Ledger | None = None) -> None:
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0) if price is not None else None
        """The cost of all requests; None as soon as the cost of one request is unknown."""
        self.spent = Decimal(0)
        """The cost that is compared with the budget, with estimates for counts that the provider did not report."""
        self.discarded_output_tokens = 0
        self.truncated_call_tokens = 0
        """The output tokens of truncated calls, which never ran; estimated."""
        self.price = price
        """The price of the current model."""
        self._parent = parent
        """For a sub-agent's turn, the ledger of the calling turn. Usage is also added there."""
        self._counts: dict[RequestCause, int] = {}
        self._by_model: dict[str, ModelUsage] = {}

    @property
    def by_model(self) -> tuple[ModelUsage, ...]:
        """The usage of each model, in the order of their first requests."""
        return tuple(self._by_model.values())

    @property
    def outermost(self) -> Ledger:
        """The ledger of the outermost turn, which covers the whole prompt."""
        return self if self._parent is None else self._parent.outermost

    def count(self, cause: RequestCause, requests: int = 1) -> None:
        self._counts[cause] = self._counts.get(cause, 0) + requests
        if self._parent is not None:
            self._parent.count(cause, requests)

    def undo_count(self, cause: RequestCause) -> None:
        """Undo a `count`: the request was not sent."""
        self.count(cause, -1)

    def add(self, model: str, usage: Usage, estimate: Usage, *, is_unused: bool = False) -> None:
        """Add the usage of one request to `model`; `estimate` has values for counts that the host did not report.

        `is_unused`: the host sent no response, so the request costs nothing.
        """
        if is_unused:
            self._add_usage(ModelUsage(model, usage, Decimal(0)), Decimal(0))
            return
        cost = spent = cost_of(usage, self.price)
        if usage.input is None or usage.output is None:
            counts = replace(
                usage,
                input=estimate.input if usage.input is None else usage.input,
                output=estimate.output if usage.output is None else usage.output,
            )
            spent = cost_of(counts, self.price)
        self._add_usage(ModelUsage(model, usage, cost), spent or Decimal(0))

    def charge(self, spent: Decimal) -> None:
        """Charge the cost of a request outside the turn to the turn's budget, without its usage."""
        self.spent += spent

    def discard(self, usage: Usage) -> None:
        """Count the output of an attempt as discarded; its usage was added before."""
        self._discard(usage.output or 0)

    def undo_discard(self, usage: Usage) -> None:
        """Undo a `discard`: the attempt is used after all."""
        self._discard(-(usage.output or 0))

    def add_truncated_call(self, tokens: int) -> None:
        """Count the tokens of a truncated call of a kept reply; its usage was added before."""
        self.truncated_call_tokens += tokens
        if self._parent is not None:
            self._parent.add_truncated_call(tokens)

    def add_compaction(self, other: Ledger) -> None:
        """Add the usage of a compaction; all its requests count as `compactions`."""
        for used in other.by_model:
            self._add_usage(used, Decimal(0))  # `other.spent` already includes it
        self._spend(other.spent)
        self.count("compactions", other.api_calls.total)

    def _add_usage(self, used: ModelUsage, spent: Decimal) -> None:
        """Add the usage and cost of requests to one model, here and in the calling turns."""
        self.usage = self.usage + used.usage
        self.cost = _sum(self.cost, used.cost)
        self.spent += spent
        before = self._by_model.get(used.model, ModelUsage(used.model, Usage(), Decimal(0)))
        total = ModelUsage(used.model, before.usage + used.usage, _sum(before.cost, used.cost))
        self._by_model[used.model] = total
        if self._parent is not None:
            self._parent._add_usage(used, spent)

    def _spend(self, spent: Decimal) -> None:
        self.spent += spent
        if self._parent is not None:
            self._parent._spend(spent)

    def _discard(self, tokens: int) -> None:
        self.discarded_output_tokens += tokens
        if self._parent is not None:
            self._parent._discard(tokens)

    @property
    def api_calls(self) -> ApiCalls:
        return ApiCalls(**self._counts)


def _sum(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    """Return the sum of two costs, None if one of them is unknown."""
    return None if first is None or second is None else first + second


class Tally:
    """The usage, denials, signals and limits of one turn."""

    def __init__(
        self, settings: TurnSettings, price: Price | None, *, parent: Tally | None = None, call_id: str = ""
    ) -> None:
        outer_limits = None if parent is None else parent.limits
        self.ledger: Ledger = Ledger(price, parent=None if parent is None else parent.ledger)
        self.limits: CallLimits = CallLimits(
            settings.max_tool_calls, settings.output.max_tool_repair_attempts, parent=outer_limits
        )
        self._settings = settings
        self._parent = parent
        """For a sub-agent, the tally of the calling turn."""
        self._call_id = call_id
        """For a sub-agent, the call that started it."""
        self._denials: list[Denial] = []
        self._signals: list[Signal] = []
        self.cancelled_by: Limit | None = None
        """The limit that cancelled the turn, None if there is none."""

    def for_subagent(self, settings: TurnSettings, price: Price | None, call_id: str) -> Tally:
        """Return the tally for a sub-agent started by the call `call_id` of this turn."""
        return Tally(settings, price, parent=self, call_id=call_id)

    @property
    def is_subagent(self) -> bool:
        """Whether this is the tally of a sub-agent."""
        return self._parent is not None

    @property
    def signals(self) -> tuple[Signal, ...]:
        return tuple(self._signals)

    def reached_limit(self, steps: int = 0) -> Limit | None:
        """Return the limit that forbids another step after `steps` steps, None if another step may run."""
        settings = self._settings
        replies = max(steps, self.ledger.api_calls.initial)
        if settings.max_turns is not None and replies >= settings.max_turns:
            return Limit.TURNS
        if self._parent is not None:
            return self._parent.reached_limit()
        if settings.max_budget_usd is not None and self.ledger.spent >= settings.max_budget_usd:
            return Limit.COST
        return None

    @property
    def limits_note(self) -> str:
        """A note for the model with the remaining part of each limit that the user set; empty without limits."""
        if self._parent is not None:
            return self._parent.limits_note
        settings, ledger = self._settings, self.ledger
        calls, money = settings.max_tool_calls, settings.max_budget_usd
        turns = settings.max_turns if settings.shows_turns_left else None
        return synthetic.limits_note(
            calls=None if calls is None else max(0, calls - self.limits.calls),
            replies=None if turns is None else max(0, turns - ledger.api_calls.initial),
            money=None if money is None else max(Decimal(0), money - ledger.spent),
        )

    def add_calls(self, calls: CallRound) -> None:
        """Add the denials and signals of a step's calls."""
        self._add_denials(calls.denials)
        self._signals += calls.signals

    def _add_denials(self, denials: list[Denial]) -> None:
        """Add denials to this turn and to the calling turns. There, `inner_id` makes the ids of the calls."""
        self._denials += denials
        if self._parent is None:
            return
        self._parent._add_denials(
            [
                replace(denial, call=replace(denial.call, call_id=inner_id(self._call_id, denial.call.call_id)))
                for denial in denials
            ]
        )

    def usage_event(self, counter: PromptCounter, model: KnownModel) -> UsageUpdated:
        ledger, window = self.ledger, model.window or DEFAULT_CONTEXT_WINDOW
        return UsageUpdated(ledger.usage, ledger.cost, counter.context_tokens, window, ledger.by_model)

    def end_event(
        self,
        outcome: Outcome,
        result: ReplyResult | None,
        text: str,
        *,
        is_answered: bool,
        limit: Limit | None,
        error: ErrorInfo | None,
        note: str,
    ) -> TurnEnded:
        """Return the last event of the turn. `result` is its last reply, `text` its answer."""
        ledger = self.ledger
        if outcome is Outcome.CANCELLED and self.cancelled_by is not None:
            outcome, limit = Outcome.MAX_TURN_REQUESTS, self.cancelled_by
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
            signals=self.signals,
            limit=limit,
            error=error,
            is_answered=is_answered,
            by_model=ledger.by_model,
            note=note,
            truncated_call_tokens=ledger.truncated_call_tokens,
        )
