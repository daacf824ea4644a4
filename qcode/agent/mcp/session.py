"""The client side of one connection: negotiation of the protocol, the lists of a server, and its errors as text.

An invalid entry of a list is skipped and reported. The life cycle of a server is in `connection`, its transports in
`transports`. The `mcp` package is imported inside the functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qcode import __version__
from qcode.agent.mcp.spec import MAX_REASON
from qcode.agent.mcp.tools import ListedTool
from qcode.providers.sdk import silence_loggers
from qcode.text.clean import single_spaced
from qcode.text.json import text_in
from qcode.values import dataclass

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import ClientSession
    from mcp.client._transport import TransportStreams
    from mcp.client.context import ClientRequestContext
    from mcp.client.session import ListRootsFnT, LoggingFnT
    from mcp_types import InputRequests, InputResponses
    from pydantic import ValidationError

    Elicit: TypeAlias = Callable[
        ["types.ElicitRequestFormParams | types.ElicitRequestURLParams"], Awaitable["types.ElicitResult"]
    ]
    Sampler: TypeAlias = Callable[
        ["types.CreateMessageRequestParams"],
        Coroutine[Any, Any, "types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData"],
    ]

MAX_LISTED = 1_000
"""The maximum number of entries of one list of a server."""

_LOG_LEVEL: Literal["info"] = "info"
"""The lowest level of log messages to request. A server of protocol 2026-07-28 sends no messages without a request.

A server of an earlier protocol chooses the level itself.
"""
_PROBE_TIMEOUT_S = 3.0
"""The time limit for the answer to the newer protocol; after it, the older one is used."""
_MAX_PAGES = 50
"""The maximum number of pages of one list."""
_MIN_TTL_S = 60.0
"""A shorter `ttl_s` of a server is raised to this."""
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@dataclass(frozen=True, slots=True)
class ListedArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class ListedPrompt:
    """A prompt exactly as a server listed it."""

    name: str
    description: str = ""
    arguments: tuple[ListedArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedResource:
    """A resource exactly as a server listed it."""

    uri: str
    """The URI, or with `is_template` a URI template (RFC 6570)."""
    name: str = ""
    description: str = ""
    media_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class ServerListing:
    """The lists of a server."""

    tools: tuple[ListedTool, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    problems: tuple[str, ...] = ()
    """One line for each entry or list that cannot be used."""
    ttl_s: float | None = None
    """Seconds after which the server wants its tools to be listed again; None if it names no time."""


def load_sdk() -> None:
    """Import the `mcp` package. This is slow: call it in a thread."""
    import mcp.client.sse
    import mcp.client.streamable_http
    import mcp.client.subscriptions  # noqa: F401

    # Their log messages on stderr would break the screen.
    silence_loggers("mcp", "httpx2", "httpcore2", "client")


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that connections and requests can raise."""
    import anyio
    import httpx2
    from mcp import MCPError

    closed = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    return (MCPError, OSError, RuntimeError, ValueError, httpx2.HTTPError, httpx2.InvalidURL, ExceptionGroup, *closed)


def innermost_error(error: BaseException) -> BaseException:
    """Return the first error of an exception group, also of nested groups, or `error` itself if it is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def explain(error: BaseException, status: str = "") -> str:
    """Return a connection error as one line for the user.

    `status` is the status of the last HTTP response, such as `502 Bad Gateway`.
    """
    import httpx2
    from mcp import MCPError
    from pydantic import ValidationError

    error = innermost_error(error)
    text = single_spaced(str(error), MAX_REASON)
    match error:
        case MCPError() if is_closed(error):
            return "the connection ended"
        case MCPError():
            return transport_problem(error, status) or f"it answered with an error: {error_text(error)}"
        case httpx2.ConnectError():
            return f"it cannot be reached: {text}"
        case httpx2.HTTPStatusError():
            return f"it answered {error.response.status_code} {error.response.reason_phrase}"
        case ValidationError():
            return f"its response is not valid ({_first_problem(error)})"
        case OSError():
            return f"it cannot be started: {error.strerror or text}"
    return text.rstrip(".") or type(error).__name__


def transport_problem(error: Any, status: str) -> str:  # noqa: ANN401  # an MCPError, whose package loads late
    """Return the failure below the protocol, empty if the server sent the error. `status` as in `explain`.

    The HTTP transport of the `mcp` package reports such failures as if they were errors of the server.
    """
    text = str(error.message)
    if text == "Server returned an error response" and status:
        return f"it answered {status}"
    if text.startswith("Failed to parse "):
        return "its response is not a message of the protocol"
    if text.startswith("Unexpected content type:"):
        kind = single_spaced(text.partition(":")[2], 80)
        return f"it answered with {kind or 'no content type'} instead of JSON; check the URL"
    if text.startswith("server answered a request with 202"):
        return "it answered 202 Accepted without a response"
    if text.startswith("SSE stream failed:"):
        return "its response is too large or not valid"
    if text.startswith("SSE stream ended"):
        return "the connection was lost before its response arrived"
    return ""


def error_text(error: Any) -> str:  # noqa: ANN401  # an MCPError, whose package loads late
    """Return the message of an error that a server sent, with the meaning of the codes of 2026-07-28."""
    import mcp_types as types

    text = single_spaced(error.message, MAX_REASON)
    data = error.error.data if isinstance(error.error.data, dict) else {}
    match error.code:
        case types.UNSUPPORTED_PROTOCOL_VERSION:
            versions = data.get("supported")
            supported = ", ".join(map(str, versions)) if isinstance(versions, list) else ""
            if not supported:
                return f"{text} (it does not say which protocol versions it supports)"
            return f"{text} (it supports only the protocol versions {single_spaced(supported, 100)})"
        case types.MISSING_REQUIRED_CLIENT_CAPABILITY:
            required = data.get("requiredCapabilities")
            features = ", ".join(required) if isinstance(required, dict) else ""
            return f"{text} (it requires a feature that is off or not supported: {single_spaced(features, 100)})"
        case types.HEADER_MISMATCH:
            return f"{text} (headers and body of the request differ: a proxy in between may have changed them)"
    return text or f"error {error.code}"


def is_closed(error: Any) -> bool:  # noqa: ANN401  # an MCPError, whose package loads late
    """Return whether the error means that the connection ended. Servers use its code for other errors too."""
    import mcp_types as types

    return bool(error.code == types.CONNECTION_CLOSED and error.message == "Connection closed")


@dataclass(frozen=True, slots=True)
class RejectedEntry:
    """An invalid entry that was left out of a list of a server."""

    name: str
    """Empty if the entry has no valid name."""
    reason: str


RejectedEntries: TypeAlias = "list[RejectedEntry]"


def open_session(
    streams: TransportStreams,
    cwd: Path,
    rejected: RejectedEntries,
    *,
    on_change: Callable[[], None],
    elicit: Elicit,
    sample: Sampler | None = None,
    on_log_line: Callable[[str], None] = lambda line: None,
) -> ClientSession:
    """Return a session that reports `cwd` as its only root; `elicit` asks the user, `sample` the model.

    `on_change` is called when the server reports that a list changed, `on_log_line` with a line for each log message
    of the server. `rejected` collects the invalid entries of lists.
    """
    import mcp_types as types
    from mcp import ClientSession
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    class Dispatcher(JSONRPCDispatcher[Any]):
        async def send_raw_request(self, method: str, *args: Any, **named: Any) -> dict[str, Any]:  # noqa: ANN401
            """Leave out the invalid entries of a list, because one of them would fail the whole list."""
            raw = await super().send_raw_request(method, *args, **named)
            if method in _LISTS:
                rejected.extend(_remove_invalid(method, session.protocol_version or "2025-11-25", raw))
            return raw

    class ServerSession(ClientSession):
        async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
            """Skip the check against the schema of the server, which may be wrong or malicious."""

    async def handle_elicitation(context: object, params: Any) -> types.ElicitResult:  # noqa: ANN401  # form or URL
        return await elicit(params)

    async def handle_message(message: object) -> None:
        if str(getattr(message, "method", "")).endswith("/list_changed"):
            on_change()

    session = ServerSession(
        list_roots_callback=_only_root(cwd),
        logging_callback=_logger(on_log_line),
        log_level=_LOG_LEVEL,
        elicitation_callback=handle_elicitation,
        sampling_callback=None if sample is None else lambda context, params: sample(params),
        message_handler=handle_message,
        client_info=types.Implementation(name="qcode", version=__version__),
        dispatcher=Dispatcher(*streams),
    )
    return session


def _only_root(cwd: Path) -> ListRootsFnT:
    import mcp_types as types

    root = types.Root.model_validate({"uri": cwd.absolute().as_uri(), "name": cwd.name})

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    return roots


def _logger(on_log_line: Callable[[str], None]) -> LoggingFnT:
    async def handle_log(params: types.LoggingMessageNotificationParams) -> None:
        on_log_line(_log_line(params))

    return handle_log


def _log_line(params: types.LoggingMessageNotificationParams) -> str:
    """Return a log message as one line: `[warning] db: slow query`."""
    data = params.data if isinstance(params.data, str) else json.dumps(params.data, ensure_ascii=False, default=str)
    origin = f"{single_spaced(params.logger, 80)}: " if params.logger else ""
    return f"[{params.level}] {origin}{single_spaced(data, MAX_REASON)}"


async def collect_inputs(session: ClientSession, requests: InputRequests) -> InputResponses:
    """Return the answers to the requests in a result that requires input, asking for one at a time.

    Raise `MCPError` if one of them cannot be answered.
    """
    import mcp_types as types
    from mcp import MCPError
    from mcp.client.context import ClientRequestContext

    responses: InputResponses = {}
    for key, request in requests.items():
        context = ClientRequestContext(session=session, request_id=key)
        answer = await session.dispatch_input_request(context, request)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        responses[key] = answer
    return responses


def _remove_invalid(method: str, version: str, raw: dict[str, Any]) -> RejectedEntries:
    """Remove the invalid entries from the result `raw` of a list, and return them."""
    from mcp.shared.inbound import find_invalid_x_mcp_header
    from mcp_types import methods
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    key = _LISTS[method]
    entries = raw.get(key)
    if not isinstance(entries, list) or validation_problem(
        lambda: methods.parse_server_result(method, version, {**raw, key: []})
    ):
        return []  # the page itself is invalid, so the caller's own validation fails
    valid: list[object] = []
    rejected: RejectedEntries = []
    for entry in entries:
        page = {**raw, key: [entry]}
        problem = validation_problem(lambda page=page: methods.parse_server_result(method, version, page))  # type: ignore[misc]
        if not problem and key == "tools" and version in MODERN_PROTOCOL_VERSIONS:
            problem = find_invalid_x_mcp_header(entry["inputSchema"]) or ""
        if problem:
            name = text_in(entry.get("name")) or text_in(entry.get("uri")) if isinstance(entry, dict) else ""
            rejected.append(RejectedEntry(name, problem))
        else:
            valid.append(entry)
    raw[key] = valid
    return rejected


def validation_problem(check: Callable[[], object]) -> str:
    """Return the first problem that a validation finds, in one line; empty if it finds none."""
    from pydantic import ValidationError

    try:
        check()
    except ValidationError as error:
        return _first_problem(error)
    except KeyError:
        return ""  # a protocol version without such a list
    return ""


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    location = ".".join(map(str, first["loc"]))
    return single_spaced(f"{location}: {first['msg']}" if location else first["msg"], MAX_REASON)


async def negotiate(session: ClientSession, *, probes: bool) -> None:
    """Negotiate the protocol: with `probes` the newer one, if the server responds to it; otherwise the older one.

    Only the older protocol begins with a handshake (`initialize`).
    """
    import mcp_types as types
    from mcp import MCPError

    if probes:
        with suppress(MCPError, TimeoutError, ValueError, RuntimeError):
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                await session.discover()
                return
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()  # the server answers the newer protocol, but too slowly for the probe


async def list_all(session: ClientSession, rejected: RejectedEntries) -> ServerListing:
    """Return the lists of a server; raise an error if its tools cannot be listed.

    Another list that fails is empty, and has a line in `problems`. `open_session` fills `rejected`.
    """
    capabilities = session.server_capabilities
    if capabilities is None:
        return ServerListing()
    rejected.clear()
    listing = ServerListing()
    problems: list[str] = []
    if capabilities.tools is not None:
        tools = await _all_entries(session.list_tools, "tools", problems)
        listed = tuple(ListedTool(tool.name, tool.description or "", tool.input_schema) for tool in tools.entries)
        invalid = tuple(
            ListedTool(entry.name, "", {}, f"its definition is not valid ({entry.reason})") for entry in rejected
        )
        listing = replace(listing, tools=(*listed, *invalid), ttl_s=tools.ttl_s)
        rejected.clear()
    if capabilities.prompts is not None:
        prompts = await _entries_or_problem(session.list_prompts, "prompts", problems)
        listing = replace(listing, prompts=tuple(map(_prompt, prompts)))
    if capabilities.resources is not None:
        resources = await _entries_or_problem(session.list_resources, "resources", problems)
        templates = await _entries_or_problem(session.list_resource_templates, "resource_templates", problems)
        listing = replace(listing, resources=(*map(_resource, resources), *map(_template, templates)))
    problems += [f"{single_spaced(entry.name, 80) or 'an entry'} is left out: {entry.reason}" for entry in rejected]
    return replace(listing, problems=tuple(problems))


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of one list of a server, from all of its pages."""

    entries: list[Any]
    ttl_s: float | None
    """The seconds for which the first page is fresh; None if the server does not say."""


async def _entries_or_problem(fetch: Any, key: str, problems: list[str]) -> list[Any]:  # noqa: ANN401
    """Return the entries of a list as `_all_entries` does; a failure adds a line to `problems`."""
    try:
        return (await _all_entries(fetch, key, problems)).entries
    except connection_errors() as error:
        problems.append(f"its {key.replace('_', ' ')} cannot be listed: {explain(error)}")
        return []


async def _all_entries(fetch: Any, key: str, problems: list[str]) -> _Entries:  # noqa: ANN401
    """Return the entries of all pages of a list. `key` is the attribute of a page that holds its entries."""
    import mcp_types as types

    list_name = key.replace("_", " ")
    entries: list[Any] = []
    ttl_s: float | None = None
    cursor: str | None = None
    for page_number in range(_MAX_PAGES):
        page = await fetch(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        entries += getattr(page, key)
        if page_number == 0 and page.ttl_ms:
            ttl_s = max(_MIN_TTL_S, page.ttl_ms / 1000)
        if len(entries) > MAX_LISTED:
            problems.append(f"it lists more than {MAX_LISTED:,} {list_name}; the rest are ignored")
            break
        is_last = not page.next_cursor or page.next_cursor == cursor  # a cursor that stays the same would never end
        if is_last:
            break
        cursor = page.next_cursor
    else:
        problems.append(f"its {list_name} take more than {_MAX_PAGES} pages; the rest are ignored")
    return _Entries(entries[:MAX_LISTED], ttl_s)


def _prompt(prompt: types.Prompt) -> ListedPrompt:
    arguments = tuple(
        ListedArgument(argument.name, argument.description or "", bool(argument.required))
        for argument in prompt.arguments or ()
    )
    return ListedPrompt(prompt.name, prompt.description or prompt.title or "", arguments)


def _resource(resource: types.Resource) -> ListedResource:
    return ListedResource(
        str(resource.uri),
        resource.title or resource.name,
        resource.description or "",
        resource.mime_type or "",
        is_template=False,
    )


def _template(template: types.ResourceTemplate) -> ListedResource:
    return ListedResource(
        template.uri_template,
        template.title or template.name,
        template.description or "",
        template.mime_type or "",
        is_template=True,
    )
