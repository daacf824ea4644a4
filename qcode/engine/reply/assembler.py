"""The assembler of one attempt: it collects reply events as raw text, and classifies the reply (`ReplyShape`).

Text is kept as a list of fragments and joined on demand, so the cost is linear in the length of the reply. The state of
a call follows from strict parsing of its raw arguments; nothing is repaired here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from qcode.engine.caps import is_at_cap
from qcode.protocol.messages import Opaque
from qcode.protocol.reply import (
    BlockEnded,
    EventDamaged,
    ReasoningDelta,
    ReplyEnded,
    ReplyEvent,
    ReplyStarted,
    StopReason,
    TextDelta,
    ToolArgsDelta,
    ToolCallStarted,
    UsageReported,
)
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Usage
from qcode.text.json import DuplicateKeyError, parse_arguments, parse_object
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

DraftKind: TypeAlias = Literal["text", "reasoning", "call"]
ArgumentState: TypeAlias = Literal["complete", "incomplete", "malformed", "damaged"]
"""`incomplete`: truncated. `malformed`: not the JSON of an object. `damaged`: an event of the stream was lost."""

# The end of a text that was truncated inside an escape (`\u00`), and inside a number (`1.`, `2e-`).
_CUT_ESCAPE = lazy_pattern(r"\\?(?:u?[0-9a-fA-F]{0,4})?")
_CUT_NUMBER = lazy_pattern(r"-|\.|(?:\.\d+)?[eE][+-]?")


@dataclass(slots=True)
class BlockDraft:
    """A block that is being received."""

    kind: DraftKind
    fragments: list[str] = field(default_factory=list)
    """The text as it arrived in deltas; for a call, its raw argument JSON. `text` joins the fragments."""
    size: int = 0
    """The number of characters in `fragments`."""
    call_id: str = ""
    name: str = ""
    opaque: Opaque | None = None
    state: ArgumentState = "complete"
    is_from_text: bool = False
    """The host sent the call as text."""
    has_gap: bool = False
    """The stream lost an event, which may have been a fragment of this call."""

    def append(self, text: str) -> None:
        self.fragments.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        if len(self.fragments) > 1:
            self.fragments[:] = ["".join(self.fragments)]
        return self.fragments[0] if self.fragments else ""


@dataclass(frozen=True, slots=True)
class ReplyShape:
    """The classification of one attempt; with the budget, the input of `recovery.decide`."""

    stop: StopReason
    raw_stop: str
    """The provider's own stop reason."""
    cap: int
    """The output cap of the attempt in tokens."""
    output_tokens: int | None
    has_text: bool
    """The reply so far, with this attempt, has text; blank blocks do not count."""
    has_reasoning: bool
    last: DraftKind | None
    """The kind of the last text or call that is not blank; without one, `reasoning` if there is any reasoning.

    Reasoning after text does not count, because a continuation drops it.
    """
    calls: tuple[ArgumentState, ...] = ()
    """The state of each call in order."""
    has_progress: bool = True
    """The attempt added text or a call to the reply."""

    @property
    def has_hit_cap(self) -> bool:
        """Whether the output cap truncated this attempt: by its stop reason, or because the count reached the cap."""
        return self.stop is StopReason.MAX_TOKENS or is_at_cap(self.output_tokens, self.cap)

    @property
    def has_incomplete_arguments(self) -> bool:
        return bool(self.calls) and self.calls[-1] == "incomplete"


class Assembler:
    """A collector of one attempt. `tools` maps names to the offered tools, which define the required arguments."""

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self.drafts: list[BlockDraft] = []
        self.usage = Usage()
        self.model = ""
        self.response_id = ""
        self.ended: ReplyEnded | None = None
        self.damaged_events = 0
        self._tools = tools
        self._by_block: dict[int, BlockDraft] = {}

    def add(self, event: ReplyEvent) -> BlockDraft | None:
        """Process one event; return the draft of its block, None if it belongs to no block or to an unknown one."""
        match event:
            case TextDelta():
                return self._append(event.block, "text", event.text)
            case ReasoningDelta():
                return self._append(event.block, "reasoning", event.text)
            case ToolArgsDelta():
                return self._append(event.block, "call", event.text)
            case ToolCallStarted():
                draft = self._draft(event.block, "call")
                draft.call_id, draft.name, draft.is_from_text = event.call_id, event.name, event.is_from_text
                return draft
            case BlockEnded():
                if event.opaque is not None:
                    self._draft(event.block, "reasoning").opaque = event.opaque
                return self._by_block.get(event.block)
            case UsageReported():
                self.usage = self.usage.updated(event.usage)
            case ReplyStarted():
                self.model, self.response_id = event.model, event.response_id
            case ReplyEnded():
                self.ended = event
            case EventDamaged():
                self._mark_gaps()
        return None

    @property
    def text(self) -> str:
        return "".join(draft.text for draft in self.drafts if draft.kind == "text")

    def shape(self, cap: int, *, has_earlier_text: bool = False) -> ReplyShape:
        """Classify the attempt after its last event. `has_earlier_text`: the reply has text of earlier attempts."""
        ended = self.ended or ReplyEnded(StopReason.UNKNOWN, "")
        calls = [draft for draft in self.drafts if draft.kind == "call"]
        is_cut = ended.stop is StopReason.MAX_TOKENS or is_at_cap(self.usage.output, cap)
        for draft in calls:
            draft.state = self._judge(draft, ended, is_cut=is_cut, is_last=draft is calls[-1])
        nonblank = [draft for draft in self.drafts if draft.kind == "call" or draft.text.strip()]
        has_text = any(draft.kind == "text" for draft in nonblank)
        last = next((draft.kind for draft in reversed(nonblank) if draft.kind != "reasoning"), None)
        has_reasoning = any(draft.kind == "reasoning" for draft in self.drafts)
        return ReplyShape(
            stop=ended.stop,
            raw_stop=ended.raw_stop,
            cap=cap,
            output_tokens=self.usage.output,
            has_text=has_text or has_earlier_text,
            has_reasoning=has_reasoning,
            last=last or ("reasoning" if has_reasoning else None),
            calls=tuple(draft.state for draft in calls),
            has_progress=has_text or bool(calls),
        )

    def _mark_gaps(self) -> None:
        """Mark each call whose arguments are still open: the lost event may have been a fragment of them."""
        self.damaged_events += 1
        for draft in self.drafts:
            draft.has_gap = draft.has_gap or (draft.kind == "call" and parse_object(draft.text) is None)

    def _append(self, block: int, kind: DraftKind, text: str) -> BlockDraft:
        draft = self._by_block.get(block) or self._draft(block, kind)
        draft.append(text)
        return draft

    def _draft(self, block: int, kind: DraftKind) -> BlockDraft:
        draft = self._by_block.get(block)
        if draft is None:
            draft = self._by_block[block] = BlockDraft(kind)
            self.drafts.append(draft)
        return draft

    def _judge(self, draft: BlockDraft, ended: ReplyEnded, *, is_cut: bool, is_last: bool) -> ArgumentState:
        """Return the state of a call. Only the last call can be truncated, because a model writes calls in order.

        `is_cut`: the output cap truncated the attempt. Arguments with a gap may still be valid JSON with a different
        meaning. A call that arrived as text may span the whole reply, so any lost event may be a fragment of it.
        """
        if draft.has_gap or (draft.is_from_text and self.damaged_events):
            return "damaged"
        raw = draft.text
        if not raw.strip():
            if is_last and self._is_cut_before_arguments(ended, is_cut=is_cut):
                return "incomplete"
            raw = "{}"
        try:
            arguments = parse_arguments(raw)
        except DuplicateKeyError:
            return "malformed"
        if arguments is None:
            if not is_last:
                return "malformed"
            is_unclosed = self.usage.output is None and ends_early(raw)
            return "incomplete" if is_cut or is_unclosed else "malformed"
        spec = self._tools.get(draft.name)
        if is_cut and is_last and spec is not None and any(name not in arguments for name in spec.required):
            return "incomplete"
        return "complete"

    def _is_cut_before_arguments(self, ended: ReplyEnded, *, is_cut: bool) -> bool:
        """Return whether empty arguments mean truncation; they do not if the stop reason is `TOOL_USE`."""
        if ended.stop is StopReason.TOOL_USE:
            return False
        return is_cut or (self.usage.output is None and ended.stop is not StopReason.END_TURN)


def ends_early(raw: str) -> bool:
    """Return whether `raw` is a valid prefix of JSON: for example `{"path": "a.p`, but not `{"path": a`."""
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            return True
        unparsed = raw[error.pos :].rstrip()
        if "escape" in error.msg:
            return _CUT_ESCAPE.fullmatch(unparsed) is not None
        return not unparsed or _CUT_NUMBER.fullmatch(unparsed) is not None or _is_cut_word(unparsed)
    except RecursionError:
        return False
    return False


def _is_cut_word(text: str) -> bool:
    return any(word.startswith(text) for word in ("true", "false", "null"))
