"""The methods of the protocol: the handshake, authentication, and the sessions of one client.

`initialize` does not need the library, which loads with the first session. Unknown methods and invalid
parameters are errors. Flags of the command line apply to every session; a client may add folders and servers.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode import __version__
from qcode.acp.wire import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    NOT_FOUND,
    UNKNOWN_METHOD,
    EditorWire,
    Incoming,
    MethodResult,
    WireError,
    invalid,
)
from qcode.protocol.errors import ExitCode, QcodeError, SessionBusy, SessionNotFound
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject, object_in

if TYPE_CHECKING:
    from qcode.acp.session import EditorSession
    from qcode.agent.agent import Agent
    from qcode.agent.options import Options
    from qcode.config.settings import McpServer

PROTOCOL_VERSION = 1
CLOSE_S = 1.0
"""How long all sessions may take to end after the client has disconnected."""
Method = Callable[[JsonObject], Awaitable[MethodResult | None]]


class Server:
    """The agent side of one connection. `options` are those of the command line."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._capabilities: JsonObject = {}
        self._sessions: dict[str, EditorSession] = {}
        self._wire: EditorWire | None = None
        self._open_lock = asyncio.Lock()
        self._abandoned_opening: asyncio.Future[EditorSession] | None = None
        """The last session whose request was cancelled while it opened. It holds its lock until it is released."""
        self._methods: Mapping[str, Method] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/set_config_option": self._set_option,
        }

    @property
    def wire(self) -> EditorWire:
        assert self._wire is not None
        return self._wire

    def attach(self, wire: EditorWire) -> None:
        """Use this connection; called once, before the first message."""
        self._wire = wire

    async def call_method(self, incoming: Incoming) -> MethodResult | None:
        """Run the method of a request or a notification and return its result; raise `WireError`."""
        if incoming.method == "$/cancel_request":
            request_id = incoming.params.get("requestId")
            if isinstance(request_id, str | int) and not isinstance(request_id, bool):
                self.wire.cancel_request(request_id)
            return None
        method = self._methods.get(incoming.method)
        if method is None:
            if incoming.is_notification:
                return None
            raise WireError(UNKNOWN_METHOD, f'the method "{one_line(incoming.method, 80)}" is not supported')
        return await method(incoming.params)

    async def close(self) -> None:
        """Close every session, wait at most `CLOSE_S` seconds, then release all agents."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        closing = [asyncio.ensure_future(session.close()) for session in sessions]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_S)
        for session in sessions:
            session.agent.release()

    async def _initialize(self, params: JsonObject) -> MethodResult:
        version = params.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            raise invalid('"protocolVersion" must be a number')
        self._capabilities = object_in(params.get("clientCapabilities"))
        return MethodResult(
            {
                "protocolVersion": PROTOCOL_VERSION,
                "agentInfo": {"name": "qcode", "title": "qcode", "version": __version__},
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {"image": True, "embeddedContext": True},
                    "mcpCapabilities": {"http": True, "sse": True},
                    "sessionCapabilities": {
                        "list": {},
                        "delete": {},
                        "resume": {},
                        "close": {},
                        "additionalDirectories": {},
                    },
                    "auth": {},
                },
                "authMethods": self._auth_methods(),
            }
        )

    def _auth_methods(self) -> list[Json]:
        methods: list[Json] = [
            {
                "id": "environment",
                "name": "Key from the environment or config",
                "description": "Uses ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, an AWS credential, a stored "
                "key, or the model of the config file.",
            }
        ]
        if self._can_log_in:
            login: JsonObject = {"command": sys.argv[0], "args": ["acp", "--login"], "label": "qcode login"}
            methods.append(
                {
                    "type": "terminal",
                    "id": "login",
                    "name": "Log in from the terminal",
                    "args": ["--login"],
                    "_meta": {"terminal-auth": login},
                }
            )
        return methods

    @property
    def _can_log_in(self) -> bool:
        """Whether the client can run `qcode acp --login` in a terminal for the user."""
        auth = object_in(self._capabilities.get("auth"))
        metadata = object_in(self._capabilities.get("_meta"))
        return auth.get("terminal") is True or metadata.get("terminal-auth") is True

    async def _authenticate(self, params: JsonObject) -> MethodResult:
        method = params.get("methodId")
        is_offered = method == "environment" or (method == "login" and self._can_log_in)
        if not is_offered:
            raise invalid("there is no such authentication method")
        await asyncio.to_thread(self._check_credential)
        return MethodResult({})

    def _check_credential(self) -> None:
        """Raise `WireError` if no credential for a model is available now."""
        agent = self._begin_agent(replace(self._options, no_session=True))
        agent.release()

    async def _new(self, params: JsonObject) -> MethodResult:
        session = await self._open(params, None)
        result = {"sessionId": session.session_id, **session.opening_state()}
        return MethodResult(result, session.announce)

    async def _load(self, params: JsonObject) -> MethodResult:
        session = await self._reopen(params)
        session.replay()
        return MethodResult(session.opening_state(), session.announce)

    async def _resume(self, params: JsonObject) -> MethodResult:
        session = await self._reopen(params)
        return MethodResult(session.opening_state(), session.announce)

    async def _reopen(self, params: JsonObject) -> EditorSession:
        """Return an open session, or open a stored one."""
        session_id = _required_text(params, "sessionId")
        folder, _ = _folders(params)
        return self._find_open(session_id, folder) or await self._open(params, session_id)

    def _find_open(self, session_id: str | None, folder: Path) -> EditorSession | None:
        """Return an open session, None if there is none. Raise `WireError` if it belongs to another folder."""
        session = self._sessions.get(session_id or "")
        if session is not None and session.folder != folder:
            raise WireError(NOT_FOUND, "this session belongs to another folder")
        return session

    async def _open(self, params: JsonObject, session_id: str | None) -> EditorSession:
        """Open a stored session, or a new one if `session_id` is None. Sessions are opened one after the other."""
        folder, added = _folders(params)
        servers = params.get("mcpServers")
        if servers is not None and not isinstance(servers, list):
            raise invalid('"mcpServers" must be a list')
        options = replace(
            self._options,
            cwd=folder,
            add_dir=(*self._options.add_dir, *added),
            resume=session_id,
        )
        # One at a time: two requests for one session must not race for its lock.
        async with self._open_lock:
            if self._abandoned_opening is not None:
                await asyncio.wait([self._abandoned_opening])
            opened = self._find_open(session_id, folder)
            if opened is not None:
                return opened
            loop = asyncio.get_running_loop()
            opening = asyncio.ensure_future(asyncio.to_thread(self._open_session, options, servers or [], loop))
            try:
                session = await asyncio.shield(opening)
            except asyncio.CancelledError:
                opening.add_done_callback(_release)
                self._abandoned_opening = opening
                raise
            self._sessions[session.session_id] = session
            return session

    def _open_session(self, options: Options, servers: list[Json], loop: asyncio.AbstractEventLoop) -> EditorSession:
        """Open an agent and return its session. It blocks, so call it in a thread."""
        from qcode.acp.client import EditorFiles, read_servers
        from qcode.acp.session import EditorClient, EditorSession
        from qcode.acp.settings import SessionSettings
        from qcode.acp.updates import ClientFeatures

        configs = read_servers(servers)
        agent = self._begin_agent(options, configs.servers)
        files = object_in(self._capabilities.get("fs"))
        if files.get("readTextFile") is True and files.get("writeTextFile") is True:
            agent.use_buffers(EditorFiles(self.wire, loop, agent.conversation.session_id))
        capabilities = object_in(self._capabilities.get("session"))
        features = ClientFeatures(
            has_notices=isinstance(capabilities.get("notices"), dict),
            has_compaction=isinstance(capabilities.get("compaction"), dict),
            has_terminals=object_in(self._capabilities.get("_meta")).get("terminal_output") is True,
        )
        forms = object_in(self._capabilities.get("elicitation")).get("form")
        client = EditorClient(self.wire, features, has_forms=isinstance(forms, dict))
        settings = SessionSettings(agent, agent.models.providers(), has_sandbox=agent.toolbox.has_sandbox())
        return EditorSession(agent, client, settings, configs.problems)

    def _begin_agent(self, options: Options, servers: Mapping[str, McpServer] | None = None) -> Agent:
        """Return an agent; raise `WireError` if it cannot be opened. It blocks, so call it in a thread."""
        from qcode.agent.agent import Agent
        from qcode.agent.models.selection import select_at_start
        from qcode.agent.options import RunContext

        try:
            context = RunContext.read(options, dict(os.environ), is_attended=True)
            context = replace(context, client_servers=servers or {})
            if options.resume is not None:
                _check_exists(context.paths.state_dir, context.root, options.resume)
            agent = Agent.begin(context, select_at_start(context, has_demo=False))
            agent.report_file_texts()
            return agent
        except SessionNotFound as error:
            raise WireError(NOT_FOUND, one_line(str(error), 1_000)) from None
        except SessionBusy as error:
            text = f"{error}. Close it there, or continue in a copy: qcode -r {options.resume} --fork-session"
            raise WireError(INTERNAL_ERROR, one_line(text, 1_000), error.info) from None
        except QcodeError as error:
            if error.exit_code == ExitCode.NO_CREDENTIAL:
                raise WireError(AUTH_REQUIRED, str(error), error.info) from None
            raise WireError(INTERNAL_ERROR, one_line(str(error), 1_000), error.info) from None

    async def _list(self, params: JsonObject) -> MethodResult:
        cwd = params.get("cwd")
        folder: str | None = None
        if cwd is not None:
            if not (isinstance(cwd, str) and os.path.isabs(cwd)):  # noqa: PTH117  # text only
                raise invalid('"cwd" must be an absolute path')
            folder = str(Path(cwd))
        from qcode.acp.session_list import read_cursor, session_page

        after = read_cursor(params.get("cursor"))
        return MethodResult(await asyncio.to_thread(session_page, folder, after))

    async def _close(self, params: JsonObject) -> MethodResult:
        session = self._session(params)
        del self._sessions[session.session_id]
        await session.close()
        return MethodResult({})

    async def _delete(self, params: JsonObject) -> MethodResult:
        session_id = _required_text(params, "sessionId")
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()
        from qcode.acp.session_list import delete_session

        try:
            await asyncio.to_thread(delete_session, session_id)
        except QcodeError as error:
            raise WireError(INTERNAL_ERROR, one_line(str(error), 1_000), error.info) from None
        return MethodResult({})

    async def _prompt(self, params: JsonObject) -> MethodResult:
        return await self._session(params).prompt(params.get("prompt"))

    async def _cancel(self, params: JsonObject) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None:
            session.cancel()

    async def _set_mode(self, params: JsonObject) -> MethodResult:
        session = self._session(params)
        mode = _required_text(params, "modeId")
        return MethodResult({}, session.apply_client_change(lambda: session.settings.set_mode(mode)))

    async def _set_model(self, params: JsonObject) -> MethodResult:
        session = self._session(params)
        model = _required_text(params, "modelId")
        return MethodResult({}, await session.change_model(model))

    async def _set_option(self, params: JsonObject) -> MethodResult:
        session = self._session(params)
        option = _required_text(params, "configId")
        value = params.get("value")
        if not isinstance(value, str):
            raise invalid('"value" must be a string')
        if option == "model":
            send_changes = await session.change_model(value)
        else:
            send_changes = session.apply_client_change(lambda: session.settings.set_option(option, value))
        return MethodResult({"configOptions": session.settings.options()}, then=send_changes)

    def _session(self, params: JsonObject) -> EditorSession:
        session = self._sessions.get(_required_text(params, "sessionId"))
        if session is None:
            raise WireError(NOT_FOUND, "there is no open session with this id")
        return session


def _release(opening: asyncio.Future[EditorSession]) -> None:
    """Release a session whose request was cancelled while it opened."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().agent.release()


def _required_text(params: JsonObject, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise invalid(f'"{name}" must be a string')
    return value


def _folders(params: JsonObject) -> tuple[Path, tuple[Path, ...]]:
    """Return the folder of a session and its additional folders; raise `WireError` if one is invalid."""
    added = params.get("additionalDirectories")
    if added is not None and not isinstance(added, list):
        raise invalid('"additionalDirectories" must be a list')
    folder = _folder(_required_text(params, "cwd"), "cwd")
    return folder, tuple(_folder(item, "additionalDirectories") for item in added or [])


def _folder(value: Json, name: str) -> Path:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise invalid(f'"{name}" must be an absolute path')
    path = Path(value)
    try:
        is_folder = path.is_dir()
    except OSError:
        is_folder = False
    if not is_folder:
        raise invalid(f"{one_line(value, 400)} is not a folder")
    return path


def _check_exists(state_dir: Path, root: Path, session_id: str) -> None:
    """Raise `SessionNotFound` unless the project has a session with exactly this id."""
    from qcode.agent.sessions.store import SessionStore

    if session_id not in SessionStore(state_dir, root).ids():
        raise SessionNotFound(f'no session "{one_line(session_id, 80)}" in this folder')
