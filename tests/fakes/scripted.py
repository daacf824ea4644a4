"""A provider that plays the replies of a test, and records the requests.

A reply is a sequence of steps: reply events, an exception to raise, a `Hang` to wait at, or `OutputAtCap` for usage
that depends on the cap of the request. The functions below build the usual replies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
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
from qcode.protocol.usage import Usage

MODEL = "scripted-1"


class Hang:
    """A point at which a stream waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        """Set by the stream when it waits here."""
        self.go = asyncio.Event()
        """Set by the test to let the stream continue."""


@dataclass(frozen=True, slots=True)
class OutputAtCap:
    """Becomes `UsageReported` with `output` equal to the cap of the request that is being answered."""

    input: int = 100


Step: TypeAlias = ReplyEvent | OutputAtCap | Hang | BaseException
Steps: TypeAlias = tuple[Step, ...]
Reply: TypeAlias = Sequence[Step] | Callable[[ModelRequest], Sequence[Step]]


class ScriptedProvider:
    """Answers the n-th request with the n-th of `replies`; a further request raises `AssertionError`."""

    def __init__(
        self, replies: Sequence[Reply], *, name: str = "scripted", host: str = "", models: Sequence[str] = (MODEL,)
    ) -> None:
        self.name = name
        self.host = host or name
        self.requests: list[ModelRequest] = []
        """All requests so far."""
        self.broken_off = 0
        """The number of streams that were closed or cancelled before their end."""
        self.closed = False
        """`close` was called."""
        self._replies = list(replies)
        self._models = tuple(models)

    @property
    def caps(self) -> list[int]:
        """The output cap of each request."""
        return [request.max_tokens for request in self.requests]

    @property
    def left(self) -> int:
        """The number of replies that were not requested yet."""
        return max(0, len(self._replies) - len(self.requests))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self.requests.append(request)
        number = len(self.requests)
        if number > len(self._replies):
            raise AssertionError(f"request {number} came, but the script has {len(self._replies)} replies")
        reply = self._replies[number - 1]
        is_over = False
        try:
            for step in reply(request) if callable(reply) else reply:
                await asyncio.sleep(0)
                if isinstance(step, BaseException):
                    is_over = True
                    raise step
                if isinstance(step, Hang):
                    step.reached.set()
                    await step.go.wait()
                elif isinstance(step, OutputAtCap):
                    yield UsageReported(Usage(input=step.input, output=request.max_tokens))
                else:
                    is_over = isinstance(step, ReplyEnded)
                    yield step
            is_over = True
        finally:
            self.broken_off += not is_over

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return self._models

    async def close(self) -> None:
        self.closed = True


@dataclass(frozen=True, slots=True)
class Call:
    """A call for `calls_reply`."""

    name: str
    arguments: dict[str, Any] | str
    """The arguments as an object, or their raw text."""
    call_id: str

    @property
    def raw(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


def text_reply(
    *pieces: str, reasoning: str = "", usage: Usage | None = None, stop: StopReason = StopReason.END_TURN, raw: str = ""
) -> Steps:
    """Return a complete text reply with one delta for each piece. Without `usage`, a token is four characters."""
    body = _reasoning(reasoning) + _text(pieces, 1 if reasoning else 0)
    return _reply(body, usage or _usage(reasoning, *pieces), stop, raw)


def call_reply(
    name: str, arguments: dict[str, Any] | str, *, call_id: str = "call_1", text: str = "", usage: Usage | None = None
) -> Steps:
    """Return a reply that ends in one complete call."""
    return calls_reply(Call(name, arguments, call_id), text=text, usage=usage)


def calls_reply(*calls: Call, text: str = "", usage: Usage | None = None) -> Steps:
    """Return a reply that ends in several complete calls."""
    return _reply(
        _text((text,), 0) + _calls(calls, 1 if text else 0, is_last_cut=False),
        usage or _usage(text, *(call.raw for call in calls)),
        StopReason.TOOL_USE,
        "",
    )


def cut_text(*pieces: str, reasoning: str = "", raw: str = "") -> Steps:
    """Return a text reply that reached the cap of its request."""
    return _cut(_reasoning(reasoning) + _text(pieces, 1 if reasoning else 0, is_cut=True), raw)


def cut_call(
    name: str,
    raw_arguments: str,
    *,
    call_id: str = "call_1",
    text: str = "",
    before: Sequence[Call] = (),
    stop: StopReason = StopReason.MAX_TOKENS,
    raw: str = "",
) -> Steps:
    """Return a reply that is cut inside the arguments of its last call; the calls in `before` are complete."""
    calls = (*before, Call(name, raw_arguments, call_id))
    return _cut(_text((text,), 0) + _calls(calls, 1 if text else 0, is_last_cut=True), raw, stop)


def cut_thinking(reasoning: str) -> Steps:
    """Return a reply that spent its whole cap on thinking."""
    return _cut(_reasoning(reasoning, is_cut=True), "")


def cut_empty() -> Steps:
    """Return a truncated reply without any content."""
    return _cut((), "")


def fails(
    kind: ErrorKind,
    *,
    after: Sequence[Step] = (),
    message: str = "",
    status: int | None = None,
    retry_after: float | None = None,
) -> Steps:
    """Return a reply that raises `ProviderError`, at once or after the steps in `after`."""
    return (*after, ProviderError(kind, message or f"the script says {kind}", status=status, retry_after=retry_after))


def begun(*pieces: str) -> Steps:
    """Return the start of a text reply without an end, for `fails(after=...)` or before a `Hang`."""
    return (ReplyStarted(MODEL, "reply"), *_text(pieces, 0, is_cut=True))


def begun_call(name: str, raw_arguments: str, *, call_id: str = "call_1", text: str = "") -> Steps:
    """Return the start of a reply up to the inside of a call, for `fails(after=...)` or before a `Hang`."""
    calls = _calls((Call(name, raw_arguments, call_id),), 1 if text else 0, is_last_cut=True)
    return (ReplyStarted(MODEL, "reply"), *_text((text,), 0), *calls)


def _cut(body: Steps, raw: str, stop: StopReason = StopReason.MAX_TOKENS) -> Steps:
    return (ReplyStarted(MODEL, "reply"), *body, OutputAtCap(), ReplyEnded(stop, raw or stop.value))


def _reply(body: Steps, usage: Usage, stop: StopReason, raw: str) -> Steps:
    return (ReplyStarted(MODEL, "reply"), *body, UsageReported(usage), ReplyEnded(stop, raw or stop.value))


def _reasoning(text: str, *, is_cut: bool = False) -> Steps:
    if not text:
        return ()
    delta = ReasoningDelta(0, text)
    return (delta,) if is_cut else (delta, BlockEnded(0))


def _text(pieces: Sequence[str], block: int, *, is_cut: bool = False) -> Steps:
    deltas = tuple(TextDelta(block, piece) for piece in pieces if piece)
    return deltas if is_cut or not deltas else (*deltas, BlockEnded(block))


def _calls(calls: Sequence[Call], first: int, *, is_last_cut: bool) -> Steps:
    steps: list[Step] = []
    for number, call in enumerate(calls):
        block = first + number
        half = len(call.raw) // 2
        steps.append(ToolCallStarted(block, call.call_id, call.name))
        steps += [ToolArgsDelta(block, piece) for piece in (call.raw[:half], call.raw[half:]) if piece]
        if not is_last_cut or number < len(calls) - 1:
            steps.append(BlockEnded(block))
    return tuple(steps)


def _usage(*texts: str) -> Usage:
    return Usage(input=100, output=max(1, sum(len(text) for text in texts) // 4))
