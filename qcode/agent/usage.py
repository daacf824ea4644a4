"""The usage and cost of turns, also of turns before the session was opened, and metrics of recovered replies.

`usage_report_text` is the text for `/cost` of every front end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from decimal import Decimal
from functools import cache
from operator import attrgetter

from qcode.agent.sessions.history import SessionHistory, StoredMessage, is_a_prompt
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, ESCALATED_MAX_TOKENS
from qcode.engine.ledger import Ledger
from qcode.protocol.events import (
    AgentEvent,
    ApiCalls,
    AttemptRecord,
    ContinuationAttempt,
    ModelFellBack,
    ModelUsage,
    ReplyFinished,
    StopReasonObserved,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    UsageUpdated,
)
from qcode.protocol.reply import Outcome, StopReason, WebSearched
from qcode.protocol.usage import Price, Usage, cache_hit_rate
from qcode.text.clean import cut
from qcode.text.json import JsonObject
from qcode.text.numbers import cost_text, count_text, percent_text, tokens_text
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The usage of one turn."""

    prompt: str
    model: str
    """The last model of the turn."""
    usage: Usage
    cost: Decimal | None
    """In USD; None if a price or the usage is unknown."""
    api_calls: ApiCalls
    discarded_output_tokens: int = 0
    by_model: tuple[ModelUsage, ...] = ()
    """The usage of each model of the turn."""
    is_interrupted: bool = False
    """The user interrupted a reply, whose usage providers often do not report."""
    truncated_call_tokens: int = 0
    """The output tokens of truncated calls, which never ran; estimated."""


def turn_usage(prompt: str, model: str, ended: TurnEnded) -> TurnUsage:
    """Return the usage of a turn that ended now."""
    return TurnUsage(
        prompt, model, ended.usage, ended.cost, ended.api_calls,
        discarded_output_tokens=ended.discarded_output_tokens, by_model=ended.by_model,
        is_interrupted=ended.outcome is Outcome.CANCELLED, truncated_call_tokens=ended.truncated_call_tokens,
    )  # fmt: skip


class ModelSpending:
    """The usage of one turn, by model (`provider/model`). `observe` must get every event of the turn.

    `output_limit` returns the output limit of the model in use.
    """

    def __init__(self, model: str, output_limit: Callable[[], int | None]) -> None:
        self._model = model
        self._output_limit = output_limit
        self._rows: dict[str, _SpendingRow] = {}

    def observe(self, event: TurnEvent) -> None:
        match event:
            case UsageUpdated():
                self._row(self._model).window = event.context_window
                self._set_usage(event.by_model, event.cost)
            case TurnEnded():
                self._set_usage(event.by_model, event.cost)
            case WebSearched(queries=queries):
                self._row(self._model).searches += max(1, len(queries))
            case ModelFellBack(to_model=model):
                self._model = model
            case _:
                pass

    def _row(self, model: str) -> _SpendingRow:
        return self._rows.setdefault(model, _SpendingRow())

    def _set_usage(self, by_model: tuple[ModelUsage, ...], cost: Decimal | None) -> None:
        for used in by_model:
            if used.usage != Usage() or used.model in self._rows:
                spent = self._row(used.model)
                spent.usage = used.usage
                spent.cost = used.cost
                if used.usage == Usage() and cost is None:
                    # Requests that were refused cost 0, but None is reported if the cost of the turn is unknown.
                    spent.cost = None
        current = self._rows.get(self._model)
        if current is not None:
            current.output_limit = self._output_limit()
            if not by_model:
                current.cost = cost

    def as_json(self) -> JsonObject:
        """Return the usage in the format of Claude Code: an unknown number of tokens is 0, an unknown cost null."""
        return {model: spent.as_json() for model, spent in self._rows.items()}


@dataclass(slots=True)
class _SpendingRow:
    """The usage of one model in a turn."""

    usage: Usage = field(default_factory=Usage)
    cost: Decimal | None = Decimal(0)
    searches: int = 0
    window: int = 0
    output_limit: int | None = None

    def as_json(self) -> JsonObject:
        usage = self.usage
        cache_read = usage.cache_read or 0
        cache_written = usage.cache_write or 0
        return {
            "inputTokens": max(0, (usage.input or 0) - cache_read - cache_written),
            "outputTokens": usage.output or 0,
            "cacheReadInputTokens": cache_read,
            "cacheCreationInputTokens": cache_written,
            "webSearchRequests": self.searches,
            "costUSD": None if self.cost is None else float(self.cost),
            "contextWindow": self.window or DEFAULT_CONTEXT_WINDOW,
            "maxOutputTokens": self.output_limit or ESCALATED_MAX_TOKENS,
        }


class EarlierTurns:
    """The turns that a session had before it was opened. Their usage is computed on demand, because that is slow."""

    def __init__(self, history: SessionHistory) -> None:
        self._history = history
        self._messages = {number: stored for number, stored in sorted(history.stored.items()) if not stored.is_summary}
        self._last_number = max(self._messages, default=-1)
        # Requests of later turns may be added to the last message, but to no other.
        self._requests_of_last: _RecordedRequests | None = None
        if self._messages:
            self._requests_of_last = self._requests_of(self._last_number)

    def usage(self, price_of: Callable[[str], Price | None]) -> list[TurnUsage]:
        """Return the recorded usage of each turn, each `/compact` and the requests outside them, at current prices."""
        known_price = cache(price_of)
        return [
            recorded_usage(row.attempts, row.model, known_price, row.prompt)
            for numbers in self._numbers_by_turn()
            for row in self._rows_of_turn(numbers)
            if row.attempts or row.is_ended
        ]

    def _numbers_by_turn(self) -> list[list[int]]:
        """Return the numbers of the messages of each turn."""
        turns: list[list[int]] = []
        for number, stored in self._messages.items():
            if is_a_prompt(stored.entry.message) or not turns:
                turns.append([])
            turns[-1].append(number)
        return turns

    def _rows_of_turn(self, numbers: Sequence[int]) -> list[_UsageRow]:
        """Return the rows for the messages of one turn. Requests that ended while the turn ran precede it."""
        first = self._messages[numbers[0]]
        turn = _UsageRow(first.typed_prompt, self._history.model_of(numbers[0]))
        rows_before: list[_UsageRow] = []
        rows_after: list[_UsageRow] = []
        for number in numbers:
            requests = self._requests_of(number)
            turn.attempts += requests.of_turn
            turn.is_ended = turn.is_ended or requests.is_turn_end
            is_turn_over = number == numbers[-1] or requests.compactions
            rows = rows_after if is_turn_over else rows_before
            rows += sorted([*requests.named, *requests.compactions], key=attrgetter("position"))
        # The messages before the first prompt belong to no turn.
        turns = [turn] if is_a_prompt(first.entry.message) else []
        return [*rows_before, *turns, *rows_after]

    def _requests_of(self, number: int) -> _RecordedRequests:
        if number == self._last_number and self._requests_of_last is not None:
            return self._requests_of_last
        return _recorded_requests(self._messages[number], self._history.model_of(number))


class SessionUsage:
    """The usage of all turns of a session: those of this run, and those before it was opened."""

    def __init__(self, history: SessionHistory) -> None:
        self._earlier_turns: EarlierTurns | None = EarlierTurns(history)  # None once `_turns` includes them
        self._turns: list[TurnUsage] = []

    def add(self, usage: TurnUsage) -> None:
        """Add the usage of a turn that ended, or of requests outside the turns, such as for a title."""
        self._turns.append(usage)

    def turns(self, price_of: Callable[[str], Price | None]) -> tuple[TurnUsage, ...]:
        """Return the usage of each turn in order; turns of an earlier run have only the usage that was recorded."""
        if self._earlier_turns is not None:
            self._turns[:0] = self._earlier_turns.usage(price_of)
            self._earlier_turns = None
        return tuple(self._turns)


@dataclass(slots=True)
class _UsageRow:
    """A recorded turn, a `/compact`, or the requests for one other purpose such as a title."""

    prompt: str
    model: str
    attempts: list[AttemptRecord] = field(default_factory=list)
    is_ended: bool = False
    """The end of the turn was recorded, so the turn is listed even if it sent no request."""
    position: int = 0
    """The number of events that were shown with its message before; not used for a turn."""


@dataclass(frozen=True, slots=True)
class _RecordedRequests:
    """The requests that were recorded with a message."""

    of_turn: Sequence[AttemptRecord]
    is_turn_end: bool
    """The turn ended after the message."""
    compactions: Sequence[_UsageRow]
    """The requests of each `/compact` after the turn."""
    named: Sequence[_UsageRow]
    """The requests outside the turns."""


def _recorded_requests(stored: StoredMessage, model: str) -> _RecordedRequests:
    """Split the requests recorded with a message; `model` is the model of the session at that message."""
    requests = [attempt if attempt.model else replace(attempt, model=model) for attempt in stored.turn_requests]
    named = [
        _UsageRow(item.name, item.attempts[-1].model or model, [*item.attempts], position=item.position)
        for item in stored.named_requests
        if item.attempts
    ]
    # The first end is that of the turn, each later one that of a `/compact`. The last summaries belong to the last one.
    compaction_ends = list(stored.turn_ends.items())[1:]
    compactions: list[_UsageRow] = []
    for position, ended in reversed(compaction_ends):
        summaries = [request for request in requests if request.kind == "summary"]
        count = ended.api_calls.compactions + ended.api_calls.retries
        compacted = summaries[-count:] if count else []
        requests = [request for request in requests if not any(request is other for other in compacted)]
        compactions.insert(0, _UsageRow("/compact", model, compacted, is_ended=True, position=position))
    return _RecordedRequests(requests, bool(stored.turn_ends), compactions, named)


def recorded_usage(
    attempts: Sequence[AttemptRecord], model: str, price_of: Callable[[str], Price | None], prompt: str = ""
) -> TurnUsage:
    """Return the usage of stored attempts at current prices. An attempt that names no model was sent to `model`."""
    ledgers: dict[str, Ledger] = {}
    for attempt in attempts:
        name = attempt.model or model
        ledger = ledgers.setdefault(name, Ledger(price_of(name)))
        ledger.add(name, attempt.usage, estimate=attempt.usage, is_unused=attempt.is_unanswered)
    by_model = tuple(used for ledger in ledgers.values() for used in ledger.by_model)
    usage = Usage()
    for used in by_model:
        usage = usage + used.usage
    costs = [used.cost for used in by_model if used.cost is not None]
    are_all_costs_known = len(costs) == len(by_model)
    cost = sum(costs, Decimal(0)) if costs and are_all_costs_known else None
    kinds = Counter("retry" if attempt.is_retry else attempt.kind for attempt in attempts)
    calls = ApiCalls(
        kinds["first"],
        kinds["escalated"],
        kinds["continuation"],
        repairs=kinds["nudge"] + kinds["resume"] + kinds["repair"],
        retries=kinds["retry"],
        compactions=kinds["summary"],
    )
    discarded = sum(attempt.usage.output or 0 for attempt in attempts if attempt.is_discarded)
    truncated_call_tokens = sum(attempt.truncated_call_tokens for attempt in attempts)
    is_interrupted = any(attempt.stop == "cancelled" for attempt in attempts)
    return TurnUsage(
        prompt, model, usage, cost, calls, discarded_output_tokens=discarded, by_model=by_model,
        is_interrupted=is_interrupted, truncated_call_tokens=truncated_call_tokens,
    )  # fmt: skip


LATENCY_BOUNDS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Inclusive upper bounds of the latency buckets; a last bucket has no upper bound."""


@dataclass(slots=True)
class RecoveryMetrics:
    """Recovery from output limits in one conversation and its sub-agents: counts and histograms, no text.

    `observe` must get every event of every turn, in order.
    """

    continuations: Counter[str] = field(default_factory=Counter)
    """Requests that continued a truncated text, by `provider/model`."""
    truncated_without_continuation: Counter[str] = field(default_factory=Counter)
    """Replies that stayed truncated and were not continued, by `provider/model`."""
    continuation_attempts: Counter[int] = field(default_factory=Counter)
    """The number of turns, by their number of continuations."""
    recovered_turn_seconds: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))
    """The number of turns with an escalation or continuation, by their duration (a bucket for each bound)."""
    reserved_output_tokens: int = 0
    """The sum of the output caps of all requests."""
    saved_output_tokens: int = 0
    """The output tokens that requests with the full limit would have reserved, minus those that were reserved."""
    damaged_events: Counter[str] = field(default_factory=Counter)
    """Events of a stream that could not be read and were skipped, by `provider/model`."""
    _turn_started_at: float = 0.0
    _turn_continuations: int = 0
    _models: dict[str, str] = field(default_factory=dict)
    """The models by the id of the call that started a sub-agent. The id `""` stands for the conversation itself."""

    def observe(self, event: TurnEvent, model: str, limit: int | None, now: float) -> None:
        """Count one event of a turn with `model` (`provider/model`), whose output limit is `limit`.

        `now` is in seconds of any clock.
        """
        match event:
            case TurnStarted():
                self._turn_started_at = now
                self._turn_continuations = 0
                self._models.clear()
            case TurnEnded():
                self._end_turn(event, now)
            case AgentEvent(call_id=call_id, event=inner):
                self._count(inner, call_id, model, limit=None)
            case _:
                self._count(event, call_id="", model=model, limit=limit)

    def _count(self, event: TurnEvent, call_id: str, model: str, limit: int | None) -> None:
        match event:
            case StopReasonObserved():
                # Precedes the recovery of the reply, and names the model that a sub-agent uses.
                self._models[call_id] = f"{event.provider}/{event.model}"
            case ContinuationAttempt():
                self._turn_continuations += 1
                self.continuations[self._models.get(call_id, model)] += 1
            case ReplyFinished() if event.attempts:
                self._count_reserved_tokens(event, limit)
                if damaged := sum(attempt.damaged_events for attempt in event.attempts):
                    self.damaged_events[self._models.get(call_id, model)] += damaged
                is_continued = any(attempt.kind == "continuation" for attempt in event.attempts)
                if event.stop is StopReason.MAX_TOKENS and not is_continued:
                    self.truncated_without_continuation[self._models.get(call_id, model)] += 1
            case _:
                return

    def _count_reserved_tokens(self, reply: ReplyFinished, limit: int | None) -> None:
        reserved = sum(attempt.max_tokens for attempt in reply.attempts)
        largest = max(attempt.max_tokens for attempt in reply.attempts)
        self.reserved_output_tokens += reserved
        self.saved_output_tokens += max(limit or ESCALATED_MAX_TOKENS, largest) - reserved

    def _end_turn(self, ended: TurnEnded, now: float) -> None:
        self.continuation_attempts[self._turn_continuations] += 1
        if self._turn_continuations or ended.api_calls.escalations:
            bucket = bisect_left(LATENCY_BOUNDS_S, now - self._turn_started_at)
            self.recovered_turn_seconds[bucket] += 1

    def as_json(self) -> JsonObject:
        """Return the metrics as JSON values; buckets are named by their upper bound, the last one `more`."""
        bounds = (*(f"{bound:g}" for bound in LATENCY_BOUNDS_S), "more")
        return {
            "continuations": dict(self.continuations),
            "truncated_without_continuation": dict(self.truncated_without_continuation),
            "continuation_attempts": {str(count): turns for count, turns in sorted(self.continuation_attempts.items())},
            "recovered_turn_seconds": dict(zip(bounds, self.recovered_turn_seconds, strict=True)),
            "reserved_output_tokens": self.reserved_output_tokens,
            "saved_output_tokens": self.saved_output_tokens,
            "damaged_events": dict(self.damaged_events),
        }


_MAX_TURNS = 8
"""The number of turns that `usage_report_text` lists."""


def usage_report_text(turns: Sequence[TurnUsage], metrics: RecoveryMetrics | None = None) -> str:
    """Return the usage of the session: in total, by model, and of its last turns; with `metrics`, also of recovery."""
    if not turns:
        return "No requests yet."
    usage = Usage()
    calls = ApiCalls()
    for turn in turns:
        usage = usage + turn.usage
        calls = _sum_calls(calls, turn.api_calls)
    discarded = sum(turn.discarded_output_tokens for turn in turns)
    truncated = sum(turn.truncated_call_tokens for turn in turns)
    cache_details = {"cache read": usage.cache_read, "written": usage.cache_write}
    output_details = {
        "reasoning": usage.reasoning or None,
        "discarded": discarded or None,
        "in truncated tool calls": truncated or None,
    }
    lines = [
        f"Cost        {_cost_text(turns)}",
        f"Input       {_tokens_text(usage.input)}{_details_text(cache_details)}{_hit_rate_text(usage)}",
        f"Output      {_tokens_text(usage.output)}{_details_text(output_details)}",
        f"API calls   {calls.total} ({_calls_text(calls)})",
    ]
    if metrics is not None:
        lines += recovery_lines(metrics)
    parts_by_model: dict[str, list[ModelUsage]] = {}
    for turn in turns:
        for part in _by_model(turn):
            parts_by_model.setdefault(part.model, []).append(part)
    if len(parts_by_model) > 1:
        lines += ["", "By model"]
        lines += [_model_line(model, parts) for model, parts in parts_by_model.items()]
    lines += ["", f"Turns, the last {_MAX_TURNS} of {len(turns)}" if len(turns) > _MAX_TURNS else "Turns"]
    lines += [_turn_line(turn) for turn in turns[-_MAX_TURNS:]]
    return "\n".join(lines)


def recovery_lines(metrics: RecoveryMetrics) -> list[str]:
    """Return what the small output caps saved, and how often replies were continued."""
    lines = []
    if metrics.saved_output_tokens > 0:
        whole = tokens_text(metrics.reserved_output_tokens + metrics.saved_output_tokens)
        reserved = tokens_text(metrics.reserved_output_tokens)
        lines.append(f"Reserved    {reserved} output tokens instead of {whole}, by requesting a short reply first")
    if total := sum(metrics.continuations.values()):
        lines.append(f"Continued   {count_text(total, 'time')}")
    return lines


_UNKNOWN = "unknown"


def _turn_line(turn: TurnUsage) -> str:
    prompt = f"{cut(turn.prompt, 30):<30}"
    if not _has_request(turn):
        return f"  {prompt} no request sent"
    cost = _cost_text([turn]) if turn.cost is not None else _UNKNOWN
    return f"  {prompt} {_turn_tokens(turn)}  {cost}"


def _turn_tokens(turn: TurnUsage) -> str:
    """Return the tokens of a turn in columns, or in words if the provider did not report all of them."""
    sent, received = turn.usage.input, turn.usage.output
    if sent is not None and received is not None:
        return f"{tokens_text(sent):>6} in {tokens_text(received):>6} out"
    ending = " (interrupted)" if turn.is_interrupted else ""
    if sent is None:
        return f"usage not reported{ending}"
    return f"{tokens_text(sent):>6} in, output not reported{ending}"


def _by_model(turn: TurnUsage) -> tuple[ModelUsage, ...]:
    """Return the usage of each model of a turn; empty for a turn without requests."""
    if turn.by_model or not _has_request(turn):
        return turn.by_model
    return (ModelUsage(turn.model, turn.usage, turn.cost),)


def _has_request(turn: TurnUsage) -> bool:
    return turn.api_calls.total > 0 or turn.usage != Usage()


def _model_line(model: str, parts: Sequence[ModelUsage]) -> str:
    usage = Usage()
    for used in parts:
        usage = usage + used.usage
    if usage.input is None and usage.output is None:
        return f"  {cut(model, 34):<34} usage not reported"
    tokens = f"{_tokens_text(usage.input)} in, {_tokens_text(usage.output)} out"
    return f"  {cut(model, 34):<34} {tokens}, {_cost_text(parts)}"


def _cost_text(usages: Sequence[TurnUsage | ModelUsage]) -> str:
    """Return the cost of turns, or of the parts of turns that used one model."""
    known_costs = [item.cost for item in usages if item.cost is not None]
    if not known_costs:
        is_reported = any(item.usage.input is not None for item in usages)
        return f"{_UNKNOWN} ({'no price for this model' if is_reported else 'usage not reported'})"
    text = cost_text(sum(known_costs, Decimal(0)))
    unknown = len(usages) - len(known_costs)
    return f"{text}, plus {count_text(unknown, 'turn')} of unknown cost" if unknown else text


def _details_text(counts: Mapping[str, int | None]) -> str:
    """Return numbers of tokens with their names in parentheses; None was not reported and is left out."""
    reported = [f"{name} {tokens_text(count)}" for name, count in counts.items() if count is not None]
    return f"  ({', '.join(reported)})" if reported else ""


def _hit_rate_text(usage: Usage) -> str:
    rate = cache_hit_rate(usage)
    return "" if rate is None else f", {percent_text(usage.cache_read or 0, usage.input or 0)} from the cache"


def _calls_text(calls: ApiCalls) -> str:
    parts = [
        (calls.initial, "first attempt", "first attempts"),
        (calls.escalations, "retry with a higher output limit", "retries with a higher output limit"),
        (calls.continuations, "continuation", "continuations"),
        (calls.repairs, "correction of a tool call", "corrections of tool calls"),
        (calls.retries, "retry", "retries"),
        (calls.compactions, "compaction", "compactions"),
    ]
    return ", ".join(count_text(count, noun, plural) for count, noun, plural in parts if count) or "none"


def _sum_calls(left: ApiCalls, right: ApiCalls) -> ApiCalls:
    counts = asdict(right)
    return ApiCalls(**{cause: count + counts[cause] for cause, count in asdict(left).items()})


def _tokens_text(count: int | None) -> str:
    return "not reported" if count is None else tokens_text(count)
