"""One request in progress: the text received, the part that may be shown, and its block numbers in the reply.

Text passes first through the filter for inline thinking, then, in a continuation, through the seam filter. All other
modules see only the filtered text, so the shown, the stored and the classified text are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.engine.effects import Emit
from qcode.engine.reply.assembler import Assembler, BlockDraft
from qcode.engine.reply.repetition import RepetitionDetector
from qcode.protocol.events import AttemptKind, AttemptRecord, ToolCallProgress
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import (
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    WebSearched,
)
from qcode.protocol.tools import ToolSpec
from qcode.text import fences
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.engine.reply.seam import Seam

Emits: TypeAlias = list[Emit]


class Attempt:
    """One attempt at a reply. `reply_drafts` has the blocks of earlier attempts, which this attempt continues.

    `is_silent`: no text is shown, because the attempt asks for the rest of a call's arguments. `has_inline_thinking`:
    the model writes its reasoning as text.
    """

    def __init__(
        self,
        kind: AttemptKind,
        request: ModelRequest,
        tools: Mapping[str, ToolSpec],
        *,
        reply_drafts: list[BlockDraft],
        seam: Seam | None = None,
        is_silent: bool = False,
        is_broken: bool = False,
        is_retry: bool = False,
        has_inline_thinking: bool = False,
        model: str = "",
    ) -> None:
        self.kind = kind
        self.is_retry = is_retry
        """An earlier request failed, and this request repeats or continues it."""
        self.model = model
        """`provider/model`."""
        self.request = request
        self.assembler = Assembler(tools)
        self.seam = seam
        """Removes repeated text at the start; None: nothing is removed."""
        self.is_broken = is_broken
        """The attempt continues a text whose stream broke."""
        self.is_repeating = False
        """The model repeats itself endlessly; all further text of this attempt is ignored."""
        self.shown_chars = 0
        """The length of the text that was shown, without reasoning."""
        self.has_begun = False
        """The host has sent at least one event."""
        self.has_shown_anything = False
        self.searches: list[WebSearched] = []
        """The searches and citations of the host for this attempt; shown only if the attempt is kept."""
        self.record_index = -1
        """The index of this attempt in `ReplyState.records`, -1 until it is closed."""
        self._is_silent = is_silent
        self._thinking = InlineThinking() if has_inline_thinking else None
        self._joined_block = len(reply_drafts) - 1 if reply_drafts and reply_drafts[-1].kind == "text" else None
        """The number of the block that the first text of this attempt extends; None: the text starts a new block."""
        self._next_number = len(reply_drafts)
        self._last_text_block = 0
        self._numbers: dict[int, int] = {}
        """The number in the whole reply of each block of this attempt."""
        self._text_repetition = RepetitionDetector(fence=_open_fence(reply_drafts), is_arguments=is_silent)
        self._reasoning_repetition = RepetitionDetector()
        self._args_repetition: dict[int, RepetitionDetector] = {}

    def __repr__(self) -> str:
        return f"Attempt({self.kind!r}, max_tokens={self.request.max_tokens}, shown_chars={self.shown_chars})"

    def receive(self, event: ReplyEvent) -> Emits:
        """Process one event of the stream; return the events for the front end."""
        self.has_begun = True
        if type(event) is TextDelta:
            self._last_text_block = event.block
            if self._thinking is None:
                return self._filter_text(event)
            return self._process_segments(event.block, self._thinking.feed(event.text))
        if isinstance(event, WebSearched):
            self.searches.append(event)
            return []
        pending = self.flush() if isinstance(event, (ToolCallStarted, ReplyEnded)) else []
        if isinstance(event, ReplyEnded):
            self._check_end()
        draft = self.assembler.add(event)
        if isinstance(event, ReasoningDelta) and event.text:
            return self._show_reasoning(event)
        if draft is None or self._is_silent:
            return pending
        if isinstance(event, (ToolCallStarted, ToolArgsDelta)):
            self.has_shown_anything = True
            if isinstance(event, ToolArgsDelta):
                self._watch_arguments(event)
            number = self._number(event.block, joins=False)
            return [*pending, Emit(ToolCallProgress(number, draft.call_id, draft.name, draft.size))]
        return pending

    def flush(self) -> Emits:
        """Return the events for the text that the filters still hold; called at the end of the text."""
        emits: Emits = []
        if self._thinking is not None:
            emits += self._process_segments(self._last_text_block, self._thinking.flush())
            self._thinking = None
        if self.seam is not None:
            emits += self._show_text(TextDelta(self._last_text_block, self.seam.flush()))
        return emits

    def record(self, stop: str) -> AttemptRecord:
        """Return the record that the session stores; `stop` says why the attempt ended."""
        return AttemptRecord(
            self.kind,
            self.request.max_tokens,
            stop,
            self.assembler.usage,
            is_retry=self.is_retry,
            is_unanswered=not self.has_begun,
            model=self.model,
            damaged_events=self.assembler.damaged_events,
        )

    @property
    def drafts(self) -> list[BlockDraft]:
        return self.assembler.drafts

    @property
    def completes_call(self) -> bool:
        """Whether the attempt asks for the rest of a truncated call's arguments."""
        return self.kind == "resume"

    @property
    def has_call(self) -> bool:
        return any(draft.kind == "call" for draft in self.drafts)

    @property
    def has_nonblank_text(self) -> bool:
        """Whether more than white space was shown."""
        return self.shown_chars > 0 and any(draft.kind == "text" and draft.text.strip() for draft in self.drafts)

    def _process_segments(self, block: int, segments: list[TextSegment]) -> Emits:
        """Process text and inline reasoning in order; reasoning becomes a separate block before the text."""
        emits: Emits = []
        for segment in segments:
            if segment.kind == "text":
                emits += self._filter_text(TextDelta(block, segment.text))
                continue
            # Negative, because the numbers from 0 on are those of the provider's blocks.
            thought = ReasoningDelta(-1 - block, segment.text)
            self.assembler.add(thought)
            emits += self._show_reasoning(thought)
        if self._thinking is not None and self._thinking.is_settled:
            self._thinking = None
        return emits

    def _filter_text(self, event: TextDelta) -> Emits:
        if self.seam is None:
            return self._show_text(event)
        return self._show_text(TextDelta(event.block, self.seam.feed(event.text)))

    def _show_text(self, event: TextDelta) -> Emits:
        """Store filtered text, and return the event that shows it. Text after a repetition is dropped."""
        if not event.text:
            if self.seam is None:
                self.assembler.add(event)
            return []
        end = None if self.is_repeating else self._text_repetition.add(event.text)
        if end is not None:
            self.is_repeating = True
            event = TextDelta(event.block, event.text[:end])
        self.assembler.add(event)
        if self._is_silent:
            return []
        self.shown_chars += len(event.text)
        self.has_shown_anything = True
        number = self._number(event.block, joins=True)
        return [Emit(event if number == event.block else TextDelta(number, event.text))]

    def _show_reasoning(self, event: ReasoningDelta) -> Emits:
        if not self.is_repeating and self._reasoning_repetition.add(event.text) is not None:
            self.is_repeating = True
        if self._is_silent:
            return []
        self.has_shown_anything = True
        number = self._number(event.block, joins=False)
        return [Emit(event if number == event.block else ReasoningDelta(number, event.text))]

    def _watch_arguments(self, event: ToolArgsDelta) -> None:
        detector = self._args_repetition.get(event.block)
        if detector is None:
            detector = self._args_repetition[event.block] = RepetitionDetector(is_arguments=True)
        if detector.add(event.text) is not None:
            self.is_repeating = True

    def _check_end(self) -> None:
        """Check for a repetition at the end of the reply."""
        detectors = (self._text_repetition, self._reasoning_repetition, *self._args_repetition.values())
        self.is_repeating = self.is_repeating or any(detector.is_repeating_at_end() for detector in detectors)

    def _number(self, block: int, *, joins: bool) -> int:
        """Return the block's number in the whole reply; the first text of a continuation joins the block before it."""
        number = self._numbers.get(block)
        if number is None:
            if joins and self._joined_block is not None and self._joined_block not in self._numbers.values():
                number = self._joined_block
            else:
                number = self._next_number
                self._next_number += 1
            self._numbers[block] = number
        return number


def _open_fence(reply_drafts: list[BlockDraft]) -> str | None:
    fence = fences.open_fence(reply_drafts[-1].text) if reply_drafts and reply_drafts[-1].kind == "text" else None
    return fence.marker if fence is not None else None


_OPEN = "<think>"
_CLOSE = "</think>"


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A part of a text: reasoning in a tag, or the text itself."""

    kind: Literal["text", "reasoning"]
    text: str


class InlineThinking:
    """A filter that separates inline reasoning from text in one attempt. Call `flush` once at the end.

    `<think>…</think>` at the start of a text is reasoning, for models with `inline_thinking` in the catalog. A tag may
    be split across deltas, so text that may become a tag is held back. For "<th", "ink>Hm.</think>\\n", "Yes", `feed`
    returns nothing, then "Hm." as reasoning, then "Yes" as text.
    """

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "after", "text"] = "start"
        """`after`: the closing tag was read, and the white space after it is dropped."""
        self._held_text = ""
        self._blanks: list[str] = []

    @property
    def is_settled(self) -> bool:
        """Whether all later input is text, even if it contains a tag."""
        return self._state == "text"

    def feed(self, text: str) -> list[TextSegment]:
        """Return the segments whose kind is certain so far, in order; no segment is empty."""
        if self._state == "start" and not self._held_text and (not text or text.isspace()):
            self._blanks.append(text)  # joined only once, so that many blank deltas stay cheap
            return []
        segments: list[TextSegment] = []
        pending = self._drain_blanks() + self._held_text + text
        self._held_text = ""
        if self._state == "start":
            stripped = pending.lstrip()
            if not stripped.startswith(_OPEN):
                if _OPEN.startswith(stripped):
                    self._held_text = pending
                    return []
                self._state = "text"
                return _to_segments("text", pending)
            self._state = "thinking"
            pending = stripped[len(_OPEN) :]
        if self._state == "thinking":
            thought, tag, after_thought = pending.partition(_CLOSE)
            if not tag:
                undecided = _partial_tag_length(pending)
                self._held_text = pending[len(pending) - undecided :]
                return _to_segments("reasoning", pending[: len(pending) - undecided])
            segments += _to_segments("reasoning", thought)
            self._state = "after"
            pending = after_thought
        if self._state == "after":
            pending = pending.lstrip()
            if pending:
                self._state = "text"
        return segments + _to_segments("text", pending)

    def flush(self) -> list[TextSegment]:
        """Return the text held back; it is reasoning if it is not blank, because it is the start of a tag."""
        pending = self._drain_blanks() + self._held_text
        self._held_text = ""
        return _to_segments("reasoning" if pending.strip() else "text", pending)

    def _drain_blanks(self) -> str:
        blanks = "".join(self._blanks)
        self._blanks.clear()
        return blanks


def _to_segments(kind: Literal["text", "reasoning"], text: str) -> list[TextSegment]:
    return [TextSegment(kind, text)] if text else []


def _partial_tag_length(text: str) -> int:
    """Return how many characters at the end of `text` may be the start of the closing tag: 3 for `so </t`."""
    for size in range(min(len(text), len(_CLOSE) - 1), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return size
    return 0
