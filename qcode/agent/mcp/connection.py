"""The life cycle of one server: connect, negotiate a protocol, list the tools, make calls, restart once after a crash.

One task runs `run`; other tasks make calls. Which servers may run and which tools are offered is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode import __version__
from qcode.agent.mcp.identity import NotApprovedError, ServerContext
from qcode.agent.mcp.spec import ServerError, ServerSpec
from qcode.agent.mcp.tools import ListedTool
from qcode.agent.mcp.transports import Log, ServerProgram, connect_http, connect_stdio, program_path
from qcode.config.settings import McpServer
from qcode.providers.sdk import quiet
from qcode.text.clean import single_spaced
from qcode.text.json import JsonObject
from qcode.tools.processes import passed_on

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.client._transport import TransportStreams
    from mcp_types import CallToolResult

_PROBE_S = 3.0
_MAX_PAGES = 50
_MAX_LISTED = 1_000
MAX_REASON = 300
_BETWEEN_LISTS_S = 1.0
_AFTER_CANCEL_S = 0.3


class ServerConnection:
    """A connection to one server. `on_listed` gets the tools after each listing, `on_lost` the reason of a restart.

    `admit` is awaited before anything is imported, and again right before each start; it raises to prevent the start.
    """

    def __init__(
        self,
        spec: ServerSpec,
        context: ServerContext,
        on_listed: Callable[[list[ListedTool]], None],
        on_lost: Callable[[str], None],
        admit: Callable[[], Awaitable[None]],
    ) -> None:
        self.log = Log()
        self._admit = admit
        self._spec = spec
        self._context = context
        self._on_listed = on_listed
        self._on_lost = on_lost
        self._session: ClientSession | None = None
        self._lost = asyncio.Event()
        self._changed = asyncio.Event()
        self._late: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Run the server until cancelled; raise `ServerError` once it cannot be used any more."""
        await self._admit()
        await asyncio.to_thread(_load)
        is_second = False
        while True:
            was_ready = False
            try:
                async with self._connected(is_second) as session:
                    was_ready = True
                    await self._serve(session)
                why = self._explained("the connection ended")
            except (ServerError, NotApprovedError):
                raise
            except _failures() as error:
                why = self._explained(_why(error))
            finally:
                self._session = None
            # A server that exited before it answered may support only the older handshake.
            if is_second or not (was_ready or self._lost.is_set()):
                raise ServerError(why)
            is_second = True
            if was_ready:
                self._on_lost(why)

    async def call(
        self, tool: str, arguments: JsonObject, timeout_s: float, on_progress: Callable[[str], None]
    ) -> CallToolResult:
        """Call a tool; raise `ServerError`. Cancelling notifies the server and does not wait for it."""
        task = asyncio.ensure_future(self._call(tool, arguments, timeout_s, on_progress))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=_AFTER_CANCEL_S)
            if not task.done():
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            raise

    async def _call(
        self, tool: str, arguments: JsonObject, timeout_s: float, on_progress: Callable[[str], None]
    ) -> CallToolResult:
        import mcp_types as types
        from mcp import MCPError

        session = self._session
        if session is None:
            raise ServerError("it is not running")

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            on_progress(f"{progress:g}{f'/{total:g}' if total else ''}{f' {message}' if message else ''}\n")

        try:
            result = await session.call_tool(
                tool, arguments, timeout_s, progressed, allow_input_required=True, allow_claimed=True
            )
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:
                raise ServerError(f"the call ran longer than {timeout_s:g} s (timeout_s of the server)") from None
            if error.code == types.CONNECTION_CLOSED:
                raise ServerError("the server ended during the call") from None
            if error.message == "Session terminated":
                self._lost.set()
            raise ServerError(
                f"the server answered with an error: {single_spaced(error.message, MAX_REASON)}"
            ) from None
        except _failures() as error:
            raise ServerError(_why(error)) from None
        if not isinstance(result, types.CallToolResult):
            raise ServerError("the tool requests user input, which is not supported")
        return result

    @asynccontextmanager
    async def _connected(self, is_second: bool) -> AsyncIterator[ClientSession]:
        """Connect and yield a session after its tools were listed."""
        self._lost.clear()
        self._changed.clear()
        config = self._spec.expanded(self._context.env)
        await self._admit()
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(config.startup_timeout_s):
                    streams = await stack.enter_async_context(self._transport(config))
                    session = await stack.enter_async_context(_session(streams, self._context.cwd, self._changed.set))
                    await _agree(session, probes=not is_second)
                    listed = await _list(session)
            except TimeoutError:
                limit = f"{config.startup_timeout_s:g} s (startup_timeout_s of the server)"
                raise ServerError(self._explained(f"it was not ready within {limit}")) from None
            self._session = session
            self._on_listed(listed)
            yield session

    def _transport(self, config: McpServer) -> Any:  # noqa: ANN401  # an async context manager of streams, both ways
        if config.url is not None:
            return connect_http(config, self.log)
        assert config.command is not None
        env = {**passed_on(self._context.env), **config.env}
        path = program_path(config.command, self._context.cwd, env["PATH"])
        program = ServerProgram((path, *config.args), self._context.cwd, env)
        return connect_stdio(program, self.log, self._context.groups, self._lost.set)

    async def _serve(self, session: ClientSession) -> None:
        """List the tools again whenever the server reports a change; return when the connection is lost."""
        watching = asyncio.ensure_future(_watch_list(session, self._changed.set))
        try:
            while True:
                waits = [asyncio.ensure_future(one.wait()) for one in (self._lost, self._changed)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                if self._lost.is_set():
                    return
                self._changed.clear()
                self._on_listed(await _list(session))
                await asyncio.sleep(_BETWEEN_LISTS_S)
        finally:
            for task in (watching, *self._late):
                task.cancel()
            await asyncio.gather(watching, *self._late, return_exceptions=True)

    def _explained(self, why: str) -> str:
        """Return the reason of a failure with the last line of the server's log."""
        last = single_spaced(self.log.last_line, MAX_REASON)
        return f"{why} ({last})" if last and last not in why else why


def _load() -> None:
    """Import the modules for a connection; this is slow, so it runs in a thread."""
    import mcp.client.streamable_http
    import mcp.client.subscriptions  # noqa: F401

    # Their log messages on stderr would break the screen.
    quiet("mcp", "httpx2", "httpcore2")


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that connections and requests can raise."""
    import anyio
    import httpx2
    from mcp import MCPError

    closed = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
    return (MCPError, OSError, RuntimeError, ValueError, httpx2.HTTPError, httpx2.InvalidURL, ExceptionGroup, *closed)


def _why(error: BaseException) -> str:
    """Return one line for the user."""
    import httpx2
    from mcp import MCPError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = single_spaced(str(error), MAX_REASON)
    match error:
        case MCPError():
            return f"it answered with an error: {said}"
        case httpx2.ConnectError():
            return f"it cannot be reached: {said}"
        case OSError():
            return f"it cannot be started: {error.strerror or said}"
    return said or type(error).__name__


def _session(streams: TransportStreams, cwd: Path, on_change: Callable[[], None]) -> ClientSession:
    """Return a session that reports the workspace as its only root and offers no other client feature."""
    import mcp_types as types
    from mcp import ClientSession

    class Session(ClientSession):
        async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
            """Skip the check against the server's own schema, which may be wrong, or made to take forever."""

    root = types.Root.model_validate({"uri": cwd.absolute().as_uri(), "name": cwd.name})

    async def roots(context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[root])

    async def heard(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()

    info = types.Implementation(name="qcode", version=__version__)
    return Session(*streams, list_roots_callback=roots, message_handler=heard, client_info=info)


async def _agree(session: ClientSession, *, probes: bool) -> None:
    """Negotiate the protocol: the newer one if the server responds to it, otherwise the one with a handshake."""
    import mcp_types as types
    from mcp import MCPError

    if probes:
        with suppress(MCPError, TimeoutError, ValueError, RuntimeError):
            async with asyncio.timeout(_PROBE_S):
                await session.discover()
                return
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()  # the server had accepted the first request, with a delay


async def _list(session: ClientSession) -> list[ListedTool]:
    import mcp_types as types

    capabilities = session.server_capabilities
    if capabilities is None or capabilities.tools is None:
        return []
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += [ListedTool(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
        if not page.next_cursor or page.next_cursor == cursor or len(found) >= _MAX_LISTED:
            break
        cursor = page.next_cursor
    return found[:_MAX_LISTED]


async def _watch_list(session: ClientSession, on_change: Callable[[], None]) -> None:
    """Subscribe to changes of the tools if the protocol requires it; a server without support is not asked again."""
    from mcp.client.subscriptions import listen

    capabilities = session.server_capabilities
    if session.discover_result is None or capabilities is None or capabilities.tools is None:
        return
    if not capabilities.tools.list_changed:
        return
    with suppress(*_failures(), TimeoutError):
        async with listen(session, tools_list_changed=True) as changes:
            async for _ in changes:
                on_change()
