"""The tools of a session over its workspace, by name, as a conversation uses them.

Also here: which searches of the web there are (none, by the model's host, by a search service), where `fetch` may go
(the rules are asked again at every redirect), the private folder for output that is too long to show, and the running
calls that the user may move to the background. The sandbox is in `sandbox`, the tools as the user sees them in
`offered_tools`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.sandbox import SessionSandbox
from qcode.config.settings import Settings
from qcode.config.settings import Tools as ToolSettings
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.model import ModelFacts
from qcode.protocol.tools import Files, Launch, Refused, ToolOutcome, ToolSpec
from qcode.providers.blocks import WEB_SEARCH
from qcode.providers.history import opaque_origin
from qcode.providers.registry import is_sendable
from qcode.safety.policy import Policy
from qcode.safety.verdict import Level
from qcode.text.json import JsonObject
from qcode.tools import registry
from qcode.tools.dialog import ExitPlanMode
from qcode.tools.editing.diagnostics import Diagnostics
from qcode.tools.jobs import Jobs
from qcode.tools.shell import MAX_COMMAND_S, Shell
from qcode.tools.subagent import Agent
from qcode.tools.tool import Preview, Tool, ToolContext
from qcode.tools.web import Fetch, Gate, Target
from qcode.tools.workspace import PathJudge, Workspace

if TYPE_CHECKING:
    from qcode.agent.mcp.servers import Servers
    from qcode.tools.web_search import SearchService, WebSearch

DEFAULT_MAX_OUTPUT_CHARS = 30_000
_CONFINEMENTS: Mapping[Level, str] = {
    "read-only": "no network, no writes, no home folder; secret files are hidden",
    "workspace": "no network, only the workspace can be written",
    "protect": "protected files cannot be written",
}
_NO_SETTINGS_OF_HOME = {"GIT_CONFIG_GLOBAL": "/dev/null", "XDG_CONFIG_HOME": "/nonexistent"}


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
        sandbox: SessionSandbox | None = None,
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
        self._sandbox = sandbox
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

    def spec(self, name: str) -> ToolSpec:
        """Return what is known of a tool for sure: nothing but the name of a tool of a server, or of one unknown."""
        if name not in self._tools or (self.servers is not None and self.servers.has(name)):
            return ToolSpec(name, "", {})
        return self._tools[name].spec

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
        """Return what was put back after commands, and what happened to tool servers, since the last time."""
        put_back = () if self._sandbox is None else self._sandbox.take_warnings()
        notices = () if self.servers is None else self.servers.take_notices()
        return (*put_back, *(notice.text for notice in notices))

    def trust_folder(self) -> None:
        """Start what only the missing trust kept from starting."""
        if self.servers is not None:
            self.servers.trust()

    def asks_person(self, name: str) -> bool:
        """Return whether the result of this tool is what the person answers."""
        return self.spec(name).asks_person

    def only_reads(self, name: str, arguments: JsonObject) -> bool:
        """Return whether a call changes nothing, as its tool says; a tool of a server is not believed."""
        return self.spec(name).only_reads(arguments)

    def has_sandbox(self) -> bool:
        """Return whether commands can be confined here; the first time this runs a few short processes."""
        return self._sandbox is not None and self._sandbox.sandbox is not None

    def is_backgroundable(self, name: str) -> bool:
        """Whether a running call of this tool can be moved to the background."""
        return self.spec(name).is_backgroundable

    def check_room_for_job(self) -> None:
        """Raise `Refused` where no more commands may run in the background."""
        self._jobs.check_room()

    async def spelled_out(self, name: str, arguments: JsonObject) -> tuple[str, JsonObject]:
        """Return the call that this one stands for: itself, or the shell command it is a short way to write."""
        tool = self._tools.get(name)
        if not isinstance(tool, Diagnostics):
            return name, arguments
        try:
            return Shell.spec.name, await asyncio.to_thread(tool.spelled_out, arguments, self.workspace)
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
        safety = self.spec(name).safety
        paths = safety.paths_of(arguments) if isinstance(safety, Files) else ()
        named = () if isinstance(paths, str) else filter(None, paths)
        return frozenset(map(self.workspace.target, named))

    async def run(
        self,
        name: str,
        arguments: JsonObject,
        output: Callable[[str], None],
        level: Level | None = None,
        granted: frozenset[str] | None = None,
        *,
        background_requested: asyncio.Event | None = None,
    ) -> ToolOutcome:
        """Run a call, as confined as `level` says. Past the time set for a tool it is stopped, as its result says.

        `granted` as in `Workspace.granting`. When `background_requested` is set, a command continues in the background
        and the call ends.
        """
        most = self.max_output_chars
        context = ToolContext(
            output,
            self._settings.shell_timeout_s,
            most,
            self._env,
            jobs=self._jobs,
            background_requested=background_requested,
            launch=lambda argv: self._launch(level, argv),
            confinement=_CONFINEMENTS[level] if level is not None else "",
            shell_settings=self._shell_settings if level != "read-only" else self._settings_without_home,
            masked_names=self._masked_names if level == "read-only" else frozenset,
        )
        limit = self._settings.tool_timeout_s
        try:
            async with asyncio.timeout(limit):
                with self.workspace.granting(granted), self._approved(granted or frozenset()):
                    return await self._run(name, arguments, output, most, context)
        except TimeoutError:
            text = f"Stopped: the `{name}` call ran longer than {limit:g} s (tools.tool_timeout_s)."
            return ToolOutcome(text, is_error=True, summary="timed out")

    def _masked_names(self) -> frozenset[str]:
        return frozenset() if self._sandbox is None else self._sandbox.masked_names()

    def _settings_without_home(self, command: str) -> Mapping[str, str]:
        """Return the variables of a command that cannot read the home folder: git fails if its files are denied."""
        return {**self._shell_settings(command), **_NO_SETTINGS_OF_HOME}

    def _approved(self, targets: frozenset[str]) -> AbstractContextManager[None]:
        if self._sandbox is None or not targets:
            return nullcontext()
        return self._sandbox.approved(targets)

    def _launch(self, level: Level | None, argv: Sequence[str]) -> Launch:
        if level is None:
            return Launch(tuple(argv))
        try:
            if self._sandbox is not None:
                return self._sandbox.launch(level, argv)
        except RuntimeError as error:
            raise Refused(f"shell: the command was not run: {error}") from None
        raise Refused("shell: the command was not run: there is no sandbox")

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
        context = ToolContext(output, MAX_COMMAND_S, self.max_output_chars, self._env)
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


class FetchGate:
    """`policy` gives the rules as they are now."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def target(self, url: str) -> Target | str:
        from qcode.safety.addresses import read_url  # loads with the first URL, not at start

        found = read_url(url)
        return found if isinstance(found, str) else Target(found.scheme, found.host, found.port)

    def refusal(self, url: str) -> str:
        verdict = self._policy().judge_url(url)
        return "" if verdict.is_allowed else verdict.reason

    def accepts(self, target: Target, address: str) -> bool:
        """Public addresses; one of this machine only where the URL itself named this machine, which a rule allowed."""
        from qcode.safety.addresses import is_global, read_url

        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if is_global(parsed):
            return True
        found = read_url(f"{target.scheme}://{target.host}:{target.port}/")
        return not isinstance(found, str) and found.is_loopback and parsed.is_loopback


class Scratch:
    """A folder that only this user can enter. It goes with `close`, or with the program, whichever comes first."""

    def __init__(self) -> None:
        self.path = Path(os.path.realpath(tempfile.mkdtemp(prefix="qcode-")))  # mkdtemp makes it 0700
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, True)

    def close(self) -> None:
        """Remove the folder and all that is in it; safe to call twice."""
        self._remove()


class Background:
    """The running calls that need not be waited for."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._asked: dict[str, asyncio.Event] = {}

    @property
    def calls(self) -> tuple[str, ...]:
        """Ids of the calls that could continue in the background, in the order they began."""
        return tuple(call_id for call_id, asked in self._asked.items() if not asked.is_set())

    def move(self, call_id: str) -> None:
        """Let a call end now with its output so far; what it runs continues as a job of the session.

        Raise `ValueError` with one line if it cannot; a call that is over is ignored.
        """
        asked = self._asked.get(call_id)
        if asked is None:
            return
        try:
            self._toolbox.check_room_for_job()
        except Refused as refused:
            text = str(refused)
            raise ValueError(f"{text[:1].upper()}{text[1:]}.") from None
        asked.set()

    @contextmanager
    def running(self, call_id: str, name: str) -> Iterator[asyncio.Event | None]:
        """Give what is set where a call of this tool is to go on; None where it cannot."""
        if not self._toolbox.is_backgroundable(name):
            yield None
            return
        self._asked[call_id] = asyncio.Event()
        try:
            yield self._asked[call_id]
        finally:
            del self._asked[call_id]


_SEARCHING = frozenset({"anthropic", "openai-responses"})
# Google's models before the third generation take either a search or functions in a request, never both.
_GEMINI = re.compile(r"gemini-([3-9]|\d\d)")


def search_key(settings: Settings, env: Mapping[str, str]) -> tuple[SearchService, str] | None:
    """Return the service that was chosen and its key; raise `QcodeError` where the key is missing."""
    if settings.tools.web_search in ("off", "host"):
        return None
    from qcode.tools.web_search import SERVICES  # few have a key for one

    service = SERVICES[settings.tools.web_search]
    key = env.get(service.key_variable, "").strip()
    if not key:
        where = settings.origin("tools.web_search")
        raise QcodeError(
            f'{where}: tools.web_search is "{service.name}", and {service.key_variable} is not set',
            ExitCode.NO_CREDENTIAL,
        )
    if not is_sendable(key):
        raise QcodeError(
            f"{service.key_variable} holds something that is in no key: a blank, a line end or the like",
            ExitCode.NO_CREDENTIAL,
        )
    return service, key


def hosted_tools(settings: Settings, protocol: str, host: str, model: str, facts: ModelFacts) -> tuple[ToolSpec, ...]:
    """Return the tools that the host of a model runs itself, as far as the person switched them on.

    What `[models]` says of a model decides; else it is the protocol's own host that is known to search.
    """
    if settings.tools.web_search != "host" or facts.text_tool_calls:
        return ()
    can = protocol in _SEARCHING or (protocol == "gemini" and _GEMINI.search(model.lower()) is not None)
    is_offered = facts.web_search if facts.web_search is not None else not opaque_origin(host)
    return (WEB_SEARCH,) if can and is_offered else ()
