"""A session of another program, and the builder that turns its records into a valid transcript. Pure.

A reader adds prompts, blocks of replies, results and compactions in file order. The builder combines them to messages:
roles alternate, and each call has exactly one result, wherever the result is in the file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.values import dataclass

_INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that no provider accepts in the name of a tool."""
_MAX_NAME_CHARS = 64
NO_RESULT = "The outcome of this call is unknown: the imported session holds no result for it."


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message in a session of another program."""

    message: Message
    timestamp: str = ""
    """The time as written in the file, empty if unknown."""
    model: str = ""
    """The model that wrote a reply, empty if unknown."""
    is_typed: bool = False
    """The user typed the message; False if the program wrote it in the user's name."""


@dataclass(frozen=True, slots=True)
class ImportedCompaction:
    """A compaction: in later requests, `messages` replace all earlier messages."""

    messages: tuple[Message, ...]
    timestamp: str = ""


ImportedItem: TypeAlias = ImportedMessage | ImportedCompaction


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session of another program."""

    program: str
    """A name from `sources.PROGRAMS`."""
    session_id: str
    cwd: str
    title: str
    created: str
    """The time as written in the file, empty if unknown."""
    items: tuple[ImportedItem, ...]
    left_out: Mapping[str, int]
    """The number of blocks or records without an equivalent in qcode, by kind."""
    bookkeeping: Mapping[str, int]
    """The number of records without content, by kind."""

    @property
    def messages(self) -> tuple[ImportedMessage, ...]:
        return tuple(item for item in self.items if isinstance(item, ImportedMessage))

    @property
    def latest(self) -> str:
        """The time of the last record with content, empty if unknown."""
        return max((item.timestamp for item in self.items), default="") or self.created


@dataclass(frozen=True, slots=True)
class _Prompt:
    """Text and images in the user's name, written by the user (`is_typed`) or by the program."""

    blocks: tuple[Block, ...]
    timestamp: str
    is_typed: bool


@dataclass(frozen=True, slots=True)
class _ReplyBlock:
    """A block of a reply, with the model that wrote it."""

    block: Block
    timestamp: str
    model: str


@dataclass(frozen=True, slots=True)
class _ResultTime:
    """The time of a result. The result itself is in `_results`, because it may precede its call."""

    timestamp: str


_Event: TypeAlias = _Prompt | _ReplyBlock | _ResultTime | ImportedCompaction


class TranscriptBuilder:
    """A builder that gets the content of a session in file order; `finish` returns messages."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        """See `ImportedSession.left_out`."""
        self.bookkeeping: Counter[str] = Counter()
        """See `ImportedSession.bookkeeping`."""
        self._events: list[_Event] = []
        self._results: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
        """The results by the id of their call, in file order: several calls may have the same id."""

    def add_prompt(self, blocks: Iterable[Block], timestamp: str = "", *, is_typed: bool = True) -> None:
        """Add a message of the user; `is_typed` is False if the program wrote it in the user's name."""
        filled = tuple(block for block in blocks if not isinstance(block, Text) or block.text.strip())
        if filled:
            self._events.append(_Prompt(filled, timestamp, is_typed))

    def add_reply_block(self, block: Block, timestamp: str = "", model: str = "") -> None:
        """Add a block of a reply."""
        if not isinstance(block, Text | Reasoning) or block.text.strip():
            self._events.append(_ReplyBlock(block, timestamp, model))

    def add_result(
        self, call_id: str, content: str, timestamp: str = "", *, is_error: bool = False, images: Iterable[Image] = ()
    ) -> None:
        """Add the result of a call, which may be anywhere before it or after it."""
        self._results[call_id].append(ToolResult(call_id, "", content, is_error, tuple(images)))
        self._events.append(_ResultTime(timestamp))

    def compact(self, messages: Iterable[Message], timestamp: str = "") -> None:
        """Add a compaction, unless all `messages` are empty."""
        if filled := tuple(message for message in messages if message.blocks):
            self._events.append(ImportedCompaction(filled, timestamp))

    def roll_back(self, turns: int) -> None:
        """Remove the last turns, which the user rolled back."""
        starts = [index for index, event in enumerate(self._events) if isinstance(event, _Prompt) and event.is_typed]
        if turns > 0 and starts:
            index = starts[-min(turns, len(starts))]
            self.left_out["messages of turns that were rewound"] += len(self._events) - index
            del self._events[index:]

    def session(self, program: str, session_id: str, *, cwd: str, title: str, created: str) -> ImportedSession:
        """Return the session with the content that was added. `ImportedSession` explains the parameters."""
        return ImportedSession(program, session_id, cwd, title, created, self.finish(), self.left_out, self.bookkeeping)

    def finish(self) -> tuple[ImportedItem, ...]:
        """Return the messages and compactions. Results without a call are counted in `left_out`."""
        items: list[ImportedItem] = []
        results: tuple[ToolResult, ...] = ()
        for kind, group in groupby(self._events, key=_kind):
            events = list(group)
            if kind is _ReplyBlock:
                reply = self._reply(event for event in events if isinstance(event, _ReplyBlock))
                items.append(reply)
                results = tuple(map(self._result_of, reply.message.calls))
                continue
            items += _user_messages([event for event in events if isinstance(event, _Prompt | _ResultTime)], results)
            items += [event for event in events if isinstance(event, ImportedCompaction)]
            results = ()
        items += _user_messages([], results)
        orphans = sum(map(len, self._results.values()))
        self.left_out += Counter({"results without a call": orphans})
        return tuple(items)

    def _reply(self, events: Iterable[_ReplyBlock]) -> ImportedMessage:
        """Return the message of one reply. If several of its calls have the same id, the ids are made unique."""
        blocks: list[Block] = []
        used_ids: set[str] = set()
        timestamp = model = ""
        for event in events:
            block = event.block
            if isinstance(block, ToolCall):
                number, call_id = 2, block.call_id
                while call_id in used_ids:
                    call_id, number = f"{block.call_id}_{number}", number + 1
                used_ids.add(call_id)
                results = self._results[block.call_id]
                if call_id != block.call_id and len(results) > 1:
                    # The first result belongs to the first call, the next result to this call.
                    self._results[call_id].append(replace(results[1], call_id=call_id))
                    del results[1]
                name = _INVALID_NAME_CHARS.sub("_", block.name)[:_MAX_NAME_CHARS] or "unknown"
                block = replace(block, call_id=call_id, name=name)
            blocks.append(block)
            timestamp, model = event.timestamp or timestamp, event.model or model
        return ImportedMessage(Message("assistant", tuple(blocks)), timestamp, model)

    def _result_of(self, call: ToolCall) -> ToolResult:
        """Remove and return the next result of a call; without a result, return one that says so."""
        results = self._results[call.call_id]
        result = results.popleft() if results else ToolResult(call.call_id, "", NO_RESULT, is_error=True)
        return replace(result, name=call.name)


def _kind(event: _Event) -> type:
    """Return the type by which events are grouped; prompts and results between two replies are one group."""
    return _Prompt if isinstance(event, _ResultTime) else type(event)


def _user_messages(events: Sequence[_Prompt | _ResultTime], results: tuple[ToolResult, ...]) -> list[ImportedItem]:
    """Return the messages between two replies: the results of the first reply, then the prompts.

    Text that the program wrote in the user's name precedes typed text, as attachments do.
    """
    timestamp = next((event.timestamp for event in reversed(events) if event.timestamp), "")
    prompts = [event for event in events if isinstance(event, _Prompt)]
    program_blocks = [block for prompt in prompts if not prompt.is_typed for block in prompt.blocks]
    typed_blocks = [block for prompt in prompts if prompt.is_typed for block in prompt.blocks]
    first_timestamp = next((event.timestamp for event in events if event.timestamp), timestamp)
    items: list[ImportedItem] = []
    if results and typed_blocks:
        # The turn was interrupted: it ends with its results, and the prompt begins another turn.
        items.append(ImportedMessage(Message("user", results), first_timestamp))
        results = ()
    if blocks := (*results, *program_blocks, *typed_blocks):
        items.append(ImportedMessage(Message("user", blocks), timestamp, is_typed=bool(typed_blocks)))
    return items
