"""Vertex AI: Gemini and Claude over the real SDKs and real HTTP, with a token or a credentials file."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from qcode.config.paths import CONFIG_NAME
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Message, Text
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, StopReason, TextDelta
from qcode.providers.registry import PROVIDERS, connect
from qcode.providers.vertex.address import split_address, vertex_address
from tests.e2e.running import CliRunner
from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.gemini_wire import GeminiWire
from tests.fakes.server import FakeServer, Wire
from tests.fakes.turns import ReceivedRequest, Turn, refused

PLACE = "projects/my-project/locations/europe-west1"
GEMINI = re.compile(rf"/v1beta1/{PLACE}/publishers/google/models/([^/:]+):streamGenerateContent")
CLAUDE = re.compile(rf"/v1/{PLACE}/publishers/anthropic/models/([^/:]+):streamRawPredict")


class VertexGeminiWire(GeminiWire):
    def is_reply(self, path: str) -> bool:
        return GEMINI.fullmatch(path) is not None

    def key_of(self, headers: Any, query: Any) -> str:
        return str(headers.get("authorization", "")).removeprefix("Bearer ")

    def read(self, asked: ReceivedRequest) -> ReceivedRequest:
        found = GEMINI.fullmatch(asked.path)
        assert found is not None
        return super().read(
            ReceivedRequest(f"/v1beta/models/{found[1]}:streamGenerateContent", asked.query, asked.headers, asked.body)
        )


class VertexClaudeWire(AnthropicWire):
    def is_reply(self, path: str) -> bool:
        return CLAUDE.fullmatch(path) is not None

    def complaint(self, asked: ReceivedRequest) -> str | None:
        if "model" in asked.body or "anthropic_version" not in asked.body:
            return "the model belongs into the path, and the version into the body"
        return None


CASES: list[tuple[str, Wire, str]] = [
    ("vertex", VertexGeminiWire(), "gemini-3-pro"),
    ("vertex-anthropic", VertexClaudeWire(), "claude-sonnet-4-5@20250929"),
]


def origin(server: FakeServer) -> str:
    return server.base_url.split("/v1")[0]


def ask(name: str, base_url: str, model: str, token: str = "") -> str:
    """Return the text of a reply."""

    async def run() -> str:
        provider = connect(PROVIDERS[name], base_url=base_url, api_key=token, key_source="CLOUDSDK_AUTH_ACCESS_TOKEN")
        try:
            request = ModelRequest(model, "be brief", (Message("user", (Text("hi"),)),), (), 1000)
            events = [event async for event in provider.stream(request)]
        finally:
            await provider.close()
        assert isinstance(events[-1], ReplyEnded)
        assert events[-1].stop is StopReason.END_TURN
        return "".join(event.text for event in events if isinstance(event, TextDelta))

    return asyncio.run(run())


@pytest.mark.parametrize(("name", "wire", "model"), CASES, ids=["gemini", "claude"])
def test_reply_is_read_with_a_token(name: str, wire: Wire, model: str) -> None:
    with FakeServer(wire, [Turn(text=("Hello ", "you"))], api_key="token-1") as server:
        assert ask(name, f"{origin(server)}/{PLACE}", model, "token-1") == "Hello you"
        (asked,) = server.requests
    assert "x-goog-api-key" not in asked.headers
    assert "x-api-key" not in asked.headers


class TokenServer(BaseHTTPRequestHandler):
    """Gives an access token for the refresh token `good`."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        is_good = "refresh_token=good" in body
        answer = {"access_token": "token-2", "expires_in": 3600} if is_good else {"error": "invalid_grant"}
        data = json.dumps(answer).encode()
        self.send_response(200 if is_good else 400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def token_uri() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), TokenServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


def signed_in(path: Path, monkeypatch: pytest.MonkeyPatch, token_uri: str, refresh_token: str = "good") -> None:
    """Write a file of `gcloud auth application-default login`."""
    import google.oauth2.credentials

    monkeypatch.setattr(google.oauth2.credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", token_uri)
    row = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": refresh_token}
    path.write_text(json.dumps(row))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "wire", "model"), CASES, ids=["gemini", "claude"])
def test_reply_is_read_with_the_credentials_of_the_machine(
    name: str, wire: Wire, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token_uri: str
) -> None:
    signed_in(tmp_path / "adc.json", monkeypatch, token_uri)
    with FakeServer(wire, [Turn(text="ok")], api_key="token-2") as server:
        assert ask(name, f"{origin(server)}/{PLACE}", model) == "ok"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "wire", "model"), CASES, ids=["gemini", "claude"])
def test_refused_credentials_are_one_line(
    name: str, wire: Wire, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token_uri: str
) -> None:
    signed_in(tmp_path / "adc.json", monkeypatch, token_uri, "bad")
    with FakeServer(wire, []) as server, pytest.raises(ProviderError) as failed:
        ask(name, f"{origin(server)}/{PLACE}", model)
    assert failed.value.kind is ErrorKind.AUTH
    assert failed.value.message.startswith(f"{name}: Google Cloud refused the credentials (invalid_grant")
    assert "gcloud auth application-default login" in failed.value.message
    assert "\n" not in failed.value.message


@pytest.mark.parametrize("content", [None, "not json", "{}"])
@pytest.mark.parametrize(("name", "wire", "model"), CASES, ids=["gemini", "claude"])
def test_unusable_credentials_are_one_line(
    name: str, wire: Wire, model: str, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "adc.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with FakeServer(wire, []) as server, pytest.raises(ProviderError) as failed:
        ask(name, f"{origin(server)}/{PLACE}", model)
    assert failed.value.kind is ErrorKind.NO_CREDENTIAL
    assert failed.value.message.startswith(f"{name}: cannot sign in to Google Cloud: ")
    assert "\n" not in failed.value.message


@pytest.mark.parametrize(("name", "wire", "model"), CASES, ids=["gemini", "claude"])
def test_refusal_of_the_host_keeps_its_kind(name: str, wire: Wire, model: str) -> None:
    with FakeServer(wire, [refused(429, "Quota exceeded")]) as server, pytest.raises(ProviderError) as failed:
        ask(name, f"{origin(server)}/{PLACE}", model, "t")
    assert failed.value.kind is ErrorKind.RATE_LIMIT


@pytest.mark.parametrize("name", ["vertex", "vertex-anthropic"])
def test_missing_project_is_named(name: str) -> None:
    with pytest.raises(ProviderError, match=rf"{name} needs a Google Cloud project: set GOOGLE_CLOUD_PROJECT"):
        connect(PROVIDERS[name])


@pytest.mark.parametrize(
    ("environ", "given", "address"),
    [
        ({"GOOGLE_CLOUD_PROJECT": "p"}, {}, "https://aiplatform.googleapis.com/projects/p/locations/global"),
        (
            {"ANTHROPIC_VERTEX_PROJECT_ID": "p", "CLOUD_ML_REGION": "us-east5"},
            {},
            "https://us-east5-aiplatform.googleapis.com/projects/p/locations/us-east5",
        ),
        (
            {"GOOGLE_CLOUD_PROJECT": "p"},
            {"project": "q", "location": "eu"},
            "https://aiplatform.eu.rep.googleapis.com/projects/q/locations/eu",
        ),
        ({}, {"project": "q", "host": "http://h/x/"}, "http://h/x/projects/q/locations/global"),
    ],
)
def test_address_names_project_and_location(environ: dict[str, str], given: dict[str, str], address: str) -> None:
    found = vertex_address(environ, **given).value
    assert found == address
    assert "/".join(split_address(found)[1:]) in found.replace("/locations", "")


def test_hosts_are_those_of_the_sdks() -> None:
    from anthropic import AsyncAnthropicVertex
    from google.genai import Client
    from google.oauth2.credentials import Credentials

    for location in ("global", "eu", "us", "europe-west1"):
        host = split_address(vertex_address({}, project="p", location=location).value).host
        token = Credentials(token="t")  # type: ignore[no-untyped-call]
        google = Client(vertexai=True, project="p", location=location, credentials=token)
        assert str(google._api_client._http_options.base_url).rstrip("/") == host
        claude = AsyncAnthropicVertex(region=location, project_id="p", access_token="t")
        assert str(claude.base_url) == f"{host}/v1/"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", ["vertex/gemini-3-pro", "vertex/claude-sonnet-4-5@20250929", "cloud/gemini-3-pro"])
def test_run_needs_a_project_and_a_token(tmp_path: Path, model: str) -> None:

    cli = CliRunner(tmp_path)
    wire: Wire = VertexClaudeWire() if "claude" in model else VertexGeminiWire()
    env = {"QCODE_HOME": str(cli.home), "CLOUDSDK_AUTH_ACCESS_TOKEN": "t", "GOOGLE_CLOUD_LOCATION": "europe-west1"}
    (cli.home / CONFIG_NAME).write_text(
        '[providers.cloud]\ntype = "gemini"\nproject = "my-project"\nlocation = "europe-west1"\n'
        'api_key_command = "echo t"\n'
    )
    with FakeServer(wire, [Turn(text="ok")], api_key="t") as server:
        argv = ("-m", model, "--base-url", origin(server), "-p", "hi")
        if not model.startswith("cloud"):
            lacking = cli.run(*argv, env=env)
            assert (lacking.code, lacking.out) == (2, "")
            assert "needs a Google Cloud project: set GOOGLE_CLOUD_PROJECT" in lacking.err
        done = cli.run(*argv, env=env | {"GOOGLE_CLOUD_PROJECT": "my-project"})
    assert (done.code, done.out, done.err) == (0, "ok\n", "")


def test_key_is_not_stored_for_a_project(tmp_path: Path) -> None:

    cli = CliRunner(tmp_path)
    assert "uses credentials of Google Cloud" in cli.run("auth", "login", "vertex").err
    assert "gcloud auth application-default login" in cli.run("auth", "status", "vertex").out
    known = cli.run("auth", "status", "vertex", env={"GOOGLE_CLOUD_PROJECT": "p"})
    assert known.out == "vertex  Google credentials (GOOGLE_CLOUD_PROJECT is set)\n"


def test_project_of_another_protocol_is_refused(tmp_path: Path) -> None:

    cli = CliRunner(tmp_path)
    (cli.home / CONFIG_NAME).write_text('[providers.x]\ntype = "openai"\nproject = "p"\n')
    done = cli.run("-m", "demo/demo", "-p", "hi", env={"QCODE_HOME": str(cli.home)})
    assert done.code == 52
    assert ':2: providers.x has project, so its type must be "gemini" or "anthropic"' in done.err
