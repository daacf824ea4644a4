"""Which tool servers a run has: the configuration's, those of `--mcp-config`, and a trusted project's `.mcp.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from qcode.cli.failure import StartError
from qcode.config.errors import ConfigError
from qcode.config.mcp_file import PROJECT_FILE, read_mcp_file
from qcode.config.settings import McpServer, Settings
from qcode.protocol.values import dataclass
from qcode.runtime.mcp.spec import ServerSpec

OWN = "own"
"""The scope of the person's own configuration; what its servers' tools were is kept under it."""


@dataclass(frozen=True, slots=True)
class Named:
    """The servers in their order, and a line for each thing that was wrong with a project's file."""

    specs: tuple[ServerSpec, ...]
    complaints: tuple[str, ...] = ()


def named_servers(settings: Settings, files: Sequence[Path], root: Path, *, is_trusted: bool) -> Named:
    """Return the servers of a run. A name in a flag's file beats the configuration, and both beat the project's.

    Raise `StartError` for a file of a flag that cannot be used; a project's file never keeps a run from beginning.
    """
    found = {name: _of_config(name, config, settings, root) for name, config in settings.mcp_servers.items()}
    for file in files:
        try:
            servers = read_mcp_file(file, is_project=False)
        except ConfigError as error:
            raise StartError(f"--mcp-config: {error}", 52) from None
        scope = f"file {file.resolve()}"
        found |= {name: ServerSpec(name, config, scope, str(file)) for name, config in servers.items()}
    complaints: list[str] = []
    for name, config in _of_project(root, complaints).items() if is_trusted else ():
        if name in found:
            complaints.append(f"{name} of {root / PROJECT_FILE} is not used: that name is taken")
        else:
            found[name] = ServerSpec(name, config, _scope(root), str(root / PROJECT_FILE))
    return Named(tuple(found.values()), tuple(complaints))


def header_values(specs: Sequence[ServerSpec], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what servers get that may be a secret: values of variables and headers with what `env` fills in."""
    from qcode.runtime.mcp.spec import ServerError

    values: list[str] = []
    for spec in specs:
        try:
            config = spec.expanded(env)
        except ServerError:
            continue
        values += [value for name, value in (*config.env.items(), *config.headers.items()) if may_be_secret(name)]
    return tuple(values)


def may_be_secret(name: str) -> bool:
    """Return whether a variable or header of this name holds a secret by convention."""
    return any(part in name.lower() for part in ("auth", "key", "token", "secret", "password", "cookie"))


def _of_config(name: str, config: McpServer, settings: Settings, root: Path) -> ServerSpec:
    key = f"mcp_servers.{name}.{'url' if config.url else 'command'}"
    return ServerSpec(name, config, _scope(root) if config.is_from_project else OWN, str(settings.origin(key)))


def _of_project(root: Path, complaints: list[str]) -> dict[str, McpServer]:
    try:
        return read_mcp_file(root / PROJECT_FILE, is_project=True)
    except ConfigError as error:
        complaints.append(str(error))
        return {}


def _scope(root: Path) -> str:
    return f"project {root.resolve()}"
