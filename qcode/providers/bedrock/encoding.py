"""A `ModelRequest` as the JSON body of a ConverseStream request. Pure; the model is part of the address.

Source of the shapes and limits: the Bedrock API reference, "ConverseStream". What it refuses is kept out here:
blank text, empty results, calls in the history without tool definitions, thinking that is not its own. The API has
no way to forbid calls while definitions are sent.
"""

from __future__ import annotations

import re

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort, ModelRequest
from qcode.providers.claude import thinking_fields
from qcode.providers.history import (
    alternate,
    called_names,
    fit_call_id,
    has_calls,
    results_first,
    without_trailing_thoughts,
)
from qcode.providers.shapes import sendable, sendable_object, text_in

PROTOCOL = "bedrock"

MAX_CALL_ID = 64

# The API reference: a result's `status` is for Nova and Claude; pictures in results are taken by the same two.
_RICH_RESULTS = re.compile(r"anthropic|claude|nova")
# The user guide, "Prompt caching": which models take cache points.
_CACHING = re.compile(r"claude-(?:3-7|3-5-haiku|[a-z]+-(?:[4-9]|\d\d))")
_CACHED_USER_MESSAGES = 2
_GPT_EFFORTS: dict[Effort, str] = {"none": "low", "minimal": "low", "max": "high"}
_FORMATS = {"jpg": "jpeg"}
_EMPTY = "(empty message)"
_EMPTY_RESULT = "(no output)"


def encode(request: ModelRequest) -> JsonObject:
    """Return the request body."""
    messages = alternate(request.messages, _call_id)
    is_caching = _CACHING.search(request.model.lower()) is not None
    sent = _messages(messages, request)
    if is_caching:
        _mark_cache(sent)
    body: JsonObject = {"messages": list(sent), "inferenceConfig": {"maxTokens": request.max_tokens}}
    if request.system.strip():
        body["system"] = [{"text": sendable(request.system)}, *([_cache_point()] if is_caching else [])]
    if tools := _tools(request):
        body["toolConfig"] = {"tools": tools}
    if request.effort is not None and not request.is_prefill and (fields := _effort(request, messages)):
        body["additionalModelRequestFields"] = fields
    return body


def _messages(messages: list[Message], request: ModelRequest) -> list[JsonObject]:
    is_rich = _RICH_RESULTS.search(request.model.lower()) is not None
    sent: list[JsonObject] = []
    for message in messages:
        content = _user(message, is_rich=is_rich) if message.role == "user" else _assistant(message)
        if not content:
            if message.role == "assistant":
                continue
            content = [_text(_EMPTY)]
        previous = sent[-1]["content"] if sent and sent[-1]["role"] == message.role else None
        if isinstance(previous, list):
            previous += content
        else:
            sent.append({"role": message.role, "content": content})
    if request.is_prefill and sent and sent[-1]["role"] == "assistant":
        _strip_end(sent[-1])
    return sent


def _user(message: Message, *, is_rich: bool) -> list[Json]:
    results, rest = results_first(message.blocks)
    content: list[Json] = [_result(result, is_rich=is_rich) for result in results]
    for result in results:
        if result.is_error or not is_rich:
            content += [_image(image) for image in result.images]
    for block in rest:
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
                if (reasoning := _signed(block)) is not None:
                    content.append({"reasoningContent": reasoning})
            case ToolCall():
                call: JsonObject = {
                    "toolUseId": block.call_id,
                    "name": block.name,
                    "input": sendable_object(block.arguments),
                }
                content.append({"toolUse": call})
    return content


def _signed(block: Reasoning) -> JsonObject | None:
    """Return reasoning as it came, or None for reasoning this protocol did not sign."""
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return None
    marks = parse_object(block.opaque.data) or {}
    if redacted := text_in(marks.get("redactedContent")):
        return {"redactedContent": redacted}
    if signature := text_in(marks.get("signature")):
        return {"reasoningText": {"text": sendable(block.text), "signature": signature}}
    return None


def _is_signed(block: Reasoning) -> bool:
    return _signed(block) is not None


def _result(result: ToolResult, *, is_rich: bool) -> JsonObject:
    text = result.content
    if result.is_error and not is_rich and not text.lower().startswith("error"):
        text = f"Error: {text}"
    content: list[Json] = [_text(text)] if text.strip() else []
    if is_rich and not result.is_error:
        content += [_image(image) for image in result.images]
    sent: JsonObject = {"toolUseId": result.call_id, "content": content or [_text(_EMPTY_RESULT)]}
    if result.is_error and is_rich:
        sent["status"] = "error"
    return {"toolResult": sent}


def _tools(request: ModelRequest) -> list[Json]:
    """A history with calls needs definitions, even where no call may be made and none were given."""
    is_needed = has_calls(request)
    if not request.allows_calls and not is_needed:
        return []
    tools: list[Json] = []
    for tool in request.tools:
        described: JsonObject = {"description": tool.description} if tool.description else {}
        schema: JsonObject = {"json": {"type": "object", **tool.parameters}}
        tools.append({"toolSpec": {"name": tool.name, **described, "inputSchema": schema}})
    if not tools and is_needed:
        tools = [
            {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in called_names(request)
        ]
    return tools


def _effort(request: ModelRequest, messages: list[Message]) -> JsonObject:
    """Return how much to think, in the model's own fields; the API has none of its own that all models take."""
    assert request.effort is not None
    name = request.model.lower()
    if "claude" in name:
        return thinking_fields(request, request.effort, messages, _is_signed)
    if "gpt-oss" in name:
        return {"reasoning_effort": _GPT_EFFORTS.get(request.effort, request.effort)}
    return {}


def _strip_end(message: JsonObject) -> None:
    content = message["content"]
    last = content[-1] if isinstance(content, list) and content else None
    if isinstance(last, dict) and "text" in last:
        last["text"] = text_in(last["text"]).rstrip()


def _mark_cache(sent: list[JsonObject]) -> None:
    """Mark the ends of the last user messages: the next request finds what this one wrote."""
    users = [message for message in sent if message["role"] == "user"]
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
    return fit_call_id(call_id, max_length=MAX_CALL_ID)
