"""Bedrock over Amazon's SDK, which finds region, address and credentials, and makes and signs each request.

The SDK is synchronous, and a read in a thread can be neither cancelled nor watched like the others. So it works in
a thread up to the signed request only (`signing`); that is sent, and its answer read as bytes, like those of all
providers. The body is the one the codec made.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qcode.protocol.errors import ProviderError
from qcode.protocol.model import ModelRequest
from qcode.protocol.values import dataclass
from qcode.providers.bedrock.codec import Decoder, encode
from qcode.providers.bedrock.failures import SIGN_IN, of_sdk
from qcode.providers.bedrock.frames import FrameParser
from qcode.providers.bedrock.signing import Control, Signer, connect
from qcode.providers.connection import Connection
from qcode.providers.history import stripped_prefill
from qcode.providers.shapes import objects_in, text_in
from qcode.providers.streaming import SdkProvider
from qcode.providers.threads import run_aside
from qcode.providers.transport import http_client, quiet

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class _Client:
    signer: Signer
    control: Callable[[], Control]
    http: httpx2.AsyncClient


class BedrockProvider(SdkProvider[_Client]):
    """Amazon Bedrock, with the credentials Amazon's SDK finds, or with a Bedrock API key."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(replace(connection, sign_in=SIGN_IN))
        self.host = connection.base_url or connection.name
        self._given = self._connection

    def _make_client(self) -> _Client:
        quiet("botocore", "urllib3", "httpx2", "httpcore2")
        amazon = connect(self._given)
        self._connection = replace(self._given, base_url=amazon.runtime.meta.endpoint_url, ca_file=amazon.ca_file)
        return _Client(Signer(amazon.runtime), amazon.control, http_client(self._connection))

    async def _close_client(self, client: _Client) -> None:
        await client.http.aclose()

    def _decoder(self, request: ModelRequest) -> Decoder:
        return Decoder(request.model, tag=str(len(request.messages)), prefilled_space=stripped_prefill(request))

    def _parser(self) -> FrameParser:
        return FrameParser()

    @asynccontextmanager
    async def _open(self, client: _Client, request: ModelRequest) -> AsyncIterator[httpx2.Response]:
        import httpx2

        body = json.dumps(encode(request), ensure_ascii=False).encode()
        # Credentials may have to be fetched or refreshed first.
        signed = await run_aside(lambda: client.signer.sign(request.model, body))
        headers = {**self._connection.headers, **signed.headers}
        async with client.http.stream(signed.method, signed.url, headers=headers, content=signed.body) as response:
            if response.status_code != httpx2.codes.OK:
                await response.aread()
                raise httpx2.HTTPStatusError("refused", request=response.request, response=response)
            yield response

    async def _list_models(self, client: _Client) -> list[str]:
        return await run_aside(lambda: _model_names(client.control()))

    def _failures(self) -> tuple[type[Exception], ...]:
        exceptions = importlib.import_module("botocore.exceptions")
        return (exceptions.BotoCoreError, exceptions.ClientError)

    def _failure(self, error: Exception) -> ProviderError:
        return of_sdk(self._connection.origin, error, now=datetime.now(UTC)) or super()._failure(error)


def _model_names(control: Control) -> list[str]:
    """Return the models that stream text on demand, and the inference profiles, through which the others go."""
    listed = control.list_foundation_models(byOutputModality="TEXT", byInferenceType="ON_DEMAND")
    models = [model for model in objects_in(listed.get("modelSummaries")) if model.get("responseStreamingSupported")]
    names = [text_in(model.get("modelId")) for model in models]
    for page in control.get_paginator("list_inference_profiles").paginate():
        for profile in objects_in(page.get("inferenceProfileSummaries")):
            is_own = profile.get("type") == "APPLICATION"
            names.append(text_in(profile.get("inferenceProfileArn" if is_own else "inferenceProfileId")))
    return [name for name in names if name]
