"""Bedrock's ConverseStream as data: a `ModelRequest` to a body, stream events to reply events. Pure; no SDK.

Source of the shapes and limits: the Bedrock API reference, "ConverseStream" and "ConverseStreamOutput". The model is
part of the address. A body never contains what the API rejects: blank text, empty results, calls in the history without
tool definitions, reasoning from other hosts. A request with tool definitions cannot forbid calls. An event is an object
with one key, its name. The stream announces the start of call blocks, but not of text and reasoning; usage comes last.
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
from qcode.providers.blocks import BlockKind, BlockWriter, EndState, PrefilledSpace, normalize_stop
from qcode.providers.claude import thinking_fields
from qcode.providers.errors import error_of_stream
from qcode.providers.history import (
    EncodedMessages,
    add_note,
    called_names,
    fit_call_id,
    generate_call_id,
    has_calls,
    normalize_messages,
    results_first,
    without_trailing_thoughts,
)
from qcode.text.json import Json, JsonObject, count_in, object_in, parse_object, sendable, sendable_object, text_in

PROTOCOL = "bedrock"

_MAX_CALL_ID_CHARS = 64

# According to the API reference, only Nova and Claude accept rich results: with a `status` and images.
_RICH_RESULT_MODEL = re.compile(r"anthropic|claude|nova")
# Models that accept cache points, according to "Prompt caching" in the user guide.
_CACHING_MODEL = re.compile(r"claude-(?:3-7|3-5-haiku|[a-z]+-(?:[4-9]|\d\d))")
_CACHED_USER_MESSAGES = 2
"""The number of user messages, from the last one back, with a cache point at their end."""
_GPT_EFFORTS: dict[Effort, str] = {"none": "low", "minimal": "low", "max": "high"}
_FORMATS = {"jpg": "jpeg"}
_EMPTY = "(empty message)"
_EMPTY_RESULT = "(no output)"


def encode(request: ModelRequest, encoded: EncodedMessages | None = None) -> JsonObject:
    """Return the request body.

    With `encoded`, the body lacks the messages whose encoding is final; `encoded.body` adds them.
    """
    name = request.model.lower()
    is_caching = _CACHING_MODEL.search(name) is not None
    has_rich_results = _RICH_RESULT_MODEL.search(name) is not None
    messages: Sequence[Message] = request.messages
    used_ids: set[str] = set()
    if encoded is not None:
        encoded.begin()
        messages, used_ids = encoded.encode_settled(
            messages,
            variant="rich results" if has_rich_results else "plain results",
            encode=partial(_messages, has_rich_results=has_rich_results),
        )
    api_messages = _messages(messages, used_ids, has_rich_results=has_rich_results)
    if request.is_prefill and api_messages and api_messages[-1]["role"] == "assistant":
        _strip_prefill(api_messages[-1])
    if is_caching:
        _mark_cache(api_messages)
    add_note(api_messages, _text(request.note))
    body: JsonObject = {"messages": list(api_messages), "inferenceConfig": {"maxTokens": request.max_tokens}}
    if request.system.strip():
        body["system"] = [{"text": sendable(request.system)}, *([_cache_point()] if is_caching else [])]
    if tools := _tools(request):
        body["toolConfig"] = {"tools": tools}
    if request.effort is not None and not request.is_prefill and (fields := _effort(request)):
        body["additionalModelRequestFields"] = fields
    return body


def _messages(messages: Sequence[Message], used_ids: set[str], *, has_rich_results: bool) -> list[JsonObject]:
    """Return messages in the form of the API, in which user and assistant alternate."""
    api_messages: list[JsonObject] = []
    content: list[Json] = []
    for message in normalize_messages(messages, _call_id, used_ids):
        if message.role == "user":
            blocks = _user(message, has_rich_results=has_rich_results) or [_text(_EMPTY)]
        else:
            blocks = _assistant(message)
            if not blocks:
                continue
        if not api_messages or api_messages[-1]["role"] != message.role:
            content = []
            api_messages.append({"role": message.role, "content": content})
        content += blocks
    return api_messages


def _user(message: Message, *, has_rich_results: bool) -> list[Json]:
    results, others = results_first(message.blocks)
    content: list[Json] = [_result(result, is_rich=has_rich_results) for result in results]
    for result in results:
        if result.is_error or not has_rich_results:
            content += [_image(image) for image in result.images]
    for block in others:
        if isinstance(block, Image):
            content.append(_image(block))
        elif block.text.strip():
            content.append(_text(block.text))
    return content


def _assistant(message: Message) -> list[Json]:
    content: list[Json] = []
    for block in without_trailing_thoughts(message.blocks):
        match block:
            case Text(text=text):
                if text.strip():
                    content.append(_text(text))
            case Reasoning():
                if (reasoning := _signed_reasoning(block)) is not None:
                    content.append({"reasoningContent": reasoning})
            case ToolCall():
                call: JsonObject = {
                    "toolUseId": block.call_id,
                    "name": block.name,
                    "input": sendable_object(block.arguments),
                }
                content.append({"toolUse": call})
    return content


def _signed_reasoning(block: Reasoning) -> JsonObject | None:
    """Return reasoning unchanged, or None if this protocol did not sign it."""
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return None
    opaque_fields = parse_object(block.opaque.data) or {}
    if redacted := text_in(opaque_fields.get("redactedContent")):
        return {"redactedContent": redacted}
    if signature := text_in(opaque_fields.get("signature")):
        return {"reasoningText": {"text": sendable(block.text), "signature": signature}}
    return None


def _is_signed(block: Reasoning) -> bool:
    return _signed_reasoning(block) is not None


def _result(result: ToolResult, *, is_rich: bool) -> JsonObject:
    """Return a result. Without a status, its text says that it is an error; the images of an error follow it."""
    text = result.content
    if result.is_error and not is_rich and not text.lower().startswith("error"):
        text = f"Error: {text}"
    content: list[Json] = [_text(text)] if text.strip() else []
    if is_rich and not result.is_error:
        content += [_image(image) for image in result.images]
    api_result: JsonObject = {"toolUseId": result.call_id, "content": content or [_text(_EMPTY_RESULT)]}
    if result.is_error and is_rich:
        api_result["status"] = "error"
    return {"toolResult": api_result}


def _tools(request: ModelRequest) -> list[Json]:
    """Return the tool definitions. A history with calls requires them even if the model may not make calls."""
    if not request.allows_calls and not has_calls(request):
        return []
    tools: list[Json] = []
    for tool in request.tools:
        description: JsonObject = {"description": tool.description} if tool.description else {}
        schema: JsonObject = {"json": {"type": "object", **tool.parameters}}
        tools.append({"toolSpec": {"name": tool.name, **description, "inputSchema": schema}})
    if not tools and has_calls(request):
        tools = [
            {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in called_names(request)
        ]
    return tools


def _effort(request: ModelRequest) -> JsonObject:
    """Return the reasoning effort in the fields of the model; the API has no field that all models accept."""
    assert request.effort is not None
    name = request.model.lower()
    if "claude" in name:
        return thinking_fields(request, request.effort, _is_signed)
    if "gpt-oss" in name:
        return {"reasoning_effort": _GPT_EFFORTS.get(request.effort, request.effort)}
    return {}


def _strip_prefill(message: JsonObject) -> None:
    """Remove white space at the end of a prefill, which the API rejects."""
    content = message["content"]
    last = content[-1] if isinstance(content, list) and content else None
    if isinstance(last, dict) and "text" in last:
        last["text"] = text_in(last["text"]).rstrip()


def _mark_cache(api_messages: list[JsonObject]) -> None:
    """Set cache points at the ends of the last user messages, so that the next request hits the cache."""
    users = [message for message in api_messages if message["role"] == "user"]
    for message in users[-_CACHED_USER_MESSAGES:]:
        content = message["content"]
        if isinstance(content, list):
            content.append(_cache_point())


def _cache_point() -> JsonObject:
    return {"cachePoint": {"type": "default"}}


def _text(text: str) -> JsonObject:
    return {"text": sendable(text)}


def _image(image: Image) -> JsonObject:
    subtype = image.media_type.rpartition("/")[2].lower()
    return {"image": {"format": _FORMATS.get(subtype, subtype), "source": {"bytes": image.data}}}


def _call_id(call_id: str) -> str:
    return fit_call_id(call_id, max_length=_MAX_CALL_ID_CHARS)


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


class BedrockDecoder(EndState):
    """A decoder of the stream of one reply.

    `model` is the requested model, because the stream does not name it. `tag` makes generated call ids unique in a
    conversation; for `prefilled_space` see `PrefilledSpace`.
    """

    def __init__(self, model: str = "", *, tag: str = "0", prefilled_space: str = "") -> None:
        super().__init__()
        self._model = model
        self._tag = tag
        self._prefilled_space = PrefilledSpace(prefilled_space)
        self._blocks = BlockWriter()
        # The keys of these mappings are the indexes of blocks in the stream.
        self._numbers: dict[int, int] = {}
        """The number of each block in the reply."""
        self._kinds: dict[int, BlockKind] = {}
        self._opaque_fields: dict[int, dict[str, str]] = {}
        """The signature or the redacted data of reasoning."""
        self._call_count = 0
        self._has_started = False
        self._detail = ""

    @property
    def is_complete(self) -> bool:
        return self._raw_stop is not None

    def feed(self, event: JsonObject) -> list[ReplyEvent]:
        events: list[ReplyEvent] = []
        for kind, value in event.items():
            body = object_in(value)
            if kind == "error":
                raise error_of_stream(event)
            if kind.endswith("Exception"):
                raise error_of_stream({"error": {**body, "type": kind}})
            events += self._event(kind, body)
        return events

    def finish(self) -> list[ReplyEvent]:
        if self._raw_stop is None or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply was complete")
        stop = normalize_stop(STOPS, self._raw_stop, has_calls=self._call_count > 0)
        unfinished = [event for index in list(self._numbers) for event in self._block_stop(index)]
        return [*unfinished, ReplyEnded(stop, self._raw_stop, self._detail)]

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
                # If the stop reason was received, this is the last event.
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
            # A call that the host runs itself has a `type`.
            _log.info("skipped the start of a block: %s", ", ".join(start))
            return []
        self._call_count += 1
        call_id = text_in(call.get("toolUseId")) or generate_call_id(self._tag, "", self._call_count)
        started = self._blocks.begin_call(call_id, name)
        self._numbers[index] = started.block
        self._kinds[index] = BlockKind.CALL
        return started.events

    def _delta(self, index: int, delta: JsonObject) -> list[ReplyEvent]:
        if isinstance(delta.get("text"), str):
            return self._write(index, BlockKind.TEXT, self._prefilled_space.drop_repeated(text_in(delta.get("text"))))
        if call := object_in(delta.get("toolUse")):
            return self._write(index, BlockKind.CALL, text_in(call.get("input")))
        if reasoning := object_in(delta.get("reasoningContent")):
            events = self._write(index, BlockKind.REASONING, text_in(reasoning.get("text")), is_signed=True)
            opaque_fields = self._opaque_fields.setdefault(index, {})
            for name in ("signature", "redactedContent"):
                if fragment := text_in(reasoning.get(name)):
                    opaque_fields[name] = opaque_fields.get(name, "") + fragment
            return events
        return []

    def _write(self, index: int, kind: BlockKind, text: str, *, is_signed: bool = False) -> list[ReplyEvent]:
        """Append to the block at `index`, which starts with its first text or signature if it is not a call."""
        events: list[ReplyEvent] = []
        if index not in self._numbers:
            if kind is BlockKind.CALL or not (text or is_signed):
                return []
            self._numbers[index] = self._blocks.begin(kind)
            self._kinds[index] = kind
            if not text:
                events += self._blocks.announce(self._numbers[index])
        if self._kinds[index] is not kind:
            return []
        return events + self._blocks.write(self._numbers[index], text)

    def _block_stop(self, index: int) -> list[ReplyEvent]:
        number = self._numbers.get(index)
        if number is None:
            return []
        opaque_fields = self._opaque_fields.pop(index, {})
        opaque = Opaque(PROTOCOL, json.dumps(opaque_fields)) if opaque_fields else None
        return self._blocks.end(number, opaque)


def _usage_in(usage: JsonObject) -> list[ReplyEvent]:
    """Return usage with cached tokens counted as input.

    Claude reports cached tokens in addition to `inputTokens`, other models include them. `totalTokens` always includes
    them, so it shows which of the two applies.
    """
    if not usage:
        return []
    input_tokens, output_tokens = count_in(usage.get("inputTokens")), count_in(usage.get("outputTokens"))
    read, write = count_in(usage.get("cacheReadInputTokens")), count_in(usage.get("cacheWriteInputTokens"))
    total = count_in(usage.get("totalTokens"))
    if input_tokens is not None:
        cached = (read or 0) + (write or 0)
        has_large_total = (
            total is not None and output_tokens is not None and total >= input_tokens + cached + output_tokens
        )
        if cached > input_tokens or has_large_total:
            input_tokens += cached
    return [UsageReported(Usage(input_tokens, output_tokens, cache_read=read, cache_write=write))]


def _index(body: JsonObject) -> int:
    index = body.get("contentBlockIndex")
    return index if isinstance(index, int) else 0
