"""The language servers of a session: the server for a file, its program, and one running process per language.

A program inside the workspace is never started: it is not pinned, so trusting the folder does not cover it. A server
starts with the first edit of a file of its language. It runs in a sandbox without write access to the workspace, and
is restarted once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from qcode.agent.after_edit.client import LanguageServer, LanguageServerError, ServerOptions
from qcode.agent.after_edit.problems import Problem
from qcode.protocol.tools import Launch
from qcode.text.clean import visible
from qcode.tools.processes import command_environment, find_program
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

MAX_STARTS = 2
"""A server that ends is restarted once."""
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Language:
    """A language and its servers."""

    name: str
    extensions: Mapping[str, str]
    """The file extensions, each with its language identifier in LSP."""
    servers: tuple[tuple[str, ...], ...]
    """The commands of the servers; the first that is installed is used."""
    initialization: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    settings: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """`ServerOptions` explains both mappings."""


_ANALYSIS = {"diagnosticMode": "openFilesOnly", "autoSearchPaths": True, "useLibraryCodeForTypes": True}
LANGUAGES = (
    Language(
        "python",
        {"py": "python", "pyi": "python"},
        (("basedpyright-langserver", "--stdio"), ("pyright-langserver", "--stdio")),
        settings={
            "python": {"analysis": _ANALYSIS},
            # The default mode reports style problems; settings of the project take precedence over this mode.
            "basedpyright": {"analysis": {**_ANALYSIS, "typeCheckingMode": "standard"}},
        },
    ),
    Language(
        "typescript",
        {
            "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "typescriptreact",
            "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascriptreact",
        },
        (("typescript-language-server", "--stdio"),),
        initialization={"disableAutomaticTypingAcquisition": True},
    ),
    Language("go", {"go": "go"}, (("gopls",),)),
    Language(
        "rust",
        {"rs": "rust"},
        (("rust-analyzer",),),
        # Without `cargo check`, build scripts and macros of the project, which would compile and run its code.
        initialization={
            "checkOnSave": False,
            "cargo": {"buildScripts": {"enable": False}},
            "procMacro": {"enable": False},
            "cachePriming": {"enable": False},
        },
    ),
    Language(
        "c",
        {
            "c": "c", "h": "cpp", "cc": "cpp", "cpp": "cpp", "cxx": "cpp", "hh": "cpp", "hpp": "cpp", "hxx": "cpp",
            "m": "objective-c", "mm": "objective-cpp",
        },
        (("clangd", "--background-index=false"),),
    ),
)  # fmt: skip


def language_of(path: PurePath, configured: Mapping[str, tuple[str, ...]]) -> Language | None:
    """Return the language of a file. `configured` has commands by language or file extension."""
    return _language_of_extension(path.suffix.removeprefix(".").lower(), configured)


def _language_of_extension(extension: str, configured: Mapping[str, tuple[str, ...]]) -> Language | None:
    if not extension:
        return None
    configured_command = configured.get(extension, configured.get(f".{extension}"))
    built_in = next((language for language in LANGUAGES if extension in language.extensions), None)
    # `go` and `c` are names of languages and also file extensions. A command for `c` covers `.h` files too.
    if configured_command is not None and (built_in is None or extension != built_in.name):
        identifier = extension if built_in is None else built_in.extensions[extension]
        return Language(f".{extension}", {extension: identifier}, (configured_command,) if configured_command else ())
    return built_in


NOT_FOUND = "was not found on PATH"


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """The server of a language, or the reason why the language has no server."""

    language: Language
    argv: tuple[str, ...] = ()
    """The command with the path of the program; empty if there is no server."""
    reason: str = ""
    """Why there is no server."""


def find_server(
    language: Language,
    configured: Mapping[str, tuple[str, ...]],
    environment: Mapping[str, str],
    workspace: Workspace,
) -> ServerChoice:
    """Return the server of a language: the configured server, otherwise the first installed server."""
    configured_command = configured.get(language.name)
    if configured_command is not None and not configured_command:
        return ServerChoice(language, reason="off (after_edit.servers)")
    candidates = (configured_command,) if configured_command is not None else language.servers
    for command in candidates:
        program = _find_program_path(command[0], environment, workspace)
        if program:
            return ServerChoice(language, (program, *command[1:]))
    names = " or ".join(visible(command[0]) for command in candidates) or "a server"
    return ServerChoice(language, reason=f"{names} {NOT_FOUND}")


def _find_program_path(name: str, environment: Mapping[str, str], workspace: Workspace) -> str:
    if "/" not in name:
        return find_program(name, environment, workspace) or ""
    path = Path(os.path.expanduser(name))  # noqa: PTH111  # never raises
    is_usable = path.is_absolute() and os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  # never raises
    return str(path) if is_usable and not workspace.contains(path) and not workspace.contains(path.parent) else ""


def server_choices(
    configured: Mapping[str, tuple[str, ...]], environment: Mapping[str, str], workspace: Workspace
) -> list[ServerChoice]:
    """Return the server of every language; languages with a configured file extension come last."""
    built_in_names = {language.name for language in LANGUAGES}
    configured_languages = [
        _language_of_extension(name.removeprefix(".").lower(), configured)
        for name in configured
        if name not in built_in_names
    ]
    languages = [*LANGUAGES, *(language for language in configured_languages if language is not None)]
    return [find_server(language, configured, environment, workspace) for language in languages]


class ServerPool:
    """The running servers of a session.

    `launch` returns how to start a program, in a sandbox if `is_confined` returns True. `cache` returns a private
    folder for the caches of servers. All three may block.
    """

    def __init__(
        self,
        configured: Mapping[str, tuple[str, ...]],
        environment: Mapping[str, str],
        workspace: Workspace,
        launch: Callable[[Sequence[str]], Launch],
        is_confined: Callable[[], bool],
        cache: Callable[[], Path],
    ) -> None:
        self._configured_commands = configured
        self._environment = environment
        self._workspace = workspace
        self._launch = launch
        self._is_confined = is_confined
        self._cache = cache
        self._states: dict[str, _ServerState] = {}
        self._is_closed = False

    def has_server(self, path: Path) -> bool:
        """Return whether a server checks this file. The first call for a language searches PATH."""
        state = self._state_of(path)
        return state is not None and bool(state.choice.argv) and not state.failure

    def take_failures(self) -> tuple[str, ...]:
        """Return a line for the user about each server that failed since the last call."""
        lines: list[str] = []
        for state in self._states.values():
            if state.failure and not state.is_reported:
                state.is_reported = True
                name = visible(PurePath(state.choice.argv[0]).name)
                lines.append(f"{name} no longer checks edits in this session: {state.failure}")
        return tuple(lines)

    def pids(self) -> tuple[int, ...]:
        """Return the process groups of the running servers."""
        return tuple(
            state.server.pid for state in self._states.values() if state.server is not None and state.server.pid
        )

    async def check(self, path: Path, texts: tuple[str, ...]) -> list[tuple[Problem, ...]] | None:
        """Return the problems of each text of the file; None without a server, or if it failed after a restart too."""
        state = self._state_of(path)
        if state is None or not state.choice.argv:
            return None
        identifier = state.choice.language.extensions[path.suffix.removeprefix(".").lower()]
        async with state.lock:
            while not state.failure and not self._is_closed:
                try:
                    server = await self._running_server(state)
                    return await server.check(path, identifier, texts)
                except LanguageServerError as error:
                    if state.server is not None:
                        await state.server.close()
                        state.server = None
                    if state.start_count >= MAX_STARTS:
                        state.failure = str(error)
        return None

    async def disable(self, path: Path, reason: str) -> None:
        """End the server of a file, and do not start it again; `reason` is for the user."""
        state = self._state_of(path)
        if state is not None:
            state.failure = state.failure or reason
            if state.server is not None:
                server, state.server = state.server, None
                await server.close()

    async def close(self) -> None:
        """End all servers."""
        self._is_closed = True
        running = [state.server for state in self._states.values() if state.server is not None]
        await asyncio.gather(*(server.close() for server in running))

    def kill(self) -> None:
        """Kill all servers, for a process that exits now. Idempotent."""
        self._is_closed = True
        for state in self._states.values():
            if state.server is not None:
                state.server.kill()

    def _state_of(self, path: Path) -> _ServerState | None:
        language = language_of(path, self._configured_commands)
        if language is None:
            return None
        if language.name not in self._states:
            choice = find_server(language, self._configured_commands, self._environment, self._workspace)
            self._states[language.name] = _ServerState(choice)
        return self._states[language.name]

    async def _running_server(self, state: _ServerState) -> LanguageServer:
        if state.server is not None and not state.server.failure:
            return state.server
        state.start_count += 1
        language = state.choice.language
        launch = await asyncio.to_thread(self._launch, state.choice.argv)
        can_see_processes = not await asyncio.to_thread(self._is_confined)
        name = PurePath(state.choice.argv[0]).name.removesuffix("-langserver")
        root = self._workspace.root
        settings = _with_interpreter(language.settings, root) if language.name == "python" else language.settings
        options = ServerOptions(name, root, settings, language.initialization, can_see_processes)
        server = state.server = LanguageServer(options)
        await server.start(launch, server_environment(self._environment, self._cache()))
        return server


class _ServerState:
    """The state of the server of one language."""

    def __init__(self, choice: ServerChoice) -> None:
        self.choice = choice
        self.server: LanguageServer | None = None
        self.lock = asyncio.Lock()
        self.start_count = 0
        self.failure = ""  # why the server is no longer used, otherwise empty
        self.is_reported = False  # whether a warning has named the failure


def _with_interpreter(settings: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    """Return `settings` with the interpreter of the virtual environment, so that the server finds its packages."""
    for name in (".venv", "venv"):
        path = root / name / "bin" / "python"
        if os.path.exists(path):  # noqa: PTH110  # `Path.exists` raises for a link into the home of another user
            return {**settings, "python": {**settings.get("python", {}), "pythonPath": str(path)}}
    return settings


def server_environment(environment: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return the environment of a shell command, with the caches of servers in `cache` and without downloads."""
    folders = {"XDG_CACHE_HOME": "xdg", "GOCACHE": "go", "CARGO_TARGET_DIR": "cargo", "TMPDIR": "tmp"}
    for name in folders.values():
        (cache / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    offline = {"CARGO_NET_OFFLINE": "true", "GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    return {
        **command_environment(environment),
        **{name: str(cache / folder) for name, folder in folders.items()},
        **offline,
    }
