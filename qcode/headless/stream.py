"""Converts the events of a turn to lines of stream-json, in the form of Anthropic's API.

`StreamLines` keeps the state that several lines share: the id of a message, its open block, the outcomes of its calls.
The content of blocks, `usage` and the result are in `lines`. Text and json output do not load this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from qcode.headless.lines import call_input, content_block, line_id, system_fields, usage_json
from qcode.protocol import events as ev
from qcode.protocol.events import TurnEvent
from qcode.protocol.messages import PLACEHOLDER_KEY, Block, Message, Text, ToolCall, ToolResult
from qcode.protocol.reply import ReasoningDelta, StopReason, TextDelta
from qcode.protocol.usage import Usage
from qcode.text.json import Json, JsonObject

STOP_REASONS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_WINDOW_EXCEEDED: "model_context_window_exceeded",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSED: "pause_turn",
}
"""Stop reasons as Anthropic's API names them. Its API has no name for the others."""


class StreamLines:
    """Converts the events of one turn to lines. `lines` must get every event.

    `parent` is the id of the call that started the sub-agent, empty for the main conversation.
    """

    def __init__(self, session_id: str, model: str, *, has_deltas: bool = False, parent: str = "") -> None:
        self.session_id = session_id
        self.model = model
        self._has_deltas = has_deltas
        self.parent = parent or None
        self._message = _MessageEvents(model, lambda: self.usage(usage_json(Usage())))
        self._finished_tools: dict[str, ev.ToolFinished] = {}
        self._agents: dict[str, StreamLines] = {}

    def lines(self, event: TurnEvent) -> list[JsonObject]:
        """Return the lines for an event; most events have one or none."""
        match event:
            case TextDelta() | ReasoningDelta():
                return self._stream_events(self._message.delta(event)) if self._has_deltas else []
            case ev.ReplyFinished():
                return self.reply(event)
            case ev.ResultsCommitted(message=message):
                return self.results(message)
            case ev.SteeringAdded(text=text):
                return [self._user([content_block(Text(text))])]
            case ev.AgentEvent():
                return self._agent_lines(event)
            case _:
                self._update_state(event)
                fields = system_fields(event)
                return [] if fields is None else [self.with_ids({"type": "system", **fields})]

    def _update_state(self, event: TurnEvent) -> None:
        match event:
            case ev.StepStarted() | ev.Retry(is_continuation=False):
                self._message.discard()
            case ev.ToolFinished():
                self._finished_tools[event.call.call_id] = event
            case ev.ModelFellBack(to_model=model):
                self.model = self._message.model = model
            case _:
                pass

    def with_ids(self, line: JsonObject) -> JsonObject:
        """Return the line with the ids that every line has."""
        return {**line, "session_id": self.session_id, "uuid": line_id()}

    def _stream_events(self, events: list[JsonObject]) -> list[JsonObject]:
        return [
            self.with_ids({"type": "stream_event", "event": event, "parent_tool_use_id": self.parent})
            for event in events
        ]

    def reply(self, event: ev.ReplyFinished) -> list[JsonObject]:
        """Return the lines for a finished reply."""
        message = event.message
        if message is None:
            self._message.discard()
            return []
        stop = STOP_REASONS.get(event.stop) if event.stop is not None else None
        usage = self.usage(usage_json(reply_usage(event.attempts)))
        content: list[Json] = [self.block(block) for block in message.blocks]
        streamed: list[JsonObject] = []
        if self._has_deltas:
            # A truncated call has no arguments to stream, and was never run.
            complete: list[Json] = [self.block(block) for block in message.blocks if not is_truncated(block)]
            streamed = self._message.end(complete, stop, usage)
        line = self.with_ids(
            {
                "type": "assistant",
                "message": self._message.envelope(content, stop, usage),
                "parent_tool_use_id": self.parent,
            }
        )
        self._message.discard()
        return [*self._stream_events(streamed), line]

    def block(self, block: Block) -> JsonObject:
        """Return a block in the form of Anthropic's API. `HostLines` overrides this to rename the tools."""
        return content_block(block)

    def usage(self, usage: JsonObject) -> JsonObject:
        """Return the usage of a line. `HostLines` overrides this to remove unknown counts."""
        return usage

    def results(self, message: Message) -> list[JsonObject]:
        """Return the lines for the results of a step."""
        responses: list[Json] = []
        for block in message.blocks:
            response = self._tool_response(block) if isinstance(block, ToolResult) else None
            if response is not None:
                responses.append(response)
        line = self._user([self.block(block) for block in message.blocks])
        if responses:
            line["tool_use_result"] = responses[0] if len(responses) == 1 else responses
        return [line]

    def _tool_response(self, result: ToolResult) -> Json:
        """Return the result of a call in the form of Claude Code's tools; None if the call never ran."""
        finished = self._finished_tools.pop(result.call_id, None)
        return None if finished is None else tool_response(finished)

    def _user(self, content: list[Json]) -> JsonObject:
        return self.with_ids(
            {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": self.parent}
        )

    def _agent_lines(self, event: ev.AgentEvent) -> list[JsonObject]:
        """Return the lines for an event of a sub-agent. Its deltas are not sent, so retries need no line either."""
        inner, call_id = event.event, event.call_id
        if call_id not in self._agents:
            self._agents[call_id] = self.for_agent(call_id)
        agent = self._agents[call_id]
        match inner:
            case ev.TurnStarted(prompt=prompt):
                return [agent._user([content_block(Text(prompt))])]
            case ev.Retry() | ev.PartialRestored():
                return []
            case ev.TurnEnded():
                del self._agents[call_id]
                return []
            case _:
                # A `system` line has no parent otherwise.
                return [{**line, "parent_tool_use_id": call_id} for line in agent.lines(inner)]

    def for_agent(self, call_id: str) -> StreamLines:
        """Return the lines of a sub-agent that a call started."""
        return StreamLines(self.session_id, self.model, parent=call_id)


class _MessageEvents:
    """Builds the stream events of one message, and tracks its open block and its block numbers."""

    def __init__(self, model: str, no_usage: Callable[[], JsonObject]) -> None:
        self.model = model
        self._no_usage = no_usage
        self.discard()

    def discard(self) -> None:
        """Begin a new message. The message before is complete, or a retry replaces it."""
        self._id = f"msg_{line_id().replace('-', '')}"
        self._is_started = False
        self._open_block: tuple[int, str] | None = None
        """The number of the open block in the events of the reply, and its kind."""
        self._index = -1
        """The number of the last block in the lines."""

    def envelope(self, content: list[Json], stop: str | None, usage: JsonObject) -> JsonObject:
        """Return a message in the form of Anthropic's API."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def delta(self, event: TextDelta | ReasoningDelta) -> list[JsonObject]:
        """Return the stream event for a delta, preceded by those that start its message or block if it is the first."""
        kind = "text" if isinstance(event, TextDelta) else "thinking"
        delta: JsonObject = {"type": f"{kind}_delta", kind: event.text}
        if self._open_block == (event.block, kind):
            return [self._block_delta(delta)]
        empty: JsonObject = {"type": kind, kind: ""}
        if kind == "thinking":
            empty["signature"] = ""
        opening = [*self._message_start(), *self._block_stop(), self._block_start(empty)]
        self._open_block = (event.block, kind)
        return [*opening, self._block_delta(delta)]

    def end(self, content: Sequence[Json], stop: str | None, usage: JsonObject) -> list[JsonObject]:
        """Return the events for the tool calls, each with its complete arguments, and for the end of the message."""
        events = [*self._message_start(), *self._block_stop()]
        for block in content:
            if isinstance(block, dict) and block["type"] == "tool_use":
                arguments = json.dumps(block["input"], ensure_ascii=False)
                delta: JsonObject = {"type": "input_json_delta", "partial_json": arguments}
                events.append(self._block_start({**block, "input": {}}))
                events += [self._block_delta(delta), {"type": "content_block_stop", "index": self._index}]
        ending: JsonObject = {"stop_reason": stop, "stop_sequence": None}
        return [
            *events,
            {"type": "message_delta", "delta": ending, "usage": usage},
            {"type": "message_stop"},
        ]

    def _message_start(self) -> list[JsonObject]:
        """Return the event that starts the message; nothing if it was returned already."""
        if self._is_started:
            return []
        self._is_started = True
        return [{"type": "message_start", "message": self.envelope([], None, self._no_usage())}]

    def _block_start(self, block: JsonObject) -> JsonObject:
        self._index += 1
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _block_delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _block_stop(self) -> list[JsonObject]:
        """Return the event that ends the block with deltas; nothing if there is none."""
        if self._open_block is None:
            return []
        self._open_block = None
        return [{"type": "content_block_stop", "index": self._index}]


def is_truncated(block: Block) -> bool:
    """Return whether a block is a truncated call, which has placeholder arguments."""
    return isinstance(block, ToolCall) and PLACEHOLDER_KEY in call_input(block)


def reply_usage(attempts: Sequence[ev.AttemptRecord]) -> Usage:
    """Return the usage of a reply as if one request had produced it: the input of the last attempt, all output.

    Discarded attempts do not count.
    """
    used = [attempt for attempt in attempts if not attempt.is_discarded]
    if not used:
        return Usage()
    total = sum((attempt.usage for attempt in used), Usage())
    last = used[-1].usage
    return Usage(last.input, total.output, last.cache_read, last.cache_write, total.reasoning)


def tool_response(finished: ev.ToolFinished) -> JsonObject:
    """Return the result of a call in the form of Claude Code's tools."""
    call, outcome = finished.call, finished.outcome
    text = outcome.shown_text
    if call.name == "shell":
        return {"stdout": text, "stderr": "", "interrupted": finished.state == "cancelled", "isImage": False}
    if call.name in ("write", "edit", "multi_edit"):
        return {"filePath": call_input(call).get("path"), "success": not outcome.is_error}
    return {"content": outcome.content}
