"""The tool servers of a session: which of them run, which tools are offered, and which approvals are pending.

Nothing runs before `start`. A project's server runs only after the user approved exactly this server, and never in an
untrusted folder. A tool that differs from its approval is not offered until the user has seen the change.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.mcp.context import NotApprovedError, ServerContext
from qcode.agent.mcp.deferred import DEFER_SHARE, FindTools, UseTool, estimate_tokens, search_specs
from qcode.agent.mcp.pins import Pins, changes_of, pin_of
from qcode.agent.mcp.server import Server
from qcode.agent.mcp.spec import (
    INLINE_SCOPE,
    MAX_REASON,
    MAX_TOOLS,
    NOT_FOUND,
    LoginNeededError,
    ReplacedServers,
    ServerError,
    ServerSpec,
    ServerStatus,
    is_stale,
    login_hint,
    split_name,
)
from qcode.agent.trust.store import TrustedFile
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.protocol.approvals import Allow, Decision, Deny, ServerApproval, mismatched_decision_notice
from qcode.protocol.events import Level, Notice
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.text.clean import single_spaced, visible, visible_json
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.tools.output import bounded_text
from qcode.tools.tool import Preview
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.mcp.connection import ServerConnection
    from qcode.agent.mcp.session import ServerListing
    from qcode.agent.mcp.tools import CheckedTool
    from qcode.protocol.approvals import Ask

START_WAIT_S = 10.0
"""Seconds the first turn waits for servers that are starting."""
_CLOSE_TIMEOUT_S = 2.0
_SILENT_WAIT_S = 1.0
"""Seconds of waiting after which a notice names the servers that are still starting."""
_UNTRUSTED = "this folder is not trusted"


@dataclass(frozen=True, slots=True)
class _OfferedTool:
    """A tool that the model can call, and its server."""

    server: Server
    tool: CheckedTool


@dataclass(frozen=True, slots=True)
class ReadyServer:
    """A server that runs: its lists, and its connection for further requests."""

    listing: ServerListing
    connection: ServerConnection


class Servers:
    """The servers of one session. Owns every process it starts until `close` or `kill`.

    A session is attended if a front end shows approvals; otherwise notices explain how to approve. `problems` are
    errors in the files that configure servers. `defer` is the setting `mcp.defer`.
    """

    def __init__(
        self,
        specs: Sequence[ServerSpec],
        pins: Pins,
        context: ServerContext,
        *,
        is_trusted: bool,
        problems: Sequence[str] = (),
        defer: bool | str = "auto",
    ) -> None:
        self._defer = defer
        self.find_tools, self.use_tool = FindTools(self.callable_specs), UseTool(self.callable_specs)
        self._servers = {spec.name: Server(spec, "starting" if spec.config.enabled else "off") for spec in specs}
        self._pins = pins
        self._context = context
        self._is_trusted = is_trusted
        self._is_attended = False
        self._notices = [Notice("warning", single_spaced(text, MAX_REASON)) for text in problems]
        self._shown_notices: set[str] = set()
        self._is_started = False
        self._all_started = asyncio.Event()
        self._on_change: Callable[[], object] = lambda: None
        self._stop_tasks: set[asyncio.Task[None]] = set()

    def statuses(self) -> tuple[ServerStatus, ...]:
        """Return every server, in the order of the configuration."""
        return tuple(server.status() for server in self._servers.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._servers)

    def ready(self) -> dict[str, ReadyServer]:
        """Return the servers that run, by name."""
        return {
            name: ReadyServer(server.listing, server.connection)
            for name, server in self._servers.items()
            if server.state == "ready" and server.connection is not None and server.listing is not None
        }

    def approvals(self) -> tuple[ServerApproval, ...]:
        return tuple(server.approval(self._pins) for server in self._servers.values() if server.has_pending_approval)

    def answer(self, approval_id: str, decision: Decision) -> None:
        """Apply a decision. A denial, or an approval of scope `session`, lasts for this session; others are stored.

        An unknown or already decided id is ignored.
        """
        pending = (server for server in self._servers.values() if server.has_pending_approval)
        server = next((server for server in pending if server.approval(self._pins).id == approval_id), None)
        if server is None:
            return
        if not isinstance(decision, (Allow, Deny)):
            self._notify("warning", mismatched_decision_notice(server.approval(self._pins), decision))
        if not isinstance(decision, Allow):
            server.is_refused = True
            if server.state == "waiting":
                server.state = "refused"
        elif server.state == "sign-in":
            server.is_refused = True  # only /mcp asks a second time
            if server.sign_in_task is not None:
                server.sign_in_task.cancel()
            server.sign_in_task = asyncio.get_running_loop().create_task(self._sign_in(server))
        elif server.state == "waiting":
            server.approved_files = server.files
            if decision.scope != "session":
                self._save_pins(lambda: self._pins.approve(server.spec, server.files))
            self._launch(server)
        else:
            if decision.scope != "session":
                self._save_pins(lambda: self._pins.accept(server.spec, server.changes))
            server.changes = ()
        self._notify_change()

    def ask_again(self, name: str) -> None:
        """Ask again for approvals that were declined in this session."""
        server = self._servers.get(name)
        if server is None or not server.is_refused:
            return
        server.is_refused = False
        if server.state == "refused":
            server.state = "waiting"
        self._notify_change()

    def restart(self, name: str) -> None:
        """Start a server again. A server that is off, or lacks trust or an approval, is not started."""
        server = self._servers.get(name)
        if server is None or server.state in ("off", "restricted", "waiting", "refused"):
            return
        server.is_refused = False
        server.cancel()
        self._launch(server)
        self._notify_change()

    def switch(self, name: str, *, is_on: bool) -> None:
        """Stop a server for this session, or start it again; an unknown name is ignored."""
        server = self._servers.get(name)
        if server is None or is_on == (server.state != "off"):
            return
        if is_on:
            server.state = "starting"
            self._start_server(server)
        else:
            server.cancel()
            server.enter("off")
            server.connection = None
        self._notify_change()

    def replace_client_servers(self, specs: Sequence[ServerSpec]) -> ReplacedServers:
        """Replace the servers of the program and of an inline `--mcp-config` by `specs`.

        A server whose configuration is unchanged keeps running.
        """
        fixed = {
            name
            for name, server in self._servers.items()
            if not server.spec.is_from_client and server.spec.scope != INLINE_SCOPE
        }
        named = {spec.name: spec for spec in specs if spec.name not in fixed}
        stale = [server for name, server in self._servers.items() if name not in fixed and is_stale(server.spec, named)]
        for server in stale:
            del self._servers[server.spec.name]
            for task in server.tasks:
                self._stop_tasks.add(task)
                task.add_done_callback(self._stop_tasks.discard)
                task.cancel()
        added = [spec for name, spec in named.items() if name not in self._servers]
        for spec in added:
            self._servers[spec.name] = server = Server(spec, "starting")
            if self._is_started:
                self._start_server(server)
        self._notify_change()
        return ReplacedServers(
            added=tuple(spec.name for spec in added),
            removed=tuple(server.spec.name for server in stale if server.spec.name not in named),
            ignored=tuple(spec.name for spec in specs if spec.name in fixed),
        )

    def use_folders(self, roots: tuple[Path, ...]) -> None:
        """Set the folders in which the model can change files. Servers that start later are checked against them."""
        self._context = replace(self._context, roots=roots)

    def start(self, on_change: Callable[[], object] | None = None) -> None:
        """Start all servers on the running event loop; a second call does nothing.

        `on_change` is called there after each change. A caller that passes it must show the pending approvals.
        """
        if not self._is_started:
            self._is_started = True
            if on_change is not None:
                self._is_attended, self._on_change = True, on_change
            for server in self._servers.values():
                self._start_server(server)
            if names := [name for name, server in self._servers.items() if server.state == "restricted"]:
                hint = "type /trust to trust it" if self._is_attended else "use --trust to trust it"
                self._notify("warning", f"not started, because {_UNTRUSTED}: {', '.join(names)}; {hint}")
            self._notify_change()

    def trust(self) -> None:
        """Start the servers that waited for trust: the user now trusts the folder."""
        self._is_trusted = True
        for server in self._servers.values():
            if server.state == "restricted":
                self._start_server(server)
        self._notify_change()

    def take_notices(self) -> tuple[Notice, ...]:
        notices, self._notices = tuple(self._notices), []
        return notices

    async def wait_until_started(self, wait_s: float = START_WAIT_S) -> None:
        """Start the servers if they are not started, and wait at most `wait_s` seconds until none is starting."""
        self.start()
        silent_s = min(_SILENT_WAIT_S, wait_s)
        await self._wait(silent_s)
        if not self._all_started.is_set() and self._is_attended:
            self._notify("info", f"waiting for {self._starting_names()}")
            self._on_change()
        await self._wait(wait_s - silent_s)
        if not self._all_started.is_set():
            self._notify("warning", f"still starting, so their tools become available later: {self._starting_names()}")
            self._all_started.set()

    async def _wait(self, seconds: float) -> None:
        # `wait_for` would ignore a cancellation at the moment at which the event is set (Python 3.11).
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_started.wait()

    def _starting_names(self) -> str:
        return ", ".join(name for name, server in self._servers.items() if server.state == "starting")

    def specs(self, window: int | None = None) -> tuple[ToolSpec, ...]:
        """Return the tools to send with a request, in a fixed order; `window` is the context window of the model.

        If they are deferred, these are the tools of servers with `always`, and the two that find and call the others.
        """
        offered = self._offered_tools()
        specs = [item.tool.spec for item in offered]
        always = [item.tool.spec for item in offered if item.server.spec.config.always]
        if len(always) == len(specs) or not self._defers(specs, window):
            return tuple(specs[:MAX_TOOLS])
        names: dict[str, list[str]] = {}
        for item in offered:
            if not item.server.spec.config.always:
                names.setdefault(item.server.spec.name, []).append(split_name(item.tool.spec.name).tool)
        return (*always[:MAX_TOOLS], *search_specs(names))

    def _defers(self, specs: Sequence[ToolSpec], window: int | None) -> bool:
        if isinstance(self._defer, bool):
            return self._defer
        return len(specs) > MAX_TOOLS or estimate_tokens(specs) > DEFER_SHARE * (window or DEFAULT_CONTEXT_WINDOW)

    def callable_specs(self) -> tuple[ToolSpec, ...]:
        """Return every tool that can be called, including deferred ones."""
        return tuple(item.tool.spec for item in self._offered_tools())

    def original_names(self) -> dict[str, str]:
        """Return the names that the servers gave to the offered tools, by the names a model calls."""
        return {item.tool.spec.name: item.tool.listed_name for item in self._offered_tools()}

    def has(self, name: str) -> bool:
        """Return whether one of these servers has a tool of this name, even if the tool is not offered now."""
        parts = split_name(name)
        return bool(parts.tool) and parts.server in self._servers

    def preview(self, name: str, arguments: JsonObject) -> Preview:
        from qcode.agent.mcp.tools import shown_name

        server_name, label = split_name(name).server, split_name(name).tool
        if (offered := self._find_tool(name)) is not None:
            label = shown_name(offered.tool.listed_name)
        detail = visible_json(arguments) if arguments else ""
        return Preview(f"Run the tool {visible(label)} of the server {visible(server_name)}?", detail)

    async def run(
        self,
        name: str,
        arguments: JsonObject,
        output: Callable[[str], None],
        limit: int,
        folder: Callable[[], Path],
        ask: Ask | None = None,
    ) -> ToolOutcome:
        """Run a call. An error becomes a result; cancellation raises at once.

        The text of the result has at most `limit` characters; a longer text is stored in `folder`. `ask` asks the user
        on behalf of the server.
        """
        from qcode.agent.mcp.questions import RunningRequest
        from qcode.agent.mcp.tools import outcome_of

        server_name = split_name(name).server
        offered = self._find_tool(name)
        if offered is None:
            text = f"the tool {name} is not available now; use another tool, or continue without it"
            return ToolOutcome(text, is_error=True, summary=f"{server_name}: not available")
        server, tool = offered.server, offered.tool
        assert server.connection is not None
        running = RunningRequest(output, ask)
        try:
            result = await server.connection.call(tool.listed_name, arguments, server.spec.config.timeout_s, running)
        except ServerError as error:
            text = "\n".join((f"the server {server_name}: {error}", *running.notes))
            summary = single_spaced(str(error), MAX_REASON)
            return ToolOutcome(bounded_text(text, limit, folder), is_error=True, summary=summary)
        return await asyncio.to_thread(outcome_of, result, limit, folder, running.notes)

    async def close(self) -> None:
        """Stop every server, within seconds even if they do not respond."""
        tasks = [*self._stop_tasks, *(task for server in self._servers.values() for task in server.tasks)]
        for _ in range(2):  # the second cancellation ends tasks that still wait for their server to exit
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S / 2)
        self.kill()

    def kill(self) -> None:
        """Kill all running processes at once, for a program that exits now."""
        for group in tuple(self._context.groups):
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
            self._context.groups.discard(group)

    def _start_server(self, server: Server) -> None:
        spec = server.spec
        if server.state == "off":
            return
        if not self._is_trusted and spec.connect is None:
            server.enter("restricted", _UNTRUSTED)
        else:
            self._launch(server)

    async def _check_approval(self, server: Server) -> None:
        """Raise `NotApprovedError` unless the user approved the server with the current contents of its files."""
        if server.spec.is_from_client:
            return
        files = await asyncio.to_thread(self._context.files_of, server.spec)
        if self._pins.is_approved(server.spec) and any(file.hash == NOT_FOUND for file in files.values()):
            return  # the program is missing, so nothing starts, and an error tells the user
        if not self._pins.is_approved(server.spec, files) and files != server.approved_files:
            raise NotApprovedError(files)
        # A server that is approved for this session only is not pinned.
        if files and self._pins.is_approved(server.spec) and self._pins.files(server.spec) is None:
            self._save_pins(lambda: self._pins.approve(server.spec, files))

    def _wait_for_approval(self, server: Server, files: Mapping[str, TrustedFile]) -> None:
        """Set a server to `waiting`. `files` are the current files that it would start."""
        spec = server.spec
        server.enter("waiting")
        server.files, server.is_refused = files, False
        hint = f"run qcode mcp show {spec.name} to see it and qcode mcp approve {spec.name} to approve it"
        if self._pins.is_approved(spec):
            problem = f"{spec.name} was not started: files that it runs have changed since you approved it"
        else:
            problem = f"{spec.name} is defined by this project and not yet approved"
        self._notify("warning", f"{problem}; continuing without it: {hint}", only_unattended=True)
        self._notify_change()

    def _launch(self, server: Server) -> None:
        """Create the connection of a server and start the task that runs it; the next turn waits for it."""
        server.enter("starting")
        server.can_sign_in = False
        self._all_started.clear()
        from qcode.agent.mcp.connection import ServerConnection  # loads with the first start

        def on_listing(listing: ServerListing) -> None:
            if server.connection is connection:
                self._on_listing(server, listing)

        def on_lost(reason: str) -> None:
            if server.connection is connection:
                server.state, server.problem = "starting", reason
                self._notify("warning", f"{server.spec.name} exited and is restarting: {reason}")
                self._notify_change()

        check_approval = partial(self._check_approval, server)
        connection = ServerConnection(server.spec, self._context, on_listing, on_lost, check_approval)
        server.connection = connection
        server.run_task = task = asyncio.get_running_loop().create_task(connection.run())
        task.add_done_callback(lambda ended: self._on_task_end(server, ended))

    def _on_task_end(self, server: Server, task: asyncio.Task[None]) -> None:
        """Set the state of a server whose task ended: it waits for an approval or a login, or has failed."""
        error = None if task.cancelled() else task.exception()
        if error is None or server.run_task is not task:
            return
        if isinstance(error, NotApprovedError):
            self._wait_for_approval(server, error.files)
            return
        if isinstance(error, LoginNeededError):
            self._wait_for_login(server, str(error))
            return
        reason = str(error) if isinstance(error, ServerError) else f"internal error: {type(error).__name__}: {error}"
        server.enter("failed", single_spaced(reason, MAX_REASON))
        name = server.spec.name
        hint = f"type /mcp restart {name} to restart it" if self._is_attended else "continuing without it"
        tail = server.connection.log.tail if server.connection is not None else ()
        end = "".join(f"\n  {visible(single_spaced(line, MAX_REASON))}" for line in tail) if len(tail) > 1 else ""
        self._notify("warning", f"{name} failed: {server.problem}; {hint}{end and '; the end of its output:'}{end}")
        self._notify_change()

    def _wait_for_login(self, server: Server, reason: str) -> None:
        from qcode.agent.mcp.oauth.login import browser_problem

        server.enter("sign-in", f"{reason}: {login_hint(server.spec.name)}")
        server.login_problem, server.can_sign_in = reason, not browser_problem(self._context.env)
        self._notify("warning", f"{server.spec.name} was not started: {server.problem}; continuing without it")
        self._notify_change()

    async def _sign_in(self, server: Server) -> None:
        """Sign in with the browser, which the user has approved, and start the server."""
        from qcode.agent.mcp.oauth.login import open_browser, sign_in  # loads with the first login

        spec = server.spec

        async def show(address: str) -> None:
            self._notify("info", f"{spec.name}: sign in with your browser. If it does not open: {visible(address)}")
            self._notify_change()
            await asyncio.to_thread(open_browser, address)

        try:
            config = spec.expanded(self._context.env)
            credentials = self._context.credentials_of(spec, config)
            if credentials is None:
                raise ServerError("it does not support login")
            await sign_in(config, credentials, show)
        except ServerError as error:
            text = f"{spec.name}: {visible(str(error))}"
            self._shown_notices.discard(text)  # the same error is reported again after a new attempt
            self._notify("warning", text)
            self._notify_change()
            return
        server.is_refused = False
        self._launch(server)
        self._notify_change()

    def _on_listing(self, server: Server, listing: ServerListing) -> None:
        """Check the listed tools, and compare them with their pins; the first listing of a server is pinned."""
        from qcode.agent.mcp.tools import check_tools, shown_name

        spec = server.spec
        server.tools, server.listing = check_tools(spec.name, listing.tools, spec.config.tools), listing
        for problem in listing.problems:
            self._notify("warning", f"{spec.name}: {problem}")
        before, pinned = server.changes, None if spec.is_from_client else self._pins.tools(spec)
        server.state, server.problem, server.changes = "ready", "", ()
        if pinned is None and server.tools and not spec.is_from_client:
            pins = {tool.spec.name: pin_of(tool) for tool in server.tools if not tool.problem}
            self._save_pins(lambda: self._pins.pin(spec, pins))
        elif pinned is not None:
            server.changes = changes_of(pinned, server.tools)
        if server.changes and server.changes != before:
            server.is_refused = False
            self._save_pins(lambda: self._pins.store_pending(spec, server.changes))
            count = count_text(len(server.changes), "tool")
            problem = f"{count} of {spec.name} changed since you approved them and were disabled"
            hint = f"run qcode mcp show {spec.name} to see them and qcode mcp approve {spec.name} to approve them"
            self._notify("warning", f"{problem}: {hint}", only_unattended=True)
        for tool in server.tools:
            if tool.problem:
                name = shown_name(tool.listed_name)
                self._notify("warning", f"the tool {name} of {spec.name} is disabled: {tool.problem}")
        self._notify_change()

    def _save_pins(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            problem = f"they cannot be saved: {self._pins.path}: {error.strerror}"
            self._notify("warning", f"approvals apply to this session only, because {problem}")

    def _offered_tools(self) -> list[_OfferedTool]:
        return [_OfferedTool(server, tool) for server in self._servers.values() for tool in server.offered_tools]

    def _find_tool(self, name: str) -> _OfferedTool | None:
        return next((item for item in self._offered_tools() if item.tool.spec.name == name), None)

    def _notify(self, level: Level, text: str, *, only_unattended: bool = False) -> None:
        if text not in self._shown_notices and not (only_unattended and self._is_attended):
            self._shown_notices.add(text)
            self._notices.append(Notice(level, f"tool servers: {text}"))

    def _notify_change(self) -> None:
        if self._is_started and all(server.state != "starting" for server in self._servers.values()):
            self._all_started.set()
        self._on_change()
