"""One running language server: framing, requests in both directions, and the diagnostics of one document at a time.

Separate from `servers`, which decides which servers run. Messages are plain JSON objects: importing the types of
`lsprotocol` would take longer than the start of qcode (the tests validate every message with them). A document is open
only while it is checked; the server reads all other files from disk. Specification: Language Server Protocol 3.17.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qcode.agent.after_edit.problems import Problem, parse_diagnostics
from qcode.protocol.tools import Launch
from qcode.text.clean import single_spaced
from qcode.text.json import Json, JsonObject
from qcode.tools.processes import Process, end_program, start_program
from qcode.values import dataclass

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The maximum size of a message; a larger message ends the connection."""
MAX_HEADER_BYTES = 4_096
QUIET_S = 0.15
"""The seconds for which diagnostics of the current text must stay unchanged before they are used."""
QUIET_UNVERSIONED_S = 0.4
"""The same for a server that sends no version. It may send syntax errors first, and other problems later."""
START_TIMEOUT_S = 60.0
_RETRY_S = 0.1
_CHUNK_BYTES = 65_536
_MAX_LOG_BYTES = 2_048
_MAX_LOG_CHARS = 200  # of the log in a failure
_MAX_PROGRESS_TOKENS = 100
_MAX_CONFIGURATION_ITEMS = 100
_CLOSED = "it was ended"
# `ErrorCodes` of LSP.
_METHOD_NOT_FOUND = -32601
_SERVER_CANCELLED = -32802
_CONTENT_MODIFIED = -32801
# `FileChangeType` of LSP.
_CREATED = 1
_CHANGED = 2
_DELETED = 3


class LanguageServerError(Exception):
    """A language server did not start, broke the protocol or ended. The text is one line."""


class RequestError(Exception):
    """A server answered a request with an error. The text comes from the server and is not trusted."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(single_spaced(message, 200) or f"error {code}")
        self.code = code


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options with which a server starts."""

    name: str
    root: Path
    """The folder of the project."""
    settings: Mapping[str, Any]
    """The settings by section, such as `{"python": {"analysis": …}}`."""
    initialization: Mapping[str, Any]
    """The `initializationOptions`, whose form each server defines."""
    can_see_processes: bool
    """The server can see the process of qcode; False in a sandbox with a PID namespace."""


class MessageSplitter:
    """Splits a server's output into messages: headers, an empty line, and `Content-Length` bytes of JSON."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._body_size = -1

    def add(self, data: bytes) -> list[JsonObject]:
        """Add output and return the messages that are now complete.

        Raise `LanguageServerError` if the output is not LSP, or a message is too large.
        """
        self._data += data
        messages: list[JsonObject] = []
        while True:
            if self._body_size < 0:
                end = self._data.find(b"\r\n\r\n")
                if end < 0:
                    if len(self._data) > MAX_HEADER_BYTES:
                        raise LanguageServerError("its output is not the Language Server Protocol")
                    return messages
                self._body_size = _content_length(bytes(self._data[:end]))
                del self._data[: end + 4]
            if len(self._data) < self._body_size:
                return messages
            body = bytes(self._data[: self._body_size])
            del self._data[: self._body_size]
            self._body_size = -1
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                continue  # a message that is not JSON is skipped
            if isinstance(message, dict):
                messages.append(message)


def _content_length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            length = int(value)
            if length > MAX_MESSAGE_BYTES:
                raise LanguageServerError(f"it sent a message larger than {MAX_MESSAGE_BYTES // 1024**2} MiB")
            return length
    raise LanguageServerError("its output is not the Language Server Protocol")


@dataclass(frozen=True, slots=True)
class _PublishedDiagnostics:
    """The diagnostics of a document that the server sent without a request."""

    version: int | None
    """The version of the text, None if the server does not report it."""
    diagnostics: object


class LanguageServer:
    """A started server. One check runs at a time; `close` or `kill` ends it."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._process: Process | None = None
        self._loop = asyncio.get_running_loop()
        self._input: asyncio.WriteTransport | None = None
        self._outputs: list[int] = []
        self._splitter = MessageSplitter()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 0
        self._version = 0
        self._capabilities: Mapping[str, Any] = {}
        self._progress_tokens: set[str] = set()
        self._report_event = asyncio.Event()  # set by new diagnostics, the end of some progress, or a failure
        self._checked_uri = ""
        self._last_diagnostics: _PublishedDiagnostics | None = None
        self._modified_at: dict[str, int | None] = {}  # the modification times of the checked files, None if deleted
        self._log = b""
        self.failure = ""
        """The reason why the server can no longer be used, in one line; empty while the server works."""

    @property
    def pid(self) -> int:
        """The process group of the server, 0 before it has started."""
        return 0 if self._process is None else self._process.pid

    async def start(self, launch: Launch, environment: Mapping[str, str]) -> None:
        """Start the program and negotiate capabilities. If that fails, end it and raise `LanguageServerError`."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._start_process(launch, environment)
                result = await self._request("initialize", self._initialize_params())
        except TimeoutError:
            await self.close()
            raise LanguageServerError(f"it did not answer within {START_TIMEOUT_S:g} s") from None
        except (OSError, RequestError) as error:
            await self.close()
            reason = error.strerror if isinstance(error, OSError) else f"it refused to start: {error}"
            raise LanguageServerError(f"it could not be started: {reason}") from None
        except BaseException:
            await self.close()
            raise
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self._notify("initialized", {})
        self._notify("workspace/didChangeConfiguration", {"settings": dict(self._options.settings)})

    async def _start_process(self, launch: Launch, environment: Mapping[str, str]) -> None:
        server_stdin, stdin_writer = os.pipe()
        out, server_out = os.pipe()
        err, server_err = os.pipe()
        try:
            self._process = await start_program(
                launch,
                cwd=self._options.root,
                environment=environment,
                stdin=server_stdin,
                stdout=server_out,
                stderr=server_err,
            )
        except BaseException:
            for handle in (stdin_writer, out, err):
                os.close(handle)
            raise
        finally:
            for handle in (server_stdin, server_out, server_err):
                os.close(handle)
        for handle in (out, err):
            os.set_blocking(handle, False)
        self._outputs = [out, err]
        self._loop.add_reader(out, self._read, out)
        self._loop.add_reader(err, self._read_log, err)
        pipe = os.fdopen(stdin_writer, "wb", buffering=0)
        self._input, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, pipe)

    def _initialize_params(self) -> JsonObject:
        root = self._options.root
        document: JsonObject = {
            "synchronization": {"didSave": True},
            "publishDiagnostics": {"versionSupport": True},
            "diagnostic": {"dynamicRegistration": False},
        }
        workspace: JsonObject = {
            "configuration": True,
            "workspaceFolders": True,
            "didChangeWatchedFiles": {"dynamicRegistration": True},
            "diagnostics": {"refreshSupport": True},
        }
        return {
            # A server in a PID namespace cannot see this process, and would exit because its parent seems to be dead.
            "processId": os.getpid() if self._options.can_see_processes else None,
            "clientInfo": {"name": "qcode"},
            "rootUri": root.as_uri(),
            "rootPath": str(root),
            "workspaceFolders": self._folders(),
            "initializationOptions": dict(self._options.initialization),
            "capabilities": {
                "general": {"positionEncodings": ["utf-16"]},
                "textDocument": document,
                "workspace": workspace,
                "window": {"workDoneProgress": True},
            },
        }

    def _folders(self) -> list[Any]:
        return [{"uri": self._options.root.as_uri(), "name": self._options.root.name}]

    async def close(self) -> None:
        """End the process group of the server. No `shutdown` request is sent, because a server has no state to save."""
        self._fail(_CLOSED)
        if self._process is not None:
            await end_program(self._process)

    def kill(self) -> None:
        """Kill the server at once, for a process that exits now. Idempotent."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _fail(self, reason: str) -> None:
        """Record why the server can no longer be used, and wake all waiting tasks."""
        if self.failure:
            return
        log_text = single_spaced(self._log.decode("utf-8", "replace"), _MAX_LOG_CHARS)
        self.failure = f"{reason}: {log_text}" if log_text and reason != _CLOSED else reason
        for handle in self._outputs:
            self._loop.remove_reader(handle)
            os.close(handle)
        self._outputs.clear()
        if self._input is not None:
            self._input.abort()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LanguageServerError(self.failure))
                answer.exception()  # retrieved, so that asyncio does not log it
        self._answers.clear()
        self._report_event.set()

    def _read(self, handle: int) -> None:
        try:
            data = os.read(handle, _CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._fail("it ended")
            return
        try:
            messages = self._splitter.add(data)
        except LanguageServerError as error:
            self._fail(str(error))
            self.kill()
            return
        for message in messages:
            self._dispatch(message)

    def _read_log(self, handle: int) -> None:
        try:
            data = os.read(handle, _CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._log = (self._log + data)[-_MAX_LOG_BYTES:]
        if not data:
            self._loop.remove_reader(handle)

    def _dispatch(self, message: JsonObject) -> None:
        """Handle a message of the server: an answer, a request or a notification."""
        method, request_id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            answer = self._answers.pop(request_id, None) if isinstance(request_id, int) else None
            if answer is not None and not answer.done():
                _set_answer(answer, message)
            return
        params = message.get("params")
        values = params if isinstance(params, dict) else {}
        if isinstance(request_id, int | str):
            self._reply(request_id, method, values)
        elif method == "textDocument/publishDiagnostics" and values.get("uri") == self._checked_uri:
            version = values.get("version")
            version = version if isinstance(version, int) else None
            self._last_diagnostics = _PublishedDiagnostics(version, values.get("diagnostics"))
            self._report_event.set()
        elif method == "$/progress":
            self._note_progress(str(values.get("token")), values.get("value"))

    def _note_progress(self, token: str, value: object) -> None:
        kind = value.get("kind") if isinstance(value, dict) else ""
        if kind == "begin" and len(self._progress_tokens) < _MAX_PROGRESS_TOKENS:
            self._progress_tokens.add(token)
        elif kind == "end":
            self._progress_tokens.discard(token)
            self._report_event.set()

    def _reply(self, request_id: int | str, method: str, params: Mapping[str, Any]) -> None:
        """Answer a request of the server. Requests to change or show something are declined."""
        answers: dict[str, Callable[[], Any]] = {
            "workspace/configuration": lambda: self._configuration(params),
            "workspace/workspaceFolders": self._folders,
            "workspace/applyEdit": lambda: {"applied": False, "failureReason": "the client only reads diagnostics"},
            "window/showDocument": lambda: {"success": False},
            "window/showMessageRequest": lambda: None,
            "window/workDoneProgress/create": lambda: None,
            "client/registerCapability": lambda: None,
            "client/unregisterCapability": lambda: None,
            "workspace/diagnostic/refresh": lambda: None,
        }
        if method not in answers:
            error: JsonObject = {"code": _METHOD_NOT_FOUND, "message": "not supported"}
            self._send({"id": request_id, "error": error})
            return
        self._send({"id": request_id, "result": answers[method]()})
        if method == "workspace/diagnostic/refresh":
            self._report_event.set()

    def _configuration(self, params: Mapping[str, Any]) -> list[Any]:
        items = params.get("items")
        values: list[Any] = []
        for item in items[:_MAX_CONFIGURATION_ITEMS] if isinstance(items, list) else []:
            value: Any = self._options.settings
            section = item.get("section") if isinstance(item, dict) else None
            for part in section.split(".") if isinstance(section, str) and section else ():
                value = value.get(part) if isinstance(value, Mapping) else None
            values.append(value)
        return values

    async def _request(self, method: str, params: JsonObject | None) -> Json:
        if self.failure:
            raise LanguageServerError(self.failure)
        self._next_id += 1
        request_id = self._next_id
        answer: asyncio.Future[Json] = self._loop.create_future()
        self._answers[request_id] = answer
        self._send({"id": request_id, "method": method, **({} if params is None else {"params": params})})
        try:
            return await answer
        except asyncio.CancelledError:
            if self._answers.pop(request_id, None) is not None:
                self._notify("$/cancelRequest", {"id": request_id})
            raise

    def _notify(self, method: str, params: JsonObject | None) -> None:
        self._send({"method": method, **({} if params is None else {"params": params})})

    def _send(self, message: JsonObject) -> None:
        if self._input is None or self._input.is_closing():
            return
        body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode("utf-8", "replace")
        self._input.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def check(self, path: Path, language: str, texts: tuple[str, ...]) -> list[tuple[Problem, ...]]:
        """Return the problems of each of these texts of the file, in order. Raise `LanguageServerError`."""
        uri = path.as_uri()
        self._report_changes(path)
        self._checked_uri = uri
        problems: list[tuple[Problem, ...]] = []
        try:
            for text in texts:
                self._version += 1
                self._last_diagnostics = None
                document: JsonObject = {"uri": uri, "version": self._version}
                if not problems:
                    opened = {**document, "languageId": language, "text": text}
                    self._notify("textDocument/didOpen", {"textDocument": opened})
                else:
                    changed: JsonObject = {"textDocument": document, "contentChanges": [{"text": text}]}
                    self._notify("textDocument/didChange", changed)
                diagnostics = await self._diagnostics(uri, self._version)
                problems.append(parse_diagnostics(diagnostics, text, self._options.name))
        finally:
            self._checked_uri = ""
            self._notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        return problems

    def _report_changes(self, path: Path) -> None:
        """Tell the server which of the checked files have changed on disk, because qcode does not watch files."""
        events: list[Any] = []
        for name in {*self._modified_at, str(path)}:
            before = self._modified_at.get(name)
            now = _modification_time(name)
            if before != now or name not in self._modified_at:
                events.append({"uri": Path(name).as_uri(), "type": _change_type(before, now)})
                self._modified_at[name] = now
        if events:
            self._notify("workspace/didChangeWatchedFiles", {"changes": events})

    async def _diagnostics(self, uri: str, version: int) -> object:
        """Return the diagnostics of the open document, requested or published, as the server supports."""
        if self._capabilities.get("diagnosticProvider"):
            return await self._pull_diagnostics(uri)
        return await self._published_diagnostics(version)

    async def _pull_diagnostics(self, uri: str) -> object:
        """Request diagnostics, repeatedly while the server is busy with the project or reports changes."""
        while True:
            self._report_event.clear()
            was_busy = bool(self._progress_tokens)
            try:
                result = await self._request("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            except RequestError as error:
                if error.code not in (_SERVER_CANCELLED, _CONTENT_MODIFIED):
                    return []
                await asyncio.sleep(_RETRY_S)
                continue
            if not was_busy and not self._progress_tokens and not await self._has_new_report(QUIET_S):
                return result.get("items") if isinstance(result, dict) else None
            while self._progress_tokens and not self.failure:
                self._report_event.clear()
                await self._report_event.wait()

    async def _published_diagnostics(self, version: int) -> object:
        """Wait for published diagnostics of this version that stay unchanged, from a server that is not busy."""
        while True:
            if self.failure:
                raise LanguageServerError(self.failure)
            self._report_event.clear()
            published = self._last_diagnostics
            if published is None or published.version not in (None, version) or self._progress_tokens:
                await self._report_event.wait()
                continue
            quiet_s = QUIET_UNVERSIONED_S if published.version is None else QUIET_S
            if not await self._has_new_report(quiet_s):
                return published.diagnostics

    async def _has_new_report(self, seconds: float) -> bool:
        """Return whether the server reports something within this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._report_event.wait()
        except TimeoutError:
            return False
        return True


def _set_answer(answer: asyncio.Future[Any], message: JsonObject) -> None:
    error = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        answer.set_exception(RequestError(code if isinstance(code, int) else 0, str(error.get("message") or "")))
    else:
        answer.set_result(message.get("result"))


def _change_type(before: int | None, now: int | None) -> int:
    """Return the `FileChangeType` of a file with these modification times; None: there is no file."""
    if now is None:
        return _DELETED
    return _CREATED if before is None else _CHANGED


def _modification_time(name: str) -> int | None:
    try:
        return os.stat(name).st_mtime_ns  # noqa: PTH116  # text
    except OSError:
        return None
