"""The tools of a session over its workspace, by name, as a conversation uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qcode.config.settings import Tools as ToolSettings
from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.runtime.scratch import Scratch
from qcode.tools import registry
from qcode.tools.diagnostics import Diagnostics
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, Tool, ToolContext
from qcode.tools.workspace import PathJudge, Workspace

DEFAULT_MAX_OUTPUT_CHARS = 30_000


class Toolbox:
    """Owns the workspace, and `scratch` where one is given, until `close`.

    `one_way` are tools that are offered and never run.
    `shell_settings` says which further variables a command gets in its environment.
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
        shell_settings: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self.workspace = Workspace(root, added, judge=judge, scratch=scratch.path if scratch is not None else None)
        self._scratch = scratch
        self._tools: dict[str, Tool] = {tool.spec.name: tool for tool in registry.BUILTIN}
        self._one_way = tuple(spec for spec in one_way if spec.name not in self._tools)
        self._settings = settings
        self._env = env
        self._shell_settings = shell_settings

    def specs(self, model: str) -> tuple[ToolSpec, ...]:
        """Every tool `model` is offered, always in the same order: a stable prefix keeps prompt caches warm."""
        return (*registry.specs(model), *self._one_way)

    def asks_person(self, name: str) -> bool:
        """Return whether the result of this tool is what the person answers."""
        return name in self._tools and self._tools[name].spec.asks_person

    async def spelled_out(self, name: str, arguments: JsonObject) -> tuple[str, JsonObject]:
        """Return the call that this one stands for: itself, or the shell command it is a short way to write."""
        tool = self._tools[name]
        if not isinstance(tool, Diagnostics):
            return name, arguments
        try:
            return "shell", await asyncio.to_thread(tool.spelled_out, arguments, self.workspace)
        except Refused:
            return name, arguments  # running it says why

    async def preview(self, name: str, arguments: JsonObject) -> Preview:
        """Return what the call would do; it reads files, so it runs in a thread."""
        tool = self._tools[name]
        return await asyncio.to_thread(tool.preview, arguments, self.workspace)

    async def run(self, name: str, arguments: JsonObject, output: Callable[[str], None]) -> ToolOutcome:
        """Run a call. Past the time set for a tool it is stopped, and its result says so."""
        context = ToolContext(
            output,
            self._settings.shell_timeout_s,
            self._settings.max_output_chars or DEFAULT_MAX_OUTPUT_CHARS,
            self._env,
            shell_settings=self._shell_settings,
        )
        limit = self._settings.tool_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await self._tools[name].run(arguments, self.workspace, context)
        except TimeoutError:
            text = f"Stopped: the `{name}` call ran longer than {limit:g} s (tools.tool_timeout_s)."
            return ToolOutcome(text, is_error=True, summary="timed out")

    def close(self) -> None:
        """Remove what was kept for this session only."""
        self.workspace.close()
        if self._scratch is not None:
            self._scratch.close()
