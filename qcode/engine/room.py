"""Watches how full the context window is, and keeps the one compaction that may be under way in a turn."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.engine import caps
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.compacting import Cause, Compacting, CompactionResult
from qcode.engine.compaction import COMPACT_AT
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Compact, Effect, Emit
from qcode.engine.knowledge import KnownModel
from qcode.engine.ledger import Ledger
from qcode.engine.retries import RetrySettings
from qcode.protocol.events import Compacted, Notice
from qcode.protocol.messages import Message
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.protocol.values import dataclass

_GROWTH_SHARE = 0.1
"""How much of the window must fill anew before the next compaction, where the last one could not empty it further."""


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """`writer` writes summaries, None: the model of the conversation. `share` of the window is when it begins."""

    writer: KnownModel | None = None
    share: float = COMPACT_AT


def told(result: CompactionResult) -> list[Effect]:
    """Return what follows from a compaction that is over: the transcript it leaves, and what a person is told."""
    effects: list[Effect] = []
    if result.parts is not None:
        effects += [Compact(result.parts), Emit(Compacted(result.before, result.after, result.kind))]
    if result.problem:
        effects.append(Emit(Notice("warning", result.problem)))
    return effects


class RoomMaker:
    """`current` is the compaction under way. After one that came to nothing there is no other by itself."""

    def __init__(self, settings: CompactionSettings | None) -> None:
        self.current: Compacting | None = None
        self._settings = settings
        self._floor = 0
        self._has_failed = False

    @property
    def is_able(self) -> bool:
        return self._settings is not None and not self._has_failed

    def is_due(self, request: ModelRequest, model: KnownModel, counter: PromptCounter) -> bool:
        """Say whether the window is so full that the conversation is to be compacted before `request`."""
        settings = self._settings
        if settings is None or self._has_failed:
            return False
        window = model.window or DEFAULT_CONTEXT_WINDOW
        size = counter.size_of(request, enough=int(settings.share * window))
        if size.tokens < self._floor:
            return False
        room = caps.fit(request.max_tokens, prompt_tokens=size.tokens, window=model.window, is_counted=size.is_counted)
        return room is None or size.tokens >= settings.share * window

    def start(
        self, messages: Sequence[Message], model: KnownModel, tools: tuple[ToolSpec, ...], retries: RetrySettings,
        cause: Cause, size: int, focus: str,
    ) -> Compacting:  # fmt: skip
        writer = (self._settings.writer if self._settings is not None else None) or model
        compacting = Compacting(tuple(messages), model, writer, tools, retries, cause=cause, size=size, focus=focus)
        self._floor = int((model.window or DEFAULT_CONTEXT_WINDOW) * _GROWTH_SHARE)
        self.current = compacting
        return compacting

    def end(self, ledger: Ledger) -> None:
        """Account for the compaction that is over."""
        compacting, self.current = self.current, None
        if compacting is None or compacting.result is None:
            return
        ledger.take(compacting.ledger)
        self._has_failed = compacting.result.parts is None
        self._floor += compacting.result.after
