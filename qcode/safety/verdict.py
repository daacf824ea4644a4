"""The verdict that every judge returns, and the stricter of two verdicts."""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.values import dataclass

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Access: TypeAlias = Literal["read", "write"]
Level: TypeAlias = Literal["read-only", "workspace", "protect"]
"""The confinement of a command.

`read-only`: no writes, no network, no home folder. `workspace`: it also writes in the workspace, except to protected
names. `protect`: everything except writing to protected names.
"""

SHELL_READS = "shell:read-only"
"""The rule of a verdict on a shell command that only reads."""
SHELL_PATH = "shell:path"
"""The rule of a verdict on a shell command that may read a secret file, or one outside the workspace."""

RESTRICTED = "trust:restricted"
"""Names the verdict on a call that asks because the folder is not trusted."""

_ORDER: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
_STRICTNESS: dict[Level | None, int] = {None: 0, "protect": 1, "workspace": 2, "read-only": 3}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision. `reason` is one line for the user and the model.

    `rule` is the text of the configured rule that decided, or the short name of a built-in one such as `path:secret`.
    `proposed_rule` is the narrow allow rule that "always" adds, empty if no rule is offered.
    `confinement` is the level at which an allowed command must run, None for no sandbox.
    """

    verdict: Decision
    reason: str
    rule: str = ""
    proposed_rule: str = ""
    confinement: Level | None = None

    @property
    def is_allowed(self) -> bool:
        return self.verdict == "allow"


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """The capabilities of the sandbox on this machine. If no sandbox works, `levels` is empty."""

    levels: tuple[Level, ...] = ()
    masks: bool = False
    """Whether protected files inside the workspace are hidden from a `read-only` command."""
    kind: str = ""
    """`bubblewrap`, `landlock`, or empty."""


def strictest(first: Verdict, *others: Verdict) -> Verdict:
    """Return the strictest verdict; of two that allow, the more confined one; of equal ones, the first."""
    return max((first, *others), key=lambda verdict: (_ORDER[verdict.verdict], _STRICTNESS[verdict.confinement]))
