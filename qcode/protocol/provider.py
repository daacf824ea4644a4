"""The interface of a provider: one request in, one stream of reply events out."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
