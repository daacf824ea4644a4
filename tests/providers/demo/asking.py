"""How these tests talk to the demo model: requests from messages, and a reply collected from its events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from qcode.protocol.messages import Block, Message, Text, ToolCall, ToolResult, assistant
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.demo.provider import DemoProvider

TOOLS = tuple(
    ToolSpec(name, f"The {name} tool.", {})
    for name in ("read", "write", "edit", "glob", "grep", "ls", "shell", "exit_plan_mode", "ask_person", "todo")
)
UNCUT = 1_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    events: tuple[ReplyEvent, ...]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def arguments(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ToolArgsDelta))

    @property
    def call(self) -> ToolCall:
        """The one call of the reply."""
        (started,) = (event for event in self.events if isinstance(event, ToolCallStarted))
        return ToolCall(started.call_id, started.name, self.arguments)

    @property
    def has_calls(self) -> bool:
        return any(isinstance(event, ToolCallStarted) for event in self.events)

    @property
    def stop(self) -> StopReason:
        last = self.events[-1]
        assert isinstance(last, ReplyEnded)
        return last.stop

    @property
    def usage(self) -> Usage:
        return [event.usage for event in self.events if isinstance(event, UsageReported)][-1]

    @property
    def ended_blocks(self) -> list[int]:
        return [event.block for event in self.events if isinstance(event, BlockEnded)]

    @property
    def message(self) -> Message:
        blocks: list[Block] = [Text(self.text)]
        return assistant(*blocks, self.call) if self.has_calls else assistant(*blocks)


def request(messages: Sequence[Message], cap: int = UNCUT, tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRequest:
    return ModelRequest("demo", "Be brief.", tuple(messages), tools, cap)


def reply_to(asked: ModelRequest, provider: DemoProvider | None = None) -> Reply:
    async def collect() -> Reply:
        return Reply(tuple([event async for event in (provider or DemoProvider(pace=0)).stream(asked)]))

    return asyncio.run(collect())


def result(call: ToolCall, content: str, *, is_error: bool = False) -> Message:
    return Message("user", (ToolResult(call.call_id, call.name, content, is_error),))
