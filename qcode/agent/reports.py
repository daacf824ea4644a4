"""Reports on a conversation: the parts of its context window, and the usage of its turns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal

from qcode.agent.sessions.history import HistoryEntry
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, OutputSettings, caps_for
from qcode.engine.counting import PromptCounter, estimate_text, size_block, size_messages
from qcode.engine.effects import COMPACT_AT
from qcode.engine.model_facts import KnownModel
from qcode.engine.transcript import prepared
from qcode.protocol.events import ApiCalls, AttemptRecord, TurnEnded
from qcode.protocol.messages import Message, ToolResult, typed_text
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Price, Usage, cost_of
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class ContextReport:
    """The tokens of a context window by use. `is_counted`: the provider counted the prompt; otherwise estimated.

    `reserve` is the initial output limit of the next reply. The rest is free.
    """

    model: str
    window: int
    system: int
    instructions: int
    tools: int
    messages: int
    tool_output: int
    reserve: int
    is_counted: bool = False
    is_window_known: bool = True
    compacts_at: float = 0.8

    @property
    def used(self) -> int:
        return self.system + self.instructions + self.tools + self.messages + self.tool_output

    @property
    def free(self) -> int:
        return max(0, self.window - self.used - self.reserve)


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The usage of one turn. `cost` is None if the price is unknown."""

    prompt: str
    model: str
    usage: Usage
    cost: Decimal | None
    api_calls: ApiCalls
    discarded_output_tokens: int = 0


def context_report(
    model: KnownModel,
    system: str,
    instructions: int,
    tools: tuple[ToolSpec, ...],
    messages: Sequence[Message],
    counter: PromptCounter,
    output: OutputSettings,
) -> ContextReport:
    """Break down the next prompt. Parts are estimates, scaled to the total if the provider counted it.

    `instructions` is the number of characters of `system` that come from instruction files.
    """
    history = prepared(messages)
    results = sum(size_block(one) for message in history for one in message.blocks if isinstance(one, ToolResult))
    parts = [
        max(0, estimate_text(system) - instructions // 4),
        instructions // 4,
        sum(estimate_text(tool.description) + estimate_text(json.dumps(tool.parameters)) + 8 for tool in tools),
        size_messages(history) - results,
        results,
    ]
    request = ModelRequest(model.name, system, history, tools, 1)
    size = counter.size_of(request)
    estimated = sum(parts)
    plain, briefed, specs, said, given = (part * size.tokens // estimated if estimated else 0 for part in parts)
    reserve = caps_for(output, model.output_limit).first
    window = model.window or DEFAULT_CONTEXT_WINDOW
    return ContextReport(
        f"{model.provider}/{model.name}",
        window,
        plain,
        briefed,
        specs,
        said,
        given,
        reserve=min(reserve, window),
        is_counted=size.is_counted,
        is_window_known=model.window is not None,
        compacts_at=COMPACT_AT,
    )


def turn_usage(prompt: str, model: str, ended: TurnEnded) -> TurnUsage:
    discarded = ended.discarded_output_tokens
    return TurnUsage(prompt, model, ended.usage, ended.cost, ended.api_calls, discarded)


def earlier_usage(entries: Iterable[HistoryEntry], model: str, price: Price | None) -> list[TurnUsage]:
    """Return the usage of the turns of a resumed session, as far as it was recorded.

    The price is the current price of `model`; a session that changed models gets no cost.
    """
    turns: list[tuple[str, list[AttemptRecord]]] = []
    for entry in entries:
        is_prompt = entry.message.role == "user" and not any(
            isinstance(block, ToolResult) for block in entry.message.blocks
        )
        if is_prompt:
            turns.append((typed_text(entry.message), []))
        elif turns:
            turns[-1][1].extend(entry.attempts)
    return [recorded_usage(prompt, attempts, model, price) for prompt, attempts in turns if attempts]


def recorded_usage(prompt: str, attempts: Sequence[AttemptRecord], model: str, price: Price | None) -> TurnUsage:
    """Return the usage of stored attempts."""
    usage = Usage()
    for attempt in attempts:
        usage = usage + attempt.usage
    kinds = [attempt.kind for attempt in attempts]
    firsts, continued = kinds.count("first"), kinds.count("continuation")
    calls = ApiCalls(
        firsts, kinds.count("escalated"), continued, len(kinds) - firsts - continued - kinds.count("escalated")
    )
    discarded = sum(attempt.usage.output or 0 for attempt in attempts if attempt.is_discarded)
    return TurnUsage(prompt, model, usage, cost_of(usage, price), calls, discarded)
