"""A scripted model for tests of programs that use qcode: `Options(model=Scripted(["text", Call("read", path="a")]))`.

Provisional: names and arguments may change before version 1.0.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeAlias

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    BlockEnded,
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
from qcode.text.json import Json


class Call:
    """A call of the tool `name` with these arguments."""

    def __init__(self, name: str, /, **arguments: Json) -> None:
        self.name = name
        self.arguments: str = json.dumps(arguments)


class Truncated(str):
    """A reply text that the output limit cuts."""

    __slots__ = ()


Reply: TypeAlias = str | Call | Sequence[str | Call] | ProviderError
"""A text, a call, a list of texts and calls, or an error that the request raises."""


class Scripted:
    """A model for `Options(model=...)` that answers each request with the next of `replies`.

    A request after the last reply raises `ProviderError`.
    """

    def __init__(self, replies: Sequence[Reply], *, name: str = "scripted") -> None:
        self.name = name
        self.host = name
        self.requests: list[ModelRequest] = []
        """The requests that the model has received."""
        self._replies = list(replies)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        self.requests.append(request)
        number = len(self.requests)
        if number > len(self._replies):
            text = f"the script has {len(self._replies)} replies, and this is request {number}"
            raise ProviderError(ErrorKind.BAD_REQUEST, text)
        reply = self._replies[number - 1]
        if isinstance(reply, ProviderError):
            raise reply
        for event in _events([reply] if isinstance(reply, (str, Call)) else reply, number):
            yield event

    def warm_up(self) -> None:
        pass

    async def model_names(self) -> tuple[str, ...]:
        return (self.name,)

    async def close(self) -> None:
        pass


def _events(parts: Sequence[str | Call], number: int) -> Iterator[ReplyEvent]:
    yield ReplyStarted("scripted", f"reply_{number}")
    chars, stop = 0, StopReason.END_TURN
    for block, part in enumerate(parts):
        if isinstance(part, Call):
            chars += len(part.arguments)
            stop = StopReason.TOOL_USE
            yield ToolCallStarted(block, f"call_{number}_{block}", part.name)
            yield ToolArgsDelta(block, part.arguments)
        else:
            chars += len(part)
            stop = StopReason.MAX_TOKENS if isinstance(part, Truncated) else stop
            yield TextDelta(block, str(part))
        yield BlockEnded(block)
    yield UsageReported(Usage(input=100, output=max(1, chars // 4)))
    yield ReplyEnded(stop, str(stop))
