"""Chat Completions, directly or over the openai SDK.

The body goes into the SDK as `extra_body`, as it is: it would walk a long transcript to convert what needs no
converting, and knows no field of compatible servers. The answer is read as bytes (`providers.streaming`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from qcode.protocol.model import ModelRequest
from qcode.providers.connection import Connection
from qcode.providers.direct.client import Post
from qcode.providers.openai_chat.addresses import base_for
from qcode.providers.openai_chat.codec import Decoder, encode
from qcode.providers.openai_chat.quirks import ChatQuirks
from qcode.providers.openai_sdk import OpenAISdkProvider

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI


class OpenAIChatProvider(OpenAISdkProvider):
    """OpenAI, or a server that speaks its Chat Completions protocol."""

    def __init__(self, connection: Connection, quirks: ChatQuirks) -> None:
        super().__init__(connection)
        self._quirks = quirks

    def _decoder(self, request: ModelRequest) -> Decoder:
        return Decoder(self._quirks, tag=str(len(request.messages)))

    def _post(self, request: ModelRequest) -> Post:
        base_url = base_for(self._connection.base_url, request, self._quirks)
        return self._post_to(f"{base_url}/chat/completions", encode(request, self._quirks))

    @asynccontextmanager
    async def _open(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        base_url = base_for(self._connection.base_url, request, self._quirks)
        if base_url != self._connection.base_url:
            client = client.with_options(base_url=base_url.partition("?")[0])
        create = client.chat.completions.with_streaming_response.create
        # The SDK's signature knows no plain mapping; what counts is in the body.
        body: dict[str, Any] = dict(encode(request, self._quirks))
        async with create(
            model=request.model, messages=[], stream=True, extra_body=body, extra_headers=self._left_out()
        ) as response:
            yield response.http_response
