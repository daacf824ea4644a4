"""Messages: what a transcript is made of.

A message holds blocks. An assistant message holds text, reasoning and tool calls; a user message holds text,
images and tool results. Roles alternate, and every call of an assistant message has exactly one result in the
user message after it; `engine.transcript` keeps it so.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something a provider wants back unchanged (a signature, encrypted reasoning).

    `source` names who made it: the wire protocol (`anthropic`, `gemini`, ...), and behind an `@` the host where that
    is not the protocol's own. It is echoed to that host and read by nobody else. `data` is JSON text.
    """

    source: str
    data: str


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Thinking as the provider shows it; without `opaque` it is unsigned and may be dropped from requests."""

    text: str
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model made. `arguments` is JSON text of one object, always valid in a stored message."""

    call_id: str
    name: str
    arguments: str
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Image:
    """An image; `data` is base64 text, `media_type` an IANA type such as `image/png`."""

    media_type: str
    data: str


Block: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Image
Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The text blocks joined as they are, without reasoning, calls or results."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


def typed_text(message: Message) -> str:
    """Return what a person typed: the last text; attached files come before it."""
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    return texts[-1] if texts else ""


def user(text: str) -> Message:
    """Return a user message of one text block."""
    return Message("user", (Text(text),))


def assistant(*blocks: Block) -> Message:
    return Message("assistant", blocks)
