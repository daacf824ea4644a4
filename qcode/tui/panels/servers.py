"""Tool servers in the app: their changes become notices, their pending approvals become questions above the prompt.

Each approval is requested once; if the user postpones it, `/mcp` asks again. `agent.mcp` acts on the decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.config.paths import with_tilde
from qcode.protocol.approvals import Decision, ServerApproval
from qcode.text.clean import one_line
from qcode.text.numbers import count_text
from qcode.tui.main_widgets import MainWidgets
from qcode.tui.turns import Turns

if TYPE_CHECKING:
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.mcp.spec import ServerStatus

NO_SERVERS = (
    "No tool servers. Add one in a shell with qcode mcp add NAME -- PROGRAM and restart qcode, or start qcode with "
    "--mcp-config FILE."
)
_MAX_LOG_LINES = 12


class ServerWatch:
    """Connects the tool servers to the app. The app calls `refresh` in its thread after each change."""

    def __init__(self, servers: Servers | None, widgets: MainWidgets, turns: Turns) -> None:
        self._servers = servers
        self._widgets = widgets
        self._turns = turns
        self._shown_ids: set[str] = set()

    @property
    def statuses(self) -> tuple[ServerStatus, ...]:
        return self._servers.statuses() if self._servers is not None else ()

    def refresh(self) -> None:
        """Show new notices, ask for new approvals, and withdraw those that were decided elsewhere."""
        if self._servers is None:
            return
        for notice in self._servers.take_notices():
            self._widgets.transcript.add_notice(notice.level, notice.text)
        pending = {approval.id: approval for approval in self._servers.approvals()}
        for approval_id in self._shown_ids - pending.keys():
            self._turns.withdraw(approval_id)
        new_approvals = [approval for approval_id, approval in pending.items() if approval_id not in self._shown_ids]
        self._shown_ids = set(pending)
        for approval in new_approvals:
            self._widgets.approval.ask(approval)

    def answer(self, approval_id: str, decision: Decision) -> bool:
        """Pass the decision to the servers; return False if the approval is not about a tool server."""
        if self._servers is None or approval_id not in self._shown_ids:
            return False
        self._servers.answer(approval_id, decision)
        self._turns.after_question()
        return True

    def defer(self) -> bool:
        """Close the open question undecided if it is about a tool server; return whether it was."""
        current = self._widgets.approval.shown_approval
        if not isinstance(current, ServerApproval):
            return False
        self._turns.withdraw(current.id)
        self._widgets.transcript.add_notice("info", f"{current.server} is waiting for approval. /mcp asks again.")
        return True

    def ask_again(self) -> None:
        """Ask for every open approval again, including those that were denied or postponed."""
        if self._servers is None:
            return
        for status in self.statuses:
            self._servers.ask_again(status.name)
        # `refresh` asks for every approval that is not shown, so it must know which are still open.
        self._shown_ids &= set(self._widgets.approval.open_ids)
        self.refresh()

    def restart(self, name: str) -> None:
        if self._servers is not None:
            self._servers.restart(name)


def listing(statuses: tuple[ServerStatus, ...]) -> str:
    """Return the list of servers for the user, sanitized."""
    rows = [line for status in statuses for line in _lines(status)]
    return "\n".join((*rows, "", "/mcp NAME shows a server's tools. /mcp restart NAME restarts it."))


def details(status: ServerStatus) -> str:
    """Return one server with its tools, sanitized."""
    lines = _lines(status)
    for tool in status.tools:
        lines += ["", one_line(tool.name), f"  {one_line(tool.description)}"]
        if tool.problem:
            lines.append(f"  disabled: {one_line(tool.problem)}")
    log = [one_line(line) for line in status.log.splitlines()[-_MAX_LOG_LINES:]]
    if log:
        lines += ["", "Last output:", *(f"  {line}" for line in log)]
    return "\n".join(lines)


def _lines(status: ServerStatus) -> list[str]:
    """Return the lines about one server: name and state, target, origin, and problem if there is one."""
    facts = [_STATE_LABELS.get(status.state, status.state)]
    disabled = sum(bool(tool.problem) for tool in status.tools)
    if status.state == "ready":
        facts.append(count_text(len(status.tools) - disabled, "tool"))
    if disabled:
        facts.append(f"{disabled} disabled")
    lines = [f"{status.name}: {', '.join(facts)}", f"  {one_line(status.target)}"]
    lines.append(f"  {one_line(with_tilde(status.origin))}")
    if status.problem:
        lines.append(f"  {one_line(status.problem)}")
    return lines


_STATE_LABELS = {
    "waiting": "waiting for your approval",
    "refused": "not approved",
    "sign-in": "sign in",
    "off": "off (enabled = false)",
}
