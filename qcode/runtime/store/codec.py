"""Messages and attempts as JSON values and back, without loss for every kind of block.

Reading is strict: whatever does not have the shape written here raises `ValueError`, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeVar, cast, get_args

from qcode.protocol.events import Attempt, AttemptKind
from qcode.protocol.json import Json, JsonObject
from qcode.protocol.messages import (
    Block,
    Image,
    Message,
    Opaque,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from qcode.protocol.usage import Usage

_T = TypeVar("_T", str, int, bool, list[Json], JsonObject)


def message_to_json(message: Message) -> JsonObject:
    return {"role": message.role, "blocks": [block_to_json(block) for block in message.blocks]}


def message_from_json(value: JsonObject) -> Message:
    role = _get(value, "role", str)
    if role not in get_args(Role):
        raise ValueError("no such role")
    blocks = tuple(block_from_json(_object(one)) for one in _get(value, "blocks", list))
    return Message(cast(Role, role), blocks)


def block_to_json(block: Block) -> JsonObject:
    match block:
        case Text(text, opaque):
            return {"type": "text", "text": text, **_opaque(opaque)}
        case Reasoning(text, opaque):
            return {"type": "reasoning", "text": text, **_opaque(opaque)}
        case ToolCall(call_id, name, arguments, opaque):
            return {"type": "call", "call_id": call_id, "name": name, "arguments": arguments, **_opaque(opaque)}
        case ToolResult():
            return _result(block)
        case Image(media_type, data):
            return {"type": "image", "media_type": media_type, "data": data}


def block_from_json(value: JsonObject) -> Block:
    reader = _READERS.get(_get(value, "type", str))
    if reader is None:
        raise ValueError("no such block")
    return reader(value)


def attempt_to_json(attempt: Attempt) -> JsonObject:
    usage: JsonObject = {}
    for one in fields(Usage):
        count = getattr(attempt.usage, one.name)
        if count is not None:
            usage[one.name] = count
    return {
        "kind": attempt.kind,
        "max_tokens": attempt.max_tokens,
        "stop": attempt.stop,
        "usage": usage,
        "is_discarded": attempt.is_discarded,
    }


def attempts_from_json(value: Json) -> tuple[Attempt, ...]:
    """Return the attempts that can be read. They are figures beside a message and never cost the message itself."""
    found = []
    for one in value if isinstance(value, list) else ():
        with suppress(ValueError):
            found.append(_attempt(_object(one)))
    return tuple(found)


def _attempt(value: JsonObject) -> Attempt:
    usage = _get(value, "usage", dict)
    counts = {one.name: _get(usage, one.name, int) for one in fields(Usage) if one.name in usage}
    kind = _get(value, "kind", str)
    if kind not in get_args(AttemptKind):
        raise ValueError("no such attempt")
    facts: dict[str, Any] = {"kind": kind, "usage": Usage(**counts)}
    return Attempt(
        max_tokens=_get(value, "max_tokens", int),
        stop=_get(value, "stop", str),
        is_discarded=_get(value, "is_discarded", bool),
        **facts,
    )


def _opaque(opaque: Opaque | None) -> JsonObject:
    return {} if opaque is None else {"opaque": {"source": opaque.source, "data": opaque.data}}


def _result(block: ToolResult) -> JsonObject:
    found: JsonObject = {
        "type": "result",
        "call_id": block.call_id,
        "name": block.name,
        "content": block.content,
        "is_error": block.is_error,
    }
    if block.images:
        found["images"] = [block_to_json(image) for image in block.images]
    return found


def _read_opaque(value: JsonObject) -> Opaque | None:
    if "opaque" not in value:
        return None
    found = _get(value, "opaque", dict)
    return Opaque(_get(found, "source", str), _get(found, "data", str))


def _read_result(value: JsonObject) -> ToolResult:
    images = tuple(_read_image(_object(one)) for one in _get(value, "images", list)) if "images" in value else ()
    return ToolResult(
        _get(value, "call_id", str),
        _get(value, "name", str),
        _get(value, "content", str),
        _get(value, "is_error", bool),
        images,
    )


def _read_call(value: JsonObject) -> ToolCall:
    return ToolCall(
        _get(value, "call_id", str), _get(value, "name", str), _get(value, "arguments", str), _read_opaque(value)
    )


def _read_image(value: JsonObject) -> Image:
    return Image(_get(value, "media_type", str), _get(value, "data", str))


_READERS: dict[str, Callable[[JsonObject], Block]] = {
    "text": lambda value: Text(_get(value, "text", str), _read_opaque(value)),
    "reasoning": lambda value: Reasoning(_get(value, "text", str), _read_opaque(value)),
    "call": _read_call,
    "result": _read_result,
    "image": _read_image,
}


def _get(value: JsonObject, name: str, kind: type[_T]) -> _T:
    found = value.get(name)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise ValueError(f"{name} is missing or of the wrong kind")
    return found


def _object(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
