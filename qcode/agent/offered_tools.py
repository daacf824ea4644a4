"""The tools that the model is currently offered: their origin, the effect of a call in this mode, and their cost.

Separate from `toolbox` because only `/tools` imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from qcode.engine.counting import TOKENS_PER_MESSAGE, estimate_text
from qcode.protocol.tools import Fetches, Files, Runs, ToolSpec
from qcode.safety.policy import Policy
from qcode.text.json import Json
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model is currently offered. `origin` is text for the user, `server` its tool server.

    `effect` describes in a few words the effect of a call in this mode. `tokens` estimates the cost of its
    description in each request. Description and parameters may be foreign text.
    """

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...]
    origin: str
    effect: str
    tokens: int
    server: str = ""


_PROBE = "qcode-probe"
"""A placeholder for any file or program, which no rule names."""

_WORDS = {"allow": "runs", "ask": "asks first", "deny": "denied"}
_SHELL_WORDS = {
    "allow": "runs",
    "ask": "asks first unless the call only reads",
    "deny": "runs if the call only reads, denied otherwise",
}


def offered_tools(specs: Sequence[ToolSpec], policy: Policy, servers: Mapping[str, str]) -> tuple[OfferedTool, ...]:
    """Return the tools in the order of the request; `servers` maps the name of a tool to the name of its server."""
    return tuple(_tool(spec, policy, servers.get(spec.name, "")) for spec in specs)


def _tool(spec: ToolSpec, policy: Policy, server: str) -> OfferedTool:
    origin = "recorded, never run" if spec.is_one_way else f"tool server {server}" if server else "built in"
    size = estimate_text(spec.description) + estimate_text(json.dumps(spec.parameters)) + TOKENS_PER_MESSAGE
    return OfferedTool(spec.name, spec.description, _parameters(spec), origin, _effect(spec, policy), size, server)


def _effect(spec: ToolSpec, policy: Policy) -> str:
    """Return the effect of a call that no specific rule matches."""
    if spec.is_one_way:
        return "recorded"
    if spec.asks_user:
        return "asks you"
    safety = spec.safety
    if isinstance(safety, Runs):
        verdict = policy.judge_command(_PROBE)
        return (_SHELL_WORDS if safety.command else _WORDS)[verdict.verdict]
    if isinstance(safety, Files):
        return _WORDS[policy.judge_file("." if safety.access == "read" else _PROBE, safety.access).verdict]
    is_fetch = isinstance(safety, Fetches) and bool(safety.url)
    verdict = policy.judge_url(f"https://{_PROBE}.example/") if is_fetch else policy.judge(spec, {})
    return _WORDS[verdict.verdict]


def _parameters(spec: ToolSpec) -> tuple[tuple[str, str], ...]:
    """Return the names of the parameters, each with its description."""
    properties = spec.parameters.get("properties")
    rows = properties.items() if isinstance(properties, dict) else ()
    return tuple((f"{name}{'' if name in spec.required else '?'}", _argument_text(value)) for name, value in rows)


def _argument_text(value: Json) -> str:
    text = value.get("description") or value.get("type") if isinstance(value, dict) else ""
    return text if isinstance(text, str) else ""
