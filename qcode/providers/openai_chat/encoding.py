"""A `ModelRequest` as the body of a Chat Completions request. Pure."""

from __future__ import annotations

from functools import partial

from qcode.protocol.json import Json, JsonObject
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import Effort, ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.providers.history import alternate, fit_call_id, has_calls, results_first, said, start_of_tool_loop
from qcode.providers.openai_chat.quirks import ChatQuirks, for_model
from qcode.providers.shapes import sendable

_BASIC_EFFORTS = {"minimal": "low", "max": "high"}
_RESULTS_SEEN = "Understood."
"""Stands between results and what a person says next, where a host wants the model to have spoken in between."""


def encode(request: ModelRequest, quirks: ChatQuirks) -> JsonObject:
    """Return the request body. The output cap is always sent, in the field this server reads."""
    quirks = for_model(quirks, request.model)
    body: JsonObject = {"model": request.model, "messages": _messages(request, quirks), "stream": True}
    body[quirks.max_tokens_field] = request.max_tokens
    if quirks.sends_stream_options:
        body["stream_options"] = {"include_usage": True}
    # Definitions stay where the history holds calls: chat templates of some servers need them to render it.
    if request.tools and (request.allows_calls or has_calls(request)):
        body["tools"] = [_tool(tool) for tool in request.tools]
        if not request.allows_calls:
            body["tool_choice"] = "none"
    if request.effort is not None:
        body.update(_effort(request.effort, quirks, request.model))
    if request.is_prefill and quirks.prefill == "continue_final_message":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    return body


def _messages(request: ModelRequest, quirks: ChatQuirks) -> list[Json]:
    spoken = tuple(message for message in request.messages if message.role == "user" or _says(message))
    messages = alternate(spoken, partial(_call_id, quirks=quirks))
    loop = start_of_tool_loop(messages)
    sent: list[Json] = []
    if request.system:
        sent.append({"role": "system", "content": sendable(request.system)})
    for index, message in enumerate(messages):
        if message.role == "user":
            sent += _user(message, quirks)
            continue
        is_last = index == len(messages) - 1
        assistant = _assistant(message, quirks, echoes_reasoning=quirks.echoes_reasoning and index >= loop)
        if is_last and request.is_prefill and quirks.prefill in ("prefix", "partial"):
            assistant[quirks.prefill] = True
        sent.append(assistant)
    return sent


def _says(message: Message) -> bool:
    """Tell whether anything of an assistant message can be sent; reasoning alone cannot."""
    return bool(message.text or message.calls)


def _user(message: Message, quirks: ChatQuirks) -> list[Json]:
    """Results become messages of their own; the pictures of a result follow in the user's, for a tool's takes none."""
    results, rest = results_first(message.blocks)
    sent: list[Json] = [_result(result) for result in results]
    said_besides = _user_parts(results, rest)
    if said_besides is None:
        return sent
    if results and quirks.answers_results:
        sent.append({"role": "assistant", "content": _RESULTS_SEEN})
    return [*sent, {"role": "user", "content": said_besides}]


def _user_parts(results: list[ToolResult], rest: list[Text | Image]) -> Json:
    """Return what a user message holds besides results, None where that is nothing."""
    parts: list[Json] = []
    for result in results:
        if result.images:
            parts.append(_text_part(f"Images returned by {result.name}:"))
            parts += [_image_part(image) for image in result.images]
    texts = [block.text for block in rest if isinstance(block, Text) and block.text]
    if not parts and not any(isinstance(block, Image) for block in rest):
        return sendable("\n\n".join(texts)) if texts or not results else None
    for block in rest:
        if isinstance(block, Image):
            parts.append(_image_part(block))
        elif block.text:
            parts.append(_text_part(block.text))
    return parts


def _assistant(message: Message, quirks: ChatQuirks, *, echoes_reasoning: bool) -> JsonObject:
    blocks = said(message.blocks)
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    calls: list[Json] = [_call(block) for block in blocks if isinstance(block, ToolCall)]
    sent: JsonObject = {"role": "assistant", "content": sendable(text) if text else None}
    if calls:
        sent["tool_calls"] = calls
        reasoning = "".join(block.text for block in blocks if isinstance(block, Reasoning))
        if echoes_reasoning:
            sent[quirks.reasoning_field or "reasoning_content"] = sendable(reasoning)
    return sent


def _call(call: ToolCall) -> JsonObject:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": sendable(call.arguments)},
    }


def _result(result: ToolResult) -> JsonObject:
    content = result.content
    if result.is_error and not content.lower().startswith("error"):
        # The protocol has no field for it.
        content = f"Error: {content}"
    return {"role": "tool", "tool_call_id": result.call_id, "content": sendable(content)}


def _call_id(call_id: str, quirks: ChatQuirks) -> str:
    match quirks.call_ids:
        case "mistral":
            return fit_call_id(call_id, max_length=9, is_exact=True)
        case "openai":
            return fit_call_id(call_id, max_length=40)
        case "any":
            return call_id or fit_call_id(call_id, max_length=40)


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": sendable(text)}


def _image_part(image: Image) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}


def _tool(tool: ToolSpec) -> JsonObject:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def _effort(effort: Effort, quirks: ChatQuirks, model: str) -> JsonObject:
    match quirks.effort:
        case "openai":
            return {"reasoning_effort": effort}
        case "basic":
            return {"reasoning_effort": _BASIC_EFFORTS.get(effort, effort)}
        case "thinking":
            return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
        case "mistral":
            # The models without adjustable reasoning refuse the field.
            if not model.lower().startswith("mistral-"):
                return {}
            return {"reasoning_effort": "none" if effort in ("none", "minimal") else "high"}
        case "enable_thinking":
            return {"enable_thinking": effort != "none"}
