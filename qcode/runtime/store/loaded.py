"""Turns the records of a file into a conversation that may go on: every call answered, roles in turn.

Whatever was whole comes back as it was, value for value. Only what a crash or damage left open is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qcode.protocol.events import Attempt
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Message, ToolCall, ToolResult, user
from qcode.protocol.stops import StopReason
from qcode.runtime.store.codec import attempts_from_json, block_from_json, message_from_json

VERSION = 1
INTERRUPTED = (
    "interrupted, outcome unknown: qcode ended while this call was running. It may have taken effect or not; "
    "look before you run it again."
)
NEVER_RUN = "not run: qcode ended before this call was started."
LOST = "(A message of this conversation could not be read back.)"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as stored. `note` is for people and never reaches the model; `at` is when it was written (ISO 8601).

    `is_filled_in`: it stands in for something that is not in the file.
    """

    message: Message
    attempts: tuple[Attempt, ...] = ()
    note: str = ""
    at: str = ""
    is_filled_in: bool = False


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A conversation read back. `model` is the last one used; `notices` are lines for a person about the file."""

    session_id: str
    entries: tuple[Entry, ...]
    model: str
    title: str = ""
    cwd: str = ""
    created: str = ""
    notices: tuple[str, ...] = ()
    has_header: bool = True

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(entry.message for entry in self.entries)


def rebuild(session_id: str, records: Iterable[JsonObject], skipped: int, notice: str) -> LoadedSession:
    """Return the conversation that `records` tell. `skipped` lines and `notice` are passed on as notices."""
    builder = _Builder(skipped=skipped)
    for record in records:
        builder.add(record)
    return builder.finish(session_id, notice)


@dataclass(slots=True)
class _Builder:
    skipped: int
    entries: list[Entry] = field(default_factory=list)
    header: JsonObject = field(default_factory=dict)
    model: str = ""
    title: str = ""
    newer: int = 0
    unknown_outcomes: int = 0
    open_calls: tuple[ToolCall, ...] = ()
    intents: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)

    def add(self, record: JsonObject) -> None:
        try:
            self._add(record)
        except ValueError:
            self.skipped += 1

    def _add(self, record: JsonObject) -> None:
        match record.get("kind"):
            case "session":
                self.header = self.header or record
                self.model = self.model or _text(record, "model")
            case "message":
                self._message(record)
            case "intent":
                self.intents.add(_text(record, "call_id"))
            case "result":
                result = block_from_json(record)
                if isinstance(result, ToolResult):
                    self.results[result.call_id] = result
            case "model":
                self.model = _text(record, "model")
            case "title":
                self.title = _text(record, "title")
            case "note":
                self._note(_text(record, "text"))
            case str():
                self.newer += 1
            case _:
                raise ValueError("not a record")

    def _message(self, record: JsonObject) -> None:
        message = message_from_json(record)
        attempts = attempts_from_json(record.get("attempts"))
        entry = Entry(message, attempts, _text(record, "note", ""), _text(record, "at", ""))
        if message.role == "user":
            self._user(entry)
        else:
            self._assistant(entry)

    def _user(self, entry: Entry) -> None:
        entry = replace(entry, message=self._answered(entry.message))
        if not entry.message.blocks:
            return
        last = self.entries[-1] if self.entries else None
        if last is not None and last.message.role == "user":
            # Where a turn ended before its reply, the next prompt joins the one that was never answered.
            joined = Message("user", last.message.blocks + entry.message.blocks)
            note = "\n".join(one for one in (last.note, entry.note) if one)
            self.entries[-1] = replace(last, message=joined, note=note, at=entry.at or last.at)
        else:
            self.entries.append(entry)

    def _assistant(self, entry: Entry) -> None:
        self._close_calls()
        last = self.entries[-1] if self.entries else None
        # After a pause the provider is sent its own words back: the next message is the rest of the same reply.
        if last is None or (last.message.role == "assistant" and not _is_paused(last)):
            self.entries.append(Entry(user(LOST), is_filled_in=True))
        self.entries.append(entry)
        self.open_calls = entry.message.calls
        self.intents.clear()
        self.results.clear()

    def _note(self, text: str) -> None:
        if self.entries:
            last = self.entries[-1]
            self.entries[-1] = replace(last, note=f"{last.note}\n{text}" if last.note else text)

    def _close_calls(self) -> None:
        """Answer calls whose results never came, where the next message does not."""
        if self.open_calls:
            self.entries.append(Entry(self._answered(Message("user", ())), is_filled_in=True))

    def _answered(self, message: Message) -> Message:
        """Give `message` exactly one result for each open call; unchanged where it has them already."""
        calls, self.open_calls = self.open_calls, ()
        given = [block for block in message.blocks if isinstance(block, ToolResult)]
        if sorted(call.call_id for call in calls) == sorted(result.call_id for result in given):
            return message
        results: list[ToolResult] = []
        for call in calls:
            at = next((at for at, result in enumerate(given) if result.call_id == call.call_id), None)
            results.append(self._outcome(call) if at is None else given.pop(at))
        # A result that answers no call would make a strict server refuse the whole history.
        self.skipped += len(given)
        return Message("user", (*results, *(one for one in message.blocks if not isinstance(one, ToolResult))))

    def _outcome(self, call: ToolCall) -> ToolResult:
        known = self.results.get(call.call_id)
        if known is not None:
            return known
        if call.call_id not in self.intents:
            return ToolResult(call.call_id, call.name, NEVER_RUN, is_error=True)
        self.unknown_outcomes += 1
        return ToolResult(call.call_id, call.name, INTERRUPTED, is_error=True)

    def finish(self, session_id: str, notice: str) -> LoadedSession:
        self._close_calls()
        return LoadedSession(
            session_id,
            tuple(self.entries),
            self.model,
            self.title,
            _text(self.header, "cwd", ""),
            _text(self.header, "created", ""),
            tuple(self._notices(notice)),
            bool(self.header),
        )

    def _notices(self, notice: str) -> Iterable[str]:
        if notice:
            yield notice
        if self.skipped:
            yield f"{_count(self.skipped, 'part')} left out of this session, unreadable or out of place"
        if self.newer:
            yield f"{_count(self.newer, 'record')} left out, written by a newer qcode"
        if self.unknown_outcomes:
            yield f"{_count(self.unknown_outcomes, 'call')} interrupted: the outcome is unknown, nothing is run again"


def _is_paused(entry: Entry) -> bool:
    return bool(entry.attempts) and entry.attempts[-1].stop == StopReason.PAUSED


def _count(number: int, what: str) -> str:
    return f"1 {what} was" if number == 1 else f"{number} {what}s were"


def _text(record: JsonObject, name: str, default: str | None = None) -> str:
    found = record.get(name, default)
    if not isinstance(found, str):
        raise ValueError(f"{name} is missing or no text")
    return found
