"""Keeps what a host wants back (signatures, encrypted reasoning) from every other host, also of its own protocol.

A codec knows marks by the name of its protocol. On the way out of a host that is not the protocol's own, the host's
place is added to that name; on the way in only marks of that place lose it again. The codec drops the others. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from qcode.protocol.messages import Block, Message, Opaque, Reasoning, Text, ToolCall
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import BlockEnded, ReplyEvent

_HOMES = frozenset({"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com"})
_AMAZON = ".amazonaws.com"


def place_of(address: str) -> str:
    """Return what tells the host at `address` from others of its protocol; empty for the protocol's own.

    Without an address it is the protocol's own. Credentials and a query in an address are no part of its place.
    """
    parts = urlsplit(address)
    host = (parts.hostname or "").lower()
    if not host or host in _HOMES or host.endswith(_AMAZON):
        return ""
    port = f":{parts.port}" if parts.port else ""
    return f"{host}{port}{parts.path.rstrip('/')}"


def for_place(request: ModelRequest, place: str) -> ModelRequest:
    """Return the request with the marks that `place` made under their protocol's name, and without any other."""
    if not place:
        return request
    return replace(request, messages=tuple(_message_for(message, f"@{place}") for message in request.messages))


def from_place(event: ReplyEvent, place: str) -> ReplyEvent:
    """Return an event of the codec with its mark named after the host too."""
    if type(event) is not BlockEnded or event.opaque is None:
        return event
    return replace(event, opaque=replace(event.opaque, source=f"{event.opaque.source}@{place}"))


def _message_for(message: Message, ending: str) -> Message:
    if not any(_mark_of(block) for block in message.blocks):
        return message
    return replace(message, blocks=tuple(_block_for(block, ending) for block in message.blocks))


def _block_for(block: Block, ending: str) -> Block:
    mark = _mark_of(block)
    if mark is None or not isinstance(block, Text | Reasoning | ToolCall):
        return block
    is_own = mark.source.endswith(ending)
    return replace(block, opaque=replace(mark, source=mark.source.removesuffix(ending)) if is_own else None)


def _mark_of(block: Block) -> Opaque | None:
    return block.opaque if isinstance(block, Text | Reasoning | ToolCall) else None
