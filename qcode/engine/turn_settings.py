"""What a turn runs with. Plain values."""

from __future__ import annotations

from dataclasses import field
from decimal import Decimal

from qcode.engine.caps import OutputSettings
from qcode.engine.retries import RetrySettings
from qcode.engine.review import AnswerCheck
from qcode.engine.room import CompactionSettings
from qcode.protocol.model import Effort
from qcode.protocol.tools import ToolSpec
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What a turn runs with. The limits are None where the person set none, `compaction` where it never compacts, and
    `check` where any answer will do."""

    system: str
    tools: tuple[ToolSpec, ...]
    effort: Effort | None = None
    output: OutputSettings = field(default_factory=OutputSettings)
    retries: RetrySettings = field(default_factory=RetrySettings)
    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_budget_usd: Decimal | None = None
    compaction: CompactionSettings | None = None
    check: AnswerCheck | None = None
