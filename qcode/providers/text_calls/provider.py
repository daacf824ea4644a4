"""Any provider, with tools for a model that has no calls of its own: they go out and come back as text.

Wraps the provider of a model marked `text_tool_calls`; the rest of qcode sees calls and results as ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from qcode.protocol.messages import Message
from qcode.protocol.model import ModelRequest
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEvent
from qcode.providers.text_calls.events import as_event_stream
from qcode.providers.text_calls.history import as_text_history
from qcode.providers.text_calls.instructions import instructions
from qcode.providers.text_calls.text_filter import TextCalls

_QUOTED_CHARS = 120


class TextCallProvider:
    """A `protocol.provider.Provider` round `inner`, which it owns from then on."""

    def __init__(self, inner: Provider) -> None:
        self.name = inner.name
        self.host = inner.host
        self._inner = inner

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; see `Provider.stream`. Where no call is allowed, text passes as it is."""
        async with _closing(self._inner.stream(as_text_request(request))) as events:
            if request.tools and request.allows_calls:
                calls = TextCalls(request.tools, before=text_to_continue(request.messages))
                events = as_event_stream(events, calls, tag=str(len(request.messages)), cap=request.max_tokens)
            async with _closing(events):
                async for event in events:
                    yield event

    async def model_names(self) -> tuple[str, ...]:
        return await self._inner.model_names()

    def warm_up(self) -> None:
        """Load now what the provider inside loads with its first request, if it can. It blocks: call it in a thread."""
        load = getattr(self._inner, "warm_up", None)
        if load is not None:
            load()

    async def close(self) -> None:
        await self._inner.close()


def as_text_request(request: ModelRequest) -> ModelRequest:
    """Return the request with its tools in the system text and its calls and results as text."""
    told = instructions(request.tools)
    return replace(
        request,
        system="\n\n".join(part for part in (request.system, told) if part),
        messages=as_text_history(request.messages),
        tools=(),
        allows_calls=True,
    )


def text_to_continue(messages: tuple[Message, ...]) -> str:
    """Return the text that this request asks to go on with, empty where it asks for a new reply.

    The request ends with that text, or with a message that quotes its end inside a tag. The text may stop inside a
    code block, and then what follows begins inside one.
    """
    if messages and messages[-1].role == "assistant":
        return messages[-1].text
    if len(messages) < 2 or messages[-2].role != "assistant" or messages[-2].calls:
        return ""
    text = messages[-2].text
    quoted = f"{text[-_QUOTED_CHARS:]}\n</"
    return text if text.strip() and quoted in messages[-1].text else ""


@asynccontextmanager
async def _closing(events: AsyncIterator[ReplyEvent]) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
    """Close `events` on leaving, where it can be closed: its connection ends with the reader's interest."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
