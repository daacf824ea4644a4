"""`generateContent` as data: a request to a body (`encoding`), response chunks to reply events. Pure; no SDK.

Source of the shapes: Google's API reference, "GenerateContentResponse". A call arrives whole, never in pieces;
`STOP` is the reason with calls present as well; thoughts are counted beside the candidates, not among them.
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
from qcode.providers.blocks import BlockWriter, Kind
from qcode.providers.errors import from_stream
from qcode.providers.gemini.encoding import PROTOCOL, encode
from qcode.providers.history import mint_call_id
from qcode.providers.searches import Searches, mark
from qcode.providers.shapes import count_in, object_in, objects_in, sum_of, text_in
from qcode.providers.stops import Ending, normalise

__all__ = ["STOPS", "UNKNOWN_STOPS", "Decoder", "encode"]

_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.MAX_TOKENS,
    "SAFETY": StopReason.REFUSAL,
    "RECITATION": StopReason.REFUSAL,
    "LANGUAGE": StopReason.REFUSAL,
    "BLOCKLIST": StopReason.REFUSAL,
    "PROHIBITED_CONTENT": StopReason.REFUSAL,
    "SPII": StopReason.REFUSAL,
    "IMAGE_SAFETY": StopReason.REFUSAL,
    "IMAGE_PROHIBITED_CONTENT": StopReason.REFUSAL,
    "IMAGE_RECITATION": StopReason.REFUSAL,
    "IMAGE_OTHER": StopReason.REFUSAL,
    "MODEL_ARMOR": StopReason.REFUSAL,
    "MALFORMED_FUNCTION_CALL": StopReason.MALFORMED_CALL,
    "UNEXPECTED_TOOL_CALL": StopReason.MALFORMED_CALL,
    "TOO_MANY_TOOL_CALLS": StopReason.MALFORMED_CALL,
    "MISSING_THOUGHT_SIGNATURE": StopReason.MALFORMED_CALL,
    "MALFORMED_RESPONSE": StopReason.MALFORMED_CALL,
}
"""`finishReason` of a candidate."""

UNKNOWN_STOPS = frozenset({"FINISH_REASON_UNSPECIFIED", "OTHER", "NO_IMAGE", "ESCALATION", "PUP_LIMITED_DISABLED"})
"""Reasons Google lists that say nothing one could act on."""


class Decoder(Ending):
    """Chunks of one reply in, events out. `tag` makes minted call ids unique in a conversation."""

    def __init__(self, *, tag: str = "0") -> None:
        super().__init__()
        self._tag = tag
        self._blocks = BlockWriter()
        self._call_ids: set[str] = set()
        self._calls = 0
        self._response_id = ""
        self._has_started = False
        self._is_blocked = False
        self._detail = ""
        self._usage = Usage()
        self._searches = Searches()

    def feed(self, sent: JsonObject) -> list[ReplyEvent]:
        if sent.get("error"):
            raise from_stream(sent)
        candidates = objects_in(sent.get("candidates"))
        feedback = object_in(sent.get("promptFeedback"))
        counts = object_in(sent.get("usageMetadata"))
        if not (candidates or feedback or counts):
            return []
        events: list[ReplyEvent] = []
        if not self._has_started:
            self._has_started = True
            self._response_id = text_in(sent.get("responseId"))
            events.append(ReplyStarted(text_in(sent.get("modelVersion")), self._response_id))
        if reason := text_in(feedback.get("blockReason")):
            # A blocked prompt has no candidate at all.
            self._is_blocked = True
            self._raw_stop = reason
            self._detail = text_in(feedback.get("blockReasonMessage")) or "the prompt was blocked"
        for candidate in candidates:
            if candidate.get("index") in (None, 0):
                events += self._candidate(candidate)
        return events + self._count(counts)

    def finish(self) -> list[ReplyEvent]:
        if not self.is_complete or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply did")
        raw = self._raw_stop or ""
        stop = StopReason.REFUSAL if self._is_blocked else normalise(STOPS, raw, has_calls=self._calls > 0)
        return [*self._blocks.end_all(), *self._searches.events(), ReplyEnded(stop, raw, self._detail)]

    def _candidate(self, candidate: JsonObject) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for part in objects_in(object_in(candidate.get("content")).get("parts")):
            events += self._part(part)
        self._ground(object_in(candidate.get("groundingMetadata")))
        if raw := text_in(candidate.get("finishReason")):
            self._raw_stop = raw
            self._detail = text_in(candidate.get("finishMessage")) or self._detail
            if raw not in STOPS and raw not in UNKNOWN_STOPS:
                _log.info("unknown finishReason %r", raw)
        return events

    def _ground(self, grounding: JsonObject) -> None:
        """Note what was searched for, and the pages the reply rests on."""
        queries = grounding.get("webSearchQueries")
        for query in queries if isinstance(queries, list) else ():
            self._searches.searched(text_in(query))
        for chunk in objects_in(grounding.get("groundingChunks")):
            page = object_in(chunk.get("web"))
            self._searches.cites(text_in(page.get("uri")), text_in(page.get("title")))

    def _hosted(self, part: JsonObject) -> list[ReplyEvent]:
        """Keep a piece of a search that the host ran itself as it is."""
        events = self._blocks.end_flow()
        block = self._blocks.begin(Kind.REASONING)
        args = object_in(object_in(part.get("toolCall")).get("args"))
        queries = args.get("queries")
        asked = [text_in(query) for query in queries] if isinstance(queries, list) else [text_in(args.get("query"))]
        lines = "".join(self._searches.searched(query) for query in asked if query)
        events += self._blocks.write(block, lines) or self._blocks.name(block)
        return [*events, *self._blocks.end(block, mark(PROTOCOL, part))]

    def _part(self, part: JsonObject) -> list[ReplyEvent]:
        if object_in(part.get("toolCall")) or object_in(part.get("toolResponse")):
            return self._hosted(part)
        signature = text_in(part.get("thoughtSignature"))
        opaque = Opaque(PROTOCOL, json.dumps({"thoughtSignature": signature})) if signature else None
        call = object_in(part.get("functionCall"))
        if call:
            return self._call(call, opaque)
        if not isinstance(part.get("text"), str) and opaque is None:
            return []
        kind = Kind.REASONING if part.get("thought") is True else Kind.TEXT
        events = self._blocks.flow(kind, text_in(part.get("text")), is_signed=opaque is not None)
        if opaque is not None:
            self._blocks.sign(opaque)
            # What follows is another part, and the signature belongs to this one.
            events += self._blocks.end_flow()
        return events

    def _call(self, call: JsonObject, opaque: Opaque | None) -> list[ReplyEvent]:
        name = text_in(call.get("name"))
        if not name:
            return []
        self._calls += 1
        call_id = text_in(call.get("id"))
        if not call_id or call_id in self._call_ids:
            call_id = mint_call_id(self._tag, self._response_id, self._calls)
        self._call_ids.add(call_id)
        block, events = self._blocks.begin_call(call_id, name)
        arguments = json.dumps(object_in(call.get("args")), ensure_ascii=False)
        return [*events, *self._blocks.write(block, arguments), *self._blocks.end(block, opaque)]

    def _count(self, counts: JsonObject) -> list[ReplyEvent]:
        if not counts:
            return []
        thoughts = count_in(counts.get("thoughtsTokenCount"))
        usage = Usage(
            input=sum_of(count_in(counts.get("promptTokenCount")), count_in(counts.get("toolUsePromptTokenCount"))),
            output=sum_of(count_in(counts.get("candidatesTokenCount")), thoughts),
            cache_read=count_in(counts.get("cachedContentTokenCount")),
            reasoning=thoughts,
        )
        if usage == self._usage:
            return []
        self._usage = usage
        return [UsageReported(usage)]
