"""What a person can look at and change of a session: rules and decisions, tools, instruction files.

Front ends see these; the runtime room has the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.messages import ToolCall
from qcode.protocol.values import dataclass

RuleEffect: TypeAlias = Literal["allow", "ask", "deny"]
RuleScope: TypeAlias = Literal["settings", "session", "folder"]
Decided: TypeAlias = Literal["ran", "refused", "allowed", "always", "denied", "answered", "approved", "unanswered"]
TriedKind: TypeAlias = Literal["shell", "read", "write", "fetch"]
TRIED_KINDS: tuple[TriedKind, ...] = ("shell", "read", "write", "fetch")


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule that counts now. `origin` says for a person where it comes from.

    `scope`: written in the settings (a file or a flag), for this session, or kept for this folder. Only the last two
    can be taken back; `number` names the rule for that and is 0 for all others.
    """

    effect: RuleEffect
    text: str
    origin: str
    scope: RuleScope = "settings"
    number: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one call. `at` is seconds since 1970.

    `decided`: ran without asking; refused by the rules; allowed by the person once, or always; denied by the person;
    a question was answered; a plan was approved; the turn ended before anybody answered. `reason` is the policy's own,
    or what the person said; `rule` what decided, or the rule that "always" added.
    """

    at: float
    call: ToolCall
    decided: Decided
    reason: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """The verdict on something that was tried and not run."""

    verdict: RuleEffect
    reason: str
    rule: str
    proposed_rule: str = ""


class Permissions(Protocol):
    """The rules of one session. What changes here holds from the next call on."""

    @property
    def mode(self) -> ApprovalMode: ...

    @property
    def mode_origin(self) -> str: ...

    @property
    def is_trusted(self) -> bool: ...

    def rules(self) -> tuple[RuleInForce, ...]:
        """Return every rule in force, those that deny first, then those that ask."""
        ...

    def decisions(self) -> tuple[Decision, ...]:
        """Return what was decided in this session, the first one first."""
        ...

    def add(self, effect: RuleEffect, text: str) -> RuleInForce:
        """Add a rule for this session; raise `ValueError` with one line for one that cannot be."""
        ...

    def remove(self, number: int) -> None:
        """Take a rule back that `add` or an answer made; raise `ValueError` where that cannot be."""
        ...

    def keep(self, number: int) -> None:
        """Keep a rule of the session for this folder; raise `ValueError` where that cannot be."""
        ...

    def check(self, kind: TriedKind, value: str) -> Tried:
        """Return what would happen to a command, path or address. Runs none of it; may block."""
        ...


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model is offered it now. `origin` is for a person, `server` the tool server it comes from.

    `standing` says in a few words what a call of it does in this mode. `tokens` is what its description costs with
    each request, as an estimate. Description and parameters may be foreign text.
    """

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...]
    origin: str
    standing: str
    tokens: int
    server: str = ""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """An instruction file. `used` of its `size` bytes are in the prompt; a file that is not there has size None.

    `whose`: the person's own, or the project's. `shown` is its path as a person knows it.
    """

    path: str
    shown: str
    whose: Literal["yours", "project"]
    size: int | None
    used: int = 0
    imported_by: str = ""


class Memory(Protocol):
    """The instruction files of one session. What changes in them holds from the next turn on."""

    def files(self) -> tuple[MemoryFile, ...]:
        """Return the files in force, in the order the model gets them, then those that could be made."""
        ...

    def notes(self) -> tuple[str, ...]:
        """Return lines about what was left out, and why."""
        ...

    def places(self) -> tuple[MemoryFile, ...]:
        """Return the files that a line can be added to: the project's in a trusted folder, then the person's own."""
        ...

    def append(self, path: str, text: str) -> str:
        """Add a line to the file of one of `places`; return what was done, raise `ValueError` where it cannot be."""
        ...

    def init_prompt(self, wish: str) -> str:
        """Return the prompt that asks for an instruction file, or a better one; raise `ValueError` if restricted."""
        ...


@dataclass(frozen=True, slots=True)
class Controls:
    """What the commands of a session act on. `examine` blocks: it returns the findings of `qcode doctor` as lines."""

    permissions: Permissions
    memory: Memory
    tools: Callable[[], tuple[OfferedTool, ...]]
    examine: Callable[[], tuple[str, ...]]
