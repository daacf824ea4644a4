"""A `ModelRequest` as the body of a `generateContent` request. Pure.

Thought signatures go back unchanged on the part they came with. Tool parameters are sent as JSON Schema
(`parametersJsonSchema`), which takes what our tools declare as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from qcode.protocol.json import Json, JsonObject, parse_object
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort, ModelRequest
from qcode.providers.history import alternate, has_calls, results_first, said
from qcode.providers.searches import own_tools, piece_in, wants_search
from qcode.providers.shapes import sendable, sendable_object, text_in

PROTOCOL = "gemini"

UNSIGNED_CALL = "skip_thought_signature_validator"
"""What Google's page on thought signatures says to send on a call that another model made."""

_BUDGETS: dict[Effort, int] = {"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24_576, "max": 24_576}
_SMALLEST_BUDGET = 512
_LEVELS: dict[Effort, str] = {
    "none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "max": "HIGH"
}  # fmt: skip
_EMPTY = "(empty message)"
_GENERATION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_NOT_THINKING = re.compile(r"image|tts|audio|live|embedding|robotics")


def encode(request: ModelRequest) -> JsonObject:
    """Return the request body; the model is part of the address."""
    config: JsonObject = {"maxOutputTokens": request.max_tokens}
    if (thinking := _thinking(request)) is not None:
        config["thinkingConfig"] = thinking
    body: JsonObject = {"contents": _contents(request), "generationConfig": config}
    if request.system.strip():
        body["systemInstruction"] = {"parts": [{"text": sendable(request.system)}]}
    if request.tools and (request.allows_calls or has_calls(request)):
        declared: list[Json] = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": dict(tool.parameters)}
            for tool in own_tools(request)
        ]
        tools: list[Json] = [{"functionDeclarations": declared}]
        if wants_search(request):
            tools.append({"googleSearch": {}})
        body["tools"] = tools
        if wants_search(request):
            # Without it the API takes either searches or functions, not both.
            body["toolConfig"] = {"includeServerSideToolInvocations": True}
        if not request.allows_calls:
            tool_config = body.get("toolConfig")
            mode: JsonObject = {"functionCallingConfig": {"mode": "NONE"}}
            body["toolConfig"] = {**tool_config, **mode} if isinstance(tool_config, dict) else mode
    return body


def _contents(request: ModelRequest) -> list[Json]:
    wants_signatures = _generation(request.model) >= (3, 0)
    sent: list[JsonObject] = []
    names: dict[str, str] = {}
    for message in alternate(request.messages):
        if message.role == "user":
            role, parts = "user", _user(message, names, in_results=wants_signatures) or [{"text": _EMPTY}]
        else:
            names = {call.call_id: call.name for call in message.calls}
            role, parts = "model", _assistant(message, wants_signatures=wants_signatures)
        if not parts:
            continue
        previous = sent[-1]["parts"] if sent and sent[-1]["role"] == role else None
        if isinstance(previous, list):
            previous += parts
        else:
            sent.append({"role": role, "parts": parts})
    return list(sent)


def _user(message: Message, names: Mapping[str, str], *, in_results: bool) -> list[Json]:
    """`names`: the calls that wait, for an answer under another name than its call's is refused.

    `in_results`: a result takes pictures (generation 3, Google's page on function calling); else they follow it.
    """
    results, rest = results_first(message.blocks)
    parts: list[Json] = []
    for result in results:
        answer = _result(result, names.get(result.call_id, result.name))
        if result.images and in_results:
            answer["parts"] = [_image(image) for image in result.images]
        parts.append({"functionResponse": answer})
    for result in results:
        if result.images and not in_results:
            parts += [{"text": f"Images returned by {result.name}:"}, *(_image(image) for image in result.images)]
    for block in rest:
        if isinstance(block, Image):
            parts.append(_image(block))
        elif block.text:
            parts.append({"text": sendable(block.text)})
    return parts


def _assistant(message: Message, *, wants_signatures: bool) -> list[Json]:
    parts: list[JsonObject] = []
    calls: list[JsonObject] = []
    for block in said(message.blocks):
        if piece := _piece(block.opaque):
            parts.append(piece)
            continue
        signature = _signature(block.opaque)
        match block:
            case Text(text=text):
                part: JsonObject = {"text": sendable(text)}
                if not text and not signature:
                    continue
            case Reasoning(text=text):
                # Thoughts are the model's to make again; only a signed one goes back.
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
    # The first of parallel calls carries the signature of them all.
    if wants_signatures and calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = UNSIGNED_CALL
    return list(parts)


def _piece(opaque: Opaque | None) -> JsonObject:
    """Return a piece of a search as this protocol sent it; empty for any other mark."""
    return piece_in(parse_object(opaque.data) or {}) if opaque is not None and opaque.source == PROTOCOL else {}


def _signature(opaque: Opaque | None) -> str:
    if opaque is None or opaque.source != PROTOCOL:
        return ""
    return text_in((parse_object(opaque.data) or {}).get("thoughtSignature"))


def _result(result: ToolResult, name: str) -> JsonObject:
    key = "error" if result.is_error else "output"
    return {"id": result.call_id, "name": name, "response": {key: sendable(result.content)}}


def _image(image: Image) -> JsonObject:
    return {"inlineData": {"mimeType": image.media_type, "data": image.data}}


def _thinking(request: ModelRequest) -> JsonObject | None:
    """Thoughts are asked for wherever the model has them. Generation 2.5 takes a budget, later ones a level."""
    model = request.model.lower()
    generation = _generation(model)
    if generation < (2, 5) or _NOT_THINKING.search(model):
        return None
    config: JsonObject = {"includeThoughts": request.effort != "none"}
    if request.effort is None:
        return config
    if generation >= (3, 0):
        is_quick = "flash" in model
        level = _LEVELS[request.effort]
        config["thinkingLevel"] = "LOW" if level == "MINIMAL" and not is_quick else level
        return config
    budget = min(_BUDGETS[request.effort], max(_SMALLEST_BUDGET, request.max_tokens // 2))
    # The pro model cannot be kept from thinking.
    config["thinkingBudget"] = max(budget, _SMALLEST_BUDGET) if "pro" in model else budget
    return config


def _generation(model: str) -> tuple[int, int]:
    """Return the version in a model's name; an alias without one (`gemini-flash-latest`) counts as 2.5."""
    found = _GENERATION.search(model.lower())
    if found:
        return int(found.group(1)), int(found.group(2) or 0)
    return (2, 5) if re.search(r"gemini-[a-z-]+-latest", model.lower()) else (0, 0)
