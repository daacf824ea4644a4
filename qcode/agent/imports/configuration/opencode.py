"""Converts `permission` of OpenCode to `[permissions]` of qcode.

In OpenCode the last matching pattern decides; in qcode a denial always wins. A tool of a server is named
`SERVER_TOOL`, and `*` stands for every tool. Format: opencode.ai/docs/permissions.
"""

from __future__ import annotations

from collections.abc import Mapping

from qcode.agent.claude.tool_names import MCP_PREFIX
from qcode.agent.imports.configuration.findings import AddRule, SettingsFile, SourceSetting
from qcode.agent.imports.configuration.rules import CLAUDE_TOOLS, PROJECT_CANNOT_ALLOW, add_rule
from qcode.protocol.approvals import RULE_EFFECTS

_KINDS: Mapping[str, str] = {"bash": "shell", "read": "read", "edit": "edit", "webfetch": "fetch"}
"""The kinds of rules of qcode by the tools of OpenCode that they cover."""
_OUTSIDE = "external_directory"
_FILE_TOOLS = ("Read", "Edit", "Write", "MultiEdit")


def add_opencode_rules(file: SettingsFile) -> None:
    """Add the rules in `permission`, and the tools that `tools` switches off."""
    # `"permission": "deny"`, one effect for all tools, is valid in OpenCode but not a table.
    file.report_invalid_table("permission", may_deny=file.values.get("permission") == "deny")
    table = file.table("permission")
    for position, (tool, value) in enumerate(table.items()):
        if tool == "*":
            _add_rules_for_all_tools(file, value, dict(list(table.items())[position + 1 :]))
        elif isinstance(value, Mapping):
            _add_patterns(file, tool, value)
        else:
            _add_rule(file, tool, "*", value, tool, file.location("permission", tool))
    for tool, is_offered in file.table("tools").items():  # the older form
        if is_offered is False:
            _add_rule(file, tool, "*", "deny", tool, file.location("tools", tool))


def _add_patterns(file: SettingsFile, tool: str, patterns: Mapping[str, object]) -> None:
    is_before_wildcard = "*" in patterns
    for pattern, effect in patterns.items():
        if pattern == "*":
            is_before_wildcard = False
        location = file.location("permission", tool, pattern)
        label = f"{tool} {pattern}"
        if effect == "allow" and is_before_wildcard:
            file.add(SourceSetting("rule", f"allow {label}", location, reason="a later rule decides"))
        else:
            _add_rule(file, tool, pattern, effect, label, location)


def _add_rules_for_all_tools(file: SettingsFile, effect: object, later: Mapping[str, object]) -> None:
    """Add the rule `*`, for every tool, except a tool whose value in `later` decides about all its calls."""
    location = file.location("permission", "*")
    if effect == "deny":
        kinds = [kind for tool, kind in _KINDS.items() if not _decides_all(later.get(tool))]
        changes = tuple(AddRule("deny", kind) for kind in (*kinds, "mcp"))
        file.add(SourceSetting("rule", "deny *", location, changes))
    elif effect == "ask":
        reason = "not needed: qcode asks, except for reading files and for commands that only read"
        file.add(SourceSetting("rule", "ask *", location, reason=reason))
    elif effect == "allow":
        reason = PROJECT_CANNOT_ALLOW if file.is_project else "a rule for every tool is not imported"
        file.add(SourceSetting("rule", "allow *", location, reason=reason))
    else:
        file.add(SourceSetting("rule", "*", location, reason="is neither allow nor ask nor deny"))


def _decides_all(value: object) -> bool:
    """Return whether the value of a tool decides about all its calls."""
    return isinstance(value, str) or (isinstance(value, Mapping) and "*" in value)


def _add_rule(file: SettingsFile, tool: str, pattern: str, value: object, label: str, location: str) -> None:
    """Add a finding for one rule. `label` names the rule for the user; `*` matches every use.

    `value` is the effect as it is in the file, so it may be of any type.
    """
    effect = next((known for known in RULE_EFFECTS if known == value), None)
    claude_tool = CLAUDE_TOOLS.get(tool.lower(), "") or _server_tool(file, tool) or tool
    covers_everything = pattern == "*"
    if effect is None:
        file.add(SourceSetting("rule", label, location, reason="is neither allow nor ask nor deny"))
    elif effect == "ask" and covers_everything:
        reason = "not needed: qcode asks, except for reading files and for commands that only read"
        file.add(SourceSetting("rule", f"ask {label}", location, reason=reason))
    elif effect == "allow" and covers_everything and claude_tool == "Bash":
        reason = "a rule for every command is not imported"
        file.add(SourceSetting("rule", f"allow {label}", location, reason=reason))
    elif effect == "deny" and tool == _OUTSIDE:
        reason = "qcode asks outside the workspace"
        file.add(SourceSetting("rule", f"deny {label}", location, reason=reason, is_lost_denial=True))
    elif effect == "deny" and "*" in claude_tool and not claude_tool.startswith(MCP_PREFIX):
        reason = "the pattern names no server of this file"
        file.add(SourceSetting("rule", f"deny {label}", location, reason=reason, is_lost_denial=True))
    else:
        rule = claude_tool
        if not covers_everything:
            rule = f"{claude_tool}({_rule_pattern(claude_tool, pattern)})"
        add_rule(file, effect, label, rule, "project", location)


def _rule_pattern(claude_tool: str, pattern: str) -> str:
    if claude_tool == "WebFetch":
        return f"domain:{pattern}"
    if claude_tool in _FILE_TOOLS and pattern.startswith("$HOME/"):
        return f"~/{pattern.removeprefix('$HOME/')}"
    return pattern


def _server_tool(file: SettingsFile, tool: str) -> str:
    """Return Claude Code's name of `SERVER_TOOL` or `SERVER_*`, empty if the file has no such server."""
    server = max((name for name in file.table("mcp") if tool.startswith(f"{name}_")), key=len, default="")
    return f"{MCP_PREFIX}{server}__{tool.removeprefix(f'{server}_')}" if server else ""
