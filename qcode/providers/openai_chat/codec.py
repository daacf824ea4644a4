"""Chat Completions as data: a request to a body, chunks to events. Pure; knows no SDK.

The shapes are those of OpenAI's API reference (chat/create and chat/streaming); what other servers do differently
is in `quirks` for requests and tolerated by the decoder for replies.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.json import Json, JsonObject
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, UsageReported
from qcode.protocol.stops import StopReason
from qcode.protocol.usage import Usage
from qcode.providers.blocks import BlockWriter, Kind
from qcode.providers.errors import from_stream, is_error_object
from qcode.providers.openai_chat.calls import CallDeltas
from qcode.providers.openai_chat.encoding import encode
from qcode.providers.openai_chat.quirks import ChatQuirks
from qcode.providers.shapes import count_in, object_in, objects_in, text_in
from qcode.providers.stops import Ending, normalise

__all__ = ["FAILURES", "STOPS", "Decoder", "encode"]

_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "context_length_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "content_filter": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
}
"""`finish_reason` in OpenAI's words and those of compatible servers."""

FAILURES: Mapping[str, ErrorKind] = {
    "error": ErrorKind.SERVER,
    "network_error": ErrorKind.SERVER,
    "insufficient_system_resource": ErrorKind.OVERLOADED,
}
"""Words some servers put in `finish_reason` although the reply failed."""


class Decoder(Ending):
    """Chunks of one reply in, events out. `tag` makes minted call ids unique in a conversation."""

    def __init__(self, quirks: ChatQuirks | None = None, *, tag: str = "0") -> None:
        super().__init__()
        names = ("reasoning_content", "reasoning")
        own = quirks.reasoning_field if quirks else ""
        self._reasoning_fields = (own, *names) if own and own not in names else names
        self._blocks = BlockWriter()
        self._calls = CallDeltas(self._blocks, tag=tag)
        self._response_id = ""
        self._has_started = False
        self._refusal = ""
        self._detail = ""
        self._usage = Usage()

    def feed(self, sent: JsonObject) -> list[ReplyEvent]:
        if is_error_object(sent):
            raise from_stream(sent)
        choices = objects_in(sent.get("choices"))
        usage = _usage_in(sent, choices)
        if not choices and usage is None:
            return []
        events = self._start(sent)
        for choice in choices:
            # Only one reply is asked for; a second choice would be another one.
            if choice.get("index") in (None, 0):
                events += self._choice(choice)
        if usage is not None and usage != self._usage:
            self._usage = usage
            events.append(UsageReported(usage))
        return events

    def finish(self) -> list[ReplyEvent]:
        if not self.is_complete or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply did")
        raw = self._raw_stop or ""
        stop = normalise(STOPS, raw, has_calls=bool(self._calls))
        if self._refusal and stop is StopReason.END_TURN:
            stop = StopReason.REFUSAL
        return [*self._blocks.end_all(), ReplyEnded(stop, raw, self._refusal or self._detail)]

    def _start(self, sent: JsonObject) -> list[ReplyEvent]:
        if self._has_started:
            return []
        self._has_started = True
        self._response_id = text_in(sent.get("id"))
        return [ReplyStarted(text_in(sent.get("model")), self._response_id)]

    def _choice(self, choice: JsonObject) -> list[ReplyEvent]:
        delta = object_in(choice.get("delta"))
        if not delta and not self._blocks.count:
            delta = object_in(choice.get("message"))  # a server that does not stream
        events: list[ReplyEvent] = []
        for name in self._reasoning_fields:
            if reasoning := text_in(delta.get(name)):
                events += self._blocks.flow(Kind.REASONING, reasoning)
                break
        events += self._content(delta.get("content"))
        if refusal := text_in(delta.get("refusal")):
            self._refusal += refusal
            events += self._blocks.flow(Kind.TEXT, refusal)
        for call in [*objects_in(delta.get("tool_calls")), *objects_in(delta.get("function_call"))]:
            events += self._calls.feed(call, self._response_id)
        self._read_stop(choice)
        return events

    def _content(self, content: Json) -> list[ReplyEvent]:
        """Text, or a list of parts as Mistral's reasoning models send it."""
        if isinstance(content, str):
            return self._blocks.flow(Kind.TEXT, content)
        events: list[ReplyEvent] = []
        for part in objects_in(content):
            if part.get("type") == "thinking":
                inner = part.get("thinking")
                text = text_in(inner) or "".join(text_in(piece.get("text")) for piece in objects_in(inner))
                events += self._blocks.flow(Kind.REASONING, text)
            else:
                events += self._blocks.flow(Kind.TEXT, text_in(part.get("text")))
        return events

    def _read_stop(self, choice: JsonObject) -> None:
        raw = text_in(choice.get("finish_reason"))
        if choice.get("error"):
            raise from_stream(choice)
        if not raw or raw == "null":
            return
        if raw in FAILURES:
            raise ProviderError(FAILURES[raw], f"the server gave up on the reply: {raw}", code=raw)
        if raw.lower() not in STOPS:
            _log.info("unknown finish_reason %r", raw)
        self._raw_stop = raw
        self._detail = self._detail or _filters_in(choice)


def _filters_in(choice: JsonObject) -> str:
    """Return which of Azure's content filters struck."""
    results = object_in(choice.get("content_filter_results"))
    return ", ".join(name for name, result in results.items() if object_in(result).get("filtered") is True)


def _usage_in(sent: JsonObject, choices: list[JsonObject]) -> Usage | None:
    """Return the counts of a chunk: OpenAI's place, or Groq's, or Kimi's."""
    usage = object_in(sent.get("usage")) or object_in(object_in(sent.get("x_groq")).get("usage"))
    if not usage and choices:
        usage = object_in(choices[0].get("usage"))
    if not usage:
        return None
    prompt = object_in(usage.get("prompt_tokens_details"))
    completion = object_in(usage.get("completion_tokens_details"))
    cached = (prompt.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    return Usage(
        input=count_in(usage.get("prompt_tokens")),
        output=count_in(usage.get("completion_tokens")),
        cache_read=next((count for count in map(count_in, cached) if count is not None), None),
        cache_write=count_in(prompt.get("cache_write_tokens")),
        reasoning=count_in(completion.get("reasoning_tokens")),
    )
