"""What walls do to a verdict: behind them more may run unasked, and what has to leave them is asked for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from qcode.protocol.conversation import ApprovalMode
from qcode.safety.shell.judge import ALLOWED
from qcode.safety.shell.reads import PATH
from qcode.safety.verdict import Level, Verdict

SEEING = frozenset(
    {"ps", "pgrep", "pidof", "pstree", "lsof", "fuser", "ss", "netstat", "who", "w", "last", "ip", "ifconfig", "ipcs"}
)
"""Programs that tell about processes, connections and people: behind walls there is nobody to tell about."""

_OUT = "it is to run outside the sandbox"
_UNDECIDED = "shell:"


def walled(
    verdict: Verdict,
    mode: ApprovalMode,
    levels: Callable[[], tuple[Level, ...]],
    *,
    wants_out: bool,
    sees_processes: bool,
) -> Verdict:
    """Return the verdict on a shell command with the walls it runs behind.

    A command that the tables know to read runs behind them where they work, and without them where they do not. In auto
    mode one that nobody has decided on runs behind those of the workspace; what a rule asks for, or the path of a
    secret, still asks. `wants_out` can only make a verdict stricter.
    """
    if verdict.is_allowed and verdict.rule == ALLOWED:
        if wants_out:
            return Verdict("ask", _OUT, "sandbox:outside")
        return replace(verdict, confinement="read-only") if not sees_processes and "read-only" in levels() else verdict
    is_undecided = verdict.verdict == "ask" and verdict.rule.startswith(_UNDECIDED) and verdict.rule != PATH
    if mode != "auto" or not is_undecided or wants_out:
        return verdict
    if "workspace" not in levels():
        return without_walls(verdict)
    return Verdict("allow", "it runs in the sandbox of the workspace", "mode:auto", confinement="workspace")


def without_walls(verdict: Verdict) -> Verdict:
    """Return a verdict of auto mode that says why it asks like default mode."""
    if verdict.verdict != "ask":
        return verdict
    why = " (auto mode needs a sandbox, and none that can hold a workspace works here, so it asks like default mode)"
    return replace(verdict, reason=verdict.reason + why)
