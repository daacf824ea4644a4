"""The demo model as a provider, which replies in the process itself, without a key or a network.

It stores no conversation: each reply depends only on its request. So an escalated request gets a longer part of the
same reply, and a continuation starts exactly at the end of the text. The only state is the set of requests that the
simulated rate limit has refused.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelFacts, ModelRequest
from qcode.protocol.reply import (
    BlockEnded,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.usage import Price, Usage
from qcode.providers.demo.scenarios import find_scenario, play_help
from qcode.providers.demo.scene import (
    Scene,
    Script,
    ScriptBlock,
    body_of,
    cut_at,
    end_of,
    read_scene,
    script_after,
    size_of,
    slices,
    summary_of,
    tokens_of,
)
from qcode.text.json import parse_object, text_in

DEMO_MODEL = "demo"
DEMO_FACTS = ModelFacts(
    context_window=1_000_000,
    max_output_tokens=64_000,
    price=Price(Decimal(0), Decimal(0)),
    can_prefill=False,
    can_think=True,
)
"""The facts of `demo/demo` in the catalog. Without `can_prefill`, qcode sends its resume message, not a prefill."""

_PACE_S = 0.01
"""The pause before each chunk."""
_MAX_CHUNKS = 180
_MIN_CHUNK_CHARS = 14
_RETRY_AFTER_S = 3.0
"""The wait that the simulated rate limit asks for."""
LIMIT_MODEL = "limit"
"""A model that refuses each request once, with a limit that ends after `LIMIT_S` seconds."""
LIMIT_S = 5.0
OVERLOADED_MODEL = "overloaded"
"""A model that refuses every request as overloaded."""
_PLAN_IS_ANSWER = "The plan is the answer"
"""The system prompt says this in plan mode if no user can approve a plan, as in pipe mode."""


class DemoProvider:
    """A provider that plays the `SCENARIOS`. It waits `pace` seconds before each chunk of a reply.

    A reply is truncated exactly at `max_tokens`, with `CHARS_PER_TOKEN` characters per token. Usage is counted in the
    same way; the input is the system prompt, the messages (without images) and the tool definitions.
    """

    def __init__(self, pace: float = _PACE_S, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self.name = "demo"
        self.host = "demo"
        self._pace = pace
        self._sleep = sleep
        self._refused_histories: set[tuple[Message, ...]] = set()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield one reply; raise `ProviderError` for an unknown model and for the simulated rate limit."""
        self._refuse_by_model(request)
        script = self._script(request)
        cut = cut_at(script, request.max_tokens)
        is_cut = size_of(cut) < size_of(script)
        usage = Usage(
            input=_input_tokens(request),
            output=tokens_of(size_of(cut)),
            reasoning=tokens_of(sum(len(block.text) for block in cut if isinstance(block, Reasoning))),
        )
        yield ReplyStarted(DEMO_MODEL, f"demo-{zlib.crc32(repr(request.messages[-1:]).encode()):08x}")
        yield UsageReported(Usage(input=usage.input))
        chunk_size = max(_MIN_CHUNK_CHARS, size_of(cut) // _MAX_CHUNKS)
        for number, block in enumerate(cut):
            if isinstance(block, ToolCall):
                yield ToolCallStarted(number, block.call_id, block.name)
            for text in slices(body_of(block), chunk_size):
                await self._sleep(self._pace)
                yield _delta(number, block, text)
            if body_of(block) == body_of(script[number]):  # not the truncated block
                yield BlockEnded(number)
        yield UsageReported(usage)
        stop = _stop(cut, is_cut=is_cut)
        yield ReplyEnded(stop, stop.value)

    def _refuse_by_model(self, request: ModelRequest) -> None:
        """Raise the error that a model simulates, or the error for an unknown model."""
        if request.model == OVERLOADED_MODEL:
            raise ProviderError(ErrorKind.OVERLOADED, "Overloaded (simulated by the demo model).", status=529)
        if request.model == LIMIT_MODEL:
            if request.messages not in self._refused_histories:
                self._refused_histories.add(request.messages)
                resets_at = round(time.time() + LIMIT_S)
                text = "Rate limit reached (simulated by the demo model)."
                raise ProviderError(ErrorKind.RATE_LIMIT, text, status=429, retry_after=LIMIT_S, resets_at=resets_at)
        elif request.model != DEMO_MODEL:
            message = f"The demo provider has no model `{request.model}`."
            raise ProviderError(ErrorKind.UNKNOWN_MODEL, message, status=404)

    async def model_names(self) -> tuple[str, ...]:
        return (DEMO_MODEL,)

    def warm_up(self) -> None:
        """Do nothing: there is no SDK."""

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _script(self, request: ModelRequest) -> Script:
        """Return the part of the reply that was not sent yet; raise the simulated rate limit."""
        scene = read_scene(request, starts_scenario=_starts_scenario)
        script = _compose(scene, request)
        if scene.tails:
            remaining_script = _arguments_after(script, scene.tails)
            if remaining_script is not None:
                return remaining_script
        elif scene.partial is not None:
            remaining_script = script_after(script, scene.partial)
            if remaining_script is not None and (remaining_script or not scene.is_typed):
                return remaining_script
        if scene.partial is not None:
            # The partial text belongs to another reply, or is complete: treat the last message as a new prompt.
            scene = read_scene(request, may_resume=False, starts_scenario=_starts_scenario)
            script = _compose(scene, request)
        self._refuse_once(scene, request.messages)
        return script

    def _refuse_once(self, scene: Scene, messages: tuple[Message, ...]) -> None:
        """Raise the simulated rate limit for the first request of a scenario that has one."""
        scenario = find_scenario(scene.prompt)
        if scenario is None or not scenario.is_rate_limited:
            return
        if messages in self._refused_histories:
            self._refused_histories.remove(messages)
            return
        self._refused_histories.add(messages)
        raise ProviderError(
            ErrorKind.RATE_LIMIT,
            "Too many requests (simulated).",
            status=429,
            retry_after=_RETRY_AFTER_S,
        )


def _starts_scenario(text: str) -> bool:
    return find_scenario(text) is not None


def _compose(scene: Scene, request: ModelRequest) -> Script:
    """Return the whole reply to `scene`; a call that the request does not allow is replaced by a sentence."""
    summary = summary_of(request)
    if summary:
        return (Text(summary),)
    scenario = find_scenario(scene.prompt)
    script = play_help(scene) if scenario is None else scenario.play(scene)
    if scene.steering:
        script = (Text(f"You added: {scene.steering}\n\nI follow a script, so I cannot act on it.\n\n"), *script)
    if scene.tails:
        return script
    offered = {tool.name for tool in request.tools} if request.allows_calls else set()
    possible: list[ScriptBlock] = []
    for block in script:
        if isinstance(block, ToolCall) and block.name not in offered:
            possible.append(Text(_replacement_of(block, request)))
        else:
            possible.append(block)
    return tuple(possible)


def _replacement_of(call: ToolCall, request: ModelRequest) -> str:
    """Return the text that replaces `call`, which `request` does not allow."""
    if call.name == "exit_plan_mode" and request.allows_calls:
        if _PLAN_IS_ANSWER in request.system:
            return f"\n{text_in((parse_object(call.arguments) or {}).get('plan'))}"
        return "I can submit a plan only in plan mode: in the app, switch to it with Shift+Tab, then ask again.\n"
    return f"I would call `{call.name}` now, but that tool is not available here.\n"


def _arguments_after(script: Script, tails: tuple[str, ...]) -> Script | None:
    """Return the arguments of the truncated call after one of `tails`, as text; None if no call contains them.

    The request quotes the end of the truncated arguments and asks for the missing part as text.
    """
    calls = [block for block in script if isinstance(block, ToolCall)]
    for tail in tails:
        end = end_of(tail, calls[-1].arguments) if calls else None
        if end is not None:
            return (Text(calls[-1].arguments[end:]),)
    return None


def _delta(number: int, block: ScriptBlock, text: str) -> ReplyEvent:
    if isinstance(block, ToolCall):
        return ToolArgsDelta(number, text)
    return ReasoningDelta(number, text) if isinstance(block, Reasoning) else TextDelta(number, text)


def _stop(cut: Script, *, is_cut: bool) -> StopReason:
    if is_cut:
        return StopReason.MAX_TOKENS
    has_calls = any(isinstance(block, ToolCall) for block in cut)
    return StopReason.TOOL_USE if has_calls else StopReason.END_TURN


def _input_tokens(request: ModelRequest) -> int:
    size = len(request.system)
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, ToolResult):
                size += len(block.content)
            elif not isinstance(block, Image):
                size += len(body_of(block))
    for tool in request.tools:
        size += len(tool.name) + len(tool.description) + len(json.dumps(dict(tool.parameters)))
    return tokens_of(size)
