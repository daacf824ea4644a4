"""JSON-RPC 2.0, one object per line: requests in both directions, notifications, errors, and the order of writes.

Messages are written in the order in which they are sent, so a notification after a response also arrives after it.
Each request gets exactly one answer. Invalid input is answered with an error, or ignored if it needs no answer; it
never ends the process. This module knows no method of the protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import BinaryIO, TypeAlias

from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.streams import REQUEST_OVERHEAD_BYTES, OutputLostError, Pipe, StdinReader
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject, object_in, sendable
from qcode.values import dataclass

# The error codes of JSON-RPC.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# The error codes of the protocol.
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
REQUEST_CANCELLED = -32800

MAX_BACKLOG_BYTES = 256 * 1024
"""The maximum number of unread bytes; with more, a turn waits until the client has read them."""

RequestId: TypeAlias = "str | int | float | None"
Then: TypeAlias = Callable[[], object]
"""Called right after a response was sent."""

_KINDS: Mapping[int, str] = {
    AUTH_REQUIRED: ErrorKind.NO_CREDENTIAL,
    NOT_FOUND: "bad_input",
    REQUEST_CANCELLED: "cancelled",
    INTERNAL_ERROR: ErrorKind.INTERNAL,
}
"""The kind of an error without `ErrorInfo`, by its code; `usage` for the codes of invalid messages."""


class WireError(Exception):
    """The failure of a request: a code, a text for the user, and the facts about the failure, if it has any."""

    def __init__(self, code: int, text: str, info: ErrorInfo | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.info = info or ErrorInfo(str(_KINDS.get(code, "usage")), text)

    def as_json(self) -> JsonObject:
        is_retryable = any(kind.is_transient for kind in ErrorKind if kind == self.info.kind)
        data: JsonObject = {
            "details": one_line(str(self), 1_000),  # some clients show only this text
            "kind": str(self.info.kind),
            "status": self.info.status,
            "requestId": self.info.request_id,
            "retryable": is_retryable,
        }
        return {"code": self.code, "message": str(self), "data": data}


def invalid(text: str) -> WireError:
    """Return the error for parameters that cannot be used."""
    return WireError(INVALID_PARAMS, text)


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The result of a request. `then` runs right after the response was sent, so its messages follow the response."""

    result: JsonObject
    then: Then | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request of the client, or a notification, which has no id."""

    method: str
    params: JsonObject
    request_id: RequestId = None
    is_notification: bool = False


CallMethod: TypeAlias = Callable[[Incoming], Awaitable[MethodResult | None]]


class EditorWire:
    """One connection. `call_method` answers requests, in parallel; their first steps run in the order of arrival.

    `on_lost` is called once, when the client has closed the input or no longer reads. `describe` returns the message
    for an unexpected exception.
    """

    def __init__(
        self,
        descriptor: int,
        output: BinaryIO,
        call_method: CallMethod,
        *,
        on_lost: Callable[[], None],
        describe: Callable[[BaseException], str],
    ) -> None:
        self._call_method = call_method
        self._on_lost = on_lost
        self._describe = describe
        self._pipe = Pipe(output)
        self._is_over = False
        self._backlog = 0
        """The bytes that the client has not read yet."""
        self._output_drained = asyncio.Event()
        self._output_drained.set()
        self._drain_task: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], RequestId] = {}
        """The requests of the client that are not answered yet."""
        self._open_requests: dict[int, asyncio.Future[JsonObject]] = {}
        """The answers to requests that qcode sent, by id."""
        self._last_id = 0
        self._unreleased_bytes = 0
        """Bytes of output that the reader counts as unhandled input.

        So a client that sends requests without reading the responses cannot fill the memory.
        """
        self._reader = StdinReader(descriptor, on_line=self._handle_line, on_end=lambda _: self.end())

    def notify(self, method: str, params: JsonObject) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return its result. Raise `WireError` if the client reports an error or disconnects."""
        if self._is_over:
            raise WireError(INTERNAL_ERROR, "the client is gone")
        self._last_id += 1
        request_id = self._last_id
        answer: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._open_requests[request_id] = answer
        self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        try:
            return await answer
        finally:
            self._open_requests.pop(request_id, None)

    async def wait_until_writable(self) -> None:
        """Wait until the client has read most of the output."""
        await self._output_drained.wait()

    def end(self) -> None:
        """Stop reading and writing. Idempotent."""
        if self._is_over:
            return
        self._is_over = True
        for answer in self._open_requests.values():
            if not answer.done():
                answer.set_exception(WireError(INTERNAL_ERROR, "the client is gone"))
        self._output_drained.set()
        self._on_lost()

    async def drain(self, wait_s: float) -> None:
        """Wait up to `wait_s` seconds for running requests, then cancel them."""
        tasks = list(self._tasks)
        if self._drain_task is not None:
            tasks.append(self._drain_task)
        if tasks:
            await asyncio.wait(tasks, timeout=wait_s)
        for task in tasks:
            task.cancel()

    def _send(self, message: JsonObject) -> None:
        """Write a message. Bytes that the client does not read yet are written in the background."""
        if self._is_over:
            return
        data = encode(message)
        try:
            is_written = self._pipe.push(data)
        except OutputLostError:
            self.end()
            return
        if is_written:
            return
        self._backlog += len(data)
        self._unreleased_bytes += len(data)
        self._reader.hold(len(data))
        if self._backlog > MAX_BACKLOG_BYTES:
            self._output_drained.clear()
        if self._drain_task is None or self._drain_task.done():
            self._drain_task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        """Write the remaining bytes, then release the turns that wait for the client."""
        try:
            await self._pipe.write(b"")
        except OutputLostError:
            self.end()
        self._backlog = 0
        self._reader.release(self._unreleased_bytes)
        self._unreleased_bytes = 0
        self._output_drained.set()

    def _handle_line(self, line: bytes | None) -> None:
        """Handle a line of input; None stands for a line that is too long."""
        if self._is_over:
            return
        if line is None:
            self._refuse(None, WireError(INVALID_REQUEST, "the message is too long"))
            return
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self._refuse(None, WireError(PARSE_ERROR, "the line is not JSON in UTF-8"))
            return
        if isinstance(message, dict):
            self._handle_message(_without_lone_surrogates(message, line), REQUEST_OVERHEAD_BYTES + len(line))
        else:
            self._refuse(None, WireError(INVALID_REQUEST, "a message is one JSON object; batches are not supported"))

    def _handle_message(self, message: JsonObject, size: int) -> None:
        """Handle a message; a request counts as `size` bytes of unhandled input until it is answered."""
        if "method" not in message and ("result" in message or "error" in message):
            self._handle_response(message)
            return
        method = message.get("method")
        raw_id = message.get("id")
        request_id = _id_of(raw_id)
        is_valid_id = raw_id is None or request_id is not None
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or not is_valid_id:
            self._refuse(request_id, WireError(INVALID_REQUEST, 'a request has "jsonrpc": "2.0", a method and an id'))
            return
        is_notification = "id" not in message
        params = message.get("params")
        if params is not None and not isinstance(params, dict):
            if not is_notification:
                self._refuse(request_id, invalid("the parameters must be an object"))
            return
        incoming = Incoming(method, params or {}, request_id, is_notification)
        task = asyncio.get_running_loop().create_task(self._serve(incoming))
        self._tasks[task] = request_id
        self._reader.hold(size)
        task.add_done_callback(lambda done: self._reader.release(size))
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def _handle_response(self, message: JsonObject) -> None:
        """Complete a request that qcode sent; ignore the response to an unknown or completed request."""
        request_id = message.get("id")
        if not isinstance(request_id, int) or isinstance(request_id, bool):
            return
        answer = self._open_requests.get(request_id)
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(object_in(message.get("result")))
            return
        text = object_in(error).get("message")
        if not isinstance(text, str):
            text = "the client failed"
        answer.set_exception(WireError(INTERNAL_ERROR, text))

    def cancel_request(self, request_id: RequestId) -> None:
        """Stop a request; it is answered with an error."""
        for task, task_id in list(self._tasks.items()):
            # The ids 1 and 1.0 are equal in Python, but they are written differently.
            if task_id == request_id and type(task_id) is type(request_id):
                task.cancel()

    async def _serve(self, incoming: Incoming) -> None:
        """Answer a request, or carry out a notification."""
        then: Then | None = None
        try:
            answer = await self._call_method(incoming) or MethodResult({})
            if not incoming.is_notification:
                self._send({"jsonrpc": "2.0", "id": incoming.request_id, "result": answer.result})
            then = answer.then
        except WireError as error:
            if not incoming.is_notification:
                self._refuse(incoming.request_id, error)
        except asyncio.CancelledError:
            if not incoming.is_notification:
                self._refuse(incoming.request_id, WireError(REQUEST_CANCELLED, "the request was cancelled"))
        except Exception as failure:  # noqa: BLE001 - the edge of a request: a bug fails it, not the process
            if not incoming.is_notification:
                text = self._describe(failure)
                self._refuse(incoming.request_id, WireError(INTERNAL_ERROR, text))
        if then is not None:
            then()

    def _refuse(self, request_id: RequestId, error: WireError) -> None:
        self._send({"jsonrpc": "2.0", "id": request_id, "error": error.as_json()})


def _id_of(value: Json) -> RequestId:
    """Return a valid id; None for any other value."""
    match value:
        case bool():
            return None
        case float():
            return value if isfinite(value) else None
        case str() | int():
            return value
        case _:
            return None


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
"""Created once: `json.dumps` with options creates an encoder for each message."""


def encode(message: JsonObject) -> bytes:
    """Return a message as one line. U+2028 and U+2029 are escaped, because some readers treat them as line breaks."""
    try:
        text = _ENCODER.encode(message)
    except ValueError:
        # The arguments of a call may hold 1e999, which Python reads as infinite.
        text = json.dumps(_finite(message), ensure_ascii=False, separators=(",", ":"))
    if not text.isascii():
        text = sendable(text).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f"{text}\n".encode()


def _finite(value: Json) -> Json:
    """Return a value with null for each infinite number."""
    match value:
        case float():
            return value if isfinite(value) else None
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case _:
            return value


def _without_lone_surrogates(message: JsonObject, line: bytes) -> JsonObject:
    """Return a message with lone surrogates replaced; a JSON escape such as `\\ud83d` can hide one."""
    if b"\\u" not in line:
        return message
    text = json.dumps(message, ensure_ascii=False)
    sendable_text = sendable(text)
    if sendable_text is text:
        return message
    cleaned: JsonObject = json.loads(sendable_text)
    return cleaned


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")
