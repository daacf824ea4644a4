"""Converts messages, attempts and records of the history to JSON and back, and records to lines.

Parsing is strict: a value of the wrong type raises `ValueError`. A line is one JSON object followed by a newline.
Other characters that some programs treat as a line end are escaped: control characters, U+0085, U+2028 and U+2029.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from decimal import Decimal, InvalidOperation
from typing import Any, cast, get_args, overload

from qcode.agent.sessions.history import (
    MOVE_KINDS,
    FileMove,
    FileState,
    HistoryEntry,
    InnerMessage,
    Move,
    MoveKind,
    NumberRange,
    RecordedChange,
    SessionHistory,
    StoredMessage,
    is_a_prompt,
)
from qcode.agent.sessions.shown import ShownItem, ShownPrompt, ShownQuestion, ShownResult, StoredJob, Thought
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    ApiCalls,
    AttemptKind,
    AttemptRecord,
    CallState,
    Compacted,
    Level,
    Notice,
    OutputEscalated,
    PartialRestored,
    Retry,
    TurnEnded,
)
from qcode.protocol.messages import Block, Image, Message, Opaque, Reasoning, Role, Text, ToolCall, ToolResult
from qcode.protocol.reply import Limit, Outcome, Source, WebSearched
from qcode.protocol.tools import SandboxUse
from qcode.protocol.usage import Usage
from qcode.safety.redaction import redact_arguments
from qcode.text.json import Json, JsonObject, count_in, finite_in, text_in, texts_in

_USAGE_FIELDS = tuple(member.name for member in fields(Usage))
_ATTEMPT_KINDS = frozenset(get_args(AttemptKind))
_ROLES = frozenset(get_args(Role))
_MAX_NUMBER = 1_000_000  # more messages than a session has; a damaged range may end at any number
VERSION = 1
"""The version of the session file format."""


def message_to_json(message: Message) -> JsonObject:
    return {"role": message.role, "blocks": [block_to_json(block) for block in message.blocks]}


def message_from_json(value: JsonObject) -> Message:
    role = str_field(value, "role")
    if role not in _ROLES:
        raise ValueError("no such role")
    return Message(cast("Role", role), tuple([block_from_json(item) for item in _list_field(value, "blocks")]))


def block_to_json(block: Block) -> JsonObject:
    match block:
        case Text(text, opaque):
            return {"type": "text", "text": text, **_opaque_to_json(opaque)}
        case Reasoning(text, opaque):
            return {"type": "reasoning", "text": text, **_opaque_to_json(opaque)}
        case ToolCall(call_id, name, arguments, opaque, is_from_text):
            call: JsonObject = {"type": "call", "call_id": call_id, "name": name, "arguments": arguments}
            if is_from_text:
                call["from_text"] = True
            return {**call, **_opaque_to_json(opaque)}
        case ToolResult():
            return _result_to_json(block)
        case Image(media_type, data):
            return {"type": "image", "media_type": media_type, "data": data}


def block_from_json(value: Json) -> Block:
    block = _as_object(value)
    reader = _READERS.get(str_field(block, "type"))
    if reader is None:
        raise ValueError("no such block")
    return reader(block)


def usage_to_json(usage: Usage) -> JsonObject:
    """Return the counts that the provider reported."""
    return {name: count for name in _USAGE_FIELDS if (count := getattr(usage, name)) is not None}


def attempt_to_json(attempt: AttemptRecord) -> JsonObject:
    record: JsonObject = {
        "kind": attempt.kind,
        "max_tokens": attempt.max_tokens,
        "stop": attempt.stop,
        "usage": usage_to_json(attempt.usage),
        "is_discarded": attempt.is_discarded,
    }
    if attempt.is_retry:
        record["is_retry"] = True
    if attempt.is_unanswered:
        record["is_unanswered"] = True
    if attempt.model:
        record["model"] = attempt.model
    counts = {name: getattr(attempt, name) for name in ("damaged_events", "truncated_call_tokens")}
    return record | {name: count for name, count in counts.items() if count}


def attempts_from_json(value: Json) -> tuple[AttemptRecord, ...]:
    """Return the valid attempts. An invalid attempt is skipped, because the message must stay readable."""
    attempts = []
    for item in value if isinstance(value, list) else ():
        with suppress(ValueError):
            attempts.append(_attempt_from_json(_as_object(item)))
    return tuple(attempts)


class StoredAttempts(Sequence[AttemptRecord]):
    """The attempts of a stored message, decoded at their first use, because those of most messages are never used."""

    __slots__ = ("_value",)

    def __init__(self, value: Json) -> None:
        self._value: Json | tuple[AttemptRecord, ...] = value

    @overload
    def __getitem__(self, index: int) -> AttemptRecord: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[AttemptRecord, ...]: ...
    def __getitem__(self, index: int | slice) -> AttemptRecord | tuple[AttemptRecord, ...]:
        return self._read()[index]

    def __len__(self) -> int:
        return len(self._read())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._read() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._read())

    def _read(self) -> tuple[AttemptRecord, ...]:
        if not isinstance(self._value, tuple):
            self._value = attempts_from_json(self._value)
        return self._value


def _stored_attempts(record: JsonObject) -> Sequence[AttemptRecord]:
    return StoredAttempts(record["attempts"]) if "attempts" in record else ()


def _attempt_from_json(value: JsonObject) -> AttemptRecord:
    usage = _as_object(value.get("usage"))
    counts = {name: int_field(usage, name) for name in _USAGE_FIELDS if name in usage}
    kind = str_field(value, "kind")
    if kind not in _ATTEMPT_KINDS:
        raise ValueError("no such attempt")
    return AttemptRecord(
        cast("AttemptKind", kind),
        usage=Usage(**counts),
        max_tokens=int_field(value, "max_tokens"),
        stop=str_field(value, "stop"),
        is_discarded=_bool_field(value, "is_discarded"),
        is_retry=value.get("is_retry") is True,
        is_unanswered=value.get("is_unanswered") is True,
        model=str_field(value, "model", ""),
        damaged_events=count_in(value.get("damaged_events")) or 0,
        truncated_call_tokens=count_in(value.get("truncated_call_tokens")) or 0,
    )


def _opaque_to_json(opaque: Opaque | None) -> JsonObject:
    return {} if opaque is None else {"opaque": {"source": opaque.source, "data": opaque.data}}


def _result_to_json(block: ToolResult) -> JsonObject:
    row: JsonObject = {"type": "result", "call_id": block.call_id, "name": block.name}
    row |= {"content": block.content, "is_error": block.is_error}
    if block.is_signal:
        row["is_signal"] = True
    if block.images:
        row["images"] = [block_to_json(image) for image in block.images]
    return row


def _read_opaque(value: JsonObject) -> Opaque | None:
    if "opaque" not in value:
        return None
    opaque = _as_object(value["opaque"])
    return Opaque(str_field(opaque, "source"), str_field(opaque, "data"))


def _read_result(value: JsonObject) -> ToolResult:
    images = tuple(map(_read_image, _list_field(value, "images"))) if "images" in value else ()
    call_id, name, content = str_field(value, "call_id"), str_field(value, "name"), str_field(value, "content")
    return ToolResult(call_id, name, content, _bool_field(value, "is_error"), images, value.get("is_signal") is True)


def _read_call(value: JsonObject) -> ToolCall:
    call_id, name, arguments = str_field(value, "call_id"), str_field(value, "name"), str_field(value, "arguments")
    return ToolCall(call_id, name, arguments, _read_opaque(value), value.get("from_text") is True)


def _read_image(value: Json) -> Image:
    image = _as_object(value)
    return Image(str_field(image, "media_type"), str_field(image, "data"))


_READERS: dict[str, Callable[[JsonObject], Block]] = {
    "text": lambda value: Text(str_field(value, "text"), _read_opaque(value)),
    "reasoning": lambda value: Reasoning(str_field(value, "text"), _read_opaque(value)),
    "call": _read_call,
    "result": _read_result,
    "image": _read_image,
}


def _bool_field(value: JsonObject, name: str) -> bool:
    flag = value.get(name)
    if not isinstance(flag, bool):
        raise ValueError(f"{name} is missing or not a boolean")
    return flag


def stored_to_json(stored: StoredMessage) -> JsonObject:
    entry = stored.entry
    record: JsonObject = {"at": entry.timestamp, "n": stored.number, **message_to_json(entry.message)}
    attempts: list[Json] = [attempt_to_json(attempt) for attempt in entry.attempts]
    if attempts:
        record["attempts"] = attempts
    if entry.note:
        record["note"] = entry.note
    if is_a_prompt(entry.message) and not stored.is_turn_start:
        record["is_own"] = False
    return record


def stored_from_json(record: JsonObject, next_number: int | None = None) -> StoredMessage:
    """Return a message. Its number is `next_number` if the record has none."""
    message = message_from_json(record)
    entry = HistoryEntry(
        message,
        _stored_attempts(record),
        note=str_field(record, "note", ""),
        timestamp=str_field(record, "at", ""),
        numbers=(int_field(record, "n", next_number),),
    )
    return StoredMessage(entry, is_turn_start=is_a_prompt(message) and record.get("is_own") is not False)


def summaries_from_json(record: JsonObject) -> list[StoredMessage]:
    """Return the messages with which a compaction replaced older messages."""
    messages = [stored_from_json(_as_object(item)) for item in _list_field(record, "new")]
    return [StoredMessage(message.entry, is_turn_start=False, is_summary=True) for message in messages]


def inner_to_json(call_id: str, inner: InnerMessage) -> JsonObject:
    attempts: list[Json] = [attempt_to_json(attempt) for attempt in inner.attempts]
    return {"call_id": call_id, "message": message_to_json(inner.message), "attempts": attempts}


def inner_from_json(record: JsonObject) -> InnerMessage:
    return InnerMessage(message_from_json(_as_object(record.get("message"))), _stored_attempts(record))


def ranges_to_json(ranges: Iterable[NumberRange]) -> list[Json]:
    return [[first, end] for first, end in ranges]


def ranges_from_json(value: Json) -> tuple[NumberRange, ...]:
    if not isinstance(value, list):
        raise ValueError("the message ranges are missing")
    ranges = []
    for item in value:
        match item:
            case [int(first), int(end)] if 0 <= first < end <= _MAX_NUMBER:
                ranges.append((first, end))
            case _:
                raise ValueError("not a range of messages")
    return tuple(ranges)


def change_to_json(position: int, change: RecordedChange) -> JsonObject:
    return {
        "change": position,
        "n": change.message_number,
        "path": change.path,
        "before": _state_to_json(change.before),
        "after": _state_to_json(change.after),
        "by": change.by,
    }


def change_from_json(record: JsonObject) -> RecordedChange:
    return RecordedChange(
        int_field(record, "n"),
        str_field(record, "path"),
        before=_state_from_json(record, "before"),
        after=_state_from_json(record, "after"),
        by="command" if record.get("by") == "command" else "tool",
    )


def move_to_json(move: Move) -> JsonObject:
    after = move.after
    files: list[Json] = [
        {"path": file.path, "source": _state_to_json(file.source), "target": _state_to_json(file.target)}
        for file in move.files
    ]
    prompt_number = None if after.prompt is None else after.prompt.number
    to: JsonObject = {"runs": ranges_to_json(after.ranges), "own": prompt_number}
    return {"move": move.move_id, "why": move.kind, "to": to, "files": files, "changes": [*move.changes]}


def move_from_json(record: JsonObject, history: SessionHistory) -> Move:
    to = _as_object(record.get("to"))
    prompt = None if to.get("own") is None else int_field(to, "own")
    after = history.head_of(ranges_from_json(to.get("runs")), prompt)
    files = tuple(_file_move_from_json(_as_object(item)) for item in _list_field(record, "files"))
    changes = tuple(int_field({"change": item}, "change") for item in _list_field(record, "changes"))
    return Move(int_field(record, "move"), _move_kind(record), history.head, after, files, changes)


def str_field(record: JsonObject, name: str, default: str | None = None) -> str:
    text = record.get(name, default)
    if not isinstance(text, str):
        raise ValueError(f"{name} is missing or not a string")
    return text


def int_field(record: JsonObject, name: str, default: int | None = None) -> int:
    number = record.get(name, default)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{name} is missing or not a number")
    return number


def _move_kind(record: JsonObject) -> MoveKind:
    name = str_field(record, "why")
    if name not in MOVE_KINDS:
        raise ValueError("no such move")
    return name


def _file_move_from_json(value: JsonObject) -> FileMove:
    return FileMove(str_field(value, "path"), _state_from_json(value, "source"), _state_from_json(value, "target"))


def _state_to_json(state: FileState | None) -> Json:
    if state is None:
        return None
    row: JsonObject = {"digest": state.digest, "size": state.size, "mode": state.mode}
    return row if state.is_kept else {**row, "is_kept": False}


def _state_from_json(record: JsonObject, name: str) -> FileState | None:
    if name not in record:
        raise ValueError(f"{name} is missing")
    if record[name] is None:
        return None
    value = _as_object(record[name])
    is_kept = value.get("is_kept") is not False
    return FileState(str_field(value, "digest"), int_field(value, "size"), int_field(value, "mode"), is_kept)


def _list_field(record: JsonObject, name: str) -> list[Json]:
    items = record.get(name)
    if not isinstance(items, list):
        raise ValueError(f"{name} is missing or not a list")
    return items


def _as_object(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = ("\x85", "\u2028", "\u2029")
_SHOWN_CLASSES: Mapping[str, type[Any]] = {
    "notice": Notice,
    "retry": Retry,
    "escalated": OutputEscalated,
    "restored": PartialRestored,
    "compacted": Compacted,
    "thought": Thought,
    "prompt": ShownPrompt,
    "question": ShownQuestion,
    "job": StoredJob,
}
"""The classes of shown events by their name in the file."""
_SHOWN_TYPE_NAMES = {cls: name for name, cls in _SHOWN_CLASSES.items()}
_SHOWN_FIELDS: Mapping[type[Any], Mapping[str, type]] = {
    Notice: {"level": str, "text": str},
    Retry: {"is_continuation": bool, "reason": str, "attempt": int, "max_tokens": int},
    OutputEscalated: {"from_tokens": int, "to_tokens": int},
    PartialRestored: {"text": str},
    Compacted: {"before_tokens": int, "after_tokens": int, "kind": str},
    Thought: {"seconds": float},
    ShownPrompt: {"text": str},
    ShownQuestion: {"call_id": str, "diff": str, "arguments": str},
    StoredJob: {"number": int, "since": int, "state": str, "output": str, "seconds": float},
}
"""The stored fields of each class with their types."""


def result_to_json(result: ShownResult, content: str, redact: Callable[[str], str]) -> JsonObject:
    """Return the display of a result as JSON; `content` is the redacted content of the result."""
    row: JsonObject = {"state": result.state}
    texts = {"summary": result.summary, "diff": result.diff, "problems": result.problems, "sandbox": result.sandbox}
    row |= {name: redact(text) for name, text in texts.items() if text}
    if result.seconds is not None:
        row["seconds"] = round(result.seconds, 3)
    if result.files_without_diff:
        row["files"] = [redact(name) for name in result.files_without_diff]
    if result.ran_arguments:
        row["ran"] = redact_arguments(result.ran_arguments, redact)
    if result.output is not None:
        output = redact(result.output)
        start = output.removesuffix("\n")
        # The output is usually a prefix of the content; then only its length is written.
        row["output"] = len(start) if content.startswith(start) else output
    return row


def result_from_json(value: Json, content: str) -> ShownResult | None:
    """Return the display of a result, None if it is missing or invalid; the result itself is still used."""
    if not isinstance(value, dict):
        return None
    state, seconds, output = value.get("state"), value.get("seconds"), value.get("output")
    if state not in get_args(CallState):
        return None
    if isinstance(output, int):  # a prefix of the content, of which only the length is stored
        output = content[:output]
    display = output if isinstance(output, str) else None
    duration = finite_in(seconds)
    summary, diff, ran, problems = (text_in(value.get(name)) for name in ("summary", "diff", "ran", "problems"))
    sandbox = cast("SandboxUse", value.get("sandbox") if value.get("sandbox") in get_args(SandboxUse) else "")
    files = texts_in(value.get("files"))
    return ShownResult(cast("CallState", state), summary, diff, duration, display, ran, problems, sandbox, files)


def shown_to_json(item: ShownItem, redact: Callable[[str], str]) -> JsonObject:
    event = item.event
    record: JsonObject
    match event:
        case TurnEnded():
            record = _turn_to_json(event, redact)
        case WebSearched():
            sources: list[Json] = [[source.url, source.title] for source in event.sources]
            record = {"type": "searched", "queries": [redact(query) for query in event.queries], "sources": sources}
        case ShownQuestion():
            arguments = redact_arguments(event.arguments, redact)
            record = {"type": "question", "call_id": event.call_id, "diff": redact(event.diff), "arguments": arguments}
        case _:
            record = {"type": _SHOWN_TYPE_NAMES[type(event)]}
            for field in _SHOWN_FIELDS[type(event)]:
                value = getattr(event, field)
                record[field] = redact(value) if isinstance(value, str) else value
    return {**record, "at": item.offset} if item.offset else record


def shown_from_json(value: Json) -> ShownItem | None:
    """Return an item, None if its type is unknown. Raise `ValueError` if the item is invalid."""
    if not isinstance(value, dict):
        raise ValueError("not an object")
    offset = value.get("at", 0)
    if not isinstance(offset, int):
        raise ValueError("at is not a number")
    name = text_in(value.get("type"))
    if name == "turn":
        return ShownItem(_turn_from_json(value), offset)
    if name == "searched":
        return ShownItem(_searched_from_json(value), offset)
    if name not in _SHOWN_CLASSES:
        return None
    cls = _SHOWN_CLASSES[name]
    kinds = _SHOWN_FIELDS[cls]
    # An earlier version did not store the duration of a job.
    values = {field: value.get(field, 0.0 if kind is float else None) for field, kind in kinds.items()}
    for field, kind in kinds.items():
        if not isinstance(values[field], (int, float) if kind is float else kind):
            raise ValueError(f"{field} is missing or of the wrong kind")
    if cls is Notice and values["level"] not in get_args(Level):
        raise ValueError("no such level")
    return ShownItem(cls(**values), offset)


def _turn_to_json(ended: TurnEnded, redact: Callable[[str], str]) -> JsonObject:
    row: JsonObject = {
        "type": "turn",
        "outcome": ended.outcome,
        "usage": usage_to_json(ended.usage),
        "api_calls": {name: count for name, count in asdict(ended.api_calls).items() if count},
    }
    if ended.seconds is not None:
        row["seconds"] = round(ended.seconds, 3)
    if ended.cost is not None:
        row["cost"] = str(ended.cost)
    counts = {"discarded": ended.discarded_output_tokens, "truncated_call_tokens": ended.truncated_call_tokens}
    row |= {name: count for name, count in counts.items() if count}
    if ended.limit is not None:
        row["limit"] = ended.limit
    if ended.note:
        row["note"] = redact(ended.note)
    if ended.error is not None:
        row["error"] = {"kind": ended.error.kind, "message": redact(ended.error.message)}
    return row


def _turn_from_json(value: JsonObject) -> TurnEnded:
    error, limit, cost, seconds = (value.get(name) for name in ("error", "limit", "cost", "seconds"))
    try:
        spent = Decimal(cost) if isinstance(cost, str) else None
    except InvalidOperation:
        raise ValueError("cost is not a number") from None
    if spent is not None and not spent.is_finite():
        raise ValueError("cost is not finite")
    return TurnEnded(
        Outcome(text_in(value.get("outcome"))),
        stop=None,
        raw_stop="",
        text="",
        replies=0,
        usage=Usage(**_int_fields(value.get("usage"), Usage)),
        cost=spent,
        api_calls=ApiCalls(**_int_fields(value.get("api_calls"), ApiCalls)),
        discarded_output_tokens=count_in(value.get("discarded")) or 0,
        limit=Limit(limit) if isinstance(limit, str) else None,
        error=ErrorInfo(text_in(error.get("kind")), text_in(error.get("message"))) if isinstance(error, dict) else None,
        seconds=finite_in(seconds),
        note=text_in(value.get("note")),
        truncated_call_tokens=count_in(value.get("truncated_call_tokens")) or 0,
    )


def _searched_from_json(value: JsonObject) -> WebSearched:
    queries, sources = value.get("queries"), value.get("sources")
    if not isinstance(queries, list) or not isinstance(sources, list):
        raise ValueError("a search without its lists")
    pages = [Source(*map(str, source[:2])) for source in sources if isinstance(source, list) and source]
    return WebSearched(tuple(map(str, queries)), tuple(pages))


def _int_fields(value: Json, cls: type[Any]) -> dict[str, int]:
    field_names = {field.name for field in fields(cls)}
    items = value.items() if isinstance(value, dict) else ()
    return {name: count for name, count in items if name in field_names and isinstance(count, int)}


_LINE_ENDS = {ord(char): f"\\u{ord(char):04x}" for char in _ESCAPED}


def to_line(record: JsonObject) -> bytes:
    """Return the line of a record, newline included."""
    text = _ENCODER.encode(record)
    if not text.isascii() and any(char in text for char in _ESCAPED):  # searching is much cheaper than translating
        text = text.translate(_LINE_ENDS)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded in UTF-8, so it is written as an escape.
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"
