"""Why a reply stopped (the model's word) and how a turn ended (ours)."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """A provider's stop reason in one vocabulary; the raw string travels beside it."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    REFUSAL = "refusal"
    PAUSED = "paused"
    MALFORMED_CALL = "malformed_call"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a turn ended, in the words of the Agent Client Protocol, and `error` for what it has no word for."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "error"


class Limit(StrEnum):
    """Which limit of a turn was reached, where the outcome is `max_turn_requests`."""

    TURNS = "max_turns"
    TOOL_CALLS = "max_tool_calls"
    COST = "max_budget_usd"
