"""What a conversation is given: a model as the composition root connected it, limits, and everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from decimal import Decimal

from qcode.engine.caps import OutputSettings
from qcode.engine.knowledge import KnownModel
from qcode.engine.retries import RetrySettings
from qcode.engine.review import AnswerCheck
from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.messages import Block
from qcode.protocol.model import Effort
from qcode.protocol.provider import Provider
from qcode.protocol.tools import ToolSpec
from qcode.protocol.values import dataclass
from qcode.providers.local import WindowQuestion
from qcode.runtime.agents.kinds import KINDS, Kind
from qcode.runtime.debug_log import DebugLog
from qcode.runtime.limits import LimitStore
from qcode.runtime.permissions import Origins
from qcode.runtime.preparing import TokenCounting
from qcode.runtime.store.session import Session
from qcode.runtime.store.store import SessionStore
from qcode.runtime.toolbox import Toolbox
from qcode.safety.policy import Policy


@dataclass(frozen=True, slots=True)
class Connected:
    """A model that can be talked to, as the composition root made it. `system` is its prompt in a mode.

    `agent_system` is its prompt as a sub-agent with a certain role. `hosted` are tools that its host runs itself.
    `window` asks a local server how large a context it gives, where nothing else says that.
    """

    provider: Provider
    model: KnownModel
    system: Callable[[ApprovalMode], str]
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    window: WindowQuestion | None = None
    agent_system: Callable[[str], str] = lambda role: role
    hosted: tuple[ToolSpec, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.model.provider}/{self.model.name}"


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Limits of one prompt; None where there is none."""

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a conversation is made of beside its model.

    `connect` makes a model of a name, raising `ValueError` with one line where it cannot; `new_session` opens a
    session file for a model's name; `mentioned` gives the files that a typed prompt names, and a line for each that
    cannot be attached. `sessions` are those of this folder, None where none are kept. `summarizer`
    gives the model that writes summaries, None: the conversation's own; it may raise `ValueError` with one line.
    `instruction_chars` says how much of the system prompt comes from instruction files, `origins` where the rules of
    `policy` were written. `is_attended`: a person can answer, so a plan can be put to them.
    `approved` wraps the run of a call that a person approved for the files it is given.
    `tuned` gives the output settings of a model's name with the keys of one turn on top; answers pass `check`.
    `kinds` are those of the sub-agents that the toolbox offers.
    """

    connect: Callable[[str], Connected]
    new_session: Callable[[str], Session]
    toolbox: Toolbox
    policy: Policy
    limits: LimitStore
    prompt_limits: PromptLimits = field(default_factory=PromptLimits)
    effort: Effort | None = None
    debug_log: DebugLog | None = None
    mentioned: Callable[[str], tuple[tuple[Block, ...], tuple[str, ...]]] = lambda typed: ((), ())
    tokens: TokenCounting | None = None
    sessions: SessionStore | None = None
    summarizer: Callable[[], Connected | None] = lambda: None
    instruction_chars: Callable[[], int] = lambda: 0
    check: AnswerCheck | None = None
    approved: Callable[[frozenset[str]], AbstractContextManager[None]] = lambda targets: nullcontext()
    kinds: tuple[Kind, ...] = KINDS
    tuned: Callable[[str, Mapping[str, object]], OutputSettings] = lambda name, given: OutputSettings()
    origins: Origins = field(default_factory=Origins)
    is_attended: bool = False
