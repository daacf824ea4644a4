"""Converts tool servers of Claude Code, Codex, Gemini CLI, qwen-code and OpenCode to `[mcp_servers]` of qcode.

A literal secret is replaced by a reference to a variable, and a line names the variable to set. Formats:
code.claude.com/docs/en/mcp, developers.openai.com/codex/mcp, gemini-cli `docs/tools/mcp-server.md`,
qwen-code `docs/users/features/mcp.md`, opencode.ai/docs/mcp-servers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from qcode.agent.imports.configuration.findings import (
    AddRule,
    AddServer,
    Change,
    NotConvertibleError,
    SettingsFile,
    SourceSetting,
)
from qcode.agent.mcp.spec import may_be_secret
from qcode.config.kinds import SERVER_NAME_RULE, is_server_name
from qcode.config.load import convert_value
from qcode.config.schema import find_key
from qcode.protocol.errors import ConfigError
from qcode.safety.redaction import Redactor
from qcode.safety.rules import is_rule
from qcode.text.clean import single_spaced

ValueT = TypeVar("ValueT")
_MIN_SECRET_CHARS = 8
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*(?::-[^}]*)?\}")
_SHORT_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_OPENCODE_REFERENCE = re.compile(r"\{env:([A-Za-z_]\w*)\}")
_QUERY = re.compile(r"([?&])([^?=&#]+)=([^&#]+)")


class _Server:
    """A server during conversion. `convert_references` rewrites references to variables in a text."""

    def __init__(self, name: str, entry: Mapping[str, Any], convert_references: Callable[[str], str]) -> None:
        self.name = name
        self.entry = dict(entry)
        """The keys of the other program that are not read yet."""
        self.convert_references = convert_references
        self.values: dict[str, Any] = {}
        """The keys of qcode."""
        self.losses: list[str] = []
        """A line for each key that is not converted."""
        self.denied: tuple[str, ...] = ()
        """The tools that must not be offered."""

    def pop(self, key: str, kind: type[ValueT]) -> ValueT | None:
        """Remove and return a value of the entry, None if missing; raise `NotConvertibleError` for another type."""
        value = self.entry.pop(key, None)
        is_wrong_bool = isinstance(value, bool) and kind is not bool  # True is also an `int`
        if value is not None and (is_wrong_bool or not isinstance(value, kind)):
            raise NotConvertibleError(f"`{key}` has the wrong type")
        return value

    def strings(self, key: str) -> list[str]:
        """Remove and return a list of strings, empty if missing; raise `NotConvertibleError` for another type."""
        items = self.pop(key, list) or []
        if not all(isinstance(item, str) for item in items):
            raise NotConvertibleError(f"`{key}` must be a list of strings")
        return [str(item) for item in items]

    def table(self, key: str) -> dict[str, str]:
        """Remove and return a table of texts, empty if missing; raise `NotConvertibleError` for another type."""
        table = self.pop(key, dict) or {}
        if not all(isinstance(item, str | int | float) for item in table.values()):
            raise NotConvertibleError(f"`{key}` must have strings as values")
        return {str(name): str(item) for name, item in table.items()}

    def seconds(self, key: str, factor: float = 1.0) -> float | None:
        """Remove and return a time in seconds; `factor` is 0.001 for a value in milliseconds."""
        value = self.entry.pop(key, None)
        if value is None:
            return None
        try:
            number = float(value) * factor
        except (TypeError, ValueError, OverflowError):
            raise NotConvertibleError(f"`{key}` must be a number") from None
        if not math.isfinite(number):  # `1e999`
            raise NotConvertibleError(f"`{key}` must be a number")
        return int(number) if number.is_integer() else number

    def set_program(self, command: object, arguments: list[str], variables: Mapping[str, str]) -> None:
        """Set the command of a local server; if it has a `cwd`, `sh` changes to that folder and starts it."""
        if not isinstance(command, str) or not command:
            raise NotConvertibleError("`command` is missing")
        folder = self.pop("cwd", str)
        words = [command, *arguments]
        if folder:
            words = ["sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", folder, *words]
        # References are expanded in arguments, so after `sh` the command of the server may contain one.
        if _REFERENCE.search(words[0]):
            raise NotConvertibleError("a command with a variable is not supported; write its path")
        words = [self.convert_references(word) for word in words]
        args = [self._replace_secret(word, previous) for word, previous in zip(words[1:], words, strict=False)]
        self.values["command"] = words[0]
        if args:
            self.values["args"] = args
        self._set_table("env", variables)

    def set_address(self, url: object, headers: Mapping[str, str], transport: str = "") -> None:
        """Set the address of a remote server; raise `NotConvertibleError` if it contains a password."""
        if not isinstance(url, str) or not url:
            raise NotConvertibleError("`url` is missing")
        self.values["url"] = _QUERY.sub(self._replace_parameter, self.convert_references(url))
        if Redactor().redact(self.values["url"]) != self.values["url"]:
            raise NotConvertibleError("its address contains a password; add it yourself with qcode mcp add")
        if transport:
            self.values["transport"] = transport
        self._set_table("headers", headers)

    def _set_table(self, key: str, table: Mapping[str, str]) -> None:
        """Set the table `env` or `headers` (`key`); a literal secret in it is replaced by a reference."""
        values = {}
        for name, value in table.items():
            text = self.convert_references(value)
            is_secret = may_be_secret(name) or Redactor().redact(text) != text
            if is_secret and _is_literal(text):
                text = self._reference(name, variable=name if key == "env" else "")
            values[name] = text
        if values:
            self.values[key] = values

    def _replace_secret(self, word: str, previous: str) -> str:
        """Return an argument of a command; a secret in it is replaced by a reference.

        A secret follows an option (`--token=VALUE`, or `--token VALUE`), or has the form of a key.
        """
        option, separator, value = word.partition("=")
        is_secret_option = bool(separator) and option.startswith("-") and may_be_secret(option)
        if is_secret_option and _is_secret_value(value):
            return f"{option}={self._reference(option)}"
        follows_option = previous.startswith("-") and "=" not in previous and not word.startswith("-")
        is_value_of_secret = follows_option and may_be_secret(previous)
        if is_value_of_secret and _is_secret_value(word):
            return self._reference(previous)
        if Redactor().redact(word) != word:
            return self._reference(previous if is_value_of_secret else "secret")
        return word

    def _replace_parameter(self, match: re.Match[str]) -> str:
        separator, name, value = match.groups()
        if not may_be_secret(name) or not _is_literal(value):
            return match[0]
        return f"{separator}{name}={self._reference(name)}"

    def _reference(self, field: str, variable: str = "") -> str:
        """Return a reference to a variable, and add a line that tells the user to set it.

        Without a name, the variable is named after the server and the field: `WEB_TOKEN`.
        """
        label = field.strip("-")
        variable = variable or re.sub(r"\W+", "_", f"{self.name}_{label}").upper()
        self.losses.append(f"the value of {single_spaced(label, 60)} is left out: set the variable {variable}")
        return f"${{{variable}}}"


def _is_secret_value(value: str) -> bool:
    """Return whether the value of a secret option is long enough for a secret, and not a reference to a variable."""
    return len(value) >= _MIN_SECRET_CHARS and _is_literal(value)


def _is_literal(text: str) -> bool:
    return _REFERENCE.search(text) is None


def _unchanged(text: str) -> str:
    return text


def _convert_gemini_references(text: str) -> str:
    return _SHORT_REFERENCE.sub(lambda match: f"${{{match[1] or match[2]}}}", text)


def _convert_opencode_references(text: str) -> str:
    if "{file:" in text:
        raise NotConvertibleError("a value from a file ({file:...}) is not supported; use a variable")
    return _OPENCODE_REFERENCE.sub(r"${\1}", text)


def _convert_claude(server: _Server) -> None:
    kind = server.pop("type", str) or ""
    if kind == "sdk":
        raise NotConvertibleError("it runs inside another program")
    if "command" in server.entry:
        server.set_program(server.pop("command", str), server.strings("args"), server.table("env"))
    else:
        transport = "sse" if kind == "sse" else ""
        server.set_address(server.pop("url", str), server.table("headers"), transport)


def _convert_codex(server: _Server) -> None:
    if "command" in server.entry:
        variables = server.table("env")
        for item in server.pop("env_vars", list) or []:
            name = item.get("name") if isinstance(item, dict) else item
            variables.setdefault(str(name), f"${{{name}}}")
        server.set_program(server.pop("command", str), server.strings("args"), variables)
    else:
        headers = server.table("http_headers")
        headers |= {name: f"${{{variable}}}" for name, variable in server.table("env_http_headers").items()}
        bearer = server.pop("bearer_token_env_var", str)
        if bearer:
            headers["Authorization"] = f"Bearer ${{{bearer}}}"
        server.set_address(server.pop("url", str), headers)
    startup_s = server.seconds("startup_timeout_sec")
    if startup_s is None:
        startup_s = server.seconds("startup_timeout_ms", 0.001)
    _set_time_limits(server, timeout_s=server.seconds("tool_timeout_sec"), startup_s=startup_s)
    _choose_tools(server, "enabled_tools", "disabled_tools")
    if server.pop("enabled", bool) is False:
        server.values["enabled"] = False


def _convert_gemini(server: _Server) -> None:
    kind = server.pop("type", str) or ""
    timeout_s = server.seconds("timeout", 0.001)
    if "command" in server.entry:
        server.set_program(server.pop("command", str), server.strings("args"), server.table("env"))
    else:
        http_url = server.pop("httpUrl", str)
        url = server.pop("url", str)
        transport = "http" if http_url or kind == "http" else "sse"
        server.set_address(http_url or url, server.table("headers"), transport)
    _set_time_limits(server, timeout_s=timeout_s)
    _choose_tools(server, "includeTools", "excludeTools")
    if server.pop("trust", bool):
        server.losses.append("`trust` is dropped: its calls ask, unless a rule allows them")
    server.entry.pop("description", None)


def _convert_opencode(server: _Server) -> None:
    kind = server.pop("type", str)
    startup_s = server.seconds("timeout", 0.001)
    if kind == "remote":
        server.set_address(server.pop("url", str), server.table("headers"))
    else:
        words = server.strings("command")
        server.set_program(words[0] if words else None, words[1:], server.table("environment"))
    _set_time_limits(server, startup_s=startup_s)
    if server.pop("enabled", bool) is False:
        server.values["enabled"] = False


def _set_time_limits(server: _Server, *, timeout_s: float | None = None, startup_s: float | None = None) -> None:
    if timeout_s:
        server.values["timeout_s"] = timeout_s
    if startup_s:
        server.values["startup_timeout_s"] = startup_s


def _choose_tools(server: _Server, chosen: str, excluded: str) -> None:
    """Set the tools to offer, from the key `chosen`; the tools in the key `excluded` become deny rules."""
    names = [name.partition("(")[0] for name in server.strings(chosen)]
    if names:
        server.values["tools"] = names
    server.denied = tuple(server.strings(excluded))


_CONVERTERS: Mapping[str, Callable[[_Server], None]] = {
    "claude": _convert_claude,
    "codex": _convert_codex,
    "gemini": _convert_gemini,
    "qwen": _convert_gemini,
    "opencode": _convert_opencode,
}
_REFERENCE_CONVERTERS: Mapping[str, Callable[[str], str]] = {
    "claude": _unchanged,
    "codex": _unchanged,
    "gemini": _convert_gemini_references,
    "qwen": _convert_gemini_references,
    "opencode": _convert_opencode_references,
}
"""Functions that convert references to variables in a value, by program."""


def add_servers(file: SettingsFile, program: str, path: tuple[str, ...], disabled: tuple[str, ...] = ()) -> None:
    """Add the servers in a table of a file. Servers named in `disabled` are added as disabled."""
    file.report_invalid_table(*path)
    for name, entry in file.table(*path).items():
        location = file.location(*path, name)
        try:
            file.add(_convert_server(program, name, entry, location, is_disabled=name in disabled))
        except (NotConvertibleError, ConfigError) as problem:
            file.add(SourceSetting("server", name, location, reason=str(problem)))


def _convert_server(program: str, name: str, entry: object, location: str, *, is_disabled: bool) -> SourceSetting:
    """Convert one server; raise `NotConvertibleError` or `ConfigError` if it has no equivalent."""
    if not is_server_name(name):
        raise NotConvertibleError(f"invalid name: {SERVER_NAME_RULE}")
    if not isinstance(entry, Mapping):
        raise NotConvertibleError("it is not a table")
    server = _Server(name, entry, _REFERENCE_CONVERTERS[program])
    if program == "codex" and _REFERENCE.search(str(entry)):
        server.losses.append("${...} in its values is a variable in qcode, but not in Codex")
    _CONVERTERS[program](server)
    if is_disabled:
        server.values["enabled"] = False
    for key, value in server.values.items():
        if isinstance(value, dict):  # a table such as `env`
            for inner_key, inner_value in value.items():
                _check_value(("mcp_servers", name, key, inner_key), inner_value)
        else:
            _check_value(("mcp_servers", name, key), value)
    server.losses += [f"`{single_spaced(key, 60)}` has no equivalent" for key in server.entry]
    rules = [AddRule("deny", f"mcp({name}/{tool})") for tool in server.denied]
    invalid = [rule.rule for rule in rules if not is_rule(rule.rule)]
    server.losses += [f"the tool of {single_spaced(rule, 80)} cannot be denied" for rule in invalid]
    valid = tuple(rule for rule in rules if rule.rule not in invalid)
    changes: tuple[Change, ...] = (AddServer(name, server.values), *valid)
    return SourceSetting("server", name, location, changes, losses=tuple(server.losses), is_lost_denial=bool(invalid))


def _check_value(path: tuple[str, ...], value: object) -> None:
    """Raise `ConfigError` if `value` is not valid for the configuration key at `path`."""
    key = find_key(path)
    assert key is not None
    convert_value(key, path, tuple(value) if isinstance(value, list) else value)
