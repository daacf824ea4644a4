"""The verdict that every judge returns, and the stricter of two verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from qcode.values import dataclass

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Access: TypeAlias = Literal["read", "write"]
Level: TypeAlias = Literal["read-only", "workspace", "protect"]
"""The level of confinement of a command.

`read-only`: no writes, no network, no home folder. `workspace`: writes only in the workspace and not to protected
names, no network. `protect`: everything except writes to protected names.
"""

SHELL_READS = "shell:read-only"
"""The check that a shell command only reads."""
SHELL_PATH = "shell:path"
"""The check whether a shell command may read a secret file or a file outside the workspace."""
SHELL_NOT_READ_ONLY = "shell:not-read-only"
"""The check whether a shell command may do more than read."""
SANDBOXED = "session:sandbox"
"""The check whether the user allows a command to run without approval in the workspace sandbox."""
RESTRICTED = "trust:restricted"
"""The check whether a call needs approval because the folder is not trusted."""
PLAN = "mode:plan"
"""The check that denies a call in plan mode."""
PLAN_RUNS = "plan mode only runs read-only commands"
RESTRICTED_HERE = "this folder is restricted"
"""The reason, or its end, of a call that needs approval in a folder that is not trusted."""

_STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}
_CONFINEMENT: dict[Level | None, int] = {None: 0, "protect": 1, "workspace": 2, "read-only": 3}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about a call."""

    verdict: Decision
    reason: str
    """One line for the user and the model."""
    check: str = ""
    """The built-in check that decided, such as `path:secret` or `hook:PreToolUse`; empty if a rule decided."""
    proposed_rule: str = ""
    """The narrow allow rule that "always" adds; empty if no rule is offered."""
    prefix_rule: str = ""
    """A rule that covers every use of a test runner."""
    sandboxed_rule: str = ""
    """A rule for commands. They then run without approval in the workspace sandbox."""
    confinement: Level | None = None
    """The level at which an allowed command must run; None for no sandbox."""
    all_reasons: tuple[str, ...] = ()
    """Every reason, the worst first, if `reason` leaves out some of them."""
    rule: str = ""
    """The configured rule that decided, as written; empty if a check decided."""

    @property
    def is_allowed(self) -> bool:
        return self.verdict == "allow"

    @property
    def is_undecided_command(self) -> bool:
        """Whether a command asks only because it may do more than read: no rule asks, and no secret is read."""
        return self.verdict == "ask" and self.check.startswith("shell:") and self.check != SHELL_PATH

    @property
    def decided_by(self) -> str:
        """The rule or the check that decided, for users and programs."""
        return self.rule or self.check

    def ask_or_deny(self, *, never_asks: bool) -> Verdict:
        """Return this verdict. If it asks and the run never asks, return a denial instead."""
        if not never_asks or self.verdict != "ask":
            return self
        reason = f"{self.reason}, and this run denies everything that would ask"
        return Verdict("deny", reason, self.check, rule=self.rule)


RESTRICTED_FOLDER = Verdict("ask", RESTRICTED_HERE, RESTRICTED)
"""The verdict on a call that does more than read in a folder that is not trusted."""
NO_SANDBOX_TO_WRITE = Verdict(
    "ask", "it writes to a file, and no workspace sandbox is available here", "shell:no-sandbox"
)
"""The verdict on a command that only reads, except for a redirection, if the sandbox for it is missing."""


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """The capabilities of the sandbox on this machine."""

    levels: tuple[Level, ...] = ()
    """Empty if no sandbox works."""
    masks: bool = False
    """Protected files inside the workspace are hidden from a `read-only` command."""
    kind: str = ""
    """`bubblewrap`, `landlock`, or empty."""


MAX_REASONS = 4
"""The maximum number of reasons named in one line."""
MAX_NAMES = 3
"""The maximum number of programs or files named in one reason."""
NOT_READ_ONLY = "may do more than read"
"""The end of a generic reason."""


def joined_reasons(reasons: Iterable[str], circumstance: str = "") -> str:
    """Return the distinct reasons in one line, followed by `circumstance`.

    The first `MAX_REASONS` reasons and generic ones are named; the others are counted: `and 2 more`.
    """
    different = _merged(dict.fromkeys(reasons))
    unnamed = [reason for reason in different if not reason.endswith(NOT_READ_ONLY)][MAX_REASONS:]
    named = [reason for reason in different if reason not in unnamed]
    others = [f"and {len(unnamed)} more"] if unnamed else []
    return "; ".join((*named, *others, *([circumstance] if circumstance else [])))


def complete_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    """Return all distinct reasons with all their names if `joined_reasons` leaves out some, otherwise nothing."""
    whole = _merged(dict.fromkeys(reasons), max_names=len(reasons))
    is_whole = "; ".join(whole) == joined_reasons(reasons)
    return () if is_whole else tuple(whole)


def _merged(reasons: Iterable[str], max_names: int = MAX_NAMES) -> list[str]:
    """Return the reasons; reasons that differ only in the name of a program or file become one.

    For example, `it reads a.env: R` and `it reads b.env: R` become `it reads a.env and b.env: R`, and generic reasons
    become `make and mv may do more than read`.
    """
    lead = "it reads "
    names: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        path, colon, why = reason.removeprefix(lead).partition(": ")
        if reason.startswith(lead) and colon:
            names.setdefault((lead, f": {why}"), []).append(path)
        elif reason.endswith(f" {NOT_READ_ONLY}"):
            names.setdefault(("", f" {NOT_READ_ONLY}"), []).append(reason.removesuffix(f" {NOT_READ_ONLY}"))
        else:
            names[("", reason)] = []
    return [f"{before}{_in_words(named, max_names)}{after}" for (before, after), named in names.items()]


def _in_words(names: list[str], max_names: int) -> str:
    """Return names as `a`, `a and b`, `a, b and c`, or `a, b and 2 more`."""
    if len(names) > max_names:
        names = [*names[: max_names - 1], f"{len(names) - max_names + 1} more"]
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def output_reason(name: str, verdict: Verdict) -> str:
    """Return the reason of a verdict on a command that writes to a file, from the verdict on that file."""
    writes = f"it writes to {name}"
    if verdict.check == PLAN:
        return f"{PLAN_RUNS}: {writes}"
    if verdict.check == RESTRICTED:
        return f"{writes}; {RESTRICTED_HERE}"
    return writes if verdict.check.startswith("mode:") else f"{writes}: {verdict.reason}"


def strictest(first: Verdict, *others: Verdict) -> Verdict:
    """Return the strictest verdict: among equally strict ones the most confined, then the first."""
    return max((first, *others), key=lambda verdict: (_STRICTNESS[verdict.verdict], _CONFINEMENT[verdict.confinement]))
