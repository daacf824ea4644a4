"""The server side of Gemini: `models/{model}:streamGenerateContent?alt=sse` and the models list, v1 and v1beta.

The format is that of the Gemini API reference: events end with CRLF, no end marker follows, usage is on every chunk,
and thinking tokens are counted apart from the candidates. A call is one event, so a truncated call is never sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from qcode.text.json import parse_object
from tests.fakes.turns import Frame, ReceivedRequest, Refusal, Turn, complaint_about, merged

STOP_WORDS = {
    StopReason.END_TURN: "STOP",
    StopReason.TOOL_USE: "STOP",
    StopReason.MAX_TOKENS: "MAX_TOKENS",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "OTHER",
    StopReason.REFUSAL: "SAFETY",
    StopReason.PAUSED: "OTHER",
    StopReason.MALFORMED_CALL: "MALFORMED_FUNCTION_CALL",
    StopReason.UNKNOWN: "SOMETHING_NEW",
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_REPLY = re.compile(r"/v1(?:beta)?/models/([^/:]+):streamGenerateContent")


class GeminiWire:
    """The server side of the protocol, for `FakeServer`."""

    name = "gemini"
    newline = "\r\n"
    suffix = ""
    request_id_header = "x-request-id"

    def is_models(self, path: str) -> bool:
        return path in ("/v1/models", "/v1beta/models")

    def is_reply(self, path: str) -> bool:
        return _REPLY.fullmatch(path) is not None

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("x-goog-api-key") or query.get("key", "")

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        rows = [
            {
                "name": f"models/{name}",
                "displayName": name,
                "inputTokenLimit": 1_048_576,
                "outputTokenLimit": 65_536,
                "supportedGenerationMethods": ["generateContent"],
            }
            for name in names
        ]
        return {"models": rows}

    def error(self, refusal: Refusal) -> dict[str, Any]:
        status = refusal.code or _STATUS.get(refusal.status, "UNKNOWN")
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def error_frame(self, refusal: Refusal) -> Frame:
        return Frame(json.dumps(self.error(refusal)))

    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        body = request.body
        path_match = _REPLY.fullmatch(request.path)
        config = body.get("generationConfig") or {}
        system = "".join(part.get("text", "") for part in (body.get("systemInstruction") or {}).get("parts", []))
        declared = [item for tool in body.get("tools") or [] for item in tool.get("functionDeclarations") or []]
        return ReceivedRequest(
            request.path, request.query, request.headers, body,
            model=path_match[1] if path_match else "", cap=config.get("maxOutputTokens"), system=system,
            messages=_messages(body.get("contents") or []), tools=tuple(item["name"] for item in declared),
        )  # fmt: skip

    def complaint(self, request: ReceivedRequest) -> str | None:
        if request.query.get("alt") != "sse":
            return "this host only streams server-sent events"
        if request.cap is not None and request.cap < 1:
            return f"maxOutputTokens must be positive, got {request.cap}"
        return complaint_about(request.messages)

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]:
        usage = _usage(turn.usage)
        has_late_usage = bool(turn.faults.late_usage)
        running_usage = None if turn.usage is None or has_late_usage else {"promptTokenCount": turn.usage.input or 0}
        frames = [_chunk(request, [{"text": piece, "thought": True}], running_usage) for piece in turn.reasoning_pieces]
        frames += [_chunk(request, [{"text": piece}], running_usage) for piece in turn.text_pieces]
        parsed = [(call, parse_object(call.arguments)) for call in turn.calls]
        for number, (call, arguments) in enumerate(parsed):
            if arguments is None:
                continue  # a truncated call
            function: dict[str, Any] = {"name": call.name, "args": arguments}
            if call.call_id:
                function["id"] = call.call_id
            part: dict[str, Any] = {"functionCall": function}
            if number == 0:
                part["thoughtSignature"] = turn.signature
            frames.append(_chunk(request, [part], running_usage))
        ending_usage = None if has_late_usage else usage
        frames.append(_chunk(request, [{"text": ""}], ending_usage, turn.stop_word(STOP_WORDS), "stop"))
        if has_late_usage and usage:
            frames.append(_chunk(request, None, usage, part="usage"))
        return frames


def _chunk(
    request: ReceivedRequest,
    parts: list[dict[str, Any]] | None,
    usage: dict[str, Any] | None,
    finish_reason: str | None = None,
    part: Any = "body",
) -> Frame:
    chunk: dict[str, Any] = {"modelVersion": request.model, "responseId": "fake-response"}
    if parts is not None:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish_reason is not None:
            candidate["finishReason"] = finish_reason
        chunk["candidates"] = [candidate]
    if usage:
        chunk["usageMetadata"] = usage
    return Frame(json.dumps(chunk, ensure_ascii=False), part=part)


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    thoughts = usage.reasoning or 0
    values = {
        "promptTokenCount": usage.input or 0,
        "candidatesTokenCount": (usage.output or 0) - thoughts,
        "totalTokenCount": (usage.input or 0) + (usage.output or 0),
    }
    if usage.reasoning is not None:
        values["thoughtsTokenCount"] = thoughts
    if usage.cache_read is not None:
        values["cachedContentTokenCount"] = usage.cache_read
    return values


def _messages(contents: list[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return `contents`; a call without an id gets one from its position, and so does its response."""
    messages: list[Message] = []
    for number, content in enumerate(contents):
        role = "assistant" if content.get("role") == "model" else "user"
        first = number if role == "assistant" else number - 1
        blocks: list[Block] = []
        counts = {"functionCall": 0, "functionResponse": 0}
        for part in content.get("parts") or []:
            kind = next((count for count in counts if count in part), "")
            blocks.append(_block(part, f"{first}-{counts.get(kind, 0)}"))
            if kind:
                counts[kind] += 1
        messages.append(Message("assistant" if role == "assistant" else "user", tuple(blocks)))
    return merged(messages)


def _block(part: Mapping[str, Any], generated_id: str) -> Block:
    if "functionCall" in part:
        call = part["functionCall"]
        return ToolCall(call.get("id") or generated_id, call["name"], json.dumps(call.get("args") or {}))
    if "functionResponse" in part:
        answer = part["functionResponse"]
        response = answer.get("response") or {}
        content = response.get("output", response.get("result", response.get("error")))
        text = content if isinstance(content, str) else json.dumps(response)
        return ToolResult(answer.get("id") or generated_id, answer["name"], text, "error" in response)
    if part.get("thought"):
        return Reasoning(part.get("text", ""))
    return Text(part["text"]) if "text" in part else Image("", "")
