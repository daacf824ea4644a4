"""The messages of a transcript, and their blocks.

An assistant message contains text, reasoning and tool calls; a user message contains text, images and tool results.
Roles alternate, and every call of an assistant message has exactly one result in the user message after it.
`engine.transcript` ensures this.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from qcode.values import dataclass

PLACEHOLDER_KEY = "_qcode_truncated"
"""The key of placeholder arguments, which replace truncated or malformed arguments in a stored call."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Data that a provider wants back unchanged, such as a signature or encrypted reasoning.

    qcode sends the data back only to the same host, and never interprets it.
    """

    source: str
    """The wire protocol (`anthropic`, `gemini`, …), followed by `@` and the host if it is not the default one."""
    data: str
    """JSON text."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the model or the user."""

    text: str
    opaque: Opaque | None = None
    """A signature that some providers attach to a text."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning as the provider shows it."""

    text: str
    opaque: Opaque | None = None
    """The signature; None: the reasoning is unsigned and may be dropped from requests."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call."""

    call_id: str
    name: str
    arguments: str
    """The JSON text of one object, always valid in a stored message."""
    opaque: Opaque | None = None
    is_from_text: bool = False
    """The host sent the call as text, and qcode recognized it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    is_signal: bool = False
    """The call of a one-way tool, which is recorded and not run. Later requests leave out the call and this result."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image."""

    media_type: str
    """An IANA type such as `image/png`."""
    data: str
    """The file as base64 text."""


Block: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Image
Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the transcript."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The concatenated text blocks, without reasoning, calls or results."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.blocks if isinstance(block, ToolCall)])


@dataclass(frozen=True, slots=True)
class MentionedFiles:
    """The files that a prompt mentions."""

    blocks: tuple[Block, ...] = ()
    """The files that can be attached, as blocks."""
    problems: tuple[str, ...] = ()
    """A line for each file that is not attached."""


def typed_text(message: Message) -> str:
    """Return the text that the user typed, which is the last text block; attached files precede it."""
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    return texts[-1] if texts else ""


def user(text: str) -> Message:
    """Return a user message with one text block."""
    return Message("user", (Text(text),))


def assistant(*blocks: Block) -> Message:
    return Message("assistant", blocks)
