"""The server side of OpenAI Chat Completions: `/v1/chat/completions` and `/v1/models`.

The format is that of OpenAI's API reference, with the field `reasoning_content` that DeepSeek and vLLM add.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.turns import Call, Frame, ReceivedRequest, Refusal, Turn, complaint_about, merged

STOP_WORDS = {
    StopReason.END_TURN: "stop",
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "context_length_exceeded",
    StopReason.REFUSAL: "content_filter",
    StopReason.PAUSED: "pause_turn",
    StopReason.MALFORMED_CALL: "malformed_tool_use",
    StopReason.UNKNOWN: "something_new",
}
_TYPES = {401: "invalid_request_error", 403: "permission_error", 404: "invalid_request_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
_CREATED = 1_700_000_000


class OpenAIWire:
    """The server side of the protocol, for `FakeServer`."""

    name = "openai"
    newline = "\n"
    suffix = "/v1"
    request_id_header = "x-request-id"

    def __init__(self, reasoning_field: str = "reasoning_content") -> None:
        self._reasoning_field = reasoning_field
        """The field of a delta that has the reasoning: `reasoning_content` or `reasoning`."""

    def is_models(self, path: str) -> bool:
        return path == "/v1/models"

    def is_reply(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        rows = [{"id": name, "object": "model", "created": _CREATED, "owned_by": "fake"} for name in names]
        return {"object": "list", "data": rows}

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = _TYPES.get(refusal.status, "server_error" if refusal.status >= 500 else "invalid_request_error")
        code = refusal.code or _CODES.get(refusal.status)
        return {"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": code}}

    def error_frame(self, refusal: Refusal) -> Frame:
        return Frame(json.dumps(self.error(refusal)))

    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        body = request.body
        raw = body.get("messages") or []
        system = "\n".join(_text_of(item.get("content")) for item in raw if item.get("role") in ("system", "developer"))
        messages = [_message(item) for item in raw if item.get("role") not in ("system", "developer")]
        tools = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or []]
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        return ReceivedRequest(
            request.path, request.query, request.headers, body,
            model=body.get("model", ""), cap=cap, system=system, messages=merged(messages), tools=tuple(tools),
        )  # fmt: skip

    def complaint(self, request: ReceivedRequest) -> str | None:
        if not request.model:
            return "you must provide a model parameter"
        if request.body.get("stream") is not True:
            return "this host only streams"
        if request.cap is not None and request.cap < 1:
            return f"max_tokens must be at least 1, got {request.cap}"
        return complaint_about(request.messages)

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]:
        wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage"))
        usage = _usage(turn.usage) if turn.usage is not None and wants_usage else None
        word = turn.stop_word(STOP_WORDS)
        frames = [self._chunk(request, {"role": "assistant", "content": ""})]
        frames += [self._chunk(request, {self._reasoning_field: piece}) for piece in turn.reasoning_pieces]
        frames += [self._chunk(request, {"content": piece}) for piece in turn.text_pieces]
        for index, call in enumerate(turn.calls):
            frames += [self._chunk(request, {"tool_calls": [delta]}) for delta in _call_deltas(index, call)]
        early_usage = usage if turn.faults.late_usage is False else None
        frames.append(self._chunk(request, {}, word, usage=early_usage, part="stop"))
        if usage is not None and early_usage is None:
            frames.append(self._chunk(request, None, usage=usage, part="usage"))
        return [*frames, Frame("[DONE]", part="done")]

    def _chunk(
        self,
        request: ReceivedRequest,
        delta: dict[str, Any] | None,
        finish_reason: str | None = None,
        *,
        usage: dict[str, Any] | None = None,
        part: Any = "body",
    ) -> Frame:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk: dict[str, Any] = {
            "id": "chatcmpl-fake",
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": request.model,
            "choices": [] if delta is None else [choice],
        }
        if usage is not None:
            chunk["usage"] = usage
        return Frame(json.dumps(chunk, ensure_ascii=False), part=part)


def _call_deltas(index: int, call: Call) -> list[dict[str, Any]]:
    call_id = call.call_id or f"call_{index + 1}"
    head = {"index": index, "id": call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [head, *({"index": index, "function": {"arguments": piece}} for piece in call.pieces)]


def _usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.input or 0, usage.output or 0
    values: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if usage.cache_read is not None:
        values["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
    if usage.reasoning is not None:
        values["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return values


def _message(raw: Mapping[str, Any]) -> Message:
    if raw.get("role") == "tool":
        return Message("user", (ToolResult(str(raw.get("tool_call_id")), "", _text_of(raw.get("content"))),))
    blocks: list[Block] = []
    content = raw.get("content")
    if isinstance(content, str) and content:
        blocks.append(Text(content))
    elif isinstance(content, list):
        blocks += [Text(part["text"]) if "text" in part else Image("", "") for part in content]
    for call in raw.get("tool_calls") or []:
        function = call.get("function", {})
        blocks.append(ToolCall(str(call.get("id")), function.get("name", ""), function.get("arguments", "")))
    return Message("assistant" if raw.get("role") == "assistant" else "user", tuple(blocks))


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""
