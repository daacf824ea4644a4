"""Requests to each built-in host: address, key and the fields that differ from OpenAI.

Requests go to the real name of the host, over plain HTTP through a proxy on loopback. So the rules that depend on the
address apply as they do in real use.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelRequest
from qcode.providers import azure
from qcode.providers.registry import PROVIDERS, ProviderSpec, base_url_of, connect
from tests.providers.cases import READ_FILE
from tests.providers.clients import PATIENT, stream_of
from tests.providers.loopback import Answer, Loopback, Request

KEY = "key-0123456789"
HISTORY = (
    user("Go."),
    assistant(Reasoning("Thought."), ToolCall("functions.f:0", "read_file", "{}")),
    Message("user", (ToolResult("functions.f:0", "read_file", "done"),)),
)
REQUEST = ModelRequest("some-model", "Be brief.", HISTORY, (READ_FILE,), 500, effort="high")
PREFILL = replace(REQUEST, messages=(user("Go."), assistant(Text("So far"))), is_prefill=True, effort=None)


@dataclass(frozen=True)
class Row:
    """`effort` and `prefilled` are the fields a host gets for those; `echo` the one that carries thinking back."""

    name: str
    url: str
    key: str = f"Bearer {KEY}"
    key_header: str = "authorization"
    cap: str = "max_tokens"
    effort: tuple[str, Any] = ("reasoning_effort", "high")
    prefilled: str = ""
    prefill_url: str = ""
    echo: str = ""
    call_id: str = "functions.f:0"
    has_usage: bool = True

    def __str__(self) -> str:
        return self.name


THINKING = ("thinking", {"type": "enabled"})
ROWS = [
    Row("openai", "http://api.openai.com/v1/chat/completions", cap="max_completion_tokens", call_id=""),
    Row("openrouter", "http://openrouter.ai/api/v1/chat/completions"),
    Row(
        "deepseek", "http://api.deepseek.com/chat/completions", effort=THINKING, echo="reasoning_content",
        prefilled="prefix", prefill_url="http://api.deepseek.com/beta/chat/completions",
    ),
    Row(
        "qwen", "http://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
        effort=("enable_thinking", True), prefilled="partial",
    ),
    Row(
        "kimi", "http://api.moonshot.ai/v1/chat/completions", effort=THINKING, echo="reasoning_content",
        prefilled="partial",
    ),
    Row("glm", "http://api.z.ai/api/paas/v4/chat/completions", effort=THINKING, echo="reasoning_content"),
    Row(
        "mistral", "http://api.mistral.ai/v1/chat/completions", effort=("reasoning_effort", None), prefilled="prefix",
        call_id="", has_usage=False,
    ),
    Row("groq", "http://api.groq.com/openai/v1/chat/completions"),
    Row("xai", "http://api.x.ai/v1/chat/completions"),
    Row("together", "http://api.together.xyz/v1/chat/completions"),
    Row(
        "azure", "http://r.openai.azure.com/openai/v1/chat/completions", key=KEY, key_header="api-key",
        cap="max_completion_tokens", call_id="",
    ),
    *(
        Row(name, "", prefilled="continue_final_message")
        for name in ("ollama", "lmstudio", "llamacpp", "vllm", "sglang")
    ),
]  # fmt: skip


def sent(
    spec: ProviderSpec, request: ModelRequest, monkeypatch: pytest.MonkeyPatch, address: str = "", **more: Any
) -> Request:
    async def main() -> Request:
        async with Loopback(Answer([stream_of("openai")])) as server:
            base_url = address or spec.base_url.replace("https://", "http://")
            if "localhost" in base_url:
                base_url = f"{server.url}/v1"
            for name in ("no_proxy", "NO_PROXY", "http_proxy"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("HTTP_PROXY", server.url)
            monkeypatch.setenv("http_proxy", server.url)
            provider = connect(spec, base_url=base_url, api_key=KEY, timeouts=PATIENT, **more)
            async for _ in provider.stream(request):
                pass
            await provider.close()
            (found,) = server.requests
            return found

    return asyncio.run(main())


def address_of(row: Row) -> str:
    return "http://r.openai.azure.com/" if row.name == "azure" else ""


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_request_has_the_format_of_its_host(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    request = sent(PROVIDERS[row.name], REQUEST, monkeypatch, address_of(row))
    assert request.path == (row.url or "/v1/chat/completions")
    assert request.headers[row.key_header] == row.key
    assert ("authorization" in request.headers) is (row.key_header == "authorization")
    body = json.loads(request.body)
    assert body[row.cap] == 500
    assert {"max_tokens", "max_completion_tokens"} & body.keys() == {row.cap}
    assert body.get(row.effort[0]) == row.effort[1]
    assert ("stream_options" in body) is row.has_usage
    said, result = body["messages"][2], body["messages"][3]
    assert said.get("reasoning_content") == ("Thought." if row.echo else None)
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    assert said["tool_calls"][0]["id"] == row.call_id or not row.call_id


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_host_continues_a_message_in_its_own_way(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    request = sent(PROVIDERS[row.name], PREFILL, monkeypatch, address_of(row))
    assert request.path == (row.prefill_url or row.url or "/v1/chat/completions")
    body = json.loads(request.body)
    last = body["messages"][-1]
    assert (last["role"], last["content"]) == ("assistant", "So far")
    marks = {name for name in ("prefix", "partial") if last.get(name)}
    marks |= {"continue_final_message"} & body.keys()
    assert marks == ({row.prefilled} if row.prefilled else set())


def test_table_has_every_host_of_the_protocol() -> None:
    assert {row.name for row in ROWS} == {spec.name for spec in PROVIDERS.values() if spec.protocol == "openai"}


@pytest.mark.parametrize(
    ("given", "environ", "address"),
    [
        ("https://r.openai.azure.com/", {}, "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/openai", {}, "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/openai/v1/", {}, "https://r.openai.azure.com/openai/v1"),
        ("https://r.services.ai.azure.com", {}, "https://r.services.ai.azure.com/openai/v1"),
        (
            "https://r.openai.azure.com",
            {"OPENAI_API_VERSION": "2024-10-21"},
            "https://r.openai.azure.com/openai/deployments/{model}?api-version=2024-10-21",
        ),
        (
            "https://r.openai.azure.com",
            {"AZURE_OPENAI_API_VERSION": "preview"},
            "https://r.openai.azure.com/openai/v1?api-version=preview",
        ),
        (
            "https://r.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
            {"OPENAI_API_VERSION": "2020-01-01"},
            "https://r.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21",
        ),
    ],
)
def test_endpoint_of_azure_is_completed(given: str, environ: dict[str, str], address: str) -> None:
    found, variable = base_url_of(PROVIDERS["azure"], {"AZURE_OPENAI_ENDPOINT": given, **environ})
    assert variable == "AZURE_OPENAI_ENDPOINT"
    assert azure.complete(found) == address


def test_dated_version_of_azure_names_the_deployment_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://r.openai.azure.com?api-version=2024-10-21"
    request = sent(PROVIDERS["azure"], replace(REQUEST, model="my gpt"), monkeypatch, address)
    expected = "http://r.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"
    assert request.path == expected


def test_entra_token_is_sent_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://r.openai.azure.com"
    request = sent(PROVIDERS["azure"], REQUEST, monkeypatch, address, key_source=azure.TOKEN_VARIABLE)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "api-key" not in request.headers


def test_azure_address_under_another_name_is_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    request = sent(PROVIDERS["openai"], REQUEST, monkeypatch, "http://r.openai.azure.com/openai/v1")
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
