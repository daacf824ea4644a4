"""The history of a session: messages, file changes, and the moves between its states (undo, redo, rewind).

A message keeps its number forever; a `Head` lists the messages of the conversation in one state. Nothing is removed: a
rewind, an undo and a compaction each create a new head, so that each can be undone. Example: after messages 0 to 5, a
rewind to before message 4 creates the head `((0, 4),)`. The next message has number 6, and the head becomes
`((0, 4), (6, 7))`. File changes are numbered separately; the number of a change is its position. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode.agent.sessions.shown import (
    ShownItem,
    ShownPrompt,
    ShownQuestion,
    ShownResult,
    StoredJob,
    title_prompt,
    typed_prompt,
)
from qcode.protocol.events import AttemptRecord, Compacted, TurnEnded
from qcode.protocol.messages import Message, ToolCall, ToolResult, typed_text
from qcode.text.json import parse_object
from qcode.values import dataclass

NumberRange: TypeAlias = "tuple[int, int]"
"""A half-open range of message numbers: `(0, 4)` are the messages 0 to 3."""

HeadKey: TypeAlias = "tuple[tuple[NumberRange, ...], int | None]"
"""The ranges of a `Head` and the number of its prompt."""

MoveKind: TypeAlias = Literal["rewind", "undo", "redo"]
MOVE_KINDS: tuple[MoveKind, ...] = ("rewind", "undo", "redo")

SessionEnd: TypeAlias = Literal["closed", "open", "copied"]
"""Why a call or a reply at the end of a session may be unfinished.

`closed`: the process ended. `open`: a process has the session open, and the call may still run there. `copied`: that
was so when this copy was made.
"""

LINK_PREFIX = "link-"


@dataclass(frozen=True, slots=True)
class FileState:
    """A version of a file. The content of a symbolic link is its target."""

    digest: str
    """The SHA-256 of the content in hexadecimal.

    For a symbolic link it begins with `link-`, which earlier versions of qcode treat as missing content.
    """
    size: int
    """In bytes."""
    mode: int
    """The permission bits."""
    is_kept: bool = True
    """The content is in the store and can be restored."""

    @property
    def is_link(self) -> bool:
        return self.digest.startswith(LINK_PREFIX)

    @property
    def content_digest(self) -> str:
        """The digest under which the content is stored."""
        return self.digest.removeprefix(LINK_PREFIX)

    def is_same(self, other: FileState | None) -> bool:
        return other is not None and other.digest == self.digest


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change of a file; a state of None means that there is no file."""

    message_number: int
    """The number of the latest message before the change."""
    path: str
    """The absolute path."""
    before: FileState | None
    after: FileState | None
    by: Literal["tool", "command"] = "tool"
    """`tool`: reported by a tool, which is exact. `command`: detected by a comparison of files after a command."""


@dataclass(frozen=True, slots=True)
class FileMove:
    """A file that a move restored; a version of None means that there is no file."""

    path: str
    source: FileState | None
    """The version before the move."""
    target: FileState | None
    """The version after the move."""


@dataclass(frozen=True, slots=True)
class NamedRequests:
    """Requests outside the turns, such as those of `/btw` or for a title; `/cost` shows the `name`."""

    name: str
    attempts: tuple[AttemptRecord, ...]
    position: int = 0
    """The number of events that were shown with the same message before these requests."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A stored message."""

    message: Message
    attempts: Sequence[AttemptRecord] = ()
    note: str = ""
    """A text for the user, which is never sent to the model."""
    timestamp: str = ""
    """The time of the message (ISO 8601)."""
    is_filled_in: bool = False
    """The message is not in the file; it replaces a missing message."""
    numbers: tuple[int, ...] = ()
    """The numbers of the messages from which this one was merged."""


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """A message of a sub-agent, with the requests that produced it."""

    message: Message
    attempts: Sequence[AttemptRecord] = ()


@dataclass(slots=True)
class AgentWork:
    """The messages of a sub-agent, and the calls that it started."""

    messages: list[InnerMessage] = field(default_factory=list)
    intents: set[str] = field(default_factory=set)
    """The ids of its calls that were about to run."""
    edited_arguments: dict[str, str] = field(default_factory=dict)
    """The arguments, as JSON, of calls that the user edited before they ran, by call id."""

    @property
    def started_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the sub-agent started, in order, with their final arguments."""
        return tuple(
            self.as_run(call) for item in self.messages for call in item.message.calls if call.call_id in self.intents
        )

    def as_run(self, call: ToolCall) -> ToolCall:
        """Return `call` with the arguments with which it ran: the user may have edited them."""
        edited = self.edited_arguments.get(call.call_id)
        return call if edited is None else replace(call, arguments=edited)


def is_a_prompt(message: Message) -> bool:
    """Return whether a message can be a prompt: a user message without tool results."""
    return message.role == "user" and not any(isinstance(block, ToolResult) for block in message.blocks)


class StoredMessage:
    """A message with the state of its calls. `is_turn_start`: it is the prompt of the user that started a turn.

    `is_summary`: a compaction replaced older messages with it. Each collection is created at its first use, because in
    a session of 10,000 messages most are never used.
    """

    intents: set[str]
    """The ids of the calls that were about to run."""
    edited_arguments: dict[str, str]
    """The arguments, as JSON, of calls that the user edited before they ran, by call id."""
    results: dict[str, ToolResult]
    """The results that were stored before the message with all results, by call id."""
    agent_work: dict[str, AgentWork]
    """The work of the sub-agents that the calls started, by call id."""
    shown_events: list[ShownItem]
    """The events that were shown with the message, for a replay."""
    shown_results: dict[str, ShownResult]
    """The results of the calls as they were shown, by call id, for a replay."""
    requests: list[AttemptRecord]
    """The requests that were sent after the message and belong to no other message."""
    named_requests: list[NamedRequests]
    """Requests outside the turns that were sent after the message."""
    jobs: dict[int, StoredJob]
    """The background jobs of the calls and `!` commands that precede the message or belong to it, by number."""
    # The annotations above name the collections; `__getattr__` creates them.
    __slots__ = ("entry", "is_turn_start", "is_summary", *__annotations__)

    def __init__(self, entry: HistoryEntry, is_turn_start: bool, *, is_summary: bool = False) -> None:
        self.entry = entry
        self.is_turn_start = is_turn_start
        self.is_summary = is_summary

    if not TYPE_CHECKING:  # type checkers use the declared attributes

        def __getattr__(self, name: str) -> object:
            kind = _COLLECTIONS.get(name)
            if kind is None:
                raise AttributeError(name)
            setattr(self, name, collection := kind())
            return collection

    @property
    def number(self) -> int:
        """The number of the message in its session."""
        return self.entry.numbers[0]

    @property
    def shown_prompt(self) -> str:
        """The text shown for a prompt, empty if it is the text of the message."""
        return next((item.event.text for item in self.shown_events if isinstance(item.event, ShownPrompt)), "")

    @property
    def turn_ends(self) -> dict[int, TurnEnded]:
        """The ends of the turn of the message and of each `/compact` after it, by their index in `shown_events`."""
        events = enumerate(item.event for item in self.shown_events)
        return {index: event for index, event in events if isinstance(event, TurnEnded)}

    def question_about(self, call_id: str) -> ShownQuestion | None:
        """Return the last question about a call; None if the user was not asked."""
        questions = (item.event for item in reversed(self.shown_events) if isinstance(item.event, ShownQuestion))
        return next((question for question in questions if question.call_id == call_id), None)

    @property
    def typed_prompt(self) -> str:
        """The command or the text that the user typed for a prompt."""
        return typed_prompt(typed_text(self.entry.message), self.shown_prompt)

    @property
    def turn_requests(self) -> tuple[AttemptRecord, ...]:
        """The requests of the message and of its sub-agents, and requests of its turn that belong to no message."""
        inner = (
            attempt for item in self.agent_work.values() for stored in item.messages for attempt in stored.attempts
        )
        return (*self.entry.attempts, *inner, *self.requests)


_COLLECTIONS: dict[str, type[Any]] = {
    **dict.fromkeys(("shown_events", "requests", "named_requests"), list),
    **dict.fromkeys(("edited_arguments", "results", "agent_work", "shown_results", "jobs"), dict),
    "intents": set,
}


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """A message of the user that began a turn, and the head before it."""

    number: int
    before: Head


@dataclass(frozen=True, slots=True)
class Head:
    """A state of the conversation."""

    ranges: tuple[NumberRange, ...] = ()
    """The messages of the conversation in this state."""
    prompt: UserPrompt | None = None
    """The last prompt of the user that led to this state."""
    compacted_from: Head | None = None
    """The head before a compaction, if no message followed the compaction."""

    @property
    def numbers(self) -> Iterator[int]:
        for first, end in self.ranges:
            yield from range(first, end)

    @property
    def turns(self) -> int:
        """The number of prompts of the user that led to this state."""
        count = 0
        prompt = self.prompt
        while prompt is not None:
            count += 1
            prompt = prompt.before.prompt
        return count

    def was_compacted_since(self, earlier: Head) -> bool:
        """Return whether the conversation was compacted between the earlier state and this one."""
        return _is_compaction(self, of=earlier) or not set(earlier.numbers) <= set(self.numbers)

    @property
    def key(self) -> HeadKey:
        """The ranges and the number of the prompt, which identify a state."""
        return self.ranges, None if self.prompt is None else self.prompt.number


START = Head()


@dataclass(frozen=True, slots=True)
class Move:
    """An undo, rewind or redo."""

    move_id: int
    kind: MoveKind
    before: Head
    after: Head
    files: tuple[FileMove, ...] = ()
    changes: tuple[int, ...] = ()
    """The positions of the file changes that the move reverted or applied again."""


@dataclass(frozen=True, slots=True)
class _EventPosition:
    """An event that was shown: `stored.shown_events[index]`."""

    stored: StoredMessage
    index: int


class SessionHistory:
    """The history of a session, which the records of its file and the running session extend."""

    def __init__(self) -> None:
        self.stored: dict[int, StoredMessage] = {}  # all messages, by number
        self.models: dict[int, str] = {}  # each model, by the number of its first message
        self.mode = ""  # the last permission mode of an attended run, empty if unknown
        self.head = START
        self.changes: dict[int, RecordedChange] = {}  # the file changes, by position
        self.redoable: list[Move] = []  # the moves that can be redone, the latest last
        self.unfinished: Move | None = None  # a move that a crash interrupted
        self.next_move_id = 0
        self._reverted: set[int] = set()  # the positions of the file changes that do not apply now
        self.latest = -1  # the number of the message written last
        self._early_requests: list[NamedRequests] = []  # requests before the first message
        self._head_by_key: dict[HeadKey, Head] = {START.key: START}
        self._prompts: dict[int, UserPrompt] = {}
        self.end: SessionEnd = "closed"
        self.new_jobs: dict[int, StoredJob] = {}  # the jobs that belong to the next prompt, by number
        # The positions of the events about each compaction, by the key of the head after it.
        self._compaction_events: dict[HeadKey, list[_EventPosition]] = {}

    @property
    def next_number(self) -> int:
        return self.latest + 1

    def add(self, stored: StoredMessage) -> None:
        """Add a message at the end of the conversation."""
        before = self.head
        self._store(stored)
        number = self.latest
        if self._early_requests:
            stored.named_requests += self._early_requests
            self._early_requests.clear()
        if self.new_jobs and stored.entry.message.role == "user":
            stored.jobs |= self.new_jobs
            if stored.is_turn_start:
                self.new_jobs.clear()
        prompt = before.prompt
        if stored.is_turn_start:
            prompt = self._prompts[number] = UserPrompt(number, before)
            self._head_by_key[before.key] = before
        self.head = Head(extended(before.ranges, number), prompt)
        self.redoable.clear()

    def use_model(self, model: str) -> None:
        """Record that `model` answers from here on."""
        self.models[self.next_number] = model

    @property
    def current_model(self) -> str:
        """The model of the next message, empty if it is unknown."""
        return self.model_of(self.next_number)

    def model_of(self, number: int) -> str:
        """Return the model in use when a message was written, empty if it is unknown."""
        first_numbers = [first for first in self.models if first <= number]
        return self.models[max(first_numbers)] if first_numbers else ""

    def add_inner(self, call_id: str, message: InnerMessage) -> None:
        """Add a message of the sub-agent that a call of the latest message started."""
        if self.latest_message is not None:
            work = self.latest_message.agent_work.setdefault(call_id, AgentWork())
            work.messages.append(message)

    def add_requests(self, attempts: Iterable[AttemptRecord], name: str = "") -> None:
        """Add requests that belong to no message. With a `name`, they do not belong to a turn either."""
        last = self._latest_shown
        if name and last is not None:
            last.named_requests.append(NamedRequests(name, tuple(attempts), position=len(last.shown_events)))
        elif name:
            self._early_requests.append(NamedRequests(name, tuple(attempts)))
        elif last is not None:
            last.requests += attempts

    def add_shown(self, items: Iterable[ShownItem]) -> None:
        """Add items that were shown with the latest message."""
        last = self._latest_shown
        for item in items:
            if isinstance(item.event, StoredJob):
                self.record_job(item.event)
            elif last is not None:
                # The first `TurnEnded` after a message ends its turn, each further one a `/compact`.
                ends_compact = isinstance(item.event, TurnEnded) and bool(last.turn_ends)
                is_about_compaction = ends_compact or isinstance(item.event, Compacted)
                if is_about_compaction and self.head.compacted_from is not None:
                    positions = self._compaction_events.setdefault(self.head.key, [])
                    positions.append(_EventPosition(last, len(last.shown_events)))
                last.shown_events.append(item)

    @property
    def latest_message(self) -> StoredMessage | None:
        return self.stored.get(self.latest)

    @property
    def _latest_shown(self) -> StoredMessage | None:
        """The latest message that is not a summary, None if there is none: summaries have no events and requests."""
        return next((stored for stored in reversed(self.stored.values()) if not stored.is_summary), None)

    def record_job(self, job: StoredJob) -> None:
        """Set the state of a background job on the messages that may show it: see `StoredJob`."""
        caller = self.stored.get(job.since - 1)
        if caller is not None and caller.entry.message.role == "assistant":
            caller.jobs[job.number] = job
        for number, stored in self.stored.items():
            if number >= job.since and stored.entry.message.role == "user":
                stored.jobs[job.number] = job
                if stored.is_turn_start:
                    return
        self.new_jobs[job.number] = job

    def record_inner_intent(self, call_id: str, inner_id: str, run_arguments: str) -> bool:
        """Record that the call `inner_id` of a sub-agent runs with these arguments (JSON).

        `call_id` is the call that started the sub-agent. Return whether the user edited the arguments.
        """
        if self.latest_message is None:
            return False
        work = self.latest_message.agent_work.setdefault(call_id, AgentWork())
        work.intents.add(inner_id)
        arguments = parse_object(run_arguments)
        calls = (call for inner in work.messages for call in inner.message.calls if call.call_id == inner_id)
        is_edited = arguments is not None and any(arguments != parse_object(call.arguments) for call in calls)
        if is_edited:
            work.edited_arguments[inner_id] = run_arguments
        return is_edited

    def compact(self, ranges: Iterable[NumberRange], summaries: Iterable[StoredMessage]) -> None:
        """Continue with the messages of `ranges`, which include the numbers of the `summaries`."""
        before = self._head_by_key[self.head.key] = self.head
        for summary in summaries:
            self._store(summary)
        self.head = Head(tuple(ranges), before.prompt, compacted_from=before)
        self._head_by_key[self.head.key] = self.head
        self.redoable.clear()

    @property
    def next_change(self) -> int:
        """The position of the next file change."""
        return max(self.changes, default=-1) + 1

    def add_change(self, position: int, change: RecordedChange) -> None:
        """Record that a file is about to be changed; raise `ValueError` if the position is already used."""
        if position in self.changes:
            raise ValueError("the position is already used")
        self.changes[position] = change

    def void_change(self, position: int) -> None:
        """Mark the change at this position as not made."""
        self._reverted.add(position)

    def live_changes(self, since: int = 0) -> dict[int, RecordedChange]:
        """Return the changes from message `since` on that were not reverted, by position, in order."""
        return {
            position: change
            for position, change in sorted(self.changes.items())
            if change.message_number >= since and position not in self._reverted
        }

    def head_of(self, ranges: tuple[NumberRange, ...], prompt: int | None) -> Head:
        """Return the head with these ranges and prompt number; raise `ValueError` for an unknown prompt."""
        head = self._head_by_key.get((ranges, prompt))
        if head is not None:
            return head
        if prompt is not None and prompt not in self._prompts:
            raise ValueError("a move to an unknown message")
        return Head(ranges, self._prompts[prompt] if prompt is not None else None)

    def apply_move(self, move: Move) -> None:
        """Move the head. A move that restores files is unfinished until `finish_move`."""
        self._head_by_key[move.before.key] = move.before
        if _is_compaction(move.after, of=move.before):
            self._mark_compaction(move.after, is_undone=False)
        if _is_compaction(move.before, of=move.after):
            self._mark_compaction(move.before, is_undone=True)
        self.next_move_id = max(self.next_move_id, move.move_id + 1)
        self.head = move.after
        if move.kind == "redo":
            self._reverted.difference_update(move.changes)
            if self.redoable:
                self.redoable.pop()
        else:
            self._reverted.update(move.changes)
            self.redoable.append(move)
        self.unfinished = move if move.files else None

    def _mark_compaction(self, compacted: Head, *, is_undone: bool) -> None:
        """Mark the events of the compaction that led to the head `compacted`."""
        for position in self._compaction_events.get(compacted.key, ()):
            events = position.stored.shown_events
            events[position.index] = replace(events[position.index], is_undone=is_undone)

    def finish_move(self, move_id: int) -> None:
        """Mark a move as finished: all of its files are restored."""
        if self.unfinished is not None and self.unfinished.move_id == move_id:
            self.unfinished = None

    def prompts(self) -> list[UserPrompt]:
        """Return the prompts of the user that led to the head, in order."""
        prompts = []
        prompt = self.head.prompt
        while prompt is not None:
            prompts.append(prompt)
            prompt = prompt.before.prompt
        return prompts[::-1]

    def all_numbers(self) -> list[int]:
        """Return the numbers of all messages that led to the head, without compaction."""
        return list(self.iter_all_numbers())

    def iter_all_numbers(self) -> Iterator[int]:
        """Yield the numbers of all messages that led to the head, without compaction, from the first one on."""
        prompt_numbers = {prompt.number for prompt in self.prompts()}
        is_turn_in_conversation = True
        for number, stored in self.stored.items():
            if stored.is_turn_start:
                is_turn_in_conversation = number in prompt_numbers  # otherwise the turn was undone
            if is_turn_in_conversation and not stored.is_summary:
                yield number

    def title_prompts(self) -> Iterator[str]:
        """Yield the `title_prompt` of all prompts that led to the head, without compaction, from the first one on."""
        messages = (self.stored[number] for number in self.iter_all_numbers())
        prompts = (stored for stored in messages if stored.entry.message.role == "user")
        return (title_prompt(typed_text(stored.entry.message), stored.shown_prompt) for stored in prompts)

    def _store(self, stored: StoredMessage) -> None:
        number = stored.number
        if number <= self.latest:
            raise ValueError("the number is already used")
        self.stored[number] = stored
        self.latest = number


def _is_compaction(head: Head, *, of: Head) -> bool:
    return head.compacted_from is not None and head.compacted_from.key == of.key


def extended(ranges: Sequence[NumberRange], number: int) -> tuple[NumberRange, ...]:
    """Return `ranges` with one more number at the end."""
    if ranges:
        first, end = ranges[-1]
        if end == number:
            return (*ranges[:-1], (first, number + 1))
    return (*ranges, (number, number + 1))


def ranges_of(numbers: Iterable[int]) -> tuple[NumberRange, ...]:
    """Return numbers as ranges, in the same order."""
    ranges: list[NumberRange] = []
    for number in numbers:
        ranges[-1:] = extended(ranges[-1:], number)  # replaces the last range by one or two
    return tuple(ranges)
