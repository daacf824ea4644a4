"""One server of a session: its state, its tools, and the approval for which it waits.

Separate from `servers`, which changes the state; `connection` runs the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from qcode.agent.mcp.pins import Pins, ToolChange, login_question, start_question, tools_question
from qcode.agent.mcp.spec import ServerSpec, ServerState, ServerStatus, ServerTool
from qcode.agent.trust.store import TrustedFile
from qcode.protocol.approvals import ServerApproval
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.mcp.connection import ServerConnection
    from qcode.agent.mcp.session import ServerListing
    from qcode.agent.mcp.tools import CheckedTool


@dataclass(slots=True)
class Server:
    """A server and its state in this session."""

    spec: ServerSpec
    state: ServerState
    problem: str = ""
    """Why the server does not run, in one line."""
    tools: tuple[CheckedTool, ...] = ()
    listing: ServerListing | None = None
    changes: tuple[ToolChange, ...] = ()
    """The tools that differ from their approval, and are not offered until the user approves them."""
    is_refused: bool = False
    """The user declined the pending approval, so it is not shown again in this session."""
    files: Mapping[str, TrustedFile] = field(default_factory=dict)
    """The files that the server would start, as last read."""
    approved_files: Mapping[str, TrustedFile] | None = None
    """The files that the user approved in this session."""
    connection: ServerConnection | None = None
    run_task: asyncio.Task[None] | None = None
    sign_in_task: asyncio.Task[None] | None = None
    can_sign_in: bool = False
    """The server refuses requests and a browser can be opened, so qcode asks the user to sign in."""
    login_problem: str = ""
    """Why the server refuses requests, in the state `sign-in`."""

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """The tasks that run the server, and a login that waits for the browser."""
        return tuple(filter(None, (self.run_task, self.sign_in_task)))

    @property
    def has_pending_approval(self) -> bool:
        return not self.is_refused and (self.state == "waiting" or self.can_sign_in or bool(self.changes))

    def cancel(self) -> None:
        for task in self.tasks:
            task.cancel()

    @property
    def offered_tools(self) -> list[CheckedTool]:
        """The tools that a model can call: those of a running server that are valid and approved."""
        if self.state != "ready":
            return []
        disabled = {change.tool for change in self.changes}
        return [tool for tool in self.tools if not tool.problem and tool.spec.name not in disabled]

    def enter(self, state: ServerState, problem: str = "") -> None:
        """Set a state in which the server offers no tools, and forget its tools and their changes."""
        self.state, self.problem = state, problem
        self.tools, self.changes = (), ()

    def status(self) -> ServerStatus:
        pending = {change.tool: "new" if change.before is None else "changed" for change in self.changes}
        tools = tuple(
            ServerTool(
                tool.spec.name,
                tool.spec.description,
                tool.problem or (f"{pending[tool.spec.name]}, not approved" if tool.spec.name in pending else ""),
            )
            for tool in self.tools
        )
        log = self.connection.log.text if self.connection is not None else ""
        spec = self.spec
        return ServerStatus(spec.name, self.state, spec.target, str(spec.origin), tools, self.problem, log)

    def approval(self, pins: Pins) -> ServerApproval:
        """Return the pending approval."""
        if self.state == "sign-in":
            return login_question(self.spec, self.login_problem)
        if self.state == "waiting":
            return start_question(self.spec, pins, self.files)
        return tools_question(self.spec, self.changes)
