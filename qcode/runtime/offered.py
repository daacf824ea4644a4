"""The tools as the model is offered them now: where each comes from, what a call of it does in this mode, its cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from qcode.engine.counting import TOKENS_PER_MESSAGE, estimate_text
from qcode.protocol.controls import OfferedTool
from qcode.protocol.json import Json, JsonObject
from qcode.protocol.tools import ToolSpec
from qcode.safety.calls import READERS, WRITERS
from qcode.safety.policy import Policy

_PROBE = "qcode-probe"
"""Stands for any file or program: no rule that means something else names it."""

_WORDS = {"allow": "runs", "ask": "asks first", "deny": "denied"}
_SHELL_WORDS = {
    "allow": "runs",
    "ask": "asks first, runs at once what only reads",
    "deny": "runs what only reads, all else is denied",
}


def offered_tools(specs: Sequence[ToolSpec], policy: Policy, servers: Mapping[str, str]) -> tuple[OfferedTool, ...]:
    """Return the tools in the order the model sees them; `servers` maps names of tools to that of their server."""
    return tuple(_tool(spec, policy, servers.get(spec.name, "")) for spec in specs)


def _tool(spec: ToolSpec, policy: Policy, server: str) -> OfferedTool:
    origin = "recorded, never run" if spec.is_one_way else f"tool server {server}" if server else "built in"
    size = estimate_text(spec.description) + estimate_text(json.dumps(spec.parameters)) + TOKENS_PER_MESSAGE
    return OfferedTool(spec.name, spec.description, _parameters(spec), origin, _standing(spec, policy), size, server)


def _standing(spec: ToolSpec, policy: Policy) -> str:
    """Say what a call does that no special rule is about."""
    if spec.is_one_way:
        return "recorded"
    if spec.asks_person:
        return "asks you"
    name = spec.name
    if name == "shell" or name == "diagnostics":
        verdict = policy.judge("shell", {"command": _PROBE}).verdict
        return _SHELL_WORDS[verdict] if name == "shell" else _WORDS[verdict]
    return _WORDS[policy.judge(name, _probe(name)).verdict]


def _probe(name: str) -> JsonObject:
    if name in READERS:
        return {"path": "."}
    if name in WRITERS:
        return {"path": _PROBE}
    if name == "apply_patch":
        return {"input": f"*** Begin Patch\n*** Add File: {_PROBE}\n+x\n*** End Patch"}
    return {"url": "https://qcode-probe.example/"} if name == "fetch" else {}


def _parameters(spec: ToolSpec) -> tuple[tuple[str, str], ...]:
    """Return the names of the parameters with what is said about each."""
    properties = spec.parameters.get("properties")
    rows = properties.items() if isinstance(properties, dict) else ()
    return tuple((f"{name}{'' if name in spec.required else '?'}", _about(value)) for name, value in rows)


def _about(value: Json) -> str:
    said = value.get("description") or value.get("type") if isinstance(value, dict) else ""
    return said if isinstance(said, str) else ""
