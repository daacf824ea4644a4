"""Who searches the web in this run: nobody, the host of the model, or a search service."""

from __future__ import annotations

import re
from collections.abc import Mapping

from qcode.cli.failure import StartError
from qcode.config.settings import Settings
from qcode.protocol.model import ModelFacts
from qcode.protocol.tools import ToolSpec
from qcode.providers.marks import place_of
from qcode.providers.registry import is_sendable
from qcode.providers.searches import WEB_SEARCH
from qcode.tools.web_search import SERVICES, SearchService

_SEARCHING = frozenset({"anthropic", "openai-responses"})
# Google's models before the third generation take either a search or functions in a request, never both.
_GEMINI = re.compile(r"gemini-([3-9]|\d\d)")


def search_key(settings: Settings, env: Mapping[str, str]) -> tuple[SearchService, str] | None:
    """Return the service that was chosen and its key; raise `StartError` where the key is missing."""
    service = SERVICES.get(settings.tools.web_search)
    if service is None:
        return None
    key = env.get(service.key_variable, "").strip()
    if not key:
        where = settings.origin("tools.web_search")
        raise StartError(f'{where}: tools.web_search is "{service.name}", and {service.key_variable} is not set', 41)
    if not is_sendable(key):
        raise StartError(
            f"{service.key_variable} holds something that is in no key: a blank, a line end or the like", 41
        )
    return service, key


def hosted_tools(settings: Settings, protocol: str, host: str, model: str, facts: ModelFacts) -> tuple[ToolSpec, ...]:
    """Return the tools that the host of a model runs itself, as far as the person switched them on.

    What `[models]` says of a model decides; else it is the protocol's own host that is known to search.
    """
    if settings.tools.web_search != "host" or facts.text_tool_calls:
        return ()
    can = protocol in _SEARCHING or (protocol == "gemini" and _GEMINI.search(model.lower()) is not None)
    is_offered = facts.web_search if facts.web_search is not None else not place_of(host)
    return (WEB_SEARCH,) if can and is_offered else ()
