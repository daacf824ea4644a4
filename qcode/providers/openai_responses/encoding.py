"""A `ModelRequest` as the body of a Responses request. Pure.

Stateless: nothing is stored at the host, the whole transcript goes with every request, and reasoning goes back as
the encrypted item it came as. Source of the shapes: OpenAI's API reference, "Create a model response".
"""

from __future__ import annotations

import re

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.providers.history import alternate, fit_call_id, has_calls, results_first, said
from qcode.providers.searches import own_tools, piece_in, wants_search
from qcode.providers.shapes import sendable, text_in

PROTOCOL = "openai-responses"

MIN_OUTPUT_TOKENS = 16
"""The smallest `max_output_tokens` the API takes."""

MAX_CALL_ID = 64

# OpenAI's models that do not reason refuse every field about reasoning; what other hosts serve is not known.
_PLAIN_MODEL = re.compile(r"(?:^|/)(?:gpt-[34]|chatgpt|gpt-\d[\w.]*-chat|davinci|babbage)|search-(?:preview|api)")
_REASONING_MODEL = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)|codex|computer-use)")
_EMPTY = "(empty message)"


def encode(request: ModelRequest) -> JsonObject:
    """Return the request body. An output cap below the API's smallest is sent as the smallest."""
    body: JsonObject = {
        "model": request.model,
        "input": _input(request),
        "max_output_tokens": max(request.max_tokens, MIN_OUTPUT_TOKENS),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        body["instructions"] = sendable(request.system)
    if request.tools and (request.allows_calls or has_calls(request)):
        tools: list[Json] = [_tool(tool) for tool in own_tools(request)]
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


def _input(request: ModelRequest) -> list[Json]:
    items: list[Json] = []
    for message in alternate(request.messages, _call_id):
        items += _user(message) if message.role == "user" else _assistant(message)
    return items or [_user_message([_text(_EMPTY)])]


def _user(message: Message) -> list[Json]:
    """Results are items of their own; what else the message holds follows them as one."""
    results, rest = results_first(message.blocks)
    items: list[Json] = [_result(result) for result in results]
    parts: list[Json] = []
    for block in rest:
        if isinstance(block, Image):
            parts.append(_image(block))
        elif block.text:
            parts.append(_text(block.text))
    if parts or not results:
        items.append(_user_message(parts or [_text(_EMPTY)]))
    return items


def _assistant(message: Message) -> list[Json]:
    """Return the items of a reply. Reasoning that leads to nothing is refused, so it goes only before an item."""
    items: list[Json] = []
    thoughts: list[Json] = []
    for block in said(message.blocks):
        match block:
            case Reasoning() if piece := piece_in(_marks(block.opaque)):
                item = piece
            case Reasoning():
                if (thought := _encrypted(block.opaque)) is not None:
                    thoughts.append(thought)
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
                    "arguments": sendable(block.arguments),
                }
        items += [*thoughts, item]
        thoughts = []
    return items


def _encrypted(opaque: Opaque | None) -> JsonObject | None:
    """Return a reasoning item as it came, or None for thinking this protocol did not encrypt."""
    marks = _marks(opaque)
    if not (text_in(marks.get("id")) and text_in(marks.get("encrypted_content"))):
        return None
    summary = marks.get("summary")
    return {"type": "reasoning", **marks, "summary": summary if isinstance(summary, list) else []}


def _phase(opaque: Opaque | None) -> JsonObject:
    """Return whether a text was a comment on the way or the answer: newer models want it back."""
    phase = text_in(_marks(opaque).get("phase"))
    return {"phase": phase} if phase else {}


def _marks(opaque: Opaque | None) -> JsonObject:
    return parse_object(opaque.data) or {} if opaque is not None and opaque.source == PROTOCOL else {}


def _result(result: ToolResult) -> JsonObject:
    content = result.content
    if result.is_error and not content.lower().startswith("error"):
        # The protocol has no field for it.
        content = f"Error: {content}"
    output: Json = sendable(content)
    if result.images:
        output = [*([_text(content)] if content else []), *(_image(image) for image in result.images)]
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
    """Strict mode, the API's default, would refuse schemas with optional parameters."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def _call_id(call_id: str) -> str:
    return fit_call_id(call_id, max_length=MAX_CALL_ID)
