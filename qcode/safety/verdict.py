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

SHELL_UNKNOWN = "shell:not-read-only"
"""Names the verdict on a shell command that is not known to only read."""
SANDBOXED = "session:sandbox"
"""Names the verdict on a command that the user lets run unasked in the workspace sandbox."""
RESTRICTED = "trust:restricted"
"""Names the verdict on a call that asks because the folder is not trusted."""

_ORDER: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
_STRICTNESS: dict[Level | None, int] = {None: 0, "protect": 1, "workspace": 2, "read-only": 3}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision. `reason` is one line for the user and the model.

    `rule` is the text of the configured rule that decided, or the short name of a built-in one such as `path:secret`.
    `proposed_rule` is the narrow allow rule that "always" adds, empty if no rule is offered. `prefix_rule` covers every
    use of a test runner, `sandboxed_rule` is what may run unasked in the workspace sandbox.
    `confinement` is the level at which an allowed command must run, None for no sandbox.
    """

    verdict: Decision
    reason: str
    rule: str = ""
    proposed_rule: str = ""
    prefix_rule: str = ""
    sandboxed_rule: str = ""
    confinement: Level | None = None

    @property
    def is_allowed(self) -> bool:
        return self.verdict == "allow"

    def without_asking(self, *, never_asks: bool) -> Verdict:
        """Return this verdict, or a denial if it asks and nothing may be asked."""
        if not never_asks or self.verdict != "ask":
            return self
        return Verdict("deny", f"{self.reason}, and this run denies everything that would ask", self.rule)


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
