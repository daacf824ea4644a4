"""The interface of a provider: one request in, one stream of reply events out; and a base of those that wrap one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEvent


class Provider(Protocol):
    """A model host. Instances are cheap to make: the SDK loads and connects with the first request."""

    name: str
    """The name before the slash in a model name (`openai`, `anthropic`, `local`)."""

    host: str
    """The key under which qcode stores the limits of this host: the base URL, or the name if there is no URL."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        """Yield the events of one reply; raise `ProviderError` if the request fails or the stream breaks.

        Never retries. Cancelling the task that iterates closes the connection at once.
        """
        ...

    async def model_names(self) -> tuple[str, ...]:
        """Return the names of the models that the host serves, or raise `ProviderError`."""
        ...

    def warm_up(self) -> None:
        """Load the modules that the first request needs. It blocks, so call it in a thread. It may do nothing."""
        ...

    async def close(self) -> None:
        """Release connections; safe to call twice and before the first request."""
        ...


class WrappedProvider:
    """A provider that changes or observes the streams of `inner`, which it owns. Subclasses override `stream`."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner
        self.name = inner.name
        self.host = inner.host

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyEvent]:
        return self.inner.stream(request)

    async def model_names(self) -> tuple[str, ...]:
        return await self.inner.model_names()

    def warm_up(self) -> None:
        self.inner.warm_up()

    async def close(self) -> None:
        await self.inner.close()


@asynccontextmanager
async def closing_stream(stream: AsyncIterator[ReplyEvent]) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
    """Close `stream` at the end if possible, so that a cancelled reply closes its connection at once."""
    try:
        yield stream
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
