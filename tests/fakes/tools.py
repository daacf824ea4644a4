"""The specs of the tools of qcode by name, for tests that judge calls."""

from __future__ import annotations

from qcode.agent.subagent_kinds import KINDS, subagent_tool
from qcode.protocol.tools import ToolSpec
from qcode.tools import registry
from qcode.tools.dialog import ExitPlanMode
from qcode.tools.web import Fetch
from qcode.tools.web_search import WebSearch

_AGENT = subagent_tool(KINDS, has_small_model=True)
assert _AGENT is not None
SPECS: dict[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        *(tool.spec for tool in registry.BUILTIN),
        ExitPlanMode.spec,
        Fetch.spec,
        WebSearch.spec,
        _AGENT.spec,
    )
}
"""Every tool that a session may offer, except those of servers, of the host of a model, and one-way tools."""


def spec_of(name: str) -> ToolSpec:
    """Return the spec of a tool of qcode; for any other name, a spec with only the name."""
    return SPECS.get(name) or ToolSpec(name, "", {})
