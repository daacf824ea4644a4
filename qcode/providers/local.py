"""Finding a model server on this machine: Ollama, LM Studio, llama.cpp, vLLM on their default ports.

Plain sockets and HTTP/1.0: nobody listens on most machines, and then this costs no import and no time. It only
asks for lists; nothing is sent to a model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from qcode.protocol.json import Json, JsonObject
from qcode.providers.registry import PROVIDERS, ProviderSpec
from qcode.providers.shapes import object_in, objects_in, text_in

_MAX_ANSWER = 1024 * 1024
_MAX_ASKED = 8
_NOT_FOR_CHAT = ("embed", "rerank", "bge-", "whisper", "tts", "clip-")

Finder = Callable[[str, int], Awaitable[str]]


async def find_local_server(
    timeout: float = 0.3,  # noqa: ASYNC109 - a limit on the search as a whole, not on one await
    ports: Mapping[str, int] | None = None,
) -> tuple[ProviderSpec, str] | None:
    """Return the first server that answers within `timeout` seconds and its first model that can call tools.

    Servers are asked at once and preferred in the order Ollama, LM Studio, llama.cpp, vLLM. `ports` replaces their
    default ports. None where nobody answers or no model is there.
    """
    tasks: list[tuple[ProviderSpec, asyncio.Task[str]]] = []
    for name, finder in _FINDERS.items():
        spec = PROVIDERS[name]
        port = (ports or {}).get(name) or urlsplit(spec.base_url).port or 80
        tasks.append((spec, asyncio.create_task(_ask(finder, "127.0.0.1", port))))
    try:
        await asyncio.wait([task for _, task in tasks], timeout=timeout)
    finally:
        for _, task in tasks:
            task.cancel()
    for spec, task in tasks:
        if task.done() and not task.cancelled() and task.result():
            return spec, task.result()
    return None


async def _ask(finder: Finder, host: str, port: int) -> str:
    try:
        return await finder(host, port)
    except (OSError, ValueError, EOFError):
        return ""


async def _find_ollama(host: str, port: int) -> str:
    """Ollama says of each model what it can do."""
    listed = object_in(await _get(host, port, "/api/tags"))
    names = [name for name in (text_in(model.get("name")) for model in objects_in(listed.get("models"))) if name]
    names = [name for name in names if _is_for_chat(name)][:_MAX_ASKED]
    shown = await asyncio.gather(*(_show(host, port, name) for name in names))
    for name, facts in zip(names, shown, strict=True):
        abilities = facts.get("capabilities")
        if isinstance(abilities, list) and "tools" in abilities:
            return name
    # An old server lists no abilities; a new one that lists none with tools has no model for us.
    return "" if any("capabilities" in facts for facts in shown) else next(iter(names), "")


async def _show(host: str, port: int, name: str) -> JsonObject:
    try:
        return object_in(await _get(host, port, "/api/show", {"model": name}))
    except (OSError, ValueError):
        return {}


async def _find_lmstudio(host: str, port: int) -> str:
    try:
        models = objects_in(object_in(await _get(host, port, "/api/v0/models")).get("data"))
    except ValueError:
        models = []
    able = [
        text_in(model.get("id"))
        for model in models
        if isinstance(abilities := model.get("capabilities"), list) and "tool_use" in abilities
    ]
    return next(iter(able), "") or await _find_listed(host, port)


async def _find_listed(host: str, port: int) -> str:
    models = objects_in(object_in(await _get(host, port, "/v1/models")).get("data"))
    return next((name for name in (text_in(model.get("id")) for model in models) if name and _is_for_chat(name)), "")


_FINDERS: Mapping[str, Finder] = {
    "ollama": _find_ollama,
    "lmstudio": _find_lmstudio,
    "llamacpp": _find_listed,
    "vllm": _find_listed,
}


def _is_for_chat(name: str) -> bool:
    return not any(word in name.lower() for word in _NOT_FOR_CHAT)


async def _get(host: str, port: int, path: str, body: JsonObject | None = None) -> Json:
    """Return the JSON at `path`; raise OSError or ValueError where there is none."""
    content = json.dumps(body).encode() if body is not None else b""
    head = [
        f"{'POST' if body is not None else 'GET'} {path} HTTP/1.0",
        f"Host: {host}:{port}",
        "Accept: application/json",
        "Connection: close",
    ]
    if content:
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write("\r\n".join([*head, "", ""]).encode() + content)
        await writer.drain()
        answer = bytearray()
        while piece := await reader.read(65_536):
            answer += piece
            if len(answer) > _MAX_ANSWER:
                raise ValueError("the answer is too long")
    finally:
        writer.close()
    top, _, rest = bytes(answer).partition(b"\r\n\r\n")
    status = top.split(b" ", 2)
    if len(status) < 2 or status[1] != b"200":
        raise ValueError("not a 200")
    value: Json = json.loads(rest)
    return value
