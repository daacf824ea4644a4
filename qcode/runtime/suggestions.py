"""Adds to an "unknown model" error the names the host does serve, the nearest ones first."""

from __future__ import annotations

import asyncio
import difflib

from qcode.protocol.errors import ProviderError
from qcode.protocol.provider import Provider

ASK_TIMEOUT_S = 10.0
"""The provider's SDK may have to load first, which takes seconds on a busy machine."""
MAX_NAMES = 3


async def with_nearest_models(error: ProviderError, provider: Provider, model: str) -> ProviderError:
    """Return `error` with the nearest model names in its message; the error itself where the host names none."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            names = await provider.model_names()
    except (ProviderError, TimeoutError):
        return error
    nearest = difflib.get_close_matches(model, names, n=MAX_NAMES, cutoff=0.3) or list(names[:MAX_NAMES])
    if not nearest:
        return error
    found = ", ".join(f"{provider.name}/{name}" for name in nearest)
    return ProviderError(
        error.kind,
        f"{error.message.rstrip('. ')}; nearest: {found}",
        status=error.status,
        request_id=error.request_id,
        code=error.code,
        param=error.param,
    )
