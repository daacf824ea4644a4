"""What the decoders of all protocols share: block numbers, stop reasons, and searches that a host runs itself. Pure.

`BlockWriter` numbers the blocks of one reply and keeps their text whole: a character outside the BMP that a server
split into two deltas is put back together. `normalise_stop` maps a stop reason to ours; the maps are in each codec, and
what no map knows is `UNKNOWN`. A part of a hosted search travels as reasoning: its text is for the user, and its opaque
part holds it as the host sent it, so that it goes back unchanged to that host and to no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum

from qcode.protocol.messages import Opaque
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEvent,
    Source,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    WebSearched,
)
from qcode.protocol.tools import Fetches, ToolSpec
from qcode.text.json import JsonObject, object_in


class Kind(Enum):
    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"


class BlockWriter:
    """Blocks in order of appearance from 0. Text and reasoning written by `flow` share one open block at a time."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, Kind] = {}
        self._held: dict[int, str] = {}
        self._opaque: dict[int, Opaque] = {}
        self._flowing: int | None = None

    @property
    def count(self) -> int:
        """How many blocks have begun."""
        return self._next

    def flow(self, kind: Kind, text: str, *, is_signed: bool = False) -> list[ReplyEvent]:
        """Append to the open block of `kind`, beginning one where another kind is open; empty text begins none.

        `is_signed`: the text carries a signature, so even an empty one needs a block to hang it on.
        """
        if not text and not is_signed:
            return []
        events: list[ReplyEvent] = []
        if self._flowing is None or self._open[self._flowing] is not kind:
            events += self.end_flow()
            self._flowing = self.begin(kind)
            if not text:
                events += self.name(self._flowing)
        return events + self.write(self._flowing, text)

    def sign(self, opaque: Opaque) -> None:
        """Attach `opaque` to the block text is flowing into."""
        if self._flowing is not None:
            self._opaque[self._flowing] = opaque

    def end_flow(self) -> list[ReplyEvent]:
        block, self._flowing = self._flowing, None
        return [] if block is None else self.end(block)

    def begin(self, kind: Kind) -> int:
        block, self._next = self._next, self._next + 1
        self._open[block] = kind
        return block

    def begin_call(self, call_id: str, name: str) -> tuple[int, list[ReplyEvent]]:
        """Begin a call; the flowing block, if any, ends before it."""
        events = self.end_flow()
        block = self.begin(Kind.CALL)
        return block, [*events, ToolCallStarted(block, call_id, name)]

    def write(self, block: int, text: str) -> list[ReplyEvent]:
        """Append to an open block; text for a block that has ended is dropped."""
        kind = self._open.get(block)
        if kind is None:
            return []
        text = self._whole(block, text)
        return [_delta(kind, block, text)] if text else []

    def name(self, block: int) -> list[ReplyEvent]:
        """Return the empty delta that says what kind of block `block` is, where it may stay without text."""
        return [_delta(self._open[block], block, "")]

    def end(self, block: int, opaque: Opaque | None = None) -> list[ReplyEvent]:
        """End a block once; ending it again does nothing."""
        kind = self._open.pop(block, None)
        if kind is None:
            return []
        if block == self._flowing:
            self._flowing = None
        events: list[ReplyEvent] = []
        if self._held.pop(block, ""):
            events.append(_delta(kind, block, "\N{REPLACEMENT CHARACTER}"))
        events.append(BlockEnded(block, opaque or self._opaque.pop(block, None)))
        return events

    def end_all(self) -> list[ReplyEvent]:
        self._flowing = None
        return [event for block in sorted(self._open) for event in self.end(block)]

    def _whole(self, block: int, text: str) -> str:
        if text.isascii() and not self._held:
            return text
        text = self._held.pop(block, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[block] = text[-1]
            text = text[:-1]
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text


class PrefilledSpace:
    """White space that was taken off the end of a prefill because the host refuses it there.

    Where the reply begins with it, it is dropped: the text so far ends with it already.
    """

    def __init__(self, space: str) -> None:
        self._space = space

    def cut(self, text: str) -> str:
        """Return the next piece of the reply's text without what of the white space it repeats."""
        while self._space and text:
            if text[0] != self._space[0]:
                self._space = ""
            else:
                self._space, text = self._space[1:], text[1:]
        return text


def _delta(kind: Kind, block: int, text: str) -> ReplyEvent:
    match kind:
        case Kind.TEXT:
            return TextDelta(block, text)
        case Kind.REASONING:
            return ReasoningDelta(block, text)
        case Kind.CALL:
            return ToolArgsDelta(block, text)


def normalise_stop(table: Mapping[str, StopReason], raw: str, *, has_calls: bool) -> StopReason:
    """Look `raw` up as it is, then in lower case.

    A reply that ended its turn with calls in it wants them run: Gemini says so for every reply with calls, and
    several compatible servers do.
    """
    stop = table.get(raw) or table.get(raw.lower(), StopReason.UNKNOWN)
    return StopReason.TOOL_USE if has_calls and stop is StopReason.END_TURN else stop


class Ending:
    """How far the stream of one reply has come, for decoders whose protocol has a stop reason and an end mark."""

    def __init__(self) -> None:
        self._raw_stop: str | None = None
        self._is_ended = False

    @property
    def is_complete(self) -> bool:
        """Whether a stop reason was seen, or the end mark of a server that gives none."""
        return self._raw_stop is not None or self._is_ended

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def end(self) -> None:
        """Take note of the end mark."""
        self._is_ended = True


WEB_SEARCH = ToolSpec(
    name="web_search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    is_read_only=True,
    is_hosted=True,
    safety=Fetches(),
)
MOST_SEARCHES = 8
"""Searches in one reply, where a host takes such a limit."""

_PIECE = "hosted"


class Searches:
    """The searches of one reply."""

    def __init__(self) -> None:
        self._queries: dict[str, None] = {}
        self._sources: dict[str, str] = {}

    def searched(self, query: str) -> str:
        """Note a query; return the line about it for a person."""
        query = " ".join(query.split())
        if not query:
            return "Searched the web.\n"
        self._queries[query] = None
        return f"Searched the web for \u201c{query}\u201d.\n"

    def cites(self, url: str, title: str) -> None:
        if url.startswith(("https://", "http://")):
            self._sources[url] = self._sources.get(url) or " ".join(title.split())

    def events(self) -> list[WebSearched]:
        """Return what is to be told at the end of the reply; nothing where nothing was searched."""
        if not self._queries and not self._sources:
            return []
        sources = tuple(Source(url, title) for url, title in self._sources.items())
        return [WebSearched(tuple(self._queries), sources)]


def search_mark(source: str, piece: JsonObject) -> Opaque:
    """Return the mark that keeps a piece of a search for the protocol `source`."""
    return Opaque(source, json.dumps({_PIECE: piece}, ensure_ascii=False))


def piece_in(marks: JsonObject) -> JsonObject:
    """Return the piece that marks of the own protocol hold, empty where they hold another thing."""
    return object_in(marks.get(_PIECE))


def own_tools(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that qcode runs."""
    return tuple(tool for tool in request.tools if not tool.is_hosted)


def wants_search(request: ModelRequest) -> bool:
    return any(tool.is_hosted for tool in request.tools)
