"""Converts Claude Code's settings, and the values of its flags, to options of qcode.

`permissions` and `model` of a settings file are used, other keys are reported. Also reads the files of flags that may
be pipes, such as `--settings <(...)`, which can be read only once. See code.claude.com/docs/en/settings.
"""

from __future__ import annotations

import json
import os
import select
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from qcode.agent.claude.rules import NEVER_ASKS, QCODE_MODES, RuleSource, convert_rule, is_claude_rule
from qcode.agent.claude.tool_names import qcode_name
from qcode.config.load import PipedSettings
from qcode.protocol.approvals import RULE_EFFECTS, ApprovalMode, RuleEffect
from qcode.protocol.errors import ConfigError, InputError, UsageError
from qcode.protocol.model import DEFAULT_MODEL_ALIASES
from qcode.safety.rules import parse_rule
from qcode.text.clean import one_line
from qcode.text.json import JsonObject
from qcode.values import dataclass

MAX_BYTES = 1 << 20
PIPE_TIMEOUT_S = 10.0
"""Seconds without data after which reading a pipe fails."""

SOURCES = ("user", "project", "local")
_PERMISSIONS = frozenset(
    {"allow", "ask", "deny", "defaultMode", "additionalDirectories", "disableBypassPermissionsMode"}
)
_ENFORCED_TOOLS = ("Bash", "Read", "Edit", "Write", "MultiEdit", "NotebookEdit", "WebFetch", "mcp__")
"""The beginnings of deny rules that must not be dropped. A run with such a rule that cannot be converted is refused."""


@dataclass(frozen=True, slots=True)
class ConvertedRules:
    """Rules in qcode's format."""

    rules: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """The tools that are denied by not offering them."""
    losses: tuple[str, ...] = ()
    """A line for each rule that is not fully converted."""
    unenforced_denials: tuple[str, ...] = ()
    """The lines of `losses` about deny rules without any equivalent in qcode."""


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The parts of a settings file that qcode uses."""

    rules: Mapping[RuleEffect, ConvertedRules]
    mode: str = ""
    """Claude Code's name of the mode; empty if the file sets no mode."""
    folders: tuple[str, ...] = ()
    """The further folders in which files may be changed, as written."""
    model: str = ""
    unused_keys: tuple[str, ...] = ()
    """The keys of the file that have no effect."""


def convert_rules(
    texts: Iterable[str], effect: RuleEffect, source: RuleSource, location_of: Callable[[str], str] = lambda rule: ""
) -> ConvertedRules:
    """Convert rules; rules in qcode's format are unchanged. `location_of` returns a prefix such as `file:3: `."""
    rules: dict[str, None] = {}
    tools: dict[str, None] = {}
    losses: list[str] = []
    unenforced: list[str] = []
    for text in texts:
        if not is_claude_rule(text):
            rules[text] = None
            continue
        converted = convert_rule(text, effect, source)
        rules.update(dict.fromkeys(converted.rules))
        tools.update(dict.fromkeys(converted.tools))
        if not converted.loss:
            continue
        losses.append(f"{location_of(text)}{effect} {one_line(text, 200)}: {converted.loss}")
        if effect == "deny" and not converted.rules and text.startswith(_ENFORCED_TOOLS):
            unenforced.append(losses[-1])
    return ConvertedRules(tuple(rules), tuple(tools), tuple(losses), tuple(unenforced))


def parse_claude_settings(text: str, label: str, source: RuleSource = "flag") -> ClaudeSettings:
    """Read the JSON of a settings file; raise `ConfigError` with one line. `label` is its path for the user."""
    try:
        values = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise ConfigError("not valid JSON", file=Path(label), line=line) from None
    if not isinstance(values, dict):
        raise ConfigError("settings must be a JSON object", file=Path(label))
    permissions = values.get("permissions", {})
    if not isinstance(permissions, dict):
        raise ConfigError("permissions must be an object", file=Path(label))
    model, mode = values.get("model", ""), permissions.get("defaultMode", "")
    if not isinstance(model, str) or not isinstance(mode, str):
        raise ConfigError("model and permissions.defaultMode must be strings", file=Path(label))
    unused = [name for name in values if name not in ("permissions", "model", "$schema")]
    unused += [f"permissions.{name}" for name in permissions if name not in _PERMISSIONS]
    texts = {effect: _string_list(permissions, effect, label) for effect in RULE_EFFECTS}
    rules = {effect: _convert_rules(texts[effect], effect, source, text, label) for effect in RULE_EFFECTS}
    return ClaudeSettings(rules, mode, _string_list(permissions, "additionalDirectories", label), model, tuple(unused))


def _convert_rules(
    rules: Iterable[str], effect: RuleEffect, source: RuleSource, text: str, label: str
) -> ConvertedRules:
    """Convert the rules of a file that contains `text`; raise `ConfigError` for an invalid rule in qcode's format."""
    converted = convert_rules(rules, effect, source, lambda rule: f"{label}{_line_of(rule, text)}: ")
    for rule in converted.rules:
        try:
            parse_rule(rule)
        except ValueError as error:
            raise ConfigError(f"{label}{_line_of(rule, text)}: permissions.{effect}: {error}") from None
    return converted


def _line_of(rule: str, text: str) -> str:
    """Return `:LINE` of a rule in a JSON text; empty if the text has one line or escapes the rule differently."""
    offset = text.find(json.dumps(rule, ensure_ascii=False))
    return "" if offset < 0 or "\n" not in text.strip() else f":{text.count(chr(10), 0, offset) + 1}"


def _string_list(table: JsonObject, name: str, label: str) -> tuple[str, ...]:
    values = table.get(name, [])
    strings = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    if not isinstance(values, list) or len(strings) < len(values):
        raise ConfigError(f"permissions.{name} must be a list of strings", file=Path(label))
    return tuple(strings)


def convert_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Options` with values in qcode's format, and with the contents of files that may be pipes.

    Raise `QcodeError` for an invalid value, and for a denial that no rule of qcode can enforce.
    """
    option_fields = _OptionFields({**options}, list(options["notices"]))
    option_fields.convert_rules()
    option_fields.convert_sources()
    option_fields.convert_settings()
    fields = option_fields.fields
    fields["mcp_config"] = tuple(_server_config(config) for config in fields["mcp_config"])
    for name in ("system_prompt", "append_system_prompt"):
        file = fields[f"{name}_file"]
        if file is not None:
            fields |= {name: _prompt_text(f"--{name.replace('_', '-')}-file", file), f"{name}_file": None}
    return {**fields, "notices": tuple(option_fields.notices)}


class _OptionFields:
    """The fields of `Options` while they are converted; they are named like the flags."""

    def __init__(self, fields: dict[str, Any], notices: list[str]) -> None:
        self.fields = fields
        self.notices = notices

    def convert_rules(self) -> None:
        """Convert the rules and tool names of flags."""
        fields = self.fields
        allowed = convert_rules(fields["allowed_tools"], "allow", "flag")
        denied = convert_rules(fields["disallowed_tools"], "deny", "flag")
        if denied.unenforced_denials:
            raise UsageError(f"--disallowed-tools: qcode cannot enforce a rule: {denied.unenforced_denials[0]}")
        self.notices += [*allowed.losses, *denied.losses]
        fields |= {"allowed_tools": allowed.rules, "disallowed_tools": (*denied.rules, *denied.tools)}
        tools = fields["builtin_tools"]
        if tools is not None:
            unknown = [name for name in tools if name[:1].isupper() and qcode_name(name) == name]
            self.notices += [f"--tools: qcode has no {', '.join(unknown)}"] if unknown else []
            selected = tuple(qcode_name(name) for name in tools if name not in unknown)
            fields["builtin_tools"] = None if "default" in tools else selected

    def convert_sources(self) -> None:
        """Check the sources of settings. Without `user`, the user's configuration does not apply."""
        sources = self.fields["setting_sources"]
        unknown = next((source for source in sources or () if source not in SOURCES), None)
        if unknown is not None:
            raise UsageError(f'--setting-sources: unknown source "{one_line(unknown, 60)}"; use user or project')
        if sources is not None and "user" not in sources:
            self.fields["user_config"] = False

    def convert_settings(self) -> None:
        """Replace the value of `--settings` by its content, if it is in Claude Code's format or in a pipe."""
        settings = self.fields["settings"]
        if settings is None or isinstance(settings, Mapping):
            return
        text, file = str(settings), Path(settings)
        if text.lstrip().startswith("{"):
            self._apply_settings(parse_claude_settings(text, "--settings"))
        elif not _is_pipe(file) and file.suffix != ".json":
            self.fields["settings"] = file
        else:
            content = read_text(file, "--settings")
            if content.lstrip().startswith("{") or file.suffix == ".json":
                self._apply_settings(parse_claude_settings(content, str(file)))
            else:
                self.fields["settings"] = PipedSettings(content, file)

    def _apply_settings(self, settings: ClaudeSettings) -> None:
        """Apply settings of Claude Code to the fields. A mode from a flag takes precedence."""
        fields, denied = self.fields, settings.rules["deny"]
        if denied.unenforced_denials:
            raise ConfigError(f"qcode cannot enforce a rule: {denied.unenforced_denials[0]}")
        self.notices += [line for rules in settings.rules.values() for line in rules.losses]
        if settings.unused_keys:
            self.notices.append(f"--settings: no effect in qcode: {one_line(', '.join(settings.unused_keys), 300)}")
        if settings.mode and fields["permission_mode"] is None:
            fields["permission_mode"] = self._convert_mode(settings.mode)
            fields["never_asks"] = fields["never_asks"] or settings.mode == NEVER_ASKS
        start = Path.cwd() if fields["cwd"] is None else Path(fields["cwd"])
        for text in settings.folders:
            folder = start / os.path.expanduser(text)  # noqa: PTH111  # pathlib raises for an unknown user
            if os.path.isdir(folder):  # noqa: PTH112  # pathlib raises for a very long name
                fields["add_dir"] = (*fields["add_dir"], folder)
            else:
                self.notices.append(f"--settings: additionalDirectories: {one_line(text, 200)} is not a folder")
        fields["disallowed_tools"] = (*fields["disallowed_tools"], *denied.tools)
        permissions = {effect: list(rules.rules) for effect, rules in settings.rules.items() if rules.rules}
        model = {} if settings.model in DEFAULT_MODEL_ALIASES else {"model": settings.model}
        fields["settings"] = {"permissions": permissions, **model} if permissions else model

    def _convert_mode(self, name: str) -> ApprovalMode | None:
        mode = QCODE_MODES.get(name)
        if mode == "bypass" and not self.fields["allow_dangerously_skip_permissions"]:
            self.notices.append("--settings: defaultMode bypassPermissions is ignored: only a flag can choose it")
            return None
        if mode is None:
            self.notices.append(f'--settings: defaultMode "{one_line(name, 60)}" is unknown and ignored')
        return mode


def _server_config(config: str | Path) -> str | Path:
    """Return a value of `--mcp-config`: a file, or JSON text that begins with `{`."""
    text = str(config).lstrip()
    if text.startswith("{"):
        return _without_host_servers(text)
    file = Path(config)
    if not _is_pipe(file):
        return file
    content = read_text(file, "--mcp-config").lstrip("\ufeff \t\r\n")
    if not content.startswith("{"):
        raise ConfigError('must be {"mcpServers": {NAME: ...}}', file=file)
    return _without_host_servers(content)


def _without_host_servers(text: str) -> str:
    """Return a configuration without the servers of type `sdk`, which run in the program that controls qcode."""
    try:
        config = json.loads(text)
        servers = {name: item for name, item in config["mcpServers"].items() if item.get("type") != "sdk"}
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
        return text  # invalid: the reader of servers reports the error
    return json.dumps({**config, "mcpServers": servers})


def _prompt_text(flag: str, path: str | Path) -> str:
    try:
        return read_text(Path(path), flag)
    except ConfigError as error:
        raise InputError(str(error)) from None


def _is_pipe(file: Path) -> bool:
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_text(file: Path, flag: str) -> str:
    """Return the text of a regular file or a pipe; raise `ConfigError`. A pipe is read once, to its end."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
                raise ConfigError(f"{flag}: not a file", file=file)
            data = _read_all(stream.fileno(), file, flag)
    except OSError as error:
        raise ConfigError(f"{flag}: cannot read the file: {error.strerror}", file=file) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{flag}: larger than {MAX_BYTES >> 20} MiB", file=file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{flag}: not UTF-8 text", file=file) from None


def _read_all(handle: int, file: Path, flag: str) -> bytes:
    data = b""
    deadline = time.monotonic() + PIPE_TIMEOUT_S
    while len(data) <= MAX_BYTES:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ConfigError(f"{flag}: nothing arrived within {PIPE_TIMEOUT_S:g} s", file=file)
        try:
            part = os.read(handle, 1 << 16)
        except BlockingIOError:
            continue
        if not part:
            return data
        data += part
        deadline = time.monotonic() + PIPE_TIMEOUT_S
    return data
