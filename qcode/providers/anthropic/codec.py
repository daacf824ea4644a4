"""The Messages API as data: a `ModelRequest` to a body, raw stream events to reply events. Pure; no SDK.

Source of the shapes: Anthropic's API reference, "Messages" and "Streaming messages". A body never contains what the API
rejects: empty text blocks, white space at the end of a prefill, results after text, images in an error result, calls in
the history without tool definitions, unsigned thinking. The arguments of a call stay the raw text of
`input_json_delta`, because an early parse would make a truncated call look complete.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Block, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, StopReason, ToolArgsDelta, UsageReported
from qcode.protocol.usage import Usage
from qcode.providers.blocks import (
    MAX_SEARCHES,
    BlockKind,
    BlockWriter,
    EndState,
    PrefilledSpace,
    Searches,
    local_tools,
    normalize_stop,
    search_item_in,
    search_opaque,
    wants_search,
)
from qcode.providers.claude import thinking_fields
from qcode.providers.errors import error_of_stream
from qcode.providers.history import (
    EncodedMessages,
    add_note,
    assistant_blocks,
    called_names,
    fit_call_id,
    generate_call_id,
    has_calls,
    normalize_messages,
    results_first,
    without_trailing_thoughts,
)
from qcode.text.json import (
    Json,
    JsonObject,
    count_in,
    object_in,
    parse_object,
    sendable,
    sendable_object,
    sum_of,
    text_in,
)

PROTOCOL = "anthropic"

_CACHE: JsonObject = {"type": "ephemeral"}
_CACHED_USER_MESSAGES = 2
"""The number of user messages, from the last one back, with a cache breakpoint at their end."""
_EMPTY = "(empty message)"


def encode(request: ModelRequest, encoded: EncodedMessages | None = None) -> JsonObject:
    """Return the request body.

    With `encoded`, the body lacks the messages whose encoding is final; `encoded.body` adds them.
    """
    messages: Sequence[Message] = request.messages
    used_ids: set[str] = set()
    if encoded is not None:
        encoded.begin()
        messages, used_ids = encoded.encode_settled(messages, variant="", encode=partial(_encode_settled, encoded))
    api_messages = _messages(normalize_messages(messages, _call_id, used_ids), encoded or EncodedMessages())
    if request.is_prefill and api_messages and api_messages[-1]["role"] == "assistant":
        _strip_prefill(api_messages[-1])
    _mark_cache(api_messages)
    add_note(api_messages, _text(request.note))
    body: JsonObject = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": list(api_messages),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": sendable(request.system), "cache_control": dict(_CACHE)}]
    body.update(_tools(request))
    if request.effort is not None and not request.is_prefill:
        body.update(thinking_fields(request, request.effort, _is_signed))
    return body


def _encode_settled(encoded: EncodedMessages, messages: Sequence[Message], used_ids: set[str]) -> Sequence[Json]:
    return _messages(normalize_messages(messages, _call_id, used_ids), encoded, has_end=False)


def _messages(messages: list[Message], encoded: EncodedMessages, *, has_end: bool = True) -> list[JsonObject]:
    """Return messages in the form of the API. If `has_end` is False, more messages follow them."""
    api_messages: list[JsonObject] = []
    for index, message in enumerate(messages):
        is_last = has_end and index == len(messages) - 1
        if message.role == "user":
            encode_one = partial(_user, message)
        else:
            encode_one = partial(_assistant, message, is_last=is_last)
        # The encoding of a message may differ if it is the last one.
        content = list(encoded.encode_once(message, encode_one, variant="last" if is_last else ""))
        if not content:
            if message.role == "assistant":
                continue
            content = [_text(_EMPTY)]
        if api_messages and api_messages[-1]["role"] == message.role:
            previous = api_messages[-1]["content"]
            if isinstance(previous, list):
                previous += content
        else:
            api_messages.append({"role": message.role, "content": content})
    return api_messages


def _user(message: Message) -> list[Json]:
    results, others = results_first(message.blocks)
    content: list[Json] = [_result(result) for result in results]
    for result in results:
        if result.is_error:
            content += [_image(image) for image in result.images]
    for block in others:
        if isinstance(block, Image):
            content.append(_image(block))
        elif block.text.strip():
            content.append(_text(block.text))
    return content


def _assistant(message: Message, *, is_last: bool) -> list[Json]:
    """Return the blocks of an assistant message.

    If `is_last`, the request ends with this message. Then its last block may be a search without a result, which the
    host resumes.
    """
    content: list[Json] = []
    blocks = message.blocks
    if not (is_last and blocks and _search_part(blocks[-1])):
        blocks = tuple(without_trailing_thoughts(blocks))
    sendable_ids = _sendable_searches(message, is_last=is_last)
    for block in assistant_blocks(blocks):
        match block:
            case Text(text=text):
                if text.strip():
                    content.append({**_text(text), **_citations(block)})
            case Reasoning() if search_item := _search_part(block):
                item_ids = {text_in(search_item.get("id")), text_in(search_item.get("tool_use_id"))}
                if item_ids & sendable_ids:
                    content.append(search_item)
            case Reasoning():
                if (thinking := _signed_thinking(block)) is not None:
                    content.append(thinking)
            case ToolCall():
                content.append(
                    {
                        "type": "tool_use",
                        "id": block.call_id,
                        "name": block.name,
                        "input": sendable_object(block.arguments),
                    }
                )
    return content


def _signed_thinking(block: Reasoning) -> JsonObject | None:
    """Return a thinking block unchanged, or None if this protocol did not sign it."""
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return None
    opaque_fields = parse_object(block.opaque.data) or {}
    if data := text_in(opaque_fields.get("data")):
        return {"type": "redacted_thinking", "data": data}
    if signature := text_in(opaque_fields.get("signature")):
        return {"type": "thinking", "thinking": sendable(block.text), "signature": signature}
    return None


def _search_part(block: Block) -> JsonObject:
    """Return a block of a web search in its original form, empty for any other block."""
    if not isinstance(block, Reasoning) or block.opaque is None or block.opaque.source != PROTOCOL:
        return {}
    return search_item_in(parse_object(block.opaque.data) or {})


def _sendable_searches(message: Message, *, is_last: bool) -> set[str]:
    """Return the ids of searches that can be sent back: those with a result, and an unfinished one at the very end."""
    search_items = [search_item for block in message.blocks if (search_item := _search_part(block))]
    calls = [search_item for search_item in search_items if search_item.get("type") == "server_tool_use"]
    results = [search_item for search_item in search_items if search_item.get("type") != "server_tool_use"]
    answered_ids = {text_in(result.get("tool_use_id")) for result in results}
    if is_last and search_items:
        answered_ids.add(text_in(search_items[-1].get("id")))
    return answered_ids & {text_in(call.get("id")) for call in calls}


def _citations(block: Text) -> JsonObject:
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return {}
    citations = (parse_object(block.opaque.data) or {}).get("citations")
    return {"citations": citations} if isinstance(citations, list) and citations else {}


def _is_signed(block: Reasoning) -> bool:
    return _signed_thinking(block) is not None


def _result(result: ToolResult) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id}
    images: list[Json] = [] if result.is_error else [_image(image) for image in result.images]
    if images:
        block["content"] = [*([_text(result.content)] if result.content.strip() else []), *images]
    elif result.content:
        block["content"] = sendable(result.content)
    if result.is_error:
        block["is_error"] = True
    return block


def _tools(request: ModelRequest) -> JsonObject:
    """Return the tool definitions. A history with calls requires them even if the model may not make calls."""
    is_needed = has_calls(request)
    if not request.allows_calls and not is_needed:
        return {}
    tools: list[Json] = [
        {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.parameters}}
        for tool in local_tools(request)
    ]
    if wants_search(request):
        tools.append({"type": "web_search_20250305", "name": "web_search", "max_uses": MAX_SEARCHES})
    is_allowed = request.allows_calls and bool(tools)
    if not tools and is_needed:
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in called_names(request)]
    if not tools:
        return {}
    return {"tools": tools} if is_allowed else {"tools": tools, "tool_choice": {"type": "none"}}


def _strip_prefill(message: JsonObject) -> None:
    """Remove white space at the end of a prefill, which the API rejects."""
    content = message["content"]
    if not isinstance(content, list) or not content:
        return
    last = content[-1]
    if isinstance(last, dict) and last.get("type") == "text":
        content[-1] = {**last, "text": text_in(last.get("text")).rstrip()}


def _mark_cache(api_messages: list[JsonObject]) -> None:
    """Set cache breakpoints at the ends of the last user messages, so that the next request hits the cache."""
    users = [message for message in api_messages if message["role"] == "user"]
    for message in users[-_CACHED_USER_MESSAGES:]:
        content = message["content"]
        if isinstance(content, list) and content and isinstance(content[-1], dict):
            content[-1] = {**content[-1], "cache_control": dict(_CACHE)}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": sendable(text)}


def _image(image: Image) -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _call_id(call_id: str) -> str:
    return fit_call_id(call_id, max_length=64)


_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END_TURN,
    "stop_sequence": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.CONTEXT_WINDOW_EXCEEDED,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSED,
    "compaction": StopReason.PAUSED,
}
"""`stop_reason` of the Messages API."""

_KINDS: Mapping[str, BlockKind] = {
    "text": BlockKind.TEXT,
    "thinking": BlockKind.REASONING,
    "redacted_thinking": BlockKind.REASONING,
    "tool_use": BlockKind.CALL,
}
_KIND_OF_DELTA: Mapping[str, BlockKind] = {"text_delta": BlockKind.TEXT, "thinking_delta": BlockKind.REASONING}


class AnthropicDecoder(EndState):
    """A decoder of the stream of one reply.

    `tag` makes generated call ids unique in a conversation; for `prefilled_space` see `PrefilledSpace`.
    """

    def __init__(self, *, tag: str = "0", prefilled_space: str = "") -> None:
        super().__init__()
        self._tag = tag
        self._prefilled_space = PrefilledSpace(prefilled_space)
        self._blocks = BlockWriter()
        # The keys of these mappings are the indexes of blocks in the stream.
        self._numbers: dict[int, int] = {}
        """The number of each block in the reply."""
        self._whole_inputs: dict[int, str] = {}
        """The JSON arguments of calls, if no delta contained them, and of hosted searches."""
        self._opaque_fields: dict[int, dict[str, str]] = {}
        """The signature or the redacted data of thinking."""
        self._hosted_blocks: dict[int, JsonObject] = {}
        """The open blocks of searches that the host runs."""
        self._citations: dict[int, list[Json]] = {}
        """The citations of a text."""
        self._searches = Searches()
        self._call_count = 0
        self._response_id = ""
        self._has_started = False
        self._detail = ""
        self._counts: dict[str, int | None] = {}

    def feed(self, event: JsonObject) -> list[ReplyEvent]:
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event)
            case "content_block_start":
                return self._block_start(event)
            case "content_block_stop":
                return self._block_stop(event)
            case "message_start":
                return self._message_start(object_in(event.get("message")))
            case "message_delta":
                return self._message_delta(event)
            case "message_stop":
                self._is_ended = True
            case "error":
                raise error_of_stream(event)
            case kind:
                if event.get("error"):
                    raise error_of_stream(event)
                if kind != "ping":
                    _log.info("skipped an event of type %r", kind)
        return []

    def finish(self) -> list[ReplyEvent]:
        if not self.is_complete or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply was complete")
        raw = self._raw_stop or ""
        stop = normalize_stop(STOPS, raw, has_calls=self._call_count > 0)
        # Calls whose block did not end, and whose arguments came with its start.
        unfinished = [event for index in list(self._whole_inputs) for event in self._block_stop({"index": index})]
        return [*unfinished, *self._blocks.end_all(), *self._searches.events(), ReplyEnded(stop, raw, self._detail)]

    def _message_start(self, message: JsonObject) -> list[ReplyEvent]:
        if self._has_started:
            return []
        self._has_started = True
        self._response_id = text_in(message.get("id"))
        started = ReplyStarted(text_in(message.get("model")), self._response_id)
        return [started, *self._usage(object_in(message.get("usage")))]

    def _message_delta(self, event: JsonObject) -> list[ReplyEvent]:
        delta = object_in(event.get("delta"))
        if raw := text_in(delta.get("stop_reason")):
            # Sent after the last block, so the reply is complete even if `message_stop`, which has no content, is lost.
            self._raw_stop = raw
            if raw not in STOPS:
                _log.info("unknown stop_reason %r", raw)
        details = object_in(delta.get("stop_details"))
        self._detail = text_in(details.get("explanation")) or text_in(details.get("category")) or self._detail
        return self._usage(object_in(event.get("usage")))

    def _block_start(self, event: JsonObject) -> list[ReplyEvent]:
        index = _index(event)
        block = object_in(event.get("content_block"))
        if _is_hosted(block) and index not in self._numbers:
            self._numbers[index] = number = self._blocks.begin(BlockKind.REASONING)
            self._hosted_blocks[index] = block
            return self._blocks.announce(number)
        kind = _KINDS.get(text_in(block.get("type")))
        if kind is None or index in self._numbers:
            _log.info("skipped a block of type %r", block.get("type"))
            return []
        if kind is BlockKind.CALL:
            return self._call_start(index, block)
        self._numbers[index] = number = self._blocks.begin(kind)
        opaque_fields = {name: text_in(block.get(name)) for name in ("signature", "data") if text_in(block.get(name))}
        if opaque_fields:
            self._opaque_fields[index] = opaque_fields
        text = text_in(block.get("text")) or text_in(block.get("thinking"))
        events = self._blocks.write(number, text)
        if not events and kind is BlockKind.REASONING:
            # Reasoning may have no text (redacted, or not shown); an empty delta announces the block.
            return self._blocks.announce(number)
        return events

    def _call_start(self, index: int, block: JsonObject) -> list[ReplyEvent]:
        name = text_in(block.get("name"))
        if not name:
            return []
        self._call_count += 1
        call_id = text_in(block.get("id")) or generate_call_id(self._tag, self._response_id, self._call_count)
        started = self._blocks.begin_call(call_id, name)
        self._numbers[index] = started.block
        if isinstance(block.get("input"), dict) and block["input"]:
            # Some servers send the whole input here and no deltas. It is used only if no delta follows.
            self._whole_inputs[index] = json.dumps(block["input"], ensure_ascii=False)
        return started.events

    def _delta(self, event: JsonObject) -> list[ReplyEvent]:
        index = _index(event)
        delta = object_in(event.get("delta"))
        kind = text_in(delta.get("type"))
        if kind == "signature_delta":
            opaque_fields = self._opaque_fields.setdefault(index, {})
            opaque_fields["signature"] = opaque_fields.get("signature", "") + text_in(delta.get("signature"))
            return []
        if index not in self._numbers:
            if kind not in _KIND_OF_DELTA:
                return []
            self._numbers[index] = self._blocks.begin(_KIND_OF_DELTA[kind])
        number = self._numbers[index]
        if index in self._hosted_blocks:
            if kind == "input_json_delta":
                self._whole_inputs[index] = self._whole_inputs.get(index, "") + text_in(delta.get("partial_json"))
            return []
        match kind:
            case "citations_delta":
                citation = object_in(delta.get("citation"))
                self._searches.add_source(text_in(citation.get("url")), text_in(citation.get("title")))
                if citation.get("url"):
                    self._citations.setdefault(index, []).append(citation)
                return []
            case "text_delta":
                return self._blocks.write(number, self._prefilled_space.drop_repeated(text_in(delta.get("text"))))
            case "thinking_delta":
                return self._blocks.write(number, text_in(delta.get("thinking")))
            case "input_json_delta":
                events = self._blocks.write(number, text_in(delta.get("partial_json")))
                if events:
                    self._whole_inputs.pop(index, None)
                return events
            case _:
                return []

    def _block_stop(self, event: JsonObject) -> list[ReplyEvent]:
        index = _index(event)
        number = self._numbers.get(index)
        if number is None:
            return []
        if index in self._hosted_blocks:
            return self._hosted_stop(index, number)
        events: list[ReplyEvent] = []
        if whole := self._whole_inputs.pop(index, ""):
            events.append(ToolArgsDelta(number, whole))
        opaque_fields = self._opaque_fields.pop(index, {})
        opaque = Opaque(PROTOCOL, json.dumps(opaque_fields)) if opaque_fields else None
        if citations := self._citations.pop(index, []):
            opaque = Opaque(PROTOCOL, json.dumps({"citations": citations}, ensure_ascii=False))
        return events + self._blocks.end(number, opaque)

    def _hosted_stop(self, index: int, number: int) -> list[ReplyEvent]:
        """End a block of a search that the host ran. A truncated block is not sent back."""
        search_item = self._hosted_blocks.pop(index)
        events: list[ReplyEvent] = []
        if search_item.get("type") == "server_tool_use":
            values = parse_object(self._whole_inputs.pop(index, "") or "{}")
            if values is None:
                return self._blocks.end(number)
            search_item = {**search_item, "input": values or object_in(search_item.get("input"))}
            line = self._searches.record_query(text_in(object_in(search_item["input"]).get("query")))
            events = self._blocks.write(number, line)
        return events + self._blocks.end(number, search_opaque(PROTOCOL, search_item))

    def _usage(self, usage: JsonObject) -> list[ReplyEvent]:
        """Report usage. Counts are cumulative, a later event may omit some, and `input_tokens` excludes the cache."""
        if not usage:
            return []
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
            if (count := count_in(usage.get(name))) is not None:
                self._counts[name] = count
        thinking = count_in(object_in(usage.get("output_tokens_details")).get("thinking_tokens"))
        self._counts["thinking"] = self._counts.get("thinking") if thinking is None else thinking
        cache_read = self._counts.get("cache_read_input_tokens")
        cache_write = self._counts.get("cache_creation_input_tokens")
        uncached = self._counts.get("input_tokens")
        usage_so_far = Usage(
            input=None if uncached is None else sum_of(uncached, cache_read, cache_write),
            output=self._counts.get("output_tokens"),
            cache_read=cache_read,
            cache_write=cache_write,
            reasoning=self._counts.get("thinking"),
        )
        return [UsageReported(usage_so_far)]


def _is_hosted(block: JsonObject) -> bool:
    return block.get("type") in ("server_tool_use", "web_search_tool_result")


def _index(event: JsonObject) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
