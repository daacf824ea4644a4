"""Builds the lines of host mode, with the names of tools, results and fields of Claude Code. Pure.

The Python SDK reads lines of at most `MAX_LINE_CHARS` characters, so long texts in a line are shortened, with a note.
The model and the session get the complete texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from qcode.agent.claude.tool_names import claude_input, claude_name
from qcode.agent.options import Options
from qcode.headless.lines import (
    InitFacts,
    call_input,
    content_block,
    encode,
    facts_of,
    init_line,
    line_without_turn,
)
from qcode.headless.stream import StreamLines
from qcode.protocol import events as ev
from qcode.protocol.approvals import claude_mode
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import TurnEvent
from qcode.protocol.messages import Block, Message, ToolCall
from qcode.protocol.reply import StopReason
from qcode.text.clean import first_chars
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

CLAUDE_CODE_VERSION = "2.1.330"
"""The version of Claude Code whose protocol this implements."""
MAX_LINE_CHARS = 1_000_000
_FIRST_TEXT_LIMIT = 400_000
"""The first limit for the texts of a line that is too long. Each further attempt has a quarter of the limit before."""
_NO_IMAGE = "[an image is left out of this line, which is too long]"
_AGENT_TOOL = "Agent"
_AGENT_TOOL_IN_LISTS = "Task"
"""Claude Code calls this tool by its old name in lists."""
_SUBTYPES = {
    "error_max_tokens": "error_during_execution",
    "error_refusal": "error_during_execution",
    "error_cancelled": "error_during_execution",
    "error_max_tool_calls": "error_max_turns",
    "error_timeout": "error_max_turns",
}


@dataclass(frozen=True, slots=True)
class Names:
    """Translates the names and arguments of calls for the host."""

    folder: str
    """The folder of the session, which makes relative paths absolute."""
    server_tools: Mapping[str, str]
    """Maps the qcode name of each server tool to the name that its server gave it."""

    def tool_name(self, name: str) -> str:
        """Return the name of a tool in calls."""
        return claude_name(name, self.server_tools)

    def list_name(self, name: str) -> str:
        """Return the name in lists of tools and of denied calls."""
        tool_name = self.tool_name(name)
        return _AGENT_TOOL_IN_LISTS if tool_name == _AGENT_TOOL else tool_name

    def input_of(self, call: ToolCall) -> JsonObject:
        """Return the arguments of a call."""
        return claude_input(call.name, call_input(call), self.folder)


class HostLines(StreamLines):
    """The lines of one turn for a host. With `forwards_subagent_text`, they include the text of sub-agents.

    `mode` returns the permission mode in Claude Code's words.
    """

    def __init__(
        self,
        session_id: str,
        model: str,
        names: Names,
        *,
        has_deltas: bool = False,
        parent: str = "",
        forwards_subagent_text: bool = False,
        mode: Callable[[], str],
        max_retries: int = 0,
    ) -> None:
        super().__init__(session_id, model, has_deltas=has_deltas, parent=parent)
        self._names = names
        self._forwards_subagent_text = forwards_subagent_text
        self._mode = mode
        self._max_retries = max_retries
        self._is_compaction_requested = False
        """The user asked for the current compaction."""

    def for_agent(self, call_id: str) -> StreamLines:
        return HostLines(
            self.session_id,
            self.model,
            self._names,
            parent=call_id,
            forwards_subagent_text=self._forwards_subagent_text,
            mode=self._mode,
        )

    def lines(self, event: TurnEvent) -> list[JsonObject]:
        lines = super().lines(event)
        match event:
            case ev.Waiting(seconds=seconds, status=status):
                delay: JsonObject = {"retry_delay_ms": round(seconds * 1000), "max_retries": self._max_retries}
                return [{**line, **delay, "error_status": status} for line in lines]
            case ev.CompactionStarted():
                self._is_compaction_requested = event.cause == "asked"
                return [*lines, self._status("compacting")]
            case ev.Compacted(before_tokens=before):
                trigger = "manual" if self._is_compaction_requested else "auto"
                metadata: JsonObject = {"trigger": trigger, "pre_tokens": before}
                boundary: JsonObject = {"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata}
                return [*lines, self._status(None), self.with_ids(boundary)]
            case _:
                return lines

    def _status(self, status: str | None) -> JsonObject:
        return self.with_ids(status_line(status, self._mode()))

    def block(self, block: Block) -> JsonObject:
        if not isinstance(block, ToolCall):
            return content_block(block)
        name = self._names.tool_name(block.name)
        return {"type": "tool_use", "id": block.call_id, "name": name, "input": self._names.input_of(block)}

    def usage(self, usage: JsonObject) -> JsonObject:
        return without_null_counts(usage)

    def reply(self, event: ev.ReplyFinished) -> list[JsonObject]:
        """Return the lines of a reply, for a sub-agent usually only those of its calls."""
        is_of_subagent = self.parent is not None
        if is_of_subagent and not self._forwards_subagent_text and event.message is not None:
            calls = Message(event.message.role, event.message.calls)
            event = replace(event, message=calls if calls.blocks else None)
        lines = super().reply(event)
        for line in lines:
            if line["type"] != "assistant":
                continue
            if event.stop is StopReason.MAX_TOKENS:
                line["error"] = "max_output_tokens"
            elif event.stop is None:  # the reply was cut off before its stop reason
                line["aborted"] = True
        return lines

    def results(self, message: Message) -> list[JsonObject]:
        """Return a line for each result, because a line has one `tool_use_result`."""
        lines: list[JsonObject] = []
        for result in message.blocks:
            lines += super().results(Message(message.role, (result,)))
        return lines


def status_line(status: str | None, mode: str) -> JsonObject:
    """Return the line with the current activity, if any, and the permission mode in Claude Code's words."""
    return {"type": "system", "subtype": "status", "status": status, "permissionMode": mode}


def host_init(facts: InitFacts, names: Names, mode: str) -> JsonObject:
    """Return the `init` line for a host; `mode` is the permission mode in Claude Code's words."""
    listed = tuple(names.list_name(tool) for tool in facts.tools)
    line = init_line(replace(facts, tools=listed))
    return {**line, "permissionMode": mode, "claude_code_version": CLAUDE_CODE_VERSION}


def host_failure(error: ErrorInfo | None, options: Options) -> bytes:
    """Return the lines of a run that failed before it began; an `error` of None means that it was interrupted."""
    facts = facts_of(options)
    names, mode = Names(facts.cwd, {}), claude_mode(facts.permission_mode)
    result = line_without_turn(error, session_id="")
    return encode(host_init(facts, names, mode)) + encode(host_result(result, names, ()))


def host_result(line: JsonObject, names: Names, uuids: Sequence[str]) -> JsonObject:
    """Return a `result` for a host; `uuids` are the ids of the user messages that it answers.

    `qcode_subtype` is the subtype before the translation. An unknown cost is 0, because hosts format it as a number;
    then `qcode_total_cost_usd` is null.
    """
    kind = str(line["subtype"])
    usage, models, denials = line["usage"], line["modelUsage"], line["permission_denials"]
    assert isinstance(usage, dict)
    assert isinstance(models, dict)
    assert isinstance(denials, list)
    return {
        **line,
        "subtype": _SUBTYPES.get(kind, kind),
        "qcode_subtype": kind,
        "total_cost_usd": line["total_cost_usd"] or 0,
        "qcode_total_cost_usd": line["total_cost_usd"],
        "usage": without_null_counts(usage),
        "modelUsage": {name: without_null_counts(model) for name, model in models.items() if isinstance(model, dict)},
        "permission_denials": [_denial(denial, names) for denial in denials if isinstance(denial, dict)],
        **({"user_message_uuid": uuids[-1], "user_message_uuids": list(uuids)} if uuids else {}),
    }


def _denial(denial: JsonObject, names: Names) -> JsonObject:
    name, arguments = denial["tool_name"], denial["tool_input"]
    assert isinstance(name, str)
    assert isinstance(arguments, dict)
    return {**denial, "tool_name": names.list_name(name), "tool_input": claude_input(name, arguments, names.folder)}


def without_null_counts(usage: JsonObject) -> JsonObject:
    """Return usage with 0 for a count that was not reported, as the types of the SDKs require."""
    return {name: 0 if count is None else count for name, count in usage.items()}


def encode_bounded(line: JsonObject) -> bytes:
    """Return the line as `encode` does, with long texts shortened until it has at most `MAX_LINE_CHARS` characters."""
    data = encode(line)
    limit = _FIRST_TEXT_LIMIT
    while _is_too_long(data) and limit:
        shortened = _shortened(line, limit)
        assert isinstance(shortened, dict)
        data = encode(shortened)
        limit //= 4
    return data


def _is_too_long(data: bytes) -> bool:
    # Bytes first: a line with few enough bytes, which is the usual case, need not be decoded to count its characters.
    return len(data) > MAX_LINE_CHARS and len(data.decode("utf-8", "replace")) > MAX_LINE_CHARS


def _shortened(value: Json, limit: int) -> Json:
    """Return a JSON value with every text shortened to `limit` characters, and without larger images."""
    match value:
        case str() if len(value) > limit:
            return first_chars(value, limit, ", left out of this line")
        case {"type": "image", "source": {"data": str(data)}} if len(data) > limit:
            return {"type": "text", "text": _NO_IMAGE}
        case dict():
            return {name: _shortened(inner, limit) for name, inner in value.items()}
        case list():
            return [_shortened(inner, limit) for inner in value]
        case _:
            return value
