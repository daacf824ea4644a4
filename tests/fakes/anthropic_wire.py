"""The server side of Anthropic Messages: `/v1/messages` and `/v1/models`.

The format is that of Anthropic's API reference. `input_tokens` excludes tokens read from or written to the cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.turns import Frame, ReceivedRequest, Refusal, Turn, complaint_about, merged

STOP_WORDS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "model_context_window_exceeded",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSED: "pause_turn",
    StopReason.MALFORMED_CALL: "malformed_tool_use",
    StopReason.UNKNOWN: "something_new",
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicWire:
    """The server side of the protocol, for `FakeServer`."""

    name = "anthropic"
    newline = "\n"
    suffix = ""
    request_id_header = "request-id"

    def __init__(self, *, prefill: bool = True) -> None:
        self._prefill = prefill
        """A request may end with an assistant message. Current Claude models refuse that."""

    def is_models(self, path: str) -> bool:
        return path == "/v1/models"

    def is_reply(self, path: str) -> bool:
        return path == "/v1/messages"

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        rows = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2025-01-01T00:00:00Z",
                "lifecycle": "active",
                "max_input_tokens": 200_000,
                "max_tokens": 64_000,
            }
            for name in names
        ]
        ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
        return {"data": rows, "has_more": False, **ends}

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.code or _TYPES.get(refusal.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": "req_fake"}

    def error_frame(self, refusal: Refusal) -> Frame:
        return Frame(json.dumps(self.error(refusal)), "error")

    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        body = request.body
        messages = merged([_message(item) for item in body.get("messages") or []])
        tools = tuple(tool.get("name", "") for tool in body.get("tools") or [])
        return ReceivedRequest(
            request.path, request.query, request.headers, body,
            model=body.get("model", ""), cap=body.get("max_tokens"), system=_text_of(body.get("system")),
            messages=messages, tools=tools,
        )  # fmt: skip

    def complaint(self, request: ReceivedRequest) -> str | None:
        if request.cap is None:
            return "max_tokens: field required"
        if request.cap < 1:
            return "max_tokens: must be greater than or equal to 1"
        if request.body.get("stream") is not True:
            return "this host only streams"
        thinking = (request.body.get("thinking") or {}).get("budget_tokens")
        if thinking is not None and thinking >= request.cap:
            return "max_tokens must be greater than thinking.budget_tokens"
        for message in request.messages:
            if any(isinstance(block, Text) and not block.text.strip() for block in message.blocks):
                return "messages: text content blocks must contain non-whitespace text"
        last = request.messages[-1] if request.messages else None
        if last and last.role == "assistant" and not self._prefill:
            return "this model does not support prefilling assistant messages"
        if last and last.role == "assistant" and last.text != last.text.rstrip():
            return "messages: final assistant content cannot end with trailing whitespace"
        return complaint_about(request.messages)

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]:
        usage = _usage(turn.usage)
        start: dict[str, Any] = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage, "output_tokens": 1} if usage else {"input_tokens": 0, "output_tokens": 0},
        }
        frames = [_event("message_start", message=start), _event("ping")]
        for index, (block, deltas) in enumerate(_blocks(turn)):
            frames.append(_event("content_block_start", index=index, content_block=block))
            frames += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            frames.append(_event("content_block_stop", index=index))
        ending = {"stop_reason": turn.stop_word(STOP_WORDS), "stop_sequence": None}
        if turn.faults.late_usage and usage:
            frames.append(_event("message_delta", "stop", delta=ending, usage={"output_tokens": 1}))
            frames.append(_event("message_delta", "usage", delta={}, usage=usage))
        else:
            frames.append(_event("message_delta", "stop", delta=ending, usage=usage or {"output_tokens": 0}))
        return [*frames, _event("message_stop", "done")]


def _event(kind: str, part: Any = "body", **values: Any) -> Frame:
    return Frame(json.dumps({"type": kind, **values}, ensure_ascii=False), kind, part)


def _blocks(turn: Turn) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if turn.reasoning_pieces:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in turn.reasoning_pieces]
        deltas.append({"type": "signature_delta", "signature": turn.signature})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if turn.text_pieces:
        deltas = [{"type": "text_delta", "text": piece} for piece in turn.text_pieces]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for number, call in enumerate(turn.calls):
        head = {"type": "tool_use", "id": call.call_id or f"toolu_{number + 1}", "name": call.name, "input": {}}
        pieces = ("", *(call.pieces if call.arguments != "{}" else ()))
        blocks.append((head, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    return blocks


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    read, write = usage.cache_read or 0, usage.cache_write or 0
    values: dict[str, Any] = {
        "input_tokens": (usage.input or 0) - read - write,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": usage.output or 0,
    }
    if usage.reasoning is not None:
        values["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return values


def _message(raw: Mapping[str, Any]) -> Message:
    content = raw.get("content")
    if isinstance(content, str):
        return Message(raw["role"], (Text(content),))
    return Message(raw["role"], tuple(_block(item) for item in content or []))


def _block(raw: Mapping[str, Any]) -> Block:
    kind = raw.get("type")
    if kind == "tool_use":
        return ToolCall(raw["id"], raw["name"], json.dumps(raw["input"]))
    if kind == "tool_result":
        return ToolResult(raw["tool_use_id"], "", _text_of(raw.get("content")), bool(raw.get("is_error")))
    if kind in ("thinking", "redacted_thinking"):
        return Reasoning(raw.get("thinking", ""))
    return Text(raw["text"]) if kind == "text" else Image("", "")


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
