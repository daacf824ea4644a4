"""Chat Completions over the openai SDK, which owns address, authentication, headers and error classes.

The body goes in as `extra_body`, as it is: the SDK would walk a long transcript to convert what needs no
converting, and knows no field of compatible servers. The answer is read as bytes (`providers.streaming`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from qcode.protocol.model import ModelRequest
from qcode.providers.openai_chat.codec import Decoder, encode
from qcode.providers.openai_chat.quirks import ChatQuirks
from qcode.providers.streaming import SdkProvider
from qcode.providers.transport import Connection, http_client, quiet

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

_NO_KEY = "none"
"""A local server needs no key, but the SDK wants to send one."""


class OpenAIChatProvider(SdkProvider["AsyncOpenAI"]):
    """OpenAI, or a server that speaks its Chat Completions protocol."""

    def __init__(self, connection: Connection, quirks: ChatQuirks) -> None:
        super().__init__(connection)
        self._quirks = quirks

    def _make_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        quiet("openai", "httpx2", "httpcore2")
        http = http_client(self._connection)
        return AsyncOpenAI(
            api_key=self._connection.api_key or _NO_KEY,
            base_url=self._connection.base_url,
            default_headers=dict(self._connection.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    async def _close_client(self, client: AsyncOpenAI) -> None:
        await client.close()

    def _decoder(self, request: ModelRequest) -> Decoder:
        return Decoder(self._quirks, tag=str(len(request.messages)))

    @asynccontextmanager
    async def _open(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        create = client.chat.completions.with_streaming_response.create
        # The SDK's signature knows no plain mapping; what counts is in the body.
        body: dict[str, Any] = dict(encode(request, self._quirks))
        async with create(model=request.model, messages=[], stream=True, extra_body=body) as response:
            yield response.http_response

    async def _list_models(self, client: AsyncOpenAI) -> list[str]:
        page = await client.models.list()
        return [model.id for model in page.data or [] if model.id]

    def _failures(self) -> tuple[type[Exception], ...]:
        from openai import OpenAIError

        return (OpenAIError,)
