"""The Bedrock client on Amazon's real SDK: credentials, signatures, addresses, and cancelling while they are fetched.

`test_clients*` tests the behavior that all clients share. Nothing here leaves the loopback.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.provider import Provider
from qcode.protocol.reply import ReplyEnded
from qcode.providers.bedrock.client import INSTALL_HINT
from qcode.providers.registry import PROVIDERS, connect
from tests.providers.clients import JSON_HEADERS, PATIENT, collect, request_for, stream_of
from tests.providers.loopback import Answer, Loopback, Request

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def bedrock(url: str = "", **more: Any) -> Provider:
    return connect(PROVIDERS["bedrock"], base_url=url, timeouts=PATIENT, **more)


def failure_of(provider: Provider) -> ProviderError:
    async def main() -> None:
        try:
            await collect(provider, "bedrock")
        finally:
            await provider.close()

    with pytest.raises(ProviderError) as caught:
        asyncio.run(main())
    return caught.value


def test_missing_sdk_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    error = failure_of(bedrock())
    assert (error.kind, error.message) == (ErrorKind.INTERNAL, f"bedrock: {INSTALL_HINT}")
    assert "pip install '.[bedrock]'" in error.message


def test_missing_credentials_error_names_the_variables() -> None:
    error = failure_of(bedrock())
    assert error.kind is ErrorKind.NO_CREDENTIAL
    assert "AWS_PROFILE" in error.message
    assert "AWS_ACCESS_KEY_ID" in error.message


@pytest.mark.usefixtures("account")
def test_missing_region_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    error = failure_of(bedrock())
    assert error.kind is ErrorKind.BAD_REQUEST
    assert "AWS_REGION" in error.message


def test_unknown_profile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    error = failure_of(bedrock())
    assert error.kind is ErrorKind.NO_CREDENTIAL
    assert "work" in error.message


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_address_follows_the_region(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv(variable, "eu-west-9")
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    error = failure_of(bedrock())
    assert error.kind is ErrorKind.UNREACHABLE
    assert "https://bedrock-runtime.eu-west-9.amazonaws.com" in error.message
    assert "HTTPS_PROXY" in error.message


def test_host_for_learned_limits_is_known_before_the_region() -> None:
    assert bedrock().host == "bedrock"
    assert bedrock("http://127.0.0.1:1/gate").host == "http://127.0.0.1:1/gate"


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    "model",
    [
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:eu-test-1:123456789012:inference-profile/eu.anthropic.claude-x-v1:0",
    ],
)
def test_signature_matches_the_received_request(model: str) -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("bedrock")])) as server:
            provider = bedrock(server.url)
            for _ in range(2):
                request = request_for("bedrock", "images")
                events = [event async for event in provider.stream(replace(request, model=model))]
                assert isinstance(events[-1], ReplyEnded)
            await provider.close()
            for arrived in server.requests:
                assert arrived.path == f"/model/{quote(model, safe='')}/converse-stream"
                assert _signature_of(arrived, server.url) in arrived.headers["authorization"]
                assert SECRET not in json.dumps(dict(arrived.headers))

    asyncio.run(main())


def _signature_of(arrived: Request, url: str) -> str:
    """Sign the received request again, with its own time."""
    auth, credentials = importlib.import_module("botocore.auth"), importlib.import_module("botocore.credentials")
    kept_values = {name: arrived.headers[name] for name in ("content-type", "x-amz-date")}
    again = importlib.import_module("botocore.awsrequest").AWSRequest(
        "POST", f"{url}{arrived.path}", kept_values, arrived.body
    )
    again.context["timestamp"] = arrived.headers["x-amz-date"]
    signer = auth.SigV4Auth(credentials.Credentials("AKIDEXAMPLE", SECRET), "bedrock", "eu-test-1")
    signature: str = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    return signature


@pytest.mark.usefixtures("account")
def test_bedrock_key_is_sent_instead_of_a_signature() -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("bedrock")])) as server:
            provider = bedrock(server.url, api_key="bedrock-api-key-1", key_source="WORK_KEY")
            await collect(provider, "bedrock")
            await provider.close()
            assert server.requests[0].headers["authorization"] == "Bearer bedrock-api-key-1"

    asyncio.run(main())


@pytest.mark.usefixtures("account")
def test_amazon_error_is_classified_by_its_header() -> None:
    async def main() -> None:
        headers = {"x-amzn-errortype": "ModelNotReadyException:http://x.test/", "x-amzn-requestid": "r", **JSON_HEADERS}
        async with Loopback(Answer([b'{"message":"Not ready yet"}'], status=429, headers=headers)) as server:
            provider = bedrock(server.url)
            with pytest.raises(ProviderError, match="Not ready yet") as caught:
                await collect(provider, "bedrock")
            await provider.close()
            assert (caught.value.kind, caught.value.request_id) == (ErrorKind.OVERLOADED, "r")
            assert len(server.requests) == 1

    asyncio.run(main())


@pytest.mark.usefixtures("account")
def test_closed_client_connects_again() -> None:
    async def main() -> None:
        async with Loopback(Answer([stream_of("bedrock")])) as server:
            provider = bedrock(server.url)
            for _ in range(2):
                await collect(provider, "bedrock")
                await provider.close()
            assert len(server.requests) == 2

    asyncio.run(main())


@pytest.mark.usefixtures("account")
def test_models_that_stream_and_inference_profiles_are_listed() -> None:
    models = [
        {"modelArn": "arn:m", "modelId": "amazon.nova-pro-v1:0", "responseStreamingSupported": True},
        {"modelArn": "arn:o", "modelId": "old.model", "responseStreamingSupported": False},
    ]
    shared = {"inferenceProfileName": "n", "inferenceProfileArn": "arn:p", "models": [], "status": "ACTIVE"}
    profiles = [
        {**shared, "inferenceProfileId": "eu.anthropic.claude-x", "type": "SYSTEM_DEFINED"},
        {**shared, "inferenceProfileId": "abc", "type": "APPLICATION"},
    ]
    answers = [
        Answer([json.dumps(body).encode()], headers=JSON_HEADERS, is_chunked=False)
        for body in ({"modelSummaries": models}, {"inferenceProfileSummaries": profiles})
    ]

    async def main() -> None:
        async with Loopback(*answers) as server:
            provider = bedrock(server.url)
            assert await provider.model_names() == ("amazon.nova-pro-v1:0", "arn:p", "eu.anthropic.claude-x")
            await provider.close()

    asyncio.run(main())


def test_certificate_file_from_the_amazon_settings_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    error = failure_of(bedrock())
    assert error.kind is ErrorKind.TLS
    assert "/nowhere/ca.pem" in error.message


_SCRIPT = """
import asyncio, contextlib, os, sys, time
from qcode.providers.registry import PROVIDERS, connect
from tests.providers.clients import request_for

async def main():
    asked = asyncio.Event()

    async def keep_waiting(reader, writer):
        asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    server = await asyncio.start_server(keep_waiting, "127.0.0.1", 0)
    os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    provider = connect(PROVIDERS["bedrock"])

    async def collect():
        async for _ in provider.stream(request_for("bedrock")):
            pass

    task = asyncio.create_task(collect())
    await asked.wait()
    started = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    sys.stdout.write(f"{time.monotonic() - started}\\n{time.time()}\\n")
    sys.stdout.flush()

asyncio.run(main())
"""


def test_hanging_credential_lookup_blocks_neither_the_turn_nor_exit() -> None:
    """The SDK waits seconds for a credential endpoint that says nothing, and tries it several times."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    cancelled, ended = (float(line) for line in done.stdout.split())
    assert done.stderr == ""
    assert cancelled < 0.2
    assert time.time() - ended < 1.5
