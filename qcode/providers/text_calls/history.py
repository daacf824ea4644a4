"""A history with calls and results as plain text, for models that know neither. Pure."""

from __future__ import annotations

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.providers.text_calls.instructions import call_text, result_text


def as_text_history(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with every call and result written as text; roles, order and number stay.

    A message without calls and results comes back as it is. Images of results follow the results. In a message with
    calls, what a provider wants back unchanged is left out: its text is no longer what that belonged to.
    """
    return tuple(_as_text(message) for message in messages)


def _as_text(message: Message) -> Message:
    if not any(isinstance(block, ToolCall | ToolResult) for block in message.blocks):
        return message
    return _assistant(message) if message.role == "assistant" else _user(message)


def _assistant(message: Message) -> Message:
    blocks: list[Block] = [block for block in message.blocks if isinstance(block, Reasoning)]
    parts: list[str] = []
    for block in message.blocks:
        if isinstance(block, Text) and block.text.strip():
            parts.append(block.text.rstrip())
        elif isinstance(block, ToolCall):
            parts.append(call_text(block))
    return Message("assistant", (*blocks, Text("\n".join(parts))))


def _user(message: Message) -> Message:
    results = [block for block in message.blocks if isinstance(block, ToolResult)]
    images: list[Image] = [image for result in results for image in result.images]
    others = [block for block in message.blocks if not isinstance(block, ToolResult)]
    return Message("user", (Text("\n".join(map(result_text, results))), *images, *others))
