"""Converts permission rules of Claude Code, qwen-code and Gemini CLI to `[permissions]` of qcode.

All of them become rules of Claude Code first, so that only `agent.claude.rules` decides which rule is narrow or broad
enough. From the files of a project only rules that deny or ask are imported. Formats:
code.claude.com/docs/en/permissions, gemini-cli `docs/reference/configuration.md`. For OpenCode, see `opencode`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from qcode.agent.claude.rules import QCODE_MODES, RuleSource, convert_rule, is_claude_rule
from qcode.agent.claude.settings import convert_rules
from qcode.agent.claude.tool_names import MCP_PREFIX
from qcode.agent.imports.configuration.findings import AddRule, SetMode, SettingsFile, SourceSetting
from qcode.protocol.approvals import RULE_EFFECTS, RuleEffect
from qcode.text.clean import single_spaced

CLAUDE_TOOLS: Mapping[str, str] = {
    "read_file": "Read", "read_many_files": "Read", "readfile": "Read", "read": "Read",
    "write_file": "Write", "writefile": "Write", "write": "Write",
    "replace": "Edit", "edit": "Edit", "editfile": "Edit", "patch": "Edit", "multiedit": "MultiEdit",
    "notebook_edit": "NotebookEdit",
    "run_shell_command": "Bash", "shelltool": "Bash", "shell": "Bash", "bash": "Bash",
    "glob": "Glob", "find_files": "Glob",
    "grep": "Grep", "grep_search": "Grep", "search_file_content": "Grep",
    "list_directory": "LS", "list": "LS", "ls": "LS",
    "web_fetch": "WebFetch", "webfetch": "WebFetch",
    "google_web_search": "WebSearch", "web_search": "WebSearch", "websearch": "WebSearch",
    "write_todos": "TodoWrite", "todo_write": "TodoWrite", "todowrite": "TodoWrite",
    "task": "Agent", "agent": "Agent", "skill": "Skill", "activate_skill": "Skill",
}  # fmt: skip
"""Claude Code's tools by the names that the other programs have for them, in lower case."""

PROJECT_CANNOT_ALLOW = "rules of a project's file may not allow anything"
_RULE = re.compile(r"([^()]+)\((.*)\)", re.DOTALL)


def add_claude_rules(file: SettingsFile, source: RuleSource) -> None:
    """Add the rules and the mode in `permissions` of Claude Code or qwen-code."""
    table = file.table("permissions")
    file.report_invalid_table("permissions", may_deny=True)
    for effect in RULE_EFFECTS:
        for text in _rule_texts(file, effect, "permissions", effect):
            add_rule(file, effect, text, _with_claude_tool(text), source, file.location("permissions", effect, text))
    mode = table.get("defaultMode")
    if isinstance(mode, str):
        _add_mode(file, mode)
    for key in table:
        if key not in (*RULE_EFFECTS, "defaultMode"):
            hint = "; use --add-dir" if key == "additionalDirectories" else ""
            location = file.location("permissions", key)
            file.add(SourceSetting("setting", f"permissions.{key}", location, reason=f"has no equivalent{hint}"))


def _rule_texts(file: SettingsFile, effect: RuleEffect, *path: str) -> Iterator[str]:
    """Yield the rules in the list at a path; add a finding for each value that is not text."""
    value = file.table(*path[:-1]).get(path[-1])
    if value is None:
        return
    location = file.location(*path)
    is_denial = effect == "deny"
    if not isinstance(value, list):
        name = f"{effect} {_short_json(value)}"
        file.add(SourceSetting("rule", name, location, reason="it is not a list", is_lost_denial=is_denial))
        return
    for item in value:
        if isinstance(item, str):
            yield item
        else:
            name = f"{effect} {_short_json(item)}"
            file.add(SourceSetting("rule", name, location, reason="it is not text", is_lost_denial=is_denial))


def _short_json(value: object) -> str:
    return single_spaced(json.dumps(value, ensure_ascii=False), 120)


def _add_mode(file: SettingsFile, mode: str) -> None:
    location = file.location("permissions", "defaultMode")
    name = single_spaced(mode, 60)
    qcode_mode = QCODE_MODES.get(mode)
    if file.is_project:
        setting = SourceSetting("mode", name, location, reason="a project's file may not choose the mode")
    elif qcode_mode is None or mode in ("bypassPermissions", "dontAsk"):
        setting = SourceSetting(
            "mode", name, location, reason="a configuration may not choose this mode; use --permission-mode"
        )
    else:
        setting = SourceSetting("mode", name, location, (SetMode(qcode_mode),))
    file.add(setting)


def add_gemini_rules(file: SettingsFile) -> None:
    """Add the tools that Gemini CLI and qwen-code allow and exclude, under their old and new keys."""
    locations: tuple[tuple[RuleEffect, tuple[str, ...]], ...] = (
        ("deny", ("excludeTools",)),
        ("deny", ("tools", "exclude")),
        ("allow", ("allowedTools",)),
        ("allow", ("tools", "allowed")),
    )
    for effect, path in locations:
        for text in _rule_texts(file, effect, *path):
            rule = _gemini_server_tool(file, text) or _with_claude_tool(text)
            match = _RULE.fullmatch(rule)
            if match is not None and match[1] == "Bash":
                rule = f"Bash({match[2]}:*)"  # Gemini CLI allows every command that begins with the text
            add_rule(file, effect, text, rule, "project", file.location(*path, text))


def _gemini_server_tool(file: SettingsFile, text: str) -> str:
    """Return Claude Code's name of `SERVER__TOOL` or `mcp_SERVER_TOOL`, empty if the file has no such server."""
    has_prefix = text.startswith("mcp_")
    name = text.removeprefix("mcp_")
    for server in sorted(file.table("mcpServers"), key=len, reverse=True):
        for separator in ("__", "_") if has_prefix else ("__",):
            tool = name.removeprefix(f"{server}{separator}")
            if tool != name:
                return f"{MCP_PREFIX}{server}__{tool}"
    return ""


def _with_claude_tool(text: str) -> str:
    """Return a rule with Claude Code's name of its tool: `run_shell_command(git)` is `Bash(git)`."""
    match = _RULE.fullmatch(text.strip())
    tool = text.strip() if match is None else match[1].strip()
    name = CLAUDE_TOOLS.get(tool.lower(), tool)
    return name if match is None else f"{name}({match[2]})"


def add_rule(
    file: SettingsFile,
    effect: RuleEffect,
    text: str,
    rule: str,
    source: RuleSource,
    location: str,
    losses: tuple[str, ...] = (),
) -> None:
    """Add a finding for one rule: `text` in the format of the other program, `rule` in the format of Claude Code.

    `losses` are lines about what `rule` does not express; the losses of its conversion to a qcode rule are added.
    """
    name = f"{effect} {single_spaced(text, 120)}"
    if file.is_project and effect == "allow":
        file.add(SourceSetting("rule", name, location, reason=PROJECT_CANNOT_ALLOW))
        return
    if not is_claude_rule(rule):
        unknown = rule.partition("(")[0]
        reason = f"{single_spaced(unknown, 60)} is not a tool of qcode"
        file.add(SourceSetting("rule", name, location, reason=reason))
        return
    converted = convert_rule(rule, effect, "project" if file.is_project else source)
    changes = tuple(AddRule(effect, qcode_rule) for qcode_rule in converted.rules)
    is_lost_denial = bool(convert_rules([rule], effect, source).unenforced_denials)
    if not changes:
        reason = converted.loss or converted.note or "nothing is needed"
        file.add(SourceSetting("rule", name, location, reason=reason, is_lost_denial=is_lost_denial))
        return
    losses = (*losses, *filter(None, (converted.loss, converted.note)))
    file.add(SourceSetting("rule", name, location, changes, losses=losses, is_lost_denial=is_lost_denial))


def add_other_keys(file: SettingsFile, handled: frozenset[str], hints: Mapping[str, str]) -> None:
    """Add a finding for each key of a file that is not in `handled`, with the key's hint if there is one.

    `handled` names a key in a table as `tools.exclude`; the other keys of that table then get a finding each.
    """
    nested = {name.partition(".")[0] for name in handled if "." in name}
    for key, value in file.values.items():
        if key in handled or key.startswith("$") or _is_empty(value):
            continue
        reason = hints.get(key, "has no equivalent")
        if key == "hooks":
            names = ", ".join(map(str, value)) if isinstance(value, Mapping) else key
            file.add(SourceSetting("hooks", single_spaced(names, 200), file.location(key), reason=reason))
        elif key in nested and isinstance(value, Mapping):
            for inner in value:
                if f"{key}.{inner}" not in handled:
                    name = single_spaced(f"{key}.{inner}", 80)
                    file.add(SourceSetting("setting", name, file.location(key, inner), reason=reason))
        else:
            file.add(SourceSetting("setting", single_spaced(key, 80), file.location(key), reason=reason))


def _is_empty(value: object) -> bool:
    return value in ({}, [], "", None)
