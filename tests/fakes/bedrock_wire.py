"""The server side of Amazon Bedrock's ConverseStream: `/model/{model}/converse-stream`.

The format is that of the Bedrock API reference. Events are binary frames, text blocks have no start event, and usage is
the last event. The signatures of requests are not checked here; tests in `tests/providers/bedrock` do that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage
from tests.fakes.turns import Frame, ReceivedRequest, Refusal, Turn, complaint_about, merged
from tests.providers.frames import frame as binary_frame

STOP_WORDS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "model_context_window_exceeded",
    StopReason.REFUSAL: "content_filtered",
    StopReason.PAUSED: "pause_turn",
    StopReason.MALFORMED_CALL: "malformed_tool_use",
    StopReason.UNKNOWN: "something_new",
}
_ERROR_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_REPLY = re.compile(r"/model/(.+)/converse-stream")


class BedrockWire:
    """The server side of the protocol, for `FakeServer`."""

    name = "bedrock"
    newline = "\n"
    suffix = ""
    request_id_header = "x-amzn-requestid"
    stream_type = "application/vnd.amazon.eventstream"

    def render(self, frame: Frame) -> bytes:
        return binary_frame(frame.event, frame.data.encode())

    def is_models(self, path: str) -> bool:
        return path == "/foundation-models"

    def is_reply(self, path: str) -> bool:
        return _REPLY.fullmatch(path) is not None

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def models(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {"modelSummaries": [{"modelId": name, "responseStreamingSupported": True} for name in names]}

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = refusal.code or _ERROR_TYPES.get(refusal.status, "InternalServerException")
        return {"__type": kind, "message": refusal.message}

    def error_frame(self, refusal: Refusal) -> Frame:
        kind = refusal.code or _ERROR_TYPES.get(refusal.status, "internalServerException")
        return Frame(json.dumps({"message": refusal.message}), kind[0].lower() + kind[1:])

    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        body = request.body
        path_match = _REPLY.fullmatch(request.path)
        tools = [item.get("toolSpec") or {} for item in (body.get("toolConfig") or {}).get("tools") or []]
        return ReceivedRequest(
            request.path, request.query, request.headers, body,
            model=path_match[1] if path_match else "", cap=(body.get("inferenceConfig") or {}).get("maxTokens"),
            system="".join(part.get("text", "") for part in body.get("system") or []),
            messages=merged([_message(item) for item in body.get("messages") or []]),
            tools=tuple(tool.get("name", "") for tool in tools),
        )  # fmt: skip

    def complaint(self, request: ReceivedRequest) -> str | None:
        if request.cap is not None and request.cap < 1:
            return "inferenceConfig.maxTokens: must be at least 1"
        if any(
            isinstance(block, Text) and not block.text.strip()
            for message in request.messages
            for block in message.blocks
        ):
            return "the text field in the ContentBlock object is blank"
        return complaint_about(request.messages)

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]:
        frames = [_event("messageStart", role="assistant")]
        for index, (start, deltas) in enumerate(_blocks(turn)):
            if start is not None:
                frames.append(_event("contentBlockStart", contentBlockIndex=index, start=start))
            frames += [_event("contentBlockDelta", contentBlockIndex=index, delta=delta) for delta in deltas]
            frames.append(_event("contentBlockStop", contentBlockIndex=index))
        frames.append(_event("messageStop", "stop", stopReason=turn.stop_word(STOP_WORDS)))
        if turn.usage is not None:
            frames.append(_event("metadata", "usage", usage=_usage(turn.usage), metrics={"latencyMs": 900}))
        return frames


def _event(kind: str, part: Any = "body", **values: Any) -> Frame:
    return Frame(json.dumps(values, ensure_ascii=False), kind, part)


def _blocks(turn: Turn) -> list[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
    blocks: list[tuple[dict[str, Any] | None, list[dict[str, Any]]]] = []
    if turn.reasoning_pieces:
        deltas: list[dict[str, Any]] = [{"reasoningContent": {"text": piece}} for piece in turn.reasoning_pieces]
        blocks.append((None, [*deltas, {"reasoningContent": {"signature": turn.signature}}]))
    if turn.text_pieces:
        blocks.append((None, [{"text": piece} for piece in turn.text_pieces]))
    for number, call in enumerate(turn.calls):
        head = {"toolUse": {"toolUseId": call.call_id or f"tooluse_{number + 1}", "name": call.name}}
        blocks.append((head, [{"toolUse": {"input": piece}} for piece in call.pieces]))
    return blocks


def _usage(usage: Usage) -> dict[str, Any]:
    read, write = usage.cache_read or 0, usage.cache_write or 0
    values = {
        "inputTokens": (usage.input or 0) - read - write,
        "outputTokens": usage.output or 0,
        "totalTokens": (usage.input or 0) + (usage.output or 0),
    }
    if usage.cache_read is not None:
        values["cacheReadInputTokens"] = read
    if usage.cache_write is not None:
        values["cacheWriteInputTokens"] = write
    return values


def _message(raw: Mapping[str, Any]) -> Message:
    blocks = [_block(item) for item in raw.get("content") or [] if "cachePoint" not in item]
    return Message("assistant" if raw.get("role") == "assistant" else "user", tuple(blocks))


def _block(raw: Mapping[str, Any]) -> Block:
    if "toolUse" in raw:
        call = raw["toolUse"]
        return ToolCall(call["toolUseId"], call["name"], json.dumps(call["input"]))
    if "toolResult" in raw:
        result = raw["toolResult"]
        text = "".join(part.get("text", "") for part in result["content"])
        return ToolResult(result["toolUseId"], "", text, result.get("status") == "error")
    if "reasoningContent" in raw:
        return Reasoning((raw["reasoningContent"].get("reasoningText") or {}).get("text", ""))
    return Text(raw["text"]) if "text" in raw else Image("", "")
