"""The loader of commands, sub-agents and tool servers that files define. An invalid file is reported in one line.

`commands/git/commit.toml` defines `/git:commit`, `agents/reviewer.toml` the sub-agent `reviewer`. A project's
`.mcp.json` and the files of `--mcp-config` define servers: in JSON as other programs use it, with unknown keys ignored,
or in TOML. Files of a project are read only if its folder is trusted. None of these files grants a permission, and
nothing is run here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from qcode.config.kinds import SERVER_NAME_RULE, is_server_name, toml_type_name
from qcode.config.load import Layer, Value, convert_value, file_layer, layer_servers, read_config_text
from qcode.config.paths import AGENTS_FOLDER, COMMANDS_FOLDER, PROJECT_FOLDER, is_same_file, with_tilde
from qcode.config.schema import KeyPath, find_key
from qcode.config.settings import McpServer, Origin
from qcode.protocol.errors import ConfigError
from qcode.protocol.tools import SAME_MODEL, SMALL_MODEL
from qcode.text.match import nearest_hint
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

ARGS = "{{args}}"
"""The placeholder for the arguments in the prompt of a command."""

COMMAND_FIELDS: Mapping[str, str] = {
    "prompt": "required: the prompt to send; each `{{args}}` is replaced by the text that you type after the name",
    "description": "the line that the menu and `/help` show",
    "argument": "a hint for the text after the name, shown while you type it",
    "model": "the PROVIDER/MODEL that answers this command; default: the current model",
    "output": "a table with the keys of `[output]` in `config.toml`; it applies to this command only",
}
"""The keys of a command in TOML, with their meaning for the reference."""
_NAME = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]*")
_NAME_RULE = "a name starts with a letter and has only letters, digits, - and _"
_INVOCATION = lazy_pattern(r"/([A-Za-z][\w:-]*)(?:\s+(.*))?", re.DOTALL)
_MAX_FILES = 500
_MAX_DEPTH = 4
"""The maximum number of levels of subfolders."""
_MAX_HINT_CHARS = 40

_ErrorAt: TypeAlias = "Callable[[tuple[str, ...], str], ConfigError]"
"""Takes the path of a key and a message; returns an error that names the file, the line of the key and the message."""


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a file."""

    name: str
    prompt: str
    file: Path
    description: str = ""
    argument: str = ""
    """A hint for the text after the name."""
    model: str = ""
    """The `provider/model` that answers, empty for the current model."""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides keys of `[output]` for the turn of the command only."""
    is_from_project: bool = False

    def expand(self, arguments: str) -> str:
        """Return the prompt with the arguments in place of each `{{args}}`, or at its end if it has no `{{args}}`."""
        arguments = arguments.strip()
        if ARGS in self.prompt:
            return self.prompt.replace(ARGS, arguments)
        return f"{self.prompt.rstrip()}\n\n{arguments}" if arguments else self.prompt

    def project_ranges(self, arguments: str) -> tuple[tuple[int, int], ...]:
        """Return the ranges of `expand(arguments)` that come from a file of the project."""
        if not self.is_from_project:
            return ()
        typed_chars = len(arguments.strip())
        if ARGS not in self.prompt:
            return ((0, len(self.expand(arguments)) - typed_chars),)
        ranges, start = [], 0
        for part in self.prompt.split(ARGS):
            ranges.append((start, start + len(part)))
            start += len(part) + typed_chars
        return tuple((start, end) for start, end in ranges if start < end)


@dataclass(frozen=True, slots=True)
class CustomCommands:
    """The commands from files."""

    commands: tuple[CustomCommand, ...] = ()
    problems: tuple[str, ...] = ()
    """Lines for the user, each naming its file."""

    def match_command(self, text: str) -> tuple[CustomCommand, str] | None:
        """Return the command that `text` invokes and its arguments, None if it invokes none. Case is ignored."""
        match = _INVOCATION.fullmatch(text.strip())
        if match is None:
            return None
        name = match[1].lower()
        command = next((candidate for candidate in self.commands if candidate.name.lower() == name), None)
        return None if command is None else (command, match[2] or "")


def load_custom_commands(
    config_dir: Path | None, project_root: Path, *, reads_project: bool, used_names: Sequence[str] = ()
) -> CustomCommands:
    """Load the commands of the user, unless `config_dir` is None, and those of the project if `reads_project`.

    If names collide, the user's command takes precedence over the project's. A name in `used_names` (a command of the
    app) takes precedence over both. Case does not matter. Each command that is ignored is reported as a problem, which
    begins with the path of its file.
    """
    commands: dict[str, CustomCommand] = {}
    problems: list[str] = []
    folders = [] if config_dir is None else [(config_dir / COMMANDS_FOLDER, False)]
    project = project_root / PROJECT_FOLDER / COMMANDS_FOLDER
    if reads_project and not (folders and is_same_file(project, folders[0][0])):
        folders.append((project, True))
    for folder, is_project in folders:
        for name, file in named_files(folder, problems, inside=project_root if is_project else None):
            key = name.lower()
            if key in used_names or key in commands:
                owner = "a built-in command" if key in used_names else f"your {with_tilde(str(commands[key].file))}"
                problems.append(f"{file}: /{name} is ignored, {owner} already has this name; rename the file")
                continue
            try:
                commands[key] = _read_command(name, file, is_project=is_project)
            except ConfigError as error:
                problems.append(str(error))
    return CustomCommands(
        tuple(sorted(commands.values(), key=lambda command: command.name)), tuple(map(with_tilde, problems))
    )


def named_files(
    folder: Path, problems: list[str], *, inside: Path | None, suffix: str = ".toml"
) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each definition below `folder`: the files of a folder, then its subfolders, by name.

    Links must not lead out of `inside`, unless it is None. Each refused definition adds a line to `problems`, and so
    does the first file after `_MAX_FILES`. Other files, hidden files and folders below `_MAX_DEPTH` are skipped.
    """
    pending: list[tuple[tuple[str, ...], Path]] = [((), folder)]
    count = 0
    while pending:
        prefix, current = pending.pop()
        subfolders = []
        for entry in _sorted_entries(current):
            path = Path(entry.path)
            is_folder = _is_folder(entry)
            if entry.name.startswith(".") or not (is_folder or entry.name.endswith(suffix)):
                continue
            name = entry.name if is_folder else path.stem
            if inside is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside)):
                problems.append(f"{path}: ignored, because it is a link that leads outside the project")
            elif not _NAME.fullmatch(name):
                problems.append(f"{path}: ignored; {_NAME_RULE}; rename it")
            elif is_folder:
                # A link to a folder above would yield every file again, under another name.
                is_loop = entry.is_symlink() and Path(os.path.realpath(current)).is_relative_to(os.path.realpath(path))
                if len(prefix) < _MAX_DEPTH and not is_loop:
                    subfolders.append(((*prefix, name), path))
            else:
                count += 1
                if count > _MAX_FILES:
                    problems.append(f"{folder}: contains more than {_MAX_FILES} files; the rest are ignored")
                    return
                yield ":".join((*prefix, name)), path
        pending += reversed(subfolders)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link, a name that is too long, or no permission
        return False


def _sorted_entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _read_command(name: str, file: Path, *, is_project: bool) -> CustomCommand:
    """Read a command from a TOML file; raise `ConfigError` with file and line."""
    table, error_at = _read_table(file, COMMAND_FIELDS)
    output = _output_overrides(table, error_at)
    labels = {key: _optional_line(table, key, error_at) for key in ("description", "argument", "model")}
    if len(labels["argument"]) > _MAX_HINT_CHARS:
        raise error_at(
            ("argument",), f"argument must be a hint of at most {_MAX_HINT_CHARS} characters, such as [path]"
        )
    prompt = table.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise error_at(("prompt",), "prompt must be a string: the prompt that the command sends")
    return CustomCommand(name, prompt.strip("\n"), file, **labels, output=output, is_from_project=is_project)


def _read_table(file: Path, known_keys: Mapping[str, str]) -> tuple[dict[str, Any], _ErrorAt]:
    """Return the content of a TOML file, and the function that creates the errors about its keys.

    Raise `ConfigError` with file and line for invalid TOML, and for a key that is not one of `known_keys`.
    """
    from qcode.config.lines import find_lines
    from qcode.config.load import parse_toml

    text = read_config_text(file, must_exist=True) or ""
    table = parse_toml(text, file)
    lines: Mapping[tuple[str, ...], int] = find_lines(text)

    def error_at(path: tuple[str, ...], message: str) -> ConfigError:
        return ConfigError(message, file=file, line=lines.get(path, lines.get(path[:1], 1)))

    for key in table:
        if key not in known_keys:
            raise error_at((key,), f"unknown key {key}; {nearest_hint(key, known_keys)}")
    return table, error_at


def _output_overrides(table: Mapping[str, object], error_at: _ErrorAt) -> Mapping[str, object]:
    """Return the checked values of the table `output`, which overrides keys of `[output]`."""
    output = table.get("output", {})
    if not isinstance(output, dict):
        raise error_at(("output",), "output must be a table with keys of [output]")
    fields: dict[str, object] = {}
    for key, value in output.items():
        output_key = find_key(("output", key))
        if output_key is None:
            hint = nearest_hint(key, _output_keys(), "output.{}")
            raise error_at(("output", key), f"unknown key output.{key}; {hint}")
        try:
            fields[key] = convert_value(output_key, ("output", key), value)
        except ConfigError as error:
            raise error_at(("output", key), str(error)) from None
    return MappingProxyType(fields)


def _optional_line(table: Mapping[str, object], key: str, error_at: _ErrorAt) -> str:
    """Return a text of one line, which must not be blank; empty if the key is missing."""
    if key not in table:
        return ""
    value = table[key]
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise error_at((key,), f"{key} must be one line of text")
    return value.strip()


def _output_keys() -> tuple[str, ...]:
    from qcode.config.schema import KEYS

    return tuple(key.path[1] for key in KEYS if key.path[0] == "output")


AGENT_MODELS = (SAME_MODEL, SMALL_MODEL)
"""The values of `model` in a sub-agent."""
AGENT_FIELDS: Mapping[str, str] = {
    "description": "required, one line: tells the model when to use the agent",
    "prompt": "required: the instructions of the agent",
    "only_reads": "`true` gives the agent the rights of plan mode, and lets several such agents run at once; default: "
    "`false`",
    "tools": "the only tools that the agent gets; default: all",
    "model": "`same` (the default) uses the model of the conversation, `small` the `small_model` of your configuration",
    "output": "a table with the keys of `[output]` in `config.toml`; it applies to the replies of the agent",
}
"""The keys of a sub-agent in TOML, with their meaning for the reference."""


@dataclass(frozen=True, slots=True)
class CustomAgent:
    """A kind of sub-agent from a file."""

    name: str
    description: str
    """Tells the calling model when to use the agent."""
    prompt: str
    only_reads: bool = False
    tools: tuple[str, ...] = ()
    """The only tools of the sub-agent; empty: all that a sub-agent may use."""
    model: str = SAME_MODEL
    """One of `AGENT_MODELS`: the model of the conversation, or the `small_model` of the configuration."""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Overrides keys of `[output]` for the replies of the sub-agent."""


@dataclass(frozen=True, slots=True)
class CustomAgents:
    """The agents from files."""

    agents: tuple[CustomAgent, ...] = ()
    problems: tuple[str, ...] = ()
    """Lines for the user, each naming its file."""


def load_custom_agents(
    config_dir: Path | None, project_root: Path, *, reads_project: bool, used_names: Sequence[str] = ()
) -> CustomAgents:
    """Load the agents of the user, unless `config_dir` is None, and those of the project if `reads_project`.

    A file whose name is already used, or in `used_names`, is ignored and reported as a problem.
    """
    agents: dict[str, CustomAgent] = {}
    problems: list[str] = []
    folders: list[tuple[Path, Path | None]] = [] if config_dir is None else [(config_dir / AGENTS_FOLDER, None)]
    project = project_root / PROJECT_FOLDER / AGENTS_FOLDER
    if reads_project and not (folders and is_same_file(project, folders[0][0])):
        folders.append((project, project_root))
    for folder, inside in folders:
        for name, file in named_files(folder, problems, inside=inside):
            if name in used_names or name in agents:
                problems.append(f"{file}: ignored, there is already a sub-agent {name}; rename the file")
                continue
            try:
                agents[name] = _read_agent(name, file)
            except ConfigError as error:
                problems.append(str(error))
    return CustomAgents(tuple(sorted(agents.values(), key=lambda agent: agent.name)), tuple(map(with_tilde, problems)))


def _read_agent(name: str, file: Path) -> CustomAgent:
    """Read a sub-agent from a TOML file; raise `ConfigError` with file and line."""
    table, error_at = _read_table(file, AGENT_FIELDS)
    description = table.get("description")
    if not isinstance(description, str) or not description.strip() or not description.isprintable():
        raise error_at(
            ("description",), "description must be one line of text that tells the model when to use the agent"
        )
    prompt = table.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise error_at(("prompt",), "prompt must be a string: the instructions of the sub-agent")
    only_reads, tools = table.get("only_reads", False), table.get("tools", [])
    model = table.get("model", SAME_MODEL)
    if not isinstance(only_reads, bool):
        raise error_at(("only_reads",), "only_reads must be true or false")
    if not isinstance(tools, list) or not all(isinstance(tool, str) and tool for tool in tools):
        raise error_at(("tools",), 'tools must be a list of tool names, such as ["read", "grep"]')
    if not isinstance(model, str) or model not in AGENT_MODELS:
        raise error_at(("model",), "model must be same or small")
    output = _output_overrides(table, error_at)
    return CustomAgent(name, description.strip(), prompt, only_reads, tuple(tools), model, output)


_STDIO = ("stdio",)
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_SSE = ("sse",)
_MAX_SERVERS = 100


class McpFileContent(NamedTuple):
    """The tool servers that a file defines."""

    servers: dict[str, McpServer]
    """The servers by name."""
    problems: tuple[str, ...] = ()
    """A line for each invalid entry."""


def read_mcp_file(file: Path, *, is_project: bool, text: str | None = None) -> McpFileContent:
    """Return the servers that a file defines.

    A project's file may be missing. If `text` is given, it is the content of `file`, which is then not read. Raise
    `ConfigError` if the file cannot be read or parsed. No message repeats a value, which may be a secret.
    """
    if file.suffix == ".toml" and not is_project:
        layer = file_layer(file, "named")
        other = next((path for path in layer.values if path[0] != "mcp_servers"), None)
        if other is not None:
            raise ConfigError(f"contains {other[0]}; only [mcp_servers.NAME] is allowed here", file=file)
        servers = {name: replace(server, file=str(file)) for name, server in layer_servers(layer).items()}
        return McpFileContent(servers)
    if text is None:
        text = read_config_text(file, must_exist=not is_project)
    return McpFileContent({}) if text is None else _json_servers(file, text, is_project)


def _json_servers(file: Path, text: str, is_project: bool) -> McpFileContent:
    """Return the servers in a JSON text; raise `ConfigError` for invalid JSON."""
    import json

    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError("not valid JSON", file=file, line=line) from None
    entries = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise ConfigError('must be {"mcpServers": {NAME: ...}}', file=file)
    servers: dict[str, McpServer] = {}
    problems = []
    for name, entry in tuple(entries.items())[:_MAX_SERVERS]:
        try:
            servers[name] = _json_server(file, text, is_project, name, entry)
        except ConfigError as error:
            problems.append(f"{error}; the server is ignored")
    if len(entries) > _MAX_SERVERS:
        problems.append(f"{file}: has {len(entries):,} servers; only the first {_MAX_SERVERS} are used")
    return McpFileContent(servers, tuple(problems))


def _json_server(file: Path, text: str, is_project: bool, name: str, entry: object) -> McpServer:
    """Return the server of one entry. Raise `ConfigError` if a value is invalid."""
    line = _line_of(text, name)
    origin = Origin("file", f"{file}:{line}" if line else str(file), is_project)

    def error(message: str) -> ConfigError:
        return ConfigError(message, file=file, line=line)

    if not is_server_name(name):
        raise error(f"invalid server name {_shortened_name(name)}: {SERVER_NAME_RULE}")
    if not isinstance(entry, dict):
        raise error(f"the server {name} must be an object, not {toml_type_name(entry)}")
    layer = Layer()
    layer.tables["mcp_servers", name] = origin  # `layer_servers` finds the servers by their tables
    for path, value in _server_values(error, name, entry):
        layer.values[path] = Value(value, origin)
    return replace(layer_servers(layer)[name], file=str(file))


def _line_of(text: str, name: str) -> int | None:
    """Return the line of the first `"name":` after `"mcpServers"`, None if the name is written with escapes."""
    import json

    start = max(0, text.find('"mcpServers"'))
    match = re.compile(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:").search(text, start)
    return text.count("\n", 0, match.start()) + 1 if match is not None else None


def _server_values(
    error: Callable[[str], ConfigError], name: str, entry: Mapping[str, object]
) -> Iterator[tuple[KeyPath, object]]:
    """Yield the values of an entry under the names of qcode's keys. `error` returns an error with the entry's line."""
    # Other programs name the transport in `type`; here, `command` and `url` imply it, except for the older SSE.
    transport = entry.get("type")
    if transport is not None and transport not in (*_STDIO, *_HTTP, *_SSE):
        raise error(f"the type of the server {name} must be stdio, http or sse")
    if (transport in _STDIO and "url" in entry) or (transport in (*_HTTP, *_SSE) and "command" in entry):
        raise error(f"the type of the server {name} does not match its command or url")
    values = {key: value for key, value in entry.items() if value not in (None, [], {})}
    if transport in _SSE:
        values["transport"] = "sse"
    if entry.get("disabled") is True:
        values["enabled"] = False
    for key, value in values.items():
        if key in ("env", "headers"):
            if not isinstance(value, dict):
                raise error(f"{key} of the server {name} must be an object")
            for inner, text in value.items():
                inner_path = ("mcp_servers", name, key, inner)
                yield inner_path, _validated(error, inner_path, text)
        elif find_key(("mcp_servers", name, key)) is not None:
            path = ("mcp_servers", name, key)
            yield path, _validated(error, path, value)


def _validated(error: Callable[[str], ConfigError], path: KeyPath, value: object) -> object:
    """Return the converted value of a known key; raise an error with the line of the entry if it is invalid."""
    key = find_key(path)
    assert key is not None
    try:
        return convert_value(key, path, value)
    except ConfigError as invalid:
        raise error(str(invalid)) from None


def _shortened_name(name: str) -> str:
    return ascii(name if len(name) <= 60 else f"{name[:57]}...")
