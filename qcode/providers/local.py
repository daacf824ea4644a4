"""The search for local model servers, their models, and the sizes of their context windows.

Supports Ollama, LM Studio, llama.cpp, vLLM and SGLang, on their default ports and at configured addresses. Requests use
plain sockets and HTTP/1.0 (`request_json`), so that a machine without such a server spends no time on imports. Only
lists and settings are requested; no prompt is sent and no model is loaded. The window is a setting of the server, not
of the model, and some servers silently truncate a longer prompt. Sources: the API pages of these servers.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from qcode.providers.connection import strip_version
from qcode.providers.registry import PROVIDERS, ProviderSpec
from qcode.text.json import Json, JsonObject, count_in, object_in, objects_in, text_in
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

_MAX_QUERIED = 8
"""The maximum number of Ollama models whose abilities are queried."""
DEFAULT_TIMEOUT_S = 0.3
"""The time limit of a search, and of the requests for a window: the start waits for a silent server that long."""
_NOT_FOR_CHAT = ("embed", "rerank", "bge-", "whisper", "tts", "clip-")

Finder = Callable[[str], Awaitable[str]]
"""Returns the first usable model of the server at an address, empty if it has none."""


class LocalServer(NamedTuple):
    """A server that answers."""

    spec: ProviderSpec
    model: str
    """Its first model that can call tools."""


async def find_local_server(
    timeout: float = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 - a limit on the search as a whole, not on one await
    ports: Mapping[str, int] | None = None,
) -> LocalServer | None:
    """Return the first of `find_local_servers`, None if there is none."""
    return next(iter(await find_local_servers(timeout, ports)), None)


async def find_local_servers(
    timeout: float = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 - a limit on the search as a whole, not on one await
    ports: Mapping[str, int] | None = None,
    configured: Iterable[ProviderSpec] = (),
) -> tuple[LocalServer, ...]:
    """Return the servers that answer within `timeout` seconds.

    All servers are queried at once; the order of preference is Ollama, LM Studio, llama.cpp, vLLM, SGLang. `ports`
    replaces their default ports. A server without a model is left out. `configured` are servers from the configuration:
    each is queried at its own address, and replaces the default server with the same name.
    """
    specs = {name: PROVIDERS[name] for name in _FINDERS}
    addresses: dict[str, str] = {}
    for name, spec in specs.items():
        port = (ports or {}).get(name) or urlsplit(spec.base_url).port or 80
        addresses[name] = f"http://127.0.0.1:{port}"
    for spec in configured:
        specs[spec.name] = spec
        addresses[spec.name] = strip_version(spec.base_url)
    searches = {
        name: asyncio.create_task(_find_or_empty(_FINDERS.get(name, _find_listed), address))
        for name, address in addresses.items()
    }
    try:
        await asyncio.wait(searches.values(), timeout=timeout)
    finally:
        for search in searches.values():
            search.cancel()
    models = {name: search.result() for name, search in searches.items() if search.done() and not search.cancelled()}
    return tuple(LocalServer(specs[name], model) for name, model in models.items() if model)


async def _find_or_empty(finder: Finder, address: str) -> str:
    try:
        return await finder(address)
    except (OSError, ValueError):
        return ""


async def _find_ollama(address: str) -> str:
    """Return the first model of an Ollama server that can call tools; Ollama reports the abilities of each model."""
    listed = object_in(await request_json(address, "/api/tags"))
    listed_names = (text_in(model.get("name")) for model in objects_in(listed.get("models")))
    names = [name for name in listed_names if name and is_for_chat(name)][:_MAX_QUERIED]
    details = await asyncio.gather(*(_ollama_details(address, name) for name in names))
    for name, facts in zip(names, details, strict=True):
        abilities = facts.get("capabilities")
        if isinstance(abilities, list) and "tools" in abilities:
            return name
    if any("capabilities" in facts for facts in details):
        return ""
    return next(iter(names), "")  # an old server reports no abilities: use its first model


async def _ollama_details(address: str, name: str) -> JsonObject:
    try:
        return object_in(await request_json(address, "/api/show", {"model": name}))
    except (OSError, ValueError):
        return {}


async def _find_lmstudio(address: str) -> str:
    """Return the first model of LM Studio that can call tools, otherwise its first chat model."""
    try:
        models = objects_in(object_in(await request_json(address, "/api/v0/models")).get("data"))
    except (OSError, ValueError):
        models = []
    with_tools = [
        text_in(model.get("id"))
        for model in models
        if isinstance(abilities := model.get("capabilities"), list) and "tool_use" in abilities
    ]
    return next(iter(with_tools), "") or await _find_listed(address)


async def _find_listed(address: str) -> str:
    """Return the first chat model of a server that does not report abilities."""
    models = objects_in(object_in(await request_json(address, "/v1/models")).get("data"))
    names = (text_in(model.get("id")) for model in models)
    return next((name for name in names if name and is_for_chat(name)), "")


_FINDERS: Mapping[str, Finder] = {
    "ollama": _find_ollama,
    "lmstudio": _find_lmstudio,
    "llamacpp": _find_listed,
    "vllm": _find_listed,
    "sglang": _find_listed,
}


def is_for_chat(name: str) -> bool:
    return not any(word in name.lower() for word in _NOT_FOR_CHAT)


async def list_models(address: str, limit_s: float = 2.0) -> tuple[str, ...]:
    """Return the chat models of the server at `address` (including `/v1`), none if it does not answer."""
    try:
        async with asyncio.timeout(limit_s):
            listed = object_in(await request_json(address, "/models"))
    except (OSError, ValueError, TimeoutError):
        return ()
    names = (text_in(model.get("id")) for model in objects_in(listed.get("data")))
    return tuple(name for name in names if name and is_for_chat(name))


SMALL_WINDOW = 32_000
"""A window with fewer tokens has little space besides the instructions, the tools and a few files."""

_OWNERS = {
    "library": "ollama",
    "organization_owner": "lmstudio",
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
}
"""The `owned_by` value of each server's models, which identifies the server."""

_ADVICE = {
    "ollama": "start Ollama with OLLAMA_CONTEXT_LENGTH=32768, or give the model a larger num_ctx",
    "lmstudio": "load the model with a larger context length in LM Studio (lms load --context-length 32768)",
    "llamacpp": "start llama-server with a larger -c (-c 32768; --parallel divides it)",
    "vllm": "start vLLM with a larger --max-model-len",
    "sglang": "start SGLang with a larger --context-length",
}
"""How to enlarge the window, by the kind of server."""
DEFAULT_PORTS = frozenset({11434, 1234, 8080, 8000, 30000})
"""The default ports of Ollama, LM Studio, llama.cpp, vLLM and SGLang."""
_WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "n_ctx")
# The line of a Modelfile that sets the window, such as "num_ctx    8192".
_NUM_CTX = lazy_pattern(r"^[^\S\n]*+num_ctx[^\S\n]++(\d++)[^\S\n]*+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LocalWindow:
    """A context window as a local server reports it."""

    tokens: int
    """The size of the window."""
    advice: str
    """How to enlarge the window on this kind of server."""

    @property
    def is_small(self) -> bool:
        return self.tokens < SMALL_WINDOW


class _ListedServer(NamedTuple):
    """The facts about a server in its list of models."""

    kind: str
    """The kind of the server, as in `_ADVICE`, otherwise the name of the provider."""
    window: int | None = None
    """The window in tokens, None if the list does not contain it."""


def is_known_server(provider: str, base_url: str) -> bool:
    """Return whether the server at `base_url` is of a supported kind, by its name or its port.

    Other servers are not queried, because they may not expect such a request.
    """
    if provider in _ADVICE:
        return True
    try:
        return urlsplit(base_url).port in DEFAULT_PORTS
    except ValueError:
        return False


class WindowQuery:
    """A query of one server for the window of one model.

    The first request is for the list of models, unless the name of the provider is `ollama` or `lmstudio`. The list
    identifies the kind of server, and may contain the window. A server of unknown kind gets no other request.
    """

    def __init__(
        self, provider: str, base_url: str, model: str, *, key: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self._provider = provider
        """The name of the server in qcode, often its kind."""
        self._base_url = base_url
        self._root = strip_version(base_url)
        """The address without a version."""
        self._model = model
        self._headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        self.is_settled = False
        """No other query is needed: the window is known, or this server never reports it."""

    async def send(self, timeout: float = DEFAULT_TIMEOUT_S) -> LocalWindow | None:  # noqa: ASYNC109 - a limit on all requests together
        """Return the window, or None if the server does not report it, possibly because the model is not loaded yet."""
        if self.is_settled:
            return None
        try:
            async with asyncio.timeout(timeout):
                window = await self._read_window()
        except (TimeoutError, OSError, ValueError):
            # A server that is starting or busy may answer later.
            return None
        if window is not None:
            self.is_settled = True
        return window

    async def _read_window(self) -> LocalWindow | None:
        """Request the window. If the name of the provider does not show the kind of server, find out the kind first."""
        listed = _ListedServer(self._provider)
        if self._provider not in ("ollama", "lmstudio"):
            listed = await self._read_list()
        tokens = listed.window
        if tokens is None:
            read_window = _WINDOW_READERS.get(listed.kind)
            if read_window is not None:
                tokens = await read_window(self)
            else:  # this kind of server can report the window only in its list of models
                self.is_settled = True
        advice = _ADVICE.get(listed.kind, "start its server with a larger context")
        return LocalWindow(tokens, advice) if tokens else None

    async def _read_list(self) -> _ListedServer:
        """Request the list of models; return the facts in it."""
        suffix = "/models" if self._base_url != self._root else "/v1/models"
        models = objects_in(object_in(await self._get(self._base_url, suffix)).get("data"))
        entry = _find_entry(models, self._model, "id")
        # A model that is not listed, such as an alias, has the owner of the other models.
        owned_by = next((text_in(row.get("owned_by")) for row in (entry, *models) if row is not None), "")
        kind = _OWNERS.get(owned_by, self._provider)
        if kind in ("ollama", "lmstudio", "llamacpp"):
            return _ListedServer(kind)
        # An adapter (LoRA) is listed without a window; use the window of its base model.
        rows = [entry, *models] if entry is not None else models
        windows = (count_in(row.get(name)) for row in rows for name in _WINDOW_FIELDS)
        return _ListedServer(kind, next((window for window in windows if window), None))

    async def _read_ollama(self) -> int | None:
        """Return the window of the loaded model, or the window that its Modelfile sets.

        The server reports its default window only after the model is loaded.
        """
        loaded = objects_in(object_in(await self._get(self._root, "/api/ps")).get("models"))
        entry = _find_entry(loaded, self._model, "model") or _find_entry(loaded, self._model, "name")
        if entry is not None and (tokens := count_in(entry.get("context_length"))):
            return tokens
        details = object_in(await self._get(self._root, "/api/show", {"model": self._model}))
        match = _NUM_CTX.search(text_in(details.get("parameters")))
        return int(match.group(1)) if match else None

    async def _read_lmstudio(self) -> int | None:
        models = objects_in(object_in(await self._get(self._root, "/api/v0/models")).get("data"))
        entry = _find_entry(models, self._model, "id") or {}
        return count_in(entry.get("loaded_context_length"))

    async def _read_llamacpp(self) -> int | None:
        query = urlencode({"model": self._model, "autoload": "false"})
        props = object_in(await self._get(self._root, f"/props?{query}"))
        settings = object_in(props.get("default_generation_settings"))
        return count_in(settings.get("n_ctx")) or count_in(props.get("n_ctx"))

    async def _read_sglang(self) -> int | None:
        info = object_in(await self._get(self._root, "/get_server_info"))
        return count_in(info.get("context_length"))

    async def _get(self, address: str, path: str, body: JsonObject | None = None) -> JsonObject:
        return object_in(await request_json(address, path, body, self._headers))


_WINDOW_READERS: Mapping[str, Callable[[WindowQuery], Awaitable[int | None]]] = {
    "ollama": WindowQuery._read_ollama,
    "lmstudio": WindowQuery._read_lmstudio,
    "llamacpp": WindowQuery._read_llamacpp,
    "sglang": WindowQuery._read_sglang,
}


def _find_entry(models: list[JsonObject], model: str, name_field: str) -> JsonObject | None:
    """Return the entry of a model, whose name is in `name_field`; None if there is none.

    Ollama adds `:latest` to a name without a tag.
    """
    names = {model, f"{model}:latest"}
    return next((row for row in models if text_in(row.get(name_field)) in names), None)


_MAX_RESPONSE_BYTES = 1024 * 1024


async def request_json(
    address: str, path: str, body: JsonObject | None = None, headers: Mapping[str, str] | None = None
) -> Json:
    """Return the JSON at `path` of the server at `address`. The request is a POST if there is a `body`.

    Raise `OSError` or `ValueError` if no server answers, the address is not plain HTTP, or the answer is not JSON with
    status 200. The caller sets a time limit.
    """
    from qcode.providers.http1 import ResponseReader, connect, write_head

    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("not a plain HTTP address")
    request_body = json.dumps(body).encode() if body is not None else b""
    request_headers = {
        "Host": parts.netloc.rpartition("@")[2],
        "Accept": "application/json",
        "Connection": "close",
        **(headers or {}),
    }
    if request_body:
        request_headers |= {"Content-Type": "application/json", "Content-Length": str(len(request_body))}
    method = "POST" if body is not None else "GET"
    head = write_head(method, f"{parts.path.rstrip('/')}{path}", request_headers, version="1.0")
    wire = await connect(parts.hostname, parts.port or 80, tls=None, limit=None)
    try:
        wire.send(head + request_body)
        reader, content = ResponseReader(), bytearray()
        while not reader.is_done:
            if data := await wire.read():
                content += reader.feed(data)
            else:
                reader.close()
            if reader.status not in (0, 200):
                raise ValueError("not a 200")
            if len(content) > _MAX_RESPONSE_BYTES:
                raise ValueError("the response is too long")
    finally:
        wire.abort()
    try:
        value: Json = json.loads(content)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    return value
