"""The JSON Schemas of pipe mode's output: `result.schema.json` for `-o json`, `stream.schema.json` for stream-json.

`python -m scripts.reference` writes them into `docs/schemas`. Subtypes, reasons, kinds of errors and permission modes
come from the lists in the program. A test validates the lines of real runs, which may not have other fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from qcode.agent import outcomes
from qcode.headless.stream import STOP_REASONS
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.errors import ErrorKind
from qcode.protocol.reply import Outcome, StopReason

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_ANY_OBJECT: Schema = {"type": "object"}
_TIME: Schema = {"type": "string", "format": "date-time"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _one_of(values: Iterable[str | None]) -> Schema:
    return {"enum": list(values)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _counts(names: str) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), _COUNT)


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
        "additionalProperties": False,
    }


def _line(kind: str, fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    ids = {"session_id": _TEXT, "uuid": {"type": "string", "format": "uuid"}}
    return _object({"type": {"const": kind}, **fields, **ids}, optional)


_KINDS = [str(kind) for kind in ErrorKind] + ["denied", "usage", "bad_input", "bad_config"]
_ERROR = _object(
    {"kind": _one_of(_KINDS), "message": _TEXT, "status": _or_null(_COUNT), "request_id": _or_null(_TEXT)},
    {"resets_at": _TIME},
)
_USAGE = _object(
    dict.fromkeys(
        (
            *("input_tokens", "output_tokens", "cache_read_input_tokens"),
            *("cache_creation_input_tokens", "reasoning_tokens"),
        ),
        _or_null(_COUNT),
    )
)
_MODEL_USAGE = _object(
    {
        **_counts("inputTokens outputTokens cacheReadInputTokens cacheCreationInputTokens webSearchRequests"),
        "costUSD": _or_null({"type": "number"}),
        **_counts("contextWindow maxOutputTokens"),
    }
)
_METRICS = _object(
    {},
    {
        **dict.fromkeys(
            (
                *("continuations", "truncated_without_continuation"),
                *("continuation_attempts", "recovered_turn_seconds"),
            ),
            _map({"type": "number"}),
        ),
        "reserved_output_tokens": _COUNT,
        "saved_output_tokens": {"type": "integer"},  # negative if recovery took more than the small cap saved
        "damaged_events": _map({"type": "number"}),
    },
)
_TERMINAL = (
    *("completed", "aborted_streaming", "aborted_tools", "max_turns", "budget_exhausted"),
    *("structured_output_retry_exhausted", "prompt_too_long", "api_error"),
)


def result_schema() -> Schema:
    """Return the schema of the `result` object."""
    outcome = [str(item) for item in Outcome if item is not Outcome.ERROR]
    denial = _object({"tool_name": _TEXT, "tool_use_id": _TEXT, "tool_input": _ANY_OBJECT})
    signal = _object(
        {"tool_name": _TEXT, "arguments": {"type": ["object", "string"]}, "emitted_at": {"type": "number"}}
    )
    calls = _object(_counts("total initial escalations continuations repairs retries"), _counts("compactions"))
    return _line(
        "result",
        {
            "subtype": _one_of(outcomes.SUBTYPES),
            "is_error": _FLAG,
            "result": _TEXT,
            "text": _TEXT,
            "stop_reason": _one_of([*outcome, None]),
            "raw_stop_reason": _or_null(_TEXT),
            **_counts("num_turns duration_ms duration_api_ms"),
            "total_cost_usd": _or_null({"type": "number"}),
            "usage": _USAGE,
            "api_calls": calls,
            "discarded_output_tokens": _COUNT,
            "permission_denials": _list(denial),
            "signals": _list(signal),
            "metrics": _METRICS,
            "error": _or_null(_ERROR),
            "errors": _list(_TEXT),
            "terminal_reason": _one_of(_TERMINAL),
            "api_error_status": _or_null(_COUNT),
            "modelUsage": _map(_MODEL_USAGE),
        },
        {"structured_output": {}, "resets_at": _TIME},
    )


_IMAGE = _object({"type": {"const": "base64"}, "media_type": _TEXT, "data": _TEXT})
_TEXT_BLOCK = _object({"type": {"const": "text"}, "text": _TEXT})
_THINKING = _object({"type": {"const": "thinking"}, "thinking": _TEXT, "signature": _TEXT})
_TOOL_USE = _object({"type": {"const": "tool_use"}, "id": _TEXT, "name": _TEXT, "input": _ANY_OBJECT})
_IMAGE_BLOCK = _object({"type": {"const": "image"}, "source": _IMAGE})
_TOOL_RESULT = _object(
    {
        "type": {"const": "tool_result"},
        "tool_use_id": _TEXT,
        "content": {"anyOf": [_TEXT, _list({"anyOf": [_TEXT_BLOCK, _IMAGE_BLOCK]})]},
        "is_error": _FLAG,
    }
)
_STOP = _one_of([*STOP_REASONS.values(), None])
_MESSAGE = _object(
    {
        "id": _TEXT,
        "type": {"const": "message"},
        "role": {"const": "assistant"},
        "model": _TEXT,
        "content": _list({"anyOf": [_TEXT_BLOCK, _THINKING, _TOOL_USE]}),
        "stop_reason": _STOP,
        "stop_sequence": {"type": "null"},
        "usage": _USAGE,
    }
)
_DELTAS = [
    _object({"type": {"const": f"{kind}_delta"}, field: _TEXT})
    for kind, field in (("text", "text"), ("thinking", "thinking"), ("input_json", "partial_json"))
]
_EVENTS = [
    _object({"type": {"const": "message_start"}, "message": _MESSAGE}),
    _object(
        {
            "type": {"const": "content_block_start"},
            "index": _COUNT,
            "content_block": {"anyOf": [_TEXT_BLOCK, _THINKING, _TOOL_USE]},
        }
    ),
    _object({"type": {"const": "content_block_delta"}, "index": _COUNT, "delta": {"anyOf": _DELTAS}}),
    _object({"type": {"const": "content_block_stop"}, "index": _COUNT}),
    _object(
        {
            "type": {"const": "message_delta"},
            "delta": _object({"stop_reason": _STOP, "stop_sequence": {"type": "null"}}),
            "usage": _USAGE,
        }
    ),
    _object({"type": {"const": "message_stop"}}),
]
_SERVER = _object({"name": _TEXT, "status": _TEXT})
_SOURCE = _object({"url": _TEXT, "title": _TEXT})

SYSTEM: Mapping[str, Mapping[str, Schema]] = {
    "init": {
        "cwd": _TEXT,
        "model": _TEXT,
        **dict.fromkeys(("tools", "slash_commands", "agents", "skills", "plugins"), _list(_TEXT)),
        "mcp_servers": _list(_SERVER),
        "permission_mode": _one_of(get_args(ApprovalMode)),
        **dict.fromkeys(("version", "permissionMode", "apiKeySource", "output_style"), _TEXT),
    },
    "retry": {"is_continuation": _FLAG, "reason": _TEXT, "attempt": _COUNT, "max_tokens": _or_null(_COUNT)},
    "partial_restored": {"text": _TEXT},
    "output_escalated": _counts("from to"),
    "continuation_attempt": {
        **_counts("index"),
        "output_tokens": _or_null(_COUNT),
        "output_chars": _COUNT,
        "tokens_left": _or_null({"type": "integer"}),
    },
    "continuation_terminated": {"reason": _TEXT},
    "tool_payload_repair": {"issue": _TEXT, "attempted": _FLAG, "succeeded": _FLAG},
    "stop_reason_observed": {
        **dict.fromkeys(("provider", "model", "raw"), _TEXT),
        "reason": _one_of(str(item) for item in StopReason),
        **_counts("turn step"),
    },
    "limit_wait": {"resets_at": _or_null(_TIME), "seconds": {"type": "integer"}, "limit": _TEXT, "error": _TEXT},
    "model_fallback": {"from": _TEXT, "to": _TEXT, "error": _or_null(_ERROR)},
    "hook": {
        "hook_event_name": _TEXT,
        "command": _TEXT,
        "tool_use_id": _or_null(_TEXT),
        "exit_code": _or_null({"type": "integer"}),
        "duration_ms": _COUNT,
        "decision": _TEXT,
        "error": _or_null(_TEXT),
    },
    "api_retry": {**_counts("attempt delay_ms"), "error": _TEXT},
    "compact": {"kind": _TEXT, **_counts("tokens_before tokens_after")},
    "web_search": {"queries": _list(_TEXT), "sources": _list(_SOURCE)},
    "notice": {"level": _TEXT, "text": _TEXT},
}
"""The fields of each `system` line, by its subtype."""


def stream_schema() -> Schema:
    """Return the schema of a line of stream-json, in both directions of a prompt without a host."""
    parent = {"parent_tool_use_id": _or_null(_TEXT)}
    user = _object({"role": {"const": "user"}, "content": _list({"anyOf": [_TEXT_BLOCK, _IMAGE_BLOCK, _TOOL_RESULT]})})
    response = {"anyOf": [_ANY_OBJECT, _list(_ANY_OBJECT)]}
    system = [
        _line("system", {"subtype": {"const": name}, **fields}, parent if name != "init" else None)
        for name, fields in SYSTEM.items()
    ]
    lines = [
        *system,
        _line("assistant", {"message": _MESSAGE, **parent}),
        _line("user", {"message": user, **parent}, {"tool_use_result": response}),
        _line("user", {"message": _ANY_OBJECT, **parent, "isReplay": {"const": True}}),
        _line("stream_event", {"event": {"anyOf": _EVENTS}, **parent}),
        result_schema(),
    ]
    return {"anyOf": lines}


def schemas() -> dict[str, str]:
    """Return the content of each file by its name."""
    titles = {
        "result.schema.json": ("The result of qcode -o json", result_schema()),
        "stream.schema.json": ("A line of qcode -o stream-json", stream_schema()),
    }
    return {
        name: json.dumps({"$schema": _DIALECT, "title": title, **schema}, indent=1) + "\n"
        for name, (title, schema) in titles.items()
    }
