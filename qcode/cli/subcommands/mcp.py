"""`qcode mcp`: lists, approves, adds and removes tool servers, signs in to them, and serves qcode as a tool server.

The configured tool servers are not started.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from qcode.agent.context.project import find_project_root
from qcode.agent.keys.keys import ATTENDED_TIMEOUT_S, Keys, key_store
from qcode.agent.mcp.context import ServerContext
from qcode.agent.mcp.oauth.credentials import Credentials
from qcode.agent.mcp.oauth.login import (
    ClientRegistration,
    Paste,
    browser_problem,
    open_browser,
    sign_in,
    sign_out,
    supports_login,
)
from qcode.agent.mcp.pins import Pins, start_text
from qcode.agent.mcp.spec import (
    USER_SCOPE,
    ServerError,
    ServerSpec,
    configured_servers,
    key_of_server,
    may_be_secret,
)
from qcode.agent.options import Options
from qcode.agent.trust.store import TrustedFile, TrustStore
from qcode.cli.arguments import invalid_arguments, missing_argument, parse_subcommand, usage_of
from qcode.cli.terminal import InputEnded, ask_hidden, working_folder, write_stderr, write_stdout
from qcode.cli.trust import untrusted_text
from qcode.config.edit import change_table
from qcode.config.kinds import SERVER_NAME_RULE, is_server_name
from qcode.config.load import convert_value, load
from qcode.config.paths import MCP_FILE, ConfigPaths, exists_or_unknown, project_file, with_tilde
from qcode.config.schema import KeyPath, find_key
from qcode.config.settings import McpServer, Settings
from qcode.protocol.errors import ConfigError, ExitCode, QcodeError, UsageError
from qcode.text.clean import single_spaced, visible
from qcode.text.json import JsonObject
from qcode.text.match import suggestion

_USES = {
    "": "use: qcode mcp [list], show, approve, add, remove, login, logout or serve; qcode help mcp explains them",
    "list": "use: qcode mcp list [--json] [-C DIR] [--trust] [--mcp-config FILE]",
    "show": "use: qcode mcp show NAME [-C DIR] [--trust] [--mcp-config FILE]",
    "approve": "use: qcode mcp approve NAME [-C DIR] [--trust] [--mcp-config FILE]",
    "add": "use: qcode mcp add NAME [--env NAME=VALUE] -- COMMAND..., or qcode mcp add NAME URL [--header NAME:VALUE] "
    "[--transport http|sse]",
    "remove": "use: qcode mcp remove NAME",
    "login": "use: qcode mcp login NAME [--no-browser] [--client-id ID] [--callback-port N]",
    "logout": "use: qcode mcp logout NAME",
    "serve": "use: qcode mcp serve [FLAGS]; qcode help mcp lists the flags",
}
_SHARED_FLAGS = ("cwd", "mcp_config", "trust")
_ADD_FLAGS = ("env", "header", "transport")
_LOGIN_FLAGS = ("no_browser", "client_id", "callback_port")


def run_mcp(arguments: Sequence[str]) -> int:
    """Run an action and return the exit code; raise `CommandLineError` or `QcodeError`."""
    usage = usage_of(arguments, _USES)
    options, words, flags = parse_subcommand("mcp", arguments, usage)
    _refuse_other_flags(words, flags, usage)
    match words:
        case ["serve"]:
            from qcode.cli.subcommands.mcp_serve import serve

            return serve(options)
        case ["add", name, first, *others]:
            return _add(name, (first, *others), flags)
        case ["remove", name]:
            return _remove(name)
        case [] | ["list"]:
            return _list(options, is_json="json" in flags)
        case ["show" | "approve" | "login" | "logout" as action, server_name]:
            specs, pins, context = _servers(options, _settings(options))
            spec = _find_spec(specs, server_name)
            if action in ("login", "logout"):
                return _change_login(action, spec, pins, context, flags)
            files = _files(spec, context)
            write_stdout(f"{_detail(spec, pins, files, _login_note(spec, context))}\n")
            return _approve(spec, pins, files) if action == "approve" else 0
        case ["show" | "approve" | "remove" | "login" | "logout" | "add"] | ["add", _]:
            raise missing_argument(usage)
        case _:
            raise invalid_arguments(words, usage)


def _refuse_other_flags(words: Sequence[str], flags: Mapping[str, Any], usage: str) -> None:
    """Raise `CommandLineError` for a flag of another action."""
    match words[:1]:
        case ["serve"]:
            stray = [flag for flag in flags if flag in (*_ADD_FLAGS, *_LOGIN_FLAGS)]
        case ["login"]:
            stray = [flag for flag in flags if flag not in (*_SHARED_FLAGS, *_LOGIN_FLAGS)]
        case ["add"]:
            stray = [flag for flag in flags if flag not in (*_SHARED_FLAGS, *_ADD_FLAGS)]
        case [] | ["list"]:
            stray = [flag for flag in flags if flag not in (*_SHARED_FLAGS, "json")]
        case _:
            stray = [flag for flag in flags if flag not in _SHARED_FLAGS]
    if stray:
        flag = stray[0].replace("_", "-")
        raise invalid_arguments([f"--{flag}"], usage)


def _add(name: str, words: Sequence[str], flags: Mapping[str, Any]) -> int:
    """Add a server to the user's configuration, without starting it; raise `UsageError` or `ConfigError`."""
    if not is_server_name(name):
        raise UsageError(f'invalid server name "{single_spaced(name, 40)}": {SERVER_NAME_RULE}')
    env = _pairs(flags.get("env", ()), "=", "--env NAME=VALUE")
    headers = _pairs(flags.get("header", ()), ":", "--header NAME:VALUE")
    first, *others = words
    is_url = not others and first.startswith(("http://", "https://"))
    is_other_url = not others and "://" in first and not is_url
    if not first.strip():
        raise UsageError("the command of the server is empty; give a program or a URL")
    if is_other_url:
        raise UsageError(f'"{single_spaced(first, 80)}" is not an address of a server; use http:// or https://')
    if is_url and env:
        raise UsageError("--env is for a server with a command; a URL takes --header NAME:VALUE")
    if not is_url and (headers or "transport" in flags):
        raise UsageError("--header and --transport are for a server with a URL")
    values: dict[str, Any] = {"url": first} if is_url else {"command": first, "args": others}
    values |= {"env": env, "headers": headers, "transport": flags.get("transport", "")}
    values = {key: value for key, value in values.items() if value}
    paths = ConfigPaths.from_env(os.environ)
    for key, value in values.items():
        path = ("mcp_servers", name, key)
        if isinstance(value, dict):  # such as `env`, whose keys are `mcp_servers.NAME.env.VARIABLE`
            for inner_key, inner_value in value.items():
                _check_value((*path, inner_key), inner_value)
        else:
            _check_value(path, value)
    if name in _user_settings(paths).mcp_servers:
        file = with_tilde(str(paths.config_file))
        raise UsageError(f"{file} has a tool server {name} already; qcode mcp remove {name} removes it")
    change_table(paths.config_file, ("mcp_servers", name), values)
    file = with_tilde(str(paths.config_file))
    for secret_name, value in (*env.items(), *headers.items()):
        if may_be_secret(secret_name) and "${" not in value:
            reference = "${" + _variable(secret_name) + "}"
            hint = f"to keep it out of the file, write '{reference}' instead"
            write_stderr(f"the value of {secret_name} is stored unencrypted in {file}; {hint}")
    write_stdout(f"added {name} to {file}; qcode starts it in the next session\n")
    return 0


def _check_value(path: KeyPath, value: object) -> None:
    """Raise `ConfigError` if a config key does not accept the value."""
    key = find_key(path)
    assert key is not None
    convert_value(key, path, tuple(value) if isinstance(value, list) else value)


def _user_settings(paths: ConfigPaths) -> Settings:
    """Return the settings without those of the project."""
    return load(paths, os.environ, {}, find_project_root(working_folder(None)), is_trusted=False)


def _pairs(typed: Sequence[str], separator: str, form: str) -> dict[str, str]:
    """Return the values by name; raise `UsageError` for a text that does not have the form `form`."""
    pairs: dict[str, str] = {}
    for text in typed:
        name, has_value, value = text.partition(separator)
        if not (name.strip() and has_value):
            raise UsageError(f'"{single_spaced(name, 40)}" does not have the form {form}')
        pairs[name.strip()] = value.strip() if separator == ":" else value
    return pairs


def _variable(name: str) -> str:
    """Return the name of an environment variable for the value of the header or variable `name`."""
    return "".join(char if char.isalnum() else "_" for char in name.upper())


def _remove(name: str) -> int:
    """Remove a server from the user's configuration, with its approvals and login; raise `UsageError`."""
    paths = ConfigPaths.from_env(os.environ)
    settings = _user_settings(paths)
    if name not in settings.mcp_servers:
        hint = suggestion(name, settings.mcp_servers)
        refusal = f'{with_tilde(str(paths.config_file))} has no tool server "{single_spaced(name, 40)}"'
        raise UsageError(f"{refusal}; {hint}" if hint else refusal)
    _forget_login(name, settings, paths)
    change_table(paths.config_file, ("mcp_servers", name), None)
    Pins(paths.state_dir).forget(key_of_server(USER_SCOPE, name))
    write_stdout(f"removed {name} from {with_tilde(str(paths.config_file))}\n")
    return 0


def _forget_login(name: str, settings: Settings, paths: ConfigPaths) -> None:
    """Delete the login of a server that is removed; its tokens are not revoked."""
    spec = ServerSpec(name, settings.mcp_servers[name], USER_SCOPE, "")
    context = ServerContext(Path(), os.environ, keys=lambda: _keys(paths).store)
    with suppress(ServerError):
        credentials = context.credentials_of(spec, spec.expanded(os.environ))
        if credentials is not None and credentials.is_stored:
            credentials.remove()
            write_stdout(f"the login of {name} is deleted\n")


def _keys(paths: ConfigPaths) -> Keys:
    return Keys(os.environ, partial(key_store, paths.state_dir, os.environ, timeout_s=ATTENDED_TIMEOUT_S))


def _list(options: Options, *, is_json: bool) -> int:
    """Print the tool servers. If the configuration is invalid, print those of other files and return its exit code."""
    problem: ConfigError | None = None
    try:
        settings = _settings(options)
    except ConfigError as error:
        settings = Settings()
        problem = error
    specs, pins, context = _servers(options, settings)
    if is_json:
        write_stdout(json.dumps([_row_json(spec, pins, context) for spec in specs]) + "\n")
    elif specs or problem is None:
        rows = "".join(f"{line}\n" for line in _rows(specs, pins, context))
        write_stdout(rows or "no tool servers are configured\n")
    if problem is None:
        return ExitCode.OK
    write_stderr(f"{problem}; no server of the configuration is listed")
    return problem.exit_code


def _settings(options: Options) -> Settings:
    root = find_project_root(working_folder(options.cwd))
    paths = ConfigPaths.from_env(os.environ)
    return load(paths, os.environ, {}, root, _is_trusted(options, root, paths))


def _is_trusted(options: Options, root: Path, paths: ConfigPaths) -> bool:
    return options.trust or TrustStore(paths.state_dir).is_trusted(root)


def _servers(options: Options, settings: Settings) -> tuple[tuple[ServerSpec, ...], Pins, ServerContext]:
    """Return the servers, their approvals, and their context; report problems and an untrusted project on stderr."""
    folder = working_folder(options.cwd)
    root = find_project_root(folder)
    paths = ConfigPaths.from_env(os.environ)
    is_trusted = _is_trusted(options, root, paths)
    configured = configured_servers(settings, options.mcp_config, root, reads_project_file=is_trusted)
    for problem in configured.problems:
        write_stderr(problem)
    if not is_trusted and (exists_or_unknown(root / MCP_FILE) or exists_or_unknown(project_file(root))):
        write_stderr(untrusted_text("the servers of the project are not listed and never start"))
    keys = _keys(paths)
    context = ServerContext(folder, os.environ, roots=(root,), keys=lambda: keys.store)
    return configured.specs, Pins(paths.state_dir), context


def _files(spec: ServerSpec, context: ServerContext) -> Mapping[str, TrustedFile]:
    """Return the files that a server would start; empty if its configuration cannot be expanded."""
    try:
        return context.files_of(spec)
    except ServerError:
        return {}


def _rows(specs: Sequence[ServerSpec], pins: Pins, context: ServerContext) -> list[str]:
    width = max((len(spec.name) for spec in specs), default=0)
    states = {spec.name: f"{_state(spec, pins, _files(spec, context))}{_login_note(spec, context)}" for spec in specs}
    return [
        f"{spec.name:<{width}}  {states[spec.name]}  {visible(spec.target)}  ({visible(with_tilde(str(spec.origin)))})"
        for spec in specs
    ]


def _row_json(spec: ServerSpec, pins: Pins, context: ServerContext) -> JsonObject:
    return {
        "name": spec.name,
        "state": _state(spec, pins, _files(spec, context)),
        "what": spec.target,
        "origin": str(spec.origin),
        "is_from_project": spec.is_from_project,
    }


def _state(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> str:
    if not spec.config.enabled:
        return "off"
    if not pins.is_approved(spec, files):
        return "not approved"
    pending = pins.pending(spec)
    if pending:
        return f"{len(pending)} changed tools not approved"
    tools = pins.tools(spec)
    return "never started" if tools is None else f"{len(tools)} tools"


def _login_note(spec: ServerSpec, context: ServerContext) -> str:
    """Return `, signed in` if there is a login of the server, otherwise an empty string. No keyring is opened."""
    try:
        credentials = context.credentials_of(spec, spec.expanded(context.env))
        return ", signed in" if credentials is not None and credentials.is_stored else ""
    except (ServerError, QcodeError):
        return ""


def _find_spec(specs: Sequence[ServerSpec], name: str) -> ServerSpec:
    names = {spec.name: spec for spec in specs}
    if name not in names:
        hint = suggestion(name, names, "run qcode mcp list to see them")
        raise UsageError(f'unknown tool server "{single_spaced(name)}"; {hint}')
    return names[name]


def _detail(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile], login_note: str) -> str:
    """Return all details of a server, with invisible characters made visible."""
    paragraphs = [start_text(spec, pins, files), f"state:    {_state(spec, pins, files)}{login_note}"]
    tools = pins.tools(spec)
    if tools:
        paragraphs.append("approved tools:\n" + "\n".join(f"  {visible(name)}" for name in tools))
    paragraphs += [change.diff() for change in pins.pending(spec)]
    return "\n\n".join(paragraphs)


def _approve(spec: ServerSpec, pins: Pins, files: Mapping[str, TrustedFile]) -> int:
    """Approve a server, or the changed tools of an approved server; raise `QcodeError` if that cannot be saved."""
    try:
        if not pins.is_approved(spec, files):
            pins.approve(spec, files)
            write_stdout(f"\napproved: {spec.name} may be started as shown above\n")
            return 0
        changes = pins.pending(spec)
        if changes:
            pins.accept(spec, changes)
            write_stdout(f"\napproved: these tools of {spec.name} are available as shown above\n")
        else:
            write_stdout(f"\nnothing in {spec.name} needs approval\n")
    except OSError as error:
        raise QcodeError(f"cannot save the approval: {pins.path}: {error.strerror}") from None
    return 0


def _change_login(action: str, spec: ServerSpec, pins: Pins, context: ServerContext, flags: Mapping[str, Any]) -> int:
    """Sign in or out and return 0; raise `QcodeError`."""
    try:
        config = spec.expanded(context.env)
    except ServerError as error:
        raise UsageError(f"{spec.name}: {error}") from None
    if config.url is None:
        raise UsageError(f"{spec.name} is a program; only a server with a URL has a login")
    if not supports_login(config):
        raise UsageError(f"{spec.name} has an Authorization header in its configuration, which is used instead")
    if not pins.is_approved(spec):
        raise UsageError(f"{spec.name} is not approved yet; run qcode mcp approve {spec.name}")
    credentials = context.credentials_of(spec, config)
    assert credentials is not None
    if action == "logout":
        return _sign_out(spec, credentials)
    try:
        return asyncio.run(_sign_in(spec, config, credentials, flags))
    except (InputEnded, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except ServerError as error:
        raise QcodeError(f"{spec.name}: {error}", ExitCode.NO_CREDENTIAL) from None


async def _sign_in(spec: ServerSpec, config: McpServer, credentials: Credentials, flags: Mapping[str, Any]) -> int:
    client_id = flags.get("client_id") or config.client_id or ""
    secret = _client_secret() if client_id else ""
    client = ClientRegistration(client_id, secret, flags.get("callback_port") or 0)
    problem = "--no-browser" if flags.get("no_browser") else browser_problem(os.environ)

    async def show(address: str) -> None:
        write_stdout(f"Sign in to {spec.name} at this address:\n\n  {visible(address)}\n\n")
        if problem:
            write_stdout("Then paste the address that the browser shows in the end (http://localhost:...):\n")
            return
        write_stdout("It opens in your browser. Waiting for the answer, Ctrl+C cancels.\n")
        await asyncio.to_thread(open_browser, address)

    paste: Paste | None = _read_pasted_line if problem else None
    signed_in = await sign_in(config, credentials, show, paste, client)
    location = with_tilde(signed_in.stored.location_name)
    issuer = visible(signed_in.login.issuer)
    write_stdout(f"Signed in to {spec.name} at {issuer}. The login is stored in {location}.\n")
    return 0


async def _read_pasted_line() -> str:
    """Return the next line of the input; raise `InputEnded` at its end. The reading thread does not delay the exit."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def settle(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        loop.call_soon_threadsafe(settle, sys.stdin.readline())

    threading.Thread(target=read, name="qcode-paste", daemon=True).start()
    typed = await line
    if not typed:
        raise InputEnded
    return typed


def _client_secret() -> str:
    """Return the secret of a registered client: from its variable, or typed without echo; empty for a public client."""
    secret = os.environ.get("MCP_CLIENT_SECRET", "").strip()
    if secret or not (os.isatty(0) and os.isatty(1)):
        return secret
    return ask_hidden("Client secret (empty if there is none; it stays hidden): ").strip()


def _sign_out(spec: ServerSpec, credentials: Credentials) -> int:
    if credentials.load() is None:
        write_stdout(f"no login of {spec.name} is stored\n")
        return 0
    problem = asyncio.run(sign_out(credentials))
    revoked = "and its tokens are revoked"
    if problem:
        revoked = f"but its tokens were not revoked: {visible(problem)}"
    write_stdout(f"the login of {spec.name} is deleted, {revoked}\n")
    return 0
