"""The specification of a server (its command or address, origin and fingerprint), and the servers of a run.

Servers come from the configuration, from `--mcp-config`, and from the `.mcp.json` of a trusted project.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from qcode.config.paths import MCP_FILE, with_tilde
from qcode.config.settings import McpServer, Origin, Settings
from qcode.protocol.errors import ConfigError, ExitCode, QcodeError
from qcode.text.clean import visible
from qcode.text.json import Json
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from qcode.config.definitions import McpFileContent

MAX_TOOLS = 100
"""The maximum number of tools of all servers: together with qcode's tools, it stays below OpenAI's limit of 128."""
MAX_REASON = 300
"""The maximum number of characters of a line about a server."""
NOT_FOUND = "not found"
"""Stands for the hash of a file that does not exist."""
TOO_LARGE = "too large"
"""Stands for the hash of a folder that is too large to read. The user is asked about such a folder at each start."""

_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ServerError(Exception):
    """A server cannot be started or reached; the text is one line for the user."""


class LoginNeededError(ServerError):
    """A server refuses requests until the user signs in (again)."""


def login_hint(name: str) -> str:
    """Return the command that the user runs for a server that needs a login."""
    return f"run qcode mcp login {name}"


@dataclass(frozen=True, slots=True)
class ToolName:
    """The two parts of the name that a model calls: `git__log` is the tool `log` of the server `git`."""

    server: str
    tool: str
    """Empty if the name has only one part, as the tools of qcode have: `read`."""


def split_name(name: str) -> ToolName:
    """Split the name that a model calls into server and tool."""
    server, _, tool = name.partition("__")
    return ToolName(server, tool)


Connect: TypeAlias = "Callable[[], AbstractAsyncContextManager[TransportStreams]]"
"""Opens the streams of a server that runs inside the program that uses qcode."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The specification of a server: its name, its configuration, and the origin of the configuration."""

    name: str
    config: McpServer
    scope: str
    """Separates servers of the same name: of a project, of a file, of the user, or of the program that uses qcode."""
    origin: str | Origin
    """The file or flag that configures the server, for display."""
    is_from_client: bool = False
    """The program that uses qcode, such as an editor, names the server in each session.

    Variables of such a server are not expanded, and neither the server nor its tools are pinned.
    """
    connect: Connect | None = None
    """Connects to a server inside the program that uses qcode; None for any other server."""

    @property
    def key(self) -> str:
        """The key of its approval and its pinned tools in the state file."""
        return key_of_server(self.scope, self.name)

    @property
    def is_from_project(self) -> bool:
        return self.config.is_from_project

    @property
    def target(self) -> str:
        """The command line or the address, without possible secrets."""
        if self.config.url is None:
            return self.config.command or ""
        return _without_secrets(self.config.url)

    @property
    def fingerprint(self) -> str:
        """The hash of its configuration: command, arguments, names of variables and headers, address."""
        config = self.config
        # The values of a user's variables are not included, because they may be keys.
        env: object = dict(config.env) if self.is_from_project else sorted(config.env)
        parts = [config.command, list(config.args), env, config.url, sorted(config.headers)]
        # These are appended only if set, so that the hash of other servers stays the one that was approved.
        if config.transport is not None:
            parts.append(config.transport)
        if config.client_id or config.client_metadata_url:
            parts.append([config.client_id, config.client_metadata_url])
        return digest(parts)

    def detail(self) -> str:
        """Return everything that an approval covers, one row for each value.

        Values are not redacted: call this for a server of a project, whose file has no secrets of the user.
        """
        config = self.config
        rows = [("file:", with_tilde(str(self.origin)))]
        if config.url is not None:
            rows.append(("address:", config.url))
            rows += [("header:", f"{name}: {value}") for name, value in config.headers.items()]
        else:
            rows.append(("command:", config.command or ""))
            rows += [("argument:", argument) for argument in config.args]
            rows += [("variable:", f"{name}={value}") for name, value in config.env.items()]
        return "\n".join(f"{label:<9} {visible(value)}" for label, value in rows)

    def expanded(self, env: Mapping[str, str]) -> McpServer:
        """Return the configuration with `${NAME}` and `${NAME:-default}` filled in; raise `ServerError`.

        A project must not use variables, because it could send the user's keys anywhere.
        """
        config = self.config
        if self.is_from_client:
            return config

        def fill(text: str) -> str:
            return _VARIABLE.sub(value_of, text) if "${" in text else text

        def value_of(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            if self.is_from_project:
                raise ServerError(
                    f"it needs your environment variable {name}, which projects cannot read: define this server "
                    "in your own configuration"
                )
            value = env.get(name, "") or default
            if value is None:
                raise ServerError(f"the variable {name} is not set")
            return value

        return replace(
            config,
            args=tuple(fill(argument) for argument in config.args),
            env={name: fill(value) for name, value in config.env.items()},
            url=fill(config.url) if config.url is not None else None,
            headers={name: fill(value) for name, value in config.headers.items()},
        )


ServerState: TypeAlias = Literal["off", "restricted", "waiting", "refused", "starting", "ready", "sign-in", "failed"]
"""`restricted`: the folder is not trusted; `waiting`: for an approval; `refused`: the user declined the approval;
`sign-in`: the server needs a login."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server, for display."""

    name: str
    """The name a model calls."""
    description: str
    problem: str = ""
    """Why the tool is not offered; empty if it is."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of a server, for display."""

    name: str
    state: ServerState
    target: str
    """The command or address, without secrets."""
    origin: str
    """The file or flag that configures the server."""
    tools: tuple[ServerTool, ...] = ()
    problem: str = ""
    """Why the server does not run, in one line of untrusted text."""
    log: str = ""
    """The last lines of the server's log, untrusted text."""


@dataclass(frozen=True, slots=True)
class ReplacedServers:
    """The effect of replacing the servers of the client program, by name."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    ignored: tuple[str, ...]
    """The new servers whose names the configuration already uses."""


def key_of_server(scope: str, name: str) -> str:
    """Return the key of a server in the state file."""
    return f"{scope}#{name}"


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value, in hexadecimal. The order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


USER_SCOPE = "own"
"""The scope of the user's configuration in the state file."""


@dataclass(frozen=True, slots=True)
class ConfiguredServers:
    """The servers of a run, in order."""

    specs: tuple[ServerSpec, ...]
    problems: tuple[str, ...] = ()
    """One line for each entry or file that is not used."""


CLIENT_SCOPE = "client"
"""The scope of the servers that a program names."""


def configured_servers(
    settings: Settings,
    files: Sequence[str | Path],
    root: Path,
    *,
    reads_project_file: bool,
    client_servers: Mapping[str, McpServer] = MappingProxyType({}),
    program_servers: Mapping[str, Connect] = MappingProxyType({}),
) -> ConfiguredServers:
    """Return the servers of a run. `--mcp-config` overrides the configuration, and both override the project.

    `client_servers` are named by the program that uses qcode, `program_servers` run inside that program. They cannot
    use a name of the configuration or of a flag, and the project cannot use any of these names.
    Raise `QcodeError` if a file of a flag cannot be read. Invalid entries in such a file, and all errors in a project's
    file, are in `problems`.
    """
    problems: list[str] = []
    specs = {name: _spec_of_config(name, config, settings, root) for name, config in settings.mcp_servers.items()}
    for file in files:
        content = _read_flag(file)
        problems += content.problems
        is_inline = _is_inline_json(file)
        scope = INLINE_SCOPE if is_inline else f"file {Path(file).resolve()}"
        origin = INLINE_SCOPE if is_inline else str(file)
        specs |= {name: ServerSpec(name, config, scope, origin) for name, config in content.servers.items()}
    for name, config in client_servers.items():
        if name in specs:
            problems.append(f"{name} of the editor is ignored: that name is already used")
        else:
            specs[name] = ServerSpec(name, config, CLIENT_SCOPE, "the editor", is_from_client=True)
    for name, connect in program_servers.items():
        if name in specs:
            problems.append(f"{name} of the host is ignored: that name is already used")
        else:
            config = McpServer(command=name)
            specs[name] = ServerSpec(name, config, CLIENT_SCOPE, "the host", is_from_client=True, connect=connect)
    project_servers = _project_servers(root, problems) if reads_project_file else {}
    for name, config in project_servers.items():
        if name in specs:
            problems.append(f"{name} of {root / MCP_FILE} is ignored: that name is already used")
        else:
            specs[name] = ServerSpec(name, config, _project_scope(root), str(root / MCP_FILE))
    return ConfiguredServers(tuple(specs.values()), tuple(problems))


def check_config_files(files: Sequence[str | Path]) -> None:
    """Raise `QcodeError` if a file of `--mcp-config` cannot be read."""
    for file in files:
        _read_flag(file)


@dataclass(frozen=True, slots=True)
class ClientServers:
    """The tool servers that a program names during a session."""

    specs: tuple[ServerSpec, ...]
    problems: Mapping[str, str]
    """The error of each invalid entry, by name."""


def client_servers(rows: Mapping[str, Json], origin: str) -> ClientServers:
    """Return the servers that a program names during a session.

    `rows` has the form of `mcpServers` in `.mcp.json`.
    """
    specs: list[ServerSpec] = []
    problems: dict[str, str] = {}
    for name, row in rows.items():
        text = json.dumps({"mcpServers": {name: row}})
        content = _read_mcp_file(Path(origin), is_project=False, text=text)
        servers = content.servers.values()
        specs += [ServerSpec(name, config, CLIENT_SCOPE, origin, is_from_client=True) for config in servers]
        if content.problems:
            problems[name] = content.problems[0]
    return ClientServers(tuple(specs), problems)


def is_stale(spec: ServerSpec, current: Mapping[str, ServerSpec]) -> bool:
    """Return whether a server of the program is missing in `current`, or has another configuration there."""
    new = current.get(spec.name)
    if new is None:
        return spec.is_from_client
    has_same_config = replace(new.config, file="") == replace(spec.config, file="")
    runs_at_same_place = (new.connect is None) == (spec.connect is None)
    return not (has_same_config and runs_at_same_place)


def possible_secrets(specs: Sequence[ServerSpec], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables and headers for servers that may be secrets, expanded with `env`."""
    values: list[str] = []
    for spec in specs:
        if not spec.is_from_client and not any(map(may_be_secret, (*spec.config.env, *spec.config.headers))):
            continue
        try:
            config = spec.expanded(env)
        except ServerError:
            continue
        pairs = (*config.env.items(), *config.headers.items())
        values += [value for name, value in pairs if spec.is_from_client or may_be_secret(name)]
    return tuple(values)


def may_be_secret(name: str) -> bool:
    """Return whether a variable or header of this name usually holds a secret."""
    return any(part in name.lower() for part in ("auth", "key", "token", "secret", "password", "cookie"))


def _spec_of_config(name: str, config: McpServer, settings: Settings, root: Path) -> ServerSpec:
    scope = _project_scope(root) if config.is_from_project else USER_SCOPE
    key = "url" if config.url else "command"
    return ServerSpec(name, config, scope, settings.origin(f"mcp_servers.{name}.{key}"))


INLINE_SCOPE = "--mcp-config"
"""The scope and origin of servers given as JSON on the command line."""


def _is_inline_json(value: str | Path) -> bool:
    return str(value).startswith("{")


def _read_flag(value: str | Path) -> McpFileContent:
    """Return the servers that `--mcp-config` names in a file or in JSON text; raise `QcodeError`."""
    try:
        if _is_inline_json(value):
            return _read_mcp_file(Path(INLINE_SCOPE), is_project=False, text=str(value))
        return _read_mcp_file(Path(value), is_project=False)
    except ConfigError as error:
        # An error in inline JSON already begins with the flag.
        flag = "" if _is_inline_json(value) else f"{INLINE_SCOPE}: "
        raise QcodeError(f"{flag}{error}", ExitCode.BAD_CONFIG) from None


def _read_mcp_file(file: Path, *, is_project: bool, text: str | None = None) -> McpFileContent:
    from qcode.config.definitions import read_mcp_file  # not needed for servers of `config.toml`

    return read_mcp_file(file, is_project=is_project, text=text)


def _project_servers(root: Path, problems: list[str]) -> dict[str, McpServer]:
    """Return the servers of the project's file, and add a line to `problems` for each error in it."""
    try:
        content = _read_mcp_file(root / MCP_FILE, is_project=True)
    except ConfigError as error:
        problems.append(str(error))
        return {}
    problems += content.problems
    return content.servers


def _project_scope(root: Path) -> str:
    return f"project {root.resolve()}"
