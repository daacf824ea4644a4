"""The answer every judge of this room gives, and how two of them are combined."""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.values import dataclass

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Access: TypeAlias = Literal["read", "write"]
Level: TypeAlias = Literal["read-only", "workspace", "protect"]
"""How a command is confined.

`read-only`: it writes nothing, reaches nothing, and does not see the home folder. `workspace`: it also writes in the
workspace, but not to protected names. `protect`: everything but writing to protected names.
"""

SHELL_READS = "shell:read-only"
"""Names the verdict on a shell command that only reads."""
SHELL_PATH = "shell:path"
"""Names the verdict on a shell command that may read a file that holds secrets, or one outside the workspace."""

RESTRICTED = "trust:restricted"
"""Names the verdict on a call that asks because the folder is not trusted."""

_ORDER: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
_STRICTNESS: dict[Level | None, int] = {None: 0, "protect": 1, "workspace": 2, "read-only": 3}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is one line for a person and the model; `rule` names what decided.

    `rule` is the text of a rule of the person, or a short name of a built-in one such as `path:secret`.
    `proposed_rule` is the narrow allow rule that "always" would add, empty where none is offered.
    `confinement` is the level at which an allowed command has to run, None for no sandbox.
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
    """What the sandbox of this machine can do. If no sandbox works, `levels` is empty."""

    levels: tuple[Level, ...] = ()
    masks: bool = False
    """Whether protected files inside the workspace are hidden from a `read-only` command."""
    kind: str = ""
    """`bubblewrap`, `landlock`, or empty."""


def strictest(first: Verdict, *others: Verdict) -> Verdict:
    """Return the strictest verdict, of two that allow the more confined one; of equals the first."""
    return max((first, *others), key=lambda verdict: (_ORDER[verdict.verdict], _STRICTNESS[verdict.confinement]))
