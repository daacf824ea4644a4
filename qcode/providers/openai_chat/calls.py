"""Which call a delta of tool calls belongs to. Pure.

OpenAI gives every call an index and, once, an id. Servers that imitate it leave either out, send index 0 for every
call, repeat an id for two calls, make a new id for every delta, or send arguments as an object. The key is the id,
then the index, then the call in progress; a name is what tells a new call from more of an old one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.reply import ReplyEvent
from qcode.providers.blocks import BlockWriter
from qcode.providers.history import mint_call_id
from qcode.providers.shapes import object_in, text_in


@dataclass(slots=True)
class _Call:
    block: int
    index: int | None
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def is_closed(self) -> bool:
        return parse_object("".join(self.pieces)) is not None


class CallDeltas:
    """The calls of one reply, written to `blocks` as their deltas come."""

    def __init__(self, blocks: BlockWriter, *, tag: str) -> None:
        self._blocks = blocks
        self._tag = tag
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}
        self._last: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, delta: JsonObject, response_id: str) -> list[ReplyEvent]:
        """Return the events of one delta; one that names no call and continues none is nothing."""
        function = object_in(delta.get("function")) or delta
        name = text_in(function.get("name"))
        call_id = text_in(delta.get("id"))
        raw_index = delta.get("index")
        index = raw_index if isinstance(raw_index, int) and not isinstance(raw_index, bool) else None
        events: list[ReplyEvent] = []
        call = self._find(call_id, index, name)
        if call is None:
            if not name:
                return []
            call, events = self._begin(call_id, index, name, response_id)
        self._last = call
        text = _arguments(function.get("arguments"))
        if text:
            call.pieces.append(text)
            events += self._blocks.write(call.block, text)
        return events

    def _find(self, call_id: str, index: int | None, name: str) -> _Call | None:
        known = self._by_id.get(call_id) if call_id else None
        if known is not None:
            is_other = name and index is not None and known.index is not None and index != known.index
            return None if is_other else known
        if call_id and name:
            return None
        call = self._last if index is None else self._by_index.get(index, self._last if not name else None)
        if call is not None and name and (name != call.name or call.is_closed):
            return None
        return call

    def _begin(self, call_id: str, index: int | None, name: str, response_id: str) -> tuple[_Call, list[ReplyEvent]]:
        if not call_id or call_id in self._by_id:
            call_id = mint_call_id(self._tag, response_id, len(self._calls) + 1)
        block, events = self._blocks.begin_call(call_id, name)
        call = _Call(block, index, name)
        self._calls.append(call)
        self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call, events


def _arguments(value: Json) -> str:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return text_in(value)
