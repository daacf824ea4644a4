"""The records of a line: messages with their numbers, changes of files, moves and compactions, as JSON and back.

Reading is strict: whatever does not have the shape written here raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from qcode.protocol.json import Json, JsonObject
from qcode.protocol.messages import Message, ToolResult
from qcode.runtime.store.codec import attempt_to_json, attempts_from_json, message_from_json, message_to_json
from qcode.runtime.store.line import (
    WHYS,
    Change,
    Entry,
    FileMove,
    FileState,
    InnerMessage,
    Line,
    Move,
    Run,
    Stored,
    Why,
)


def is_a_prompt(message: Message) -> bool:
    """Say whether a message can be what a person sent: it is theirs and answers no call."""
    return message.role == "user" and not any(isinstance(block, ToolResult) for block in message.blocks)


def stored_to_json(number: int, stored: Stored) -> JsonObject:
    entry = stored.entry
    record: JsonObject = {"at": entry.at, "n": number, **message_to_json(entry.message)}
    attempts: list[Json] = [attempt_to_json(one) for one in entry.attempts]
    if attempts:
        record["attempts"] = attempts
    if entry.note:
        record["note"] = entry.note
    if is_a_prompt(entry.message) and not stored.is_own:
        record["is_own"] = False
    return record


def stored_from(record: JsonObject, next_number: int) -> tuple[int, Stored]:
    """Return a message and its number; messages of a file without numbers are counted."""
    number = whole(record, "n", next_number)
    message = message_from_json(record)
    attempts = attempts_from_json(record.get("attempts"))
    entry = Entry(message, attempts, text(record, "note", ""), text(record, "at", ""), numbers=(number,))
    return number, Stored(entry, is_a_prompt(message) and record.get("is_own") is not False)


def new_messages_from(record: JsonObject) -> list[tuple[int, Stored]]:
    """Return what a compaction put in the place of older messages."""
    found = []
    for one in _list(record, "new"):
        number, stored = stored_from(_object(one), -1)
        stored.is_summary, stored.is_own = True, False
        found.append((number, stored))
    return found


def inner_to_json(call_id: str, inner: InnerMessage) -> JsonObject:
    attempts: list[Json] = [attempt_to_json(attempt) for attempt in inner.attempts]
    return {"call_id": call_id, "message": message_to_json(inner.message), "attempts": attempts}


def inner_from(record: JsonObject) -> InnerMessage:
    return InnerMessage(message_from_json(_object(record.get("message"))), attempts_from_json(record.get("attempts")))


def runs_to_json(runs: Iterable[Run]) -> list[Json]:
    return [[first, end] for first, end in runs]


def runs_from(value: Json) -> tuple[Run, ...]:
    if not isinstance(value, list):
        raise ValueError("runs are missing")
    runs = []
    for one in value:
        match one:
            case [int(first), int(end)] if 0 <= first < end:
                runs.append((first, end))
            case _:
                raise ValueError("no run of messages")
    return tuple(runs)


def change_to_json(at: int, change: Change) -> JsonObject:
    return {
        "change": at,
        "n": change.number,
        "path": change.path,
        "before": _state_to_json(change.before),
        "after": _state_to_json(change.after),
        "by": change.by,
    }


def change_from(record: JsonObject) -> tuple[int, Change]:
    """Return a change and its position."""
    by: Literal["tool", "command"] = "command" if record.get("by") == "command" else "tool"
    states = _state(record, "before"), _state(record, "after")
    return whole(record, "change"), Change(whole(record, "n"), text(record, "path"), *states, by)


def move_to_json(move: Move) -> JsonObject:
    runs, own = move.after.key
    files: list[Json] = [
        {"path": one.path, "source": _state_to_json(one.source), "target": _state_to_json(one.target)}
        for one in move.files
    ]
    changes: list[Json] = [*move.changes]
    to: JsonObject = {"runs": runs_to_json(runs), "own": own}
    return {"move": move.move_id, "why": move.why, "to": to, "files": files, "changes": changes}


def move_from(record: JsonObject, line: Line) -> Move:
    to = _object(record.get("to"))
    own = to.get("own")
    after = line.point_of(runs_from(to.get("runs")), whole(to, "own") if own is not None else None)
    files = tuple(_file_move(_object(one)) for one in _list(record, "files"))
    changes = tuple(_at(one) for one in _list(record, "changes"))
    return Move(whole(record, "move"), _why(record), line.point, after, files, changes)


def text(record: JsonObject, name: str, default: str | None = None) -> str:
    found = record.get(name, default)
    if not isinstance(found, str):
        raise ValueError(f"{name} is missing or no text")
    return found


def whole(record: JsonObject, name: str, default: int | None = None) -> int:
    found = record.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError(f"{name} is missing or no number")
    return found


def _why(record: JsonObject) -> Why:
    found = text(record, "why")
    for why in WHYS:
        if why == found:
            return why
    raise ValueError("no such move")


def _file_move(value: JsonObject) -> FileMove:
    return FileMove(text(value, "path"), _state(value, "source"), _state(value, "target"))


def _state_to_json(state: FileState | None) -> Json:
    if state is None:
        return None
    found: JsonObject = {"digest": state.digest, "size": state.size, "mode": state.mode}
    return found if state.is_kept else {**found, "is_kept": False}


def _state(record: JsonObject, name: str) -> FileState | None:
    if name not in record:
        raise ValueError(f"{name} is missing")
    found = record[name]
    if found is None:
        return None
    value = _object(found)
    is_kept = value.get("is_kept") is not False
    return FileState(text(value, "digest"), whole(value, "size"), whole(value, "mode"), is_kept)


def _list(record: JsonObject, name: str) -> list[Json]:
    found = record.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name} is missing or no list")
    return found


def _object(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _at(value: Json) -> int:
    return whole({"at": value}, "at")
