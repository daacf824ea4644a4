"""How large a prompt is: the provider's own count where there is one, an estimate for what was added since."""

from __future__ import annotations

import json
from dataclasses import dataclass

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 8
TOKENS_PER_IMAGE = 1_600
_KEPT_COUNTS = 8
MAX_ESTIMATED_SHARE = 10
"""A prompt counts as counted while at most one part in so many of it was estimated."""


@dataclass(frozen=True, slots=True)
class PromptSize:
    """`is_counted`: the provider counted it, all but what little was added since."""

    tokens: int
    is_counted: bool


def estimate_text(text: str) -> int:
    """Return about how many tokens `text` is: four UTF-8 bytes each, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimate_block(block: Block) -> int:
    match block:
        case Text() | Reasoning():
            return estimate_text(block.text)
        case ToolCall():
            return estimate_text(block.name) + estimate_text(block.arguments)
        case ToolResult():
            return estimate_text(block.content) + TOKENS_PER_IMAGE * len(block.images)
        case Image():
            return TOKENS_PER_IMAGE


def estimate_message(message: Message) -> int:
    return TOKENS_PER_MESSAGE + sum(estimate_block(block) for block in message.blocks)


class PromptCounter:
    """Sizes requests of one conversation; told after each reply what the provider counted."""

    def __init__(self) -> None:
        self._counts: list[tuple[tuple[Message, ...], int]] = []
        self._fixed: tuple[str, tuple[object, ...]] | None = None
        self._fixed_tokens = 0
        self.context_tokens = 0
        """The size of the transcript as the provider last counted it, its reply included; 0 before that."""

    def size_of(self, request: ModelRequest) -> PromptSize:
        for messages, tokens in self._counts:
            if request.messages[: len(messages)] == messages:
                added = sum(estimate_message(message) for message in request.messages[len(messages) :])
                return PromptSize(tokens + added, is_counted=added * MAX_ESTIMATED_SHARE <= tokens)
        fixed = self._estimate_fixed(request)
        return PromptSize(fixed + sum(estimate_message(message) for message in request.messages), is_counted=False)

    def record(self, request: ModelRequest, input_tokens: int | None, output_tokens: int | None = None) -> None:
        """Remember what the provider counted for `request`; a count of None or 0 teaches nothing.

        A few counts are kept, that of the longest history first: what a continuation was asked with is the beginning
        of no other request, but what the first attempt was asked with is that of every later one.
        """
        if not input_tokens:
            return
        self.context_tokens = input_tokens + (output_tokens or 0)
        others = [count for count in self._counts if count[0] != request.messages][: _KEPT_COUNTS - 1]
        self._counts = sorted([(request.messages, input_tokens), *others], key=lambda count: -len(count[0]))

    def _estimate_fixed(self, request: ModelRequest) -> int:
        key = (request.system, request.tools)
        if self._fixed != key:
            schemas = sum(
                estimate_text(tool.description) + estimate_text(json.dumps(tool.parameters)) + TOKENS_PER_MESSAGE
                for tool in request.tools
            )
            self._fixed, self._fixed_tokens = key, estimate_text(request.system) + schemas
        return self._fixed_tokens
