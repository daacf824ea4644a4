"""Totals over stored sessions: turns, tokens, cost and recoveries, by day and model.

Separate because only `qcode stats` imports it. Files are read line by line, without building a conversation; unreadable
lines are skipped. Tokens are as the provider reported them. Costs use current prices, because sessions store no prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from qcode.agent.sessions.records import attempts_from_json
from qcode.protocol.events import AttemptRecord
from qcode.protocol.usage import Price, Usage, cost_of
from qcode.text.columns import columns
from qcode.text.json import JsonObject, object_in, parse_object
from qcode.text.numbers import cost_text, count_text, tokens_text
from qcode.values import dataclass

_RESULT = "result"
# A record begins with its kind, so other lines need not be parsed.
_LINE_STARTS = tuple(
    f'{{"kind":"{kind}"'.encode() for kind in ("session", "model", "message", "agent", "requests", "compaction")
)


@dataclass(slots=True)
class UsageTotals:
    """Sums over some sessions. `input` to `discarded_output` are in tokens."""

    turns: int = 0
    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    discarded_output: int = 0
    escalations: int = 0
    continuations: int = 0
    retries: int = 0
    cost: Decimal = Decimal(0)
    """In USD, without requests of unknown price."""
    unpriced_requests: int = 0
    """The number of requests of unknown price."""

    def add(self, attempt: AttemptRecord, price: Price | None) -> None:
        usage: Usage = attempt.usage
        self.requests += 1
        self.input += usage.input or 0
        self.output += usage.output or 0
        self.cache_read += usage.cache_read or 0
        if attempt.is_discarded:
            self.discarded_output += usage.output or 0
        if attempt.is_retry:
            self.retries += 1
        elif attempt.kind == "escalated":
            self.escalations += 1
        elif attempt.kind == "continuation":
            self.continuations += 1
        cost = Decimal(0) if attempt.is_unanswered else cost_of(usage, price)
        if cost is None:
            self.unpriced_requests += 1
        else:
            self.cost += cost

    def as_json(self) -> JsonObject:
        return {
            "turns": self.turns,
            "requests": self.requests,
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "discarded_output_tokens": self.discarded_output,
            "escalations": self.escalations,
            "continuations": self.continuations,
            "retries": self.retries,
            "cost_usd": float(self.cost),
            "requests_without_price": self.unpriced_requests,
        }


class Stats:
    """The totals of sessions, by day (`2026-11-22`, local time) and model. `price_of` gets `provider/model`.

    Turns that other programs wrote, in imported sessions, count only in `imported_turns`. A message that a fork copied
    counts once.
    """

    def __init__(self, price_of: Callable[[str], Price | None]) -> None:
        self.sessions = 0
        self.imported_turns = 0
        self._seen_hashes: set[int] = set()
        self.by_day_and_model: dict[tuple[str, str], UsageTotals] = {}
        self._price_of = price_of
        self._prices: dict[str, Price | None] = {}

    def read(self, files: Iterable[Path]) -> None:
        """Add session files; unreadable files are skipped."""
        for path in sorted(files, key=lambda path: path.name):  # by time: an original comes before its forks
            try:
                with path.open("rb") as stream:
                    self._read_lines(stream)
            except OSError:
                continue

    def _read_lines(self, lines: Iterable[bytes]) -> None:
        """Add the lines of a session. A session that another program wrote as a whole does not count."""
        model = ""
        day = ""
        is_fork = False
        is_by_qcode = True
        imported_left = 0  # the number of imported messages that follow
        for line in lines:
            if not line.startswith(_LINE_STARTS):
                continue
            record = parse_object(line.decode("utf-8", "replace"))
            if record is None:
                continue
            day = _day(record.get("at")) or day
            record_model = record.get("model")
            if isinstance(record_model, str) and record_model:
                model = record_model
            if record["kind"] == "session":
                imported_left = _imported_messages(record)
                is_fork = "forked_from" in record
                is_by_qcode = imported_left == 0
            elif record["kind"] == "message" and imported_left:
                imported_left -= 1
                if _is_turn(record):
                    self.imported_turns += 1
            elif record["kind"] in ("message", "agent", "requests") and not self._is_copied(line, is_fork=is_fork):
                is_by_qcode = True
                self._add(record, day, model)
        if is_by_qcode:
            self.sessions += 1

    def _is_copied(self, line: bytes, *, is_fork: bool) -> bool:
        """Return whether a fork copied this line from a session that was read before."""
        line_hash = hash(line)
        if is_fork and line_hash in self._seen_hashes:
            return True
        self._seen_hashes.add(line_hash)
        return False

    def _add(self, record: JsonObject, day: str, model: str) -> None:
        totals = self._totals(day, model)
        if record["kind"] == "message" and _is_turn(record):
            totals.turns += 1
        for attempt in attempts_from_json(record.get("attempts")):
            name = attempt.model or model
            if name not in self._prices:
                self._prices[name] = self._price_of(name)
            self._totals(day, name).add(attempt, self._prices[name])

    def _totals(self, day: str, model: str) -> UsageTotals:
        return self.by_day_and_model.setdefault((day, model), UsageTotals())

    @property
    def totals(self) -> UsageTotals:
        return _sum(self.by_day_and_model.values())

    def as_json(self) -> JsonObject:
        rows = [
            {"day": day, "model": model, **totals.as_json()}
            for (day, model), totals in sorted(self.by_day_and_model.items())
        ]
        total = self.totals.as_json()
        return {
            "sessions": self.sessions,
            "imported_turns": self.imported_turns,
            "total": total,
            "by_day_and_model": list(rows),
        }

    def lines(self) -> list[str]:
        """Return a table with a row for each day and model, and the total."""
        notes = []
        if self.imported_turns:
            notes.append(f"{count_text(self.imported_turns, 'turn')} of imported sessions not counted")
        if not self.by_day_and_model:
            return ["no sessions yet", *notes]
        rows = [_HEADER, *(_row(day, model, totals) for (day, model), totals in sorted(self.by_day_and_model.items()))]
        rows.append(_row("total", count_text(self.sessions, "session"), self.totals))
        table = columns(rows, text_columns=_TEXT_COLUMNS)
        if unpriced := self.totals.unpriced_requests:
            notes.append(f"{count_text(unpriced, 'request')} of unknown price")
        return [*table, *notes]


_TEXT_COLUMNS = 2
_HEADER = ("day", "model", "turns", "requests", "input", "cached", "output", "recovered", "cost")


def _row(day: str, model: str, totals: UsageTotals) -> tuple[str, ...]:
    recovered = totals.escalations + totals.continuations
    # A refused request costs $0, so beside requests of unknown price it must not make the sum look like a known cost.
    is_cost_unknown = totals.unpriced_requests > 0 and not totals.cost
    return (
        day or "-",
        model or "-",
        f"{totals.turns:,}",
        f"{totals.requests:,}",
        tokens_text(totals.input),
        tokens_text(totals.cache_read),
        tokens_text(totals.output),
        f"{recovered:,}",
        "-" if is_cost_unknown else cost_text(totals.cost),
    )


def _sum(parts: Iterable[UsageTotals]) -> UsageTotals:
    total = UsageTotals()
    for part in parts:
        total.turns += part.turns
        total.requests += part.requests
        total.input += part.input
        total.output += part.output
        total.cache_read += part.cache_read
        total.discarded_output += part.discarded_output
        total.escalations += part.escalations
        total.continuations += part.continuations
        total.retries += part.retries
        total.cost += part.cost
        total.unpriced_requests += part.unpriced_requests
    return total


def _is_turn(record: JsonObject) -> bool:
    """Return whether a message is a prompt that began a turn: no tool result, and not added during a turn."""
    blocks = record.get("blocks")
    if record.get("role") != "user" or record.get("is_own") is False or not isinstance(blocks, list):
        return False
    return not any(isinstance(block, dict) and block.get("type") == _RESULT for block in blocks)


def _imported_messages(header: JsonObject) -> int:
    """Return the number of messages at the start of a session that another program wrote."""
    count = object_in(header.get("imported")).get("messages")
    return count if isinstance(count, int) else 0


def _day(timestamp: object) -> str:
    try:
        return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%Y-%m-%d")
    except ValueError:
        return ""
