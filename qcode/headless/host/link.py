"""Connects tool servers and hooks that run inside the program of the host.

Both are created before the connection, so they share a `HostLink`, which gets the connection later. The ordinary MCP
client connects to a server; its transport sends each JSON-RPC message as a request `mcp_message`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from qcode.agent.hooks.events import EVENTS, Hook, HookFunction, OnFailure
from qcode.headless.host.wire import INPUT_CLOSED, HostError, HostWire
from qcode.text.clean import shown_line
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

_QUEUE_SIZE = 64  # messages in each direction
# Error codes of JSON-RPC.
_METHOD_NOT_FOUND, _INTERNAL_ERROR = -32601, -32603
_ON_FAILURE: Mapping[object, OnFailure] = {"block": "block", "continue": "go-on"}


class HostLink:
    """The connection to the host, once `wire` is set."""

    def __init__(self) -> None:
        self.wire: HostWire | None = None
        self._servers: dict[str, MemoryObjectSendStream[SessionMessage | Exception]] = {}
        """The stream to the session with each connected server."""

    async def request(self, subtype: str, fields: JsonObject) -> JsonObject:
        """Send a request to the host and return the answer; raise `HostError`."""
        if self.wire is None:
            raise HostError(INPUT_CLOSED)
        return await self.wire.request(subtype, fields)

    def hooks(self, registered: JsonObject) -> tuple[dict[str, list[Hook]], tuple[str, ...]]:
        """Return the hooks of the handshake by event, and a line for each that cannot run."""
        by_event: dict[str, list[Hook]] = {}
        problems: list[str] = []
        for event, matchers in registered.items():
            if event not in EVENTS:
                problems.append(f"hooks for {event} never run: qcode has no such event")
                continue
            for matcher in matchers if isinstance(matchers, list) else []:
                by_event.setdefault(event, []).extend(self._hooks_of(matcher))
        return by_event, tuple(problems)

    def _hooks_of(self, matcher: Json) -> list[Hook]:
        """Return the hooks of one entry, an empty list for an entry with a wrong type."""
        ids = matcher.get("hookCallbackIds") if isinstance(matcher, dict) else None
        if not isinstance(matcher, dict) or not isinstance(ids, list):
            return []
        names, timeout = matcher.get("matcher"), matcher.get("timeout")
        return [
            Hook(
                matcher=names if isinstance(names, str) else "",
                function=self._hook_function(callback_id),
                timeout=float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None,
                on_failure=_ON_FAILURE.get(matcher.get("onFailure")),
                may_allow=True,
            )
            for callback_id in ids
            if isinstance(callback_id, str)
        ]

    def _hook_function(self, callback_id: str) -> HookFunction:
        async def call_back(values: dict[str, Any], call_id: str | None) -> Mapping[str, Any]:
            fields: JsonObject = {"callback_id": callback_id, "input": values, "tool_use_id": call_id}
            answer = await self.request("hook_callback", fields)
            return {} if answer.get("async") is True else answer

        call_back.__qualname__ = shown_line(callback_id, 80)  # the name of the hook in messages
        return call_back

    def connections(self, names: Sequence[str]) -> dict[str, Any]:
        """Return a function for each named server that connects to it."""
        return {name: partial(self.connect, name) for name in names}

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[TransportStreams]:
        """Yield the streams of a session with the server of this name."""
        import anyio
        from mcp.shared.message import SessionMessage

        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](_QUEUE_SIZE)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](_QUEUE_SIZE)
        send_tasks: set[asyncio.Task[None]] = set()

        async def forward_messages() -> None:
            async for message in from_session:
                body = message.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
                task = asyncio.ensure_future(self._send_to_server(name, body, to_session))
                send_tasks.add(task)
                task.add_done_callback(send_tasks.discard)

        self._servers[name] = to_session
        forward_task = asyncio.ensure_future(forward_messages())
        try:
            yield from_server, to_server
        finally:
            if self._servers.get(name) is to_session:  # otherwise the server is connected again already
                del self._servers[name]
            for task in (forward_task, *send_tasks):
                task.cancel()
            await asyncio.gather(forward_task, *send_tasks, return_exceptions=True)
            for stream in (to_server, from_server, to_session, from_session):
                stream.close()

    async def _send_to_server(
        self, name: str, body: JsonObject, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Send a message to a server. If it is a request, pass the response or an error to the session."""
        try:
            answer = await self.request("mcp_message", {"server_name": name, "message": body})
            response = answer.get("mcp_response")
        except HostError as error:
            response = _failure(str(error))
        if "id" not in body or "method" not in body:
            return
        if not isinstance(response, dict):
            response = _failure("the host sent no response")
        envelope: JsonObject = {"jsonrpc": "2.0", "id": body["id"]}
        try:
            await self._deliver({**response, **envelope}, to_session)
        except ValueError:  # such as `{"result": 1}`; without a response the session would wait until its time limit
            await self._deliver({**_failure("the response of the host is not valid JSON-RPC"), **envelope}, to_session)

    async def receive(self, request: JsonObject) -> JsonObject:
        """Handle a message that a server sent on its initiative: deliver a notification, refuse a request."""
        name, message = request.get("server_name"), request.get("message")
        to_session = self._servers.get(str(name))
        if to_session is None or not isinstance(message, dict):
            raise ValueError("mcp_message needs the name of a connected server and a message")
        if "method" in message and "id" in message:
            error: JsonObject = {"code": _METHOD_NOT_FOUND, "message": "qcode answers no requests of this server"}
            refusal: JsonObject = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            await self.request("mcp_message", {"server_name": str(name), "message": refusal})
        else:
            await self._deliver(message, to_session)
        return {}

    async def _deliver(
        self, message: JsonObject, to_session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Pass a message of a server to its session; raise `ValueError` if it is not JSON-RPC."""
        import anyio
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        try:
            session_message = SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
        except ValueError as error:
            raise ValueError(f"the message is not valid JSON-RPC: {type(error).__name__}") from None
        try:
            await to_session.send(session_message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return


def _failure(message: str) -> JsonObject:
    """Return the error of a JSON-RPC response."""
    return {"error": {"code": _INTERNAL_ERROR, "message": message}}
