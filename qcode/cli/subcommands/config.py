"""`qcode config`: the path of the file, the settings with their origins, the schema for editors, and changes of a key.

Some keys decide which calls run without a question: rules, modes, the sandbox, hooks and tool servers. A change of such
a key is reported with its effect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from qcode.agent.options import Options, RunContext
from qcode.agent.permissions import configured_rules
from qcode.agent.trust.store import TrustStore
from qcode.cli.arguments import (
    FOLDER_FLAGS,
    CommandLineError,
    invalid_arguments,
    missing_argument,
    parse_subcommand,
    usage_of,
)
from qcode.cli.context import check_theme, folder_context, report_problem
from qcode.cli.terminal import write_lines, write_stderr, write_stdout
from qcode.cli.trust import untrusted_text
from qcode.config.load import Scope, file_layer
from qcode.config.paths import ConfigPaths, project_file, with_tilde
from qcode.config.schema import KeyPath, dotted, find_key
from qcode.config.show import setting_rows, value_text
from qcode.protocol.errors import ConfigError, ExitCode
from qcode.text.json import Json

_USES = {
    "": "use: qcode config path, schema, show, set KEY VALUE, or unset KEY; qcode help config explains them",
    "path": "use: qcode config path [--json]",
    "schema": "use: qcode config schema",
    "show": f"use: qcode config show {FOLDER_FLAGS}",
    "set": "use: qcode config set KEY VALUE [--project]",
    "unset": "use: qcode config unset KEY [--project]",
}


def run_config(arguments: Sequence[str]) -> int:
    """Run an action and return the exit code; raise `CommandLineError` or `QcodeError`."""
    usage = usage_of(arguments, _USES)
    options, words, flags = parse_subcommand("config", arguments, usage)
    if "project" in flags and words[:1] not in (["set"], ["unset"]):
        raise CommandLineError(f"--project only works with set and unset; {usage}")
    match words:
        case ["path"]:
            file = str(ConfigPaths.from_env(os.environ).config_file)
            write_lines(json.dumps({"path": file}) if "json" in flags else file)
            return ExitCode.OK
        case ["schema"]:
            from qcode.config.json_schema import schema_text

            write_stdout(schema_text())
            return ExitCode.OK
        case ["show"]:
            return _show(options, is_json="json" in flags)
        case ["set", name, value]:
            return _change(options, name, value, is_project="project" in flags, is_json="json" in flags)
        case ["unset", name]:
            return _change(options, name, None, is_project="project" in flags, is_json="json" in flags)
        case ["set"] | ["set", _] | ["unset"]:
            raise missing_argument(usage)
        case _:
            raise invalid_arguments(words, usage)


def _show(options: Options, *, is_json: bool) -> int:
    context, problem = folder_context(options)
    rows = setting_rows(context.settings)
    if is_json:
        listed: Json = [{"key": row.key, "value": row.value, "origin": str(row.origin)} for row in rows]
        write_lines(json.dumps({"error": str(problem) if problem else None, "settings": listed}))
        return ExitCode.OK if problem is None else problem.exit_code
    for warning in context.settings.warnings:
        write_stderr(warning)
    write_lines(*(f"{row.key} = {row.value}  ({with_tilde(str(row.origin))})" for row in rows))
    return report_problem(problem)


def _change(options: Options, name: str, typed: str | None, *, is_project: bool, is_json: bool) -> int:
    """Set a key of the user's or the project's file to the value as typed, or remove it (None); report the result."""
    from qcode.config.edit import change_checked

    if name == "ui.theme" and typed is not None:
        check_theme(typed.strip("\"'"))
    context, _ = folder_context(options)
    file = _project_file(context) if is_project else context.paths.config_file
    scope: Scope = "project" if is_project else "user"
    store = TrustStore(context.paths.state_dir, context.folder)
    before = _values(file, scope)
    # The user changes the file here, so a trusted folder stays trusted.
    with store.accept_changes(context.root, frozenset({str(file)})):
        path = change_checked(file, name, typed, scope, configured_rules)
    after = _values(file, scope)
    if is_json:
        write_lines(json.dumps({"key": dotted(path), "value": after.get(path), "file": str(file)}))
    else:
        write_lines(_change_text(path, before, after, file))
    if before != after:
        if note := _safety_note(path, typed):
            write_stderr(note)
        if note := _precedence_note(options, context, path, file, is_project=is_project):
            write_stderr(note)
    return ExitCode.OK


def _project_file(context: RunContext) -> Path:
    file = project_file(context.root)
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(context.root)):
        raise ConfigError("is a link to a file outside the project; change that file instead", file=file)
    return file


def _values(file: Path, scope: Scope) -> dict[KeyPath, str]:
    """Return the values in a file by path, as `qcode config show` shows them; an empty dict if the file is invalid."""
    try:
        values = file_layer(file, scope).values
    except ConfigError:
        return {}
    keys = {path: find_key(path) for path in values}
    return {path: value_text(key, values[path].value) for path, key in keys.items() if key is not None}


def _change_text(path: KeyPath, before: dict[KeyPath, str], after: dict[KeyPath, str], file: Path) -> str:
    """Return the line about a change of the key `path`. `before` and `after` are the values in the file."""
    name, location = dotted(path), with_tilde(str(file))
    old_value, value = before.get(path), after.get(path)
    was = f" (was {old_value})" if old_value is not None and old_value != value else ""
    if value is not None:
        return f"{name} = {value}{was} in {location}"
    # A value that is a table sets the keys below `path`: `mcp_servers.git.command`.
    is_table = any(key[: len(path)] == path for key in after)
    return f"{name} is set in {location}" if is_table else f"{name} is not set in {location}{was}"


# The effects of the modes and of the values of `tools.sandbox`, for `_safety_note`.
_MODES = {
    "plan": "sessions start in plan mode: the model reads, and changes nothing",
    "accept-edits": "in trusted folders, edits of project files run without asking",
    "auto": "in trusted folders, edits and sandboxed commands run without asking",
}
_SANDBOX = {
    "off": "commands run without a sandbox, and more of them ask",
    "auto": "commands run in a sandbox if one works here",
    "required": "qcode refuses to start if no sandbox works",
}


def _safety_note(path: KeyPath, typed: str | None) -> str:
    """Return the effect of a change on the calls that run without a question, empty if it has none."""
    value = (typed or "").strip().strip("\"'")
    match path:
        case ("permissions", "mode"):
            return _MODES.get(value, "edits and commands ask first")
        case ("permissions", "allow"):
            return "calls that match these rules run without asking in trusted folders" if typed else ""
        case ("permissions", "deny" | "ask") if typed is None:
            return f"no rule of this file {'denies' if path[1] == 'deny' else 'asks'} any more"
        case ("tools", "sandbox"):
            return _SANDBOX.get(value, _SANDBOX["auto"])
        case ("hooks", _) if typed is not None:
            return "hooks run with your rights, outside the sandbox: qcode hooks lists them"
        case ("mcp_servers", *_) if typed is not None:
            return "tool servers run with your rights, outside the sandbox: qcode mcp lists them"
        case _:
            return ""


def _precedence_note(options: Options, context: RunContext, path: KeyPath, file: Path, *, is_project: bool) -> str:
    """Return why the new value in `file` does not apply: another source sets the key. Empty if the value applies.

    `context` is from before the change.
    """
    if is_project and not context.is_trusted:
        return untrusted_text("its file is ignored")
    # A folder that was trusted for this change counts as trusted here too.
    changed_context, problem = folder_context(replace(options, trust=options.trust or context.is_trusted))
    settings, name, key = changed_context.settings, dotted(path), find_key(path)
    origin = settings.origin(name)
    if problem is not None or key is None or origin.kind == "default" or str(file) in origin.where:
        return ""
    value = value_text(key, settings.explicit_values.get(name))
    return f"{with_tilde(str(origin))} takes precedence: {name} is still {value}"
