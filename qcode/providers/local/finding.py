"""Finding a model server on this machine: Ollama, LM Studio, llama.cpp, vLLM, SGLang on their default ports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

from qcode.protocol.json import JsonObject
from qcode.providers.local.asking import ask
from qcode.providers.registry import PROVIDERS, ProviderSpec
from qcode.providers.shapes import object_in, objects_in, text_in

_MAX_ASKED = 8
_NOT_FOR_CHAT = ("embed", "rerank", "bge-", "whisper", "tts", "clip-")

Finder = Callable[[str], Awaitable[str]]


async def find_local_server(
    timeout: float = 0.3,  # noqa: ASYNC109 - a limit on the search as a whole, not on one await
    ports: Mapping[str, int] | None = None,
) -> tuple[ProviderSpec, str] | None:
    """Return the first server that answers within `timeout` seconds and its first model that can call tools.

    Servers are asked at once and preferred in the order Ollama, LM Studio, llama.cpp, vLLM, SGLang. `ports` replaces
    their default ports. None where nobody answers or no model is there.
    """
    tasks: list[tuple[ProviderSpec, asyncio.Task[str]]] = []
    for name, finder in _FINDERS.items():
        spec = PROVIDERS[name]
        port = (ports or {}).get(name) or urlsplit(spec.base_url).port or 80
        tasks.append((spec, asyncio.create_task(_ask(finder, f"http://127.0.0.1:{port}"))))
    try:
        await asyncio.wait([task for _, task in tasks], timeout=timeout)
    finally:
        for _, task in tasks:
            task.cancel()
    for spec, task in tasks:
        if task.done() and not task.cancelled() and task.result():
            return spec, task.result()
    return None


async def _ask(finder: Finder, address: str) -> str:
    try:
        return await finder(address)
    except (OSError, ValueError, EOFError):
        return ""


async def _find_ollama(address: str) -> str:
    """Ollama says of each model what it can do."""
    listed = object_in(await ask(address, "/api/tags"))
    names = [name for name in (text_in(model.get("name")) for model in objects_in(listed.get("models"))) if name]
    names = [name for name in names if is_for_chat(name)][:_MAX_ASKED]
    shown = await asyncio.gather(*(_show(address, name) for name in names))
    for name, facts in zip(names, shown, strict=True):
        abilities = facts.get("capabilities")
        if isinstance(abilities, list) and "tools" in abilities:
            return name
    # An old server lists no abilities; a new one that lists none with tools has no model for us.
    return "" if any("capabilities" in facts for facts in shown) else next(iter(names), "")


async def _show(address: str, name: str) -> JsonObject:
    try:
        return object_in(await ask(address, "/api/show", {"model": name}))
    except (OSError, EOFError, ValueError):
        return {}


async def _find_lmstudio(address: str) -> str:
    try:
        models = objects_in(object_in(await ask(address, "/api/v0/models")).get("data"))
    except (EOFError, ValueError):
        models = []
    able = [
        text_in(model.get("id"))
        for model in models
        if isinstance(abilities := model.get("capabilities"), list) and "tool_use" in abilities
    ]
    return next(iter(able), "") or await _find_listed(address)


async def _find_listed(address: str) -> str:
    models = objects_in(object_in(await ask(address, "/v1/models")).get("data"))
    return next((name for name in (text_in(model.get("id")) for model in models) if name and is_for_chat(name)), "")


_FINDERS: Mapping[str, Finder] = {
    "ollama": _find_ollama,
    "lmstudio": _find_lmstudio,
    "llamacpp": _find_listed,
    "vllm": _find_listed,
    "sglang": _find_listed,
}


def is_for_chat(name: str) -> bool:
    return not any(word in name.lower() for word in _NOT_FOR_CHAT)
