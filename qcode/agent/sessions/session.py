"""One open session: the interface through which a conversation writes to its file.

No method raises for a disk error; `take_warnings` returns lines for the user. A thread may record a file change while
the conversation continues.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from qcode.agent.sessions.file import RecordFile
from qcode.agent.sessions.history import (
    Head,
    HistoryEntry,
    InnerMessage,
    Move,
    RecordedChange,
    SessionHistory,
    StoredMessage,
    is_a_prompt,
    ranges_of,
)
from qcode.agent.sessions.partial import COPIED_REPLY, KILLED_REPLY, PartialReply
from qcode.agent.sessions.records import (
    VERSION,
    attempt_to_json,
    block_to_json,
    change_to_json,
    inner_to_json,
    move_to_json,
    ranges_to_json,
    result_to_json,
    shown_to_json,
    stored_to_json,
    to_line,
)
from qcode.agent.sessions.shown import ShownItem, ShownResult
from qcode.engine.effects import Append, Compact
from qcode.engine.transcript import without_signals
from qcode.protocol.events import (
    AttemptRecord,
    Notice,
    ToolFinished,
)
from qcode.protocol.messages import Message, ToolCall, ToolResult
from qcode.safety.redaction import redact_block, redact_call, redact_message
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

KILLED_TURN = Notice("warning", "This turn did not finish: qcode ended while it ran. No call was run again.")
MAX_DIFF_CHARS = 400_000
"""A longer diff is cut at a line. The checkpoints have both versions of the file."""


def shortened_diff(diff: str) -> str:
    """Return a diff with at most `MAX_DIFF_CHARS` characters, cut at the end of a line."""
    return diff if len(diff) <= MAX_DIFF_CHARS else diff[: diff.rindex("\n", 0, MAX_DIFF_CHARS) + 1]


@dataclass(frozen=True, slots=True)
class AssembledEntries:
    """The messages of the conversation in one state."""

    head: Head
    """The state."""
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class ReportedCount:
    """The size of a prompt and of its reply, as the provider reported it."""

    messages: tuple[Message, ...]
    """The messages of the prompt."""
    prompt_tokens: int
    reply_tokens: int


class Session:
    """An open session, to which messages and other records are appended. It holds the lock of its file until `close`.

    `redact` removes secrets from every text before it is written; the conversation itself is not changed. `history` is
    the history so far and is updated here. `blobs` is the folder for the contents of changed files, `partial` the file
    for the current reply; None if nothing is saved. `partial_secret_length` returns the length of the suffix of a text
    that may be the start of a secret.
    """

    def __init__(
        self,
        session_id: str,
        file: RecordFile,
        clock: Callable[[], datetime],
        redact: Callable[[str], str],
        *,
        history: SessionHistory | None = None,
        title: str = "",
        blobs: Path | None = None,
        partial: Path | None = None,
        partial_secret_length: Callable[[str], int] = lambda text: 0,
    ) -> None:
        self.session_id = session_id
        self.history = history or SessionHistory()
        self.title = title
        self.blobs = blobs
        self._file = file
        self._clock = clock
        self.redact = redact
        self._lock = threading.RLock()
        self._mode = ""
        self.partial = PartialReply(partial, lambda: self.history.next_number, redact, partial_secret_length)
        self.assembled: AssembledEntries | None = None
        """The messages in the state in which the session was loaded; valid while that is the current state."""
        self.has_unfinished_turn = False
        """The process that wrote the last turn was killed during it. The next prompt records that."""

    @property
    def is_saved(self) -> bool:
        """Whether all records so far are in the file."""
        return self._file.is_saved

    def buffer_header(
        self,
        *,
        model: str,
        cwd: str,
        root: str,
        forked_from: str = "",
        branch: str = "",
        imported: JsonObject | None = None,
    ) -> None:
        """Buffer the header; it is written with the first record."""
        header: JsonObject = {
            "kind": "session",
            "version": VERSION,
            "id": self.session_id,
            "created": self._now(),
            "cwd": cwd,
            "root": root,
            "model": model,
        }
        if branch:
            header["branch"] = branch
        if forked_from:
            header["forked_from"] = forked_from
        if imported is not None:
            header["imported"] = imported
        self._file.buffer(to_line(header))
        self.history.use_model(model)

    def append(
        self,
        message: Message,
        attempts: Iterable[AttemptRecord] = (),
        note: str = "",
        *,
        is_turn_start: bool = True,
    ) -> int:
        """Write a committed message, with its attempts and a note for the user; return its number.

        `is_turn_start` is False for a message of the user that was added to a running turn.
        """
        is_turn_start = is_turn_start and is_a_prompt(message)
        with self._lock:
            if self.has_unfinished_turn and is_turn_start:
                self.has_unfinished_turn = False
                self.record_shown([ShownItem(KILLED_TURN)])
            number = self.history.next_number
            entry = HistoryEntry(message, self._without_session_model(attempts), note, self._now(), numbers=(number,))
            stored = StoredMessage(entry, is_turn_start)
            self._write_mode()
            self._write({"kind": "message", **stored_to_json(self._clean_stored(stored))})
            self.history.add(stored)
            self.partial.clear()
            return number

    def _without_session_model(self, attempts: Iterable[AttemptRecord]) -> tuple[AttemptRecord, ...]:
        """Return the attempts without model names that equal the model of the session."""
        current = self.history.current_model
        return tuple(replace(attempt, model="") if attempt.model == current else attempt for attempt in attempts)

    def recover(self, number: int) -> None:
        """Store message `number`, which was loaded from the file of an unfinished reply, and remove that file."""
        with self._lock:
            stored = self.history.stored[number]
            stored.entry = replace(stored.entry, timestamp=self._now())
            self._write({"kind": "message", **stored_to_json(self._clean_stored(stored))})
            self.record_shown([ShownItem(COPIED_REPLY if self.history.end == "copied" else KILLED_REPLY)])
            self.sync()
            if self.is_saved:
                self.partial.discard()

    def append_entry(self, entry: HistoryEntry) -> None:
        self.append(entry.message, entry.attempts, entry.note)

    def compact(self, parts: Sequence[tuple[int, ...] | Message]) -> list[tuple[int, ...]]:
        """Replace the conversation by these parts: old messages by their numbers, and new messages.

        Return the numbers of each part.
        """
        with self._lock:
            numbers: list[tuple[int, ...]] = []
            summaries: list[StoredMessage] = []
            for part in parts:
                if isinstance(part, Message):
                    number = self.history.next_number + len(summaries)
                    entry = HistoryEntry(part, timestamp=self._now(), numbers=(number,))
                    summaries.append(StoredMessage(entry, is_turn_start=False, is_summary=True))
                    numbers.append((number,))
                else:
                    numbers.append(part)
            ranges = ranges_of(number for part in numbers for number in part)
            new: list[Json] = [stored_to_json(self._clean_stored(summary)) for summary in summaries]
            self._write({"kind": "compaction", "at": self._now(), "runs": ranges_to_json(ranges), "new": new})
            self.history.compact(ranges, summaries)
            self.partial.renumber()
            return numbers

    def entries(self) -> tuple[HistoryEntry, ...]:
        """Return the messages of the current conversation, as they would be loaded."""
        with self._lock:
            if not self.history.stored:
                return ()
            if self.assembled is not None and self.assembled.head is self.history.head:
                return self.assembled.entries
            from qcode.agent.sessions.loader import assemble

            return assemble(self.history, self.history.head.numbers).entries

    def record_change(self, change: RecordedChange) -> int:
        """Record that a file is about to be changed; return the position for `void_change`."""
        with self._lock:
            position = self.history.next_change
            self._write({"kind": "change", "at": self._now(), **change_to_json(position, change)})
            self.history.add_change(position, change)
            return position

    def void_change(self, position: int) -> None:
        """Record that the change at this position did not happen."""
        with self._lock:
            self._write({"kind": "void", "change": position})
            self.history.void_change(position)

    def record_move(self, move: Move) -> None:
        """Record a move to another state of the conversation, and sync it to disk."""
        with self._lock:
            self._write({"kind": "move", "at": self._now(), **move_to_json(move)})
            self.history.apply_move(move)
            self._file.sync()

    def finish_move(self, move_id: int) -> None:
        """Record that all files of a move are restored."""
        with self._lock:
            self._write({"kind": "moved", "move": move_id})
            self.history.finish_move(move_id)
            self._file.sync()

    def record_intent(self, call: ToolCall) -> None:
        """Record that `call` is about to run. Call `sync` before it runs."""
        with self._lock:
            clean = redact_call(call, self.redact)
            record: JsonObject = {"kind": "intent", "at": self._now(), "call_id": call.call_id}
            self._write({**record, "name": clean.name, "arguments": clean.arguments})
            if (last := self.history.latest_message) is not None:
                last.intents.add(call.call_id)

    def record_result(self, result: ToolResult, display: ShownResult | None = None) -> None:
        """Record the result of a call while other calls of the step still run, so that a crash does not lose it.

        The message with all results of the step is appended later, and replaces this record when the file is loaded.
        `display` is the result as the user saw it.
        """
        with self._lock:
            clean = redact_block(result, self.redact)
            record: JsonObject = {"kind": "result", "at": self._now(), **block_to_json(clean)}
            if display is not None:
                display = replace(display, diff=shortened_diff(display.diff))
                record["shown"] = result_to_json(display, self.redact(result.content), self.redact)
            self._write(record)
            last = self.history.latest_message
            if last is not None:
                last.results[result.call_id] = result
                if display is not None:
                    last.shown_results[result.call_id] = display

    def record_shown(self, items: Sequence[ShownItem]) -> None:
        """Record items that were shown with the last message, beside its text."""
        with self._lock:
            rows: list[Json] = [shown_to_json(item, self.redact) for item in items]
            line = to_line({"kind": "shown", "at": self._now(), "items": rows})
            if self.history.stored:
                self._file.append(line)
            else:  # the file begins with the first message, so this line is written with that message
                self._file.buffer(line)
            self.history.add_shown(items)

    def append_inner(self, call_id: str, message: Message, attempts: Iterable[AttemptRecord] = ()) -> None:
        """Record a message of the sub-agent started by `call_id`; it is not part of the conversation."""
        with self._lock:
            inner = InnerMessage(redact_message(message, self.redact), self._without_session_model(attempts))
            self._write({"kind": "agent", "at": self._now(), **inner_to_json(call_id, inner)})
            self.history.add_inner(call_id, InnerMessage(message, inner.attempts))

    def record_inner_intent(self, call_id: str, call: ToolCall) -> None:
        """Record that a call of the sub-agent started by `call_id` is about to run. Call `sync` before it runs."""
        record: JsonObject = {"kind": "agent", "at": self._now(), "call_id": call_id, "intent": call.call_id}
        if self.history.record_inner_intent(call_id, call.call_id, call.arguments):
            record["arguments"] = redact_call(call, self.redact).arguments
        self._write(record)

    def record_requests(self, attempts: Iterable[AttemptRecord], name: str = "") -> None:
        """Record requests that belong to no message: of a reply that was not committed, a summary, a title.

        Requests outside the turns have a `name`, which `/cost` shows.
        """
        with self._lock:
            requests = tuple(attempts) if name else self._without_session_model(attempts)
            if not requests:
                return
            records: list[Json] = [attempt_to_json(request) for request in requests]
            record: JsonObject = {"kind": "requests", "at": self._now(), "attempts": records}
            if name:
                record["name"] = self.redact(name)
            self._write(record)
            self.history.add_requests(requests, name)

    def record_model(self, model: str) -> None:
        """Record that `model` writes the messages from here on. A session without messages stays without a file."""
        with self._lock:
            record: JsonObject = {"kind": "model", "at": self._now(), "model": model}
            if self.history.stored:
                self._write(record)
            else:
                self._file.buffer(to_line(record))
            self.history.use_model(model)

    def record_mode(self, mode: str) -> None:
        """Record the permission mode. In a session without messages, it is written with the first message."""
        with self._lock:
            self._mode = mode
            if self.history.stored:
                self._write_mode()

    def _write_mode(self) -> None:
        recorded = self.history.mode or "default"
        if self._mode and self._mode != recorded:
            self._write({"kind": "mode", "at": self._now(), "mode": self._mode})
            self.history.mode = self._mode

    def set_title(self, title: str) -> None:
        self.title = title
        self._write({"kind": "title", "at": self._now(), "title": self.redact(title)})

    def copy_records(self, records: Iterable[JsonObject]) -> None:
        """Append the records of another session, except for its header."""
        for record in records:
            if record.get("kind") != "session":
                self._write(record)

    def sync(self) -> None:
        """Sync all records to disk: before a tool runs, and at the end of a turn. May block."""
        with self._lock:
            self._file.sync()

    def take_warnings(self) -> tuple[str, ...]:
        """Return the new warnings for the user, and forget them."""
        return self._file.take_warnings()

    def close(self) -> None:
        """Sync, and release the lock of the session."""
        self.partial.close()
        self._file.close()

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")

    def _write(self, record: JsonObject) -> None:
        with self._lock:
            self._file.append(to_line(record))

    def _clean_stored(self, stored: StoredMessage) -> StoredMessage:
        entry = stored.entry
        message = redact_message(entry.message, self.redact)
        return StoredMessage(replace(entry, message=message, note=self.redact(entry.note)), stored.is_turn_start)


class SessionTranscript:
    """The current messages of one session. `history` are the first messages if the session has no messages yet."""

    def __init__(self, session: Session, history: tuple[Message, ...] = ()) -> None:
        self.session = session
        self._messages: list[Message] = []
        self._numbers: list[tuple[int, ...]] = []
        """The numbers of the stored messages of each message: several for a merged prompt, none if it is not stored."""
        self.reload()
        if not self._messages:
            self._messages = list(history)
            self._numbers = [()] * len(history)

    @property
    def messages(self) -> list[Message]:
        """The current messages. The list may grow, or be replaced by another list."""
        return self._messages

    @property
    def stored_messages(self) -> tuple[StoredMessage, ...]:
        """All messages of the session, even compacted messages; the current messages if the session stores none."""
        history = self.session.history
        if history.stored:
            return tuple(history.stored[number] for number in history.all_numbers())
        return tuple(StoredMessage(HistoryEntry(message), is_a_prompt(message)) for message in self._messages)

    def reload(self) -> None:
        """Load the messages up to the current head of the session."""
        entries = self.session.entries()
        # Calls of one-way tools are removed, because this run may not offer those tools.
        self._messages = list(without_signals([entry.message for entry in entries], None))
        self._numbers = [entry.numbers for entry in entries]

    def last_reported_count(self, model: str) -> ReportedCount | None:
        """Return the count of the last prompt, None if there is none or if it is not one of `model`.

        With this count, qcode need not load the tokenizer to check that the next prompt of a long session fits. A
        compaction after the reply makes the count invalid, because the prompt had other messages.
        """
        history = self.session.history
        for index in range(len(self._messages) - 1, -1, -1):
            numbers = self._numbers[index]
            is_stored_reply = len(numbers) == 1 and numbers[0] in history.stored  # otherwise it is a merged prompt
            attempt = _last_counted_attempt(history.stored[numbers[0]]) if is_stored_reply else None
            if attempt is None:
                continue
            number = numbers[0]
            earlier_numbers = (earlier for numbers in self._numbers[:index] for earlier in numbers)
            is_compacted = any(earlier >= number for earlier in earlier_numbers)
            if is_compacted or history.model_of(number) != model:
                return None
            usage = attempt.usage
            return ReportedCount(tuple(self._messages[:index]), usage.input or 0, usage.output or 0)
        return None

    def append(self, effect: Append, *, is_turn_start: bool) -> None:
        """Append a message and store it. `is_turn_start`: it is the prompt that started the turn."""
        number = self.session.append(effect.message, effect.attempts, effect.note, is_turn_start=is_turn_start)
        self._messages.append(effect.message)
        self._numbers.append((number,))

    def compact(self, effect: Compact) -> None:
        """Replace the transcript with the items of a compaction."""
        items = [self._numbers[item] if isinstance(item, int) else item for item in effect.items]
        self._numbers = self.session.compact(items)
        self._messages = [self._messages[item] if isinstance(item, int) else item for item in effect.items]

    def store_result(self, finished: ToolFinished) -> None:
        """Store the result of a call at once, while other calls of its step may still run."""
        call, outcome = finished.call, finished.outcome
        result = ToolResult(
            call.call_id, call.name, outcome.content, outcome.is_error, outcome.images, outcome.is_signal
        )
        ran_arguments = call.arguments if finished.is_revised else ""
        display = ShownResult(
            finished.state,
            outcome.summary,
            outcome.diff,
            finished.seconds,
            outcome.shown,
            ran_arguments,
            outcome.problems,
            outcome.sandbox,
            outcome.files_without_diff,
        )
        self.session.record_result(result, display)


def _last_counted_attempt(stored: StoredMessage) -> AttemptRecord | None:
    """Return the last attempt of a reply whose prompt was the whole conversation, and whose size was reported."""
    for attempt in reversed(stored.entry.attempts):
        if attempt.kind in ("first", "escalated") and attempt.usage.input:
            return attempt
    return None
