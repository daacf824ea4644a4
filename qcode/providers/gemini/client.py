"""The Gemini API, directly or through the google-genai SDK.

The SDK has no public access to the bytes of a stream, and its public call would convert the body and rename keys. So
the request is sent with `async_request_streamed` of the SDK's API client, which accepts a plain body and raises the
SDK's errors. A hook in the HTTP client that is passed to the SDK (`HttpOptions.httpx_async_client`) keeps the response.
`_api_client` is the only private name used; a test over a real socket covers it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.providers.connection import Connection
from qcode.providers.direct import DirectProvider, PostRequest
from qcode.providers.gemini.codec import GeminiDecoder, encode
from qcode.providers.history import EncodedMessages
from qcode.providers.sdk import http_client, silence_loggers
from qcode.text.json import objects_in, text_in
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2
    from google.genai import Client
    from google.genai.types import HttpOptions

_NO_KEY = "none"
"""The SDK rejects an empty key, but a compatible server may need none."""
API_VERSION = "v1beta"
"""`v1` supports neither the `*-latest` names nor `parametersJsonSchema`."""

_responses: ContextVar[list[httpx2.Response] | None] = ContextVar("qcode_gemini_responses", default=None)
"""The responses that the HTTP client received during the current call of the SDK."""


@dataclass(frozen=True, slots=True)
class _GeminiClient:
    """The client of the SDK, and its HTTP client, which is closed separately."""

    sdk: Client
    http: httpx2.AsyncClient


class GeminiProvider(DirectProvider[_GeminiClient]):
    """The Gemini Developer API."""

    api_version = API_VERSION

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._encoded_messages = EncodedMessages("contents", json.JSONEncoder())

    def _make_client(self) -> _GeminiClient:
        import httpx2
        from google.genai.types import HttpOptions

        silence_loggers("google_genai", "google", "httpx2", "httpcore2")
        http = http_client(self._connection)
        timeouts = http.timeout.as_dict()

        async def restore_timeouts(request: httpx2.Request) -> None:
            # The SDK overrides the timeouts of the HTTP client in every request.
            request.extensions["timeout"] = timeouts

        async def keep_response(response: httpx2.Response) -> None:
            responses = _responses.get()
            if responses is not None:
                responses.append(response)

        http.event_hooks = {"request": [restore_timeouts], "response": [keep_response]}
        options = HttpOptions(
            base_url=self._connection.base_url,
            api_version=self.api_version,
            headers=dict(self._connection.headers),
            httpx_async_client=http,
            # Without this client, which cannot send anything, the SDK would create a synchronous client.
            httpx_client=httpx2.Client(transport=httpx2.BaseTransport()),
        )
        return _GeminiClient(self._make_sdk_client(options), http)

    def _make_sdk_client(self, options: HttpOptions) -> Client:
        from google.genai import Client

        return Client(api_key=self._connection.api_key or _NO_KEY, vertexai=False, http_options=options)

    async def _close_client(self, client: _GeminiClient) -> None:
        await client.http.aclose()

    def _decoder(self, request: ModelRequest) -> GeminiDecoder:
        return GeminiDecoder(tag=str(len(request.messages)))

    def _build_post(self, request: ModelRequest) -> PostRequest:
        url = f"{self._connection.base_url}/{self.api_version}/{self._path(request.model)}"
        content = self._encoded_messages.body(encode(request, self._encoded_messages))
        return PostRequest(url, self._request_headers(), content)

    def _request_headers(self) -> Mapping[str, str]:
        connection, headers = self._connection, {"accept": "*/*"}
        if connection.api_key:
            headers["x-goog-api-key"] = connection.api_key
        return headers | dict(connection.headers)

    def _path(self, model: str) -> str:
        """Return the part of the URL after the API version."""
        name = model if "/" in model else f"models/{model}"
        return f"{quote(name)}:streamGenerateContent?alt=sse"

    @asynccontextmanager
    async def _open(self, client: _GeminiClient, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        """Send the request with the SDK, and yield the response that the HTTP client received meanwhile."""
        # A private name: see the docstring of the module.
        api = client.sdk._api_client
        body: dict[str, Any] = dict(encode(request))
        responses: list[httpx2.Response] = []
        token = _responses.set(responses)
        try:
            await api.async_request_streamed("post", self._path(request.model), body)
        except ValueError as error:
            # The SDK fails on an error page that is neither JSON nor UTF-8.
            for response in responses:
                response.raise_for_status()
            raise ProviderError(ErrorKind.INTERNAL, "the SDK refused the request") from error
        finally:
            _responses.reset(token)
        if not responses:
            raise ProviderError(ErrorKind.INTERNAL, "the SDK sent the request past its HTTP client")
        try:
            yield responses[-1]
        finally:
            await responses[-1].aclose()

    async def _list_models(self, client: _GeminiClient) -> list[str]:
        names: list[str] = []
        async for model in await client.sdk.aio.models.list(config={"page_size": 1000}):
            actions = model.supported_actions
            if model.name and (not actions or "generateContent" in actions):
                names.append(model.name.removeprefix("models/"))
        return names

    async def _list_models_directly(self) -> list[str]:
        names: list[str] = []
        path = first_page = f"/{self.api_version}/models?pageSize=1000"
        while path:
            listed = await self._get_object(path)
            models = objects_in(listed.get("models"))
            for model in models:
                name, actions = text_in(model.get("name")), model.get("supportedGenerationMethods")
                if name and (not isinstance(actions, list) or not actions or "generateContent" in actions):
                    names.append(name.removeprefix("models/"))
            token = text_in(listed.get("nextPageToken"))
            path = f"{first_page}&pageToken={quote(token, safe='')}" if models and token else ""
        return names

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from google.genai.errors import APIError

        return (APIError,)
