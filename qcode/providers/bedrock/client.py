"""Bedrock through Amazon's SDK, which finds region, address and credentials, and builds and signs each request.

The SDK is synchronous, and a read in a thread cannot be cancelled or timed like other requests. So the SDK only builds
the signed request, in a thread; qcode sends it and reads the response as bytes, as for all providers. The SDK is an
optional dependency without types. The first request imports it, and the protocol classes here describe the methods that
qcode uses. Handlers of the SDK's public events `before-call` and `before-send` set the body and take the signed request
out. Exceptions of the SDK are recognized by name, which needs no import; `providers.errors` classifies the responses.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.model import ModelRequest
from qcode.providers.bedrock.codec import BedrockDecoder, encode
from qcode.providers.bedrock.frames import FrameParser
from qcode.providers.connection import Connection, ConnectionOrigin
from qcode.providers.errors import error_of_response, with_origin
from qcode.providers.history import EncodedMessages, stripped_prefill
from qcode.providers.sdk import http_client, run_in_thread, silence_loggers
from qcode.providers.streaming import SdkProvider
from qcode.text.json import JsonObject, object_in, objects_in, text_in
from qcode.values import dataclass

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class _BedrockClient:
    """The SDK clients and the HTTP client of one connection."""

    signer: Signer
    """Signs requests, with the SDK."""
    control: Callable[[], BedrockControl]
    """Returns the SDK client that lists models."""
    http: httpx2.AsyncClient
    """Sends the requests for replies."""


class BedrockProvider(SdkProvider[_BedrockClient]):
    """Amazon Bedrock, with the credentials that Amazon's SDK finds, or with a Bedrock API key."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(replace(connection, sign_in=SIGN_IN))
        self.host = connection.base_url or connection.name
        self._given_connection = self._connection
        """The connection before the SDK determined its address and certificates."""
        self._encoded_messages = EncodedMessages("messages", json.JSONEncoder(ensure_ascii=False))

    def _make_client(self) -> _BedrockClient:
        silence_loggers("botocore", "urllib3", "httpx2", "httpcore2")
        clients = connect(self._given_connection)
        self._connection = replace(
            self._given_connection, base_url=clients.runtime.meta.endpoint_url, ca_file=clients.ca_file
        )
        return _BedrockClient(Signer(clients.runtime), clients.control, http_client(self._connection))

    async def _close_client(self, client: _BedrockClient) -> None:
        await client.http.aclose()

    def _decoder(self, request: ModelRequest) -> BedrockDecoder:
        return BedrockDecoder(request.model, tag=str(len(request.messages)), prefilled_space=stripped_prefill(request))

    def _parser(self) -> FrameParser:
        return FrameParser()

    @asynccontextmanager
    async def _open(self, client: _BedrockClient, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        import httpx2

        body = self._encoded_messages.body(encode(request, self._encoded_messages))
        # In a thread: the SDK may first have to fetch or refresh credentials.
        signed = await run_in_thread(lambda: client.signer.sign(request.model, body))
        headers = {**self._connection.headers, **signed.headers}
        async with client.http.stream(signed.method, signed.url, headers=headers, content=signed.body) as response:
            if response.status_code != httpx2.codes.OK:
                await response.aread()
                raise httpx2.HTTPStatusError("refused", request=response.request, response=response)
            yield response

    async def _list_models(self, client: _BedrockClient) -> list[str]:
        return await run_in_thread(lambda: _model_names(client.control()))

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        exceptions = importlib.import_module("botocore.exceptions")
        return (exceptions.BotoCoreError, exceptions.ClientError)

    def _convert_error(self, error: Exception) -> ProviderError:
        return from_sdk_error(self._connection.origin, error, now=datetime.now(UTC)) or super()._convert_error(error)


def _model_names(control: BedrockControl) -> list[str]:
    """Return the models that stream text on demand, and the inference profiles, which give access to other models."""
    listed = control.list_foundation_models(byOutputModality="TEXT", byInferenceType="ON_DEMAND")
    models = [model for model in objects_in(listed.get("modelSummaries")) if model.get("responseStreamingSupported")]
    names = [text_in(model.get("modelId")) for model in models]
    for page in control.get_paginator("list_inference_profiles").paginate():
        for profile in objects_in(page.get("inferenceProfileSummaries")):
            # A request names a profile of the account by its ARN, a profile of Amazon by its id.
            is_of_account = profile.get("type") == "APPLICATION"
            names.append(text_in(profile.get("inferenceProfileArn" if is_of_account else "inferenceProfileId")))
    return [name for name in names if name]


_OPERATION = "bedrock-runtime.ConverseStream"


# These classes describe the part of the SDK that is used here, because the SDK has no types.


class BuiltRequest(Protocol):
    """A request built by the SDK."""

    method: str
    url: str
    headers: MutableMapping[str, str | bytes]


class Events(Protocol):
    def register_first(self, name: str, handler: Callable[..., None]) -> None: ...
    def register_last(self, name: str, handler: Callable[..., None]) -> None: ...


class ClientMeta(Protocol):
    events: Events
    endpoint_url: str


class Runtime(Protocol):
    meta: ClientMeta

    def converse_stream(self, **fields: object) -> object: ...


class Paginator(Protocol):
    def paginate(self) -> Iterable[JsonObject]: ...


class BedrockControl(Protocol):
    meta: ClientMeta

    def list_foundation_models(self, **fields: object) -> JsonObject: ...
    def get_paginator(self, name: str) -> Paginator: ...


@dataclass(frozen=True, slots=True)
class AmazonClients:
    """The SDK clients of one region."""

    runtime: Runtime
    control: Callable[[], BedrockControl]
    """Creates the client that lists models, which few runs need."""
    ca_file: str
    """The certificate file from Amazon's settings, empty if there is none."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A signed request. A change of its address or body would invalidate the signature."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def connect(connection: Connection) -> AmazonClients:
    """Return the SDK's clients. Raise `ProviderError` if the SDK is not installed, or an exception of the SDK.

    An API key is sent as a bearer token in an unsigned request. The region is `AWS_REGION`, as in Amazon's other SDKs,
    otherwise the region that this SDK finds.
    """
    try:
        session = importlib.import_module("botocore.session").get_session()
        config_class = importlib.import_module("botocore.config").Config
        unsigned = importlib.import_module("botocore").UNSIGNED
    except ImportError as error:
        raise ProviderError(ErrorKind.INTERNAL, INSTALL_HINT) from error
    key = connection.api_key
    config = config_class(
        connect_timeout=connection.timeouts.connect,
        retries={"total_max_attempts": 1},
        signature_version=unsigned if key else None,
    )
    region = os.environ.get("AWS_REGION") or None
    address = connection.base_url or None
    runtime: Runtime = session.create_client("bedrock-runtime", region, endpoint_url=address, config=config)

    def add_key(request: BuiltRequest, **_: object) -> None:
        request.headers["Authorization"] = f"Bearer {key}"

    if key:
        # Handlers of the most specific event run first, so the key needs the same event name as the capture.
        runtime.meta.events.register_first(f"before-send.{_OPERATION}", add_key)

    def control() -> BedrockControl:
        client: BedrockControl = session.create_client("bedrock", region, endpoint_url=address, config=config)
        if key:
            client.meta.events.register_first("before-send", add_key)
        return client

    return AmazonClients(runtime, control, session.get_config_variable("ca_bundle") or "")


class Signer:
    """A builder of requests that the SDK signs but does not send. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._thread_data = threading.local()
        runtime.meta.events.register_last(f"before-call.{_OPERATION}", self._set_body)
        runtime.meta.events.register_last(f"before-send.{_OPERATION}", self._capture_request)

    def sign(self, model: str, body: bytes) -> SignedRequest:
        """Return the signed request that sends `body` to `model`. Exceptions of the SDK pass through."""
        self._thread_data.body = body
        try:
            self._runtime.converse_stream(modelId=model, messages=[])
        except _RequestCaptured as captured:
            request = captured.request
            headers = {name: _header_text(value) for name, value in request.headers.items()}
            return SignedRequest(request.method, request.url, headers, body)
        raise ProviderError(ErrorKind.INTERNAL, "the SDK sent the request by itself")

    def _set_body(self, params: MutableMapping[str, object], **_: object) -> None:
        params["body"] = self._thread_data.body

    def _capture_request(self, request: BuiltRequest, **_: object) -> None:
        raise _RequestCaptured(request)


class _RequestCaptured(Exception):  # noqa: N818 - not an error: it carries the signed request out of the SDK before sending
    def __init__(self, request: BuiltRequest) -> None:
        super().__init__("captured")
        self.request = request


def _header_text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


INSTALL_HINT = "Amazon Bedrock needs boto3, which is not installed: run pip install '.[bedrock]' in your clone of qcode"
SIGN_IN = "check AWS_PROFILE or AWS_ACCESS_KEY_ID, and that your account has access to the model"
_SET_CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK"


class _ErrorMeaning(NamedTuple):
    """The meaning of an exception of the SDK."""

    kind: ErrorKind
    advice: str = ""
    """Advice for the user, empty if the message of the exception is enough."""


_MEANINGS: Mapping[str, _ErrorMeaning] = {
    "NoCredentialsError": _ErrorMeaning(ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "NoAuthTokenError": _ErrorMeaning(ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "PartialCredentialsError": _ErrorMeaning(ErrorKind.NO_CREDENTIAL, _SET_CREDENTIALS),
    "ProfileNotFound": _ErrorMeaning(ErrorKind.NO_CREDENTIAL, "check the profile name in AWS_PROFILE"),
    "CredentialRetrievalError": _ErrorMeaning(ErrorKind.AUTH),
    "MetadataRetrievalError": _ErrorMeaning(ErrorKind.AUTH),
    "TokenRetrievalError": _ErrorMeaning(ErrorKind.AUTH),
    "SSOError": _ErrorMeaning(ErrorKind.AUTH),
    "LoginError": _ErrorMeaning(ErrorKind.AUTH),
    "RefreshWithMFAUnsupportedError": _ErrorMeaning(ErrorKind.AUTH),
    "NoRegionError": _ErrorMeaning(ErrorKind.BAD_REQUEST, "set AWS_REGION, or a region in the AWS profile"),
    "InvalidRegionError": _ErrorMeaning(ErrorKind.BAD_REQUEST, "check the region in AWS_REGION or the AWS profile"),
    "ValidationError": _ErrorMeaning(ErrorKind.BAD_REQUEST),
    "ParamValidationError": _ErrorMeaning(ErrorKind.BAD_REQUEST),
    "ConfigParseError": _ErrorMeaning(ErrorKind.BAD_REQUEST),
    "ReadTimeoutError": _ErrorMeaning(ErrorKind.TIMEOUT),
    "ConnectionError": _ErrorMeaning(ErrorKind.UNREACHABLE),
    "BaseEndpointResolverError": _ErrorMeaning(ErrorKind.UNREACHABLE),
    "EndpointProviderError": _ErrorMeaning(ErrorKind.UNREACHABLE),
    "HTTPClientError": _ErrorMeaning(ErrorKind.CONNECTION),
}
"""The meaning of an exception by its name, or by the name of one of its base classes."""


def from_sdk_error(origin: ConnectionOrigin, error: Exception, *, now: datetime) -> ProviderError | None:
    """Convert an exception of botocore; return None for any other exception."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return _client_error(origin, response, now=now)
    names = [kind.__name__ for kind in type(error).__mro__]
    if "BotoCoreError" not in names:
        return None
    meaning = next((_MEANINGS[name] for name in names if name in _MEANINGS), _ErrorMeaning(ErrorKind.INTERNAL))
    text = str(error).rstrip(".")
    message = f"{text}; {meaning.advice}" if meaning.advice else text
    return with_origin(ProviderError(meaning.kind, message), origin)


def _client_error(origin: ConnectionOrigin, response: JsonObject, *, now: datetime) -> ProviderError:
    """Convert a `ClientError`: a response with an error status, already read by the SDK."""
    error, meta = object_in(response.get("Error")), object_in(response.get("ResponseMetadata"))
    status = meta.get("HTTPStatusCode")
    headers = {name: str(value) for name, value in object_in(meta.get("HTTPHeaders")).items()}
    if isinstance(request_id := meta.get("RequestId"), str):
        headers.setdefault("x-amzn-requestid", request_id)
    content = json.dumps({"__type": error.get("Code"), "message": error.get("Message")}).encode()
    return error_of_response(origin, status if isinstance(status, int) else 500, headers, content, now=now)
