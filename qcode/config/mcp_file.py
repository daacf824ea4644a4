"""Tool servers from a file of their own: `.mcp.json` of a project, or what `--mcp-config` names.

JSON as other programs write it, `{"mcpServers": {NAME: {...}}}`, or TOML with `[mcp_servers.NAME]`. In JSON keys that
are not ours are passed over: such a file belongs to other programs as well, and none of its keys grants anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from qcode.config.errors import ConfigError
from qcode.config.kinds import SERVER_NAME_WORDS, is_server_name, type_words
from qcode.config.layers import KeyPath, Layer, Value, checked, file_layer, read_toml_text
from qcode.config.load import servers_of
from qcode.config.schema import find_key
from qcode.config.settings import McpServer, Origin

PROJECT_FILE = ".mcp.json"

_STDIO = ("stdio",)
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_MOST_SERVERS = 100


def read_mcp_file(file: Path, *, is_project: bool) -> dict[str, McpServer]:
    """Return the servers a file names, by name; none where a project has no such file.

    Raise `ConfigError` with one line for a file or an entry that cannot be used; it never repeats a value.
    """
    if file.suffix == ".toml" and not is_project:
        layer = file_layer(file, "extra")
        other = next((path for path in layer.values if path[0] != "mcp_servers"), None)
        if other is not None:
            raise ConfigError(f"holds {other[0]}; only [mcp_servers.NAME] can be here", file=file)
    else:
        text = read_toml_text(file, is_needed=not is_project)
        layer = _json_layer(file, text, is_project) if text is not None else Layer()
    return {name: replace(server, file=str(file)) for name, server in servers_of(layer).items()}


def _json_layer(file: Path, text: str, is_project: bool) -> Layer:
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError("not valid JSON", file=file, line=line) from None
    servers = found.get("mcpServers") if isinstance(found, dict) else None
    if not isinstance(servers, dict) or len(servers) > _MOST_SERVERS:
        raise ConfigError(f'must be {{"mcpServers": {{NAME: ...}}}} with at most {_MOST_SERVERS} servers', file=file)
    layer = Layer()
    for name, entry in servers.items():
        origin = Origin("file", str(file), is_project)
        if not is_server_name(name):
            raise ConfigError(f"{_quoted(name)} is no name here: {SERVER_NAME_WORDS}", file=file)
        if not isinstance(entry, dict):
            raise ConfigError(f"the server {name} must be an object, not {type_words(entry)}", file=file)
        layer.tables["mcp_servers", name] = origin
        for path, value in _values(file, name, entry):
            layer.values[path] = Value(value, origin)
    return layer


def _values(file: Path, name: str, entry: Mapping[str, object]) -> Iterator[tuple[KeyPath, object]]:
    """Yield what an entry says in the words of our keys."""
    kind = entry.get("type")
    if kind is not None and kind not in (*_STDIO, *_HTTP):
        raise ConfigError(f"the server {name} has a type that is neither stdio nor http", file=file)
    if (kind in _STDIO and "url" in entry) or (kind in _HTTP and "command" in entry):
        raise ConfigError(f"the type of the server {name} does not fit what it is", file=file)
    given = {key: value for key, value in entry.items() if value not in (None, [], {})}
    if entry.get("disabled") is True:
        given["enabled"] = False
    for key, value in given.items():
        if key in ("env", "headers"):
            if not isinstance(value, dict):
                raise ConfigError(f"{key} of the server {name} must be an object", file=file)
            for inner, text in value.items():
                place = ("mcp_servers", name, key, inner)
                yield place, _checked(file, place, text)
        elif find_key(("mcp_servers", name, key)) is not None:
            path = ("mcp_servers", name, key)
            yield path, _checked(file, path, value)


def _checked(file: Path, path: KeyPath, value: object) -> object:
    key = find_key(path)
    assert key is not None
    try:
        return checked(key, path, value)
    except ConfigError as error:
        raise ConfigError(str(error), file=file) from None


def _quoted(name: str) -> str:
    return ascii(name) if len(name) <= 60 else "an entry"
