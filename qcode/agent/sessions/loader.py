"""Converts the records of a file to a conversation that can continue: every call has a result, roles alternate.

Complete records are restored exactly. Only gaps after a crash or in a damaged file are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

from qcode.agent.sessions.file import SessionFileContent
from qcode.agent.sessions.history import AgentWork, HistoryEntry, SessionEnd, SessionHistory, StoredMessage
from qcode.agent.sessions.partial import COPIED_REPLY, KILLED_REPLY
from qcode.agent.sessions.records import (
    attempts_from_json,
    block_from_json,
    change_from_json,
    inner_from_json,
    int_field,
    move_from_json,
    ranges_from_json,
    result_from_json,
    shown_from_json,
    stored_from_json,
    str_field,
    summaries_from_json,
)
from qcode.protocol.events import CANCELLED_NOTE, AttemptRecord, TurnEnded
from qcode.protocol.messages import Message, ToolCall, ToolResult, user
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.text.json import JsonObject, parse_object, text_in
from qcode.text.numbers import count_text
from qcode.values import dataclass

_MAX_LISTED_CALLS = 20
_MAX_ARGUMENT_CHARS = 200
INTERRUPTED = (
    "interrupted, outcome unknown: qcode ended while this call was running. Check whether it took effect before you "
    "run it again."
)
NEVER_RUN = "not run: qcode ended before this call was started."
UNKNOWN_IN_COPY = (
    "outcome unknown: the conversation was copied while this call was running. Check whether it took effect before you "
    "run it again."
)
NOT_RUN_IN_COPY = "not run: the conversation was copied before this call was started."
STILL_RUNNING = "still running: the result of this call is not stored yet."
NOT_STARTED = "not started: this call waits for an approval or for another call."
LOST = "(A message of this conversation could not be loaded.)"
_RESULTS_IF_STARTED: dict[SessionEnd, str] = {
    "closed": INTERRUPTED,
    "open": STILL_RUNNING,
    "copied": UNKNOWN_IN_COPY,
}
"""The results for calls that were started, if their results are missing; below, for calls that were not started."""
_RESULTS_IF_NOT_STARTED: dict[SessionEnd, str] = {
    "closed": NEVER_RUN,
    "open": NOT_STARTED,
    "copied": NOT_RUN_IN_COPY,
}
_TEXT_KEPT = "qcode ended while the last reply was written; the text so far is kept."
_NOTICE_OF_UNFINISHED_REPLY: dict[SessionEnd, str] = {
    "closed": _TEXT_KEPT,
    "open": "The last reply is still being written.",
    "copied": COPIED_REPLY.text,
}
"""The notice to the user at the start of the session, if its last reply is unfinished."""
_NOTE_ON_UNFINISHED_REPLY: dict[SessionEnd, str] = {
    "closed": KILLED_REPLY.text,
    "open": "This reply is still being written.",
    "copied": COPIED_REPLY.text,
}
"""The note below the unfinished reply itself."""
_UNKNOWN_IN_COPY = "running in the original session: the outcome is unknown here, nothing was run again."
_OUTCOME_UNKNOWN = "interrupted: the outcome is unknown, nothing was run again."
EMPTY = "The file of this session is empty, so its messages are lost."
UNFINISHED = "Restoring files was interrupted, so some may not be restored: /undo finishes it, /redo reverts it."


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session that was read from a file."""

    session_id: str
    entries: tuple[HistoryEntry, ...]
    """The messages of the current conversation."""
    model: str
    """The last model used."""
    title: str = ""
    cwd: str = ""
    created: str = ""
    notices: tuple[str, ...] = ()
    """Lines for the user about the file."""
    has_header: bool = True
    history: SessionHistory = field(default_factory=SessionHistory)
    recovered: int | None = None
    """The number of a message that is not in the file yet: the reply that was interrupted when the process died."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(entry.message for entry in self.entries)

    @property
    def has_unfinished_turn(self) -> bool:
        """Whether the last turn was interrupted."""
        return has_unfinished_turn([self.history.stored[number] for number in self.history.all_numbers()])

    def all_entries(self) -> tuple[HistoryEntry, ...]:
        """Return all messages that led to the current state, without compaction."""
        return assemble(self.history, self.history.all_numbers()).entries


def rebuild(
    session_id: str,
    contents: SessionFileContent,
    notice: str,
    find_partial: Callable[[int], Message | None],
    *,
    end: SessionEnd = "closed",
) -> LoadedSession:
    """Build the conversation from the records of a file, with `notice` and notices about skipped lines.

    `find_partial` returns the unfinished reply with the given message number, None if there is none.
    """
    if not contents.end and not contents.incomplete_line:
        notice = EMPTY
    reader = _SessionReader()
    reader.history.end = end
    for record in contents.parsed():
        reader.add(record)
    return reader.finish(session_id, notice, find_partial(reader.history.next_number))


@dataclass(slots=True)
class _SessionReader:
    """Reads the records of a file one after the other into a history."""

    skipped_lines: int = 0
    history: SessionHistory = field(default_factory=SessionHistory)
    header: JsonObject = field(default_factory=dict)
    model: str = ""
    title: str = ""
    newer_records: int = 0
    """The number of records whose kind only newer versions of qcode support."""

    def add(self, record: JsonObject | None) -> None:
        """Add a record. Invalid records and invalid lines (None) are skipped and counted."""
        if record is None:
            self.skipped_lines += 1
            return
        try:
            self._add(record)
        except ValueError:
            self.skipped_lines += 1

    def _add(self, record: JsonObject) -> None:
        """Add a record to the history; raise `ValueError` if the record is invalid."""
        match record.get("kind"):
            case "session":
                self.header = self.header or record
                # A damaged file may have a second header: it does not change the model.
                self._use_model(self.model or str_field(record, "model"))
            case "message":
                self.history.add(stored_from_json(record, self.history.next_number))
            case "intent" | "result" | "note" | "compaction" | "shown":
                self._read_related(record)
            case "agent":
                self._read_agent(record)
            case "requests":
                self.history.add_requests(attempts_from_json(record.get("attempts")), text_in(record.get("name")))
            case "change" | "void" | "move" | "moved":
                self._read_move(record)
            case "model":
                self._use_model(str_field(record, "model"))
            case "mode":
                self.history.mode = str_field(record, "mode")
            case "title":
                self.title = str_field(record, "title")
            case str():
                self.newer_records += 1
            case _:
                raise ValueError("not a record")

    def _use_model(self, model: str) -> None:
        self.model = model
        self.history.use_model(model)

    def _read_related(self, record: JsonObject) -> None:
        """Read a compaction, or a record that belongs to the latest message.

        A record that needs a message and follows none is ignored.
        """
        history = self.history
        last = history.latest_message
        match record["kind"]:
            case "compaction":
                summaries = summaries_from_json(record)
                history.compact(ranges_from_json(record.get("runs")), summaries)
            case "intent" if last is not None:
                _read_intent(last, record)
            case "result":
                result = block_from_json(record)
                if last is not None and isinstance(result, ToolResult):
                    last.results[result.call_id] = result
                    self._read_shown_result(result, record)
            case "shown":
                self._read_shown(record)
            case "note" if last is not None:
                last.entry = _with_note(last.entry, str_field(record, "text"))
            case _:
                pass

    def _read_shown_result(self, result: ToolResult, record: JsonObject) -> None:
        """Read the form in which the user saw a result, which its record has in addition to the result itself."""
        last = self.history.latest_message
        if last is not None and (shown := result_from_json(record.get("shown"), result.content)) is not None:
            last.shown_results[result.call_id] = shown

    def _read_shown(self, record: JsonObject) -> None:
        """Read events that the user saw with the latest message."""
        items = record.get("items")
        shown_items = map(shown_from_json, items if isinstance(items, list) else ())
        self.history.add_shown([item for item in shown_items if item is not None])

    def _read_agent(self, record: JsonObject) -> None:
        """Read a message of a sub-agent, or the intent to run one of its calls (`intent` is the id of that call)."""
        call_id = str_field(record, "call_id")
        if "intent" in record:
            self.history.record_inner_intent(call_id, str_field(record, "intent"), str_field(record, "arguments", ""))
        else:
            self.history.add_inner(call_id, inner_from_json(record))

    def _read_move(self, record: JsonObject) -> None:
        """Read the change of a file or its revocation, or the begin or end of a move such as `/undo`."""
        match record["kind"]:
            case "change":
                self.history.add_change(int_field(record, "change"), change_from_json(record))
            case "move":
                self.history.apply_move(move_from_json(record, self.history))
            case "void":
                self.history.void_change(int_field(record, "change"))
            case _:
                self.history.finish_move(int_field(record, "move"))

    def finish(self, session_id: str, notice: str, partial: Message | None) -> LoadedSession:
        """Return the session, with `partial`, an unfinished reply, as its last message."""
        recovered = None
        if partial is not None and self.history.stored:
            recovered = self.history.next_number
            # The cost of the reply is unknown: the process ended before the provider reported it.
            killed = AttemptRecord("first", max_tokens=0, stop="killed", usage=Usage())
            note = _NOTE_ON_UNFINISHED_REPLY[self.history.end]
            entry = HistoryEntry(partial, (killed,), note, numbers=(recovered,))
            self.history.add(StoredMessage(entry, is_turn_start=False))
        loaded = assemble(self.history, self.history.head.numbers)
        self.skipped_lines += loaded.misplaced_records
        return LoadedSession(
            session_id,
            loaded.entries,
            self.model,
            title=self.title,
            cwd=text_in(self.header.get("cwd")),
            created=text_in(self.header.get("created")),
            notices=tuple(self._notices(notice, loaded.unknown_outcomes, is_recovered=recovered is not None)),
            has_header=bool(self.header),
            history=self.history,
            recovered=recovered,
        )

    def _notices(self, notice: str, unknown_outcomes: int, *, is_recovered: bool) -> Iterable[str]:
        if notice:
            yield notice
        if is_recovered:
            yield _NOTICE_OF_UNFINISHED_REPLY[self.history.end]
        if self.skipped_lines:
            yield f"{_count(self.skipped_lines, 'record')} skipped in this session: unreadable or misplaced."
        if self.newer_records:
            yield f"{_count(self.newer_records, 'record')} skipped, written by a newer version of qcode."
        if unknown_outcomes and self.history.end == "open":
            verb = "is" if unknown_outcomes == 1 else "are"
            yield f"{count_text(unknown_outcomes, 'call')} {verb} still running."
        elif unknown_outcomes:
            outcome = _UNKNOWN_IN_COPY if self.history.end == "copied" else _OUTCOME_UNKNOWN
            yield f"{_count(unknown_outcomes, 'call')} {outcome}"
        if self.history.unfinished is not None:
            yield UNFINISHED


def _read_intent(last: StoredMessage, record: JsonObject) -> None:
    """Read that a call of the message `last` was about to run, perhaps with arguments that the user had edited."""
    call_id = str_field(record, "call_id")
    last.intents.add(call_id)
    run_arguments = record.get("arguments")
    call = next((call for call in last.entry.message.calls if call.call_id == call_id), None)
    if call is None or not isinstance(run_arguments, str):
        return
    if parse_object(run_arguments) != parse_object(call.arguments):
        last.edited_arguments[call_id] = run_arguments


def has_unfinished_turn(messages: Sequence[StoredMessage]) -> bool:
    """Return whether qcode ended during the last turn.

    No end of the turn is stored, and a reply or a result is missing, or the reply was cancelled when qcode ended.
    """
    last = messages[-1] if messages else None
    if last is None or any(isinstance(item.event, TurnEnded) for item in last.shown_events):
        return False
    message = last.entry.message
    return message.role == "user" or bool(message.calls) or last.entry.note == CANCELLED_NOTE


def is_about_interrupted_turn(notice: str) -> bool:
    """Return whether a notice of a loaded conversation is only about a turn that was interrupted."""
    return notice in (_TEXT_KEPT, COPIED_REPLY.text) or notice.endswith((_OUTCOME_UNKNOWN, _UNKNOWN_IN_COPY))


@dataclass(frozen=True, slots=True)
class LoadedMessages:
    """Messages in a form that all providers accept, and the errors that were corrected."""

    entries: tuple[HistoryEntry, ...]
    misplaced_records: int
    """The number of results without a call."""
    unknown_outcomes: int
    """The number of calls that were started and have no result."""


def assemble(history: SessionHistory, numbers: Iterable[int], end: SessionEnd | None = None) -> LoadedMessages:
    """Return these messages of `history` in a form that all providers accept; `end` replaces that of the history."""
    builder = _MessageBuilder()
    for number in numbers:
        stored = history.stored.get(number)
        if stored is not None:
            builder.add(stored)
    builder.close_calls(end or history.end)
    return LoadedMessages(tuple(builder.entries), builder.misplaced_records, builder.unknown_outcomes)


@dataclass(slots=True)
class _MessageBuilder:
    """Builds a conversation in which roles alternate and every call has a result."""

    entries: list[HistoryEntry] = field(default_factory=list)
    open_calls: tuple[ToolCall, ...] = ()
    """The calls that have no result yet."""
    reply: StoredMessage | None = None
    """The reply that made the open calls."""
    misplaced_records: int = 0
    unknown_outcomes: int = 0

    def add(self, stored: StoredMessage) -> None:
        if stored.entry.message.role == "user":
            self._add_user(stored.entry)
        else:
            self._add_assistant(stored)

    def _add_user(self, entry: HistoryEntry) -> None:
        """Add a user message with a result for each open call; merge it with a user message before it."""
        answered = self._with_results(entry.message)
        if answered is not entry.message:
            entry = replace(entry, message=answered)
        if not entry.message.blocks:
            return
        last = self.entries[-1] if self.entries else None
        if last is not None and last.message.role == "user":
            # If a turn ended before its reply, the next prompt is merged with the unanswered one.
            joined = Message("user", last.message.blocks + entry.message.blocks)
            note = "\n".join(text for text in (last.note, entry.note) if text)
            numbers = last.numbers + entry.numbers
            self.entries[-1] = replace(
                last, message=joined, note=note, timestamp=entry.timestamp or last.timestamp, numbers=numbers
            )
        else:
            self.entries.append(entry)

    def _add_assistant(self, stored: StoredMessage) -> None:
        self.close_calls()
        last = self.entries[-1] if self.entries else None
        # After a pause the next assistant message continues the same reply.
        if last is None or (last.message.role == "assistant" and not _is_paused(last)):
            self.entries.append(HistoryEntry(user(LOST), is_filled_in=True))
        self.entries.append(stored.entry)
        self.open_calls = stored.entry.message.calls
        self.reply = stored

    def close_calls(self, end: SessionEnd = "closed") -> None:
        """Add a user message with results for the open calls, if there are any: no message follows that has them.

        `end` is that of the session if these calls are its last ones.
        """
        if self.open_calls:
            message = self._with_results(Message("user", ()), end)
            self.entries.append(HistoryEntry(message, is_filled_in=True))

    def _with_results(self, message: Message, end: SessionEnd = "closed") -> Message:
        """Return `message` with exactly one result for each open call."""
        calls = self.open_calls
        self.open_calls = ()
        received = [block for block in message.blocks if isinstance(block, ToolResult)]
        other_blocks = [block for block in message.blocks if not isinstance(block, ToolResult)]
        if sorted(call.call_id for call in calls) == sorted(result.call_id for result in received):
            return message
        results: list[ToolResult] = []
        for call in calls:
            result = next((result for result in received if result.call_id == call.call_id), None)
            if result is not None:
                received.remove(result)
            results.append(result or self._missing_result(call, end))
        # A strict server would reject a history with a result that belongs to no call.
        self.misplaced_records += len(received)
        return Message("user", (*results, *other_blocks))

    def _missing_result(self, call: ToolCall, end: SessionEnd) -> ToolResult:
        """Return the result of a call that no message answers: the recorded one, or a text for the model."""
        reply = self.reply
        recorded = reply.results.get(call.call_id) if reply is not None else None
        if recorded is not None:
            return recorded
        if reply is None or call.call_id not in reply.intents:
            return ToolResult(call.call_id, call.name, _RESULTS_IF_NOT_STARTED[end], is_error=True)
        self.unknown_outcomes += 1
        text = _RESULTS_IF_STARTED[end]
        arguments = reply.edited_arguments.get(call.call_id)
        if arguments is not None:
            text += f" The user had edited the call; it ran with {_shortened(arguments)}."
        if call.call_id in reply.agent_work:
            text += _begun_calls_text(reply.agent_work[call.call_id])
        return ToolResult(call.call_id, call.name, text, is_error=True)


def _begun_calls_text(work: AgentWork) -> str:
    """Return text for the model about the calls that a sub-agent had started before it was interrupted."""
    calls = [f"- {call.name} {_shortened(call.arguments)}" for call in work.started_calls]
    if not calls:
        return ""
    lines = ["\nIts sub-agent had begun:"]
    if len(calls) > _MAX_LISTED_CALLS:
        lines.append(f"- and {len(calls) - _MAX_LISTED_CALLS} before these")
    return "\n".join([*lines, *calls[-_MAX_LISTED_CALLS:]])


def _shortened(arguments: str) -> str:
    return arguments if len(arguments) <= _MAX_ARGUMENT_CHARS else f"{arguments[:_MAX_ARGUMENT_CHARS]}…"


def _with_note(entry: HistoryEntry, note: str) -> HistoryEntry:
    return replace(entry, note=f"{entry.note}\n{note}" if entry.note else note)


def _is_paused(entry: HistoryEntry) -> bool:
    return bool(entry.attempts) and entry.attempts[-1].stop == StopReason.PAUSED


def _count(number: int, noun: str) -> str:
    return f"{count_text(number, noun)} {'was' if number == 1 else 'were'}"
