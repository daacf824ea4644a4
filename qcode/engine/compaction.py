"""Decides when a conversation is compacted, and applies the result. `compactor` makes the summary. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.engine import caps
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter
from qcode.engine.effects import Compact, CompactionSettings, Effect, Emit
from qcode.engine.model_facts import KnownModel
from qcode.protocol.events import Compacted, Notice
from qcode.protocol.messages import Message
from qcode.protocol.model import ModelRequest
from qcode.values import dataclass

Cause: TypeAlias = Literal["threshold", "full", "asked"]
"""`threshold`: a share of the window is used. `full`: no reply fits. `asked`: the user requested the compaction."""

TranscriptItem: TypeAlias = "int | Message"
"""The index of a message that stays, or a message that replaces others."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction."""

    items: tuple[TranscriptItem, ...] | None
    """The transcript after the compaction, None if it failed."""
    before: int
    """The size of the prompt in tokens before the compaction."""
    after: int
    """The size of the prompt in tokens after it."""
    kind: Literal["output", "summary"] = "output"
    """`output`: only old tool output was removed. `summary`: a summary replaces messages."""
    problem: str = ""
    """The reason of a failure, or a warning for the user."""


_GROWTH_SHARE = 0.1
"""The share of the window by which the prompt must grow before the next compaction of the same turn."""


def compaction_effects(result: CompactionResult) -> list[Effect]:
    """Return the effects of a finished compaction: the new transcript, and notices for the user."""
    effects: list[Effect] = []
    if result.items is not None:
        effects += [Compact(result.items), Emit(Compacted(result.before, result.after, result.kind))]
    if result.problem:
        effects.append(Emit(Notice("warning", result.problem)))
    return effects


class CompactionScheduler:
    """A scheduler of compactions within one turn. A failed compaction disables automatic compaction."""

    def __init__(self, settings: CompactionSettings | None) -> None:
        self._settings = settings
        self._growth = 0
        """By how many tokens the conversation must grow after the last compaction before it is compacted again."""
        self._min_tokens = 0
        """The size in tokens below which the conversation is not compacted again."""
        self._has_failed = False

    @property
    def is_available(self) -> bool:
        return self._settings is not None and not self._has_failed

    def is_due(self, request: ModelRequest, model: KnownModel, counter: PromptCounter) -> bool:
        """Return whether the window is so full that the conversation must be compacted before `request`."""
        settings = self._settings
        if settings is None or self._has_failed:
            return False
        window = model.window or DEFAULT_CONTEXT_WINDOW
        max_tokens = int(settings.share * window)
        size = counter.size_of(request, threshold=max_tokens)
        if size.tokens < self._min_tokens:
            return False
        cap = caps.fit(request.max_tokens, prompt_tokens=size.tokens, window=model.window, is_counted=size.is_counted)
        return cap is None or size.tokens >= max_tokens

    def start(self, model: KnownModel) -> KnownModel:
        """Record the start of a compaction; return the model that writes its summary."""
        self._growth = int((model.window or DEFAULT_CONTEXT_WINDOW) * _GROWTH_SHARE)
        writer = self._settings.writer if self._settings is not None else None
        return writer or model

    def block(self) -> None:
        """Disable automatic compaction until the end of the turn."""
        self._has_failed = True

    def end(self, result: CompactionResult) -> None:
        """Record the result of a compaction; the next one is due only after the conversation has grown again."""
        self._has_failed = result.items is None
        self._min_tokens = result.after + self._growth
