"""The events of a session in order: messages, changes of files, and the moves back and forth between them.

A message has a number for good; a `Point` says which of them the conversation consists of. Nothing is ever forgotten
here: a rewind, an undo and a compaction are further points, so each can be taken back. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from qcode.protocol.events import AttemptRecord
from qcode.protocol.messages import Message, ToolCall, ToolResult
from qcode.values import dataclass

Run: TypeAlias = "tuple[int, int]"
"""Numbers from the first up to, not including, the second."""

Why: TypeAlias = Literal["rewind", "undo", "redo"]
WHYS: tuple[Why, ...] = ("rewind", "undo", "redo")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as stored. `note` is for people and never reaches the model; `at` is when it was written (ISO 8601).

    `is_filled_in`: it stands in for something that is not in the file. `numbers` are those of the messages it was put
    together from.
    """

    message: Message
    attempts: tuple[AttemptRecord, ...] = ()
    note: str = ""
    at: str = ""
    is_filled_in: bool = False
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class InnerMessage:
    """A message of a sub-agent, with the requests it was put together from."""

    message: Message
    attempts: tuple[AttemptRecord, ...] = ()


@dataclass(slots=True)
class Inner:
    """What a sub-agent did: its messages, and the ids of its calls that were about to run."""

    messages: list[InnerMessage] = field(default_factory=list)
    intents: set[str] = field(default_factory=set)

    @property
    def begun(self) -> tuple[ToolCall, ...]:
        """The calls it began, in order."""
        return tuple(call for one in self.messages for call in one.message.calls if call.call_id in self.intents)


@dataclass(slots=True)
class Stored:
    """A message with what is known of its calls. `is_own`: it is what a person sent to begin a turn.

    `is_summary`: a compaction put it there in the place of older ones. `inner` are the sub-agents its calls started.
    """

    entry: Entry
    is_own: bool
    is_summary: bool = False
    intents: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)
    inner: dict[str, Inner] = field(default_factory=dict)

    @property
    def paid(self) -> Entry:
        """The entry with the attempts of its sub-agents added to its own: all that it cost."""
        inner = (attempt for one in self.inner.values() for said in one.messages for attempt in said.attempts)
        return replace(self.entry, attempts=(*self.entry.attempts, *inner))


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was: SHA-256 of its content in hexadecimal, size in bytes, permission bits.

    `is_kept`: its content is in the store and can be put back.
    """

    digest: str
    size: int
    mode: int
    is_kept: bool = True

    def is_same(self, other: FileState | None) -> bool:
        return other is not None and other.digest == self.digest


@dataclass(frozen=True, slots=True)
class Change:
    """A file that was changed after the message `number`; None: there was, or is, no file at `path` (absolute).

    `by`: a tool that changes files, which is exact, or a comparison before and after a command.
    """

    number: int
    path: str
    before: FileState | None
    after: FileState | None
    by: Literal["tool", "command"] = "tool"


@dataclass(frozen=True, slots=True)
class FileMove:
    """A file put back: from what it was just before to what it is after."""

    path: str
    source: FileState | None
    target: FileState | None


@dataclass(frozen=True, slots=True)
class Own:
    """A message of the person that began a turn, and where the conversation was before it."""

    number: int
    before: Point


@dataclass(frozen=True, slots=True)
class Point:
    """Where a conversation is. `own` is the last message of the person on the way here.

    `compacted_from` is set where a compaction led here and nothing came after it.
    """

    runs: tuple[Run, ...] = ()
    own: Own | None = None
    compacted_from: Point | None = None

    @property
    def numbers(self) -> Iterator[int]:
        for first, end in self.runs:
            yield from range(first, end)

    @property
    def key(self) -> tuple[tuple[Run, ...], int | None]:
        return self.runs, self.own.number if self.own is not None else None


START = Point()


@dataclass(frozen=True, slots=True)
class Move:
    """A step back or forth. `changes` are the positions of the changes it took back, or made hold again."""

    move_id: int
    why: Why
    before: Point
    after: Point
    files: tuple[FileMove, ...] = ()
    changes: tuple[int, ...] = ()


class Line:
    """`redoable` are the moves that can be taken back, the last one last. `unfinished` was broken off by a crash."""

    def __init__(self) -> None:
        self.stored: dict[int, Stored] = {}
        self.point = START
        self.changes: dict[int, Change] = {}
        self.redoable: list[Move] = []
        self.unfinished: Move | None = None
        self.moves = 0
        self._taken_back: set[int] = set()
        self._latest = -1
        self._known: dict[tuple[tuple[Run, ...], int | None], Point] = {START.key: START}
        self._owns: dict[int, Own] = {}

    @property
    def next_number(self) -> int:
        return self._latest + 1

    @property
    def latest(self) -> int:
        """The number of the message written last; -1 before the first."""
        return self._latest

    def add(self, number: int, stored: Stored) -> None:
        """Add a message at the end of the conversation."""
        before = self.point
        self._keep(number, stored)
        own = before.own
        if stored.is_own:
            own = self._owns[number] = Own(number, before)
            self._known[before.key] = before
        self.point = Point(extended(before.runs, number), own)
        self.redoable.clear()

    def add_inner(self, call_id: str, said: InnerMessage) -> None:
        """Add a message of the sub-agent that a call of the latest message started."""
        if (last := self.stored.get(self._latest)) is not None:
            last.inner.setdefault(call_id, Inner()).messages.append(said)

    def intend_inner(self, call_id: str, inner_call: str) -> None:
        if (last := self.stored.get(self._latest)) is not None:
            last.inner.setdefault(call_id, Inner()).intents.add(inner_call)

    def compact(self, runs: Iterable[Run], new: Iterable[tuple[int, Stored]]) -> None:
        """Let the conversation go on with `runs`, `new` messages among them."""
        before = self._known[self.point.key] = self.point
        for number, stored in new:
            self._keep(number, stored)
        self.point = Point(tuple(runs), before.own, compacted_from=before)
        self._known[self.point.key] = self.point
        self.redoable.clear()

    @property
    def next_change(self) -> int:
        return max(self.changes, default=-1) + 1

    def change(self, at: int, change: Change) -> None:
        """Note that a file is about to be changed, under a position that is new."""
        if at in self.changes:
            raise ValueError("a position that was given before")
        self.changes[at] = change

    def void(self, at: int) -> None:
        """The change at this position came to nothing."""
        self._taken_back.add(at)

    def live_changes(self, since: int) -> list[tuple[int, Change]]:
        """Return the changes after message `since` or later that were not taken back, with their positions."""
        found = sorted(self.changes.items())
        return [(at, one) for at, one in found if one.number >= since and at not in self._taken_back]

    def point_of(self, runs: tuple[Run, ...], own: int | None) -> Point:
        """Return the point that was described so; raise `ValueError` where no such message of a person is known."""
        known = self._known.get((runs, own))
        if known is not None:
            return known
        if own is not None and own not in self._owns:
            raise ValueError("a move to a message that is not there")
        return Point(runs, self._owns[own] if own is not None else None)

    def move(self, move: Move) -> None:
        """Go where `move` leads. It is unfinished until `finish`."""
        self._known[move.before.key] = move.before
        self.moves = max(self.moves, move.move_id + 1)
        self.point = move.after
        if move.why == "redo":
            self._taken_back.difference_update(move.changes)
            if self.redoable:
                self.redoable.pop()
        else:
            self._taken_back.update(move.changes)
            self.redoable.append(move)
        self.unfinished = move if move.files else None

    def finish(self, move_id: int) -> None:
        if self.unfinished is not None and self.unfinished.move_id == move_id:
            self.unfinished = None

    def owns(self) -> list[Own]:
        """Return the messages of the person on the way to here, the first one first."""
        found = []
        own = self.point.own
        while own is not None:
            found.append(own)
            own = own.before.own
        return found[::-1]

    def history(self) -> list[int]:
        """Return the numbers of all that was said on the way to here, before any compaction."""
        own_numbers = {one.number for one in self.owns()}
        is_on_the_way = True
        found = []
        for number in sorted(self.stored):
            stored = self.stored[number]
            if stored.is_own:
                is_on_the_way = number in own_numbers
            if is_on_the_way and not stored.is_summary:
                found.append(number)
        return found

    def _keep(self, number: int, stored: Stored) -> None:
        if number <= self._latest:
            raise ValueError("a number that was given before")
        self.stored[number] = stored
        self._latest = number


def extended(runs: Sequence[Run], number: int) -> tuple[Run, ...]:
    """Return `runs` with one more number at the end."""
    if runs and runs[-1][1] == number:
        return (*runs[:-1], (runs[-1][0], number + 1))
    return (*runs, (number, number + 1))


def runs_of(numbers: Iterable[int]) -> tuple[Run, ...]:
    """Return numbers, in their order, as runs."""
    runs: list[Run] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return tuple(runs)
