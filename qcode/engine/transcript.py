"""The rules of a transcript: what every provider accepts as a history.

Roles alternate and the first is the person's; each call of an assistant message has exactly one result in the user
message after it; nothing is empty. A stored history is never changed, only what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult

INTERRUPTED_RESULT = "Interrupted before it finished: the outcome is unknown. Check before you do it again."


def prepared(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` as a valid history; a valid one comes back equal."""
    merged = _merged(_without_empty(messages))
    while merged and merged[0].role == "assistant":
        merged = merged[1:]
    result: list[Message] = []
    for index, message in enumerate(merged):
        if message.role == "user":
            calls = merged[index - 1].calls if index else ()
            blocks = _with_results(message.blocks, calls)
            if blocks:
                result.append(Message("user", blocks))
        else:
            result.append(message)
            is_last = index + 1 == len(merged)
            if is_last and message.calls:
                result.append(Message("user", _with_results((), message.calls)))
    return tuple(_merged(result))


def _without_empty(messages: Iterable[Message]) -> list[Message]:
    kept: list[Message] = []
    for message in messages:
        blocks = tuple(block for block in message.blocks if not (isinstance(block, Text) and not block.text))
        if any(not isinstance(block, Reasoning) for block in blocks):
            kept.append(message if len(blocks) == len(message.blocks) else Message(message.role, blocks))
    return kept


def _merged(messages: Sequence[Message]) -> list[Message]:
    result: list[Message] = []
    for message in messages:
        if result and result[-1].role == message.role and not result[-1].calls:
            result[-1] = Message(message.role, (*result[-1].blocks, *message.blocks))
        elif result and result[-1].role == message.role:
            result += [Message("user", _with_results((), result[-1].calls)), message]
        else:
            result.append(message)
    return result


def _with_results(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> tuple[Block, ...]:
    """Return a user message's blocks with exactly one result per call, in the order of the calls, and first."""
    given = {block.call_id: block for block in reversed(blocks) if isinstance(block, ToolResult)}
    results = [
        given.get(call.call_id) or ToolResult(call.call_id, call.name, INTERRUPTED_RESULT, is_error=True)
        for call in calls
    ]
    others = [block for block in blocks if isinstance(block, (Text, Image))]
    return (*results, *others)
