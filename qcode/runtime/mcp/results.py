"""Turns what a tool of a server gave back into a result: text and images for the model, the rest described or kept."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.messages import Image
from qcode.protocol.tools import ToolOutcome
from qcode.tools.output import Collector
from qcode.tools.pictures import image_type, picture
from qcode.tools.refusal import Refused

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

MOST_IMAGES = 8


def outcome_of(result: CallToolResult, limit: int, folder: Callable[[], Path]) -> ToolOutcome:
    """Return the outcome of a call, at most `limit` characters of text; all of a longer one lies in `folder`."""
    reader = _Reader()
    reader.take_all(result.content)
    if result.structured_content is not None and not reader.says(result.structured_content):
        reader.texts.append(json.dumps(result.structured_content, ensure_ascii=False, indent=1))
    text = "\n".join(reader.texts)
    if not text and not reader.images:
        text = "(the tool failed and said nothing)" if result.is_error else "(no output)"
    bounded = bounded_text(text, limit, folder)
    return ToolOutcome(bounded, result.is_error, _summary(text, len(reader.images)), images=tuple(reader.images))


def bounded_text(text: str, limit: int, folder: Callable[[], Path]) -> str:
    """Return beginning and end of a long text, and where all of it is."""
    if len(text) <= limit:
        return text
    collector = Collector(limit, folder)
    collector.feed(text.encode("utf-8", "replace"))
    return collector.close()


def _summary(text: str, images: int) -> str:
    lines = text.count("\n") + 1
    words = [f"{lines} line{'' if lines == 1 else 's'}"] if text else []
    words += [f"{images} image{'' if images == 1 else 's'}"] if images else []
    return ", ".join(words)


class _Reader:
    """Reads content in its order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.images: list[Image] = []

    def take_all(self, content: Iterable[ContentBlock]) -> None:
        import mcp_types as types

        for block in content:
            match block:
                case types.TextContent():
                    self.texts.append(block.text)
                case types.ImageContent():
                    self._take_binary("image", block.data, block.mime_type)
                case types.AudioContent():
                    self.texts.append(f"[audio ({block.mime_type}), which is not shown]")
                case types.ResourceLink():
                    about = f": {block.description}" if block.description else ""
                    self.texts.append(f"[resource {block.uri} ({block.mime_type or 'unknown type'}){about}]")
                case types.EmbeddedResource():
                    self._take_resource(block)

    def says(self, value: object) -> bool:
        """Return whether a text already is this value as JSON, as servers do for clients that take only text."""
        return any(_json_of(text) == value for text in self.texts)

    def _take_resource(self, block: object) -> None:
        import mcp_types as types

        assert isinstance(block, types.EmbeddedResource)
        found = block.resource
        if isinstance(found, types.TextResourceContents):
            self.texts.append(f"[resource {found.uri}]\n{found.text}")
        else:
            self._take_binary(f"resource {found.uri}", found.blob, found.mime_type or "unknown type")

    def _take_binary(self, what: str, data: str, media_type: str) -> None:
        """Take an image; anything else binary is only named. Its bytes say what it is, not its server."""
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[{what} ({media_type}) that cannot be read: its data is not base64]")
            return
        kind = image_type(raw)
        if not kind:
            self.texts.append(f"[{what} ({media_type}), {len(raw):,} bytes, which is not shown]")
        elif len(self.images) == MOST_IMAGES:
            self.texts.append(f"[{what}: only the first {MOST_IMAGES} images of a result are shown]")
        else:
            try:
                found = picture(raw, kind, f"the {what}")
            except Refused as refused:
                self.texts.append(f"[{refused}]")
                return
            self.images.append(found.image)
            self.texts.append(f"[{what}: {found.described}]")


def _json_of(text: str) -> object:
    if not text.lstrip().startswith(("{", "[", '"', "t", "f", "n", "-", *"0123456789")):
        return None
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found
