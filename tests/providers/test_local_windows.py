"""How large a local model's window is: each kind of server is asked once, with a short time limit."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from qcode.providers.local import LocalWindow, WindowQuery, is_known_server
from qcode.text.json import Json, JsonObject
from tests.providers.loopback import Answer, Loopback, Stall, free_port

Routes: TypeAlias = Mapping[str, Json]


def listed(owner: str, **figures: Json) -> JsonObject:
    return {"object": "list", "data": [{"id": "qwen3", "object": "model", "owned_by": owner, **figures}]}


class Server:
    """Answers by path and records the requests; 404 elsewhere. `later` replaces an answer after the first."""

    def __init__(self, routes: Routes, later: Routes | None = None, *, has_length: bool = True) -> None:
        self.later = later or {}
        self.routes = dict(routes)
        self.asked: list[str] = []
        self.headers: list[str] = []
        self.url = ""
        self._has_length = has_length

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        self.asked.append(f"{method} {target.partition('?')[0]}")
        self.headers.append(head.lower())
        path = target.partition("?")[0]
        found = self.routes.get(path)
        self.routes[path] = self.later.get(path, found)
        body = json.dumps(found).encode()
        status = b"404 no" if found is None else b"200 OK"
        length = b"Content-Length: %d\r\n" % len(body) if self._has_length else b""
        writer.write(b"HTTP/1.1 %s\r\n%s\r\n%s" % (status, length, body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[Server]:
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def asked_of(server: Server, provider: str = "mine", model: str = "qwen3", times: int = 1) -> list[LocalWindow | None]:
    async def main() -> list[LocalWindow | None]:
        async with serving(server):
            question = WindowQuery(provider, server.url, model, key="k-1", headers={"X-Team": "blue"})
            return [await question.send(5) for _ in range(times)]

    return asyncio.run(main())


def tokens_of(server: Server, provider: str = "mine", model: str = "qwen3") -> int | None:
    (found,) = asked_of(server, provider, model)
    return None if found is None else found.tokens


OLLAMA_LIST: Json = listed("library")
OLLAMA_PS: Json = {"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 8192}]}


@pytest.mark.parametrize(
    ("routes", "tokens", "asked", "advice"),
    [
        (
            {"/v1/models": OLLAMA_LIST, "/api/ps": OLLAMA_PS},
            8192, ["GET /v1/models", "GET /api/ps"], "OLLAMA_CONTEXT_LENGTH",
        ),
        (
            {"/v1/models": OLLAMA_LIST, "/api/ps": {}, "/api/show": {"parameters": "stop  x\nnum_ctx   16384"}},
            16384, ["GET /v1/models", "GET /api/ps", "POST /api/show"], "num_ctx",
        ),
        (
            {
                "/v1/models": listed("organization_owner"),
                "/api/v0/models": {"data": [
                    {"id": "other", "loaded_context_length": 1},
                    {"id": "qwen3", "loaded_context_length": 4096, "max_context_length": 131072},
                ]},
            },
            4096, ["GET /v1/models", "GET /api/v0/models"], "lms load",
        ),
        (
            {
                "/v1/models": listed("llamacpp", meta={"n_ctx_train": 131072}),
                "/props": {"default_generation_settings": {"n_ctx": 12288}},
            },
            12288, ["GET /v1/models", "GET /props"], "-c 32768",
        ),
        ({"/v1/models": listed("vllm", max_model_len=40960)}, 40960, ["GET /v1/models"], "--max-model-len"),
        ({"/v1/models": listed("sglang", max_model_len=40960)}, 40960, ["GET /v1/models"], "--context-length"),
        (
            {"/v1/models": listed("sglang"), "/get_server_info": {"context_length": 65536}},
            65536, ["GET /v1/models", "GET /get_server_info"], "--context-length",
        ),
        ({"/v1/models": listed("someone", context_window=9000)}, 9000, ["GET /v1/models"], "larger context"),
    ],
)  # fmt: skip
def test_each_server_type_gets_its_own_request(routes: Routes, tokens: int, asked: list[str], advice: str) -> None:
    server = Server(routes)
    (found,) = asked_of(server)
    assert found is not None
    assert (found.tokens, server.asked) == (tokens, asked)
    assert advice in found.advice
    assert all("authorization: bearer k-1" in head and "x-team: blue" in head for head in server.headers)


@pytest.mark.parametrize(
    ("provider", "routes", "first"),
    [
        ("ollama", {"/api/ps": OLLAMA_PS}, "GET /api/ps"),
        (
            "lmstudio",
            {"/api/v0/models": {"data": [{"id": "qwen3", "loaded_context_length": 8192}]}},
            "GET /api/v0/models",
        ),
    ],
)
def test_server_of_known_type_gets_only_its_request(provider: str, routes: Routes, first: str) -> None:
    server = Server(routes)
    assert tokens_of(server, provider) == 8192
    assert server.asked == [first]


def test_unrecognized_server_gets_only_one_request() -> None:
    server = Server({"/v1/models": listed("acme")})
    assert asked_of(server, times=3) == [None, None, None]
    assert server.asked == ["GET /v1/models"]


def test_window_of_an_unloaded_model_is_requested_again() -> None:
    server = Server({"/api/ps": {"models": []}, "/api/show": {"parameters": ""}}, {"/api/ps": OLLAMA_PS})
    first, second, third = asked_of(server, "ollama", times=3)
    assert (first, second and second.tokens, third) == (None, 8192, None)
    assert server.asked == ["GET /api/ps", "POST /api/show", "GET /api/ps"]


def test_adapter_has_the_window_of_its_base_model() -> None:
    rows: list[Json] = [{"id": "base", "owned_by": "vllm", "max_model_len": 8192}, {"id": "lora", "owned_by": "vllm"}]
    assert tokens_of(Server({"/v1/models": {"data": rows}}), model="lora") == 8192


def test_response_that_ends_with_its_connection_is_read() -> None:
    assert tokens_of(Server({"/v1/models": listed("vllm", max_model_len=100)}, has_length=False)) == 100


@pytest.mark.parametrize("figure", [None, 0, -1, "8192", True, 1e400, [], {}])
def test_invalid_window_is_ignored(figure: Json) -> None:
    assert tokens_of(Server({"/v1/models": listed("vllm", max_model_len=figure)})) is None


@pytest.mark.parametrize(
    "answer",
    [
        Answer([b"<html>"], is_chunked=False),
        Answer([b"data: {}\n\n"], is_chunked=False),
        Answer([b"[1]"], is_chunked=False),
        Answer([b'{"data": [1, null]}'], is_chunked=False),
        Answer([b"{}"], status=500, is_chunked=False),
        Answer([b"{}"], headers={"content-length": "99999999"}, is_chunked=False),
    ],
)
def test_other_server_at_the_address_gives_no_window(answer: Answer) -> None:
    async def main() -> LocalWindow | None:
        async with Loopback(answer) as server:
            return await WindowQuery("mine", f"{server.url}/v1", "m").send(5)

    assert asyncio.run(main()) is None


def test_silent_or_missing_server_costs_at_most_the_time_limit() -> None:
    async def main() -> None:
        started = time.monotonic()
        async with Loopback(Answer([Stall()])) as server:
            assert await WindowQuery("mine", f"{server.url}/v1", "m").send(0.1) is None
        assert await WindowQuery("mine", f"http://127.0.0.1:{free_port()}/v1", "m").send(0.1) is None
        assert await WindowQuery("mine", "https://127.0.0.1/v1", "m").send(0.1) is None
        assert time.monotonic() - started < 2

    asyncio.run(main())


def test_query_waits_300_milliseconds_for_a_silent_server_by_default() -> None:
    async def main() -> float:
        async with Loopback(Answer([Stall()])) as server:
            started = time.monotonic()
            assert await WindowQuery("mine", f"{server.url}/v1", "m").send() is None
            return time.monotonic() - started

    assert 0.3 <= asyncio.run(main()) < 2


def test_window_under_32_thousand_tokens_is_small() -> None:
    assert [LocalWindow(tokens, "").is_small for tokens in (31_999, 32_000, 32_768)] == [True, False, False]


@pytest.mark.parametrize(
    ("provider", "address", "is_asked"),
    [
        ("ollama", "http://127.0.0.1:4321/v1", True),
        ("openai", "http://127.0.0.1:11434/v1", True),
        ("lab", "http://localhost:8000/v1", True),
        ("openai", "http://127.0.0.1:4321/v1", False),
        ("lab", "http://[::1]/v1", False),
        ("openai", "http://localhost:port/v1", False),
    ],
)
def test_only_servers_of_a_known_type_get_a_request(provider: str, address: str, is_asked: bool) -> None:
    assert is_known_server(provider, address) is is_asked
