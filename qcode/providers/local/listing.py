"""Asking a server of this machine or its network for its list of models."""

from __future__ import annotations

import asyncio

from qcode.providers.local.asking import ask
from qcode.providers.local.finding import is_for_chat
from qcode.providers.shapes import object_in, objects_in, text_in


async def list_models(address: str, limit_s: float = 2.0) -> tuple[str, ...]:
    """Return the models for chat that the server at `address` (with its `/v1`) lists; none where it does not answer."""
    try:
        async with asyncio.timeout(limit_s):
            listed = object_in(await ask(address, "/models"))
    except (OSError, EOFError, ValueError, TimeoutError):
        return ()
    names = (text_in(model.get("id")) for model in objects_in(listed.get("data")))
    return tuple(name for name in names if name and is_for_chat(name))
