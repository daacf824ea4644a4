"""The transports to tool servers: lines of JSON to a program in its own process group, and HTTP to an address.

Programs do not use the transport of the `mcp` package, which reads lines of any length into memory and writes the
server's stderr to the terminal. HTTP uses the transports of the package, streamable HTTP and the older SSE. Here, the
size of a response and the time to close are limited. `Log` has the end of a server's untrusted output.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode.agent.mcp.spec import ServerError
from qcode.config.settings import McpServer
from qcode.providers.sdk import reason_of
from qcode.text.clean import single_spaced
from qcode.text.json import parse_object, sendable_json
from qcode.text.numbers import exit_text
from qcode.text.proxies import has_valid_port, is_loopback, proxy_address, proxy_problem, proxy_variable
from qcode.tools.processes import end_program
from qcode.values import dataclass

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The maximum size of a message; a longer one ends the connection."""

_GRACE_S = 0.3
"""Seconds that a program gets to exit after its stdin was closed, before it is killed."""
_MAX_LOGGED_BYTES = 400
"""The maximum size of a line that is not a message in the log."""
_QUEUE_SIZE = 16
"""The maximum number of messages that wait between the session and a program, in each direction."""


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program to start: its arguments, folder and environment."""

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]


def program_path(command: str, cwd: Path, search_path: str) -> str:
    """Return the path of the program that a configured command names; raise `ServerError` if it does not exist."""
    name = os.path.expanduser(command)  # noqa: PTH111  # a command is not always a path
    if "/" in name:
        path = cwd / name
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):  # noqa: PTH113  # never raises
            raise ServerError(f"the program {command} does not exist")
        return str(path)
    executable = shutil.which(name, path=search_path)
    if executable is None:
        raise ServerError(f"the program {command} was not found on PATH")
    return executable


@asynccontextmanager
async def connect_stdio(
    program: ServerProgram, log: Log, groups: set[int], on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Start the program and yield the streams of a session; `on_end` is called at the end of its output.

    On exit the whole process group is killed; until then `groups` contains its id. Raise `OSError` if it cannot start.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    process, out_read, err_read = await _start_process(program)
    groups.add(process.pid)
    # Both ends of two streams: server -> session and session -> server.
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](_QUEUE_SIZE)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](_QUEUE_SIZE)
    response_check = _FirstResponseCheck()
    tasks = [
        asyncio.ensure_future(_read_messages(out_read, to_session, log, on_end, response_check)),
        asyncio.ensure_future(_read_stderr(err_read, log)),
        asyncio.ensure_future(_write_messages(process, from_session, to_session, response_check)),
    ]
    try:
        yield from_server, to_server
    finally:
        for stream in (to_server, from_server):
            stream.close()
        try:
            await _stop_process(process)
        finally:
            groups.discard(process.pid)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_session, from_session):
                stream.close()
            if process.returncode:
                log.record_exit(process.returncode)


async def _start_process(program: ServerProgram) -> tuple[asyncio.subprocess.Process, int, int]:
    """Start the process and return it with the read ends of its stdout and stderr, which the caller closes.

    The pipes are created here, because those of asyncio stay open while any child of the server has the other end.
    """
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    with contextlib.ExitStack() as pipes:
        for handle in (out_read, err_read):
            pipes.callback(os.close, handle)
        try:
            process = await asyncio.create_subprocess_exec(
                *program.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=out_write,
                stderr=err_write,
                cwd=program.cwd,
                env=program.env,
                start_new_session=True,
            )
        finally:
            os.close(out_write)
            os.close(err_write)
        pipes.pop_all()
    return process, out_read, err_read


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    """Close stdin, which asks a server to exit, and then kill its process group."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()
    finally:
        await end_program(process)


class _FirstResponseCheck:
    """Checks that the first response has the id of a request; without the check, a wrong id would cause a timeout."""

    def __init__(self) -> None:
        self._sent: dict[Any, None] = {}  # the ids of the requests, in order
        self._has_arrived = False

    def record_request(self, message: Any) -> None:  # noqa: ANN401  # a message of the mcp package, which loads late
        if not self._has_arrived and hasattr(message, "method") and getattr(message, "id", None) is not None:
            self._sent[message.id] = None

    def checked(self, message: Any) -> Any:  # noqa: ANN401
        """Return the message to forward; raise `ServerError` for a response to a request that was not sent.

        An error without an id belongs to the last request, which the server could not read.
        """
        if self._has_arrived or hasattr(message, "method"):
            return message
        if message.id is None and self._sent:
            return message.model_copy(update={"id": next(reversed(self._sent))})
        # The mcp package accepts "1" for 1.
        if str(message.id) not in map(str, self._sent):
            raise ServerError(f"it answered a request that was not sent (id {single_spaced(str(message.id), 80)})")
        self._has_arrived = True
        return message


async def _read_messages(
    handle: int,
    out: MemoryObjectSendStream[SessionMessage | Exception],
    log: Log,
    on_end: Callable[[], None],
    response_check: _FirstResponseCheck,
) -> None:
    """Forward the messages of the server; log lines that are not messages."""
    import anyio
    from mcp.shared.message import SessionMessage

    try:
        async with _pipe(handle, MAX_LINE_BYTES) as lines:
            while line := await lines.readline():
                try:
                    message = _message_of(line)
                except ValueError:
                    log.add(line[:_MAX_LOGGED_BYTES].rstrip() + b"\n")
                    continue
                await out.send(SessionMessage(response_check.checked(message)))
    except ServerError as error:
        log.record_violation(str(error))
    except ValueError:
        log.record_violation(f"it sent a message larger than {MAX_LINE_BYTES // 1024 // 1024} MiB")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return
    finally:
        out.close()
        on_end()


def _message_of(line: bytes) -> Any:  # noqa: ANN401  # a message of the mcp package, which loads late
    """Return the message in a line; raise `ValueError` if it has none.

    The `mcp` package ignores an invalid response, and the request would then wait until its time limit. So half of a
    character, such as the escape \\ud83d that JavaScript writes for a text that it cuts, and bytes that are not UTF-8
    are replaced. Any other invalid response, such as one with a text as its result, becomes an error.
    """
    import mcp_types as types

    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as problem:
        replaced = sendable_json(line.decode("utf-8", "replace")).encode()
        if replaced == line:
            return _invalid_response(line, problem)
    try:
        return types.jsonrpc_message_adapter.validate_json(replaced, by_name=False)
    except ValueError as problem:
        return _invalid_response(replaced, problem)


def _invalid_response(line: bytes, problem: ValueError) -> Any:  # noqa: ANN401  # as `_message_of`
    """Return an error for the request that an invalid response answers; raise `problem` for any other line."""
    import mcp_types as types

    response = parse_object(line.decode("utf-8", "replace"))
    request_id = None if response is None or "method" in response else response.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, (int, str)):
        raise problem
    error = types.ErrorData(code=types.PARSE_ERROR, message="Failed to parse the response")
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


async def _read_stderr(handle: int, log: Log) -> None:
    with contextlib.suppress(OSError):
        async with _pipe(handle, 65_536) as errors:
            while data := await errors.read(65_536):
                log.add(data)


async def _write_messages(
    process: asyncio.subprocess.Process,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[SessionMessage | Exception],
    response_check: _FirstResponseCheck,
) -> None:
    """Write the messages of the session to the stdin of the server."""
    import anyio

    stdin = process.stdin
    assert stdin is not None
    try:
        async for message in messages:
            response_check.record_request(message.message)
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(f"{text}\n".encode())
            await stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        # The server has stopped reading, so the session must not wait for responses to unsent requests.
        out.close()


@asynccontextmanager
async def _pipe(handle: int, limit: int) -> AsyncIterator[asyncio.StreamReader]:
    """Yield a reader of the read end of a pipe, and close the pipe afterwards. `limit` is the maximum line length."""
    reader = asyncio.StreamReader(limit=limit)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(handle, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()


MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""The maximum size of a response or event."""

BETWEEN_GETS_S = 0.25
"""The minimum number of seconds between two GET requests of a connection."""
_CONNECT_TIMEOUT_S = 20.0
_DELETE_TIMEOUT_S = 1.0
_EVENT_STREAM = "text/event-stream"


@asynccontextmanager
async def connect_http(config: McpServer, log: Log, auth: httpx2.Auth | None = None) -> AsyncIterator[TransportStreams]:
    """Yield the streams of a session; nothing is sent yet. Raise `ServerError` for an invalid address."""
    from mcp.client.streamable_http import streamable_http_client

    assert config.url is not None
    client = http_client(config, log, auth)
    async with (
        client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as streams,
    ):
        yield streams


@asynccontextmanager
async def connect_sse(config: McpServer, log: Log, auth: httpx2.Auth | None = None) -> AsyncIterator[TransportStreams]:
    """Yield the streams of a session over the older transport, whose events have at most 1 MiB."""
    import anyio
    from mcp.client.sse import sse_client
    from mcp.shared.message import SessionMessage

    assert config.url is not None
    client = http_client(config, log, auth)

    def client_factory(*_: object, **__: object) -> httpx2.AsyncClient:
        return client

    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](_QUEUE_SIZE)
    async with sse_client(config.url, timeout=_CONNECT_TIMEOUT_S, httpx_client_factory=client_factory) as streams:
        events, to_server = streams
        repair_task = asyncio.ensure_future(_repair_events(events, to_session, log))
        try:
            yield from_server, to_server
        finally:
            repair_task.cancel()
            await asyncio.gather(repair_task, return_exceptions=True)
            from_server.close()


async def _repair_events(
    events: AsyncIterable[SessionMessage | Exception], out: MemoryObjectSendStream[SessionMessage | Exception], log: Log
) -> None:
    """Forward the events of the older transport; repair or answer an invalid response, as `_message_of` does.

    The transport forwards the validation error of an invalid event, and the session ignores it.
    """
    import anyio
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with out:
            async for event in events:
                if not isinstance(event, ValidationError):
                    await out.send(event)
                    continue
                line = _invalid_line(event)
                try:
                    await out.send(SessionMessage(_message_of(line)))
                except ValueError:
                    log.add(line[:_MAX_LOGGED_BYTES].rstrip() + b"\n")


def _invalid_line(error: ValidationError) -> bytes:
    """Return the text that is not a message: the input of the first problem is the text, or the whole object in it.

    Each message lacks the key of another kind of message, so an object without `method` is the first problem.
    """
    value = error.errors(include_url=False)[0]["input"]
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")


def http_client(config: McpServer, log: Log, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Return a client for the address of a server, with its headers and limits; raise `ServerError`."""
    import httpx2

    _check_config(config)
    guard = _ResponseGuard(log)
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [_shorten_delete, guard.throttle],
        "response": [guard.check_response],
    }
    # No compression, because the size of an unpacked response cannot be limited here.
    headers = {**config.headers, "Accept-Encoding": "identity"}
    url = config.url or ""
    try:
        if not has_valid_port(proxy_address(url, os.environ)):
            raise ValueError
        return _client_class(proxy_variable(url, os.environ))(
            headers=headers,
            timeout=httpx2.Timeout(_CONNECT_TIMEOUT_S, read=None),
            event_hooks=hooks,
            auth=auth,
            verify=httpx2.create_ssl_context(),
            trust_env=not is_loopback(url),
        )
    except (ValueError, httpx2.InvalidURL):
        raise ServerError(proxy_problem(proxy_variable(url, os.environ))) from None
    except OSError as error:
        raise ServerError(f"cannot connect: {error}") from None


def _client_class(proxy: str) -> type[httpx2.AsyncClient]:
    """Return a client class whose connection errors contain the reason. `proxy` is the variable of the proxy in use."""
    import httpx2

    class ServerClient(httpx2.AsyncClient):
        async def send(self, *args: Any, **named: Any) -> httpx2.Response:  # noqa: ANN401
            try:
                response = await super().send(*args, **named)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
                reason = "no connection in time" if isinstance(error, httpx2.ConnectTimeout) else reason_of(error)
                raise httpx2.ConnectError(f"{reason} (through the proxy in {proxy})" if proxy else reason) from error
            if proxy and response.status_code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
                await response.aclose()
                raise httpx2.ConnectError(f"the proxy in {proxy} demands a user name and a password (407)")
            return response

    return ServerClient


def _check_config(config: McpServer) -> None:
    """Raise `ServerError` for an invalid header or URL. An error of the HTTP client would contain its value."""
    for name, value in config.headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ServerError(f"the header {name} contains characters that HTTP does not allow")
    if not (config.url or "").isprintable():
        raise ServerError("the URL contains invalid characters")


async def _shorten_delete(request: httpx2.Request) -> None:
    """Set a short timeout for the request that ends a session."""
    if request.method == "DELETE":
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), _DELETE_TIMEOUT_S)


class _ResponseGuard:
    """Records error statuses, which the transport does not report in detail, and limits the size of responses.

    It also delays requests that resume a stream, because a server may ask for no pause between them (`retry: 0`).
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next_get = 0.0

    async def throttle(self, request: httpx2.Request) -> None:
        if request.method != "GET":
            return
        now = time.monotonic()
        wait_s = self._next_get - now
        self._next_get = max(now, self._next_get) + BETWEEN_GETS_S
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def check_response(self, response: httpx2.Response) -> None:
        """Record the status, reject a compressed response, and limit the size of a response without events.

        The transport limits the size of each event. Raise `RemoteProtocolError` for a compressed response.
        """
        import httpx2

        self._log.status = response.status_code
        self._log.status_line = single_spaced(f"{response.status_code} {response.reason_phrase}", 80)
        # The protocol uses 404 for a session that has ended, and 405 if a server offers no stream for GET.
        if response.status_code >= 400 and response.status_code not in (404, 405):
            self._log.note(f"answered {self._log.status_line}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RemoteProtocolError("the response is compressed, which is not supported")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream) and not response.headers.get("content-type", "").startswith(
            _EVENT_STREAM
        ):
            response.stream = _limit_stream(stream)


def _limit_stream(inner: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    """Return a stream that raises `RemoteProtocolError` above `MAX_RESPONSE_BYTES`."""
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for data in inner:
                size += len(data)
                if size > MAX_RESPONSE_BYTES:
                    raise httpx2.RemoteProtocolError(
                        f"the response is larger than {MAX_RESPONSE_BYTES // 1024 // 1024} MiB"
                    )
                yield data

        async def aclose(self) -> None:
            await inner.aclose()

    return LimitedStream()


_MAX_LOG_BYTES = 8_192
_MAX_TAIL_LINES = 5


class Log:
    """The end of a server's log: its output, and lines by qcode."""

    def __init__(self) -> None:
        self._data = b""
        self.status = 0
        """The status of the last HTTP response, 0 before the first."""
        self.status_line = ""
        """The same status with its reason, such as `502 Bad Gateway`."""
        self.exit_code: int | None = None
        """The exit code of a program that ended with an error, otherwise None."""
        self.violation = ""
        """Why qcode ended the connection, such as a message that is too large; empty if it did not."""

    def add(self, data: bytes) -> None:
        self._data = (self._data + data)[-_MAX_LOG_BYTES:]

    def note(self, text: str) -> None:
        """Add a line by qcode."""
        self.add(f"{text}\n".encode("utf-8", "replace"))

    def record_violation(self, violation: str) -> None:
        self.violation = violation
        self.note(f"[stopped: {violation}]")

    def record_exit(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.note(_exit_text(exit_code))

    def clear(self) -> None:
        self._data, self.exit_code, self.violation = b"", None, ""

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace").strip()

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that are not empty, without the line that `record_exit` added."""
        exit_line = _exit_text(self.exit_code)
        lines = (line.strip() for line in self.text.splitlines())
        return tuple(line for line in lines if line and line != exit_line)[-_MAX_TAIL_LINES:]


def _exit_text(exit_code: int | None) -> str:
    return "" if exit_code is None else f"[{exit_text(exit_code)}]"
