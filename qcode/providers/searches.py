"""Web searches that a host runs itself, as its codec collects them: what goes back to it, and what a person sees.

A piece of a search travels as reasoning: its text is for people, and its mark holds the piece as the host sent it, so
that it goes back unchanged to that host and to no other. Pure.
"""

from __future__ import annotations

import json

from qcode.protocol.json import JsonObject
from qcode.protocol.messages import Opaque
from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import Source, WebSearched
from qcode.protocol.tools import ToolSpec
from qcode.providers.shapes import object_in

WEB_SEARCH = ToolSpec(
    name="web_search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    is_read_only=True,
    is_hosted=True,
)
MOST_SEARCHES = 8
"""Searches in one reply, where a host takes such a limit."""

_PIECE = "hosted"


class Searches:
    """The searches of one reply."""

    def __init__(self) -> None:
        self._queries: dict[str, None] = {}
        self._sources: dict[str, str] = {}

    def searched(self, query: str) -> str:
        """Note a query; return the line about it for a person."""
        query = " ".join(query.split())
        if not query:
            return "Searched the web.\n"
        self._queries[query] = None
        return f"Searched the web for \u201c{query}\u201d.\n"

    def cites(self, url: str, title: str) -> None:
        if url.startswith(("https://", "http://")):
            self._sources[url] = self._sources.get(url) or " ".join(title.split())

    def events(self) -> list[WebSearched]:
        """Return what is to be told at the end of the reply; nothing where nothing was searched."""
        if not self._queries and not self._sources:
            return []
        sources = tuple(Source(url, title) for url, title in self._sources.items())
        return [WebSearched(tuple(self._queries), sources)]


def mark(source: str, piece: JsonObject) -> Opaque:
    """Return the mark that keeps a piece of a search for the protocol `source`."""
    return Opaque(source, json.dumps({_PIECE: piece}, ensure_ascii=False))


def piece_in(marks: JsonObject) -> JsonObject:
    """Return the piece that marks of the own protocol hold, empty where they hold another thing."""
    return object_in(marks.get(_PIECE))


def own_tools(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that qcode runs."""
    return tuple(tool for tool in request.tools if not tool.is_hosted)


def wants_search(request: ModelRequest) -> bool:
    return any(tool.is_hosted for tool in request.tools)
