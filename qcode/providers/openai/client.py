"""Chat Completions, directly or over the openai SDK, and the base class of both OpenAI protocols.

The SDK gets the finished body as `extra_body`. It would convert other arguments message by message, which takes long,
and drop fields that only compatible servers have. The response is read as bytes (`providers.streaming`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from qcode.protocol.model import ModelRequest
from qcode.providers.azure import MODEL_PLACEHOLDER
from qcode.providers.connection import Connection, strip_version
from qcode.providers.direct import DirectProvider, PostRequest
from qcode.providers.history import EncodedMessages
from qcode.providers.openai.chat import ChatDecoder, encode
from qcode.providers.openai.quirks import ChatQuirks
from qcode.providers.sdk import http_client, silence_loggers
from qcode.text.json import JsonObject, objects_in, text_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from openai import AsyncOpenAI, Omit

_NO_KEY = "none"
"""A local server needs no key, but the SDK requires one."""


class OpenAISdkProvider(DirectProvider["AsyncOpenAI"]):
    """A provider over the openai SDK; subclasses define the protocol."""

    sdk_variables = ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
    history_field = "messages"
    """The field of the body with the messages."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._encoded_messages = EncodedMessages(self.history_field)

    def _request_headers(self) -> Mapping[str, str]:
        connection = self._connection
        key_header = {"authorization": f"Bearer {connection.api_key}"} if connection.api_key else {}
        return key_header | dict(connection.headers)

    def _build_post_to(self, url: str, body: JsonObject) -> PostRequest:
        # The same field order as the SDK, so that a host gets the same bytes with and without the SDK.
        ordered = {"model": body["model"], "stream": body["stream"], **body}
        content = self._encoded_messages.body(ordered)
        return PostRequest(url, self._request_headers(), content)

    def _make_client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        silence_loggers("openai", "httpx2", "httpcore2")
        http = http_client(self._connection)
        base_url, _, query = self._connection.base_url.partition("?")
        return AsyncOpenAI(
            api_key=self._connection.api_key or _NO_KEY,
            base_url=base_url,
            default_headers={name: value for name, value in self._connection.headers.items() if value},
            default_query=dict(parse_qsl(query)) or None,
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )

    def _omitted_headers(self) -> Mapping[str, str | Omit]:
        """Return markers with which the SDK omits headers: those that the user set to an empty value."""
        from openai import omit

        return {name: omit for name, value in self._connection.headers.items() if not value}

    async def _close_client(self, client: AsyncOpenAI) -> None:
        await client.close()

    async def _list_models(self, client: AsyncOpenAI) -> list[str]:
        page = await client.models.list(extra_headers=self._omitted_headers())
        return [model.id for model in page.data or [] if model.id]

    async def _list_models_directly(self) -> list[str]:
        listed = await self._get_object("/models")
        return [name for model in objects_in(listed.get("data")) if (name := text_in(model.get("id")))]

    async def check_path(self, path: str) -> None:
        """Request `path` below the base URL to check the key; raise `ProviderError` if it is rejected."""
        if self._direct is None:
            await self._send_small(lambda client: client.get(path, cast_to=object))
        else:
            await self._within_limit(self._get(f"/{path}"))

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from openai import OpenAIError

        return (OpenAIError,)


def request_base_url(base_url: str, request: ModelRequest, quirks: ChatQuirks) -> str:
    """Return the base URL of `request`.

    The model replaces the placeholder for a deployment (Azure). DeepSeek supports prefill only at another path.
    """
    if request.is_prefill and quirks.prefill_path:
        return strip_version(base_url) + quirks.prefill_path
    return base_url.replace(MODEL_PLACEHOLDER, quote(request.model, safe=""))


class OpenAIChatProvider(OpenAISdkProvider):
    """OpenAI, or a server with its Chat Completions protocol."""

    def __init__(self, connection: Connection, quirks: ChatQuirks) -> None:
        super().__init__(connection)
        self._quirks = quirks

    def _decoder(self, request: ModelRequest) -> ChatDecoder:
        return ChatDecoder(self._quirks, tag=str(len(request.messages)))

    def _build_post(self, request: ModelRequest) -> PostRequest:
        base_url = request_base_url(self._connection.base_url, request, self._quirks)
        return self._build_post_to(
            f"{base_url}/chat/completions", encode(request, self._quirks, self._encoded_messages)
        )

    @asynccontextmanager
    async def _open(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        base_url = request_base_url(self._connection.base_url, request, self._quirks)
        if base_url != self._connection.base_url:
            client = client.with_options(base_url=base_url.partition("?")[0])
        create = client.chat.completions.with_streaming_response.create
        # The SDK requires these arguments; `extra_body` overrides them.
        body: dict[str, Any] = dict(encode(request, self._quirks))
        async with create(
            model=request.model, messages=[], stream=True, extra_body=body, extra_headers=self._omitted_headers()
        ) as response:
            yield response.http_response
