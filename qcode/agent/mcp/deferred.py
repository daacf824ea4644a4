"""Deferred tools: not sent with each request; the model searches for them and calls them by name.

`find_tools` and `use_tool` are fixed, so that the cached prefix of a request stays the same. A call of `use_tool` is
checked, shown and run as a call of the tool that it names (`Toolbox.resolve_call`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from qcode.agent.mcp.spec import split_name
from qcode.engine.counting import estimate_text, estimate_tool
from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import first_chars
from qcode.text.json import Json, JsonObject
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.arguments import validate_arguments
from qcode.tools.tool import CallToRun, Preview, ToolRunContext, failed
from qcode.tools.workspace import Workspace

MAX_HITS = 8
"""The maximum number of tools that `find_tools` returns."""
MAX_HIT_CHARS = 6_000
"""The maximum length of one tool in a result; a longer one is truncated."""
MAX_INDEX_TOKENS = 2_000
"""The maximum estimated size of the list of servers and tools in the description of `find_tools`."""
DEFER_SHARE = 0.1
"""Tools are deferred if they take more than this share of the context window."""

FIND, USE = "find_tools", "use_tool"
_WORD = lazy_pattern(r"[^\W\d_]+|[0-9]+")
_FIND = ToolSpec(
    name=FIND,
    description=(
        "Search the tools of the connected servers that are not in your list of tools. Returns up to "
        f"{MAX_HITS} tools with name, description and parameters; call one with {USE}. The servers and their tools:\n"
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words from the name or the description of the tool."},
            "server": {"type": "string", "description": "Search only this server."},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    is_read_only=True,
    safety="harmless",
)
_USE = ToolSpec(
    name=USE,
    description=f"Call a tool of a connected server, with the name and the parameters that {FIND} returned.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool, such as tracker__search."},
            "arguments": {"type": "object", "description": "The arguments, as its parameters require."},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    safety="harmless",
)


def estimate_tokens(specs: Sequence[ToolSpec]) -> int:
    """Return the estimated number of tokens that tools take in a request."""
    return sum(map(estimate_tool, specs))


def search_specs(tools: Mapping[str, Sequence[str]]) -> tuple[ToolSpec, ToolSpec]:
    """Return `find_tools` and `use_tool`; `tools` has the names of the deferred tools by server."""
    lines, remaining = [], MAX_INDEX_TOKENS
    for server, names in tools.items():
        line = f"{server} ({count_text(len(names), 'tool')}): {', '.join(names)}"
        size = estimate_text(line)
        if size > remaining:
            # A token is estimated as four bytes; with three characters a token, the ", ..." fits too.
            name_list = line[: remaining * 3].rpartition(", ")[0]
            line = f"{name_list}, ..." if name_list else f"{server} ({count_text(len(names), 'tool')})"
        remaining = max(0, remaining - estimate_text(line))
        lines.append(line)
    return replace(_FIND, description=_FIND.description + "\n".join(lines)), _USE


def rank_tools(query: str, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return up to `MAX_HITS` tools that have words of the query in name or description, the best first.

    A match in the name counts three times as much as one in the description. A whole word counts more than a part of a
    word: 7 finds `page7` before `page17`.
    """
    words = set(_WORD.findall(query.lower()))

    def score(spec: ToolSpec) -> int:
        name, description = spec.name.lower(), spec.description.lower()
        exact = 10 if query.strip().lower() in (name, name.partition("__")[2]) else 0
        name_words = words.intersection(_WORD.findall(name))
        description_words = words.intersection(_WORD.findall(description))
        partial = sum(3 * (word in name) + (word in description) for word in words)
        return 2 * (exact + partial) + 3 * len(name_words) + len(description_words)

    scores = {spec.name: score(spec) for spec in specs}
    hits = [spec for spec in specs if scores[spec.name]]
    return sorted(hits, key=lambda spec: (-scores[spec.name], spec.name))[:MAX_HITS]


class FindTools:
    """The `find_tools` tool. `tools` returns the tools that the servers currently offer."""

    spec = _FIND

    def __init__(self, tools: Callable[[], Sequence[ToolSpec]]) -> None:
        self._tools = tools

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            validate_arguments(self.spec, arguments)
        except Refused as refused:
            return Preview("Search tools?", detail="", refusal=str(refused))
        return Preview("Search tools?", detail="")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            checked = validate_arguments(self.spec, arguments)
        except Refused as refused:
            return failed(str(refused))
        server = checked.text("server")
        tools = [spec for spec in self._tools() if not server or spec.name.startswith(f"{server}__")]
        hits = rank_tools(checked.text("query"), tools)
        servers = sorted({split_name(spec.name).server for spec in self._tools()})
        if not servers:
            text = "No server offers tools now. Continue without them, or ask the user to check the servers."
            return ToolOutcome(text, summary="no tool")
        if server and server not in servers:
            text = f"There is no server {json.dumps(server)[:100]} with tools. Use one of: {', '.join(servers)}."
            return ToolOutcome(text, summary="no tool")
        if not hits:
            return ToolOutcome(
                f"No tool matches. Use other words, or a name in the description of {FIND}.", summary="no tool"
            )
        return ToolOutcome("\n\n".join(map(_description_json, hits)), summary=count_text(len(hits), "tool"))


def _description_json(spec: ToolSpec) -> str:
    row: dict[str, Json] = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return first_chars(json.dumps(row, ensure_ascii=False), MAX_HIT_CHARS)


class UseTool:
    """The `use_tool` tool. qcode replaces a call that `resolve` accepts, so `run` gets only calls to reject."""

    spec = _USE

    def __init__(self, tools: Callable[[], Sequence[ToolSpec]]) -> None:
        self._tools = tools

    def resolve(self, arguments: JsonObject) -> CallToRun:
        """Return the call that `arguments` describe.

        Raise `Refused` if the tool does not exist or arguments are missing.
        """
        name, tool_arguments = arguments.get("name"), arguments.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(tool_arguments, dict):
            raise Refused(f"{USE}: name must be a string and arguments must be an object, as {FIND} returned them.")
        spec = next((tool for tool in self._tools() if tool.name == name), None)
        if spec is None:
            complete_names = [tool.name for tool in self._tools() if name and split_name(tool.name).tool == name]
            hint = f"Search for it with {FIND}."
            if complete_names:
                hint = f"Use the complete name: {' or '.join(complete_names[:MAX_HITS])}."
            raise Refused(f"{USE}: there is no tool {json.dumps(name)[:100]}. {hint}")
        missing = [name for name in spec.required if name not in tool_arguments]
        if missing:
            schema = json.dumps(dict(spec.parameters), ensure_ascii=False)[:MAX_HIT_CHARS]
            raise Refused(f"{USE}: {spec.name} needs {', '.join(missing)} in arguments. Its parameters: {schema}")
        return CallToRun(spec.name, tool_arguments)

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            self.resolve(arguments)
        except Refused as refused:
            return Preview("Use a tool?", detail="", refusal=str(refused))
        return Preview("Use a tool?", detail="")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            call = self.resolve(arguments)
        except Refused as refused:
            return failed(str(refused))
        return failed(f"{USE}: {call.name} was not available when the call was checked. Call it again.")
