"""Gemini and Claude on Vertex AI, over the SDKs of Google and Anthropic, which sign in and choose the path.

The token comes from the connection's key, or from the Application Default Credentials of this machine. `google-auth` is
a dependency of `google-genai`. Separate from the other clients, because this module is loaded with the first model of
Vertex AI.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.providers.anthropic.client import AnthropicProvider
from qcode.providers.anthropic.codec import encode
from qcode.providers.connection import Connection
from qcode.providers.direct import DirectProvider
from qcode.providers.errors import with_origin
from qcode.providers.gemini.client import GeminiProvider
from qcode.providers.sdk import http_client, silence_loggers
from qcode.providers.vertex.address import split_address

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from google.auth.credentials import Credentials
    from google.genai import Client
    from google.genai.types import HttpOptions

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class _VertexProvider(DirectProvider[Any]):
    """A provider on Vertex AI, whose SDK signs in."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._direct = None  # the SDK signs in

    async def _list_models(self, client: object) -> list[str]:
        return []  # the host lists the models of all vendors, whether the project may use them or not

    def _all_errors(self) -> tuple[type[Exception], ...]:
        from google.auth.exceptions import GoogleAuthError

        return (*super()._all_errors(), GoogleAuthError)

    def _convert_error(self, error: Exception) -> ProviderError:
        return _sign_in_failure(self._connection, error) or super()._convert_error(error)


class VertexGeminiProvider(_VertexProvider, GeminiProvider):
    """Gemini in a Google Cloud project."""

    api_version = "v1beta1"

    def _make_sdk_client(self, options: HttpOptions) -> Client:
        from google.genai import Client

        host, project, location = split_address(self._connection.base_url)
        options.base_url = host
        credentials = _credentials(self._connection)
        return Client(vertexai=True, project=project, location=location, credentials=credentials, http_options=options)

    def _path(self, model: str) -> str:
        return super()._path(model if "/" in model else f"publishers/google/models/{model}")


class VertexAnthropicProvider(_VertexProvider, AnthropicProvider):
    """Claude in a Google Cloud project."""

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropicVertex

        silence_loggers("anthropic", "httpx2", "httpcore2")
        http = http_client(self._connection)
        host, project, location = split_address(self._connection.base_url)
        client: Any = AsyncAnthropicVertex(
            region=location,
            project_id=project,
            credentials=_credentials(self._connection),
            base_url=f"{host}/v1",
            default_headers=dict(self._connection.headers),
            timeout=http.timeout,
            max_retries=0,
            http_client=http,
        )
        return client  # type: ignore[no-any-return]  # both classes have `messages` and `close`, but no common base class

    @asynccontextmanager
    async def _open(self, client: AsyncAnthropic, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        body: dict[str, Any] = {name: value for name, value in encode(request).items() if name != "model"}
        async with client.messages.with_streaming_response.create(
            model=request.model, max_tokens=request.max_tokens, messages=[], stream=True, extra_body=body
        ) as response:
            yield response.http_response


def _credentials(connection: Connection) -> Credentials:
    """Return the credentials of the connection's token, or those of this machine. Blocks.

    Raise `ProviderError` if this machine has none.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.oauth2.credentials import Credentials as Token

    silence_loggers("google.auth")
    # This warning about quotas is for developers, not for users at a terminal.
    warnings.filterwarnings("ignore", "Your application has authenticated using end user credentials", UserWarning)
    if connection.api_key:
        return Token(token=connection.api_key)  # type: ignore[no-untyped-call]  # google-auth has no types
    try:
        credentials: Credentials = google.auth.default(scopes=[_SCOPE])[0]
    except DefaultCredentialsError as error:
        raise _no_credentials(connection, error) from error
    return credentials


def _no_credentials(connection: Connection, error: Exception) -> ProviderError:
    # google-auth appends a pointer to its documentation: " To set up Application Default Credentials, see https://…".
    reason = _first_line(error).partition(" To set up")[0].rstrip(".")
    return ProviderError(
        ErrorKind.NO_CREDENTIAL, f"cannot sign in to Google Cloud: {reason[:200]}; {_advice(connection)}"
    )


def _advice(connection: Connection) -> str:
    return f"run {connection.sign_in}, or set GOOGLE_APPLICATION_CREDENTIALS"


def _first_line(error: Exception) -> str:
    """Return the first line of an error of google-auth, whose first argument is the message."""
    return str(error.args[0] if error.args else error).partition("\n")[0]


def _sign_in_failure(connection: Connection, error: Exception) -> ProviderError | None:
    """Convert an error of google-auth; return None for any other error."""
    from google.auth import exceptions

    if isinstance(error, exceptions.RefreshError):
        reason = _first_line(error)[:200]
        text = f"{connection.name}: Google Cloud refused the credentials ({reason}); {_advice(connection)}"
        return ProviderError(ErrorKind.AUTH, text)
    if isinstance(error, exceptions.TransportError):
        reason = str(error).partition("\n")[0][:200]
        text = f"{connection.name} cannot reach Google Cloud to sign in: {reason}"
        return ProviderError(ErrorKind.UNREACHABLE, text)
    if isinstance(error, exceptions.GoogleAuthError):
        return with_origin(_no_credentials(connection, error), connection.origin)
    return None
