"""The decision after an attempt: one total, pure function from a reply's shape and budget.

The first truncated attempt is usually escalated: sent again with a larger output cap. Text that cannot be escalated is
continued. An incomplete call is never run. `reply` carries out the decisions and keeps the budget. The reasons for this
order are in docs/decisions.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.engine.reply.assembler import ReplyShape
from qcode.protocol.reply import StopReason
from qcode.values import dataclass

Termination: TypeAlias = Literal[
    "completed", "retry_limit", "budget_exhausted", "no_progress", "safety_blocked", "cancelled", "error"
]
"""Why no further attempt follows."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The remaining budget of a reply, and the settings that restrict its use."""

    escalation_cap: int | None
    """The cap of an escalation in tokens; None if escalation was used, is off, or gains nothing."""
    continuation_cap: int | None
    """The cap of a continuation in tokens; None if the window leaves too few tokens."""
    continuations_left: int
    tokens_left: int
    chars_left: int
    repairs_left: int = 1
    """How many requests for an answer (`AskForAnswer`) or for a well-formed call (`RepairCall`) are left."""
    resumed_calls_left: int = 0
    """How many requests may still complete a truncated call; 0 unless it writes a file and the repair is `resume`."""
    prefers_continuing: bool = False
    """Truncated text is continued instead of escalated."""
    is_append_only: bool = False
    """The front end cannot remove text, so a reply with text is never escalated, even for a truncated call."""
    is_continuation: bool = False
    """The attempt that ended was a continuation."""
    is_affordable: bool = True
    """The user's cost limit for this prompt is not reached."""


@dataclass(frozen=True, slots=True)
class Done:
    """Commit the reply."""

    is_cut: bool = False
    """The reply stays truncated, and a notice gives the reason."""
    termination: Termination = "completed"


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Commit the reply and run its complete calls; an incomplete last call is rejected."""

    escalates_next_request: bool = False
    """The next request has the larger cap.

    This reply could not be escalated, because the front end cannot remove the text that it showed.
    """


@dataclass(frozen=True, slots=True)
class CommitPaused:
    """Commit the reply and send it back unchanged, because the provider paused."""


@dataclass(frozen=True, slots=True)
class Escalate:
    """Send the same request again with a larger output cap; its reply replaces this attempt."""

    cap: int
    """The output cap in tokens."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Keep the text and request its continuation."""

    cap: int
    """The output cap in tokens."""


@dataclass(frozen=True, slots=True)
class AskForAnswer:
    """Ask once for the answer itself, because reasoning used up the whole cap."""


@dataclass(frozen=True, slots=True)
class ResumeCall:
    """Ask for the rest of the argument JSON of a truncated write."""


@dataclass(frozen=True, slots=True)
class RepairCall:
    """Ask once for a well-formed call, because the provider could not parse the model's call."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the turn with an error, because the reply has nothing usable."""

    cause: Literal["thinking_only", "empty", "unknown", "malformed"]


Decision: TypeAlias = (
    Done | RunCalls | CommitPaused | Escalate | Continue | AskForAnswer | ResumeCall | RepairCall | Fail
)


def decide(shape: ReplyShape, budget: Budget) -> Decision:
    """Return the next action. Each action that does not end the reply consumes a part of the budget."""
    if shape.stop is StopReason.REFUSAL:
        return Done(termination="safety_blocked")
    if shape.stop is StopReason.CONTEXT_WINDOW_EXCEEDED:
        return Done(is_cut=True, termination="budget_exhausted")
    if _is_cut(shape):
        return _decide_cut(shape, budget)
    if shape.calls:
        return RunCalls()
    if shape.stop is StopReason.PAUSED:
        return CommitPaused()
    if shape.stop is StopReason.MALFORMED_CALL:
        return RepairCall() if budget.repairs_left and budget.is_affordable else Fail("malformed")
    if shape.stop is StopReason.UNKNOWN and not shape.has_text:
        return Fail("unknown")
    return Done()


def _is_cut(shape: ReplyShape) -> bool:
    """Return whether the reply is truncated: its last call is incomplete, or the cap was hit after the last call.

    A model writes in order: if the last call is complete, everything before it is complete too.
    """
    if shape.has_incomplete_arguments:
        return True
    return shape.has_hit_cap and not (shape.last == "call" and shape.calls[-1] == "complete")


def _decide_cut(shape: ReplyShape, budget: Budget) -> Decision:
    """Return the next action for a truncated reply."""
    if not budget.is_affordable:
        return RunCalls() if shape.calls else Done(is_cut=True, termination="budget_exhausted")
    ends_in_text = not shape.calls and shape.last == "text"
    must_keep_text = (budget.prefers_continuing and ends_in_text) or (budget.is_append_only and shape.has_text)
    if budget.escalation_cap is not None and not must_keep_text:
        return Escalate(budget.escalation_cap)
    if shape.calls:
        is_resumable = shape.has_incomplete_arguments and budget.resumed_calls_left > 0
        return ResumeCall() if is_resumable else RunCalls(escalates_next_request=budget.escalation_cap is not None)
    if not shape.has_text:
        return _decide_textless(shape, budget)
    return _decide_continuation(shape, budget)


def _decide_textless(shape: ReplyShape, budget: Budget) -> Decision:
    if not shape.has_reasoning:
        return Fail("empty")
    return AskForAnswer() if budget.repairs_left and budget.continuation_cap is not None else Fail("thinking_only")


def _decide_continuation(shape: ReplyShape, budget: Budget) -> Decision:
    """Continue a truncated text while it makes progress and the budget permits; otherwise end the reply."""
    if budget.is_continuation and not shape.has_progress:
        return Done(is_cut=True, termination="no_progress")
    if not budget.continuations_left:
        return Done(is_cut=True, termination="retry_limit")
    if budget.continuation_cap is None or budget.tokens_left <= 0 or budget.chars_left <= 0:
        return Done(is_cut=True, termination="budget_exhausted")
    return Continue(budget.continuation_cap)
