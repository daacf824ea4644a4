"""The server side of OpenAI's Responses API: `/v1/responses` and `/v1/models`, stateless and streamed.

The format is that of OpenAI's API reference. A full context window is an error in it, not a stop reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.turns import Call, Frame, ReceivedRequest, Refusal, Turn, complaint_about, merged

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
    """The server side of the protocol, for `FakeServer`.

    The list of models, the keys and the errors are those of Chat Completions.
    """

    name = "openai-responses"

    def is_reply(self, path: str) -> bool:
        return path == "/v1/responses"

    def error_frame(self, refusal: Refusal) -> Frame:
        error = self.error(refusal)["error"]
        fields = {name: error[name] for name in ("code", "message", "param")}
        return _frame({"type": "error", **fields})

    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        body = request.body
        messages = [_message(item) for item in _items(body)]
        tools = [tool.get("name", "") for tool in body.get("tools") or []]
        return ReceivedRequest(
            request.path, request.query, request.headers, body,
            model=body.get("model", ""), cap=body.get("max_output_tokens"), system=body.get("instructions") or "",
            messages=merged(messages), tools=tuple(tools),
        )  # fmt: skip

    def complaint(self, request: ReceivedRequest) -> str | None:
        if not request.model:
            return "you must provide a model parameter"
        if request.body.get("stream") is not True:
            return "this host only streams"
        if request.body.get("store") is not False:
            return "this host keeps nothing: set store to false"
        if request.cap is not None and request.cap < _MIN_CAP:
            return f"max_output_tokens must be at least {_MIN_CAP}, got {request.cap}"
        return _complaint_about_reasoning(_items(request.body)) or complaint_about(request.messages)

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]:
        response = {"id": "resp_fake", "object": "response", "created_at": 1, "model": request.model, "output": []}
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
    """Return the events of one output item: its start, the events `inside` and its end."""
    position = {"output_index": index, "item_id": before["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**before, "status": "in_progress"}},
        *({**event, **position} for event in inside),
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
    input_tokens, output_tokens = usage.input or 0, usage.output or 0
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": input_tokens + output_tokens,
    }


def _items(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the input items of a request. An input that is only a text is a message of the user."""
    items = body.get("input") or []
    return [{"role": "user", "content": items}] if isinstance(items, str) else list(items)


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
