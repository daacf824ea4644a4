"""Completions for `@server:uri` and for the arguments of `/server:prompt`, from the lists and answers of servers.

qcode asks a server in the background (`completion/complete`) and caches the answer. Separate from `mentions`, because
only the app offers completions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from qcode.agent.mcp.mentions import ServerPrompt, arguments_of
from qcode.agent.mcp.session import ListedResource
from qcode.agent.mcp.spec import ServerError
from qcode.protocol.errors import InputError
from qcode.text.clean import clean, single_spaced
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.mcp.servers import Servers

MAX_ROWS = 50
"""The maximum number of completions that are offered at once."""
_MAX_CACHED = 500
"""The maximum number of cached answers; one more clears the cache."""
_TIMEOUT_S = 5.0
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One completion of a mention."""

    text: str
    """The text after `@`."""
    help: str
    """A description of the completion for the user."""
    is_complete: bool = True
    """False if more must be typed after it, such as the URI after `server:`."""


class ServerCompletion:
    """The completions of a session. `on_answer` is called on the event loop when a server has answered with values."""

    def __init__(self, servers: Servers, on_answer: Callable[[], None]) -> None:
        self._servers = servers
        self._on_answer = on_answer
        self._answers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._request_task: asyncio.Task[None] | None = None

    def resources(self, query: str) -> tuple[ResourceRow, ...]:
        """Return the completions of `query`, the text after `@`: names of running servers, then URIs after `server:`.

        An empty query has no completions.
        """
        server, has_uri, typed = query.partition(":")
        ready = self._servers.ready()
        if not has_uri:
            names = [
                name
                for name, ready_server in ready.items()
                if ready_server.listing.resources and name.startswith(query)
            ]
            return tuple(
                ResourceRow(f"{name}:", "resources of this tool server", is_complete=False) for name in names if query
            )
        if server not in ready:
            return ()
        query_text = typed.lower()
        listed = [
            listed_resource for listed_resource in ready[server].listing.resources if not listed_resource.is_template
        ]
        hits = [
            listed_resource
            for listed_resource in listed
            if query_text in listed_resource.uri.lower() or query_text in listed_resource.name.lower()
        ]
        hits.sort(key=lambda resource: not resource.uri.lower().startswith(query_text))
        rows = [
            ResourceRow(f"{server}:{listed_resource.uri}", _resource_label(listed_resource)) for listed_resource in hits
        ]
        for template in ready[server].listing.resources:
            if template.is_template:
                rows += self._template_rows(server, template, typed)
        return tuple(rows[:MAX_ROWS])

    def _template_rows(self, server: str, template: ListedResource, typed: str) -> list[ResourceRow]:
        """Return the template up to its first placeholder, or a row for each value that the server offers there."""
        placeholders = list(_PLACEHOLDER.finditer(template.uri))
        if not placeholders:
            return []
        name = placeholders[0].group()[1:-1]
        prefix, suffix = template.uri[: placeholders[0].start()], template.uri[placeholders[0].end() :]
        if not typed.startswith(prefix):
            is_begun = prefix.lower().startswith(typed.lower())
            return (
                [ResourceRow(f"{server}:{prefix}", f"{_resource_label(template)} {template.uri}", False)]
                if is_begun
                else []
            )
        if len(placeholders) > 1 or not name.isidentifier():
            return []
        values = self._values((server, "template", template.uri, name, typed[len(prefix) :]), {})
        return [ResourceRow(f"{server}:{prefix}{value}{suffix}", _resource_label(template)) for value in values]

    def arguments(self, prompt: ServerPrompt, typed: str) -> tuple[str, ...]:
        """Return completions of the typed arguments: each is the typed text with a value for the last argument."""
        names = [argument.name for argument in prompt.prompt.arguments]
        head, _, last = typed.rpartition(" ")
        name, has_value, value = last.partition("=")
        try:
            earlier = arguments_of(prompt.prompt, head)
        except InputError:
            return ()
        unset = [name for name in names if name not in earlier]
        if not has_value:
            if not unset:
                return ()
            name, value = unset[0], last
        if name not in names:
            return ()
        start = f"{head} " if head else ""
        prefix = f"{name}=" if has_value else ""
        values = self._values((prompt.server, "prompt", prompt.prompt.name, name, value), earlier)
        return tuple(f"{start}{prefix}{_quoted(text)}" for text in values)

    def _values(self, request: tuple[str, ...], earlier: Mapping[str, str]) -> tuple[str, ...]:
        """Return the cached answer to a request; if there is none, ask the server and return no values.

        `request` is (server, "prompt" or "template", name or URI, argument, value so far); `earlier` are the values of
        the arguments before this argument.
        """
        cache_key = (*request, *(f"{name}={value}" for name, value in sorted(earlier.items())))
        if cache_key not in self._answers:
            if self._request_task is not None:
                self._request_task.cancel()
            self._request_task = asyncio.get_running_loop().create_task(self._ask(cache_key, request, dict(earlier)))
        return self._answers.get(cache_key, ())

    async def _ask(self, cache_key: tuple[str, ...], request: tuple[str, ...], earlier: dict[str, str]) -> None:
        """Ask the server and cache its answer; an error is cached as an empty answer."""
        server, kind, name, argument, value = request
        ready = self._servers.ready().get(server)
        values: tuple[str, ...] = ()
        if ready is not None:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    values = await ready.connection.complete(kind, name, argument, value, earlier)
            except (ServerError, TimeoutError):
                values = ()
        if len(self._answers) > _MAX_CACHED:
            self._answers.clear()
        self._answers[cache_key] = tuple(single_spaced(clean(text), 200) for text in values[:MAX_ROWS])
        if self._answers[cache_key]:
            self._on_answer()


def _resource_label(resource: ListedResource) -> str:
    return single_spaced(clean(resource.name or resource.description), 60)


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) and '"' not in value else value
