"""Converts Claude Code's permission rules and modes to qcode's. Pure.

An allow rule becomes an equal or narrower rule, or no rule. A deny or ask rule becomes an equal or broader rule if
there is one. `RuleConversion.loss` says which calls the result does not cover. In a rule for Bash, `*` spans words and
a final `:*` means a prefix. In qcode, a wildcard matches within one word, except a final ` *`.
See code.claude.com/docs/en/permissions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from qcode.agent.claude.tool_names import MCP_PREFIX, qcode_name
from qcode.protocol.approvals import ApprovalMode, RuleEffect
from qcode.safety.rules import is_rule
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

RuleSource: TypeAlias = Literal["flag", "user", "project"]
"""The origin of a rule. A path `/a` is relative to `~/.claude` in the user's settings, otherwise to the project."""

QCODE_MODES: Mapping[str, ApprovalMode] = {
    "default": "default",
    "acceptEdits": "accept-edits",
    "plan": "plan",
    "auto": "auto",
    "bypassPermissions": "bypass",
    "dontAsk": "default",
}
"""The modes of qcode by Claude Code's names."""

NEVER_ASKS = "dontAsk"
"""The mode that denies every call that would need an approval (`Options.never_asks`)."""

_FILE_KINDS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
}
_HARMLESS_TOOLS = (
    "Agent",
    "Task",
    "Skill",
    "TodoWrite",
    "TodoRead",
    "AskUserQuestion",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "LS",
)
"""Tools that need no approval in qcode. The calls of a sub-agent are judged one by one."""
_JOB_TOOLS = ("BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop")
_RULE = lazy_pattern(r"([^()]+)\((.*)\)", re.DOTALL)
_PLAIN_WORD = lazy_pattern(r"[\w./@%+:=-]+")
_HOST = lazy_pattern(r"(?:\*\.)?[a-z0-9.-]+(?::\d+)?|\[[0-9a-f:]+\](?::\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RuleConversion:
    """The result of converting one rule."""

    rules: tuple[str, ...] = ()
    """The rules of qcode that replace the rule."""
    tools: tuple[str, ...] = ()
    """The tools that must not be offered at all; only for a deny rule."""
    loss: str = ""
    """The part of the rule that `rules` and `tools` do not cover; empty if they cover the whole rule."""
    note: str = ""
    """A remark on a result without loss."""


def is_claude_rule(text: str) -> bool:
    """Return whether a rule has Claude Code's format: its tools begin with a capital letter or with `mcp__`."""
    return text[:1].isupper() or text.startswith(MCP_PREFIX)


def convert_rule(text: str, effect: RuleEffect, source: RuleSource = "flag") -> RuleConversion:
    """Convert a rule of Claude Code to rules of qcode.

    From a flag, `Bash` may allow every command, as `--allowed-tools shell` does; from a file it may not.
    """
    rule = text.strip()
    match = _RULE.fullmatch(rule)
    if match is None and "(" in rule:
        return RuleConversion(loss="the closing parenthesis is missing")
    tool = rule if match is None else match[1].strip()
    body = "" if match is None else match[2].strip()
    if body in ("*", "**"):
        body = ""
    if tool.startswith(MCP_PREFIX):
        return _convert_server(tool, body, effect)
    if tool == "Bash":
        return _convert_shell(body, effect, source) if body else _convert_bare_tool("shell", effect, source)
    if tool in _FILE_KINDS:
        return _convert_file(tool, body, effect, source)
    if tool == "WebFetch":
        return _convert_fetch(body, effect)
    return _convert_other(tool, body, effect, source)


def _convert_bare_tool(kind: str, effect: RuleEffect, source: RuleSource) -> RuleConversion:
    """Convert a rule without a pattern, which covers every call of a tool."""
    if effect == "allow" and kind == "shell" and source != "flag":
        return RuleConversion(loss="a rule for every command is not imported; add `shell` yourself if you want it")
    return RuleConversion((kind,))


def _convert_shell(body: str, effect: RuleEffect, source: RuleSource) -> RuleConversion:
    """Convert the pattern of a Bash rule."""
    is_prefix = body.endswith((":*", " *"))
    words = (body[:-2] if is_prefix else body).split()
    if not words:
        return _convert_bare_tool("shell", effect, source)
    if effect == "allow":
        return _convert_allowed_command(words, is_prefix=is_prefix)
    return _convert_restricted_command(words, is_prefix=is_prefix)


def _convert_allowed_command(words: Sequence[str], *, is_prefix: bool) -> RuleConversion:
    """Convert an allow rule: `git log:*` becomes `shell(git log *)`, and `npm run*` becomes `shell(npm run* *)`."""
    if "*" in words[0]:
        return RuleConversion(loss="a rule must name the program; this one would allow any")
    text = " ".join(words)
    if ":*" in text or "?" in text:
        return RuleConversion(loss="the pattern has no equivalent that is as narrow")
    # `npm run*` also matches `npm run x`: in Claude Code's rules `*` spans words.
    allows_more_words = is_prefix or ("*" in words[-1] and words[-1] != "*")
    rule = f"shell({text} *)" if allows_more_words else f"shell({text})"
    if not is_rule(rule):
        return RuleConversion(loss="only one plain command can be allowed")
    has_inner_wildcard = any("*" in word for word in words[:-1])
    return RuleConversion((rule,), note="in qcode `*` inside a rule matches one word" if has_inner_wildcard else "")


def _convert_restricted_command(words: Sequence[str], *, is_prefix: bool) -> RuleConversion:
    """Convert a deny or ask rule to a rule that covers at least as much: `rm *.txt` becomes `shell(rm *)`."""
    wildcard_index = next((index for index, word in enumerate(words) if "*" in word), None)
    if wildcard_index == 0:
        return _convert_restricted_program(words[0])
    if wildcard_index is None:
        rule = f"shell({' '.join(words)} *)" if is_prefix else f"shell({' '.join(words)})"
    else:
        prefix = list(words[:wildcard_index])
        stem = words[wildcard_index].partition("*")[0]
        if stem:  # `foo*bar` becomes `foo*`
            prefix.append(f"{stem}*")
        rule = f"shell({' '.join(prefix)} *)"
    if is_rule(rule):
        return RuleConversion((rule,))
    # `a && b` and `rm $HOME/x` cannot be written as a rule; a rule for the plain words at the start covers more.
    plain_words: list[str] = []
    for word in words:
        if not _PLAIN_WORD.fullmatch(word):
            break
        plain_words.append(word)
    rule = f"shell({' '.join(plain_words)} *)"
    if plain_words and is_rule(rule):
        return RuleConversion((rule,))
    return RuleConversion(loss="the pattern cannot be written as a rule")


def _convert_restricted_program(pattern: str) -> RuleConversion:
    """Convert a deny or ask rule whose first word has a wildcard: `rm*` and `rm:* x` become `shell(rm *)`."""
    program = pattern.partition("*")[0].removesuffix(":")
    rule = f"shell({program} *)"
    if not program or not is_rule(rule):
        return RuleConversion(loss="a rule must name the program; this one covers any")
    return RuleConversion((rule,), loss=f"covers the program {program}, but not others whose names begin with that")


def _convert_file(tool: str, body: str, effect: RuleEffect, source: RuleSource) -> RuleConversion:
    kind = _FILE_KINDS[tool]
    if not body:
        name = qcode_name(tool)
        if effect == "deny" and source == "flag" and tool not in ("Read", "Edit"):
            return RuleConversion(tools=(name,))
        return RuleConversion((kind,))
    pattern = _convert_path(body, effect, source)
    if ".." in pattern.split("/"):
        # `../x` is outside the folder, where qcode asks about every file anyway.
        return RuleConversion(
            loss="no rule can be written for a path above the folder; qcode always asks about files there"
        )
    rule = f"{kind}({pattern})"
    if is_rule(rule):
        return RuleConversion((rule,))
    if effect == "allow":
        return RuleConversion(loss="the pattern cannot be written as a rule")
    return RuleConversion((kind,))


def _convert_path(body: str, effect: RuleEffect, source: RuleSource) -> str:
    """Convert the path of a file rule; see `RuleSource` for a path `/a`."""
    if body.startswith("//"):
        return body[1:]
    if body.startswith("~/"):
        return body
    if body.startswith("/"):
        return f"~/.claude{body}" if source == "user" else f".{body}"
    if body.startswith("./") or effect != "allow":
        return body
    return f"./{body}"


def _convert_fetch(body: str, effect: RuleEffect) -> RuleConversion:
    host = body.removeprefix("domain:").strip().lower()
    if not body or host == "*":
        return RuleConversion(("fetch",))
    rule = f"fetch({host})"
    if body.startswith("domain:") and _HOST.fullmatch(host) and is_rule(rule):
        return RuleConversion((rule,))
    if effect == "allow":
        return RuleConversion(loss="only a host can be allowed: WebFetch(domain:HOST)")
    return RuleConversion(("fetch",))


def _convert_server(tool: str, body: str, effect: RuleEffect) -> RuleConversion:
    if body:
        if effect == "allow":
            return RuleConversion(loss="a rule about the arguments of a server's tool allows nothing here")
        # A rule for all arguments is broader.
        return RuleConversion(_convert_server(tool, body="", effect="ask").rules)
    server, _, name = tool.removeprefix(MCP_PREFIX).partition("__")
    is_pattern = "*" in name and name != "*"  # such as `get_*`, which no rule of qcode can express
    if is_pattern and effect == "allow":
        return RuleConversion(loss="name the tool, or use mcp__SERVER for all of them")
    is_one_tool = bool(name) and "*" not in name
    rule = f"mcp({server}/{name})" if is_one_tool else f"mcp({server}/*)"
    if is_rule(rule):
        hidden_tools = (qcode_name(tool),) if effect == "deny" and is_one_tool else ()
        return RuleConversion((rule,), hidden_tools)
    if effect == "allow":
        return RuleConversion(loss="the name does not name a server and a tool")
    return RuleConversion(("mcp",))


def _convert_other(tool: str, body: str, effect: RuleEffect, source: RuleSource) -> RuleConversion:
    """Convert a rule of a tool that no kind of rule covers."""
    if effect == "allow":
        if tool in _HARMLESS_TOOLS or tool in _JOB_TOOLS:
            return RuleConversion(note="needs no rule in qcode")
        return RuleConversion(loss=f"{tool} is not a tool of qcode")
    if body:
        return RuleConversion(loss=f"a rule about the arguments of {tool} has no equivalent")
    name = "jobs" if tool in _JOB_TOOLS else qcode_name(tool)
    if name == tool:
        return RuleConversion(loss=f"{tool} is not a tool of qcode")
    if effect == "ask" or source != "flag":
        return RuleConversion(loss=f"no rule covers {tool}; use --disallowed-tools")
    return RuleConversion(tools=(name,))
