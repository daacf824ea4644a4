"""The answer every judge of this room gives, and how two of them are combined."""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Access: TypeAlias = Literal["read", "write"]
Level: TypeAlias = Literal["read-only", "workspace"]
"""Walls around a command. `read-only`: nothing can be written and nobody reached; `workspace`: it may write there."""

_ORDER: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` is one line for a person and the model; `rule` names what decided.

    `rule` is the text of a rule of the person, or a short name of a built-in one such as `path:secret`.
    `proposed_rule` is the narrow allow rule that "always" would add, empty where none is offered.
    `confinement` is which walls an allowed command has to run behind, None for none.
    """

    verdict: Decision
    reason: str
    rule: str = ""
    proposed_rule: str = ""
    confinement: Level | None = None

    @property
    def is_allowed(self) -> bool:
        return self.verdict == "allow"


def strictest(first: Verdict, *others: Verdict) -> Verdict:
    """Return the strictest verdict; of equals the first."""
    return max((first, *others), key=lambda verdict: _ORDER[verdict.verdict])
