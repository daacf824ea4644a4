"""Resources of the client: unsaved texts in its editor, and its tool servers.

Tools request texts in their threads. If the editor does not answer in time, the tools use the files on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from qcode.acp.wire import EditorWire, WireError
from qcode.config.kinds import SERVER_NAME_RULE, is_server_name
from qcode.config.settings import McpServer
from qcode.text.clean import visible_line
from qcode.text.json import Json, JsonObject, object_in
from qcode.values import dataclass

ANSWER_S = 2.0
"""How long a tool waits until the editor sends a text."""
WRITE_S = 10.0
"""How long a tool waits until the editor has written a text."""
MAX_SERVERS = 50


class EditorFiles:
    """The files of an editor, for tools: a `tools.buffers.BufferSource`."""

    def __init__(self, wire: EditorWire, loop: asyncio.AbstractEventLoop, session_id: str) -> None:
        self._wire = wire
        self._loop = loop
        self._session_id = session_id

    def text_of(self, path: Path) -> str | None:
        answer = self._ask("fs/read_text_file", {"path": str(path)}, ANSWER_S)
        text = None if answer is None else answer.get("content")
        return text if isinstance(text, str) else None

    def write(self, path: Path, text: str) -> bool:
        return self._ask("fs/write_text_file", {"path": str(path), "content": text}, WRITE_S) is not None

    def _ask(self, method: str, params: JsonObject, wait_s: float) -> JsonObject | None:
        """Send a request from the thread of a tool; return None if it fails or takes too long."""

        async def request() -> JsonObject:
            return await asyncio.wait_for(self._wire.ask(method, {"sessionId": self._session_id, **params}), wait_s)

        try:
            # The coroutine ends by itself after `wait_s`. The longer limit is for a loop that is blocked or closed.
            return asyncio.run_coroutine_threadsafe(request(), self._loop).result(wait_s + 1)
        except (WireError, TimeoutError, asyncio.CancelledError, RuntimeError):
            return None


@dataclass(frozen=True, slots=True)
class ClientServers:
    """The tool servers of the client by name, and a line for each invalid server."""

    servers: Mapping[str, McpServer]
    problems: tuple[str, ...]


def read_servers(rows: Sequence[Json]) -> ClientServers:
    """Read the servers of a client. An invalid server is omitted, and the session opens without it."""
    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for row in map(object_in, rows[:MAX_SERVERS]):
        name = row.get("name")
        label = visible_line(name, 80) if isinstance(name, str) else "a server without a name"
        server = _server(row)
        if not isinstance(name, str) or not is_server_name(_dashed(name)):
            problems.append(f"tool server left out: {label}: {SERVER_NAME_RULE}")
        elif _dashed(name) in servers:
            problems.append(f"tool server left out: {label}: the name is used twice")
        elif isinstance(server, str):
            problems.append(f"tool server left out: {label}: {server}")
        else:
            servers[_dashed(name)] = server
    if len(rows) > MAX_SERVERS:
        problems.append(f"{len(rows) - MAX_SERVERS} tool servers left out: at most {MAX_SERVERS} are supported")
    return ClientServers(servers, tuple(problems))


def _dashed(name: str) -> str:
    """Return a name with dashes for spaces, which editors allow in names."""
    return "-".join(name.split())


def _server(row: JsonObject) -> McpServer | str:
    """Return the server of a row, or the reason why it is invalid."""
    match row:
        case {"type": "http" | "sse" as kind, "url": str(url)} if url.startswith(("http://", "https://")):
            headers = _values_by_name(row.get("headers"))
            if headers is None:
                return "its headers are not valid"
            return McpServer(url=url, headers=headers, transport="sse" if kind == "sse" else None)
        case {"command": str(command)} if command and row.get("type") in (None, "stdio"):
            args, env = _texts(row.get("args")), _values_by_name(row.get("env"))
            if args is None or env is None:
                return "its arguments or variables are not valid"
            return McpServer(command=command, args=args, env=env)
        case _:
            return "it has neither a command nor an http address"


def _texts(items: Json) -> tuple[str, ...] | None:
    """Return a list of texts, empty for a missing list; None if it is invalid."""
    if not isinstance(items, list | None):
        return None
    texts = tuple(item for item in items or [] if isinstance(item, str))
    return texts if len(texts) == len(items or []) else None


def _values_by_name(rows: Json) -> dict[str, str] | None:
    """Return rows of `{name, value}` as a mapping, empty for missing rows; None if they are invalid."""
    pairs: dict[str, str] = {}
    if not isinstance(rows, list | None):
        return None
    for row in map(object_in, rows or []):
        name, value = row.get("name"), row.get("value")
        if not isinstance(name, str) or not name or not isinstance(value, str) or "\0" in name + value:
            return None
        pairs[name] = value
    return pairs
