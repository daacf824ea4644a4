"""A conversation that plays a list of events, and functions that run pipe mode on it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from qcode.agent.agent import Agent
from qcode.agent.conversation import Conversation
from qcode.agent.keys.keys import Keys
from qcode.agent.models.client import ModelClient
from qcode.agent.models.selection import Selection
from qcode.agent.options import Options, OutputFormat, RunContext
from qcode.agent.permissions import Permissions
from qcode.agent.subagent_kinds import SubagentKind
from qcode.agent.toolbox import Toolbox
from qcode.agent.usage import RecoveryMetrics
from qcode.config.paths import ConfigPaths
from qcode.config.settings import Settings, Tools
from qcode.headless.run import run_headless
from qcode.protocol.approvals import NO_OPTIONS, ApprovalMode, Decision, TurnOptions
from qcode.protocol.events import ApiCalls, ModelUsage, ReplyFinished, Signal, TurnEnded, TurnEvent
from qcode.protocol.messages import Block, Message, Text, ToolCall, assistant
from qcode.protocol.model import Effort
from qcode.protocol.reply import Limit, Outcome, StopReason
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.providers.registry import PROVIDERS
from qcode.safety.policy import Policy
from qcode.safety.rules import Rules
from tests.fakes.tools import spec_of
from tests.safety.policies import NO_SANDBOX


class UntilCancelled:
    """In a script: nothing happens until the turn is cancelled, then it ends with the given text."""

    def __init__(self, text: str = "", *, is_deaf: bool = False) -> None:
        self.text = text
        self.is_deaf = is_deaf


Step: TypeAlias = TurnEvent | UntilCancelled | Exception


class Scripted(Conversation):
    """Plays `steps`; remembers answers and whether it was cancelled or closed."""

    session_id = "s-1"
    model = "demo/scripted"
    mode: ApprovalMode = "default"
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = (spec_of("read"), spec_of("shell"))
    supports_images = False
    supports_reasoning = False
    effort: Effort | None = None
    kinds: tuple[SubagentKind, ...] = ()

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.client = cast(Any, SimpleNamespace(known_model=lambda: SimpleNamespace(output_limit=32_000)))
        self.prompts: list[str] = []
        self.answers: dict[str, Decision] = {}
        self.options = NO_OPTIONS
        self.is_cancelled = False
        self.is_closed = False
        self.metrics = RecoveryMetrics()
        self.hooks = None
        self._cancelled = asyncio.Event()

    def attach(self, blocks: tuple[Block, ...]) -> None:
        raise AssertionError("pipe mode attaches before it runs")

    def signals(self) -> tuple[Signal, ...]:
        return ()

    def withdraw_steering(self, text: str) -> bool:
        raise AssertionError("no user types in pipe mode")

    def compact(self, focus: str = "") -> AsyncGenerator[TurnEvent]:
        raise AssertionError("no user requests a compaction in pipe mode")

    async def submit(
        self, prompt: str, attached: tuple[Block, ...] = (), options: TurnOptions = NO_OPTIONS
    ) -> AsyncGenerator[TurnEvent]:
        self.prompts.append(prompt)
        self.options = options
        try:
            for step in self.steps:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, UntilCancelled):
                    yield await self._until_cancelled(step)
                    return
                yield step
        finally:
            self.is_closed = True

    async def _until_cancelled(self, step: UntilCancelled) -> TurnEnded:
        if step.is_deaf:
            await asyncio.Event().wait()
        await self._cancelled.wait()
        return ended(step.text, outcome=Outcome.CANCELLED)

    def answer(self, approval_id: str, decision: Decision) -> None:
        self.answers[approval_id] = decision

    def steer(self, text: str, attached: tuple[Block, ...] = ()) -> None:
        raise AssertionError("pipe mode steers nothing")

    def cancel(self, limit: Limit | None = None) -> None:
        self.is_cancelled = True
        self._cancelled.set()

    def clear(self) -> None:
        raise AssertionError("pipe mode clears nothing")

    def set_model(self, model: str | ModelClient) -> None:
        raise AssertionError("pipe mode switches no model")

    def set_mode(self, mode: ApprovalMode) -> None:
        raise AssertionError("pipe mode switches no mode")


class ScriptedAgent(Agent):
    """An agent in `/project` whose conversation plays a script."""

    def __init__(self, conversation: Scripted, options: Options) -> None:
        folder = Path("/project")
        paths = ConfigPaths(folder / "config", folder / "state")
        self.context = RunContext(
            options, {}, paths, Settings(), Keys({}), folder, folder, is_attended=False, is_trusted=True
        )
        self.conversation = conversation
        self.selection = Selection(PROVIDERS["demo"], "scripted", "")
        self.permissions = Permissions(Policy("default", Rules.of(), True, folder, probes=NO_SANDBOX))
        self.toolbox = Toolbox(folder, (), Tools(), {})


def agent_of(conversation: Scripted, format: OutputFormat = "text", **options: Any) -> ScriptedAgent:
    """Return an agent that holds this conversation; `options` as in `Options`."""
    return ScriptedAgent(conversation, Options(output_format=format, **options))


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: bytes
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout as JSON lines; each must be one object on one line."""
        assert self.stdout.endswith(b"\n")
        return [json.loads(line) for line in self.stdout.decode().splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        results = [line for line in self.lines if line["type"] == "result"]
        assert len(results) == 1
        assert self.lines[-1]["type"] == "result"
        return results[0]


def run(
    conversation: Scripted,
    format: OutputFormat = "text",
    clock: Callable[[], float] = time.monotonic,
    **options: Any,
) -> Ran:
    """Run one turn over two real pipes that are read to their end."""
    out, err = _Reader(), _Reader()
    agent = agent_of(conversation, format, **options)

    async def main() -> int:
        with os.fdopen(out.write_end, "wb") as stdout, os.fdopen(err.write_end, "wb") as stderr:
            return await run_headless(agent, "do it", stdout=stdout, stderr=stderr, clock=clock)

    code = asyncio.run(main())
    return Ran(code, out.text(), err.text().decode())


class _Reader:
    """A pipe whose read end a thread drains, as the next program of a shell pipeline would."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._parts: list[bytes] = []
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        with os.fdopen(self._read_end, "rb") as stream:
            self._parts.append(stream.read())

    def text(self) -> bytes:
        self._thread.join()
        return b"".join(self._parts)


def ended(text: str = "done", **changes: Any) -> TurnEnded:
    """Return the end of a turn that went well, with `changes`."""
    base = TurnEnded(
        outcome=Outcome.END_TURN,
        stop=StopReason.END_TURN,
        raw_stop="stop",
        text=text,
        replies=1,
        usage=Usage(input=120, output=30, cache_read=100, cache_write=5, reasoning=7),
        cost=Decimal("0.0123"),
        api_calls=ApiCalls(initial=1),
        is_answered=bool(text),
        whole_text=text,
    )
    found = replace(base, **changes)
    if found.usage == Usage() or found.by_model:
        return found
    return replace(found, by_model=(ModelUsage("demo/scripted", found.usage, found.cost),))


def reply(text: str, *calls: ToolCall, **changes: Any) -> ReplyFinished:
    stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
    base = ReplyFinished(stop, "stop", 1, assistant(Text(text), *calls) if text or calls else None)
    return replace(base, **changes)


def call(name: str = "shell", arguments: str = '{"command":"npm test"}', call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def kinds(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return `type` or, for system lines, `subtype` of each line."""
    return [line["subtype"] if line["type"] == "system" else line["type"] for line in lines]
