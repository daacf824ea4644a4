"""The record of a step in a `World`: its attempts and the events of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qcode.engine.effects import Input, ReplyFailed
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import ReplyFinished
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, StopReason
from qcode.protocol.usage import Usage


@dataclass
class Attempt:
    """A request and the part of its answer that was fed."""

    request: ModelRequest
    usage: Usage = field(default_factory=Usage)
    calls: dict[str, str] = field(default_factory=dict)
    blocks: dict[int, str] = field(default_factory=dict)
    ended: ReplyEnded | None = None
    has_failed: bool = False
    text: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the cap was reached, by the stop reason or by the count."""
        if self.ended is None:
            return False
        count = self.usage.output
        near = count is not None and abs(count - self.request.max_tokens) <= max(2, self.request.max_tokens * 0.005)
        return near or self.ended.stop is StopReason.MAX_TOKENS


@dataclass
class Step:
    """The record of one step: a reply and its calls."""

    attempts: list[Attempt] = field(default_factory=list)
    shown: str = ""
    taken_back: list[tuple[str, int]] = field(default_factory=list)
    finished: ReplyFinished | None = None
    escalations: int = 0
    continuations: int = 0
    repairs: int = 0
    terminations: int = 0
    settled: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)


def failed(kind: ErrorKind, message: str = "failed", status: int | None = None) -> ReplyFailed:
    return ReplyFailed(ProviderError(kind, message, status=status), 0.5)


def inputs(played: Sequence[ReplyEvent | ProviderError]) -> list[Input]:
    return [ReplyFailed(item, 0.5) if isinstance(item, ProviderError) else item for item in played]
