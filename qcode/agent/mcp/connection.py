"""The life cycle of one server: connect, negotiate a protocol, list the tools, make calls, restart after a crash.

One task runs `ServerConnection.run`; other tasks make calls. `servers` decides which servers may run, and which of
their tools are offered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from qcode.agent.mcp import SERVER_LOG
from qcode.agent.mcp.context import NotApprovedError, ServerContext
from qcode.agent.mcp.questions import RunningRequest, ServerQuestions
from qcode.agent.mcp.session import (
    RejectedEntries,
    ServerListing,
    collect_inputs,
    connection_errors,
    error_text,
    explain,
    innermost_error,
    is_closed,
    list_all,
    load_sdk,
    negotiate,
    open_session,
    transport_problem,
)
from qcode.agent.mcp.spec import (
    MAX_REASON,
    LoginNeededError,
    ServerError,
    ServerSpec,
    login_hint,
)
from qcode.agent.mcp.transports import Log, ServerProgram, connect_http, connect_sse, connect_stdio, program_path
from qcode.config.settings import McpServer
from qcode.text.clean import single_spaced, visible
from qcode.text.json import JsonObject
from qcode.text.numbers import exit_text
from qcode.tools.processes import command_environment

if TYPE_CHECKING:
    import httpx2
    from mcp import ClientSession
    from mcp_types import (
        CallToolResult,
        GetPromptResult,
        ReadResourceResult,
    )

    from qcode.agent.mcp.oauth.authorization import ServerAuth

STABLE_S = 60.0
"""A connection that lasted this many seconds may always be restarted; a shorter one is restarted only once."""

_LIST_INTERVAL_S = 1.0
"""The minimum number of seconds between two refreshes of the lists."""
_CANCEL_WAIT_S = 0.3
"""The maximum number of seconds that a cancelled call waits for its server."""
_SSE_STATUSES = (400, 404, 405)
"""The statuses with which a server of the older SSE transport refuses the first request of the newer one."""
# A subscription that ends within `_SHORT_SUBSCRIPTION_S` is reopened at most `_MAX_SHORT_SUBSCRIPTIONS` times in a row.
_SHORT_SUBSCRIPTION_S = 10.0
_MAX_SHORT_SUBSCRIPTIONS = 3
_MAX_SUBSCRIPTIONS_PER_HOUR = 5
_MAX_INPUT_ROUNDS = 10
"""The maximum number of times that a server may require input for one request."""
# A result may require the same request again without any input. The pause before that doubles each time.
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.05, 0.25
# The error of the server's SDK for a tool that asks the user while it runs, which protocol 2026-07-28 does not allow.
_NO_BACK_CHANNEL = "no back-channel for server-initiated requests"

ValueT = TypeVar("ValueT")

Answers: TypeAlias = dict[str, Any]
"""The arguments added when a request is sent again with the required input: `input_responses`, `request_state`."""

Send: TypeAlias = "Callable[[ClientSession, Answers], Awaitable[object]]"
"""Sends one request and returns its result. A result of the type `InputRequiredResult` asks for input of the user."""


class ServerConnection:
    """A connection to one server.

    `on_listed` gets the lists of the server (tools, prompts, resources) whenever they were read. `on_lost` gets the
    reason when a connection that worked is lost and restarted. `check_approval` is awaited before the `mcp` package is
    imported and before each start of the server; it raises an exception to prevent the start.
    """

    def __init__(
        self,
        spec: ServerSpec,
        context: ServerContext,
        on_listed: Callable[[ServerListing], None],
        on_lost: Callable[[str], None],
        check_approval: Callable[[], Awaitable[None]],
    ) -> None:
        self.log = Log()
        self._check_approval = check_approval
        self._spec = spec
        self._context = context
        self._on_listed = on_listed
        self._on_lost = on_lost
        self._session: ClientSession | None = None
        self._auth: ServerAuth | None = None
        self._connection_lost = asyncio.Event()
        self._lists_changed = asyncio.Event()
        self._rejected: RejectedEntries = []
        self._uses_sse = spec.config.transport == "sse"
        self._uses_handshake = False
        self._is_ready = asyncio.Event()
        self._cancelled_calls: set[asyncio.Task[Any]] = set()
        self._questions = ServerQuestions(spec.name, context.sample)

    async def run(self) -> None:
        """Run the server until cancelled; raise `ServerError` if it fails and is not restarted.

        Raise `NotApprovedError` if it must not start.
        """
        await self._check_approval()
        await asyncio.to_thread(load_sdk)
        is_retry = False
        while True:
            was_ready, started_at = False, 0.0
            attempted = (self._uses_sse, self._uses_handshake)
            try:
                async with self._connect(is_retry) as (session, ttl_s):
                    was_ready, started_at = True, time.monotonic()
                    await self._serve(session, ttl_s)
                self._check_login()
                reason = self._with_log("the connection ended")
            except (ServerError, NotApprovedError):
                raise
            except connection_errors() as error:
                # The task group of the session wraps the exceptions that are raised inside it.
                if isinstance(cause := innermost_error(error), (ServerError, NotApprovedError)):
                    raise cause from None
                self._check_login()
                reason = self._with_log(explain(error, self.log.status_line))
            finally:
                self._session = None
            if attempted != (self._uses_sse, self._uses_handshake):
                continue  # connect again with the older transport or protocol, which is not a retry
            # A server that exited before it answered may support only the older handshake. A server over HTTP may end
            # its sessions now and then, so the end of a connection that lasted for a while is not a failure.
            is_stable = was_ready and time.monotonic() - started_at > STABLE_S
            has_exited = self._connection_lost.is_set()
            may_restart = (was_ready or has_exited) and (is_stable or not is_retry)
            if not may_restart:
                raise ServerError(reason)
            is_retry = True
            if was_ready:
                self._on_lost(reason)
            else:
                self.log.clear()  # the retry prints the same lines again

    def _check_login(self) -> None:
        """Raise `LoginNeededError` if the server refuses requests until the user signs in."""
        if self._auth is not None and self._auth.problem:
            raise LoginNeededError(self._auth.problem)

    async def call(self, tool: str, arguments: JsonObject, timeout_s: float, running: RunningRequest) -> CallToolResult:
        """Call a tool; raise `ServerError`. Cancelling notifies the server and waits for it only briefly."""
        task = asyncio.ensure_future(self._call(tool, arguments, timeout_s, running))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            self._cancelled_calls.add(task)
            task.add_done_callback(self._forget_cancelled)
            await asyncio.wait({task}, timeout=_CANCEL_WAIT_S)
            raise

    def _forget_cancelled(self, task: asyncio.Task[Any]) -> None:
        self._cancelled_calls.discard(task)
        if not task.cancelled():
            task.exception()  # marks the error of a server that ended meanwhile as retrieved

    async def _call(
        self, tool: str, arguments: JsonObject, timeout_s: float, running: RunningRequest
    ) -> CallToolResult:
        import mcp_types as types

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            running.output(f"{progress:g}{f'/{total:g}' if total else ''}{f' {message}' if message else ''}\n")

        async def send(session: ClientSession, answers: Answers) -> object:
            return await session.call_tool(
                tool, arguments, None, report_progress, allow_input_required=True, allow_claimed=True, **answers
            )

        result = await self.request(send, timeout_s, running)
        if not isinstance(result, types.CallToolResult):
            raise ServerError("the server sent a result of an unknown kind")
        return result

    async def get_prompt(self, name: str, arguments: dict[str, str], running: RunningRequest) -> GetPromptResult:
        """Return the messages of a prompt; raise `ServerError`."""

        async def send(session: ClientSession, answers: Answers) -> object:
            return await session.get_prompt(name, arguments, allow_input_required=True, **answers)

        result: Any = await self.request(send, self._spec.config.timeout_s, running)
        return cast("GetPromptResult", result)

    async def read_resource(self, uri: str, running: RunningRequest) -> ReadResourceResult:
        """Return the contents of a resource; raise `ServerError`."""

        async def send(session: ClientSession, answers: Answers) -> object:
            return await session.read_resource(uri, allow_input_required=True, **answers)

        result: Any = await self.request(send, self._spec.config.timeout_s, running)
        return cast("ReadResourceResult", result)

    async def complete(
        self, kind: str, name: str, argument: str, value: str, arguments: dict[str, str]
    ) -> tuple[str, ...]:
        """Return the values that the server offers for `argument`, whose `value` is incomplete; raise `ServerError`.

        `kind` is "prompt" or "template", `name` its name or URI, and `arguments` the other arguments. The result is
        empty if the server offers no completions.
        """
        import mcp_types as types

        async def send(session: ClientSession, answers: Answers) -> object:
            if session.server_capabilities is None or session.server_capabilities.completions is None:
                return None
            ref = types.PromptReference(name=name) if kind == "prompt" else types.ResourceTemplateReference(uri=name)
            return await session.complete(ref, {"name": argument, "value": value}, arguments or None)

        result: Any = await self.request(send, self._spec.config.timeout_s, RunningRequest())
        return tuple(result.completion.values) if result is not None else ()

    async def request(self, send: Send, timeout_s: float, running: RunningRequest) -> object:
        """Send a request and return its final result; raise `ServerError`.

        If the server requires input, the user is asked and the request is sent again. The time limit pauses while the
        user answers.
        """
        from mcp import MCPError

        session = self._session
        if session is None:
            raise ServerError("it is not running")
        try:
            with self._questions.during(running):
                async with asyncio.timeout(timeout_s) as running.timer:
                    result = await self._final_result(session, send, running)
        except TimeoutError:
            raise ServerError(f"the call ran longer than {timeout_s:g} s (timeout_s of the server)") from None
        except MCPError as error:
            if self._auth is not None and self._auth.problem:
                self._connection_lost.set()
                raise ServerError(f"{self._auth.problem}: {login_hint(self._spec.name)}") from None
            if is_closed(error):
                raise ServerError(self.log.violation or "the server ended during the call") from None
            if error.message == "Session terminated":
                self._connection_lost.set()
                raise ServerError("its session ended before the request and starts again; repeat the call") from None
            if _NO_BACK_CHANNEL in error.message and session.discover_result is not None:
                raise ServerError(await self._restart_with_handshake(session)) from None
            problem = transport_problem(error, self.log.status_line)
            raise ServerError(problem or f"the server answered with an error: {error_text(error)}") from None
        except connection_errors() as error:
            raise ServerError(explain(error, self.log.status_line)) from None
        if session.discover_result is not None and _could_not_ask(result):
            running.notes.append(f"[{await self._restart_with_handshake(session)}]")
        return result

    async def _restart_with_handshake(self, session: ClientSession) -> str:
        """Restart the server with the older protocol, the only one in which a tool can ask while it runs.

        Return a line for the model.
        """
        if session is self._session:
            self._uses_handshake = True
            self._is_ready.clear()
            self._connection_lost.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._spec.config.startup_timeout_s):
                await self._is_ready.wait()
        return "it can ask the user only in the older protocol, and was restarted with that; repeat the call"

    async def _final_result(self, session: ClientSession, send: Send, running: RunningRequest) -> object:
        """Send a request until its result is final; raise `ServerError` if that takes too many rounds.

        If a result requires input, collect the input, and send the request again with it and with the server's
        `request_state`.
        """
        import mcp_types as types
        from mcp import MCPError

        answers: Answers = {}
        pause_s, was_visited = _MIN_PAUSE_S, False
        for _ in range(_MAX_INPUT_ROUNDS + 1):
            try:
                result = await send(session, answers)
            except MCPError as error:
                if error.code != types.URL_ELICITATION_REQUIRED or was_visited:
                    raise
                was_visited = True
                await self._questions.visit_all(error, running)
                continue
            if not isinstance(result, types.InputRequiredResult):
                return result
            answers = {"request_state": result.request_state}
            if result.input_requests:
                answers["input_responses"] = await collect_inputs(session, result.input_requests)
                pause_s = _MIN_PAUSE_S
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise ServerError(f"the server asked for input more than {_MAX_INPUT_ROUNDS} times")

    @asynccontextmanager
    async def _connect(self, is_retry: bool) -> AsyncIterator[tuple[ClientSession, float | None]]:
        """Connect; yield the session and the seconds until the lists expire (None: never). Raise `ServerError`."""
        self._connection_lost.clear()
        self._lists_changed.clear()
        self.log.violation = ""
        config = self._spec.expanded(self._context.env)
        await self._check_approval()
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(config.startup_timeout_s):
                    streams = await stack.enter_async_context(self._transport(config))
                    is_sampling = config.sampling and not config.is_from_project and self._context.sample is not None
                    sample = self._questions.sample if is_sampling else None
                    session = open_session(
                        streams,
                        self._context.cwd,
                        self._rejected,
                        on_change=self._lists_changed.set,
                        elicit=self._questions.elicit,
                        sample=sample,
                        on_log_line=self._log_message,
                    )
                    await stack.enter_async_context(session)
                    await self._negotiate(session, probes=not (is_retry or self._uses_handshake))
                    listing = await list_all(session, self._rejected)
            except TimeoutError:
                limit = f"{config.startup_timeout_s:g} s (startup_timeout_s of the server)"
                raise ServerError(self._with_log(f"it was not ready within {limit}")) from None
            self._session = session
            self._is_ready.set()
            self._on_listed(listing)
            yield session, listing.ttl_s

    async def _negotiate(self, session: ClientSession, *, probes: bool) -> None:
        """Negotiate the protocol. If the refusal may come from a server of the older SSE transport, select that next.

        Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
        """
        import mcp_types as types
        from mcp import MCPError

        try:
            await negotiate(session, probes=probes and not self._uses_sse and self._spec.connect is None)
        except MCPError as error:
            is_modern = types.UNSUPPORTED_PROTOCOL_VERSION <= error.code <= types.HEADER_MISMATCH
            config = self._spec.config
            can_switch = config.url is not None and config.transport is None and not self._uses_sse
            if can_switch and not is_modern and self.log.status in _SSE_STATUSES:
                self._uses_sse = True
                self.log.note("[answers as a server of the older SSE transport, which is deprecated; trying that]")
            raise

    def _transport(self, config: McpServer) -> Any:  # noqa: ANN401  # an async context manager of two streams
        if self._spec.connect is not None:
            return self._spec.connect()
        if config.url is not None:
            return (connect_sse if self._uses_sse else connect_http)(config, self.log, self._authorization(config))
        assert config.command is not None
        env = {**command_environment(self._context.env), **config.env}
        path = program_path(config.command, self._context.cwd, env["PATH"])
        program = ServerProgram((path, *config.args), self._context.cwd, env)
        return connect_stdio(program, self.log, self._context.groups, self._connection_lost.set)

    def _authorization(self, config: McpServer) -> httpx2.Auth | None:
        """Return the authorization that adds a token to requests, None for a server that has no login."""
        credentials = self._context.credentials_of(self._spec, config)
        if credentials is None:
            return None
        from qcode.agent.mcp.oauth.authorization import ServerAuth

        self._auth = ServerAuth(credentials)
        return self._auth

    async def _serve(self, session: ClientSession, ttl_s: float | None) -> None:
        """Refresh the lists when the server reports a change or they expire; return when the connection ends."""
        watching = asyncio.ensure_future(_watch(session, self._lists_changed.set))
        try:
            while True:
                waits = [asyncio.ensure_future(event.wait()) for event in (self._connection_lost, self._lists_changed)]
                try:
                    await asyncio.wait(waits, timeout=ttl_s, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                if self._connection_lost.is_set():
                    return
                self._lists_changed.clear()
                try:
                    listing = await list_all(session, self._rejected)
                    ttl_s = listing.ttl_s
                    self._on_listed(listing)
                except connection_errors() as error:  # keep the previous lists; the loop ends if the connection is lost
                    self.log.note(f"[its lists cannot be refreshed: {explain(error)}]")
                await asyncio.sleep(_LIST_INTERVAL_S)
        finally:
            for task in (watching, *self._cancelled_calls):
                task.cancel()
            await asyncio.gather(watching, *self._cancelled_calls, return_exceptions=True)

    def _log_message(self, line: str) -> None:
        """Add a log message of the server to its log, to the debug log and to the output of `-v`."""
        self.log.note(line)
        logging.getLogger(SERVER_LOG).info("%s: %s", self._spec.name, visible(line))

    def _with_log(self, reason: str) -> str:
        """Return the reason of a failure with the exit code and the last line of the server's log."""
        if self.log.violation:
            return self.log.violation
        last = single_spaced(next(reversed(self.log.tail), ""), MAX_REASON)
        code = exit_text(self.log.exit_code) if self.log.exit_code else ""
        detail = ": ".join(filter(None, (code, last if last not in reason else "")))
        return f"{reason} ({detail})" if detail else reason


def _could_not_ask(result: object) -> bool:
    """Return whether the text of a result says that the tool could not ask the user while it ran."""
    import mcp_types as types

    blocks = result.content if isinstance(result, types.CallToolResult) else ()
    return any(isinstance(block, types.TextContent) and _NO_BACK_CHANNEL in block.text for block in blocks)


async def _watch(session: ClientSession, on_change: Callable[[], None]) -> None:
    """Subscribe to changes of the lists if the protocol requires it, and renew a subscription that ends."""
    from mcp.client.subscriptions import listen

    capabilities = session.server_capabilities
    if session.discover_result is None or capabilities is None:
        return
    features = (capabilities.tools, capabilities.prompts, capabilities.resources)
    tools, prompts, resources = (bool(feature is not None and feature.list_changed) for feature in features)
    if not (tools or prompts or resources):
        return
    short_count, ended_at = 0, list[float]()  # short subscriptions in a row; the ends of all in the last hour
    while short_count <= _MAX_SHORT_SUBSCRIPTIONS and len(ended_at) <= _MAX_SUBSCRIPTIONS_PER_HOUR:
        started_at = time.monotonic()
        with suppress(*connection_errors(), TimeoutError):
            async with listen(
                session, tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as changes:
                async for _ in changes:
                    on_change()
        now = time.monotonic()
        short_count = short_count + 1 if now - started_at < _SHORT_SUBSCRIPTION_S else 0
        ended_at = [*(end for end in ended_at if now - end < 3_600), now]
        await asyncio.sleep(min(0.2 * 2**short_count, 5))
        on_change()  # events between two subscriptions are lost, so all lists are refreshed
