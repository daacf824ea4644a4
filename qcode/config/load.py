"""Puts the layers together: flags over environment over project over user; lists of rules are joined.

An output cap in a file beats the environment, and only there. Reads the project's file only where the person trusts
the folder. Touches no key and no network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from qcode.config.environment import cap_layer, environment_layer
from qcode.config.errors import ConfigError
from qcode.config.layers import KeyPath, Layer, Value, file_layer, flag_layer
from qcode.config.paths import ConfigPaths, project_file
from qcode.config.schema import dotted, find_key, leaves
from qcode.config.settings import (
    PROVIDER_TYPES,
    McpServer,
    ModelSettings,
    Network,
    Origin,
    Output,
    Permissions,
    ProviderSettings,
    Sessions,
    Settings,
    Tools,
    Ui,
)
from qcode.protocol.usage import Price

_T = TypeVar("_T", Output, Network)


def load(
    paths: ConfigPaths,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    project_root: Path,
    is_trusted: bool,
    *,
    settings_file: Path | None = None,
) -> Settings:
    """Return everything that was set, merged.

    `flags` maps dotted names of keys (`output.max_tokens`) to values, None for a flag that was not given.
    `settings_file` is a file named on the command line; it stands above the environment and below single flags.
    Raise `ConfigError` for a file or value that cannot be used: one line that names file, line and the nearest key.
    """
    caps, warnings = cap_layer(env)
    layers = [caps, file_layer(paths.config_file, "user")]
    project = project_file(project_root)
    if not _is_same(project, paths.config_file) and (settings_file is None or not _is_same(project, settings_file)):
        if is_trusted:
            layers.append(file_layer(project, "project"))
        elif project.is_file():
            warnings += (f"{project} is not used: this folder is not trusted",)
    layers.append(environment_layer(env))
    if settings_file is not None:
        layers.append(file_layer(settings_file, "extra"))
    layers.append(flag_layer(flags))
    return _settings(_merged(layers), _tables(layers), warnings)


def _is_same(left: Path, right: Path) -> bool:
    """Say whether two paths lead to one file, so that the user's own is never judged as a project's."""
    try:
        return left.samefile(right)
    except OSError:
        return False


def _merged(layers: Iterable[Layer]) -> dict[KeyPath, Value]:
    merged: dict[KeyPath, Value] = {}
    for layer in layers:
        for path, found in layer.values.items():
            _refuse_takeover(path, found, merged)
            key = find_key(path)
            below = merged.get(path)
            is_joined = key is not None and key.meta.is_joined and below is not None
            merged[path] = _joined(below, found) if is_joined and below is not None else found
    return merged


def _refuse_takeover(path: KeyPath, found: Value, below: Mapping[KeyPath, Value]) -> None:
    """A project must not slip its own command under the name, environment or approval of a person's server."""
    if path[0] != "mcp_servers" or not found.origin.is_project:
        return
    if any(other[:2] == path[:2] and not value.origin.is_project for other, value in below.items()):
        raise ConfigError(f"{found.origin}: {dotted(path[:2])} is already in your own configuration; rename this one")


def _joined(below: Value, above: Value) -> Value:
    assert isinstance(below.value, tuple)
    assert isinstance(above.value, tuple)
    items: dict[object, Origin] = {}
    for item, origin in zip((*below.value, *above.value), (*below.items, *above.items), strict=True):
        items.setdefault(item, origin)
    places = dict.fromkeys((below.origin.where, above.origin.where))
    is_project = below.origin.is_project or above.origin.is_project
    joined = Origin(above.origin.kind, ", ".join(places), is_project)
    return Value(tuple(items), joined, tuple(items.values()))


def _tables(layers: Iterable[Layer]) -> dict[KeyPath, Origin]:
    tables: dict[KeyPath, Origin] = {}
    for layer in layers:
        for path, value in layer.values.items():
            if path[0] in ("providers", "models", "mcp_servers"):
                tables.setdefault(path[:2], value.origin)
        for path, origin in layer.tables.items():
            if path[0] in ("providers", "models", "mcp_servers"):
                tables.setdefault(path, origin)
    return tables


def _settings(merged: Mapping[KeyPath, Value], tables: Mapping[KeyPath, Origin], warnings: tuple[str, ...]) -> Settings:
    values = {path: found.value for path, found in merged.items()}
    origins = {dotted(path): found.origin for path, found in merged.items()}
    given = {dotted(path): value for path, value in values.items()}
    base = Settings(
        **leaves(values),
        output=Output(**leaves(values, "output")),
        network=Network(**leaves(values, "network")),
        permissions=Permissions(**leaves(values, "permissions")),
        tools=Tools(**leaves(values, "tools")),
        ui=Ui(**leaves(values, "ui"), **_texts(values, "ui", "keys")),
        sessions=Sessions(**leaves(values, "sessions")),
        warnings=warnings,
        origins=MappingProxyType(origins),
        item_origins=MappingProxyType({dotted(path): found.items for path, found in merged.items() if found.items}),
        given=MappingProxyType(given),
    )
    names: dict[str, list[str]] = {"providers": [], "models": [], "mcp_servers": []}
    for family, name in tables:
        names[family].append(name)
    return replace(
        base,
        providers=MappingProxyType({name: _provider(name, values, base, tables) for name in names["providers"]}),
        models=MappingProxyType({name: _model(name, values, base) for name in names["models"]}),
        mcp_servers=MappingProxyType({name: _mcp_server(name, values, tables) for name in names["mcp_servers"]}),
    )


def _provider(
    name: str, values: Mapping[KeyPath, object], base: Settings, tables: Mapping[KeyPath, Origin]
) -> ProviderSettings:
    own = leaves(values, "providers", name)
    network = {one.name: own.pop(one.name) for one in fields(Network) if one.name in own}
    if "type" not in own:
        if name not in PROVIDER_TYPES:
            kinds = ", ".join(f'"{one}"' for one in PROVIDER_TYPES)
            place = dotted(("providers", name))
            raise ConfigError(f"{tables['providers', name]}: {place} needs a type: one of {kinds}")
        own["type"] = name
    headers = _texts(values, "providers", name, "headers")
    return ProviderSettings(**own, **headers, network=replace(base.network, **network))


def _model(name: str, values: Mapping[KeyPath, object], base: Settings) -> ModelSettings:
    facts = leaves(values, "models", name)
    return ModelSettings(**facts, output=_model_output(name, values, base), price=_price(name, values, base))


def _model_output(name: str, values: Mapping[KeyPath, object], base: Settings) -> Output:
    """A flag was given for this run, so it beats what a file says about one model."""
    own = leaves(values, "models", name, "output")
    return replace(
        base.output,
        **{one: value for one, value in own.items() if base.origin(f"output.{one}").kind != "flag"},
    )


def _price(name: str, values: Mapping[KeyPath, object], base: Settings) -> Price | None:
    found = leaves(values, "models", name, "price")
    if not found:
        return None
    missing = next((one for one in ("input", "output") if one not in found), None)
    if missing is not None:
        place = ("models", name, "price")
        origin = base.origin(dotted((*place, next(iter(found)))))
        raise ConfigError(f"{origin}: {dotted(place)} needs {missing} as well, or no cost can be computed")
    return Price(**found)


def servers_of(layer: Layer) -> dict[str, McpServer]:
    """Return the tool servers of one layer; raise `ConfigError` for one that cannot be."""
    values = {path: found.value for path, found in layer.values.items()}
    tables = _tables([layer])
    return {name: _mcp_server(name, values, tables) for family, name in tables if family == "mcp_servers"}


def _mcp_server(name: str, values: Mapping[KeyPath, object], tables: Mapping[KeyPath, Origin]) -> McpServer:
    own = leaves(values, "mcp_servers", name)
    origin, place = tables["mcp_servers", name], dotted(("mcp_servers", name))
    if ("command" in own) == ("url" in own):
        raise ConfigError(f"{origin}: {place} needs a command or a url, and not both")
    env, headers = (_texts(values, "mcp_servers", name, one) for one in ("env", "headers"))
    if headers["headers"] and "url" not in own:
        raise ConfigError(f"{origin}: {place} has headers, which only go to a url")
    if (env["env"] or own.get("args")) and "command" not in own:
        raise ConfigError(f"{origin}: {place} has args or env, which only a command takes")
    return McpServer(**own, **env, **headers, is_from_project=origin.is_project)


def _texts(values: Mapping[KeyPath, object], *prefix: str) -> dict[str, Any]:
    """Return the table under `prefix` as an argument of that name."""
    return {prefix[-1]: MappingProxyType(leaves(values, *prefix))}
