"""Parts of a history that a host refuses, and the history without them.

A host that takes no images, or no longer knows the signatures it made, would refuse every later request of the
session as well: the part is left out of what is sent, never out of what is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.engine.knowledge import KnownModel
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest

Part: TypeAlias = Literal["images", "marks"]

# Some servers answer a picture they cannot read with a 404 (no route takes it) or a 500 (no projector is loaded).
_REFUSALS = frozenset({ErrorKind.BAD_REQUEST, ErrorKind.UNKNOWN_MODEL, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.SERVER})
_IMAGE_WORDS = re.compile(r"\bimages?\b|image_url|\bvision\b|multi-?modal|modalit(?:y|ies)|inline_?data", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"not support|n't support|unsupported|not (?:a |an )?(?:vision|multi-?modal)|no endpoints|not allowed|text[ -]only"
    r"|only (?:supports? )?text|expected `?text|unknown variant|cannot (?:accept|take|handle)|mmproj|not enabled"
    r"|invalid content type|not available",
    re.IGNORECASE,
)
_MARK_WORDS = re.compile(r"signature|encrypted[_ ]content|reasoning (?:item|content)|redacted_thinking", re.IGNORECASE)


def refused_part(error: ProviderError, request: ModelRequest) -> Part | None:
    """Return the part of `request` that the host's own words blame, None where they blame none it holds."""
    if error.kind not in _REFUSALS:
        return None
    words = f"{error.message} {error.code or ''} {error.param or ''}"
    if _MARK_WORDS.search(words) and error.kind is ErrorKind.BAD_REQUEST and has_marks(request.messages):
        return "marks"
    if _IMAGE_WORDS.search(words) and has_images(request.messages):
        # Of a server's own failure only the plain word that it takes none counts: any other may pass.
        return "images" if error.kind is not ErrorKind.SERVER or is_lasting(error) else None
    return None


def is_lasting(error: ProviderError) -> bool:
    """Say whether a refused picture tells that the model takes none at all, and not that this one is bad."""
    return _UNSUPPORTED.search(error.message) is not None


def has_images(messages: Iterable[Message]) -> bool:
    return any(
        isinstance(block, Image) or (isinstance(block, ToolResult) and bool(block.images))
        for message in messages
        for block in message.blocks
    )


def has_marks(messages: Iterable[Message]) -> bool:
    return any(
        isinstance(block, Text | Reasoning | ToolCall) and block.opaque is not None
        for message in messages
        for block in message.blocks
    )


def without_part(messages: Iterable[Message], part: Part) -> tuple[Message, ...]:
    """Return messages in which a text stands for each image, or in which nothing is signed."""
    change = _without_images if part == "images" else _without_mark
    return tuple(replace(message, blocks=tuple(change(block) for block in message.blocks)) for message in messages)


def _without_images(block: Block) -> Block:
    match block:
        case Image():
            return Text(_stand_in(block))
        case ToolResult() if block.images:
            told = "\n".join((*([block.content] if block.content else []), *map(_stand_in, block.images)))
            return replace(block, content=told, images=())
        case _:
            return block


def _stand_in(image: Image) -> str:
    return f"[An image ({image.media_type}) stood here. This model cannot see images: say so if you would need it.]"


def _without_mark(block: Block) -> Block:
    return replace(block, opaque=None) if isinstance(block, Text | Reasoning | ToolCall) else block


def readable(messages: tuple[Message, ...], model: KnownModel) -> tuple[Message, ...]:
    """Return a history as `model` can be sent it."""
    if not model.sees_images and has_images(messages):
        messages = without_part(messages, "images")
    return without_part(messages, "marks") if model.host.refuses_marks else messages
