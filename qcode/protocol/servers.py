"""Tool servers as front ends see them: how each one is, what waits for the person, and what the person can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from qcode.protocol.approvals import Decision, ServerApproval
from qcode.protocol.events import Notice
from qcode.values import dataclass

ServerState: TypeAlias = Literal["off", "restricted", "waiting", "refused", "starting", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it. `name` is what a model calls, `problem` why it is not offered, if so."""

    name: str
    description: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server. `what` is its command line or address without secrets, `origin` the file that names it.

    `problem` is one line, `log` the last lines it wrote to its standard error; both are foreign text.
    """

    name: str
    state: ServerState
    what: str
    origin: str
    tools: tuple[ServerTool, ...] = ()
    problem: str = ""
    log: str = ""


class ToolServers(Protocol):
    """The servers of one session."""

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Every server, in the order of the configuration."""
        ...

    def approvals(self) -> tuple[ServerApproval, ...]:
        """Return what waits for the user."""
        ...

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Decide an approval: a yes holds for good, a no for this session. An unknown or settled id is ignored."""
        ...

    def ask_again(self, server: str) -> None:
        """Put what was refused in this session as a question again."""
        ...

    def restart(self, server: str) -> None:
        """Start a server anew, whatever it does now."""
        ...

    def start(self, on_change: Callable[[], None] | None = None) -> None:
        """Begin to start them, once, on the running loop.

        `on_change` is called there after each change, and whoever gives it puts the questions to a person.
        """
        ...

    def take_notices(self) -> tuple[Notice, ...]:
        """Return what happened since the last time, for a person."""
        ...
