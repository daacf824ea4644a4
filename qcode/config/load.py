"""The loader of the settings: layers of files, environment and flags, merged into one value with each key's origin.

A layer maps the path of a key to its value and origin, validated by the schema. A later layer overrides an earlier one:
the user's file, the project's file, the environment, flags. Lists of rules are joined. Two exceptions: the file of
`--settings` overrides the environment, and an output cap in a file overrides the cap of the environment. The project's
file is read only if the user trusts the folder.
Variables: QCODE_MODEL, OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL, QCODE_MAX_OUTPUT_TOKENS, and
QWEN_CODE_MAX_OUTPUT_TOKENS for users of Qwen Code. Reads no API key and uses no network.
"""

from __future__ import annotations

import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn, TypeAlias

from qcode.config.kinds import SERVER_NAME_RULE, is_server_name, toml_type_name
from qcode.config.paths import ConfigPaths, is_same_file, project_file
from qcode.config.schema import Key, KeyPath, canonical, dotted, find_key, is_table, leaves, nearest_key_hint
from qcode.config.settings import (
    PROVIDER_TYPES,
    AfterEditSettings,
    HookSettings,
    Mcp,
    McpServer,
    ModelSettings,
    Network,
    Origin,
    Output,
    PermissionSettings,
    ProviderSettings,
    Sessions,
    Settings,
    SkillSettings,
    Tools,
    Ui,
)
from qcode.protocol.errors import ConfigError
from qcode.protocol.usage import Price
from qcode.text.numbers import whole_number
from qcode.values import dataclass


def load(
    paths: ConfigPaths,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    project_root: Path,
    is_trusted: bool,
    *,
    further_settings: Path | Mapping[str, object] | None = None,
    user_config: bool = True,
    reads_project: bool = True,
    warnings: tuple[str, ...] = (),
) -> Settings:
    """Return the merged settings.

    `flags` maps dotted names of keys (`output.max_tokens`) to values, None for a flag that was not given.
    `further_settings` is a file named on the command line, or a mapping. It overrides the environment, and single flags
    override it. If `user_config` is false, only `_MODEL_ACCESS_KEYS` are read from the user's file; if
    `reads_project` is false, the project's file is not read. Raise `ConfigError` for an invalid file or value, with one
    line that names the file, the line and the nearest key. `Settings.warnings` begins with `warnings`.
    """
    output_cap, cap_warnings = output_cap_layer(env)
    warnings += cap_warnings
    user_layer = file_layer(paths.config_file, "user")
    layers = [output_cap, user_layer if user_config else user_layer.only(_MODEL_ACCESS_KEYS)]
    project = project_file(project_root)
    user_files = [paths.config_file, *([further_settings] if isinstance(further_settings, Path) else [])]
    # A file of the user must never be treated as a project's: the project's folder may be the home.
    if reads_project and not any(is_same_file(project, file) for file in user_files):
        if is_trusted:
            layers.append(_project_layer(project))
        elif os.path.isfile(project):  # noqa: PTH113  # `pathlib` would raise an error for a folder of another user
            warnings += (f"this folder is not trusted, so {project} is ignored; qcode trust accept trusts it",)
    layers.append(environment_layer(env))
    if isinstance(further_settings, Path):
        layers.append(file_layer(further_settings, "named"))
    elif further_settings is not None:
        layers.append(mapping_layer(further_settings))
    layers.append(flag_layer(flags))
    return _build_settings(_merge_layers(layers), _table_origins(layers), warnings)


def _project_layer(file: Path) -> Layer:
    """Read the file of a project. An error says how to start without it: the repository may belong to others."""
    try:
        return file_layer(file, "project")
    except ConfigError as error:
        raise ConfigError(f"{error}. `--setting-sources user` starts without this file") from None


def _merge_layers(layers: Iterable[Layer]) -> dict[KeyPath, Value]:
    """Return the values of all layers. A later layer overrides an earlier one, except that lists are joined."""
    merged: dict[KeyPath, Value] = {}
    for layer in layers:
        for path, value in layer.values.items():
            _reject_override(path, value, merged)
            key = find_key(path)
            lower = merged.get(path)
            if lower is not None and key is not None and key.meta.is_joined:
                merged[path] = _join_lists(lower, value)
            else:
                merged[path] = value
    return merged


def _reject_override(path: KeyPath, upper: Value, lower: Mapping[KeyPath, Value]) -> None:
    """Raise `ConfigError` if a project changes a server of the user, such as its command, environment or approval."""
    if path[0] != "mcp_servers" or not upper.origin.is_project:
        return
    if any(other[:2] == path[:2] and not value.origin.is_project for other, value in lower.items()):
        raise ConfigError(
            f"{upper.origin}: {dotted(path[:2])} is already defined in your configuration; rename this one"
        )


def _join_lists(lower: Value, upper: Value) -> Value:
    """Return the items of both lists without duplicates; an item in both has the origin of the lower layer."""
    assert isinstance(lower.value, tuple)
    assert isinstance(upper.value, tuple)
    items: dict[object, Origin] = {}
    for item, origin in zip((*lower.value, *upper.value), (*lower.item_origins, *upper.item_origins), strict=True):
        items.setdefault(item, origin)

    def sources() -> str:  # called only if the origin is shown, because it finds the lines of both files
        return ", ".join(dict.fromkeys((lower.origin.where, upper.origin.where)))

    is_project = lower.origin.is_project or upper.origin.is_project
    joined = Origin(upper.origin.kind, sources, is_project)
    return Value(tuple(items), joined, tuple(items.values()))


def _table_origins(layers: Iterable[Layer]) -> dict[KeyPath, Origin]:
    """Return the path of each provider, model and tool server, with the origin of its first key or of its table."""
    tables: dict[KeyPath, Origin] = {}
    for layer in layers:
        for path, value in layer.values.items():
            if path[0] in ("providers", "models", "mcp_servers"):
                tables.setdefault(path[:2], value.origin)
        for path, origin in layer.tables.items():
            if path[0] in ("providers", "models", "mcp_servers"):
                tables.setdefault(path, origin)
    return tables


def _build_settings(
    merged: Mapping[KeyPath, Value], tables: Mapping[KeyPath, Origin], warnings: tuple[str, ...]
) -> Settings:
    """Return the settings for merged values. `tables` has the origins of all providers, models and tool servers."""
    values = {path: setting.value for path, setting in merged.items()}
    origins = {dotted(path): setting.origin for path, setting in merged.items()}
    explicit_values = {dotted(path): value for path, value in values.items()}
    base = Settings(
        **leaves(values),
        output=Output(**leaves(values, "output")),
        network=Network(**leaves(values, "network")),
        mcp=Mcp(**leaves(values, "mcp")),
        permissions=PermissionSettings(**leaves(values, "permissions")),
        tools=Tools(**leaves(values, "tools")),
        ui=Ui(**leaves(values, "ui"), **_string_table(values, "ui", "keys")),
        sessions=Sessions(**leaves(values, "sessions")),
        hooks=HookSettings(**leaves(values, "hooks")),
        after_edit=AfterEditSettings(**leaves(values, "after_edit"), **_string_table(values, "after_edit", "servers")),
        skills=SkillSettings(**leaves(values, "skills")),
        warnings=warnings,
        origins=MappingProxyType(origins),
        item_origins=MappingProxyType(
            {dotted(path): setting.item_origins for path, setting in merged.items() if setting.item_origins}
        ),
        explicit_values=MappingProxyType(explicit_values),
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
    """Return the settings of a provider; raise `ConfigError` if its type is missing or does not fit its keys."""
    table_values = leaves(values, "providers", name)
    network = {member.name: table_values.pop(member.name) for member in fields(Network) if member.name in table_values}
    if "type" not in table_values:
        if name not in PROVIDER_TYPES:
            kinds = ", ".join(f'"{kind}"' for kind in PROVIDER_TYPES)
            prefix = dotted(("providers", name))
            raise ConfigError(f"{tables['providers', name]}: {prefix} needs a type: one of {kinds}")
        table_values["type"] = name
    vertex_key = next((key for key in ("project", "location") if key in table_values), None)
    if vertex_key is not None and table_values["type"] not in ("gemini", "anthropic"):
        prefix = dotted(("providers", name))
        requirement = 'its type must be "gemini" or "anthropic"'
        raise ConfigError(f"{tables['providers', name]}: {prefix} has {vertex_key}, so {requirement}")
    headers = _string_table(values, "providers", name, "headers")
    return ProviderSettings(**table_values, **headers, network=replace(base.network, **network))


def _model(name: str, values: Mapping[KeyPath, object], base: Settings) -> ModelSettings:
    table_values = leaves(values, "models", name)
    return ModelSettings(**table_values, output=_model_output(name, values, base), price=_price(name, values, base))


def _model_output(name: str, values: Mapping[KeyPath, object], base: Settings) -> Output:
    """Return the output settings of one model; a flag overrides the settings of the model."""
    table_values = leaves(values, "models", name, "output")
    return replace(
        base.output,
        **{key: value for key, value in table_values.items() if base.origin(f"output.{key}").kind != "flag"},
    )


def _price(name: str, values: Mapping[KeyPath, object], base: Settings) -> Price | None:
    """Return the price of a model, None if it has none; raise `ConfigError` for an incomplete price."""
    rates = leaves(values, "models", name, "price")
    if not rates:
        return None
    missing = next((key for key in ("input", "output") if key not in rates), None)
    if missing is not None:
        path = ("models", name, "price")
        first_rate = next(iter(rates))
        origin = base.origin(dotted((*path, first_rate)))
        raise ConfigError(f"{origin}: {dotted(path)} also needs {missing}, or no cost can be computed")
    return Price(**rates)


def layer_servers(layer: Layer) -> dict[str, McpServer]:
    """Return the tool servers of one layer. Raise `ConfigError` for an invalid server."""
    values = {path: value.value for path, value in layer.values.items()}
    tables = _table_origins([layer])
    return {name: _mcp_server(name, values, tables) for family, name in tables if family == "mcp_servers"}


def _mcp_server(name: str, values: Mapping[KeyPath, object], tables: Mapping[KeyPath, Origin]) -> McpServer:
    """Return a tool server; raise `ConfigError` for keys that contradict each other."""
    table_values = leaves(values, "mcp_servers", name)
    origin, prefix = tables["mcp_servers", name], dotted(("mcp_servers", name))
    if ("command" in table_values) == ("url" in table_values):
        raise ConfigError(f"{origin}: {prefix} needs either a command or a url")
    env, headers = (_string_table(values, "mcp_servers", name, key) for key in ("env", "headers"))
    if headers["headers"] and "url" not in table_values:
        raise ConfigError(f"{origin}: {prefix} has headers, which require a url")
    if table_values.get("transport") and "url" not in table_values:
        raise ConfigError(f"{origin}: {prefix} has transport, which requires a url")
    if (env["env"] or table_values.get("args")) and "command" not in table_values:
        raise ConfigError(f"{origin}: {prefix} has args or env, which require a command")
    return McpServer(**table_values, **env, **headers, is_from_project=origin.is_project)


def _string_table(values: Mapping[KeyPath, object], *prefix: str) -> dict[str, Any]:
    """Return the table at `prefix` as a keyword argument: `{"env": {"A": "1"}}` for `("mcp_servers", "git", "env")`."""
    return {prefix[-1]: MappingProxyType(leaves(values, *prefix))}


Scope: TypeAlias = Literal["user", "project", "named"]
"""The file of the user, of a project, or one named on the command line."""

_MAX_BYTES = 1 << 20
_OPTIONS_SOURCE = "Options(settings=...)"
"""Shown in errors and origins instead of a file name, for settings that a program passes."""
_MODEL_ACCESS_KEYS = frozenset(
    {"model", "small_model", "fallback", "fallback_on", "providers", "models", "network", "output"}
)
"""The keys read from the user's file even if `user_config` is false: access to models, and their output limits."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its origin."""

    value: object
    origin: Origin
    item_origins: tuple[Origin, ...] = ()
    """The origins of the items of a joined list, in order."""


@dataclass(slots=True)
class Layer:
    """One source of settings."""

    values: dict[KeyPath, Value] = field(default_factory=dict)
    tables: dict[KeyPath, Origin] = field(default_factory=dict)
    """The origins of the tables of providers, models and tool servers by path, including empty tables."""

    def only(self, names: frozenset[str]) -> Layer:
        """Return the part of the layer under these top-level keys."""
        values = {path: value for path, value in self.values.items() if path[0] in names}
        return Layer(values, {path: origin for path, origin in self.tables.items() if path[0] in names})


def file_layer(file: Path, scope: Scope) -> Layer:
    """Read a TOML file. A missing file is an empty layer, unless the user named it (`named`).

    Raise `ConfigError` with file and line for an unknown key, an invalid value, or a key that a project may not set.
    """
    text = read_config_text(file, must_exist=scope == "named")
    if text is None:
        return Layer()
    return _LayerReader(file, scope, parse_toml(text, file), text).layer()


def parse_settings(text: str, file: Path, scope: Scope) -> Settings:
    """Return the settings of one file that contains `text`, without other layers; raise `ConfigError` with the line."""
    layer = _LayerReader(file, scope, parse_toml(text, file), text).layer()
    return _build_settings(_merge_layers([layer]), _table_origins([layer]), ())


class PipedSettings(dict[str, object]):
    """Settings from a pipe such as `--settings <(...)`, which can be read only once."""

    def __init__(self, text: str, file: Path) -> None:
        super().__init__(parse_toml(text, file))
        self.text = text
        """The text of the pipe, which error messages need to find lines."""
        self.file = file
        """The name of the pipe, for error messages."""


def mapping_layer(settings: Mapping[str, object]) -> Layer:
    """Return the layer of settings that a program passes as nested mappings; raise `ConfigError` as for a file."""
    if isinstance(settings, PipedSettings):
        return _LayerReader(settings.file, "named", settings, settings.text).layer()
    return _LayerReader(Path(_OPTIONS_SOURCE), "named", settings).layer()


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """Return the layer of flags; raise `ConfigError`. `flags` is as in `load`."""
    layer = Layer()
    for name, value in flags.items():
        if value is None:
            continue
        path = tuple(name.split("."))
        if find_key(path) is None:
            from qcode.config.lines import parse_key

            path = parse_key(name)  # the name may have a quoted part: models."openai/gpt-5.1".images
        path = canonical(path)
        key = find_key(path)
        if key is None:
            raise ConfigError(f"unknown key {name}; {nearest_key_hint(path)}")
        origin = Origin("flag", key.meta.flag or f"--{path[-1].replace('_', '-')}")
        converted = convert_value(key, path, value, origin.where)
        items = (origin,) * len(converted) if key.meta.is_joined and isinstance(converted, tuple) else ()
        layer.values[path] = Value(converted, origin, items)
    return layer


def convert_value(key: Key, path: KeyPath, value: object, subject: str = "") -> object:
    """Validate the `value` of a key and convert it. Raise `ConfigError` with the expected kind.

    The message starts with `subject`, by default the name of the key. It repeats only a number, never a string, which
    may be a secret.
    """
    try:
        return key.kind.convert(value)
    except ValueError:
        pass
    type_name = toml_type_name(value)
    hint = f", not {type_name}"
    if key.kind.choices and isinstance(value, str):
        from qcode.text.match import suggestion

        nearest = suggestion(value, key.kind.choices, label='"{}"')
        hint = f"; {nearest}" if nearest else ""
    elif "number" in key.kind.expected and type_name == "a number":
        hint = f", not {value}"
    elif key.kind.expected == "a string" and type_name == "a string":
        hint = " on one line without control characters"
    elif _accepts_type(key, type_name):  # only the content is invalid
        hint = ""
    raise ConfigError(f"{subject or dotted(path)} must be {key.kind.expected}{hint}")


def _accepts_type(key: Key, type_name: str) -> bool:
    """Return whether some values of this type are valid: their kind is a string, or its description names the type."""
    if type_name == "a string" and key.kind.schema.get("type") == "string":  # "a URL that starts with http://"
        return True
    return re.search(rf"\b{type_name.removeprefix('a ')}\b", key.kind.expected) is not None


class _LayerReader:
    """A reader of the parsed content of a file, or of a mapping; a mapping has no `text` and no lines."""

    def __init__(self, file: Path, scope: Scope, content: Mapping[str, object], text: str | None = None) -> None:
        self._file = file
        self._scope = scope
        self._content = content
        self._text = text
        self._lines: dict[KeyPath, int] | None = None

    def layer(self) -> Layer:
        layer = Layer()
        for path, value in self._walk(self._content, (), layer):
            key_path = canonical(path)
            if key_path in layer.values:
                self._fail(path, f"{dotted(key_path)} is set twice, directly and in a network table; keep one")
            layer.values[key_path] = Value(value, self._origin(path), self._item_origins(path, value))
        return layer

    def _walk(self, table: Mapping[str, object], prefix: KeyPath, layer: Layer) -> Iterator[tuple[KeyPath, object]]:
        """Yield each key below `prefix` with its converted value, and add tables to `layer`; raise `ConfigError`."""
        for name, value in table.items():
            if not isinstance(name, str):  # possible only in a mapping that a program passed
                self._fail(prefix, f"a key must be a string, not {toml_type_name(name)}")
            path = (*prefix, name)
            key = find_key(canonical(path))
            if key is not None:
                yield path, self._accept_value(key, path, value)
            elif not is_table(path):
                self._fail(path, f"unknown key {dotted(path)}; {nearest_key_hint(path)}")
            elif isinstance(value, Mapping):
                yield from self._walk(value, path, layer)
                if len(path) == 2:
                    layer.tables[path] = self._origin(path)
                    self._check_name(path)
            else:
                self._fail(path, f"{dotted(path)} must be a table, not {toml_type_name(value)}")

    def _accept_value(self, key: Key, path: KeyPath, value: object) -> object:
        """Return the converted value; raise `ConfigError` if it is invalid or not allowed in this file."""
        if self._scope == "project" and not key.meta.is_project_allowed:
            self._fail(path, f"a project may not set {dotted(path)}; set it in your own configuration")
        try:
            converted = convert_value(key, path, value)
        except ConfigError as error:
            self._fail(path, str(error))
        if refusal := key.refusal(converted):
            self._fail(path, refusal)
        if self._scope == "project":
            self._check_project_value(path, converted)
        return converted

    def _check_project_value(self, path: KeyPath, value: object) -> None:
        """Raise `ConfigError` for a value that only the user may set, of a key that a project may set."""
        if path[0] == "hooks" and isinstance(value, tuple):
            for refused in ("may_allow", "env"):
                if any(getattr(hook, refused) for hook in value):
                    self._fail(path, f"a project may not set {refused} of a hook; set it in your own configuration")
        if path == ("after_edit", "diagnostics") and value is not False:
            self._fail(path, "a project may only set after_edit.diagnostics to false; set it in your own configuration")
        if path == ("tools", "sandbox") and value != "required":
            self._fail(path, 'a project may only set tools.sandbox to "required"; set it in your own configuration')

    def _check_name(self, path: KeyPath) -> None:
        """Raise `ConfigError` for an invalid name of a table, and for a provider in a project's file."""
        family, name = path
        if family == "providers" and self._scope == "project":
            self._fail(path, f"a project may not set {dotted(path)}; set it in your own configuration")
        if family == "providers" and (not name.strip() or "/" in name):
            self._fail(path, f"{dotted(path)}: the name of a provider must not be empty or contain a slash")
        provider, _, model = name.partition("/")
        if family == "models" and not (provider.strip() and model.strip()):
            self._fail(path, f'{dotted(path)}: name a model with its provider: [models."PROVIDER/MODEL"]')
        if family == "mcp_servers" and not is_server_name(name):
            self._fail(path, f"{dotted(path)}: {SERVER_NAME_RULE}")

    def _origin(self, path: KeyPath) -> Origin:
        source = str(self._file) if self._text is None else partial(self._location_of, path)
        return Origin("file", source, self._scope == "project")

    def _location_of(self, path: KeyPath) -> str:
        return f"{self._file}:{self._line(path)}"

    def _item_origins(self, path: KeyPath, value: object) -> tuple[Origin, ...]:
        """Return the origin of each item of a list that is joined; empty for any other value."""
        key = find_key(canonical(path))
        if key is None or not key.meta.is_joined or not isinstance(value, tuple):
            return ()
        if self._text is None:
            return (self._origin(path),) * len(value)
        is_project = self._scope == "project"
        return tuple(
            Origin("file", partial(self._location_of_item, path, index), is_project) for index in range(len(value))
        )

    def _location_of_item(self, path: KeyPath, index: int) -> str:
        from qcode.config.lines import find_item_lines

        assert self._text is not None
        return f"{self._file}:{find_item_lines(self._text)[path][index]}"

    def _line(self, path: KeyPath) -> int | None:
        """Return the line of a key, or of the nearest table above it; None if there is no text."""
        if self._text is None:
            return None
        if self._lines is None:
            from qcode.config.lines import find_lines

            self._lines = find_lines(self._text)
        for size in range(len(path), 0, -1):
            if path[:size] in self._lines:
                return self._lines[path[:size]]
        return 1

    def _fail(self, path: KeyPath, message: str) -> NoReturn:
        raise ConfigError(message, file=self._file, line=self._line(path))


def read_config_text(file: Path, *, must_exist: bool) -> str | None:
    """Return the text of a regular file (TOML or JSON), without a byte order mark; None if there is no file.

    With `must_exist`, a missing file is an error. Raise `ConfigError`.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if not must_exist and isinstance(error, FileNotFoundError | NotADirectoryError):
            return None
        raise ConfigError(f"cannot read the file: {error.strerror}", file=file) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConfigError("is not a regular file", file=file)
    with os.fdopen(descriptor, "rb") as stream:
        if status.st_size > _MAX_BYTES:
            raise ConfigError("is larger than 1 MiB", file=file)
        data = stream.read(_MAX_BYTES + 1).removeprefix(BOM_UTF8)  # the codec `utf-8-sig` loads another module
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", file=file, line=line) from None


def parse_toml(text: str, file: Path) -> dict[str, Any]:
    """Parse a TOML text. Raise `ConfigError` with the line of a syntax error."""
    import tomllib

    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        problem, line = _syntax_error(str(error), text)
        raise ConfigError(f"not valid TOML: {problem}", file=file, line=line) from None
    except (ValueError, ArithmeticError, RecursionError):
        raise ConfigError("not valid TOML: a number is out of range, or the nesting is too deep", file=file) from None


def _syntax_error(message: str, text: str) -> tuple[str, int]:
    """Split the parser's message, such as `Invalid value (at line 3, column 5)`, into the error and its line."""
    problem, _, location = message.rpartition(" (at ")
    if location.startswith("line "):
        line, _, _ = location.removeprefix("line ").partition(",")
        return problem, int(line)
    return problem or message, len(text.rstrip().split("\n"))  # `(at end of document)`


OUTPUT_CAP_VARIABLES = ("QCODE_MAX_OUTPUT_TOKENS", "QWEN_CODE_MAX_OUTPUT_TOKENS")

_VARIABLES: tuple[tuple[str, KeyPath], ...] = (
    ("QCODE_MODEL", ("model",)),
    ("OPENAI_BASE_URL", ("providers", "openai", "base_url")),
    ("OPENAI_BASE_URL", ("providers", "openai-responses", "base_url")),
    ("ANTHROPIC_BASE_URL", ("providers", "anthropic", "base_url")),
    ("GOOGLE_GEMINI_BASE_URL", ("providers", "gemini", "base_url")),
)


def environment_layer(env: Mapping[str, str]) -> Layer:
    """Return the settings from the environment that override files. A blank variable counts as not set."""
    layer = Layer()
    for variable, path in _VARIABLES:
        text = env.get(variable, "").strip()
        key = find_key(path)
        if text and key is not None:
            layer.values[path] = Value(convert_value(key, path, text, variable), Origin("env", variable))
    return layer


def output_cap_layer(env: Mapping[str, str]) -> tuple[Layer, tuple[str, ...]]:
    """Return the output cap from the environment, which files override, and warnings about invalid values.

    Only a positive integer in plain digits is valid. A blank variable is skipped silently, an invalid one with a
    warning; then the next variable is tried.
    """
    layer = Layer()
    warnings = []
    for variable in OUTPUT_CAP_VARIABLES:
        text = env.get(variable, "").strip()
        if not text:
            continue
        if cap := whole_number(text):
            layer.values[("output", "max_tokens")] = Value(cap, Origin("env", variable))
            break
        warnings.append(f"{variable} is not a positive whole number and is ignored")
    return layer, tuple(warnings)
