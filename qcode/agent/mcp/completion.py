"""Completions for `@server:uri` and for the arguments of `/server:prompt`, from the lists and answers of servers.

qcode asks a server in the background (`completion/complete`) and caches the answer. Separate from `mentions`, because
only the app offers completions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

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
_MAX_VALUE_CHARS = 200
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request to a server for the values of one argument."""

    server: str
    kind: Literal["prompt", "template"]
    name: str
    """The name of the prompt, or the URI of the template."""
    argument: str
    value: str
    """The value so far."""
    earlier: tuple[tuple[str, str], ...] = ()
    """The names and values of the arguments before this argument."""


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
        self._answers: dict[CompletionRequest, tuple[str, ...]] = {}
        self._request_task: asyncio.Task[None] | None = None

    def resources(self, query: str) -> tuple[ResourceRow, ...]:
        """Return the completions of `query`, the text after `@`: names of running servers, then URIs after `server:`.

        An empty query has no completions.
        """
        if not query:
            return ()
        server, has_uri, typed = query.partition(":")
        listings = {name: ready.listing for name, ready in self._servers.ready().items()}
        if not has_uri:
            names = [name for name, listing in listings.items() if listing.resources and name.startswith(query)]
            return tuple(ResourceRow(f"{name}:", "resources of this tool server", is_complete=False) for name in names)
        if server not in listings:
            return ()
        typed_lower = typed.lower()
        listed = listings[server].resources
        hits = [
            resource
            for resource in listed
            if not resource.is_template
            and (typed_lower in resource.uri.lower() or typed_lower in resource.name.lower())
        ]
        hits.sort(key=lambda resource: not resource.uri.lower().startswith(typed_lower))
        rows = [ResourceRow(f"{server}:{resource.uri}", _resource_label(resource)) for resource in hits]
        for resource in listed:
            if resource.is_template:
                rows += self._template_rows(server, resource, typed)
        return tuple(rows[:MAX_ROWS])

    def _template_rows(self, server: str, template: ListedResource, typed: str) -> list[ResourceRow]:
        """Return the template up to its first placeholder, or a row for each value that the server offers there."""
        placeholders = list(_PLACEHOLDER.finditer(template.uri))
        if not placeholders:
            return []
        first = placeholders[0]
        name = first.group().strip("{}")
        prefix, suffix = template.uri[: first.start()], template.uri[first.end() :]
        if not typed.startswith(prefix):
            if not prefix.lower().startswith(typed.lower()):
                return []
            label = f"{_resource_label(template)} {template.uri}"
            return [ResourceRow(f"{server}:{prefix}", label, is_complete=False)]
        if len(placeholders) > 1 or not name.isidentifier():
            return []
        value_so_far = typed.removeprefix(prefix)
        values = self._values(CompletionRequest(server, "template", template.uri, name, value_so_far))
        return [ResourceRow(f"{server}:{prefix}{value}{suffix}", _resource_label(template)) for value in values]

    def arguments(self, prompt: ServerPrompt, typed: str) -> tuple[str, ...]:
        """Return completions of the typed arguments: each is the typed text with a value for the last argument."""
        head, _, last = typed.rpartition(" ")
        try:
            earlier = arguments_of(prompt.prompt, head)
        except InputError:
            return ()
        names = [argument.name for argument in prompt.prompt.arguments]
        name, has_name, value = last.partition("=")
        if not has_name:  # the value of the next argument, without its name
            name = next((name for name in names if name not in earlier), "")
            value = last
        if name not in names:
            return ()
        start = f"{head} " if head else ""
        prefix = f"{name}=" if has_name else ""
        earlier_values = tuple(sorted(earlier.items()))
        values = self._values(
            CompletionRequest(prompt.server, "prompt", prompt.prompt.name, name, value, earlier_values)
        )
        return tuple(f"{start}{prefix}{_quoted(text)}" for text in values)

    def _values(self, request: CompletionRequest) -> tuple[str, ...]:
        """Return the cached answer to a request; if there is none, ask the server and return no values."""
        if request not in self._answers:
            if self._request_task is not None:
                self._request_task.cancel()
            self._request_task = asyncio.get_running_loop().create_task(self._ask(request))
        return self._answers.get(request, ())

    async def _ask(self, request: CompletionRequest) -> None:
        """Ask the server and cache its answer; an error is cached as an empty answer."""
        ready = self._servers.ready().get(request.server)
        values: tuple[str, ...] = ()
        if ready is not None:
            with suppress(ServerError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT_S):
                    values = await ready.connection.complete(
                        request.kind, request.name, request.argument, request.value, dict(request.earlier)
                    )
        if len(self._answers) > _MAX_CACHED:
            self._answers.clear()
        answer = tuple(single_spaced(clean(text), _MAX_VALUE_CHARS) for text in values[:MAX_ROWS])
        self._answers[request] = answer
        if answer:
            self._on_answer()


def _resource_label(resource: ListedResource) -> str:
    return single_spaced(clean(resource.name or resource.description), 60)


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) and '"' not in value else value
