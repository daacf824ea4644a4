"""The Messages API, directly or over the anthropic SDK.

The body is passed to the SDK unchanged as `extra_body`: the SDK converts no field and prints no warning about a model
or a thinking mode. The response is read as bytes (`providers.streaming`). Separate from `registry`, because this module
is loaded with the first model of this protocol.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from qcode.protocol.model import ModelRequest
from qcode.providers.anthropic.codec import AnthropicDecoder, encode
from qcode.providers.connection import Connection
from qcode.providers.direct import DirectProvider, PostRequest
from qcode.providers.history import EncodedMessages, stripped_prefill
from qcode.providers.sdk import http_client, silence_loggers
from qcode.text.json import objects_in, text_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from anthropic import AsyncAnthropic

API_VERSION = "2026-10-21"
"""The protocol version of the SDK and the codec."""

_NO_KEY = "none"
_TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - the name of a variable, not a secret


class AnthropicProvider(DirectProvider["AsyncAnthropic"]):
    """Anthropic, or a server with its Messages protocol."""

    sdk_variables = ("ANTHROPIC_CUSTOM_HEADERS",)

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._encoded_messages = EncodedMessages()

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        silence_loggers("anthropic", "httpx2", "httpcore2")
        # These warnings are for developers who use the SDK, not for users at a terminal.
        warnings.filterwarnings("ignore", r"The model '.*' is deprecated", DeprecationWarning)
        http = http_client(self._connection)
        key = self._connection.api_key or _NO_KEY
        is_token = self._connection.key_source == _TOKEN_VARIABLE
        return AsyncAnthropic(
            api_key=None if is_token else key,
            auth_token=key if is_token else None,
            base_url=self._connection.base_url,
            default_headers=dict(self._connection.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    async def _close_client(self, client: AsyncAnthropic) -> None:
        await client.close()

    def _decoder(self, request: ModelRequest) -> AnthropicDecoder:
        return AnthropicDecoder(tag=str(len(request.messages)), prefilled_space=stripped_prefill(request))

    def _build_post(self, request: ModelRequest) -> PostRequest:
        body = encode(request, self._encoded_messages)
        # The same field order as the SDK, so that a host gets the same bytes with and without the SDK.
        ordered = {name: body[name] for name in ("max_tokens", "messages", "model", *sorted(body))}
        content = self._encoded_messages.body(ordered)
        return PostRequest(f"{self._connection.base_url}/v1/messages", self._request_headers(), content)

    def _request_headers(self) -> Mapping[str, str]:
        connection, headers = self._connection, {"anthropic-version": API_VERSION}
        if connection.api_key:
            headers["authorization"] = f"Bearer {connection.api_key}"
        return headers | dict(connection.headers)

    @asynccontextmanager
    async def _open(self, client: AsyncAnthropic, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        create = client.messages.with_streaming_response.create
        # The SDK requires these arguments; `extra_body` overrides them.
        body: dict[str, Any] = dict(encode(request))
        async with create(
            model=request.model, max_tokens=request.max_tokens, messages=[], stream=True, extra_body=body
        ) as response:
            yield response.http_response

    async def _list_models(self, client: AsyncAnthropic) -> list[str]:
        return [model.id async for model in client.models.list(limit=1000)]

    async def _list_models_directly(self) -> list[str]:
        names: list[str] = []
        path = first_page = "/v1/models?limit=1000"
        while path:
            listed = await self._get_object(path)
            page = [name for model in objects_in(listed.get("data")) if (name := text_in(model.get("id")))]
            names += page
            last = text_in(listed.get("last_id"))
            has_more = bool(page and last) and listed.get("has_more") is not False
            path = f"{first_page}&after_id={quote(last, safe='')}" if has_more else ""
        return names

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from anthropic import AnthropicError

        return (AnthropicError,)
