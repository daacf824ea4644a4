"""Prompt sizes in tokens: the provider's last count, plus a local count or estimate of the messages added since.

A text has at most as many tokens as bytes, because each token of a byte-level vocabulary has at least one byte. If this
bound does not show whether a prompt exceeds a threshold, its texts are counted with the given tokenizer, or estimated
without a tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TypeAlias

from qcode.engine.transcript import PreparedHistory
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.values import dataclass

BYTES_PER_TOKEN = 4
"""The average for an estimate."""
TOKENS_PER_MESSAGE = 8
"""The overhead of a message, or of a tool."""
TOKENS_PER_IMAGE = 1_600
_MAX_COUNTS = 8
"""How many of the provider's counts are stored."""
_MAX_TEXTS = 4_096
"""How many counted texts are cached."""
MAX_ESTIMATED_PERCENT = 10
"""If the prompt grew by more than this since the provider counted it, its size is treated as estimated."""

MAX_BYTES_PER_TOKEN = 8
"""No conversation has longer tokens on average: tokens of English and code have about 4 bytes, long words about 6."""

Measure: TypeAlias = Callable[[str], int]
"""A function that counts or estimates the tokens of a text."""


@dataclass(frozen=True, slots=True)
class _ProviderCount:
    """The provider's count of a whole prompt, with the messages of its request."""

    messages: tuple[Message, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The size of a prompt."""

    tokens: int
    is_counted: bool
    """The provider counted the prompt, except for a small part added since."""


def bound_text(text: str) -> int:
    """Return an upper bound of the tokens of `text` in any byte-level vocabulary: its length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_text(text: str) -> int:
    """Estimate the tokens of `text`: one for every four UTF-8 bytes, rounded up."""
    return -(-bound_text(text) // BYTES_PER_TOKEN)


def estimate_tool(tool: ToolSpec) -> int:
    """Return the estimated tokens of a tool in a request."""
    return estimate_text(tool.description) + estimate_text(json.dumps(tool.parameters)) + TOKENS_PER_MESSAGE


def size_block(block: Block, measure: Measure = estimate_text) -> int:
    """Return the tokens of a block, its texts measured with `measure`."""
    match block:
        case Text():
            return measure(block.text)
        case Reasoning():
            # Encrypted or signed reasoning is sent back in full, even if only a summary of it was shown.
            sealed = estimate_text(block.opaque.data) if block.opaque is not None else 0
            return max(measure(block.text), sealed)
        case ToolCall():
            return measure(block.name) + measure(block.arguments)
        case ToolResult():
            return measure(block.content) + TOKENS_PER_IMAGE * len(block.images)
        case Image():
            return TOKENS_PER_IMAGE


def size_messages(messages: Iterable[Message], measure: Measure = estimate_text) -> int:
    """Return the tokens of messages, with a fixed overhead for each."""
    return sum(TOKENS_PER_MESSAGE + sum(size_block(block, measure) for block in message.blocks) for message in messages)


class PromptCounter:
    """The token counts of one conversation. `record` stores the provider's count after each reply.

    The function `count` returns the tokens of a text, or None if the vocabulary is not loaded yet. It is deterministic
    and never blocks. None: texts are estimated.
    """

    def __init__(self, count: Callable[[str], int | None] | None = None) -> None:
        self._count = count
        self._texts: dict[str, int] = {}
        """The counted texts with their tokens: a cache."""
        self._counts: list[_ProviderCount] = []
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_texts: tuple[str, ...] = ()
        """The text of each tool in `_tools`: its description and its schema."""
        self.history = PreparedHistory()
        """The history of the conversation in the form for requests, cached from turn to turn."""
        self.context_tokens = 0
        """The provider's last count of the transcript, including its last reply; 0 before the first reply."""

    def size_of(self, request: ModelRequest, *, threshold: int | None = None) -> PromptSize:
        """Return the size of `request`.

        Without `threshold`, messages that the provider has not counted are estimated. With it, they are counted,
        unless the estimate already shows clearly whether the prompt exceeds that many tokens.
        """
        counted = self._counted_prefix(request)
        is_estimated = threshold is None or self.is_clear_from_bytes(request, threshold)
        measure: Measure = estimate_text if is_estimated else self.measure
        tokens = self._sum(request, counted, measure)
        if counted is None:
            return PromptSize(tokens, is_counted=False)
        estimated_tokens = tokens - counted.tokens
        return PromptSize(tokens, is_counted=100 * estimated_tokens <= MAX_ESTIMATED_PERCENT * counted.tokens)

    def bound_of(self, request: ModelRequest) -> int:
        """Return an upper bound of `size_of` without counting."""
        return self._sum(request, self._counted_prefix(request), bound_text)

    def is_clear_from_bytes(self, request: ModelRequest, threshold: int) -> bool:
        """Return whether the size in bytes is enough to tell if `request` exceeds `threshold` tokens."""
        size_in_bytes = self.bound_of(request)  # no prompt has more tokens than bytes
        fits = size_in_bytes <= threshold
        exceeds = 0 < MAX_BYTES_PER_TOKEN * threshold < size_in_bytes
        return fits or exceeds

    def measure(self, text: str) -> int:
        """Return the tokens of `text`: counted if possible, otherwise estimated."""
        if not text or self._count is None:
            return estimate_text(text)
        tokens = self._texts.get(text)
        if tokens is None:
            tokens = self._count(text)
            if tokens is None:
                return estimate_text(text)
            if len(self._texts) >= _MAX_TEXTS:
                self._texts.clear()
            self._texts[text] = tokens
        return tokens

    def record(self, request: ModelRequest, input_tokens: int | None, output_tokens: int | None = None) -> None:
        """Store the provider's count for `request`; a count of None or 0 is ignored.

        Several counts are stored, longest history first: the messages of a first attempt are a prefix of every later
        request, but the messages of a continuation are not.
        """
        if not input_tokens:
            return
        self.context_tokens = input_tokens + (output_tokens or 0)
        others = [count for count in self._counts if count.messages != request.messages][: _MAX_COUNTS - 1]
        counts = [_ProviderCount(request.messages, input_tokens), *others]
        self._counts = sorted(counts, key=lambda count: len(count.messages), reverse=True)

    def restore(self, messages: tuple[Message, ...], input_tokens: int, output_tokens: int = 0) -> None:
        """Restore a count that the session stored: the provider counted `input_tokens` for `messages`."""
        self.context_tokens = input_tokens + output_tokens
        self._counts = [_ProviderCount(messages, input_tokens)]

    def _counted_prefix(self, request: ModelRequest) -> _ProviderCount | None:
        """Return the provider's count for the longest counted prefix of `request`; None if none is counted."""
        for count in self._counts:
            if request.messages[: len(count.messages)] == count.messages:
                return count
        return None

    def _sum(self, request: ModelRequest, counted: _ProviderCount | None, measure: Measure) -> int:
        """Return the tokens of `request`: those of the counted prefix, and the measured size of the rest."""
        if counted is None:
            return self._size_fixed(request, measure) + size_messages(request.messages, measure)
        return counted.tokens + size_messages(request.messages[len(counted.messages) :], measure)

    def _size_fixed(self, request: ModelRequest, measure: Measure) -> int:
        """Return the size of the part that all requests share: the system prompt and the tools."""
        if self._tools != request.tools:
            self._tools = request.tools
            self._tool_texts = tuple(tool.description + json.dumps(tool.parameters) for tool in self._tools)
        return measure(request.system) + sum(measure(text) + TOKENS_PER_MESSAGE for text in self._tool_texts)
