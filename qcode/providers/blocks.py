"""Code that all decoders use: block numbers, stop reasons, hosted searches, marks of calls written as text. No I/O.

`BlockWriter` numbers the blocks of one reply, and joins surrogate pairs that a server split into two deltas.
`normalize_stop` maps the stop reason of a host to a `StopReason`, with the table of the codec. A search that the host
runs becomes reasoning blocks. Their text is for the user; their opaque data is the unchanged data of the host, and is
sent back only to that host. `MarkSearch` finds the position at which a call written as text may begin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

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
from qcode.protocol.tools import NetworkAccess, ToolSpec
from qcode.text.json import JsonObject, object_in
from qcode.text.pattern import lazy_pattern


class BlockKind(Enum):
    """The kind of a block of a reply."""

    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"


class StartedCall(NamedTuple):
    """A call that `BlockWriter` has started."""

    block: int
    """The number of its block."""
    events: list[ReplyEvent]
    """The end of the block before it, and its start."""


class BlockWriter:
    """A writer of the blocks of one reply, numbered from 0. Its methods return the events to emit.

    `append` writes text and reasoning to the current block. Decoders of protocols that number their blocks use `begin`,
    `write` and `end`, which take the number of a block.
    """

    def __init__(self) -> None:
        self._next_block = 0
        # The keys of these mappings are the numbers of blocks.
        self._open: dict[int, BlockKind] = {}
        self._held_surrogates: dict[int, str] = {}
        self._opaque: dict[int, Opaque] = {}
        self._current_block: int | None = None
        """The block that `append` writes to."""

    @property
    def count(self) -> int:
        """The number of blocks started."""
        return self._next_block

    def append(self, kind: BlockKind, text: str, *, is_signed: bool = False) -> list[ReplyEvent]:
        """Append to the current block if it has this `kind`, otherwise end it and start a block.

        Empty text starts no block, unless it has a signature (`is_signed`).
        """
        if not text and not is_signed:
            return []
        events: list[ReplyEvent] = []
        if self._current_block is None or self._open[self._current_block] is not kind:
            events += self.end_current()
            self._current_block = self.begin(kind)
            if not text:
                events += self.announce(self._current_block)
        return events + self.write(self._current_block, text)

    def attach_opaque(self, opaque: Opaque) -> None:
        """Attach `opaque` to the block that `append` writes to."""
        if self._current_block is not None:
            self._opaque[self._current_block] = opaque

    def end_current(self) -> list[ReplyEvent]:
        """End the block that `append` writes to, if there is one."""
        block, self._current_block = self._current_block, None
        return [] if block is None else self.end(block)

    def begin(self, kind: BlockKind) -> int:
        """Start a block and return its number. There is no event before its first delta."""
        block, self._next_block = self._next_block, self._next_block + 1
        self._open[block] = kind
        return block

    def begin_call(self, call_id: str, name: str) -> StartedCall:
        """Start a call; the open text or reasoning block ends first."""
        events = self.end_current()
        block = self.begin(BlockKind.CALL)
        return StartedCall(block, [*events, ToolCallStarted(block, call_id, name)])

    def write(self, block: int, text: str) -> list[ReplyEvent]:
        """Append to an open block; text for an ended block is dropped."""
        kind = self._open.get(block)
        if kind is None:
            return []
        text = self._join_surrogates(block, text)
        return [_delta(kind, block, text)] if text else []

    def announce(self, block: int) -> list[ReplyEvent]:
        """Return an empty delta, from which front ends learn the kind of a block that may have no text."""
        return [_delta(self._open[block], block, "")]

    def end(self, block: int, opaque: Opaque | None = None) -> list[ReplyEvent]:
        """End a block. Idempotent."""
        kind = self._open.pop(block, None)
        if kind is None:
            return []
        if block == self._current_block:
            self._current_block = None
        events: list[ReplyEvent] = []
        if self._held_surrogates.pop(block, ""):
            events.append(_delta(kind, block, "\N{REPLACEMENT CHARACTER}"))
        events.append(BlockEnded(block, opaque or self._opaque.pop(block, None)))
        return events

    def end_all(self) -> list[ReplyEvent]:
        self._current_block = None
        return [event for block in sorted(self._open) for event in self.end(block)]

    def _join_surrogates(self, block: int, text: str) -> str:
        """Return `text` with split surrogate pairs joined. A first half at its end is held until the next text."""
        if text.isascii() and not self._held_surrogates:
            return text
        text = self._held_surrogates.pop(block, "") + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held_surrogates[block] = text[-1]
            text = text[:-1]
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            # Both halves of a pair become one character, a single half becomes the replacement character.
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text


class PrefilledSpace:
    """White space that was stripped from the end of a prefill because the host rejects it there.

    If the reply starts with the same white space, it is dropped: the text before the reply already ends with it.
    """

    def __init__(self, space: str) -> None:
        self._space = space

    def drop_repeated(self, text: str) -> str:
        """Return `text`, the next text of the reply, without the white space that repeats the end of the prefill."""
        while self._space and text:
            if text[0] != self._space[0]:
                self._space = ""
            else:
                self._space, text = self._space[1:], text[1:]
        return text


def _delta(kind: BlockKind, block: int, text: str) -> ReplyEvent:
    match kind:
        case BlockKind.TEXT:
            return TextDelta(block, text)
        case BlockKind.REASONING:
            return ReasoningDelta(block, text)
        case BlockKind.CALL:
            return ToolArgsDelta(block, text)


def normalize_stop(table: Mapping[str, StopReason], raw: str, *, has_calls: bool) -> StopReason:
    """Return the stop reason in `table` for `raw`, or for `raw` in lower case; `UNKNOWN` if it has neither.

    For a reply with calls, `END_TURN` becomes `TOOL_USE`: Gemini and several compatible servers send the same reason
    for both.
    """
    stop = table.get(raw) or table.get(raw.lower(), StopReason.UNKNOWN)
    return StopReason.TOOL_USE if has_calls and stop is StopReason.END_TURN else stop


class EndState:
    """The base class of decoders whose protocol has a stop reason, which they store in `_raw_stop`, and an end mark."""

    def __init__(self) -> None:
        self._raw_stop: str | None = None
        self._is_ended = False

    @property
    def is_complete(self) -> bool:
        """Whether a stop reason was received, or the end mark of a server that sends no reason."""
        return self._raw_stop is not None or self._is_ended

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def end(self) -> None:
        """Record the end mark."""
        self._is_ended = True


WEB_SEARCH = ToolSpec(
    name="web_search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    is_read_only=True,
    is_hosted=True,
    safety=NetworkAccess(),
)
MAX_SEARCHES = 8
"""The maximum number of searches in one reply, for hosts that accept such a limit."""

_SEARCH_KEY = "hosted"


class Searches:
    """The search queries and cited sources of one reply."""

    def __init__(self) -> None:
        self._queries: dict[str, None] = {}
        self._sources: dict[str, str] = {}

    def record_query(self, query: str) -> str:
        """Record a query; return a line about it for the user."""
        query = " ".join(query.split())
        if not query:
            return "Searched the web.\n"
        self._queries[query] = None
        return f"Searched the web for \u201c{query}\u201d.\n"

    def add_source(self, url: str, title: str) -> None:
        if url.startswith(("https://", "http://")):
            self._sources[url] = self._sources.get(url) or " ".join(title.split())

    def events(self) -> list[WebSearched]:
        """Return the event for the end of the reply, none if there was no search."""
        if not self._queries and not self._sources:
            return []
        sources = tuple(Source(url, title) for url, title in self._sources.items())
        return [WebSearched(tuple(self._queries), sources)]


def search_opaque(source: str, search_item: JsonObject) -> Opaque:
    """Return `search_item`, a part of a hosted search, as opaque data of the protocol `source`."""
    return Opaque(source, json.dumps({_SEARCH_KEY: search_item}, ensure_ascii=False))


def search_item_in(opaque_fields: JsonObject) -> JsonObject:
    """Return the part of a hosted search in opaque data of the same protocol, empty if there is none."""
    return object_in(opaque_fields.get(_SEARCH_KEY))


def local_tools(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that qcode runs itself."""
    return tuple(tool for tool in request.tools if not tool.is_hosted)


def wants_search(request: ModelRequest) -> bool:
    """Return whether the request offers the web search that the host runs."""
    return any(tool.is_hosted for tool in request.tools)


class HostCallFacts(Protocol):
    """Facts learned from replies: how a host sends the tool calls of one model, natively or as text.

    `agent.models.limits` implements this class and stores the facts.
    """

    @property
    def form(self) -> str:
        """The syntax of the calls that this host sent as text, such as "json"; empty if it sent none."""
        ...

    @property
    def accepts_bare_json(self) -> bool:
        """Whether JSON without a mark may be a call: the model sent no native call, or sent calls as bare JSON."""
        ...

    def note_native_call(self) -> None:
        """Record a native call. The second native call after a call as text clears `form`."""
        ...

    def note_text_call(self, form: str) -> None:
        """Record the syntax of a call as text."""
        ...


_MARK = lazy_pattern(
    r"<tool_call>|<function=|<\|python_tag\|>|\[TOOL_CALLS\]|TOOL_CALLS(?=[A-Za-z_])|<｜(?:tool▁call|DSML｜)"
    r"|<minimax:tool_call>|<\|tool_call|<\|channel\|>(?:commentary|analysis) to=|<\|start\|>assistant to="
    r"|`{3,16}[ \t]{0,8}(?i:json|tool_calls?)[ \t]{0,8}\r?\n"
)
"""The marks at which a call written as text may begin."""
_MARKS = (
    "<tool_call>", "<function=", "<|python_tag|>", "[TOOL_CALLS]", "TOOL_CALLS", "<｜tool▁call", "<｜DSML｜",
    "<minimax:tool_call>", "<|tool_call", "<|channel|>commentary to=", "<|channel|>analysis to=",
    "<|start|>assistant to=",
)  # fmt: skip
"""The marks of `_MARK` except for fences. The end of a chunk may be the start of a mark."""
_PARTIAL_FENCE = lazy_pattern(
    r"`{1,16}+[ \t]{0,8}(?:j|js|jso|json|t|to|too|tool|tool_\w{0,5})?[ \t]{0,8}\r?\Z", re.IGNORECASE
)
_MARK_START = lazy_pattern(r"[<\[T`]")
"""The characters with which a mark may start."""
_MAX_MARK_CHARS = 48
"""The maximum length of a mark."""


class SearchedText(NamedTuple):
    """The text that `MarkSearch` releases."""

    passed: str
    """Text that is certainly not in a call."""
    from_mark: str
    """The text from a mark on, empty if no mark was found."""


class MarkSearch:
    """A search in the text of a reply, in chunks of any size, for the position at which a call as text may begin.

    The argument `before` is the text of the reply so far. Text that may be the start of a mark is held back. With
    `finds_objects`, a bare JSON object may also be a call: at the start of the reply, or with `finds_lines` at the
    start of any line.
    """

    def __init__(self, before: str, *, finds_objects: bool, finds_lines: bool) -> None:
        self._passed_texts = [before]
        self._held_text = ""
        self._finds_objects = finds_objects
        self._finds_lines = finds_lines
        self._is_line_start = not before.strip() or before.endswith("\n")

    @property
    def before(self) -> str:
        """All text of the reply before the current position."""
        joined = "".join(self._passed_texts)
        self._passed_texts = [joined]
        return joined

    def feed(self, text: str) -> SearchedText:
        """Add text; return it up to the first mark and from there on. The possible start of a mark is held back."""
        window, self._held_text = self._held_text + text, ""
        mark = _MARK.search(window)
        position = len(window) if mark is None else mark.start()
        if self._finds_objects:
            position = self._object_in(window, position)
        if position < len(window):
            self.add_text(window[:position])
            return SearchedText(window[:position], window[position:])
        passed = window[: len(window) - _count_undecided(window)]
        self._held_text = window[len(passed) :]
        self.add_text(passed)
        return SearchedText(passed, from_mark="")

    def flush(self) -> str:
        """Return the text that was held back."""
        held, self._held_text = self._held_text, ""
        self.add_text(held)
        return held

    def add_text(self, text: str) -> None:
        """Add text that does not begin a call."""
        if not text:
            return
        self._passed_texts.append(text)
        if self._finds_objects:
            last_line = text[text.rfind("\n") + 1 :].strip()
            self._is_line_start = not last_line and (self._is_line_start or "\n" in text)
            is_start_of_reply = not text.strip()
            self._finds_objects = self._finds_lines or is_start_of_reply

    def _object_in(self, window: str, end: int) -> int:
        """Return the index of the first line before `end` that starts with a JSON object or list, otherwise `end`."""
        position = 0
        is_line_start = self._is_line_start
        while position < end:
            line_end = window.find("\n", position) + 1 or len(window)
            line = window[position:line_end]
            indentation = len(line) - len(line.lstrip(" \t\r\n"))
            start = position + indentation
            if is_line_start and start < end and window[start : start + 1] in ("{", "["):
                # A `[` may be the start of a split "[TOOL_CALLS]" mark, for which `feed` holds text back.
                is_start_of_mark = "[TOOL_CALLS]".startswith(window[start:])
                return end if is_start_of_mark else start
            if line.strip() and not self._finds_lines:
                return end
            position, is_line_start = line_end, True
        return end


def _count_undecided(text: str) -> int:
    """Return the number of characters at the end of `text` that may be the start of a mark."""
    end = text[-_MAX_MARK_CHARS:]
    if _MARK_START.search(end) is None:
        return 0
    undecided = 0
    for match in _MARK_START.finditer(end):
        rest = end[match.start() :]
        if any(mark.startswith(rest) for mark in _MARKS):
            undecided = len(rest)
            break
    fence = _PARTIAL_FENCE.search(end) if "`" in end else None
    return undecided if fence is None else max(undecided, len(fence.group()))
