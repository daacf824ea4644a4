"""What a reply came to, for the turn; and what is said to a person about a reply that stays cut."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

from qcode.engine.assembler import CallState
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import Attempt
from qcode.protocol.messages import Message, ToolCall
from qcode.protocol.stops import Limit, StopReason
from qcode.protocol.values import dataclass

REPEATS = (
    "The model repeated itself without end, so qcode stopped it; the text so far is kept. "
    "Ask again in other words, or try another model."
)

Ending: TypeAlias = Literal["done", "calls", "paused", "cut", "refused", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call of the committed reply; `raw` is its argument text as it came, `cap` the cap it was asked for under."""

    call: ToolCall
    state: CallState
    raw: str
    cap: int


@dataclass(frozen=True, slots=True)
class ReplyResult:
    """`message` is None where nothing worth storing came. `limit` is the one of the prompt that ended it."""

    ending: Ending
    stop: StopReason | None
    raw_stop: str
    message: Message | None
    calls: tuple[JudgedCall, ...] = ()
    error: ErrorInfo | None = None
    note: str = ""
    limit: Limit | None = None


def describe_no_room(prompt_tokens: int, window: int | None) -> str:
    """Say, with the figures, that the context window leaves no room for a reply, and what to do about it."""
    size = window or DEFAULT_CONTEXT_WINDOW
    return (
        f"The prompt (about {prompt_tokens:,} tokens) leaves no room for a reply in the context window of {size:,}. "
        "Shorten it, attach less, or start a new session."
    )


def describe_cut(attempts: Sequence[Attempt], why: str, error: str = "") -> str:
    """Say in one sentence, with the numbers, that a reply is incomplete and what to do about it."""
    caps = ", ".join(f"{attempt.max_tokens:,}" for attempt in attempts)
    count = len(attempts)
    requests = "1 request" if count == 1 else f"{count} requests"
    reason = {
        "no_progress": "the last continuation added nothing",
        "budget_exhausted": "the output budget is used up (max_total_completion_tokens, max_total_output_chars)",
        "repetition": "the last continuation repeated itself without end and was stopped",
        "error": f"going on failed: {error}" if error else "going on failed",
    }.get(why, "the output limit cut it each time")
    return (
        f"The reply is incomplete after {requests} (output caps {caps}): {reason}. "
        "Ask to continue, or set a higher --max-output-tokens."
    )


def describe_overspent(attempts: Sequence[Attempt], limit: Decimal) -> str:
    """Say that a cut reply is not gone on with because the prompt has cost what it may."""
    caps = ", ".join(f"{attempt.max_tokens:,}" for attempt in attempts)
    return (
        f"The reply is incomplete (output caps {caps}): going on would cost more than --max-budget-usd {limit}. "
        "Ask to continue, or allow more."
    )


def describe_thinking_only(attempts: Sequence[Attempt], thinking_chars: int) -> str:
    caps = ", ".join(f"{attempt.max_tokens:,}" for attempt in attempts)
    return (
        f"Thinking used up the output limit in every request (caps {caps}; {thinking_chars:,} characters of thinking, "
        "no answer). Lower the reasoning effort, or set a higher --max-output-tokens."
    )


def describe_empty(attempts: Sequence[Attempt]) -> str:
    caps = ", ".join(f"{attempt.max_tokens:,}" for attempt in attempts)
    return (
        f"The reply was cut before any text or tool call arrived (output caps {caps}). "
        "Ask for less at once, or set a higher --max-output-tokens."
    )
