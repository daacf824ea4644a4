"""`qcode mcp`: the tool servers of this folder and pending approvals; adds and removes servers; serves qcode itself.

No tool server is started here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from qcode.agent.context.project import find_project_root
from qcode.agent.mcp.identity import ServerContext
from qcode.agent.mcp.pins import Pins, detail_of
from qcode.agent.mcp.spec import OWN, ServerError, ServerSpec, key_of_server, may_be_secret, named_servers
from qcode.agent.options import Options
from qcode.agent.trust import TrustedFile, TrustStore
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.terminal import put, say, working_folder
from qcode.config.edit import change_table
from qcode.config.kinds import SERVER_NAME_WORDS, is_server_name
from qcode.config.load import checked, load
from qcode.config.paths import ConfigPaths
from qcode.config.schema import find_key
from qcode.protocol.errors import QcodeError, UsageError
from qcode.text.clean import single_spaced, visible
from qcode.text.match import nearest

_USE = (
    "use: qcode mcp list, show NAME, approve NAME, add NAME -- COMMAND... or add NAME URL, or remove NAME; with "
    "-C DIR, --trust, --mcp-config FILE; add takes --env K=V, --header K:V and --transport; or qcode mcp serve, with "
    "the flags of model, limits and permissions"
)
_SHARED_FLAGS = ("cwd", "mcp_config", "trust")
_ADD_FLAGS = ("env", "header", "transport")


def run_mcp(rest: Sequence[str]) -> int:
    """List, show or approve, and return 0; raise `CommandLineError` or `QcodeError`."""
    options, words, given = parse_subcommand("mcp", rest, _USE)
    _refuse_stray(words, given)
    match words:
        case ["serve"]:
            from qcode.cli.subcommands.mcp_serve import serve

            return serve(options)
        case ["add", name, first, *others]:
            return _add(name, (first, *others), given)
        case ["remove", name]:
            return _remove(name)
        case [] | ["list"]:
            wanted = ""
        case ["show" | "approve", wanted]:
            pass
        case _:
            raise invalid_arguments(words, _USE)
    specs, pins, context = _servers(options)
    if not wanted:
        put("".join(f"{line}\n" for line in _rows(specs, pins, context)) or "no tool servers are configured\n")
        return 0
    spec = _named(specs, wanted)
    files = _files(spec, context)
    put(f"{_detail(spec, pins, files)}\n")
    return _approve(spec, pins, files) if words[0] == "approve" else 0


def _refuse_stray(words: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise `CommandLineError` for a flag of another action."""
    match words[:1]:
        case ["serve"]:
            stray = [flag for flag in given if flag in _ADD_FLAGS]
        case ["add"]:
            stray = [flag for flag in given if flag not in (*_SHARED_FLAGS, *_ADD_FLAGS)]
        case _:
            stray = [flag for flag in given if flag not in _SHARED_FLAGS]
    if stray:
        raise invalid_arguments((f"--{stray[0].replace('_', '-')}",), _USE)


def _add(name: str, words: Sequence[str], given: Mapping[str, Any]) -> int:
    """Add a server to the user's own configuration. Nothing is started."""
    if not is_server_name(name):
        raise UsageError(f'invalid server name "{single_spaced(name, 40)}": {SERVER_NAME_WORDS}')
    env = _pairs(given.get("env", ()), "=", "--env NAME=VALUE")
    headers = _pairs(given.get("header", ()), ":", "--header NAME:VALUE")
    is_url = len(words) == 1 and words[0].startswith(("http://", "https://"))
    if is_url and env:
        raise UsageError("--env is for a server with a command; a URL takes --header NAME:VALUE")
    if not is_url and (headers or "transport" in given):
        raise UsageError("--header and --transport are for a server with a URL")
    values: dict[str, Any] = {"url": words[0]} if is_url else {"command": words[0], "args": list(words[1:])}
    values |= {"env": env, "headers": headers, "transport": given.get("transport", "")}
    values = {key: value for key, value in values.items() if value}
    paths = ConfigPaths.from_env(os.environ)
    for key, value in values.items():
        for inner, one in value.items() if isinstance(value, dict) else (("", value),):
            path = ("mcp_servers", name, key, *((inner,) if inner else ()))
            found = find_key(path)
            assert found is not None
            checked(found, path, tuple(one) if isinstance(one, list) else one)
    change_table(paths.config_file, ("mcp_servers", name), values)
    plain = [inner for inner, value in (*env.items(), *headers.items()) if may_be_secret(inner) and "${" not in value]
    for inner in plain:
        hint = f"to keep it out, write '${{{_variable(inner)}}}' instead"
        say(f"{inner} is stored as it is in {paths.config_file}; {hint}")
    put(f"added {name} to {paths.config_file}; qcode starts it in the next session\n")
    return 0


def _pairs(typed: Sequence[str], mark: str, form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in typed:
        name, has_value, value = one.partition(mark)
        if not (name.strip() and has_value):
            raise UsageError(f'"{single_spaced(name, 40)}" does not have the form {form}')
        found[name.strip()] = value.strip() if mark == ":" else value
    return found


def _variable(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name.upper())


def _remove(name: str) -> int:
    """Remove a server from the user's own configuration, with its approvals."""
    paths = ConfigPaths.from_env(os.environ)
    settings = load(paths, os.environ, {}, find_project_root(working_folder(None)), is_trusted=False)
    if name not in settings.mcp_servers:
        near = nearest(name, settings.mcp_servers)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f'{paths.config_file} has no tool server "{single_spaced(name, 40)}"{hint}')
    change_table(paths.config_file, ("mcp_servers", name), None)
    Pins(paths.state_dir).forget(key_of_server(OWN, name))
    put(f"removed {name} from {paths.config_file}\n")
    return 0


def _servers(options: Options) -> tuple[tuple[ServerSpec, ...], Pins, ServerContext]:
    folder = working_folder(options.cwd)
    root = find_project_root(folder)
    paths = ConfigPaths.from_env(os.environ)
    trusts = options.trust or TrustStore(paths.state_dir).is_trusted(root)
    settings = load(paths, os.environ, {}, root, trusts)
    named = named_servers(settings, options.mcp_config, root, is_trusted=trusts)
    for complaint in named.complaints:
        say(complaint)
    if not trusts:
        say(
            "this folder is not trusted, so the servers of the project are not listed and never start (use --trust "
            "to trust it)"
        )
    return named.specs, Pins(paths.state_dir), ServerContext(folder, os.environ, roots=(root,))


def _files(spec: ServerSpec, context: ServerContext) -> Mapping[str, TrustedFile]:
    """Return the files that a server would start; empty if its configuration cannot be expanded."""
    try:
        return context.files_of(spec)
    except ServerError:
        return {}


def _rows(specs: Sequence[ServerSpec], pins: Pins, context: ServerContext) -> list[str]:
    width = max((len(spec.name) for spec in specs), default=0)
    states = {spec.name: _state(spec, pins, _files(spec, context)) for spec in specs}
    return [
        f"{spec.name:<{width}}  {states[spec.name]}  {visible(spec.what)}  ({visible(spec.origin)})" for spec in specs
    ]


def _state(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> str:
    if not spec.config.enabled:
        return "off"
    if not pins.is_approved(spec, files):
        return "not approved"
    waiting, tools = len(pins.pending(spec)), pins.tools(spec)
    if waiting:
        return f"{waiting} changed tools not approved"
    return "never started" if tools is None else f"{len(tools)} tools"


def _named(specs: Sequence[ServerSpec], wanted: str) -> ServerSpec:
    names = {spec.name: spec for spec in specs}
    if wanted not in names:
        near = nearest(wanted, names)
        hint = f"; did you mean {near}?" if near else "; run qcode mcp list to see them"
        raise UsageError(f'unknown tool server "{single_spaced(wanted)}"{hint}')
    return names[wanted]


def _detail(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> str:
    """Return all details of a server, with invisible characters made visible."""
    parts = [detail_of(spec, pins, files), f"state:    {_state(spec, pins, files)}"]
    tools = pins.tools(spec)
    if tools:
        parts.append("approved tools:\n" + "\n".join(f"  {visible(name)}" for name in tools))
    parts += [change.shown() for change in pins.pending(spec)]
    return "\n\n".join(parts)


def _approve(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> int:
    try:
        if not pins.is_approved(spec, files):
            pins.approve(spec, files)
            put(f"\napproved: {spec.name} may be started as shown above\n")
            return 0
        changes = pins.pending(spec)
        if changes:
            pins.accept(spec, changes)
            put(f"\napproved: these tools of {spec.name} are available as shown above\n")
        else:
            put(f"\nnothing in {spec.name} needs approval\n")
    except OSError as error:
        raise QcodeError(f"cannot save the approval: {pins.path}: {error.strerror}") from None
    return 0
