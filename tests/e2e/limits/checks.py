"""Compares the expectations of a row with the played turn; each fact is rendered in the form of the table."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.agent.outcomes import exit_code
from qcode.protocol.events import (
    ContinuationAttempt,
    ContinuationTerminated,
    Notice,
    OutputEscalated,
    PartialRestored,
    ReplyFinished,
    Retry,
    ToolFinished,
    ToolPayloadRepair,
    ToolStarted,
    TurnEvent,
    Waiting,
)
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from tests.e2e.limits.play import Played

_BLOCK_NAMES = {Text: "text", Reasoning: "reasoning", ToolCall: "call", ToolResult: "result", Image: "image"}


def check_row(played: Played) -> None:
    """Compare the expectations of the row with the played turn."""
    row, end = played.row, played.end
    assert recovery_of(played.events) == list(row.events)
    assert attempts_of(played.events, [cap.rpartition(" ")[2] == "?" for cap in row.asked]) == list(row.asked)
    if row.text is not None:
        assert end.text == row.text
    outcome, stop, code = row.ends
    assert (end.outcome, exit_code(end)) == (outcome, code)
    if stop is not None:
        assert end.stop is stop
    assert end.api_calls == row.api
    assert blocks_of(played.messages) == list(row.stored)
    assert [event.call.name for event in played.events if isinstance(event, ToolStarted)] == list(row.ran)
    results = [event.outcome.content for event in played.events if isinstance(event, ToolFinished)]
    assert len(results) == len(row.results)
    assert [part for part, content in zip(row.results, results, strict=True) if part not in content] == []
    assert row.notice in messages_to_user(played)
    assert played.files == row.files
    if row.again_caps is not None:
        assert tuple(asked.cap for asked in played.later_requests) == row.again_caps
    if row.check is not None:
        row.check(played)


def recovery_of(events: Sequence[TurnEvent]) -> list[str]:
    return [name for name in map(_recovery_name, events) if name]


def attempts_of(events: Sequence[TurnEvent], is_open: Sequence[bool]) -> list[str]:
    """Return each attempt in the form of the table; with `is_open` its cap is `?`."""
    records = [record for event in events if isinstance(event, ReplyFinished) for record in event.attempts]
    return [
        f"{'-' if record.is_discarded else ''}{record.kind} {'?' if hidden else record.max_tokens}"
        for record, hidden in zip(records, [*is_open, *[False] * len(records)], strict=False)
    ]


def blocks_of(messages: Sequence[Message]) -> list[str]:
    return [
        "+".join(_BLOCK_NAMES[type(block)] for block in message.blocks)
        for message in messages
        if message.role == "assistant"
    ]


def messages_to_user(played: Played) -> str:
    """Return all messages to the user besides the reply."""
    notes = [event.note for event in played.events if isinstance(event, ReplyFinished)]
    notices = [event.text for event in played.events if isinstance(event, Notice)]
    error = played.end.error
    return "\n".join([*notes, *notices, error.message if error else ""])


def _recovery_name(event: TurnEvent) -> str:
    match event:
        case Retry():
            return f"{'on' if event.is_continuation else 'over'} {event.reason}"
        case PartialRestored():
            return "restored"
        case OutputEscalated():
            return f"escalated {event.from_tokens}>{event.to_tokens}"
        case ContinuationAttempt():
            return f"continuation {event.index}"
        case ContinuationTerminated():
            return f"ended {event.reason}"
        case ToolPayloadRepair():
            how = "succeeded" if event.succeeded else "attempted" if event.attempted else "given up"
            return f"repair {event.issue} {how}"
        case Waiting():
            return "waiting"
        case _:
            return ""
