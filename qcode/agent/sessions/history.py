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

from qcode.agent.sessions.file_states import FileMove, RecordedChange
from qcode.protocol.events import (
    AttemptRecord,
    CallState,
    Compacted,
    Notice,
    OutputEscalated,
    PartialRestored,
    Retry,
    TurnEnded,
)
from qcode.protocol.messages import Message, ToolCall, ToolResult, typed_text
from qcode.protocol.reply import WebSearched
from qcode.protocol.tools import SandboxUse
from qcode.text.json import parse_object
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

NumberRange: TypeAlias = "tuple[int, int]"
"""A half-open range of message numbers: `(0, 4)` are the messages 0 to 3."""

HeadKey: TypeAlias = "tuple[tuple[NumberRange, ...], int | None]"
"""The ranges of a `Head` and the number of its prompt."""

MoveKind: TypeAlias = Literal["rewind", "undo", "redo"]
MOVE_KINDS: tuple[MoveKind, ...] = ("rewind", "undo", "redo")


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


@dataclass(frozen=True, slots=True)
class ShownResult:
    """The display of a call's result."""

    state: CallState
    summary: str = ""
    diff: str = ""
    seconds: float | None = None
    output: str | None = None
    """The text that the user saw; None if it is the content of the result."""
    ran_arguments: str = ""
    """The arguments with which the call ran, as JSON, if the user edited them; otherwise empty."""
    problems: str = ""
    """The problems that an edit caused, shown below its diff."""
    sandbox: SandboxUse = ""


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The text shown for a prompt, if it differs from the text sent, such as `/review src`."""

    text: str


def typed_prompt(text: str, shown: str) -> str:
    """Return the command that was shown for a prompt, such as `/init`; otherwise `text`, which was sent.

    A shown prompt that is not a command has labels in place of pasted texts. `text` is returned, which contains them.
    """
    return shown if shown.startswith("/") and not text.startswith(shown.split(maxsplit=1)[0]) else text


_PASTE_LABEL = lazy_pattern(r"\[Pasted text #\d+ [^\[\]\n]{1,200}\]")


def title_prompt(text: str, shown: str) -> str:
    """Return the part of a prompt that can be the title of a session: the typed words without pasted texts.

    Example: `[Pasted text #1 +40 lines] why does it fail?` was shown, so the result is `why does it fail?`. Without
    typed words, or without the label of a pasted text, the result is that of `typed_prompt`.
    """
    words = _PASTE_LABEL.sub(" ", shown).strip()
    return words if words and words != shown.strip() else typed_prompt(text, shown)


@dataclass(frozen=True, slots=True)
class Thought:
    """The duration of one section of reasoning."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """An open question about a call, stored before the user answers, so that a crash does not lose the diff shown.

    `diff` is the diff of an edit, otherwise empty. `arguments` are those of a call that the user or a hook edited, as
    JSON, otherwise empty.
    """

    call_id: str
    diff: str = ""
    arguments: str = ""


JOB_RUNNING = "running"
JOB_ENDED_WITH_QCODE = "stopped when qcode ended"
JOB_LEFT = "outcome unknown: it was running when you left the session"


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A background job for a replay."""

    number: int
    since: int
    """The number of the next message when the job started.

    The job of a call belongs to the message before that number, the job of a `!` command to the next prompt.
    """
    state: str
    """The state of the job, such as `exit 0`, or one of the constants above."""
    output: str = ""
    seconds: float = 0.0
    """The duration until the end, or until the session was left; 0 if it is unknown."""


ShownEvent: TypeAlias = (
    Notice
    | Retry
    | OutputEscalated
    | PartialRestored
    | Compacted
    | WebSearched
    | TurnEnded
    | ShownPrompt
    | ShownQuestion
    | Thought
    | StoredJob
)


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An event that was shown with a message, after `offset` characters of its text."""

    event: ShownEvent
    offset: int = 0
    is_undone: bool = False
    """The event of a compaction that was undone; a replay leaves it out."""


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
        count, prompt = 0, self.prompt
        while prompt is not None:
            count, prompt = count + 1, prompt.before.prompt
        return count

    def was_compacted_since(self, earlier: Head) -> bool:
        """Return whether the conversation was compacted between the earlier state and this one."""
        return _is_compaction(self, of=earlier) or not set(earlier.numbers) <= set(self.numbers)

    @property
    def key(self) -> HeadKey:
        """The ranges and the number of the prompt, which identify a state."""
        return self.ranges, self.prompt.number if self.prompt is not None else None


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
        # A process has the session open, or had it open when this copy was made: calls at its end may still run there.
        self.end: Literal["closed", "open", "copied"] = "closed"
        self.new_jobs: dict[int, StoredJob] = {}  # the jobs that belong to the next prompt, by number
        # The events of each compaction, by the key of the head after it: a message, and an index in its shown events.
        self._compaction_items: dict[HeadKey, list[tuple[StoredMessage, int]]] = {}

    @property
    def next_number(self) -> int:
        return self.latest + 1

    def add(self, number: int, stored: StoredMessage) -> None:
        """Add a message at the end of the conversation."""
        before = self.head
        self._store(number, stored)
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
        if (last := self.stored.get(self.latest)) is not None:
            last.agent_work.setdefault(call_id, AgentWork()).messages.append(message)

    def add_requests(self, attempts: Iterable[AttemptRecord], name: str = "") -> None:
        """Add requests that belong to no message. With a `name`, they do not belong to a turn either."""
        last = self._latest_shown
        if name:
            named = self._early_requests if last is None else last.named_requests
            named.append(NamedRequests(name, tuple(attempts), 0 if last is None else len(last.shown_events)))
        elif last is not None:
            last.requests += attempts

    def add_shown(self, items: Iterable[ShownItem]) -> None:
        """Add items that were shown with the latest message."""
        last = self._latest_shown
        for item in items:
            if isinstance(item.event, StoredJob):
                self.record_job(item.event)
            elif last is not None:
                # A `/compact` also ends with `TurnEnded`, the second one after the message.
                is_compaction = isinstance(item.event, Compacted) or (
                    isinstance(item.event, TurnEnded) and last.turn_ends
                )
                if self.head.compacted_from is not None and is_compaction:
                    self._compaction_items.setdefault(self.head.key, []).append((last, len(last.shown_events)))
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
        if (last := self.latest_message) is None:
            return False
        inner = last.agent_work.setdefault(call_id, AgentWork())
        inner.intents.add(inner_id)
        if (arguments := parse_object(run_arguments)) is None:
            return False
        calls = (call for message in inner.messages for call in message.message.calls if call.call_id == inner_id)
        is_edited = any(arguments != parse_object(call.arguments) for call in calls)
        if is_edited:
            inner.edited_arguments[inner_id] = run_arguments
        return is_edited

    def compact(self, ranges: Iterable[NumberRange], new: Iterable[tuple[int, StoredMessage]]) -> None:
        """Continue with the messages of `ranges`, which include the numbers of the `new` messages."""
        before = self._head_by_key[self.head.key] = self.head
        for number, stored in new:
            self._store(number, stored)
        self.head = Head(tuple(ranges), before.prompt, compacted_from=before)
        self._head_by_key[self.head.key] = self.head
        self.redoable.clear()

    @property
    def next_change(self) -> int:
        """The position of the next file change."""
        return max(self.changes, default=-1) + 1

    def add_change(self, change_number: int, change: RecordedChange) -> None:
        """Record that a file is about to be changed; raise `ValueError` if the position is already used."""
        if change_number in self.changes:
            raise ValueError("the position is already used")
        self.changes[change_number] = change

    def void_change(self, change_number: int) -> None:
        """Mark the change at this position as not made."""
        self._reverted.add(change_number)

    def live_changes(self, since: int = 0) -> dict[int, RecordedChange]:
        """Return the changes from message `since` on that were not reverted, by position, in order."""
        return {
            position: change
            for position, change in sorted(self.changes.items())
            if change.number >= since and position not in self._reverted
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
        for stored, index in self._compaction_items.get(compacted.key, ()):
            stored.shown_events[index] = replace(stored.shown_events[index], is_undone=is_undone)

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
        leads_to_head = True
        for number, stored in self.stored.items():
            if stored.is_turn_start:
                leads_to_head = number in prompt_numbers
            if leads_to_head and not stored.is_summary:
                yield number

    def title_prompts(self) -> Iterator[str]:
        """Yield the `title_prompt` of all prompts that led to the head, without compaction, from the first one on."""
        messages = (self.stored[number] for number in self.iter_all_numbers())
        prompts = (stored for stored in messages if stored.entry.message.role == "user")
        return (title_prompt(typed_text(stored.entry.message), stored.shown_prompt) for stored in prompts)

    def _store(self, number: int, stored: StoredMessage) -> None:
        if number <= self.latest:
            raise ValueError("the number is already used")
        self.stored[number] = stored
        self.latest = number


def _is_compaction(head: Head, *, of: Head) -> bool:
    return head.compacted_from is not None and head.compacted_from.key == of.key


def extended(ranges: Sequence[NumberRange], number: int) -> tuple[NumberRange, ...]:
    """Return `ranges` with one more number at the end."""
    first, end = ranges[-1] if ranges else (number, number)
    if end != number:
        return (*ranges, (number, number + 1))
    return (*ranges[:-1], (first, number + 1))


def ranges_of(numbers: Iterable[int]) -> tuple[NumberRange, ...]:
    """Return numbers as ranges, in the same order."""
    ranges: list[NumberRange] = []
    for number in numbers:
        ranges[-1:] = extended(ranges[-1:], number)
    return tuple(ranges)
