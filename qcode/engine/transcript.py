"""The rules of a transcript: what every provider accepts as a history.

Roles alternate and the first is the person's; each call of an assistant message has exactly one result in the user
message after it, before everything else there; nothing is empty. A stored history is never changed, only what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult

INTERRUPTED_RESULT = "Interrupted before it finished: the outcome is unknown. Check before you do it again."


def prepared(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` as a valid history; a valid one comes back equal."""
    history = _joined(_sendable(messages))
    while True:
        # A message that holds nothing but results of calls that are not there falls away, and its neighbours meet.
        repaired = _joined(_answered(_from_the_first_prompt(history)))
        if repaired == history:
            return tuple(repaired)
        history = repaired


def sendable_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return what of an assistant message can be sent: no blank text but one that is signed, no call twice."""
    kept: list[Block] = []
    ids: set[str] = set()
    for block in blocks:
        match block:
            case Text() if block.text.strip() or block.opaque is not None:
                kept.append(block)
            case ToolCall() if block.call_id not in ids:
                ids.add(block.call_id)
                kept.append(block)
            case Reasoning():
                kept.append(block)
            case _:
                pass
    return tuple(kept)


def _sendable(messages: Iterable[Message]) -> list[Message]:
    kept: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            blocks = sendable_blocks(message.blocks)
            is_empty = all(isinstance(block, Reasoning) for block in blocks)
        else:
            blocks = tuple(block for block in message.blocks if _is_a_persons(block))
            is_empty = not blocks
        if not is_empty:
            kept.append(message if len(blocks) == len(message.blocks) else Message(message.role, blocks))
    return kept


def _is_a_persons(block: Block) -> bool:
    return isinstance(block, (Image, ToolResult)) or (isinstance(block, Text) and bool(block.text))


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Join neighbours of one role; between two of the assistant's, calls get their results first."""
    result: list[Message] = []
    for message in messages:
        if not result or result[-1].role != message.role:
            result.append(message)
        elif result[-1].calls:
            result += [Message("user", _results_first((), result[-1].calls)), message]
        else:
            blocks = (*result[-1].blocks, *message.blocks)
            result[-1] = Message(message.role, sendable_blocks(blocks) if message.role == "assistant" else blocks)
    return result


def _from_the_first_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    first = next((index for index, message in enumerate(messages) if message.role == "user"), len(messages))
    return messages[first:]


def _answered(messages: Sequence[Message]) -> list[Message]:
    result: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "assistant":
            result.append(message)
            continue
        blocks = _results_first(message.blocks, messages[index - 1].calls if index else ())
        if blocks:
            result.append(message if blocks == message.blocks else Message("user", blocks))
    if result and result[-1].calls:
        result.append(Message("user", _results_first((), result[-1].calls)))
    return result


def _results_first(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> tuple[Block, ...]:
    """Return a user message's blocks with exactly one result per call, in the order of the calls, and first."""
    given = {block.call_id: block for block in reversed(blocks) if isinstance(block, ToolResult)}
    results = [
        given.get(call.call_id) or ToolResult(call.call_id, call.name, INTERRUPTED_RESULT, is_error=True)
        for call in calls
    ]
    others = [block for block in blocks if isinstance(block, (Text, Image))]
    return (*results, *others)
