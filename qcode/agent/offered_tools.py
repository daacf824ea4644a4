"""The tools that the model is currently offered: their origin, the effect of a call in this mode, and their cost.

The functions at the end write these facts as text for the user.

Separate from `toolbox` because only `/tools` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qcode.agent.call_titles import verb
from qcode.engine.counting import estimate_tool
from qcode.protocol.tools import CommandExecution, FileAccess, NetworkAccess, ToolSpec
from qcode.safety.policy import Policy
from qcode.text.clean import one_line
from qcode.text.json import Json
from qcode.text.numbers import tokens_text
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class OfferedParameter:
    """A parameter of an offered tool."""

    name: str
    """The name; that of an optional parameter ends in `?`."""
    description: str
    """The description, or the type if there is none; may be empty."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model is currently offered. Texts from a tool server may contain control characters."""

    name: str
    description: str
    parameters: tuple[OfferedParameter, ...]
    origin: str
    """The origin of the tool as text for the user."""
    effect: str
    """The effect of a call in the current mode, in a few words."""
    tokens: int
    """The estimated tokens of the tool in each request."""
    server: str = ""
    """The tool server of the tool; empty if it is built in."""


_PROBE = "qcode-probe"
"""A placeholder for any file or program, which no rule names."""

_EFFECTS = {"allow": "runs", "ask": "asks first", "deny": "denied"}
_SHELL_EFFECTS = {
    "allow": "runs",
    "ask": "asks first unless the call only reads",
    "deny": "runs if the call only reads, denied otherwise",
}


def offered_tools(specs: Sequence[ToolSpec], policy: Policy, servers: Mapping[str, str]) -> tuple[OfferedTool, ...]:
    """Return the tools in the order of the request; `servers` maps the name of a tool to the name of its server."""
    return tuple(_offered_tool(spec, policy, servers.get(spec.name, "")) for spec in specs)


def _offered_tool(spec: ToolSpec, policy: Policy, server: str) -> OfferedTool:
    return OfferedTool(
        spec.name,
        spec.description,
        _parameters(spec),
        origin=_origin(spec, server),
        effect=_effect(spec, policy),
        tokens=estimate_tool(spec),
        server=server,
    )


def _origin(spec: ToolSpec, server: str) -> str:
    if spec.is_one_way:
        return "recorded, never run"
    return f"tool server {server}" if server else "built in"


def _effect(spec: ToolSpec, policy: Policy) -> str:
    """Return the effect of a call that no specific rule matches."""
    if spec.is_one_way:
        return "recorded"
    if spec.asks_user:
        return "asks you"
    safety = spec.safety
    if isinstance(safety, CommandExecution):
        verdict = policy.judge_command(_PROBE)
        return (_SHELL_EFFECTS if safety.command_argument else _EFFECTS)[verdict.verdict]
    if isinstance(safety, FileAccess):
        return _EFFECTS[policy.judge_file("." if safety.access == "read" else _PROBE, safety.access).verdict]
    is_fetch = isinstance(safety, NetworkAccess) and bool(safety.url_argument)
    verdict = policy.judge_url(f"https://{_PROBE}.example/") if is_fetch else policy.judge(spec, {})
    return _EFFECTS[verdict.verdict]


def _parameters(spec: ToolSpec) -> tuple[OfferedParameter, ...]:
    properties = spec.parameters.get("properties")
    schemas = properties if isinstance(properties, dict) else {}
    return tuple(
        OfferedParameter(name if name in spec.required else f"{name}?", _parameter_text(schema))
        for name, schema in schemas.items()
    )


def _parameter_text(schema: Json) -> str:
    text = schema.get("description") or schema.get("type") if isinstance(schema, dict) else ""
    return text if isinstance(text, str) else ""


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, sanitized and on one line."""
    line = one_line(text, 600)
    end = line.find(". ")
    return line if end < 0 else line[: end + 1]


def tools_heading(tools: Sequence[OfferedTool]) -> str:
    return f"Tools, {tokens_text(sum(tool.tokens for tool in tools))} tokens with each request"


def tool_title(tool: OfferedTool) -> str:
    """Return a tool by its word in the transcript, with its name if that differs: `Ask (ask_person)`."""
    title = verb(tool.name)
    name = one_line(tool.name)
    return title if title.lower() == name.lower() else f"{title} ({name})"


def tools_text(tools: Sequence[OfferedTool]) -> str:
    """Return two lines for each tool, then the heading as the sum."""
    rows = [
        f"{tool_title(tool)}: {tool.effect} ({tool.origin}, {tokens_text(tool.tokens)} tokens)\n"
        f"  {first_sentence(tool.description)}"
        for tool in tools
    ]
    return "\n".join([*rows, "", tools_heading(tools)])


def tool_text(tool: OfferedTool) -> str:
    """Return the details of one tool."""
    lines = [
        f"{tool.effect} · {tool.origin} · {tokens_text(tool.tokens)} tokens with each request",
        "",
        one_line(tool.description, 4_000),
        *(["", "Arguments"] if tool.parameters else []),
        *(f"  {one_line(parameter.name)}  {one_line(parameter.description)}" for parameter in tool.parameters),
    ]
    if tool.server:
        lines += ["", f"/mcp {tool.server} shows its server."]
    return "\n".join(lines)
