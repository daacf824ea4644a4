"""What a reply holds between its attempts, and the moves every part of it shares: send, absorb, restore, finish.

`base` is what was shown and is kept; `aside` is a partial that a new attempt may still replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from qcode.engine import caps, requests
from qcode.engine.assembler import Draft, ReplyShape
from qcode.engine.attempt import Attempt
from qcode.engine.counting import PromptCounter
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
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.stops import Limit, StopReason
from qcode.protocol.usage import Usage
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Aside:
    """A shown partial, kept while a new attempt at the same reply runs. `shape` is None where its stream broke."""

    attempt: Attempt
    shape: ReplyShape | None
    drafts: list[Draft]
    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The window is full: how the reply ends if nothing can be done, and the closed attempt that met the end."""

    give_up: Callable[[], list[Effect]]
    attempt: Attempt | None


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
        self.cause: RequestCause = "initial"
        self.after_wait: Callable[[], list[Effect]] | None = None
        self.base: list[Draft] = []
        self.aside: Aside | None = None
        self.reopened: tuple[Attempt, ReplyShape] | None = None
        self.wants_room: NoRoom | None = None
        self.has_made_room = False
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
        """How often a shown text was continued because its stream broke: its budget."""
        self.resends = 0
        """How often front ends were told that a broken stream is made good."""
        self.relearned: set[str] = set()
        self.caps = self._plan_caps()

    def _plan_caps(self) -> caps.Caps:
        model = self.model
        return caps.caps_for(self.plan.output, model.output_limit, is_silently_capped=model.host.is_silently_capped)

    @property
    def is_affordable(self) -> bool:
        """Whether the prompt has cost less than the person would spend on it; True where there is no such limit."""
        limit = self.plan.max_budget_usd
        return limit is None or self.ledger.whole.spent < limit

    def learn(self, learn: Learn) -> Effect:
        """Plan with a new fact from now on, and have it remembered."""
        self.model = self.model.learning(learn)
        self.caps = self._plan_caps()
        return learn

    def fitted(self, request: ModelRequest, cap: int) -> int | None:
        """Return `cap` clamped to what the window leaves for `request`, None where that is too little."""
        window = self.model.window
        size = self.counter.size_of(request, enough=caps.room_for_prompt(cap, window))
        return caps.fit(cap, prompt_tokens=size.tokens, window=window, is_counted=size.is_counted)

    def ask_for_room(self, give_up: Callable[[], list[Effect]], attempt: Attempt | None = None) -> list[Effect]:
        """Wait for the conversation to be compacted, once; otherwise end as `give_up` does."""
        if not self.plan.can_make_room or self.has_made_room:
            return give_up()
        self.has_made_room = True
        self.wants_room = NoRoom(give_up, attempt)
        return []

    def send(
        self,
        kind: AttemptKind,
        request: ModelRequest,
        cause: RequestCause,
        *,
        seam: Seam | None = None,
        is_broken: bool = False,
    ) -> list[Effect]:
        """Start an attempt; it goes on with `base`, which is empty unless it continues something."""
        self.ledger.count(cause)
        self.cause = cause
        self.attempt = Attempt(
            kind,
            request,
            self.tools,
            base=self.base,
            seam=seam,
            is_silent=kind == "resume",
            is_broken=is_broken,
            has_inline_thinking=self.model.facts.inline_thinking,
        )
        return [SendRequest(request)]

    def send_continuation(self, cap: int, cause: RequestCause, *, is_broken: bool) -> list[Effect]:
        """Ask to go on with `base`. Where the host continues the message itself the seam is exact and not cleaned."""
        self.base = without_trailing_reasoning(self.base)
        request = requests.continuing_request(self.plan, self.model, self.base, cap, is_broken=is_broken)
        seam = None if request.is_prefill else Seam(text_of(self.base))
        return self.send("continuation", request, cause, seam=seam, is_broken=is_broken)

    def send_again(self, attempt: Attempt, cap: int, request: ModelRequest | None = None) -> list[Effect]:
        """Send the request of an attempt that failed once more, or `request` in its place."""
        seam = None if attempt.seam is None else attempt.seam.renewed()
        request = replace(request or attempt.request, max_tokens=cap)
        return self.send(attempt.kind, request, "retries", seam=seam, is_broken=attempt.is_broken)

    def close_attempt(self, attempt: Attempt, stop: str) -> None:
        """Account for an attempt that ended, in whatever way."""
        self.attempt = None
        usage = attempt.assembler.usage
        estimate = Usage(self.counter.size_of(attempt.request).tokens, self.tokens_of(attempt))
        self.ledger.add(usage, estimate, is_unused=not attempt.has_begun)
        attempt.record_index = len(self.records)
        self.records.append(attempt.record(stop))

    def discard(self, attempt: Attempt) -> None:
        """Mark a closed attempt as thrown away; doing it twice changes nothing."""
        self._mark(attempt, is_discarded=True)

    def _mark(self, attempt: Attempt, *, is_discarded: bool) -> None:
        record = self.records[attempt.record_index]
        if record.is_discarded is is_discarded:
            return
        self.records[attempt.record_index] = replace(record, is_discarded=is_discarded)
        move = self.ledger.discard if is_discarded else self.ledger.keep
        move(attempt.assembler.usage)

    def start_over(self, reason: str, attempt: int, cap: int) -> Effect:
        """Tell front ends to take back what they show of this reply: another attempt at it follows."""
        self.has_taken_back = True
        return Emit(Retry(is_continuation=False, reason=reason, attempt=attempt, max_tokens=cap))

    def set_aside(self, attempt: Attempt, shape: ReplyShape | None = None) -> None:
        """Keep what an attempt showed while another takes its place; the longer of two partials is kept."""
        self.discard(attempt)
        if self.aside is None or attempt.shown_text > len(self.aside.text):
            text = text_of(attempt.drafts)
            self.aside = Aside(attempt, shape, attempt.drafts, text, self.tokens_of(attempt))

    def absorb(self, attempt: Attempt) -> None:
        """Make what an attempt gave a part of the reply."""
        self.kept_tokens += self.tokens_of(attempt)
        self.base = joined(self.base, attempt.drafts)

    def absorb_text(self, attempt: Attempt) -> None:
        """The same for an attempt that did not end: its calls may be cut anywhere and are dropped."""
        self.kept_tokens += self.tokens_of(attempt)
        self.base = joined(self.base, without_calls(attempt.drafts))

    def restore_aside(self) -> list[Effect]:
        """Put the partial back in the place of what replaced it; its calls stay gone."""
        aside = self.aside
        if aside is None:
            return []
        self.base = without_calls(aside.drafts)
        self.kept_tokens = aside.output_tokens
        return self._take_up_aside(aside)

    def reopen_aside(self) -> list[Effect]:
        """Go back to the partial as it was, calls included, for another decision on it: see `reopened`."""
        aside = self.aside
        if aside is None or aside.shape is None:
            return []
        self.reopened = (aside.attempt, aside.shape)
        return self._take_up_aside(aside)

    def _take_up_aside(self, aside: Aside) -> list[Effect]:
        self.aside = None
        self._mark(aside.attempt, is_discarded=False)
        if not self.has_taken_back:
            return []
        self.has_taken_back = False
        reasoning = "".join(draft.text for draft in aside.drafts if draft.kind == "reasoning")
        return [Emit(PartialRestored(aside.text, reasoning))]

    def salvage(self, attempt: Attempt | None) -> list[Effect]:
        """Keep the most complete text there is of a reply that will not go on; `attempt` is closed already."""
        shown = attempt.shown_text if attempt else 0
        if self.aside is not None and len(self.aside.text) >= shown:
            if attempt is not None:
                self.discard(attempt)
            return self.restore_aside()
        self.aside = None
        if attempt is not None and attempt.kind != "resume":
            self.absorb_text(attempt)
        self.base = without_calls(self.base)
        return []

    def tokens_of(self, attempt: Attempt) -> int:
        """Return the output tokens of an attempt as reported, else as good as can be told from what it gave.

        Of an attempt that did not end a report may be from its beginning, so the larger of the two counts.
        """
        reported = attempt.assembler.usage.output
        if reported is not None and attempt.assembler.ended is not None:
            return reported
        return max(reported or 0, sum(self.counter.measure(draft.text) for draft in attempt.drafts))

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
        limit: Limit | None = None,
    ) -> list[Effect]:
        """Commit what `base` holds and say so; the reply takes nothing after this."""
        assert self.result is None, "a reply ends once"
        blocks = stored_blocks(self.base)
        is_worth_storing = any(is_solid(block) for block in blocks)
        message = Message("assistant", blocks) if is_worth_storing else None
        drafts = [draft for draft in self.base if draft.kind == "call"]
        calls = tuple(JudgedCall(stored_call(draft), draft.state, draft.text, cap) for draft in drafts)
        self.result = ReplyResult(ending, stop, raw_stop, message, calls, error, note, limit)
        effects: list[Effect] = []
        if self.was_cut:
            effects.append(Emit(ContinuationTerminated(why)))
        records = tuple(self.records)
        if message is not None:
            effects.append(Append(message, records, note))
        effects.append(Emit(ReplyFinished(stop, raw_stop, self.parts, message, records, note)))
        return effects


def is_solid(block: Block) -> bool:
    return isinstance(block, ToolCall) or (isinstance(block, Text) and bool(block.text.strip()))


def without_calls(drafts: Sequence[Draft]) -> list[Draft]:
    return [draft for draft in drafts if draft.kind != "call"]


def without_trailing_reasoning(drafts: Sequence[Draft]) -> list[Draft]:
    """Return drafts that end with their last text; white space behind the reasoning that is dropped goes on in it."""
    end = len(drafts)
    while end and (drafts[end - 1].kind == "reasoning" or not drafts[end - 1].text.strip()):
        end -= 1
    space = [draft for draft in drafts[end:] if draft.kind == "text" and draft.size]
    return joined(list(drafts[:end]), space)


def joined(base: Sequence[Draft], drafts: Sequence[Draft]) -> list[Draft]:
    """Return one list of drafts in which the text goes on where it stopped.

    Unsigned thinking between two pieces of one text is dropped, so that they stay one block; neither list is changed.
    """
    if not base:
        return list(drafts)
    kept = [draft for draft in drafts if draft.kind != "reasoning" or draft.opaque is not None]
    result = list(base)
    for draft in kept:
        if draft.kind == "text" and result[-1].kind == "text":
            result[-1] = _one_text(result[-1], draft)
        else:
            result.append(draft)
    return result


def _one_text(first: Draft, second: Draft) -> Draft:
    text = Draft("text", [*first.pieces, *second.pieces], first.size + second.size)
    text.opaque = second.opaque or first.opaque
    return text
