"""A fake model host on loopback, in its own thread: real HTTP, real SSE, the real formats, and every fault.

Start it with `with FakeServer("openai", [Turn(text="hi")]) as server:`, and point a client at `server.base_url`. On the
command line, `python -m tests.fakes.server --protocol openai --scenario docstring --port 8000` starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias

from tests.fakes import http11
from tests.fakes.anthropic_wire import AnthropicWire
from tests.fakes.bedrock_wire import BedrockWire
from tests.fakes.gemini_wire import GeminiWire
from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.responses_wire import ResponsesWire
from tests.fakes.turns import Faults, Frame, ReceivedRequest, Refusal, Script, Turn

ProtocolName: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock"]
PROTOCOLS: tuple[ProtocolName, ...] = ("openai", "openai-responses", "anthropic", "gemini")
"""The protocols that stream text. Faults of bytes, such as `Faults.crlf`, apply only to these."""
_PATIENCE_S = 60.0


class Wire(Protocol):
    """The server side of a protocol."""

    name: str
    newline: str
    """The end of a line in the stream of events."""
    suffix: str
    """The path at the end of the base URL."""
    request_id_header: str

    def is_models(self, path: str) -> bool:
        """Return whether requests to `path` list the models."""
        ...

    def is_reply(self, path: str) -> bool:
        """Return whether requests to `path` ask for a reply."""
        ...

    def key_of(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str: ...
    def models(self, names: tuple[str, ...]) -> dict[str, Any]: ...
    def error(self, refusal: Refusal) -> dict[str, Any]: ...
    def error_frame(self, refusal: Refusal) -> Frame: ...
    def read(self, request: ReceivedRequest) -> ReceivedRequest:
        """Return `request` with the content of its body, independent of the protocol."""
        ...

    def complaint(self, request: ReceivedRequest) -> str | None:
        """Return why a strict host would answer 400, or None."""
        ...

    def frames(self, turn: Turn, request: ReceivedRequest) -> list[Frame]: ...


def wire_of(protocol: ProtocolName) -> Wire:
    match protocol:
        case "openai":
            return OpenAIWire()
        case "openai-responses":
            return ResponsesWire()
        case "anthropic":
            return AnthropicWire()
        case "gemini":
            return GeminiWire()
        case "bedrock":
            return BedrockWire()


class FakeServer:
    """A model host that answers the n-th reply request with the n-th turn of `script`, or by calling `script`.

    A request beyond the script gets a 400. With `is_strict`, so does a request that the protocol forbids, and it uses
    no turn. With `api_key`, any other key gets a 401. Attributes may be read from any thread.
    """

    def __init__(
        self,
        protocol: ProtocolName | Wire,
        script: Script,
        *,
        models: tuple[str, ...] = ("fake-1", "fake-2"),
        api_key: str | None = None,
        is_strict: bool = True,
        port: int = 0,
    ) -> None:
        self.wire: Wire = wire_of(protocol) if isinstance(protocol, str) else protocol
        self.port = port
        self.requests: list[ReceivedRequest] = []
        """Every reply request in order, including refused ones."""
        self.complaints: list[str] = []
        """The reasons for refused requests."""
        self.hangups = 0
        """The number of streams that the client closed before their end."""
        self.stalls = 0
        """The number of streams that reached a stall."""
        self._script = script
        self._turns_used = 0
        self._models = models
        self._api_key = api_key
        self._is_strict = is_strict
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="fake-server", daemon=True)
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None

    @property
    def base_url(self) -> str:
        """The base URL for the SDK of the protocol."""
        return f"http://127.0.0.1:{self.port}{self.wire.suffix}"

    @property
    def caps(self) -> list[int | None]:
        """The output cap that each request carried."""
        return [request.cap for request in self.requests]

    def start(self) -> FakeServer:
        self._thread.start()
        self._is_ready.wait(_PATIENCE_S)
        self._raise_failure()
        return self

    def stop(self) -> None:
        """Close every connection and end the thread; safe to call twice."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_PATIENCE_S)

    def release(self) -> None:
        """Release every stalled stream, and those that stall later."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._released.set)

    def wait_until(self, holds: Callable[[FakeServer], bool], timeout_s: float = _PATIENCE_S) -> None:
        """Block this thread until `holds(self)`, checked on each change; raise `AssertionError` after `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self), timeout_s):
                raise AssertionError(
                    f"the fake server waited in vain: {len(self.requests)} requests, {self.stalls} stalls, "
                    f"{self.hangups} hangups"
                )

    def __enter__(self) -> FakeServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._released = asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            connections.discard(task)
            if not task.cancelled():
                self._failure = self._failure or task.exception()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            connections.add(task)
            task.add_done_callback(ended)

        try:
            server = await asyncio.start_server(connected, "127.0.0.1", self.port, limit=2**26)
        except OSError as error:
            self._failure = error
            self._is_ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stopping.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            request = await http11.read_request(reader)
            if request is not None:
                await self._answer(*request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self._note_hangup()
        except http11.BadRequestError as error:
            await http11.write_whole(writer, 400, {}, self.wire.error(Refusal(400, f"not a request: {error}")))
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, method: str, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        refusal = self._refusal_before_script(method, request)
        if refusal is None and self.wire.is_models(request.path):
            await http11.write_whole(writer, 200, {}, self.wire.models(self._models))
            return
        if refusal is None:
            request = self.wire.read(request)
            turn = self._next_turn(request)
            refusal = turn.refusal
            if refusal is None:
                await self._stream_until_hangup(turn, request, reader, writer)
                return
        headers = {self.wire.request_id_header: "req_fake", **refusal.headers}
        body = self.wire.error(refusal) if refusal.body is None else refusal.body
        await http11.write_whole(writer, refusal.status, headers, body)

    def _refusal_before_script(self, method: str, request: ReceivedRequest) -> Refusal | None:
        """Return the refusal of a request with a wrong address, method or key; None for any other request."""
        expected = "GET" if self.wire.is_models(request.path) else "POST"
        if not (self.wire.is_models(request.path) or self.wire.is_reply(request.path)) or method != expected:
            return Refusal(404, f"nothing is served at {method} {request.path}")
        if self._api_key is not None and self.wire.key_of(request.headers, request.query) != self._api_key:
            return Refusal(401, "the key is not valid")
        return None

    def _next_turn(self, request: ReceivedRequest) -> Turn:
        with self._changed:
            self.requests.append(request)
            complaint = self.wire.complaint(request) if self._is_strict else None
            if complaint is None and not callable(self._script) and self._turns_used >= len(self._script):
                complaint = f"the script of the fake server is over after {len(self._script)} turns"
            if complaint is not None:
                self.complaints.append(complaint)
            self._changed.notify_all()
        if complaint is not None:
            return Turn(refusal=Refusal(400, complaint))
        if callable(self._script):
            return self._script(request)
        self._turns_used += 1
        return self._script[self._turns_used - 1]

    async def _stream_until_hangup(
        self, turn: Turn, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Stream `turn`. If the client disconnects, end at once and count a hangup."""
        is_written = asyncio.Event()
        streaming = asyncio.ensure_future(self._stream(turn, request, writer, is_written))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({streaming, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not streaming.done():
                writer.transport.abort()
                if not is_written.is_set():
                    self._note_hangup()
                return
            await streaming
        finally:
            streaming.cancel()
            leaving.cancel()
            await asyncio.gather(streaming, leaving, return_exceptions=True)

    async def _stream(
        self, turn: Turn, request: ReceivedRequest, writer: asyncio.StreamWriter, is_written: asyncio.Event
    ) -> None:
        faults = turn.faults
        await asyncio.sleep(faults.first_byte_delay)
        wire = self.wire
        stream_type = {"content-type": wire.stream_type} if isinstance(wire, BedrockWire) else {}
        await http11.start_stream(writer, {wire.request_id_header: "req_fake", **stream_type})
        events = self._rendered(_damaged(wire.frames(turn, request), faults), faults)
        stall, error, cut = (
            None if position is None else min(position, len(events))
            for position in (faults.stall_after, faults.error_after, faults.cut_after)
        )
        for index, data in enumerate([*events, b""]):
            if faults.pace:
                await asyncio.sleep(faults.pace)
            if stall == index:
                await self._stall()
            if cut == index:
                if faults.cut_inside and data:
                    await http11.write_chunk(writer, data[: len(data) // 2])
                return
            if error == index:
                data = self._rendered([wire.error_frame(faults.error)], Faults())[0]
            if index == len(events) - 1:
                is_written.set()
            if data:
                await http11.write_chunk(writer, data, faults.split_every)
            if error == index:
                break
        await http11.end_stream(writer)

    def _rendered(self, frames: list[Frame], faults: Faults) -> list[bytes]:
        """Return the bytes of each event, with the faults of bytes if the protocol streams text."""
        if isinstance(self.wire, BedrockWire):
            return [self.wire.render(frame) for frame in frames]
        return list(http11.pieces(frames, faults, self.wire.newline))

    async def _stall(self) -> None:
        with self._changed:
            self.stalls += 1
            self._changed.notify_all()
        await self._released.wait()

    def _note_hangup(self) -> None:
        with self._changed:
            self.hangups += 1
            self._changed.notify_all()


def _damaged(frames: list[Frame], faults: Faults) -> list[Frame]:
    """Return the frames with the faults that damage or omit whole frames."""
    if faults.damaged:
        index = next(index for index, frame in enumerate(frames) if faults.damaged in frame.data)
        data = frames[index].data
        frames[index] = replace(frames[index], data=data[: len(data) // 2])
    if faults.without_end:
        return [frame for frame in frames if frame.part == "body"]
    if faults.without_done:
        return [frame for frame in frames if frame.part != "done"]
    return frames


if __name__ == "__main__":
    from tests.fakes.server_cli import main

    sys.exit(main())
