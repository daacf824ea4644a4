"""A `ModelRequest` as the body of a Messages request. Pure.

What the API refuses is kept out here: empty text blocks, white space at the end of a prefill, results behind text,
pictures in an error result, calls in the history without tool definitions, unsigned thinking.
"""

from __future__ import annotations

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.providers.claude import thinking_fields
from qcode.providers.history import (
    alternate,
    called_names,
    fit_call_id,
    has_calls,
    results_first,
    said,
    without_trailing_thoughts,
)
from qcode.providers.searches import MOST_SEARCHES, own_tools, piece_in, wants_search
from qcode.providers.shapes import sendable, sendable_object, text_in

PROTOCOL = "anthropic"

_CACHE: JsonObject = {"type": "ephemeral"}
_CACHED_USER_MESSAGES = 2
_EMPTY = "(empty message)"


def encode(request: ModelRequest) -> JsonObject:
    """Return the request body."""
    messages = alternate(request.messages, _call_id)
    body: JsonObject = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": _messages(messages, is_prefill=request.is_prefill),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": sendable(request.system), "cache_control": dict(_CACHE)}]
    body.update(_tools(request))
    if request.effort is not None and not request.is_prefill:
        body.update(thinking_fields(request, request.effort, messages, _is_signed))
    return body


def _messages(messages: list[Message], *, is_prefill: bool) -> list[Json]:
    sent: list[JsonObject] = []
    for place, message in enumerate(messages):
        is_last = place == len(messages) - 1
        content = _user(message) if message.role == "user" else _assistant(message, is_last=is_last)
        if not content:
            if message.role == "assistant":
                continue
            content = [_text(_EMPTY)]
        if sent and sent[-1]["role"] == message.role:
            previous = sent[-1]["content"]
            if isinstance(previous, list):
                previous += content
        else:
            sent.append({"role": message.role, "content": content})
    if is_prefill and sent and sent[-1]["role"] == "assistant":
        _strip_end(sent[-1])
    _mark_cache(sent)
    return list(sent)


def _user(message: Message) -> list[Json]:
    results, rest = results_first(message.blocks)
    content: list[Json] = [_result(result) for result in results]
    for result in results:
        if result.is_error:
            content += [_image(image) for image in result.images]
    for block in rest:
        if isinstance(block, Image):
            content.append(_image(block))
        elif block.text.strip():
            content.append(_text(block.text))
    return content


def _assistant(message: Message, *, is_last: bool) -> list[Json]:
    """`is_last`: a search that is still without its result goes on with this request."""
    content: list[Json] = []
    ended = message.blocks
    if not (is_last and ended and _piece(ended[-1])):
        ended = tuple(without_trailing_thoughts(ended))
    answered = _answered(message, is_last=is_last)
    for block in said(ended):
        match block:
            case Text(text=text):
                if text.strip():
                    content.append({**_text(text), **_citations(block)})
            case Reasoning() if piece := _piece(block):
                if text_in(piece.get("id")) in answered or text_in(piece.get("tool_use_id")) in answered:
                    content.append(piece)
            case Reasoning():
                if (thinking := _signed(block)) is not None:
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


def _signed(block: Reasoning) -> JsonObject | None:
    """Return a thinking block as it came, or None for thinking this protocol did not sign."""
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return None
    marks = parse_object(block.opaque.data) or {}
    if data := text_in(marks.get("data")):
        return {"type": "redacted_thinking", "data": data}
    if signature := text_in(marks.get("signature")):
        return {"type": "thinking", "thinking": sendable(block.text), "signature": signature}
    return None


def _piece(block: Block) -> JsonObject:
    """Return a piece of a search as this protocol sent it; empty for any other block."""
    if not isinstance(block, Reasoning) or block.opaque is None or block.opaque.source != PROTOCOL:
        return {}
    return piece_in(parse_object(block.opaque.data) or {})


def _answered(message: Message, *, is_last: bool) -> set[str]:
    """Return the ids of the searches that can be sent back: asked for and answered, or under way at the very end."""
    pieces = [piece for block in message.blocks if (piece := _piece(block))]
    asked = {text_in(piece.get("id")) for piece in pieces if piece.get("type") == "server_tool_use"}
    results = {text_in(piece.get("tool_use_id")) for piece in pieces if piece.get("type") != "server_tool_use"}
    return asked & (results | {text_in(pieces[-1].get("id"))} if is_last and pieces else results)


def _citations(block: Text) -> JsonObject:
    if block.opaque is None or block.opaque.source != PROTOCOL:
        return {}
    citations = (parse_object(block.opaque.data) or {}).get("citations")
    return {"citations": citations} if isinstance(citations, list) and citations else {}


def _is_signed(block: Reasoning) -> bool:
    return _signed(block) is not None


def _result(result: ToolResult) -> JsonObject:
    sent: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id}
    images: list[Json] = [] if result.is_error else [_image(image) for image in result.images]
    if images:
        sent["content"] = [*([_text(result.content)] if result.content.strip() else []), *images]
    elif result.content:
        sent["content"] = sendable(result.content)
    if result.is_error:
        sent["is_error"] = True
    return sent


def _tools(request: ModelRequest) -> JsonObject:
    """A history with calls needs definitions, even where no call may be made and none were given."""
    is_needed = has_calls(request)
    if not request.allows_calls and not is_needed:
        return {}
    tools: list[Json] = [
        {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.parameters}}
        for tool in own_tools(request)
    ]
    if wants_search(request):
        tools.append({"type": "web_search_20250305", "name": "web_search", "max_uses": MOST_SEARCHES})
    is_allowed = request.allows_calls and bool(tools)
    if not tools and is_needed:
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in called_names(request)]
    if not tools:
        return {}
    return {"tools": tools} if is_allowed else {"tools": tools, "tool_choice": {"type": "none"}}


def _strip_end(message: JsonObject) -> None:
    content = message["content"]
    last = content[-1] if isinstance(content, list) and content else None
    if isinstance(last, dict) and last.get("type") == "text":
        last["text"] = text_in(last.get("text")).rstrip()


def _mark_cache(sent: list[JsonObject]) -> None:
    """Mark the ends of the last user messages: the next request finds what this one wrote."""
    users = [message for message in sent if message["role"] == "user"]
    for message in users[-_CACHED_USER_MESSAGES:]:
        content = message["content"]
        if isinstance(content, list) and content and isinstance(content[-1], dict):
            content[-1]["cache_control"] = dict(_CACHE)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": sendable(text)}


def _image(image: Image) -> JsonObject:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _call_id(call_id: str) -> str:
    return fit_call_id(call_id, max_length=64)
