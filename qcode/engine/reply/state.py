"""The state of a reply between its attempts, and the operations that its modules share. Private to this package.

The `describe_` functions return messages about a reply that stays incomplete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from qcode.engine import caps
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import PromptCounter, PromptSize
from qcode.engine.effects import Append, Effect, Emit, RecordRequests, SendRequest
from qcode.engine.ledger import Ledger
from qcode.engine.model_facts import KnownModel, Learn
from qcode.engine.reply import requests
from qcode.engine.reply.assembler import BlockDraft, ReplyShape
from qcode.engine.reply.attempt import Attempt
from qcode.engine.reply.phase import (
    Closed,
    Ending,
    Finished,
    ReceivedCall,
    Reopened,
    ReplyPhase,
    ReplyResult,
    Streaming,
    Unsent,
)
from qcode.engine.reply.recovery import Termination
from qcode.engine.reply.requests import ReplyPlan, stored_blocks, stored_call, text_of
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    AttemptKind,
    AttemptRecord,
    ContinuationTerminated,
    Notice,
    PartialRestored,
    ReplyFinished,
    RequestCause,
    Retry,
)
from qcode.protocol.messages import Block, Message, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Limit, StopReason, WebSearched
from qcode.protocol.usage import Usage
from qcode.text.numbers import count_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.engine.reply.seam import Seam


@dataclass(frozen=True, slots=True)
class SupersededAttempt:
    """An attempt whose text is kept in case its replacement fails."""

    attempt: Attempt
    shape: ReplyShape | None
    """The classification of the attempt, None if its stream broke."""
    drafts: list[BlockDraft]
    text: str
    output_tokens: int
    """The output tokens of the attempt, as reported or counted."""


@dataclass(frozen=True, slots=True)
class _AttemptSearch:
    """A search of the host during an attempt."""

    record_index: int
    """The index of the attempt in `ReplyState.records`."""
    search: WebSearched


class ReplyState:
    """The mutable state of one `Reply`, which owns it."""

    def __init__(self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter, ledger: Ledger) -> None:
        self.plan = plan
        self.model = model
        self.counter = counter
        self.ledger = ledger
        self.tools = plan.tools_by_name
        self.phase: ReplyPhase = Unsent()
        """The current phase."""
        self.reply_drafts: list[BlockDraft] = []
        """The blocks of ended attempts that are part of the reply."""
        self.superseded: SupersededAttempt | None = None
        """An earlier attempt that a new one may replace."""
        self.has_compacted = False
        """A compaction was requested for this reply; there is at most one."""
        self.has_retracted_text = False
        """Front ends removed the text of the superseded attempt; `PartialRestored` shows it again if it is restored."""
        self.records: list[AttemptRecord] = []
        """A record of each attempt that ended or failed, in order."""
        self.searches: list[_AttemptSearch] = []
        """The searches of the host in all attempts."""
        self.kept_tokens = 0
        """The output tokens of the attempts whose blocks are in `reply_drafts`."""
        self.attempt_count = 1
        """The number of attempts from which the text is joined."""
        self.was_cut = False
        """An output limit truncated an attempt of this reply."""
        self.cut_raw_stop = ""
        """The stop reason of the last truncated attempt, as the provider sent it."""
        self.has_escalated = False
        self.continuations = 0
        """How often a truncated text was continued; limited by `OutputSettings.max_continuations`."""
        self.repairs_left = 1
        self.resumed_calls = 0
        """How often the remaining arguments of a truncated call were requested."""
        self.consecutive_failures = 0
        """Failures in a row, without new text between them."""
        self.limit_waits = 0
        """How many rate limits the reply has waited for."""
        self.replaced_model_error: ErrorInfo | None = None
        """The failure of the model that a fallback model replaced last."""
        self.text_resumptions = 0
        """How often a shown text was continued after its stream broke; limited by `MAX_TRANSPORT_CONTINUATIONS`."""
        self.has_restarted_after_damage = False
        """An attempt of this reply was stopped because of a damaged event."""
        self.transport_retries = 0
        """How many `Retry` events with the reason `transport` were emitted."""
        self.learned_limit_kinds: set[str] = set()
        """The kinds of limits learned from consecutive errors; each kind is learned once, so that the retries end."""
        self.caps = self._plan_caps()

    def _plan_caps(self) -> caps.Caps:
        """Return the caps of this reply by the settings and the facts about the model."""
        model = self.model
        host = model.host
        planned = caps.caps_for(
            self.plan.output,
            model.output_limit,
            is_silently_capped=host.is_silently_capped,
            learned=host.first_cap,
        )
        is_raised = self.plan.starts_escalated and planned.escalation is not None
        return replace(planned, first=planned.escalation or planned.first) if is_raised else planned

    def switch_model(self, plan: ReplyPlan, model: KnownModel, counter: PromptCounter) -> None:
        """Continue the reply with another model, at the price of that model."""
        self.plan = plan
        self.model = model
        self.counter = counter
        self.tools = plan.tools_by_name
        self.caps = self._plan_caps()
        self.has_escalated = False
        self.text_resumptions = 0
        self.reset_failures()
        self.ledger.price = model.facts.price

    def mark_cut(self, raw_stop: str) -> None:
        """Record that an output limit truncated an attempt."""
        self.was_cut = True
        self.cut_raw_stop = raw_stop

    @property
    def is_affordable(self) -> bool:
        """Whether the prompt cost less than the user's cost limit; True if there is none."""
        limit = self.plan.max_budget_usd
        return limit is None or self.ledger.outermost.spent < limit

    def learn(self, learn: Learn) -> Effect:
        """Apply a new fact to this reply, and return the effect that stores it."""
        self.model = self.model.with_fact(learn)
        self.caps = self._plan_caps()
        return learn

    def fit_cap(self, request: ModelRequest, cap: int) -> int | None:
        """Return `cap` clamped to the tokens that the window leaves for `request`, None if they are too few."""
        window = self.model.window
        size = self.counter.size_of(request, threshold=caps.max_prompt_tokens(cap, window))
        return caps.fit(cap, prompt_tokens=size.tokens, window=window, is_counted=size.is_counted)

    def send(
        self,
        kind: AttemptKind,
        request: ModelRequest,
        cause: RequestCause,
        *,
        seam: Seam | None = None,
        is_broken: bool = False,
    ) -> list[Effect]:
        """Start an attempt that continues `reply_drafts`, which is empty for a first attempt.

        `is_broken`: the attempt continues a text whose stream broke.
        """
        self.ledger.count(cause)
        attempt = Attempt(
            kind,
            request,
            self.tools,
            reply_drafts=self.reply_drafts,
            seam=seam,
            is_silent=kind == "resume",
            is_broken=is_broken,
            is_retry=cause == "retries",
            has_inline_thinking=self.model.facts.has_inline_thinking,
            model=self.model.title,
        )
        self.phase = Streaming(attempt, cause)
        return [SendRequest(request)]

    def send_continuation(self, cap: int, cause: RequestCause, *, is_broken: bool) -> list[Effect]:
        """Request the continuation of the reply. With prefill the host continues exactly, so no seam is needed."""
        self.reply_drafts = without_trailing_reasoning(self.reply_drafts)
        request = requests.continuation_request(self.plan, self.model, self.reply_drafts, cap, is_broken=is_broken)
        if request.is_prefill:
            return self.send("continuation", request, cause, is_broken=is_broken)
        from qcode.engine.reply.seam import Seam

        seam = Seam(text_of(self.reply_drafts))
        return self.send("continuation", request, cause, seam=seam, is_broken=is_broken)

    def send_again(self, attempt: Attempt, cap: int, request: ModelRequest | None = None) -> list[Effect]:
        """Send the request of a failed attempt again, or `request` instead."""
        seam = None if attempt.seam is None else attempt.seam.for_next_continuation()
        request = replace(request or attempt.request, max_tokens=cap)
        return self.send(attempt.kind, request, "retries", seam=seam, is_broken=attempt.is_broken)

    def close_attempt(self, attempt: Attempt, stop: str) -> None:
        """Record the usage of an attempt that ended or failed."""
        self.phase = Closed(attempt)
        usage = attempt.assembler.usage
        estimate = Usage(self.counter.size_of(attempt.request).tokens, self.tokens_of(attempt))
        self.ledger.add(attempt.model, usage, estimate, is_unused=not attempt.has_begun)
        attempt.record_index = len(self.records)
        self.records.append(attempt.record(stop))
        self.searches += [_AttemptSearch(attempt.record_index, search) for search in attempt.searches]

    def reset_failures(self) -> None:
        """Forget the consecutive failures and the limits learned from them."""
        self.consecutive_failures = 0
        self.learned_limit_kinds.clear()

    def discard(self, attempt: Attempt) -> None:
        """Mark a closed attempt as discarded. Idempotent."""
        self._set_discarded(attempt, is_discarded=True)

    def _set_discarded(self, attempt: Attempt, *, is_discarded: bool) -> None:
        """Change the mark in the record of an attempt, and count its output as discarded or not."""
        record = self.records[attempt.record_index]
        if record.is_discarded is is_discarded:
            return
        self.records[attempt.record_index] = replace(record, is_discarded=is_discarded)
        if is_discarded:
            self.ledger.discard(attempt.assembler.usage)
        else:
            self.ledger.undo_discard(attempt.assembler.usage)

    def retract_text(self, reason: str, attempt: int, cap: int) -> Effect:
        """Return the event that makes front ends remove the shown text of the reply; a new attempt replaces it."""
        self.has_retracted_text = True
        return Emit(Retry(is_continuation=False, reason=reason, attempt=attempt, max_tokens=cap))

    def supersede(self, attempt: Attempt, shape: ReplyShape | None = None) -> None:
        """Discard an attempt but store its text until its replacement succeeds; the longer of two texts is stored."""
        self.discard(attempt)
        if self.superseded is None or attempt.shown_chars > len(self.superseded.text):
            text = text_of(attempt.drafts)
            self.superseded = SupersededAttempt(attempt, shape, attempt.drafts, text, self.tokens_of(attempt))

    def absorb(self, attempt: Attempt) -> None:
        """Add the text and calls of an attempt to the reply."""
        self.kept_tokens += self.tokens_of(attempt)
        self.reply_drafts = join_drafts(self.reply_drafts, attempt.drafts)

    def absorb_text(self, attempt: Attempt) -> None:
        """Add the blocks of an attempt without its calls, which may be incomplete."""
        self.kept_tokens += self.tokens_of(attempt)
        self.reply_drafts = join_drafts(self.reply_drafts, without_calls(attempt.drafts))

    def restore_superseded(self, *, is_interrupted: bool = False) -> list[Effect]:
        """Make the superseded attempt the reply, without its calls. `is_interrupted`: the user ends the reply."""
        superseded = self.superseded
        if superseded is None:
            return []
        self.reply_drafts = without_calls(superseded.drafts)
        self.kept_tokens = superseded.output_tokens
        return self._reinstate(superseded, is_interrupted=is_interrupted)

    def reopen_superseded(self) -> list[Effect]:
        """Reopen the superseded attempt with its calls, so that `recovery` decides on it again."""
        superseded = self.superseded
        if superseded is None or superseded.shape is None:
            return []
        self.phase = Reopened(superseded.attempt, superseded.shape)
        return self._reinstate(superseded)

    def _reinstate(self, superseded: SupersededAttempt, *, is_interrupted: bool = False) -> list[Effect]:
        """Use the superseded attempt again. If front ends removed its text, return the event that shows it."""
        self.superseded = None
        self._set_discarded(superseded.attempt, is_discarded=False)
        if not self.has_retracted_text:
            return []
        self.has_retracted_text = False
        reasoning = "".join(draft.text for draft in superseded.drafts if draft.kind == "reasoning")
        return [Emit(PartialRestored(superseded.text, reasoning, is_interrupted))]

    def keep_longest_text(self, attempt: Attempt | None, *, is_interrupted: bool = False) -> list[Effect]:
        """Keep the longest text of a reply that is about to end; `attempt` is closed already.

        `is_interrupted`: the user ends the reply.
        """
        shown_length = attempt.shown_chars if attempt else 0
        if self.superseded is not None and len(self.superseded.text) >= shown_length:
            if attempt is not None:
                self.discard(attempt)
            return self.restore_superseded(is_interrupted=is_interrupted)
        self.superseded = None
        if attempt is not None and not attempt.completes_call:
            self.absorb_text(attempt)
        self.reply_drafts = without_calls(self.reply_drafts)
        return []

    def tokens_of(self, attempt: Attempt) -> int:
        """Return the output tokens of an attempt as reported, or as counted from its text.

        The report of an interrupted attempt may be an early one, so the larger of the two is returned.
        """
        reported = attempt.assembler.usage.output
        if reported is not None and attempt.assembler.ended is not None:
            return reported
        return max(reported or 0, sum(self.counter.measure(draft.text) for draft in attempt.drafts))

    @property
    def text(self) -> str:
        return text_of(self.reply_drafts)

    @property
    def can_raise_cap(self) -> bool:
        """Whether a higher --max-output-tokens would let this reply be longer.

        It would not at the model's own limit, if the context window lowered the cap, or if the host ignores the cap.
        """
        cap = max((record.max_tokens for record in self.records), default=0)
        limit = self.model.output_limit
        is_planned = cap in (self.caps.first, self.caps.escalation, self.caps.continuation)
        return is_planned and not self.model.host.is_silently_capped and (limit is None or cap < limit)

    def finish(
        self,
        ending: Ending,
        stop: StopReason | None = None,
        raw_stop: str = "",
        *,
        termination: Termination = "completed",
        note: str = "",
        error: ErrorInfo | None = None,
        cap: int = 0,
        limit: Limit | None = None,
        escalates_next_request: bool = False,
    ) -> list[Effect]:
        """End the reply with the blocks in `reply_drafts`.

        `stop` and `raw_stop` are the stop reason of the last attempt, if it has one. `termination` is the reason why no
        attempt follows. `cap` is the output cap of the attempt with the calls. See `ReplyResult` for the others.
        """
        assert not isinstance(self.phase, Finished), "a reply ends only once"
        if stop is StopReason.MAX_TOKENS:
            raw_stop = raw_stop or self.cut_raw_stop  # a later attempt may have failed without a stop reason
        self._count_truncated_call()
        blocks = stored_blocks(self.reply_drafts)
        is_worth_storing = any(is_call_or_text(block) for block in blocks)
        message = Message("assistant", blocks) if is_worth_storing else None
        calls = self._received_calls(cap, escalates_next_request=escalates_next_request)
        self.phase = Finished(
            ReplyResult(ending, stop, raw_stop, message, calls, error, note, limit, escalates_next_request)
        )
        # The searches of a discarded attempt disappear with its text.
        kept_searches = [item.search for item in self.searches if not self.records[item.record_index].is_discarded]
        effects: list[Effect] = [Emit(search) for search in kept_searches]
        if self.was_cut:
            effects.append(Emit(ContinuationTerminated(termination)))
        records = tuple(self.records)
        if message is not None:
            effects.append(Append(message, records, note))
        elif records:
            effects.append(RecordRequests(records))
        if damaged := sum(record.damaged_events for record in records if not record.is_discarded):
            effects.append(Emit(Notice("warning", describe_damaged(self.model.title, damaged))))
        effects.append(Emit(ReplyFinished(stop, raw_stop, self.attempt_count, message, records, note)))
        return effects

    def _received_calls(self, cap: int, *, escalates_next_request: bool) -> tuple[ReceivedCall, ...]:
        drafts = [draft for draft in self.reply_drafts if draft.kind == "call"]
        can_raise_cap = bool(drafts) and self.can_raise_cap
        return tuple(
            ReceivedCall(stored_call(draft), draft.state, draft.text, cap, escalates_next_request, can_raise_cap)
            for draft in drafts
        )

    def _count_truncated_call(self) -> None:
        """Count the tokens of a truncated call in the reply, in the record of the last attempt that is kept."""
        kept = [index for index, record in enumerate(self.records) if not record.is_discarded]
        drafts = (draft for draft in self.reply_drafts if draft.kind == "call" and draft.state == "incomplete")
        tokens = sum(self.counter.measure(draft.text) for draft in drafts)
        if not kept or not tokens:
            return
        record = self.records[kept[-1]]
        if record.usage.output is not None:
            tokens = min(tokens, record.usage.output)
        self.records[kept[-1]] = replace(record, truncated_call_tokens=tokens)
        self.ledger.add_truncated_call(tokens)


def is_call_or_text(block: Block) -> bool:
    """Return whether `block` is a call, or text that is not blank."""
    return isinstance(block, ToolCall) or (isinstance(block, Text) and bool(block.text.strip()))


def without_calls(drafts: Sequence[BlockDraft]) -> list[BlockDraft]:
    return [draft for draft in drafts if draft.kind != "call"]


def without_trailing_reasoning(drafts: Sequence[BlockDraft]) -> list[BlockDraft]:
    """Return `drafts` without the reasoning at their end; white space after that reasoning joins the last text."""
    end = len(drafts)
    while end and (drafts[end - 1].kind == "reasoning" or not drafts[end - 1].text.strip()):
        end -= 1
    blank_texts = [draft for draft in drafts[end:] if draft.kind == "text" and draft.size]
    return join_drafts(list(drafts[:end]), blank_texts)


def join_drafts(earlier: Sequence[BlockDraft], drafts: Sequence[BlockDraft]) -> list[BlockDraft]:
    """Return both lists as one, in which the first text of `drafts` joins a text at the end of `earlier`.

    Unsigned reasoning between the two texts is dropped, so that they form one block. Neither list is changed.
    """
    if not earlier:
        return list(drafts)
    blocks = [draft for draft in drafts if draft.kind != "reasoning" or draft.opaque is not None]
    result = list(earlier)
    for draft in blocks:
        if draft.kind == "text" and result[-1].kind == "text":
            result[-1] = _concatenate(result[-1], draft)
        else:
            result.append(draft)
    return result


def _concatenate(first: BlockDraft, second: BlockDraft) -> BlockDraft:
    text = BlockDraft("text", [*first.fragments, *second.fragments], first.size + second.size)
    text.opaque = second.opaque or first.opaque
    return text


def describe_damaged(model: str, events: int) -> str:
    """Return the message for a reply whose stream had events that could not be read."""
    return (
        f"{model}: {count_text(events, 'damaged event')} of the stream could not be read, so the reply may lack text. "
        "Check it, or ask again."
    )


def describe_repetition(*, has_text: bool) -> str:
    """Return the message for a reply that was stopped because the model repeated itself endlessly."""
    ending = "; the text so far is kept" if has_text else " before it answered"
    return f"The model kept repeating itself, so qcode stopped it{ending}. Rephrase the request, or try another model."


def describe_full_window(prompt: PromptSize, window: int | None) -> str:
    """Return the message for a prompt that fills the context window."""
    size = window or DEFAULT_CONTEXT_WINDOW
    needs = ""
    if prompt.tokens < size:
        margin = caps.margin(window, is_counted=prompt.is_counted)
        needs = f" ({margin:,} are a safety margin, and a reply needs {caps.MIN_USEFUL_OUTPUT:,})"
    return (
        f"The prompt (about {prompt.tokens:,} tokens) leaves no room for a reply in the context window of {size:,}"
        f"{needs}. Shorten it, attach less, or start a new session."
    )


def _caps_text(attempts: Sequence[AttemptRecord]) -> str:
    """Return the output caps of the requests: `output cap 8,000 tokens, then 64,000 tokens in each of 4 requests`.

    If all requests had the same cap: `output cap 500 tokens each`.
    """
    counted_caps = [(cap, len(list(group))) for cap, group in groupby(attempt.max_tokens for attempt in attempts)]
    if len(counted_caps) == 1:
        ((cap, count),) = counted_caps
        return f"output cap {cap:,} tokens each" if count > 1 else f"output cap {cap:,} tokens"
    texts = [
        f"{cap:,} tokens in each of {count} requests" if count > 1 else f"{cap:,} tokens" for cap, count in counted_caps
    ]
    return f"output cap {', then '.join(texts)}"


def describe_cut(
    attempts: Sequence[AttemptRecord], termination: str, error: str = "", *, can_raise_cap: bool = False
) -> str:
    """Return the message for a reply that stays truncated: the number of requests, the reason, and advice.

    `can_raise_cap`: see `ReplyState.can_raise_cap`.
    """
    request_count = count_text(len(attempts), "request")
    reason = {
        "no_progress": "the last continuation added nothing",
        "budget_exhausted": "the output budget is used up (max_total_completion_tokens, max_total_output_chars)",
        "repetition": "the last continuation kept repeating itself and was stopped",
        "error": f"the last request failed: {error}" if error else "the last request failed",
    }.get(termination, "each request reached its output limit")
    # A higher cap prevents neither an error nor a repetition, and the output budget has its own settings.
    is_cap_to_blame = termination not in ("error", "repetition", "budget_exhausted")
    remedy = _with_higher_cap("Ask to continue", can_raise_cap=can_raise_cap and is_cap_to_blame)
    return f"The reply is incomplete after {request_count} ({_caps_text(attempts)}): {reason}. {remedy}"


def _with_higher_cap(advice: str, *, can_raise_cap: bool) -> str:
    """Return `advice` as a sentence, which also suggests a higher cap if that helps."""
    return f"{advice}, or set a higher --max-output-tokens." if can_raise_cap else f"{advice}."


def describe_overspent(attempts: Sequence[AttemptRecord], limit: Decimal) -> str:
    """Return the message for a truncated reply that is not continued because of the cost limit."""
    return (
        f"The reply is incomplete ({_caps_text(attempts)}): continuing would exceed --max-budget-usd {limit}. Ask to "
        "continue, or raise the budget."
    )


def describe_thinking_only(attempts: Sequence[AttemptRecord], thinking_chars: int, *, can_raise_cap: bool) -> str:
    """Return the message for a reply that has only reasoning: its output caps, and advice."""
    thought = f"{count_text(thinking_chars, 'character')} of thinking"
    remedy = _with_higher_cap("Lower the reasoning effort", can_raise_cap=can_raise_cap)
    return (
        f"Thinking used up the output limit in every request ({_caps_text(attempts)}; {thought}, no answer). {remedy}"
    )


def describe_empty(attempts: Sequence[AttemptRecord], *, can_raise_cap: bool) -> str:
    """Return the message for a reply that was truncated before any block arrived."""
    remedy = _with_higher_cap("Ask for less at once", can_raise_cap=can_raise_cap)
    return f"The reply was truncated before any text or tool call arrived ({_caps_text(attempts)}). {remedy}"
