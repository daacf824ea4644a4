"""Where a Chat Completions request goes, beside the base URL: what depends on the request. Pure."""

from __future__ import annotations

from urllib.parse import quote

from qcode.protocol.model import ModelRequest
from qcode.providers.addresses import strip_version
from qcode.providers.azure import MODEL
from qcode.providers.openai_chat.quirks import ChatQuirks


def base_for(base_url: str, request: ModelRequest, quirks: ChatQuirks) -> str:
    """Return the base URL of `request`.

    A deployment in the address is named after the model; a host may continue messages at another place only.
    """
    if request.is_prefill and quirks.prefill_path:
        return strip_version(base_url) + quirks.prefill_path
    return base_url.replace(MODEL, quote(request.model, safe=""))
