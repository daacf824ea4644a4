"""The Responses API, directly or over the openai SDK. Separate from `client`, so that each imports only its own codec.

The body is passed unchanged as `extra_body`, and the response is read as bytes, as in `client`, which also provides the
connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from qcode.protocol.model import ModelRequest
from qcode.providers.direct import PostRequest
from qcode.providers.openai.client import OpenAISdkProvider
from qcode.providers.openai.responses import ResponsesDecoder, encode

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI


class OpenAIResponsesProvider(OpenAISdkProvider):
    """OpenAI, or a server with its Responses protocol."""

    history_field = "input"

    def _decoder(self, request: ModelRequest) -> ResponsesDecoder:
        return ResponsesDecoder(tag=str(len(request.messages)))

    def _build_post(self, request: ModelRequest) -> PostRequest:
        return self._build_post_to(f"{self._connection.base_url}/responses", encode(request, self._encoded_messages))

    @asynccontextmanager
    async def _open(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        create = client.responses.with_streaming_response.create
        # The SDK requires these arguments; `extra_body` overrides them.
        body: dict[str, Any] = dict(encode(request))
        async with create(
            model=request.model, input=[], stream=True, extra_body=body, extra_headers=self._omitted_headers()
        ) as response:
            yield response.http_response
