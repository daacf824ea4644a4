"""The kinds of web search: none, by the host of the model, or by a search service with a key of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.model import ModelFacts
from qcode.protocol.tools import ToolSpec
from qcode.providers.blocks import WEB_SEARCH
from qcode.providers.history import opaque_origin
from qcode.providers.registry import is_sendable
from qcode.text.pattern import lazy_pattern

if TYPE_CHECKING:
    from qcode.tools.web_search import SearchService

_SEARCH_PROTOCOLS = frozenset({"anthropic", "openai-responses"})
# Only Gemini 3 and later accept a search and functions in one request.
_SEARCHING_GEMINI = lazy_pattern(r"gemini-([3-9]|\d\d)")


class SearchAccess(NamedTuple):
    """A search service, and the user's key for it."""

    service: SearchService
    key: str


def search_access(settings: Settings, env: Mapping[str, str]) -> SearchAccess | None:
    """Return the configured search service and its key, None if none is configured.

    Raise `QcodeError` if the key is missing or invalid.
    """
    if settings.tools.web_search in ("off", "host"):
        return None
    from qcode.tools.web_search import SERVICES  # few users have a key for a search service

    service = SERVICES[settings.tools.web_search]
    key = env.get(service.key_variable, "").strip()
    if not key:
        origin = settings.origin("tools.web_search")
        raise QcodeError(
            f'{origin}: tools.web_search is "{service.name}", and {service.key_variable} is not set; set it, or '
            "change tools.web_search",
            ExitCode.NO_CREDENTIAL,
        )
    if not is_sendable(key):
        raise QcodeError(
            f"{service.key_variable} contains characters that no key has, such as a space or line break",
            ExitCode.NO_CREDENTIAL,
        )
    return SearchAccess(service, key)


def hosted_tools(settings: Settings, protocol: str, host: str, model: str, facts: ModelFacts) -> tuple[ToolSpec, ...]:
    """Return the tools that the host of a model runs itself, if the user enabled them.

    `web_search` of a model in `[models]` decides; without it, only the official host of a protocol is known to search.
    """
    if settings.tools.web_search != "host" or facts.has_text_tool_calls:
        return ()
    can_search = protocol in _SEARCH_PROTOCOLS or (
        protocol == "gemini" and _SEARCHING_GEMINI.search(model.lower()) is not None
    )
    is_offered = facts.can_search_web if facts.can_search_web is not None else not opaque_origin(host)
    return (WEB_SEARCH,) if can_search and is_offered else ()
