"""`generateContent` as data: a `ModelRequest` to a body, response chunks to reply events. Pure; no SDK.

Source of the shapes: Google's API reference, "GenerateContentResponse". A thought signature is sent back unchanged in
the same part; tool parameters are sent as JSON Schema (`parametersJsonSchema`). A call arrives whole. The stop
reason is `STOP` even for a reply with calls. Thought tokens are not included in the count of candidate tokens.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort, ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, StopReason, UsageReported
from qcode.protocol.usage import Usage
from qcode.providers.blocks import (
    BlockKind,
    BlockWriter,
    EndState,
    Searches,
    local_tools,
    normalize_stop,
    search_item_in,
    search_opaque,
    wants_search,
)
from qcode.providers.errors import error_of_stream
from qcode.providers.history import (
    EncodedMessages,
    assistant_blocks,
    generate_call_id,
    has_calls,
    normalize_messages,
    results_first,
    with_request_note,
)
from qcode.text.json import (
    Json,
    JsonObject,
    count_in,
    object_in,
    objects_in,
    parse_object,
    sendable,
    sendable_object,
    sum_of,
    text_in,
)
from qcode.text.pattern import lazy_pattern

PROTOCOL = "gemini"

UNSIGNED_CALL = "skip_thought_signature_validator"
"""The signature to send with a call that another model made, according to Google's page on thought signatures."""

_BUDGETS: dict[Effort, int] = {"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24_576, "max": 24_576}
_MIN_BUDGET = 512
_LEVELS: dict[Effort, str] = {
    "none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "max": "HIGH"
}  # fmt: skip
_EMPTY = "(empty message)"
_GENERATION = lazy_pattern(r"gemini-(\d+)(?:\.(\d+))?")
_NOT_THINKING = lazy_pattern(r"image|tts|audio|live|embedding|robotics")


def encode(request: ModelRequest, encoded: EncodedMessages | None = None) -> JsonObject:
    """Return the request body; the model is part of the address.

    With `encoded`, the body lacks the messages whose encoding is final; `encoded.body` adds them.
    """
    is_generation_3_or_later = _generation(request.model) >= (3, 0)
    unsettled: Sequence[Message] = with_request_note(request)
    used_ids: set[str] = set()
    if encoded is not None:
        encoded.begin()
        unsettled, used_ids = encoded.encode_settled(
            unsettled,
            variant=f"{is_generation_3_or_later}",
            encode=partial(_contents, is_generation_3_or_later=is_generation_3_or_later),
        )
    config: JsonObject = {"maxOutputTokens": request.max_tokens}
    if (thinking := _thinking(request)) is not None:
        config["thinkingConfig"] = thinking
    contents = _contents(unsettled, used_ids, is_generation_3_or_later=is_generation_3_or_later)
    body: JsonObject = {"contents": contents, "generationConfig": config}
    if request.system.strip():
        body["systemInstruction"] = {"parts": [{"text": sendable(request.system)}]}
    if request.tools and (request.allows_calls or has_calls(request)):
        declared: list[Json] = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": dict(tool.parameters)}
            for tool in local_tools(request)
        ]
        tools: list[Json] = [{"functionDeclarations": declared}]
        tool_config: JsonObject = {}
        if wants_search(request):
            tools.append({"googleSearch": {}})
            # Without this setting, the API accepts either searches or functions, not both.
            tool_config["includeServerSideToolInvocations"] = True
        if not request.allows_calls:
            tool_config["functionCallingConfig"] = {"mode": "NONE"}
        body["tools"] = tools
        if tool_config:
            body["toolConfig"] = tool_config
    return body


def _contents(messages: Sequence[Message], used_ids: set[str], *, is_generation_3_or_later: bool) -> list[Json]:
    """Return messages in the form of the API. Generation 3 requires signatures of calls, and images inside results."""
    contents: list[JsonObject] = []
    names: dict[str, str] = {}
    for message in normalize_messages(messages, used_ids=used_ids):
        if message.role == "user":
            role = "user"
            parts = _user(message, names, images_in_results=is_generation_3_or_later) or [{"text": _EMPTY}]
        else:
            names = {call.call_id: call.name for call in message.calls}
            role = "model"
            parts = _assistant(message, needs_signatures=is_generation_3_or_later)
        if not parts:
            continue
        previous = contents[-1]["parts"] if contents and contents[-1]["role"] == role else None
        if isinstance(previous, list):
            previous += parts
        else:
            contents.append({"role": role, "parts": parts})
    return list(contents)


def _user(message: Message, names: Mapping[str, str], *, images_in_results: bool) -> list[Json]:
    """Return the parts of a user message. `names` are the names of the pending calls by id; results must repeat them.

    With `images_in_results`, images are sent inside the results (from generation 3 on, according to Google's page on
    function calling), otherwise after them.
    """
    results, others = results_first(message.blocks)
    parts: list[Json] = []
    for result in results:
        response = _result(result, names.get(result.call_id, result.name))
        if result.images and images_in_results:
            response["parts"] = [_image(image) for image in result.images]
        parts.append({"functionResponse": response})
    for result in results:
        if result.images and not images_in_results:
            parts += [{"text": f"Images returned by {result.name}:"}, *(_image(image) for image in result.images)]
    for block in others:
        if isinstance(block, Image):
            parts.append(_image(block))
        elif block.text:
            parts.append({"text": sendable(block.text)})
    return parts


def _assistant(message: Message, *, needs_signatures: bool) -> list[Json]:
    parts: list[JsonObject] = []
    calls: list[JsonObject] = []
    for block in assistant_blocks(message.blocks):
        if search_item := _search_part(block.opaque):
            parts.append(search_item)
            continue
        signature = _signature(block.opaque)
        match block:
            case Text(text=text):
                part: JsonObject = {"text": sendable(text)}
                if not text and not signature:
                    continue
            case Reasoning(text=text):
                # Only signed thoughts are sent back.
                if not signature:
                    continue
                part = {"text": sendable(text), "thought": True}
            case ToolCall():
                part = {
                    "functionCall": {
                        "id": block.call_id,
                        "name": block.name,
                        "args": sendable_object(block.arguments),
                    }
                }
                calls.append(part)
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    # The first of several parallel calls carries the signature of all of them.
    if needs_signatures and calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = UNSIGNED_CALL
    return list(parts)


def _search_part(opaque: Opaque | None) -> JsonObject:
    """Return a part of a web search in its original form, empty for any other opaque data."""
    return search_item_in(_opaque_fields(opaque))


def _signature(opaque: Opaque | None) -> str:
    return text_in(_opaque_fields(opaque).get("thoughtSignature"))


def _opaque_fields(opaque: Opaque | None) -> JsonObject:
    if opaque is None or opaque.source != PROTOCOL:
        return {}
    return parse_object(opaque.data) or {}


def _result(result: ToolResult, name: str) -> JsonObject:
    key = "error" if result.is_error else "output"
    return {"id": result.call_id, "name": name, "response": {key: sendable(result.content)}}


def _image(image: Image) -> JsonObject:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def _thinking(request: ModelRequest) -> JsonObject | None:
    """Return the thinking parameters, None for a model that does not think.

    Generation 2.5 takes a budget, later generations take a level.
    """
    model = request.model.lower()
    generation = _generation(model)
    if generation < (2, 5) or _NOT_THINKING.search(model):
        return None
    config: JsonObject = {"includeThoughts": request.effort != "none"}
    if request.effort is None:
        return config
    if generation >= (3, 0):
        level = _LEVELS[request.effort]
        if level == "MINIMAL" and "flash" not in model:
            level = "LOW"  # only flash models have the level MINIMAL
        config["thinkingLevel"] = level
        return config
    budget = min(_BUDGETS[request.effort], max(_MIN_BUDGET, request.max_tokens // 2))
    # Thinking cannot be turned off for the pro model.
    config["thinkingBudget"] = max(budget, _MIN_BUDGET) if "pro" in model else budget
    return config


def _generation(model: str) -> tuple[int, int]:
    """Return the version in a model's name; an alias without a version (`gemini-flash-latest`) counts as 2.5."""
    match = _GENERATION.search(model.lower())
    if match:
        return int(match.group(1)), int(match.group(2) or 0)
    return (2, 5) if re.search(r"gemini-[a-z-]{1,40}-latest", model.lower()) else (0, 0)


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
"""Documented reasons that do not explain why the reply ended."""


class GeminiDecoder(EndState):
    """A decoder of the chunks of one reply. `tag` makes generated call ids unique in a conversation."""

    def __init__(self, *, tag: str = "0") -> None:
        super().__init__()
        self._tag = tag
        self._blocks = BlockWriter()
        self._call_ids: set[str] = set()
        self._call_count = 0
        self._response_id = ""
        self._has_started = False
        self._is_blocked = False
        self._detail = ""
        self._usage = Usage()
        self._searches = Searches()

    def feed(self, chunk: JsonObject) -> list[ReplyEvent]:
        if chunk.get("error"):
            raise error_of_stream(chunk)
        candidates = objects_in(chunk.get("candidates"))
        feedback = object_in(chunk.get("promptFeedback"))
        counts = object_in(chunk.get("usageMetadata"))
        if not (candidates or feedback or counts):
            return []
        events: list[ReplyEvent] = []
        if not self._has_started:
            self._has_started = True
            self._response_id = text_in(chunk.get("responseId"))
            events.append(ReplyStarted(text_in(chunk.get("modelVersion")), self._response_id))
        if reason := text_in(feedback.get("blockReason")):
            # A reply to a blocked prompt has no candidate.
            self._is_blocked = True
            self._raw_stop = reason
            self._detail = text_in(feedback.get("blockReasonMessage")) or "the prompt was blocked"
        for candidate in candidates:
            if candidate.get("index") in (None, 0):
                events += self._candidate(candidate)
        return events + self._report_usage(counts)

    def finish(self) -> list[ReplyEvent]:
        if not self.is_complete or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply was complete")
        raw = self._raw_stop or ""
        stop = StopReason.REFUSAL if self._is_blocked else normalize_stop(STOPS, raw, has_calls=self._call_count > 0)
        return [*self._blocks.end_all(), *self._searches.events(), ReplyEnded(stop, raw, self._detail)]

    def _candidate(self, candidate: JsonObject) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for part in objects_in(object_in(candidate.get("content")).get("parts")):
            events += self._part(part)
        self._collect_sources(object_in(candidate.get("groundingMetadata")))
        if raw := text_in(candidate.get("finishReason")):
            self._raw_stop = raw
            self._detail = text_in(candidate.get("finishMessage")) or self._detail
            if raw not in STOPS and raw not in UNKNOWN_STOPS:
                _log.info("unknown finishReason %r", raw)
        return events

    def _collect_sources(self, grounding: JsonObject) -> None:
        """Collect the search queries and the cited pages."""
        queries = grounding.get("webSearchQueries")
        for query in queries if isinstance(queries, list) else ():
            self._searches.record_query(text_in(query))
        for chunk in objects_in(grounding.get("groundingChunks")):
            page = object_in(chunk.get("web"))
            self._searches.add_source(text_in(page.get("uri")), text_in(page.get("title")))

    def _hosted_search(self, part: JsonObject) -> list[ReplyEvent]:
        """Return the events of a search of the host: a reasoning block, whose opaque data is the unchanged part."""
        events = self._blocks.end_current()
        block = self._blocks.begin(BlockKind.REASONING)
        args = object_in(object_in(part.get("toolCall")).get("args"))
        queries = args.get("queries")
        texts = [text_in(query) for query in queries] if isinstance(queries, list) else [text_in(args.get("query"))]
        lines = "".join(self._searches.record_query(query) for query in texts if query)
        events += self._blocks.write(block, lines) or self._blocks.announce(block)
        return [*events, *self._blocks.end(block, search_opaque(PROTOCOL, part))]

    def _part(self, part: JsonObject) -> list[ReplyEvent]:
        if object_in(part.get("toolCall")) or object_in(part.get("toolResponse")):
            return self._hosted_search(part)
        signature = text_in(part.get("thoughtSignature"))
        opaque = Opaque(PROTOCOL, json.dumps({"thoughtSignature": signature})) if signature else None
        call = object_in(part.get("functionCall"))
        if call:
            return self._call(call, opaque)
        if not isinstance(part.get("text"), str) and opaque is None:
            return []
        kind = BlockKind.REASONING if part.get("thought") is True else BlockKind.TEXT
        events = self._blocks.append(kind, text_in(part.get("text")), is_signed=opaque is not None)
        if opaque is not None:
            self._blocks.attach_opaque(opaque)
            # The signature belongs to this part, so the next text starts a new one.
            events += self._blocks.end_current()
        return events

    def _call(self, call: JsonObject, opaque: Opaque | None) -> list[ReplyEvent]:
        name = text_in(call.get("name"))
        if not name:
            return []
        self._call_count += 1
        call_id = text_in(call.get("id"))
        if not call_id or call_id in self._call_ids:
            call_id = generate_call_id(self._tag, self._response_id, self._call_count)
        self._call_ids.add(call_id)
        started = self._blocks.begin_call(call_id, name)
        arguments = json.dumps(object_in(call.get("args")), ensure_ascii=False)
        return [
            *started.events,
            *self._blocks.write(started.block, arguments),
            *self._blocks.end(started.block, opaque),
        ]

    def _report_usage(self, counts: JsonObject) -> list[ReplyEvent]:
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
