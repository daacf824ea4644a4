"""OpenAI's Responses API as a fake host speaks it: `/v1/responses` and `/v1/models`, stateless and streamed.

The format is the one of OpenAI's API reference. A full context is an error there and no reason to stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.turns import Asked, Call, Frame, Refusal, Turn, complaint_about, merged

STOP_WORDS = {
    StopReason.END_TURN: "completed",
    StopReason.TOOL_USE: "completed",
    StopReason.MAX_TOKENS: "max_output_tokens",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "context_length_exceeded",
    StopReason.REFUSAL: "content_filter",
    StopReason.PAUSED: "pause_turn",
    StopReason.MALFORMED_CALL: "malformed_tool_use",
    StopReason.UNKNOWN: "something_new",
}
_MIN_CAP = 16
_TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."


class ResponsesWire(OpenAIWire):
    """Differs from Chat Completions in everything but addresses of lists, keys and errors."""

    name = "openai-responses"

    def is_reply(self, path: str) -> bool:
        return path == "/v1/responses"

    def error_frame(self, refusal: Refusal) -> Frame:
        error = self.error(refusal)["error"]
        fields = {name: error[name] for name in ("code", "message", "param")}
        return _frame({"type": "error", **fields})

    def read(self, asked: Asked) -> Asked:
        body = asked.body
        messages = [_message(item) for item in _items(body)]
        tools = [tool.get("name", "") for tool in body.get("tools") or []]
        return Asked(
            asked.path, asked.query, asked.headers, body,
            model=body.get("model", ""), cap=body.get("max_output_tokens"), system=body.get("instructions") or "",
            messages=merged(messages), tools=tuple(tools),
        )  # fmt: skip

    def complaint(self, asked: Asked) -> str | None:
        if not asked.model:
            return "you must provide a model parameter"
        if asked.body.get("stream") is not True:
            return "this host only streams"
        if asked.body.get("store") is not False:
            return "this host keeps nothing: set store to false"
        if asked.cap is not None and asked.cap < _MIN_CAP:
            return f"max_output_tokens must be at least {_MIN_CAP}, got {asked.cap}"
        return _complaint_about_reasoning(_items(asked.body)) or complaint_about(asked.messages)

    def frames(self, turn: Turn, asked: Asked) -> list[Frame]:
        response = {"id": "resp_fake", "object": "response", "created_at": 1, "model": asked.model, "output": []}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
        index = 0
        if turn.reasoning_pieces:
            events += _reasoning(index, turn)
            index += 1
        if turn.text_pieces:
            events += _text(index, turn)
            index += 1
        for number, call in enumerate(turn.calls):
            events += _call(index + number, call)
        usage = None if turn.usage is None else _usage(turn.usage)
        last = _last_event(turn.stop_word(STOP_WORDS), {**response, "usage": usage})
        frames = [_frame({**event, "sequence_number": number}) for number, event in enumerate(events)]
        return [*frames, _frame({**last, "sequence_number": len(events)}, part="stop")]


def _frame(event: dict[str, Any], part: Any = "body") -> Frame:
    return Frame(json.dumps(event, ensure_ascii=False), event=event["type"], part=part)


def _item(index: int, before: dict[str, Any], inside: list[dict[str, Any]], after: dict[str, Any]) -> list[Any]:
    """Return the events of one output item: announced, filled, done."""
    place = {"output_index": index, "item_id": before["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**before, "status": "in_progress"}},
        *({**event, **place} for event in inside),
        {"type": "response.output_item.done", "output_index": index, "item": {**before, **after}},
    ]


def _reasoning(index: int, turn: Turn) -> list[Any]:
    deltas = [
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece}
        for piece in turn.reasoning_pieces
    ]
    # Only a finished item contains the reasoning that may be sent back.
    before = {"id": f"rs_{index}", "type": "reasoning", "summary": [], "encrypted_content": "unfinished"}
    summary = [{"type": "summary_text", "text": "".join(turn.reasoning_pieces)}]
    return _item(index, before, deltas, {"summary": summary, "encrypted_content": turn.signature})


def _text(index: int, turn: Turn) -> list[Any]:
    deltas = [
        {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
        for piece in turn.text_pieces
    ]
    before: dict[str, Any] = {"id": f"msg_{index}", "type": "message", "role": "assistant", "content": []}
    content = [{"type": "output_text", "text": "".join(turn.text_pieces), "annotations": []}]
    return _item(index, before, deltas, {"content": content})


def _call(index: int, call: Call) -> list[Any]:
    deltas = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in call.pieces]
    call_id = call.call_id or f"call_{index + 1}"
    before = {"id": f"fc_{index}", "type": "function_call", "call_id": call_id, "name": call.name, "arguments": ""}
    return _item(index, before, deltas, {"arguments": call.arguments})


def _last_event(word: str | None, response: dict[str, Any]) -> dict[str, Any]:
    if word == "completed":
        return {"type": "response.completed", "response": {**response, "status": "completed"}}
    if word == STOP_WORDS[StopReason.CONTEXT_WINDOW_EXCEEDED]:
        error = {"code": word, "message": _TOO_LONG}
        return {"type": "response.failed", "response": {**response, "status": "failed", "error": error}}
    details = None if word is None else {"reason": word}
    return {
        "type": "response.incomplete",
        "response": {**response, "status": "incomplete", "incomplete_details": details},
    }


def _usage(usage: Usage) -> dict[str, Any]:
    sent, made = usage.input or 0, usage.output or 0
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": sent + made,
    }


def _items(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the items of a request; a text alone is a message of the user."""
    sent = body.get("input") or []
    return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent)


def _complaint_about_reasoning(items: list[Mapping[str, Any]]) -> str | None:
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") != "reasoning":
            continue
        if not item.get("encrypted_content") or item["encrypted_content"] == "unfinished":
            return f"item {item.get('id')} was not found: nothing is kept here"
        if following.get("type") not in ("reasoning", "function_call") and following.get("role") != "assistant":
            return f"item {item.get('id')} was provided without the item that must follow it"
    return None


def _message(item: Mapping[str, Any]) -> Message:
    match item.get("type", "message"):
        case "function_call":
            call = ToolCall(str(item.get("call_id")), item.get("name", ""), item.get("arguments", ""))
            return Message("assistant", (call,))
        case "function_call_output":
            return Message("user", (ToolResult(str(item.get("call_id")), "", _text_of(item.get("output"))),))
        case "reasoning":
            return Message("assistant", (Reasoning(_text_of(item.get("summary"))),))
    content = item.get("content")
    blocks: list[Block] = [Text(content)] if isinstance(content, str) else []
    if isinstance(content, list):
        blocks = [Text(part["text"]) if "text" in part else Image("", "") for part in content]
    return Message("assistant" if item.get("role") == "assistant" else "user", tuple(blocks))


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
