"""Output caps: the cap of the first request, the escalated cap, and how both are clamped to the context window.

Caps, limits and windows are in tokens. The user's `[output]` settings (`qcode.config.settings`) replace some of the
constants.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal

from qcode.values import dataclass

CAPPED_DEFAULT_MAX_TOKENS = 8_000
"""The cap of a first request."""
ESCALATED_MAX_TOKENS = 64_000
"""The escalated cap of a model whose output limit is unknown."""
MAX_OUTPUT_RECOVERY_ATTEMPTS = 3
"""The default number of continuations of one reply."""
MIN_ESCALATION_GAIN = 1.25
"""A reply is escalated only if the new cap is at least this many times the first one."""
MAX_TOOL_REPAIR_ATTEMPTS = 1
"""How many replies in a row may have a broken call; one more ends the turn."""
MAX_RESUMED_CALL_REQUESTS = 3
"""How often the rest of one truncated call is requested."""
MIN_TOTAL_OUTPUT_CHARS = 120_000
"""The smallest default of `max_total_output_chars`, the maximum characters of a reply over all its attempts."""
DEFAULT_CONTEXT_WINDOW = 200_000
"""The window of a model whose window is unknown, in tokens."""
MIN_USEFUL_OUTPUT = 1_024
"""A request is not sent if the window leaves less output than this."""
MAX_LEARNED_FIRST_CAP = 16_000
"""The largest first cap that is learned."""
MAX_KEPT_LENGTHS = 200
"""A first cap is learned from the latest replies, at most this many."""
MIN_LENGTHS = 50
"""No first cap is learned from fewer replies than this."""


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """A number of tokens that grows with a larger number, such as the window."""

    min_tokens: int
    share: float
    """The share of the larger number."""

    def for_size(self, tokens: int) -> float:
        return max(self.min_tokens, tokens * self.share)


_COUNTED_MARGIN = _Tolerance(1_024, 0.02)
"""The safety margin in the window for a prompt counted by the provider."""
_ESTIMATED_MARGIN = _Tolerance(2_048, 0.05)
"""The safety margin in the window for a prompt whose size is estimated."""
_HIT_DISTANCE = _Tolerance(2, 0.005)
"""A reply has hit its cap if it is at most this far away from the cap."""


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """The user's settings for output limits."""

    override: int | None = None
    """A cap from a flag, a config file or the environment; None if it is not set."""
    can_escalate: bool = True
    """A truncated reply may be requested again with a larger cap."""
    max_continuations: int = MAX_OUTPUT_RECOVERY_ATTEMPTS
    policy: Literal["escalate", "continue"] = "escalate"
    """`continue`: a truncated text is continued instead of escalated."""
    tool_call_repair: Literal["reject", "resume"] = "reject"
    """`resume`: the rest of a truncated write or edit is requested, instead of rejecting the call."""
    max_tool_repair_attempts: int = MAX_TOOL_REPAIR_ATTEMPTS
    max_total_completion_tokens: int | None = None
    """The maximum tokens of a reply over all its attempts; None: four times the cap of a continuation."""
    max_total_output_chars: int | None = None
    """The maximum characters of a reply over all its attempts.

    None: four times its maximum tokens, at least `MIN_TOTAL_OUTPUT_CHARS`.
    """
    min_escalation_gain: float = MIN_ESCALATION_GAIN
    learn_first_cap: bool = True
    """The first cap may be learned from the model's earlier replies."""
    is_append_only: bool = False
    """The front end cannot remove text that it showed, so a reply with text never starts over."""


@dataclass(frozen=True, slots=True)
class FirstCap:
    """A first cap in tokens, learned from a model's replies."""

    tokens: int
    longer: int
    """How many of the `replies` exceeded the default cap or stayed truncated."""
    replies: int
    """How many replies the cap was learned from."""


def learn_first_cap(lengths: Sequence[int]) -> FirstCap | None:
    """Return the first cap that suits these replies, None if the default cap suits them.

    `lengths` are the output tokens of the latest replies, negative for a reply that stayed truncated. If more than a
    tenth exceeded the default, the cap is raised to cover 95 % of the complete replies.
    """
    latest = lengths[-MAX_KEPT_LENGTHS:]
    if len(latest) < MIN_LENGTHS:
        return None
    ordered = sorted(latest)
    truncated_count = bisect_left(ordered, 0)
    longer = truncated_count + len(latest) - bisect_right(ordered, CAPPED_DEFAULT_MAX_TOKENS)
    complete = ordered[truncated_count:]
    if longer * 10 <= len(latest) or not complete:
        return None
    # -(-a // b) rounds up: of 100 complete replies, the 95th in order of length.
    tokens = min(MAX_LEARNED_FIRST_CAP, complete[-(-95 * len(complete) // 100) - 1])
    return FirstCap(tokens, longer, len(latest)) if tokens > CAPPED_DEFAULT_MAX_TOKENS else None


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one reply, before they are clamped to the window."""

    first: int
    """The cap of the first request."""
    escalation: int | None
    """The cap of the second request; None if escalation is off or would gain too little."""
    continuation: int
    """The cap of each continuation."""
    total_tokens: int
    """The maximum output tokens of the reply over all its attempts."""
    total_chars: int
    """The maximum characters of the reply over all its attempts."""


def caps_for(
    settings: OutputSettings,
    known_limit: int | None,
    *,
    is_silently_capped: bool = False,
    learned: FirstCap | None = None,
) -> Caps:
    """Return the caps of a reply.

    `known_limit` is the model's own output limit, None if neither the catalog, the configuration nor the host names it.
    `is_silently_capped`: this host truncates far below the requested cap, so a higher cap gains nothing.
    `learned` is the first cap that the model's earlier replies suggest.
    """
    default = learned.tokens if learned is not None and settings.learn_first_cap else CAPPED_DEFAULT_MAX_TOKENS
    cap = settings.override or default
    first = cap if known_limit is None else min(cap, known_limit)
    escalated = known_limit or ESCALATED_MAX_TOKENS
    # A cap that the user set holds for every request of the reply.
    is_fixed = settings.override is not None or not settings.can_escalate
    has_gain = escalated >= settings.min_escalation_gain * first and not is_silently_capped
    continuation = first if is_fixed else escalated
    total_tokens = settings.max_total_completion_tokens or 4 * continuation
    total_chars = settings.max_total_output_chars or max(MIN_TOTAL_OUTPUT_CHARS, 4 * total_tokens)
    return Caps(first, escalated if has_gain and not is_fixed else None, continuation, total_tokens, total_chars)


def fit(cap: int, *, prompt_tokens: int, window: int | None, is_counted: bool) -> int | None:
    """Clamp `cap` so that prompt and reply fit into the context window with a margin; None if too few tokens remain.

    `window` is None if it is unknown; then it is assumed to be `DEFAULT_CONTEXT_WINDOW`. `is_counted`: the provider
    counted the tokens of the prompt. An estimate gets a wider margin.
    """
    available = _usable_window(window, is_counted=is_counted) - prompt_tokens
    return None if available < MIN_USEFUL_OUTPUT else min(cap, available)


def max_prompt_tokens(cap: int, window: int | None) -> int:
    """Return the size of the largest prompt that leaves `cap` output tokens, with the wider margin of an estimate."""
    return _usable_window(window, is_counted=False) - cap


def _usable_window(window: int | None, *, is_counted: bool) -> int:
    """Return the tokens that prompt and reply may use together: the window without the safety margin."""
    return (window or DEFAULT_CONTEXT_WINDOW) - margin(window, is_counted=is_counted)


def margin(window: int | None, *, is_counted: bool) -> int:
    """Return the safety margin: the tokens of the window that stay free, because a prompt's size may be inaccurate."""
    tolerance = _COUNTED_MARGIN if is_counted else _ESTIMATED_MARGIN
    return int(tolerance.for_size(window or DEFAULT_CONTEXT_WINDOW))


def is_at_cap(output_tokens: int | None, cap: int) -> bool:
    """Return whether the reported output tokens are so close to the cap that the cap must have truncated the reply.

    A count far above the cap means that the server ignored the cap; then only the stop reason shows a truncation.
    """
    if output_tokens is None:
        return False
    return abs(output_tokens - cap) <= _HIT_DISTANCE.for_size(cap)


def is_far_below_cap(output_tokens: int | None, cap: int) -> bool:
    """Return whether a reply that was truncated for length stopped below half of its cap."""
    return output_tokens is not None and 2 * output_tokens < cap
