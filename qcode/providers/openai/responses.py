"""The Responses API as data: a `ModelRequest` to a body, stream events to reply events. Pure; no SDK.

Stateless: the host stores nothing, every request contains the whole transcript, and reasoning is sent back as the
encrypted item that was received. Source of the shapes: OpenAI's API reference, "Create a model response" and "Streaming
events". Every event has the index of its output item. Encrypted reasoning is read only from the finished item. The last
event contains the whole response.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, ReplyStarted, StopReason, UsageReported
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.blocks import (
    BlockKind,
    BlockWriter,
    Searches,
    local_tools,
    normalize_stop,
    search_item_in,
    search_opaque,
    wants_search,
)
from qcode.providers.errors import error_of_stream, read_object
from qcode.providers.history import (
    EncodedMessages,
    assistant_blocks,
    fit_call_id,
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
    sendable_json,
    text_in,
)
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

PROTOCOL = "openai-responses"

MIN_OUTPUT_TOKENS = 16
"""The smallest `max_output_tokens` that the API accepts."""

_MAX_CALL_ID_CHARS = 64

# OpenAI's models without reasoning reject every field about reasoning; models of other hosts are unknown.
_PLAIN_MODEL = lazy_pattern(r"(?:^|/)(?:gpt-[34]|chatgpt|gpt-\d[\w.]*-chat|davinci|babbage)|search-(?:preview|api)")
_REASONING_MODEL = lazy_pattern(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)|codex|computer-use)")
_EMPTY = "(empty message)"


def encode(request: ModelRequest, encoded: EncodedMessages | None = None) -> JsonObject:
    """Return the request body. A lower output cap is raised to `MIN_OUTPUT_TOKENS`.

    With `encoded`, the body lacks the messages whose encoding is final; `encoded.body` adds them.
    """
    unsettled: Sequence[Message] = with_request_note(request)
    used_ids: set[str] = set()
    if encoded is not None:
        encoded.begin()
        unsettled, used_ids = encoded.encode_settled(unsettled, variant="", encode=_input)
    body: JsonObject = {
        "model": request.model,
        "input": _input(unsettled, used_ids) or [_user_message([_text(_EMPTY)])],
        "max_output_tokens": max(request.max_tokens, MIN_OUTPUT_TOKENS),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        body["instructions"] = sendable(request.system)
    if request.tools and (request.allows_calls or has_calls(request)):
        tools: list[Json] = [_tool(tool) for tool in local_tools(request)]
        if wants_search(request):
            tools.append({"type": "web_search"})
        body["tools"] = tools
        if not request.allows_calls:
            body["tool_choice"] = "none"
    if not _PLAIN_MODEL.search(request.model.lower()):
        body["include"] = ["reasoning.encrypted_content"]
        if reasoning := _reasoning(request):
            body["reasoning"] = reasoning
    return body


def _reasoning(request: ModelRequest) -> JsonObject:
    reasoning: JsonObject = {}
    if request.effort is not None:
        reasoning["effort"] = request.effort
    if request.effort != "none" and _REASONING_MODEL.search(request.model.lower()):
        reasoning["summary"] = "auto"
    return reasoning


def _input(messages: Sequence[Message], used_ids: set[str]) -> list[Json]:
    items: list[Json] = []
    for message in normalize_messages(messages, _call_id, used_ids):
        items += _user(message) if message.role == "user" else _assistant(message)
    return items


def _user(message: Message) -> list[Json]:
    """Return the items of a user message: one for each result, then one for all other blocks."""
    results, others = results_first(message.blocks)
    items: list[Json] = [_result(result) for result in results]
    parts: list[Json] = []
    for block in others:
        if isinstance(block, Image):
            parts.append(_image(block))
        elif block.text:
            parts.append(_text(block.text))
    if parts or not results:
        items.append(_user_message(parts or [_text(_EMPTY)]))
    return items


def _assistant(message: Message) -> list[Json]:
    """Return the items of a reply, without reasoning at the end, because the API rejects it there."""
    items: list[Json] = []
    pending_reasoning: list[Json] = []
    for block in assistant_blocks(message.blocks):
        match block:
            case Reasoning() if search_item := search_item_in(_opaque_fields(block.opaque)):
                item = search_item
            case Reasoning():
                if (reasoning := _encrypted(block.opaque)) is not None:
                    pending_reasoning.append(reasoning)
                continue
            case Text(text=text):
                if not text.strip():
                    continue
                item = {"type": "message", "role": "assistant", "content": sendable(text), **_phase(block.opaque)}
            case ToolCall():
                item = {
                    "type": "function_call",
                    "call_id": block.call_id,
                    "name": block.name,
                    "arguments": sendable_json(block.arguments),
                }
        items += [*pending_reasoning, item]
        pending_reasoning = []
    return items


def _encrypted(opaque: Opaque | None) -> JsonObject | None:
    """Return a reasoning item unchanged, or None if this protocol did not encrypt it."""
    fields = _opaque_fields(opaque)
    if not (text_in(fields.get("id")) and text_in(fields.get("encrypted_content"))):
        return None
    summary = fields.get("summary")
    return {"type": "reasoning", **fields, "summary": summary if isinstance(summary, list) else []}


def _phase(opaque: Opaque | None) -> JsonObject:
    """Return the phase of a text (commentary or final answer). Newer models require it in requests."""
    phase = text_in(_opaque_fields(opaque).get("phase"))
    return {"phase": phase} if phase else {}


def _opaque_fields(opaque: Opaque | None) -> JsonObject:
    if opaque is None or opaque.source != PROTOCOL:
        return {}
    return parse_object(opaque.data) or {}


def _result(result: ToolResult) -> JsonObject:
    content = result.content
    if result.is_error and not content.lower().startswith("error"):
        # The protocol has no error field for results.
        content = f"Error: {content}"
    output: Json = sendable(content)
    if result.images:
        parts: list[Json] = [_image(image) for image in result.images]
        output = [_text(content), *parts] if content else parts
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _user_message(parts: list[Json]) -> JsonObject:
    return {"type": "message", "role": "user", "content": parts}


def _text(text: str) -> JsonObject:
    return {"type": "input_text", "text": sendable(text)}


def _image(image: Image) -> JsonObject:
    return {
        "type": "input_image",
        "detail": "auto",
        "image_url": f"data:{image.media_type};base64,{image.data}",
    }


def _tool(tool: ToolSpec) -> JsonObject:
    """Return a tool definition. Strict mode, the API's default, would reject schemas with optional parameters."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def _call_id(call_id: str) -> str:
    return fit_call_id(call_id, max_length=_MAX_CALL_ID_CHARS)


_log = logging.getLogger(__name__)

STOPS: Mapping[str, StopReason] = {
    "completed": StopReason.END_TURN,
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
"""The `status` of a response, or `incomplete_details.reason` if it is incomplete."""

UNKNOWN_STOPS = frozenset({"max_messages", "steered", "cancelled", "incomplete", "in_progress", "queued"})
"""Documented values that do not explain why the reply ended."""

REFUSED = frozenset(
    {
        "bio_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "image_content_policy_violation",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "invalid_prompt",
        "misalignment_policy_violation",
        "unsupported_image_media_type",
    }
)
"""Error codes that an identical request would get again. Other errors are classified by type and message."""

_END_STATUSES = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The last events of a reply, and the status that each implies."""
_START_EVENTS = ("response.created", "response.queued", "response.in_progress")


@dataclass(slots=True)
class _Item:
    """An output item that has not ended."""

    block: int
    """The number of its block."""
    kind: BlockKind
    has_text: bool = False
    part: Json = None
    """The index of the part of its reasoning that is being written."""


@dataclass(frozen=True, slots=True)
class _FinishedItem:
    """The content of an output item that has ended."""

    kind: BlockKind
    text: str
    opaque: Opaque | None = None


class ResponsesDecoder:
    """A decoder of the events of one reply. `tag` makes generated call ids unique in a conversation."""

    def __init__(self, *, tag: str = "0") -> None:
        self._tag = tag
        self._blocks = BlockWriter()
        self._items: dict[int, _Item] = {}
        self._done_indexes: set[int] = set()
        self._call_count = 0
        self._response_id = ""
        self._has_started = False
        self._raw_stop: str | None = None
        self._refusal = ""
        self._has_end_mark = False
        self._searches = Searches()

    @property
    def is_complete(self) -> bool:
        return self._raw_stop is not None

    @property
    def is_ended(self) -> bool:
        return self._raw_stop is not None or self._has_end_mark

    def end(self) -> None:
        self._has_end_mark = True

    def feed(self, event: JsonObject) -> list[ReplyEvent]:
        kind = text_in(event.get("type"))
        if kind == "error" or event.get("error"):
            # An event of type `error` has the fields of an error itself.
            raise _error(event if "error" in event else {"error": event})
        if kind in _START_EVENTS:
            return self._start(object_in(event.get("response")))
        if kind in _END_STATUSES:
            return self._terminate(object_in(event.get("response")), _END_STATUSES[kind])
        if not kind and event.get("object") == "response":
            # The server does not stream.
            return self._terminate(event, "completed")
        index = _index(event)
        item = object_in(event.get("item"))
        match kind:
            case "response.output_item.added":
                return self._item_added(index, item)
            case "response.output_item.done":
                return self._item_done(index, item)
            case "response.output_text.delta":
                return self._write(index, BlockKind.TEXT, text_in(event.get("delta")))
            case "response.refusal.delta":
                self._refusal += text_in(event.get("delta"))
                return self._write(index, BlockKind.TEXT, text_in(event.get("delta")))
            case "response.reasoning_summary_text.delta":
                return self._write(index, BlockKind.REASONING, text_in(event.get("delta")), event.get("summary_index"))
            case "response.reasoning_text.delta":
                return self._write(index, BlockKind.REASONING, text_in(event.get("delta")), event.get("content_index"))
            case "response.function_call_arguments.delta":
                return self._write(index, BlockKind.CALL, text_in(event.get("delta")))
        return []

    def finish(self) -> list[ReplyEvent]:
        if self._raw_stop is None or not self._has_started:
            raise ProviderError(ErrorKind.CONNECTION, "the stream ended before the reply was complete")
        stop = normalize_stop(STOPS, self._raw_stop, has_calls=self._call_count > 0)
        if self._refusal and stop is StopReason.END_TURN:
            stop = StopReason.REFUSAL
        return [*self._blocks.end_all(), *self._searches.events(), ReplyEnded(stop, self._raw_stop, self._refusal)]

    def _start(self, response: JsonObject) -> list[ReplyEvent]:
        if self._has_started:
            return []
        self._has_started = True
        self._response_id = text_in(response.get("id"))
        return [ReplyStarted(text_in(response.get("model")), self._response_id)]

    def _item_added(self, index: int, item: JsonObject) -> list[ReplyEvent]:
        """Start a call, because only this event contains its name. Any other item starts with its first text."""
        name = text_in(item.get("name"))
        has_begun = index in self._items or index in self._done_indexes
        if item.get("type") != "function_call" or not name or has_begun:
            return []
        self._call_count += 1
        call_id = text_in(item.get("call_id")) or generate_call_id(self._tag, self._response_id, self._call_count)
        started = self._blocks.begin_call(call_id, name)
        self._items[index] = _Item(started.block, BlockKind.CALL)
        return started.events

    def _write(self, index: int, kind: BlockKind, text: str, part: Json = None) -> list[ReplyEvent]:
        """Append to the block of an item. The first text of an item starts its block, except for a call."""
        if not text or index in self._done_indexes:
            return []
        item = self._items.get(index)
        if item is None:
            if kind is BlockKind.CALL:
                return []
            item = _Item(self._blocks.begin(kind), kind, part=part)
            self._items[index] = item
        if item.kind is not kind:
            return []
        if part != item.part:
            # Each part of a summary is a separate paragraph.
            text = f"\n\n{text}"
        item.has_text = True
        item.part = part
        return self._blocks.write(item.block, text)

    def _item_done(self, index: int, item: JsonObject) -> list[ReplyEvent]:
        """End an item. Its content is used if there was no delta before."""
        finished = None if index in self._done_indexes else self._finished(item)
        if finished is None:
            return []
        events = self._item_added(index, item)
        open_item = self._items.get(index)
        if open_item is None or not open_item.has_text:
            events += self._write(index, finished.kind, finished.text)
            open_item = self._items.get(index)
        if open_item is None and finished.kind is BlockKind.REASONING and finished.opaque is not None:
            # Reasoning that is not shown must still be sent back.
            open_item = _Item(self._blocks.begin(finished.kind), finished.kind)
            events += self._blocks.announce(open_item.block)
        self._items.pop(index, None)
        self._done_indexes.add(index)
        return events if open_item is None else [*events, *self._blocks.end(open_item.block, finished.opaque)]

    def _finished(self, item: JsonObject) -> _FinishedItem | None:
        """Return the content of an item, None for an unknown type. Record its refusal, queries and cited pages."""
        match item.get("type"):
            case "message":
                self._refusal = self._refusal or _refusal_in(item)
                for citation in _citations_in(item):
                    self._searches.add_source(text_in(citation.get("url")), text_in(citation.get("title")))
                phase = text_in(item.get("phase"))
                return _FinishedItem(BlockKind.TEXT, _message_text(item), _opaque({"phase": phase}) if phase else None)
            case "reasoning":
                return _FinishedItem(BlockKind.REASONING, _reasoning_in(item), _encrypted_in(item))
            case "web_search_call" if object_in(item.get("action")):
                return _FinishedItem(BlockKind.REASONING, self._search(item), search_opaque(PROTOCOL, item))
            case "function_call":
                return _FinishedItem(BlockKind.CALL, text_in(item.get("arguments")))
            case other:
                _log.info("skipped an item of type %r", other)
                return None

    def _search(self, item: JsonObject) -> str:
        """Record the queries of a search; return a line for the user about the search or the opened page."""
        action = object_in(item.get("action"))
        if url := text_in(action.get("url")):
            return f"Opened {url}\n"
        queries = action.get("queries")
        texts = [text_in(query) for query in queries] if isinstance(queries, list) else []
        return "".join(self._searches.record_query(query) for query in texts or [text_in(action.get("query"))])

    def _terminate(self, response: JsonObject, status: str) -> list[ReplyEvent]:
        """Handle the last event, which contains the whole response and its status."""
        events = self._start(response)
        status = text_in(response.get("status")) or status
        if status == "failed" or response.get("error"):
            raise _error({"error": response.get("error") or {"message": "the reply failed"}})
        # The last event repeats all items. Items without an end event are added here.
        for index, item in enumerate(objects_in(response.get("output"))):
            events += self._item_done(index, item)
        reason = text_in(object_in(response.get("incomplete_details")).get("reason"))
        self._raw_stop = reason or status
        if self._raw_stop not in STOPS and self._raw_stop not in UNKNOWN_STOPS:
            _log.info("unknown end of a response: %r", self._raw_stop)
        usage = _usage_in(object_in(response.get("usage")))
        return events if usage is None else [*events, UsageReported(usage)]


def _error(event: JsonObject) -> ProviderError:
    """Convert an object with an `error`."""
    body = read_object(event)
    if body.code in REFUSED:
        return ProviderError(ErrorKind.BAD_REQUEST, body.message, code=body.code, param=body.param or None)
    return error_of_stream(event)


def _message_text(item: JsonObject) -> str:
    """Return the text of a message, including refusals."""
    parts = objects_in(item.get("content"))
    return "".join(text_in(part.get("text")) or text_in(part.get("refusal")) for part in parts)


def _citations_in(item: JsonObject) -> list[JsonObject]:
    parts = objects_in(item.get("content"))
    return [
        entry for part in parts for entry in objects_in(part.get("annotations")) if entry.get("type") == "url_citation"
    ]


def _refusal_in(item: JsonObject) -> str:
    return "".join(text_in(part.get("refusal")) for part in objects_in(item.get("content")))


def _reasoning_in(item: JsonObject) -> str:
    parts = objects_in(item.get("summary")) or objects_in(item.get("content"))
    return "\n\n".join(text_in(part.get("text")) for part in parts)


def _encrypted_in(item: JsonObject) -> Opaque | None:
    """Return the opaque data of a finished reasoning item; None if it has no encrypted content."""
    has_content = bool(text_in(item.get("encrypted_content")) and text_in(item.get("id")))
    if not has_content or item.get("status") == "incomplete":
        return None
    return _opaque({name: item[name] for name in ("id", "summary", "encrypted_content") if name in item})


def _opaque(fields: JsonObject) -> Opaque:
    return Opaque(PROTOCOL, json.dumps(fields, ensure_ascii=False))


def _usage_in(usage: JsonObject) -> Usage | None:
    if not usage:
        return None
    input_details = object_in(usage.get("input_tokens_details"))
    output_details = object_in(usage.get("output_tokens_details"))
    return Usage(
        input=count_in(usage.get("input_tokens")),
        output=count_in(usage.get("output_tokens")),
        cache_read=count_in(input_details.get("cached_tokens")),
        cache_write=count_in(input_details.get("cache_write_tokens")),
        reasoning=count_in(output_details.get("reasoning_tokens")),
    )


def _index(event: JsonObject) -> int:
    index = event.get("output_index")
    return index if isinstance(index, int) else 0
