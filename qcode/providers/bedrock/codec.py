"""Bedrock's ConverseStream as data: a request to a body (`encoding`), stream events to reply events. Pure; no SDK.

Source of the shapes: the Bedrock API reference, "ConverseStreamOutput". An event is one object with one name; text
and reasoning blocks are not announced, calls are; usage comes last, after the stop reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Opaque
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, UsageReported
from qcode.protocol.stops import StopReason
from qcode.protocol.usage import Usage
from qcode.providers.bedrock.encoding import PROTOCOL, encode
from qcode.providers.blocks import BlockWriter, Kind, PrefilledSpace
from qcode.providers.errors import from_stream
from qcode.providers.history import mint_call_id
from qcode.providers.shapes import count_in, object_in, text_in
from qcode.providers.stops import Ending, normalise

__all__ = ["STOPS", "Decoder", "encode"]

_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "guardrail_intervened": StopReason.REFUSAL,
    "content_filtered": StopReason.REFUSAL,
    "malformed_model_output": StopReason.MALFORMED_CALL,
    "malformed_tool_use": StopReason.MALFORMED_CALL,
}
"""`stopReason` of Converse."""


class Decoder(Ending):
    """Events of one reply in, events out.

    The stream names no model: `model` is the one that was asked. `tag` makes minted call ids unique in a
    conversation; `prefilled_space` see `PrefilledSpace`.
    """

    def __init__(self, model: str = "", *, tag: str = "0", prefilled_space: str = "") -> None:
        super().__init__()
        self._model = model
        self._tag = tag
        self._prefilled = PrefilledSpace(prefilled_space)
        self._blocks = BlockWriter()
        self._numbers: dict[int, int] = {}
        self._kinds: dict[int, Kind] = {}
        self._marks: dict[int, dict[str, str]] = {}
        self._calls = 0
        self._has_started = False
        self._detail = ""

    @property
    def is_complete(self) -> bool:
        return self._raw_stop is not None

    def feed(self, sent: JsonObject) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for kind, value in sent.items():
            body = object_in(value)
            if kind == "error":
                raise from_stream(sent)
            if kind.endswith("Exception"):
                raise from_stream({"error": {**body, "type": kind}})
            events += self._event(kind, body)
        return events

    def finish(self) -> list[ReplyEvent]:
        if self._raw_stop is None or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply did")
        stop = normalise(STOPS, self._raw_stop, has_calls=self._calls > 0)
        unstopped = [event for index in list(self._numbers) for event in self._block_stop(index)]
        return [*unstopped, ReplyEnded(stop, self._raw_stop, self._detail)]

    def _event(self, kind: str, body: JsonObject) -> list[ReplyEvent]:
        match kind:
            case "messageStart":
                return self._start()
            case "contentBlockStart":
                return [*self._start(), *self._block_start(_index(body), object_in(body.get("start")))]
            case "contentBlockDelta":
                return [*self._start(), *self._delta(_index(body), object_in(body.get("delta")))]
            case "contentBlockStop":
                return self._block_stop(_index(body))
            case "messageStop":
                self._raw_stop = text_in(body.get("stopReason"))
                if self._raw_stop not in STOPS:
                    _log.info("unknown stopReason %r", self._raw_stop)
                return self._start()
            case "metadata":
                guardrail = object_in(object_in(body.get("trace")).get("guardrail"))
                self._detail = text_in(guardrail.get("actionReason"))
                # Nothing follows it once the reason is known.
                self._is_ended = self._raw_stop is not None
                return _usage_in(object_in(body.get("usage")))
        _log.info("skipped an event of type %r", kind)
        return []

    def _start(self) -> list[ReplyEvent]:
        if self._has_started:
            return []
        self._has_started = True
        return [ReplyStarted(self._model, "")]

    def _block_start(self, index: int, start: JsonObject) -> list[ReplyEvent]:
        call = object_in(start.get("toolUse"))
        name = text_in(call.get("name"))
        if not name or text_in(call.get("type")) or index in self._numbers:
            # A call the host runs itself has a type of its own.
            _log.info("skipped the start of a block: %s", ", ".join(start))
            return []
        self._calls += 1
        call_id = text_in(call.get("toolUseId")) or mint_call_id(self._tag, "", self._calls)
        self._numbers[index], events = self._blocks.begin_call(call_id, name)
        self._kinds[index] = Kind.CALL
        return events

    def _delta(self, index: int, delta: JsonObject) -> list[ReplyEvent]:
        if isinstance(delta.get("text"), str):
            return self._write(index, Kind.TEXT, self._prefilled.cut(text_in(delta.get("text"))))
        if call := object_in(delta.get("toolUse")):
            return self._write(index, Kind.CALL, text_in(call.get("input")))
        if reasoning := object_in(delta.get("reasoningContent")):
            events = self._write(index, Kind.REASONING, text_in(reasoning.get("text")), is_marked=True)
            marks = self._marks.setdefault(index, {})
            for name in ("signature", "redactedContent"):
                if piece := text_in(reasoning.get(name)):
                    marks[name] = marks.get(name, "") + piece
            return events
        return []

    def _write(self, index: int, kind: Kind, text: str, *, is_marked: bool = False) -> list[ReplyEvent]:
        """Append to a block; text and reasoning begin with their first piece, `is_marked` even with an empty one."""
        events: list[ReplyEvent] = []
        if index not in self._numbers:
            if kind is Kind.CALL or not (text or is_marked):
                return []
            self._numbers[index] = self._blocks.begin(kind)
            self._kinds[index] = kind
            if not text:
                events += self._blocks.name(self._numbers[index])
        if self._kinds[index] is not kind:
            return []
        return events + self._blocks.write(self._numbers[index], text)

    def _block_stop(self, index: int) -> list[ReplyEvent]:
        number = self._numbers.get(index)
        if number is None:
            return []
        marks = self._marks.pop(index, {})
        return self._blocks.end(number, Opaque(PROTOCOL, json.dumps(marks)) if marks else None)


def _usage_in(usage: JsonObject) -> list[ReplyEvent]:
    """Count what the cache read and wrote as input: Claude reports them beside `inputTokens`, others inside it.

    The total tells which: it covers everything.
    """
    if not usage:
        return []
    sent, made = count_in(usage.get("inputTokens")), count_in(usage.get("outputTokens"))
    read, written = count_in(usage.get("cacheReadInputTokens")), count_in(usage.get("cacheWriteInputTokens"))
    total = count_in(usage.get("totalTokens"))
    if sent is not None:
        cached = (read or 0) + (written or 0)
        is_beside = cached > sent or (total is not None and made is not None and total >= sent + cached + made)
        sent = sent + cached if is_beside else sent
    return [UsageReported(Usage(sent, made, read, written))]


def _index(body: JsonObject) -> int:
    index = body.get("contentBlockIndex")
    return index if isinstance(index, int) else 0
