"""How large a prompt is: the provider's own count where there is one, a figure of our own for what was added since.

A text is first held against its bound: no byte-level vocabulary makes more tokens of it than it has bytes. Only
where that leaves a question open is it counted, by the function that is passed in, and else estimated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TypeAlias

from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec
from qcode.values import dataclass

BYTES_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 8
TOKENS_PER_IMAGE = 1_600
_KEPT_COUNTS = 8
_KEPT_TEXTS = 4_096
MAX_ESTIMATED_SHARE = 10
"""A prompt counts as counted while at most one part in so many of it was estimated."""

Measure: TypeAlias = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class PromptSize:
    """`is_counted`: the provider counted it, all but what little was added since."""

    tokens: int
    is_counted: bool


def bound_text(text: str) -> int:
    """Return what no byte-level vocabulary exceeds for `text`: its length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_text(text: str) -> int:
    """Return about how many tokens `text` is: four UTF-8 bytes each, rounded up."""
    return -(-bound_text(text) // BYTES_PER_TOKEN)


def size_block(block: Block, measure: Measure = estimate_text) -> int:
    """Return the tokens of a block, its texts measured with `measure`."""
    match block:
        case Text():
            return measure(block.text)
        case Reasoning():
            # What is encrypted or signed goes back whole, whatever of it was shown.
            sealed = estimate_text(block.opaque.data) if block.opaque is not None else 0
            return max(measure(block.text), sealed)
        case ToolCall():
            return measure(block.name) + measure(block.arguments)
        case ToolResult():
            return measure(block.content) + TOKENS_PER_IMAGE * len(block.images)
        case Image():
            return TOKENS_PER_IMAGE


def size_messages(messages: Iterable[Message], measure: Measure = estimate_text) -> int:
    """Return the tokens of messages, with what each costs beside its texts."""
    return sum(TOKENS_PER_MESSAGE + sum(size_block(block, measure) for block in message.blocks) for message in messages)


class PromptCounter:
    """Sizes requests of one conversation; told after each reply what the provider counted.

    `count` returns the tokens of a text, or None where it cannot say now; it gives the same for the same text and
    never blocks.
    """

    def __init__(self, count: Callable[[str], int | None] | None = None) -> None:
        self._count = count
        self._texts: dict[str, int] = {}
        self._counts: list[tuple[tuple[Message, ...], int]] = []
        self._schemas: tuple[tuple[ToolSpec, ...], tuple[str, ...]] = ((), ())
        self.context_tokens = 0
        """The size of the transcript as the provider last counted it, its reply included; 0 before that."""

    def size_of(self, request: ModelRequest, *, enough: int | None = None) -> PromptSize:
        """Return the size of `request`.

        With `enough` it is exact where it matters: a prompt that might be larger than that is counted as well as it
        can be, any other estimated.
        """
        known, messages = self._known(request)
        measure: Measure = estimate_text
        if enough is not None and self._sum(request, known, messages, bound_text) > enough:
            measure = self.measure
        tokens = self._sum(request, known, messages, measure)
        added = tokens - (known or 0)
        return PromptSize(tokens, is_counted=known is not None and added * MAX_ESTIMATED_SHARE <= known)

    def bound_of(self, request: ModelRequest) -> int:
        """Return what `size_of` never exceeds, at next to no cost."""
        known, messages = self._known(request)
        return self._sum(request, known, messages, bound_text)

    def measure(self, text: str) -> int:
        """Return the tokens of `text`: counted if that is possible now, else estimated."""
        if not text or self._count is None:
            return estimate_text(text)
        tokens = self._texts.get(text)
        if tokens is None:
            tokens = self._count(text)
            if tokens is None:
                return estimate_text(text)
            if len(self._texts) >= _KEPT_TEXTS:
                self._texts.clear()
            self._texts[text] = tokens
        return tokens

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

    def _known(self, request: ModelRequest) -> tuple[int | None, tuple[Message, ...]]:
        """Return what the provider counted for the beginning of `request`, and the messages behind it."""
        for messages, tokens in self._counts:
            if request.messages[: len(messages)] == messages:
                return tokens, request.messages[len(messages) :]
        return None, request.messages

    def _sum(self, request: ModelRequest, known: int | None, messages: tuple[Message, ...], measure: Measure) -> int:
        fixed = known if known is not None else self._size_fixed(request, measure)
        return fixed + size_messages(messages, measure)

    def _size_fixed(self, request: ModelRequest, measure: Measure) -> int:
        """Return the size of what every request begins with: the system text and the tools."""
        tools, schemas = self._schemas
        if tools != request.tools:
            tools = request.tools
            schemas = tuple(tool.description + json.dumps(tool.parameters) for tool in tools)
            self._schemas = (tools, schemas)
        sized = sum(measure(schema) + TOKENS_PER_MESSAGE for schema in schemas)
        return measure(request.system) + sized
