"""The tools of a session over its workspace, by name, as a conversation uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path

from qcode.config.settings import Tools as ToolSettings
from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.runtime.mcp.servers import Servers
from qcode.runtime.scratch import Scratch
from qcode.runtime.walls import Walls
from qcode.safety.calls import paths_of
from qcode.safety.verdict import Level
from qcode.tools import registry
from qcode.tools.agent import Agent
from qcode.tools.diagnostics import Diagnostics
from qcode.tools.exit_plan_mode import ExitPlanMode
from qcode.tools.fetch import Fetch, Gate
from qcode.tools.jobs import Jobs
from qcode.tools.refusal import Refused
from qcode.tools.shell import LONGEST_S, Shell
from qcode.tools.tool import Preview, Tool, ToolContext
from qcode.tools.web_search import WebSearch
from qcode.tools.workspace import PathJudge, Workspace

DEFAULT_MAX_OUTPUT_CHARS = 30_000
_LETS_THROUGH: Mapping[Level, str] = {
    "read-only": "no network, nothing can be written",
    "workspace": "no network, only the workspace can be written",
}


class Toolbox:
    """Owns the workspace, and `scratch` where one is given, until `close`.

    `one_way` are tools that are offered and never run, `servers` the tool servers of the session.
    `shell_settings` says which further variables a command gets in its environment. `gate` says where `fetch` may go;
    without one there is no such tool. `agent` is the tool that starts sub-agents; the conversation runs them.
    `search` asks a search service.
    """

    def __init__(
        self,
        root: Path,
        added: Sequence[Path],
        settings: ToolSettings,
        env: Mapping[str, str],
        *,
        judge: PathJudge | None = None,
        scratch: Scratch | None = None,
        one_way: tuple[ToolSpec, ...] = (),
        servers: Servers | None = None,
        shell_settings: Callable[[str], Mapping[str, str]] = lambda _: {},
        walls: Walls | None = None,
        gate: Gate | None = None,
        agent: Agent | None = None,
        search: WebSearch | None = None,
    ) -> None:
        self.workspace = Workspace(root, added, judge=judge, scratch=scratch.path if scratch is not None else None)
        self._scratch = scratch
        self._tools: dict[str, Tool] = {tool.spec.name: tool for tool in (*registry.BUILTIN, ExitPlanMode())}
        self.agent = agent
        self._further: tuple[Tool, ...] = (
            *(() if gate is None else (Fetch(gate),)),
            *(() if search is None else (search,)),
            *(() if agent is None else (agent,)),
        )
        self._tools |= {tool.spec.name: tool for tool in self._further}
        self._jobs = Jobs()
        self._walls = walls
        self._one_way = tuple(spec for spec in one_way if spec.name not in self._tools)
        self.servers = servers
        self._settings = settings
        self._env = env
        self._shell_settings = shell_settings

    def specs(self, model: str) -> tuple[ToolSpec, ...]:
        """Every tool `model` is offered, always in the same order: a stable prefix keeps prompt caches warm."""
        own = (*registry.specs(model), *(tool.spec for tool in self._further), *self._one_way)
        if self.servers is None:
            return own
        taken = {spec.name for spec in own}
        return (*own, *(spec for spec in self.servers.specs() if spec.name not in taken))

    def beside(self, judge: PathJudge) -> Toolbox:
        """Return the same tools for a sub-agent, which has read none of the files yet. It is never closed."""
        other = copy(self)
        other.workspace = self.workspace.beside(judge)
        return other

    @property
    def max_output_chars(self) -> int:
        """How much of the output of a tool a model is shown."""
        return self._settings.max_output_chars or DEFAULT_MAX_OUTPUT_CHARS

    async def settle(self) -> None:
        """Wait, for a bounded time, until `specs` is what the session will have."""
        if self.servers is not None:
            await self.servers.settle()

    def take_warnings(self) -> tuple[str, ...]:
        """Return what happened to tool servers since the last time."""
        return tuple(notice.text for notice in self.servers.take_notices()) if self.servers is not None else ()

    def trust_folder(self) -> None:
        """Start what only the missing trust kept from starting."""
        if self.servers is not None:
            self.servers.trust()

    def asks_person(self, name: str) -> bool:
        """Return whether the result of this tool is what the person answers."""
        return name in self._tools and self._tools[name].spec.asks_person

    def has_sandbox(self) -> bool:
        """Return whether commands can be confined here; the first time this runs a few short processes."""
        return self._walls is not None and self._walls.sandbox is not None

    def can_go_on(self, name: str) -> bool:
        """Return whether what this tool runs can go on in the background."""
        return name in self._tools and self._tools[name].spec.can_go_on

    def check_room_for_job(self) -> None:
        """Raise `Refused` where no more commands may run in the background."""
        self._jobs.check_room()

    async def spelled_out(self, name: str, arguments: JsonObject) -> tuple[str, JsonObject]:
        """Return the call that this one stands for: itself, or the shell command it is a short way to write."""
        tool = self._tools.get(name)
        if not isinstance(tool, Diagnostics):
            return name, arguments
        try:
            return "shell", await asyncio.to_thread(tool.spelled_out, arguments, self.workspace)
        except Refused:
            return name, arguments  # running it says why

    async def preview(self, name: str, arguments: JsonObject) -> Preview:
        """Return what the call would do; it reads files, so it runs in a thread."""
        if self.servers is not None and self.servers.has(name):
            return self.servers.preview(name, arguments)
        tool = self._tools[name]
        return await asyncio.to_thread(tool.preview, arguments, self.workspace)

    def targets(self, name: str, arguments: JsonObject) -> frozenset[str]:
        """Return what the paths of a call to a file tool lead to now; it looks at the disk."""
        return frozenset(map(self.workspace.target, paths_of(name, arguments)))

    async def run(
        self,
        name: str,
        arguments: JsonObject,
        output: Callable[[str], None],
        level: Level | None = None,
        granted: frozenset[str] | None = None,
        *,
        goes_on: asyncio.Event | None = None,
    ) -> ToolOutcome:
        """Run a call, as confined as `level` says. Past the time set for a tool it is stopped, as its result says.

        `granted` as in `Workspace.granting`. When `goes_on` is set, a command goes on in the background and the call
        ends.
        """
        most = self.max_output_chars
        context = ToolContext(
            output,
            self._settings.shell_timeout_s,
            most,
            self._env,
            jobs=self._jobs,
            goes_on=goes_on,
            wrap=lambda argv: argv if self._walls is None else self._walls.wrap(level, argv),
            walls=_LETS_THROUGH[level] if level is not None else "",
            shell_settings=self._shell_settings,
        )
        limit = self._settings.tool_timeout_s
        try:
            async with asyncio.timeout(limit):
                with self.workspace.granting(granted):
                    return await self._run(name, arguments, output, most, context)
        except TimeoutError:
            text = f"Stopped: the `{name}` call ran longer than {limit:g} s (tools.tool_timeout_s)."
            return ToolOutcome(text, is_error=True, summary="timed out")

    async def _run(
        self, name: str, arguments: JsonObject, output: Callable[[str], None], most: int, context: ToolContext
    ) -> ToolOutcome:
        if self.servers is not None and self.servers.has(name):
            return await self.servers.run(name, arguments, output, most, lambda: self.workspace.scratch)
        return await self._tools[name].run(arguments, self.workspace, context)

    async def run_line(self, line: str, output: Callable[[str], None]) -> ToolOutcome:
        """Run what the person typed as the shell tool would, in the same environment, but for as long as it takes.

        Nobody is asked: it is the person who runs it.
        """
        context = ToolContext(output, LONGEST_S, self.max_output_chars, self._env)
        return await Shell().run({"command": line}, self.workspace, context)

    async def end_servers(self) -> None:
        """Have the tool servers end in order; `close` ends what is left of them at once."""
        if self.servers is not None:
            await self.servers.close()

    def close(self) -> None:
        """End what runs in the background and remove what was kept for this session only."""
        self._jobs.end_all()
        if self.servers is not None:
            self.servers.kill()
        self.workspace.close()
        if self._scratch is not None:
            self._scratch.close()
