"""Finding a local server: the first that answers with a model that can call tools, and at no cost if there is none."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from qcode.providers.local import find_local_server, find_local_servers
from qcode.providers.registry import PROVIDERS
from qcode.text.json import Json
from tests.providers.loopback import Answer, Loopback, Stall, free_port

NAMES = ("ollama", "lmstudio", "llamacpp", "vllm", "sglang")


def json_answer(value: Json, status: int = 200) -> Answer:
    return Answer([json.dumps(value).encode()], status, {"content-type": "application/json"}, is_chunked=False)


def models(*names: str) -> Answer:
    return json_answer({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


def found_at(servers: dict[str, Loopback], timeout: float | None = 2.0) -> tuple[str, str] | None:
    async def main() -> tuple[str, str] | None:
        async with AsyncExitStack() as stack:
            ports = {name: free_port() for name in NAMES}
            for name, server in servers.items():
                await stack.enter_async_context(server)
                ports[name] = int(server.url.rpartition(":")[2])
            search = find_local_server(ports=ports) if timeout is None else find_local_server(timeout, ports)
            found = await search
            return None if found is None else (found.spec.name, found.model)

    return asyncio.run(main())


def ollama(*shown: Answer, names: tuple[str, ...] = ("nomic-embed-text", "llama3", "qwen3")) -> Loopback:
    return Loopback(json_answer({"models": [{"name": name} for name in names]}), *shown)


def test_closed_ports_are_skipped_at_once() -> None:
    started = time.monotonic()
    assert found_at({}) is None
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("name", ["llamacpp", "vllm", "sglang"])
def test_first_chat_model_is_chosen(name: str) -> None:
    assert found_at({name: Loopback(models("bge-m3", "text-embedding-3", "qwen3-coder"))}) == (name, "qwen3-coder")


def test_answer_that_is_nested_too_deeply_counts_as_none() -> None:
    deep = Answer([b"[" * 100_000], 200, {"content-type": "application/json"}, is_chunked=False)
    servers = {"ollama": Loopback(deep), "vllm": Loopback(models("qwen3-coder"))}
    assert found_at(servers) == ("vllm", "qwen3-coder")


def test_chunked_response_is_read() -> None:
    server = Loopback(Answer([b'{"data": [{"id": ', b'"qwen3-coder"}]}'], 200, {"content-type": "application/json"}))
    assert found_at({"vllm": server}) == ("vllm", "qwen3-coder")


def test_ollama_model_with_tool_support_is_chosen() -> None:
    plain, able = json_answer({"capabilities": ["completion"]}), json_answer({"capabilities": ["completion", "tools"]})
    server = ollama(plain, able, names=("llama3", "qwen3"))
    found = found_at({"ollama": server})
    asked = [json.loads(request.body)["model"] for request in server.requests if request.path == "/api/show"]
    assert sorted(asked) == ["llama3", "qwen3"]
    # The two questions are asked at once, so which of them meets the second answer is open.
    assert found == ("ollama", asked[1])


def test_ollama_without_a_tool_model_is_skipped() -> None:
    servers = {"ollama": ollama(json_answer({"capabilities": ["completion"]})), "vllm": Loopback(models("qwen3"))}
    assert found_at(servers) == ("vllm", "qwen3")


def test_old_ollama_without_capabilities_gives_its_first_chat_model() -> None:
    assert found_at({"ollama": ollama(json_answer({}, 404))}) == ("ollama", "llama3")


def test_lm_studio_model_with_tool_support_is_chosen() -> None:
    listed = json_answer({"data": [{"id": "a"}, {"id": "b", "capabilities": ["tool_use"]}]})
    assert found_at({"lmstudio": Loopback(listed)}) == ("lmstudio", "b")


def test_old_lm_studio_gives_its_first_chat_model() -> None:
    assert found_at({"lmstudio": Loopback(json_answer({}, 404), models("a"))}) == ("lmstudio", "a")


def test_ollama_is_preferred_to_other_servers() -> None:
    servers = {"vllm": Loopback(models("a")), "ollama": ollama(json_answer({"capabilities": ["tools"]}))}
    assert found_at(servers) == ("ollama", "llama3")


def test_search_waits_300_milliseconds_for_a_silent_server_by_default() -> None:
    started = time.monotonic()
    assert found_at({"ollama": Loopback(Answer([Stall()]))}, timeout=None) is None
    assert 0.3 <= time.monotonic() - started < 2


def test_server_that_does_not_answer_in_time_is_skipped() -> None:
    started = time.monotonic()
    servers = {"ollama": Loopback(Answer([Stall()])), "vllm": Loopback(models("a"))}
    assert found_at(servers, timeout=0.3) == ("vllm", "a")
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer([b"<html>hello</html>"], is_chunked=False),
        Answer([b"not json"], is_chunked=False),
        json_answer({"data": None}),
        json_answer([1, 2]),
        json_answer({"error": "no"}, 500),
        models(),
    ],
)
def test_other_server_on_the_port_is_not_a_model_server(answer: Answer) -> None:
    assert found_at({"llamacpp": Loopback(answer)}) is None


def test_all_servers_that_answer_are_found_in_order_of_preference() -> None:
    async def main() -> list[tuple[str, str]]:
        async with Loopback(models("small")) as vllm, Loopback(models("large")) as llamacpp:
            ports = {name: free_port() for name in NAMES}
            ports |= {"vllm": int(vllm.url.rpartition(":")[2]), "llamacpp": int(llamacpp.url.rpartition(":")[2])}
            return [(spec.name, model) for spec, model in await find_local_servers(2.0, ports)]

    assert asyncio.run(main()) == [("llamacpp", "large"), ("vllm", "small")]


def test_configured_server_is_found_at_its_own_address() -> None:
    async def main() -> list[tuple[str, str]]:
        async with Loopback(models("mine")) as own, Loopback(models("large")) as vllm:
            spec = replace(PROVIDERS["vllm"], name="gpu-box", base_url=f"{own.url}/v1")
            moved = replace(PROVIDERS["vllm"], base_url=f"{vllm.url}/v1")
            ports = {name: free_port() for name in NAMES}
            found = await find_local_servers(2.0, ports, configured=(spec, moved))
            return [(spec.name, model) for spec, model in found]

    assert asyncio.run(main()) == [("vllm", "large"), ("gpu-box", "mine")]
