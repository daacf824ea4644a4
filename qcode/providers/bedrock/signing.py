"""Amazon's SDK as far as it is used: clients for a region, and signed requests that are not sent yet.

The SDK is an extra and ships no types: it is imported by name where it connects, and the protocols here are the
part of it that is used. `before-call` and `before-send` are events it offers its users (botocore, "Events").
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Protocol

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.values import dataclass
from qcode.providers.bedrock.failures import INSTALL
from qcode.providers.connection import Connection

if TYPE_CHECKING:
    from qcode.protocol.json import JsonObject

_OPERATION = "bedrock-runtime.ConverseStream"


class Made(Protocol):
    """A request as the SDK made it."""

    method: str
    url: str
    headers: MutableMapping[str, str | bytes]


class Events(Protocol):
    def register_first(self, name: str, handler: Callable[..., None]) -> None: ...
    def register_last(self, name: str, handler: Callable[..., None]) -> None: ...


class Meta(Protocol):
    events: Events
    endpoint_url: str


class Runtime(Protocol):
    meta: Meta

    def converse_stream(self, **fields: object) -> object: ...


class Paginator(Protocol):
    def paginate(self) -> Iterable[JsonObject]: ...


class Control(Protocol):
    meta: Meta

    def list_foundation_models(self, **fields: object) -> JsonObject: ...
    def get_paginator(self, name: str) -> Paginator: ...


@dataclass(frozen=True, slots=True)
class Amazon:
    """The clients of one region, and the file of certificates that Amazon's settings name.

    `control` makes the one that lists models, which few runs need.
    """

    runtime: Runtime
    control: Callable[[], Control]
    ca_file: str


@dataclass(frozen=True, slots=True)
class Signed:
    """A request that is ready to be sent as it is: any change to address or body would break its signature."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


def connect(connection: Connection) -> Amazon:
    """Return the SDK's clients; raise `ProviderError` where it is not installed, or what it raises itself.

    With a key the key goes as a bearer token and nothing is signed. The region is `AWS_REGION`, as in Amazon's other
    SDKs, else what this one finds.
    """
    try:
        session = importlib.import_module("botocore.session").get_session()
        config_class = importlib.import_module("botocore.config").Config
        unsigned = importlib.import_module("botocore").UNSIGNED
    except ImportError as error:
        raise ProviderError(ErrorKind.INTERNAL, INSTALL) from error
    key = connection.api_key
    config = config_class(
        connect_timeout=connection.timeouts.connect,
        retries={"total_max_attempts": 1},
        signature_version=unsigned if key else None,
    )
    region = os.environ.get("AWS_REGION") or None
    address = connection.base_url or None
    runtime: Runtime = session.create_client("bedrock-runtime", region, endpoint_url=address, config=config)

    def show_key(request: Made, **_: object) -> None:
        request.headers["Authorization"] = f"Bearer {key}"

    if key:
        # The most particular name is served first, so it has to be the name under which the request is kept.
        runtime.meta.events.register_first(f"before-send.{_OPERATION}", show_key)

    def control() -> Control:
        client: Control = session.create_client("bedrock", region, endpoint_url=address, config=config)
        if key:
            client.meta.events.register_first("before-send", show_key)
        return client

    return Amazon(runtime, control, session.get_config_variable("ca_bundle") or "")


class Signer:
    """Has the SDK make and sign a request without sending it; may be used from several threads at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._here = threading.local()
        runtime.meta.events.register_last(f"before-call.{_OPERATION}", self._fill)
        runtime.meta.events.register_last(f"before-send.{_OPERATION}", self._keep)

    def sign(self, model: str, body: bytes) -> Signed:
        """Return the request that sends `body` to `model`; raises what the SDK raises."""
        self._here.body = body
        try:
            self._runtime.converse_stream(modelId=model, messages=[])
        except _Kept as kept:
            headers = {name: _text(value) for name, value in kept.request.headers.items()}
            return Signed(kept.request.method, kept.request.url, headers, body)
        raise ProviderError(ErrorKind.INTERNAL, "the SDK sent the request by itself")

    def _fill(self, params: MutableMapping[str, object], **_: object) -> None:
        params["body"] = self._here.body

    def _keep(self, request: Made, **_: object) -> None:
        raise _Kept(request)


class _Kept(Exception):  # noqa: N818 - no error: it carries a signed request past the SDK's sending
    def __init__(self, request: Made) -> None:
        super().__init__("kept")
        self.request = request


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
