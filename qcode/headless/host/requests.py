"""Carries out control requests of the host. A function raises `ValueError` if its request is invalid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.claude.rules import NEVER_ASKS, QCODE_MODES
from qcode.agent.context.project import resolve_added_folder
from qcode.agent.context.window import ContextReport
from qcode.headless.host.lines import Names, status_line
from qcode.headless.host.wire import HostWire
from qcode.headless.lines import line_id
from qcode.protocol.approvals import claude_mode
from qcode.protocol.errors import QcodeError
from qcode.protocol.events import Notice
from qcode.protocol.model import Effort, effort_of_budget
from qcode.text.clean import shown_line
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.mcp.spec import Connect, ServerStatus

_STATES = {
    "ready": "connected",
    "failed": "failed",
    "sign-in": "needs-auth",
    "starting": "pending",
    "waiting": "pending",
    "off": "disabled",
    "refused": "disabled",
    "restricted": "disabled",
}
_BYTES_PER_TOKEN = 4  # an estimate
_NAME_TAKEN = "the configuration has a server of this name"


class RunControls:
    """The settings of one run that the host reads and changes, in the words of Claude Code.

    `interrupt` ends the running turn as cancelled.
    """

    def __init__(self, agent: Agent, wire: HostWire, interrupt: Callable[[], None]) -> None:
        self.interrupt = interrupt
        self._agent = agent
        self._wire = wire
        options = agent.context.options
        self._reported_mode = self.mode
        self._can_bypass = options.permission_mode == "bypass" or options.allow_dangerously_skip_permissions

    @property
    def names(self) -> Names:
        """The translation of calls to the names of Claude Code."""
        servers = self._agent.servers
        return Names(str(self._agent.context.folder), {} if servers is None else servers.original_names())

    @property
    def mode(self) -> str:
        """The permission mode in Claude Code's words."""
        conversation = self._agent.conversation
        return NEVER_ASKS if conversation.policy.never_asks else claude_mode(conversation.mode)

    def ids(self) -> JsonObject:
        """Return the fields that identify a line."""
        return {"session_id": self._agent.conversation.session_id, "uuid": line_id()}

    def notice(self, notice: Notice) -> None:
        """Send a notice to the host."""
        line: JsonObject = {"type": "system", "subtype": "notice", "level": notice.level, "text": notice.text}
        self._wire.send_soon({**line, **self.ids()})

    def set_mode(self, mode: str) -> None:
        """Switch the permission mode, named as Claude Code does; raise `ValueError` with one line."""
        qcode_mode = QCODE_MODES.get(mode)
        if qcode_mode is None:
            raise ValueError(f'unknown permission mode "{shown_line(mode, 40)}"; there are {", ".join(QCODE_MODES)}')
        if qcode_mode == "bypass" and not self._can_bypass:
            raise ValueError("bypassPermissions needs --allow-dangerously-skip-permissions")
        self._agent.permissions.set_never_asks(mode == NEVER_ASKS)
        self._agent.conversation.set_mode(qcode_mode)
        self._report_mode()  # also if the mode is the same, as an answer to the host

    def report_mode_change(self) -> None:
        """Send the permission mode to the host if it has changed, for example by the approval of a plan."""
        if self.mode != self._reported_mode:
            self._report_mode()

    def _report_mode(self) -> None:
        self._reported_mode = self.mode
        self._wire.send_soon({**status_line(None, self.mode), **self.ids()})

    def add_folders(self, folders: list[Json]) -> None:
        """Add folders to the workspace for this run; raise `ValueError` with one line."""
        try:
            added = [resolve_added_folder(str(folder)) for folder in folders]
        except QcodeError as problem:
            raise ValueError(str(problem)) from None
        self._agent.use_folders(tuple(dict.fromkeys((*self._agent.context.added_folders, *added))))

    def remove_folders(self, folders: list[Json]) -> None:
        """Remove added folders from the workspace for this run."""
        removed = {Path(str(folder)) for folder in folders}
        self._agent.use_folders([path for path in self._agent.context.added_folders if path not in removed])


def effort_of(tokens: Json) -> Effort | None:
    """Return the reasoning effort for a number of thinking tokens, None (the default of the model) for null."""
    match tokens:
        case None:
            return None
        case int() if not isinstance(tokens, bool) and tokens >= 0:
            return effort_of_budget(tokens)
        case _:
            raise ValueError("max_thinking_tokens must be a whole number of at least 0, or null")


def server_state(state: str) -> str:
    """Return the state of a tool server in the words of Claude Code."""
    return _STATES.get(state, state)


def mcp_status(agent: Agent) -> JsonObject:
    """Return the tool servers and their tools."""
    statuses = agent.servers.statuses() if agent.servers is not None else ()
    return {"mcpServers": [_server(status) for status in statuses]}


def _server(status: ServerStatus) -> JsonObject:
    tools: list[Json] = [{"name": tool.name.partition("__")[2] or tool.name} for tool in status.tools]
    return {
        "name": status.name,
        "status": server_state(status.state),
        "scope": status.origin,
        **({"error": status.problem} if status.problem else {}),
        **({"tools": tools} if status.state == "ready" else {}),
    }


def prompt_names(agent: Agent) -> tuple[str, ...]:
    """Return the prompts of the tool servers that run now, as Claude Code names such commands."""
    if agent.servers is None:
        return ()
    from qcode.agent.mcp.mentions import prompts_of

    return tuple(f"mcp__{prompt.handle.replace(':', '__', 1)}" for prompt in prompts_of(agent.servers))


def context_usage(agent: Agent) -> JsonObject:
    """Return the use of the context window by category."""
    conversation = agent.conversation
    report = conversation.context_report()
    offered = agent.offered_tools()
    memory = agent.prompts.instructions
    return {
        "categories": [*_categories(report)],
        "totalTokens": report.used,
        "maxTokens": report.window,
        "rawMaxTokens": report.window,
        "percentage": round(100 * report.used / report.window) if report.window else 0,
        "gridRows": [],  # the picture that Claude Code draws; hosts require the field
        "model": conversation.model,
        "memoryFiles": [
            {"path": str(file.path), "type": "Project", "tokens": file.used_bytes // _BYTES_PER_TOKEN}
            for file in memory.files
        ],
        "mcpTools": [
            {"name": tool.name, "serverName": tool.server, "tokens": tool.tokens} for tool in offered if tool.server
        ],
        "agents": [
            {"agentType": kind.name, "source": "built-in", "tokens": len(kind.purpose) // _BYTES_PER_TOKEN}
            for kind in conversation.kinds
        ],
    }


def _categories(report: ContextReport) -> list[JsonObject]:
    rows = (
        ("system_prompt", "System prompt", report.system, "blue", "used"),
        ("memory_files", "Memory files", report.instructions, "magenta", "used"),
        ("system_tools", "Tools", report.tools, "cyan", "used"),
        ("messages", "Messages", report.messages, "green", "used"),
        ("messages", "Tool output", report.tool_output, "yellow", "used"),
        ("autocompact_buffer", "Reply reserve", report.reserve, "gray", "buffer"),
        ("free_space", "Free space", report.free, "white", "free"),
    )
    return [
        {"id": category, "name": name, "tokens": tokens, "color": color, "kind": kind}
        for category, name, tokens, color, kind in rows
    ]


async def server_request(agent: Agent, subtype: str, request: JsonObject) -> JsonObject:
    """Carry out a request about tool servers and return its answer."""
    if subtype == "mcp_status":
        return mcp_status(agent)
    name, servers = request.get("serverName"), agent.servers
    if not isinstance(name, str):
        raise ValueError("serverName must be the name of a tool server")
    if servers is None or not any(status.name == name for status in servers.statuses()):
        raise ValueError(f'there is no tool server "{shown_line(name, 80)}"')
    if subtype == "mcp_toggle":
        servers.switch(name, is_on=request.get("enabled") is not False)
    else:
        servers.restart(name)
    return {}


async def set_servers(
    agent: Agent, request: JsonObject, connections: Callable[[Sequence[str]], Mapping[str, Connect]]
) -> JsonObject:
    """Replace the tool servers that the host set; return the changes, and why a server cannot be used.

    `connections` returns the functions that connect to servers inside the host, by name.
    """
    from qcode.agent.mcp.spec import client_servers

    rows = request.get("servers")
    if not isinstance(rows, dict):
        raise ValueError("mcp_set_servers needs servers: {NAME: {...}}")
    host_names = [name for name, row in rows.items() if isinstance(row, dict) and row.get("type") == "sdk"]
    started = client_servers({name: row for name, row in rows.items() if name not in host_names}, "the host")
    # A server inside the host has no command; `connect` replaces the placeholder.
    in_host = client_servers({name: {"command": name} for name in host_names}, "the host")
    connect = connections(host_names)
    replaced = agent.replace_servers(
        (*started.specs, *(replace(spec, connect=connect[spec.name]) for spec in in_host.specs))
    )
    errors: JsonObject = {**started.problems, **in_host.problems, **dict.fromkeys(replaced.ignored, _NAME_TAKEN)}
    await agent.toolbox.wait_for_servers()
    for status in agent.servers.statuses() if agent.servers is not None else ():
        if status.name in replaced.added and status.problem:
            errors[status.name] = status.problem
    return {"added": [*replaced.added], "removed": [*replaced.removed], "errors": errors}
