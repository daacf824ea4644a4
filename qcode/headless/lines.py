"""Builds `init` and `result` lines, content blocks, and fields of `system` lines. Scripts depend on these formats.

Content blocks and `usage` follow Anthropic's Messages API, because parsers of such streams already exist. The lines of
a turn are in `stream`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qcode import __version__
from qcode.agent.outcomes import incomplete_reason, reported_error, subtype, utc_text
from qcode.protocol import events as ev
from qcode.protocol.approvals import claude_mode
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ApiCalls, Denial, Signal, TurnEnded, TurnEvent
from qcode.protocol.messages import Block, Image, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.reply import Limit, Outcome, WebSearched
from qcode.protocol.usage import Usage
from qcode.text.json import Json, JsonObject, parse_object
from qcode.text.numbers import uuid_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.options import Options, OutputFormat
    from qcode.agent.programs.answer_schema import AnswerSchema, StructuredAnswer

# Some readers also split a line at these characters, so they are written as JSON escapes.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "\u2028\u2029\x85"}
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""Created once: `json.dumps` with options creates an encoder for each line."""


def encode(value: JsonObject) -> bytes:
    """Return one line of UTF-8 JSON. A lone surrogate becomes a JSON escape, because UTF-8 cannot encode it."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        text = text.translate(_ESCAPED)
    return text.encode("utf-8", "backslashreplace") + b"\n"


@dataclass(frozen=True, slots=True)
class InitFacts:
    """The content of the `init` line."""

    session_id: str
    cwd: str
    model: str
    """The model as `provider/model`."""
    tools: tuple[str, ...]
    """The names of the offered tools."""
    permission_mode: str
    version: str
    mcp_servers: tuple[tuple[str, str], ...] = ()
    """Name and status of each tool server."""
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


_NESTING_OF_LINE = 100
"""More levels than a line and the calls that write it need around the arguments of a call."""
_TOO_DEEP = "(nested too deeply)"
_TERMINAL_REASONS: Mapping[str, str] = {
    ErrorKind.STRUCTURED_OUTPUT: "structured_output_retry_exhausted",
    ErrorKind.CONTEXT_OVERFLOW: "prompt_too_long",
}
"""Claude Code's name of an error, by its kind. Every other error is an `api_error`."""


def line_id() -> str:
    """Return a new id for a line or a message."""
    return uuid_text(os.urandom(16))


def replayed_line(line: JsonObject, session_id: str) -> JsonObject:
    """Return the line that confirms an accepted `user` line of the input, with its `uuid`, or a new one."""
    uuid = line.get("uuid")
    return {
        "type": "user",
        "message": line.get("message"),
        "parent_tool_use_id": None,
        "session_id": session_id,
        "uuid": uuid if isinstance(uuid, str) and uuid else line_id(),
        "isReplay": True,
    }


def init_line(facts: InitFacts) -> JsonObject:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": facts.session_id,
        "cwd": facts.cwd,
        "model": facts.model,
        "tools": list(facts.tools),
        "permission_mode": facts.permission_mode,
        "version": facts.version,
        "permissionMode": claude_mode(facts.permission_mode),
        "apiKeySource": "none",
        "mcp_servers": [{"name": name, "status": status} for name, status in facts.mcp_servers],
        "slash_commands": list(facts.commands),
        "agents": list(facts.agents),
        "skills": list(facts.skills),
        "plugins": [],
        "output_style": "default",
        "uuid": line_id(),
    }


def result_line(
    ended: TurnEnded,
    session_id: str,
    schema: AnswerSchema | None = None,
    *,
    duration_ms: int = 0,
    api_ms: int = 0,
    metrics: JsonObject | None = None,
    models: JsonObject | None = None,
    is_in_tools: bool = False,
) -> JsonObject:
    """Return the `result` object: the complete json output, and the last line of stream-json.

    `models` is the usage by model. `is_in_tools`: a call was running when the turn ended.
    """
    kind, error = subtype(ended), reported_error(ended)
    structured = structured_answer(ended, schema)
    return {
        "type": "result",
        "subtype": kind,
        "is_error": kind != "success",
        "result": structured.text if structured else ended.text,
        "text": ended.whole_text,
        "stop_reason": None if ended.outcome is Outcome.ERROR else ended.outcome.value,
        "raw_stop_reason": ended.raw_stop if ended.stop is not None else None,
        "session_id": session_id,
        "num_turns": ended.replies,
        "duration_ms": duration_ms,
        "duration_api_ms": api_ms,
        "total_cost_usd": None if ended.cost is None else float(ended.cost),
        "usage": usage_json(ended.usage),
        "api_calls": _api_calls(ended.api_calls),
        "discarded_output_tokens": ended.discarded_output_tokens,
        "permission_denials": [_denial(denial) for denial in ended.denials],
        "signals": [_signal(sent) for sent in ended.signals],
        "metrics": metrics or {},
        **({} if schema is None else {"structured_output": structured.value if structured else None}),
        "error": None if error is None else _error(error),
        "errors": [] if kind == "success" else [incomplete_reason(ended)],
        "terminal_reason": terminal_reason(ended, is_in_tools=is_in_tools),
        "api_error_status": None if error is None else error.status,
        "modelUsage": models or {},
        "uuid": line_id(),
        **({"resets_at": _reset_time(error)} if error is not None and error.resets_at else {}),
    }


def terminal_reason(ended: TurnEnded, *, is_in_tools: bool) -> str:
    """Return why the turn ended, in the words of Claude Code."""
    match ended.outcome:
        case Outcome.CANCELLED:
            return "aborted_tools" if is_in_tools else "aborted_streaming"
        case Outcome.MAX_TURN_REQUESTS:
            return "budget_exhausted" if ended.limit is Limit.COST else "max_turns"
        case Outcome.ERROR:
            kind = ended.error.kind if ended.error is not None else ""
            return _TERMINAL_REASONS.get(kind, "api_error")
        case _:
            return "completed"


def _signal(sent: Signal) -> JsonObject:
    return {"tool_name": sent.name, "arguments": signal_arguments(sent), "emitted_at": sent.emitted_at}


def signal_arguments(sent: Signal) -> Json:
    """Return the arguments of a signal: an object, or text if they are not an object that JSON can represent."""
    if isinstance(sent.arguments, str) or _is_representable(sent.arguments):
        return sent.arguments
    try:
        return json.dumps(sent.arguments)  # with `Infinity`
    except RecursionError:
        return _TOO_DEEP


def structured_answer(ended: TurnEnded, schema: AnswerSchema | None) -> StructuredAnswer | None:
    """Return the parsed answer of a turn; None without a schema, or if the turn was not completed."""
    return schema.read(ended.text) if schema is not None and subtype(ended) == "success" else None


def result_without_turn(error: ErrorInfo | None, options: Options | None, format: OutputFormat) -> bytes:
    """Return the output of a run that failed before it began; an `error` of None means that it was interrupted.

    The output is empty in text mode. `options` is None if the command line is invalid.
    """
    if format == "text":
        return b""
    result = encode(line_without_turn(error, session_id=""))
    return result if format == "json" else encode(init_line(facts_of(options))) + result


def facts_of(options: Options | None) -> InitFacts:
    """Return the facts about a run that has not begun."""
    model = options.model_name if options is not None else ""
    mode = options.permission_mode if options is not None else None
    try:
        cwd = str(Path.cwd())
    except OSError:
        cwd = ""
    return InitFacts("", cwd, model, (), mode or "default", __version__)


def line_without_turn(error: ErrorInfo | None, session_id: str) -> JsonObject:
    """Return the `result` of a turn that never started; an `error` of None means that it was interrupted."""
    outcome = Outcome.CANCELLED if error is None else Outcome.ERROR
    ended = TurnEnded.without_reply(outcome, error=error)
    return result_line(ended, session_id)


def content_block(block: Block) -> JsonObject:
    """Return a block in the form of Anthropic's API. The signature of thinking is empty."""
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning(text=text):
            return {"type": "thinking", "thinking": text, "signature": ""}
        case ToolCall():
            return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": call_input(block)}
        case ToolResult():
            return {
                "type": "tool_result",
                "tool_use_id": block.call_id,
                "content": _result_content(block),
                "is_error": block.is_error,
            }
        case Image():
            return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": block.data}}


def _result_content(result: ToolResult) -> Json:
    if not result.images:
        return result.content
    return [{"type": "text", "text": result.content}, *(content_block(image) for image in result.images)]


def system_fields(event: TurnEvent) -> JsonObject | None:
    """Return the fields of the `system` line for an event, None if it has no such line."""
    fields = _recovery_fields(event)
    return _other_fields(event) if fields is None else fields


def _recovery_fields(event: TurnEvent) -> JsonObject | None:
    match event:
        case ev.Retry():
            return {
                "subtype": "retry",
                "is_continuation": event.is_continuation,
                "reason": event.reason,
                "attempt": event.attempt,
                "max_tokens": event.max_tokens,
            }
        case ev.PartialRestored(text=text):
            return {"subtype": "partial_restored", "text": text}
        case ev.OutputEscalated():
            return {"subtype": "output_escalated", "from": event.from_tokens, "to": event.to_tokens}
        case ev.ContinuationAttempt():
            return {
                "subtype": "continuation_attempt",
                "index": event.index,
                "output_tokens": event.output_tokens,
                "output_chars": event.output_chars,
                "tokens_left": event.tokens_left,
            }
        case ev.ContinuationTerminated(reason=reason):
            return {"subtype": "continuation_terminated", "reason": reason}
        case ev.ToolPayloadRepair():
            return {
                "subtype": "tool_payload_repair",
                "issue": event.issue,
                "attempted": event.attempted,
                "succeeded": event.succeeded,
            }
        case _:
            return None


def _other_fields(event: TurnEvent) -> JsonObject | None:
    match event:
        case ev.Waiting():
            delay = round(event.seconds * 1000)
            return {"subtype": "api_retry", "attempt": event.attempt, "delay_ms": delay, "error": event.reason}
        case ev.ModelFellBack(error=failure):
            why = None if failure is None else _error(failure)
            return {"subtype": "model_fallback", "from": event.from_model, "to": event.to_model, "error": why}
        case ev.LimitReached(error=error):
            return {
                "subtype": "limit_wait",
                "resets_at": _reset_time(error),
                "seconds": round(event.seconds),
                "limit": error.period,
                "error": error.message,
            }
        case ev.Compacted():
            return {
                "subtype": "compact",
                "kind": event.kind,
                "tokens_before": event.before_tokens,
                "tokens_after": event.after_tokens,
            }
        case WebSearched():
            sources: list[Json] = [{"url": source.url, "title": source.title} for source in event.sources]
            return {"subtype": "web_search", "queries": list(event.queries), "sources": sources}
        case ev.Notice():
            return {"subtype": "notice", "level": event.level, "text": event.text}
        case ev.HookEnded():
            return _hook(event)
        case ev.StopReasonObserved():
            return {
                "subtype": "stop_reason_observed",
                "provider": event.provider,
                "model": event.model,
                "reason": event.reason.value,
                "raw": event.raw,
                "turn": event.turn,
                "step": event.step,
            }
        case _:
            return None


def _hook(event: ev.HookEnded) -> JsonObject:
    return {
        "subtype": "hook",
        "hook_event_name": event.hook,
        "command": event.command,
        "tool_use_id": event.tool_use_id or None,
        "exit_code": event.exit_code,
        "duration_ms": round(event.seconds * 1000),
        "decision": event.decision,
        "error": event.failure or None,
    }


def usage_json(usage: Usage) -> JsonObject:
    """Return usage with Anthropic's names: `input_tokens` excludes the two cache fields; null means not reported."""
    cached = (usage.cache_read or 0) + (usage.cache_write or 0)
    return {
        "input_tokens": None if usage.input is None else max(0, usage.input - cached),
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
    }


def _api_calls(calls: ApiCalls) -> JsonObject:
    return {
        "total": calls.total,
        "initial": calls.initial,
        "escalations": calls.escalations,
        "continuations": calls.continuations,
        "repairs": calls.repairs,
        "retries": calls.retries,
        **({"compactions": calls.compactions} if calls.compactions else {}),
    }


def _denial(denial: Denial) -> JsonObject:
    call = denial.call
    return {"tool_name": call.name, "tool_use_id": call.call_id, "tool_input": call_input(call)}


def _error(error: ErrorInfo) -> JsonObject:
    return {
        "kind": str(error.kind),
        "message": error.message,
        "status": error.status,
        "request_id": error.request_id,
        **({"resets_at": _reset_time(error)} if error.resets_at else {}),
    }


def _reset_time(error: ErrorInfo) -> str | None:
    return None if error.resets_at is None else utc_text(error.resets_at)


def call_input(call: ToolCall) -> JsonObject:
    """Return the arguments of a call. Text that is not an object that JSON can represent is in the field `raw`."""
    value = parse_object(call.arguments or "{}")
    return {"raw": call.arguments} if value is None or not _is_representable(value) else value


def _is_representable(value: JsonObject) -> bool:
    """Return whether a line can contain the object.

    `{"n": 1e999}` is parsed as infinity, which JSON cannot represent. An object that is nested too deeply for Python
    cannot be written. The line nests it more deeply, and may be written from a deeper call.
    """
    in_line: Json = value
    for _ in range(_NESTING_OF_LINE):
        in_line = [in_line]
    try:
        json.dumps(in_line, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True
