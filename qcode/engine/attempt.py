"""One request under way: what has come of it, what of that may be shown, and under which block number.

A continuation passes its text through a seam before anything else sees it, so that what is shown, stored and judged
is the same text.
"""

from __future__ import annotations

from collections.abc import Mapping

from qcode.engine.assembler import Assembler, Draft
from qcode.engine.effects import Emit
from qcode.engine.seam import Seam
from qcode.protocol.events import Attempt as AttemptRecord
from qcode.protocol.events import AttemptKind, ToolCallProgress
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    ReasoningDelta,
    ReplyEvent,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
)
from qcode.protocol.tools import ToolSpec


class Attempt:
    """`base` is what earlier attempts gave and this one goes on with; `seam` cleans its start, None leaves it.

    `is_silent`: nothing of it is for a front end (it asks for the rest of a call's arguments).
    """

    def __init__(
        self,
        kind: AttemptKind,
        request: ModelRequest,
        tools: Mapping[str, ToolSpec],
        *,
        base: list[Draft],
        seam: Seam | None = None,
        is_silent: bool = False,
    ) -> None:
        self.kind = kind
        self.request = request
        self.assembler = Assembler(tools)
        self.seam = seam
        self.shown_text = 0
        self.has_shown_anything = False
        self._is_silent = is_silent
        self._joined = len(base) - 1 if base and base[-1].kind == "text" else None
        self._offset = len(base)
        self._last_text = 0
        self._numbers: dict[int, int] = {}

    def feed(self, event: ReplyEvent) -> list[Emit]:
        """Take one event of the stream; return what a front end sees of it."""
        if type(event) is TextDelta:
            self._last_text = event.block
            text = event.text if self.seam is None else self.seam.feed(event.text)
            return self._take_text(event.block, text)
        held = self.flush() if type(event) is ToolCallStarted else []
        draft = self.assembler.feed(event)
        if draft is None or self._is_silent:
            return held
        if isinstance(event, ReasoningDelta):
            self.has_shown_anything = True
            return [Emit(ReasoningDelta(self._number(event.block, joins=False), event.text))]
        if isinstance(event, (ToolCallStarted, ToolArgsDelta)):
            self.has_shown_anything = True
            number = self._number(event.block, joins=False)
            return [*held, Emit(ToolCallProgress(number, draft.call_id, draft.name, draft.size))]
        return held

    def flush(self) -> list[Emit]:
        """Release what the seam still holds: the stream has ended or broken."""
        if self.seam is None:
            return []
        return self._take_text(self._last_text, self.seam.flush())

    def record(self, stop: str, *, is_discarded: bool = False) -> AttemptRecord:
        return AttemptRecord(self.kind, self.request.max_tokens, stop, self.assembler.usage, is_discarded)

    @property
    def drafts(self) -> list[Draft]:
        return self.assembler.drafts

    @property
    def has_call(self) -> bool:
        return any(draft.kind == "call" for draft in self.drafts)

    @property
    def reasoning(self) -> str:
        return "".join(draft.text for draft in self.drafts if draft.kind == "reasoning")

    def _take_text(self, block: int, text: str) -> list[Emit]:
        if not text:
            return []
        self.assembler.feed(TextDelta(block, text))
        if self._is_silent:
            return []
        self.shown_text += len(text)
        self.has_shown_anything = True
        return [Emit(TextDelta(self._number(block, joins=True), text))]

    def _number(self, block: int, *, joins: bool) -> int:
        """Return the block's number in the whole reply; the first text goes on in the block it continues."""
        number = self._numbers.get(block)
        if number is None:
            if joins and self._joined is not None and self._joined not in self._numbers.values():
                number = self._joined
            else:
                number = self._offset
                self._offset += 1
            self._numbers[block] = number
        return number
