"""Redacts messages: removes secrets from every text in them and keeps their shape. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from qcode.protocol.messages import Block, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.text.json import Json, parse_object


def redacted(message: Message, redact: Callable[[str], str]) -> Message:
    return replace(message, blocks=tuple(redacted_block(block, redact) for block in message.blocks))


def redacted_block(block: Block, redact: Callable[[str], str]) -> Block:
    match block:
        case Text() | Reasoning():
            return replace(block, text=redact(block.text))
        case ToolCall():
            return redacted_call(block, redact)
        case ToolResult():
            return replace(block, content=redact(block.content))
        case _:
            return block


def redacted_call(call: ToolCall, redact: Callable[[str], str]) -> ToolCall:
    """Redact arguments so that they stay valid JSON: as text if possible, otherwise value by value."""
    text = redact(call.arguments)
    found = parse_object(call.arguments)
    if text != call.arguments and found is not None and parse_object(text) is None:
        text = json.dumps(_redacted_json(found, redact), ensure_ascii=False)
    return replace(call, arguments=text)


def _redacted_json(value: Json, redact: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted_json(one, redact) for one in value]
    if isinstance(value, dict):
        return {redact(name): _redacted_json(one, redact) for name, one in value.items()}
    return value
