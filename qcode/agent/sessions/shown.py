"""The display of a conversation beside its messages, kept so that a resumed session looks as it was seen.

`ShownRecorder` picks it out of the events of a turn; the functions convert it to JSON and back. None of it is ever sent
to a model. `replay` turns it and the messages into events again; a file without these records replays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, cast, get_args

from qcode.agent.sessions.history import Shown, ShownPrompt, ShownResult, Thought
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    AgentEvent,
    ApiCalls,
    CallState,
    Compacted,
    Level,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    Retry,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    TurnStarted,
)
from qcode.protocol.reply import Limit, Outcome, ReasoningDelta, Source, TextDelta, WebSearched
from qcode.protocol.usage import Usage
from qcode.text.json import Json, JsonObject

MAX_DIFF_CHARS = 400_000
"""A longer diff is cut at a line. The checkpoints have both versions of the file."""

_FLAT: Mapping[str, tuple[type[Any], Mapping[str, type]]] = {
    "notice": (Notice, {"level": str, "text": str}),
    "retry": (Retry, {"is_continuation": bool, "reason": str, "attempt": int, "max_tokens": int}),
    "escalated": (OutputEscalated, {"from_tokens": int, "to_tokens": int}),
    "restored": (PartialRestored, {"text": str}),
    "compacted": (Compacted, {"before_tokens": int, "after_tokens": int, "kind": str}),
    "thought": (Thought, {"seconds": float}),
    "prompt": (ShownPrompt, {"text": str}),
}
"""Items whose fields are plain values, by their name in the file."""
_NAMES = {cls: name for name, (cls, _) in _FLAT.items()}


def result_to_json(shown: ShownResult, content: str, redact: Callable[[str], str]) -> JsonObject:
    """Return the display of a result whose redacted content is `content`."""
    found: JsonObject = {"state": shown.state}
    if shown.summary:
        found["summary"] = redact(shown.summary)
    if shown.diff:
        found["diff"] = redact(_cut(shown.diff))
    if shown.seconds is not None:
        found["seconds"] = round(shown.seconds, 3)
    if shown.output is not None:
        output = redact(shown.output)
        start = output.removesuffix("\n")
        # Mostly the start of the content, and then not written twice.
        found["output"] = len(start) if content.startswith(start) else output
    return found


def result_from(value: Json, content: str) -> ShownResult | None:
    """Return the display of a result, None if there is none or it is invalid: the result itself is still used."""
    if not isinstance(value, dict):
        return None
    state, seconds, output = value.get("state"), value.get("seconds"), value.get("output")
    if state not in get_args(CallState):
        return None
    shown = content[:output] if isinstance(output, int) else output if isinstance(output, str) else None
    took = float(seconds) if isinstance(seconds, (int, float)) else None
    return ShownResult(cast("CallState", state), _text(value, "summary"), _text(value, "diff"), took, shown)


def _cut(diff: str) -> str:
    return diff if len(diff) <= MAX_DIFF_CHARS else diff[: diff.rindex("\n", 0, MAX_DIFF_CHARS) + 1]


def shown_to_json(shown: Shown, redact: Callable[[str], str]) -> JsonObject:
    event = shown.event
    found: JsonObject
    match event:
        case TurnEnded():
            found = _turn_to_json(event, redact)
        case WebSearched():
            sources: list[Json] = [[source.url, source.title] for source in event.sources]
            found = {"type": "searched", "queries": [redact(query) for query in event.queries], "sources": sources}
        case _:
            name = _NAMES[type(event)]
            values = {field: getattr(event, field) for field in _FLAT[name][1]}
            found = {"type": name, **{key: redact(v) if isinstance(v, str) else v for key, v in values.items()}}
    return {**found, "at": shown.at} if shown.at else found


def shown_from(value: Json) -> Shown | None:
    """Return an item; None if it is of an unknown type. Raise `ValueError` if it is invalid."""
    if not isinstance(value, dict):
        raise ValueError("not an object")
    at = value.get("at", 0)
    if not isinstance(at, int):
        raise ValueError("at is no number")
    name = _text(value, "type")
    if name == "turn":
        return Shown(_turn_from(value), at)
    if name == "searched":
        return Shown(_searched_from(value), at)
    if name not in _FLAT:
        return None
    cls, kinds = _FLAT[name]
    found = {field: value.get(field) for field in kinds}
    for field, kind in kinds.items():
        if not isinstance(found[field], (int, float) if kind is float else kind):
            raise ValueError(f"{field} is missing or of the wrong kind")
    if cls is Notice and found["level"] not in get_args(Level):
        raise ValueError("no such level")
    return Shown(cls(**found), at)


def _turn_to_json(ended: TurnEnded, redact: Callable[[str], str]) -> JsonObject:
    usage = {one.name: getattr(ended.usage, one.name) for one in fields(Usage)}
    found: JsonObject = {
        "type": "turn",
        "outcome": ended.outcome,
        "usage": {name: count for name, count in usage.items() if count is not None},
        "api_calls": {name: count for name, count in asdict(ended.api_calls).items() if count},
    }
    if ended.seconds is not None:
        found["seconds"] = round(ended.seconds, 3)
    if ended.cost is not None:
        found["cost"] = str(ended.cost)
    if ended.discarded_output_tokens:
        found["discarded"] = ended.discarded_output_tokens
    if ended.limit is not None:
        found["limit"] = ended.limit
    if ended.error is not None:
        found["error"] = {"kind": ended.error.kind, "message": redact(ended.error.message)}
    return found


def _turn_from(value: JsonObject) -> TurnEnded:
    error, limit, cost, seconds = (value.get(name) for name in ("error", "limit", "cost", "seconds"))
    try:
        spent = Decimal(cost) if isinstance(cost, str) else None
    except InvalidOperation:
        raise ValueError("cost is no number") from None
    discarded = value.get("discarded")
    return TurnEnded(
        Outcome(_text(value, "outcome")),
        None,
        "",
        "",
        0,
        Usage(**_counts(value.get("usage"), Usage)),
        spent,
        ApiCalls(**_counts(value.get("api_calls"), ApiCalls)),
        discarded_output_tokens=discarded if isinstance(discarded, int) else 0,
        limit=Limit(limit) if isinstance(limit, str) else None,
        error=ErrorInfo(_text(error, "kind"), _text(error, "message")) if isinstance(error, dict) else None,
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
    )


def _searched_from(value: JsonObject) -> WebSearched:
    queries, sources = value.get("queries"), value.get("sources")
    if not isinstance(queries, list) or not isinstance(sources, list):
        raise ValueError("a search without its lists")
    pages = [Source(*map(str, one[:2])) for one in sources if isinstance(one, list) and one]
    return WebSearched(tuple(map(str, queries)), tuple(pages))


def _counts(value: Json, cls: type[Any]) -> dict[str, int]:
    known = {one.name for one in fields(cls)}
    found = value.items() if isinstance(value, dict) else ()
    return {name: count for name, count in found if name in known and isinstance(count, int)}


def _text(value: JsonObject, name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""


class ShownRecorder:
    """Records, of the events of one turn, those that no message holds. `prompt` is how the prompt was shown.

    `record` is called once the message that the items belong to is stored.
    """

    def __init__(self, record: Callable[[list[Shown]], None], clock: Callable[[], float], prompt: str = "") -> None:
        self._record = record
        self._clock = clock
        self._prompt = prompt
        self._begun = clock()
        self._running: dict[str, float] = {}
        self._pending: list[Shown] = []
        self._chars = 0
        self._thinking_since: float | None = None
        self._has_shown = False

    def see(self, event: TurnEvent) -> TurnEvent:
        """Record an event, and return it with the time it took."""
        match event:
            case TurnStarted() if self._prompt:
                self._record([Shown(ShownPrompt(self._prompt))])
            case ToolStarted(call=call):
                self._running[call.call_id] = self._clock()
            case ToolFinished(call=call) if call.call_id in self._running:
                return replace(event, seconds=self._clock() - self._running.pop(call.call_id))
            case Notice() | Compacted():
                self._record([Shown(event)])
            case TurnEnded():
                ended = replace(event, seconds=self._clock() - self._begun)
                self._record([Shown(ended)])
                return ended
            case AgentEvent():
                pass
            case _:
                self._see_reply(event)
        return event

    def _see_reply(self, event: TurnEvent) -> None:
        match event:
            case StepStarted():
                self._start_reply()
                self._has_shown = False
            case ReasoningDelta():
                self._has_shown = True
                self._thinking_since = self._clock() if self._thinking_since is None else self._thinking_since
            case TextDelta(text=text):
                self._end_thought()
                self._has_shown = True
                self._chars += len(text)
            case ToolCallProgress():
                self._end_thought()
                self._has_shown = True
            case Retry() | PartialRestored():
                self._see_retry(event)
            case OutputEscalated() | WebSearched():
                self._pending.append(Shown(event, self._chars))
            case ReplyFinished(message=message):
                self._end_thought()
                if message is not None and self._pending:
                    self._record(self._pending)
                self._start_reply()
            case _:
                pass

    def _see_retry(self, event: Retry | PartialRestored) -> None:
        if isinstance(event, PartialRestored):
            self._start_reply()
            self._chars = len(event.text)
            self._pending = [Shown(PartialRestored(""), self._chars)]
        elif event.is_continuation:
            self._pending.append(Shown(event, self._chars))
        else:
            self._start_reply()
            # A label over text that the new attempt replaced is gone when the reply is finished.
            if not self._has_shown:
                self._pending.append(Shown(event))

    def _start_reply(self) -> None:
        self._pending, self._chars, self._thinking_since = [], 0, None

    def _end_thought(self) -> None:
        if self._thinking_since is not None:
            seconds, self._thinking_since = self._clock() - self._thinking_since, None
            self._pending.append(Shown(Thought(round(seconds, 3)), self._chars))
