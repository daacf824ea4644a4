"""What a reply holds between its attempts, and the moves every part of it shares: send, absorb, restore, finish.

`base` is what was shown and is kept; `aside` is a partial that a new attempt may still replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from qcode.engine import caps, requests
from qcode.engine.assembler import Draft
from qcode.engine.attempt import Attempt
from qcode.engine.counting import PromptCounter, estimate_text
from qcode.engine.effects import Append, Effect, Emit, Learn, SendRequest
from qcode.engine.knowledge import KnownModel
from qcode.engine.ledger import Ledger, RequestCause
from qcode.engine.recovery import Termination
from qcode.engine.requests import ReplyPlan, stored_blocks, stored_call, text_of
from qcode.engine.result import Ending, JudgedCall, ReplyResult
from qcode.engine.seam import Seam
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import Attempt as AttemptRecord
from qcode.protocol.events import AttemptKind, ContinuationTerminated, PartialRestored, ReplyFinished, Retry
from qcode.protocol.messages import Message, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.stops import StopReason


@dataclass(frozen=True, slots=True)
class Aside:
    """A shown partial, kept while a new attempt at the same reply runs."""

    drafts: list[Draft]
    text: str
    output_tokens: int | None


class ReplyState:
    """Mutable and owned by one `Reply`."""

    def __init__(self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter, ledger: Ledger) -> None:
        self.plan = plan
        self.model = model
        self.counter = counter
        self.ledger = ledger
        self.tools = plan.tools_by_name
        self.result: ReplyResult | None = None
        self.attempt: Attempt | None = None
        self.after_wait: Callable[[], list[Effect]] | None = None
        self.base: list[Draft] = []
        self.aside: Aside | None = None
        self.has_taken_back = False
        self.records: list[AttemptRecord] = []
        self.kept_tokens = 0
        self.parts = 1
        self.was_cut = False
        self.has_escalated = False
        self.continuations = 0
        self.nudges_left = 1
        self.resumed_calls = 0
        self.failures = 0
        self.breaks = 0
        self.relearned: set[str] = set()
        self.caps = self._plan_caps()

    def _plan_caps(self) -> caps.Caps:
        model = self.model
        return caps.caps_for(self.plan.output, model.output_limit, is_silently_capped=model.host.is_silently_capped)

    def learn(self, learn: Learn) -> Effect:
        """Plan with a new fact from now on, and have it remembered."""
        self.model = self.model.learning(learn)
        self.caps = self._plan_caps()
        return learn

    def fitted(self, request: ModelRequest, cap: int) -> int | None:
        """Return `cap` clamped to what the window leaves for `request`, None where that is too little."""
        size = self.counter.size_of(request)
        return caps.fit(cap, prompt_tokens=size.tokens, window=self.model.window, is_counted=size.is_counted)

    def send(
        self, kind: AttemptKind, request: ModelRequest, cause: RequestCause, *, seam: Seam | None = None
    ) -> list[Effect]:
        """Start an attempt; it goes on with `base`, which is empty unless it continues something."""
        self.ledger.count(cause)
        self.attempt = Attempt(kind, request, self.tools, base=self.base, seam=seam, is_silent=kind == "resume")
        return [SendRequest(request)]

    def send_continuation(self, cap: int, cause: RequestCause, *, is_broken: bool) -> list[Effect]:
        """Ask to go on with `base`. Where the host continues the message itself the seam is exact and not cleaned."""
        self.base = without_trailing_reasoning(self.base)
        request = requests.continuing_request(self.plan, self.model, self.base, cap, is_broken=is_broken)
        seam = None if request.is_prefill else Seam(text_of(self.base))
        return self.send("continuation", request, cause, seam=seam)

    def close_attempt(self, attempt: Attempt, stop: str, *, is_refused: bool = False) -> None:
        """Account for an attempt that ended, in whatever way."""
        self.attempt = None
        self.ledger.add(attempt.assembler.usage, is_refused=is_refused)
        self.records.append(attempt.record(stop))

    def discard_last(self, attempt: Attempt) -> None:
        """Mark the attempt that was closed last as thrown away."""
        self.ledger.discard(attempt.assembler.usage)
        self.records[-1] = replace(self.records[-1], is_discarded=True)

    def start_over(self, reason: str, attempt: int, cap: int) -> Effect:
        """Tell front ends to take back what they show of this reply: another attempt at it follows."""
        self.has_taken_back = True
        return Emit(Retry(is_continuation=False, reason=reason, attempt=attempt, max_tokens=cap))

    def set_aside(self, attempt: Attempt) -> None:
        """Keep what an attempt showed while another takes its place; the longer of two partials is kept."""
        if self.aside is None or attempt.shown_text > len(self.aside.text):
            text = text_of(attempt.drafts)
            self.aside = Aside(attempt.drafts, text, attempt.assembler.usage.output)

    def absorb(self, attempt: Attempt) -> None:
        """Make what an attempt gave a part of the reply."""
        self.kept_tokens += tokens_of(attempt)
        self.base = joined(self.base, attempt.drafts)

    def absorb_text(self, attempt: Attempt) -> None:
        """The same for an attempt that did not end: its calls may be cut anywhere and are dropped."""
        self.kept_tokens += tokens_of(attempt)
        self.base = joined(self.base, [draft for draft in attempt.drafts if draft.kind != "call"])

    def restore_aside(self) -> list[Effect]:
        """Put the partial back in the place of what replaced it; its calls stay gone."""
        aside, self.aside = self.aside, None
        if aside is None:
            return []
        self.base = [draft for draft in aside.drafts if draft.kind != "call"]
        self.kept_tokens = estimate_text(aside.text) if aside.output_tokens is None else aside.output_tokens
        if not self.has_taken_back:
            return []
        reasoning = "".join(draft.text for draft in self.base if draft.kind == "reasoning")
        self.has_taken_back = False
        return [Emit(PartialRestored(aside.text, reasoning))]

    def salvage(self, attempt: Attempt | None) -> list[Effect]:
        """Keep the most complete text there is of a reply that will not go on."""
        shown = attempt.shown_text if attempt else 0
        if self.aside is not None and len(self.aside.text) >= shown:
            return self.restore_aside()
        self.aside = None
        if attempt is not None and attempt.kind != "resume":
            self.absorb_text(attempt)
        self.base = [draft for draft in self.base if draft.kind != "call"]
        return []

    @property
    def text(self) -> str:
        return text_of(self.base)

    def finish(
        self,
        ending: Ending,
        stop: StopReason | None,
        raw_stop: str,
        *,
        why: Termination = "completed",
        note: str = "",
        error: ErrorInfo | None = None,
        cap: int = 0,
    ) -> list[Effect]:
        """Commit what `base` holds and say so; the reply takes nothing after this."""
        blocks = stored_blocks(self.base)
        is_worth_storing = any(isinstance(block, (Text, ToolCall)) for block in blocks)
        message = Message("assistant", blocks) if is_worth_storing else None
        drafts = [draft for draft in self.base if draft.kind == "call"]
        calls = tuple(JudgedCall(stored_call(draft), draft.state, draft.text, cap) for draft in drafts)
        self.result = ReplyResult(ending, stop, raw_stop, message, calls, error, note)
        effects: list[Effect] = []
        if self.was_cut:
            effects.append(Emit(ContinuationTerminated(why)))
        records = tuple(self.records)
        if message is not None:
            effects.append(Append(message, records, note))
        effects.append(Emit(ReplyFinished(stop, raw_stop, self.parts, message, records, note)))
        return effects


def tokens_of(attempt: Attempt) -> int:
    """Return the output tokens of an attempt as reported, else estimated from what it gave."""
    usage = attempt.assembler.usage.output
    return sum(estimate_text(draft.text) for draft in attempt.drafts) if usage is None else usage


def without_trailing_reasoning(drafts: Sequence[Draft]) -> list[Draft]:
    end = len(drafts)
    while end and (drafts[end - 1].kind == "reasoning" or not drafts[end - 1].text.strip()):
        end -= 1
    return list(drafts[:end])


def joined(base: Sequence[Draft], drafts: Sequence[Draft]) -> list[Draft]:
    """Return one list of drafts in which the text goes on where it stopped.

    Unsigned thinking between two pieces of one text is dropped, so that they stay one block; neither list is changed.
    """
    if not base:
        return list(drafts)
    kept = [draft for draft in drafts if draft.kind != "reasoning" or draft.opaque is not None]
    if not kept or kept[0].kind != "text" or base[-1].kind != "text":
        return [*base, *kept]
    first = kept[0]
    text = Draft("text", [*base[-1].pieces, *first.pieces], base[-1].size + first.size)
    text.opaque = first.opaque or base[-1].opaque
    return [*base[:-1], text, *kept[1:]]
