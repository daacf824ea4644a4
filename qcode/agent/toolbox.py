"""The tools of a session: which of them a model is offered, and how a call runs in the workspace.

Also here: the gate of `fetch`, which checks the rules again at every redirect (`FetchGate`), the steps after edits
(`EditChecks`), and the running calls that the user may move to the background (`BackgroundCalls`). The sandbox is in
`sandbox`, the choice of web search in `models.web_search`, the list of tools for the user in `offered_tools`.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qcode.agent.sandbox import SessionSandbox
from qcode.config.settings import Tools as ToolSettings
from qcode.engine.effects import Confirm, Confirmed
from qcode.protocol.approvals import Ask, TurnPrompt
from qcode.protocol.messages import Block, Text
from qcode.protocol.tools import FileAccess, Launch, Refused, ToolOutcome, ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.verdict import Level
from qcode.text.json import JsonObject
from qcode.tools import registry
from qcode.tools.dialog import ExitPlanMode
from qcode.tools.editing.diagnostics import Diagnostics
from qcode.tools.jobs import Jobs
from qcode.tools.shell import MAX_COMMAND_S, Shell
from qcode.tools.subagent import SubagentTool
from qcode.tools.tool import CallToRun, Preview, Tool, ToolRunContext, failed
from qcode.tools.web import Fetch, Gate, RequestTarget
from qcode.tools.workspace import PathJudge, Scratch, Workspace
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.after_edit.commands import RunCommand
    from qcode.agent.after_edit.session import AfterEdit
    from qcode.agent.context.nested import NestedInstructions
    from qcode.agent.mcp.mentions import ServerMentions
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.skills.tool import SkillTool
    from qcode.protocol.messages import Message
    from qcode.tools.web_search import WebSearch

DEFAULT_MAX_OUTPUT_CHARS = 30_000
_LEVEL_DESCRIPTIONS: Mapping[Level, str] = {
    "read-only": "no network, no writes, no home folder; secret files are hidden",
    "workspace": "no network, only the workspace can be written",
    "protect": "protected files cannot be written",
}
_NO_HOME_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "XDG_CONFIG_HOME": "/nonexistent"}
_FILE_TOOLS = frozenset({"read", "write", "edit", "multi_edit", "apply_patch", "notebook_edit"})
"""Tools whose results include the instructions of the folders of their files."""


@dataclass(frozen=True, slots=True)
class PreloadedSkills:
    """The skills that a sub-agent gets with its task."""

    texts: list[Text]
    problems: list[str]
    """A line for each skill that cannot be loaded."""


class Toolbox:
    """The tools of a session. Owns the workspace, and `scratch` if one is given, until `close`."""

    subagent_tool: SubagentTool | None
    """The tool that starts sub-agents; the conversation runs them."""
    servers: Servers | None = None
    """The tool servers of the session."""
    edit_checks: EditChecks | None
    """The formatter, checks and tests that follow edits."""
    is_offered: Callable[[ToolSpec], bool]
    """Returns whether a model may be offered a tool."""
    transcript: Callable[[], Sequence[Message]]
    """Returns the messages of the conversation that uses the tools."""
    output_columns: Callable[[], int | None]
    """Returns the width in cells of the shown output of commands, None if it is unknown."""
    _tools: dict[str, Tool]
    """All tools that can run, except those of tool servers."""
    _optional_tools: tuple[Tool, ...]
    """The tools `fetch`, web search, sub-agents and skills, as far as this session has them."""
    _program_tools: tuple[Tool, ...]
    """The tools of the program that opened the agent, which are always offered."""
    _exit_tools: tuple[ToolSpec, ...]
    """Tools that are offered and never run; their calls are reported as signals (`--exit-tools`)."""
    _offers_patches: bool
    """Models may be offered `apply_patch`."""
    _nested_instructions: Callable[[], NestedInstructions] | None
    """Returns the instructions of the folders whose files are used."""
    _shell_variables: Callable[[str], Mapping[str, str]]
    """Returns further environment variables of a command."""
    _server_mentions: ServerMentions | None = None
    """Reads the resources of tool servers that a prompt mentions; None without servers."""

    def __init__(
        self,
        root: Path,
        added: Sequence[Path],
        settings: ToolSettings,
        env: Mapping[str, str],
        *,
        judge: PathJudge | None = None,
        scratch: Scratch | None = None,
        exit_tools: tuple[ToolSpec, ...] = (),
        servers: Servers | None = None,
        shell_variables: Callable[[str], Mapping[str, str]] = lambda _: {},
        sandbox: SessionSandbox | None = None,
        gate: Gate | None = None,
        subagent_tool: SubagentTool | None = None,
        web_search: WebSearch | None = None,
        is_offered: Callable[[ToolSpec], bool] = lambda _: True,
        program_tools: tuple[Tool, ...] = (),
        skill: SkillTool | None = None,
        nested: Callable[[], NestedInstructions] | None = None,
        offers_patches: bool = True,
        after_edit: Callable[[Workspace], AfterEdit] | None = None,
    ) -> None:
        """Create the tools. `judge` decides which files they may use, `gate` which addresses `fetch` may open."""
        self.workspace = Workspace(root, added, judge=judge, scratch=scratch.path if scratch is not None else None)
        self.edit_checks = None if after_edit is None else EditChecks(partial(after_edit, self.workspace))
        self.jobs = Jobs()
        self.subagent_tool = subagent_tool
        self._skill_tool = skill
        fetch = None if gate is None else Fetch(gate)
        optional_tools = (fetch, web_search, subagent_tool, skill)
        self._optional_tools = tuple(tool for tool in optional_tools if tool is not None)
        self._program_tools = program_tools
        tools = (*registry.BUILTIN, ExitPlanMode(), *self._optional_tools, *program_tools)
        self._tools = {tool.spec.name: tool for tool in tools}
        self._exit_tools = tuple(spec for spec in exit_tools if spec.name not in self._tools)
        self.is_offered = is_offered
        self._offers_patches = offers_patches
        self._nested_instructions = nested
        self._scratch = scratch
        self._sandbox = sandbox
        self._settings = settings
        self._env = env
        self._shell_variables = shell_variables
        self.transcript = lambda: ()
        self.output_columns = lambda: None
        if servers is not None:
            self.use_servers(servers)

    def specs(self, model: str, window: int | None = None) -> tuple[ToolSpec, ...]:
        """Return every tool that `model` is offered, in a fixed order, so that the host can cache the list.

        `window` is its context window: if the tools of servers are large for it, the model searches them instead.
        """
        specs = (
            *registry.specs(model if self._offers_patches else ""),  # without a model, `apply_patch` is not offered
            *(tool.spec for tool in self._optional_tools),
            *self._exit_tools,
        )
        if self.servers is not None:
            used_names = {spec.name for spec in specs}
            specs = (*specs, *(spec for spec in self.servers.specs(window) if spec.name not in used_names))
        return (*filter(self.is_offered, specs), *(tool.spec for tool in self._program_tools))

    async def preload_skills(self, skills: Sequence[str]) -> PreloadedSkills:
        """Load these skills for a sub-agent."""
        texts: list[Text] = []
        problems: list[str] = []
        for name in skills:
            try:
                if self._skill_tool is None:
                    raise Refused(f"unknown skill {name}")
                text = await asyncio.to_thread(self._skill_tool.preload, name, self.workspace)
                texts.append(Text(text))
            except Refused as refused:
                problems.append(str(refused))
        return PreloadedSkills(texts, problems)

    def is_of_server(self, name: str) -> bool:
        """Return whether a tool belongs to a tool server."""
        return self.servers is not None and self.servers.has(name)

    def spec(self, name: str) -> ToolSpec:
        """Return the trusted spec of a tool. An unknown tool or the tool of a server has a spec with only its name."""
        if name not in self._tools or self.is_of_server(name):
            return ToolSpec(name, "", {})
        return self._tools[name].spec

    def offered_spec(self, name: str) -> ToolSpec | None:
        """Return the spec of a tool with its parameters, even of a server tool; None if there is no such tool."""
        if self.servers is not None and self.servers.has(name):
            return next((spec for spec in self.servers.specs() if spec.name == name), None)
        return self._tools[name].spec if name in self._tools else None

    def for_subagent(self, judge: PathJudge) -> Toolbox:
        """Return the same tools for a sub-agent, which has read no files yet. The result need not be closed."""
        toolbox = copy(self)
        toolbox.workspace = self.workspace.for_subagent(judge)
        toolbox.subagent_tool = None
        toolbox.transcript = lambda: ()
        if self._nested_instructions is not None:
            instructions = self._nested_instructions().for_subagent()
            toolbox._nested_instructions = lambda: instructions
        return toolbox

    def instructions_for(self, paths: Collection[str]) -> str:
        """Read the instructions of the folders of these files, without instructions that the model has already."""
        return self._nested_instructions().text_for(paths) if self._nested_instructions is not None and paths else ""

    async def with_folder_instructions(self, name: str, arguments: JsonObject, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome of a call with the instructions of the folders of its files, for the model only."""
        if name not in _FILE_TOOLS or outcome.is_error:
            return outcome
        added = await asyncio.to_thread(lambda: self.instructions_for(self.target_paths(name, arguments)))
        if not added:
            return outcome
        return replace(outcome, content=f"{outcome.content}\n\n{added}", shown=outcome.shown_text)

    def with_instructions_of_files(self, attached: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return attached blocks, followed by the instructions of the folders of the attached files."""
        if not attached:
            return attached
        from qcode.agent.context.attachments import attached_files

        added = self.instructions_for(attached_files(attached, self.workspace.root))
        return (*attached, Text(added)) if added else attached

    def forget_instructions(self) -> None:
        """Send folder instructions again when they next apply, because a compaction removed them from the messages."""
        if self._nested_instructions is not None:
            self._nested_instructions().forget()

    @property
    def max_output_chars(self) -> int:
        """The maximum length of a tool's output for the model."""
        return self._settings.max_output_chars or DEFAULT_MAX_OUTPUT_CHARS

    async def wait_for_servers(self) -> None:
        """Wait, for a bounded time, until tool servers have started and `specs` is complete."""
        if self.servers is not None:
            await self.servers.wait_until_started()

    def take_warnings(self) -> tuple[str, ...]:
        """Return the warnings since the last call: restored files, failed checks, servers, unreadable resources."""
        sandbox = () if self._sandbox is None else self._sandbox.take_warnings()
        checks = () if self.edit_checks is None else self.edit_checks.take_warnings()
        servers = () if self.servers is None else self.servers.take_notices()
        mentions = () if self._server_mentions is None else self._server_mentions.take_problems()
        return (*sandbox, *checks, *(notice.text for notice in servers), *mentions)

    async def expand_prompt(self, prompt: TurnPrompt) -> TurnPrompt:
        """Return a prompt with the prompts and resources of tool servers that it names; raise `InputError`."""
        return prompt if self._server_mentions is None else await self._server_mentions.expand(prompt)

    @property
    def is_reading(self) -> bool:
        """Whether a tool server is being read for a prompt."""
        return self._server_mentions is not None and self._server_mentions.is_reading

    def steer(self, text: str, queue: Callable[[tuple[Block, ...]], None], *, reads_resources: bool) -> None:
        """Read the resources that a steering message mentions, if allowed; then call `queue` with their blocks."""
        if self._server_mentions is None or not reads_resources:
            queue(())
        else:
            self._server_mentions.steer(text, queue)

    def withdraw_steering(self, text: str) -> bool:
        """Withdraw a steering message while its resources are read; return False if there is no such message."""
        return self._server_mentions is not None and self._server_mentions.withdraw_steering(text)

    def cancel_reading(self) -> None:
        if self._server_mentions is not None:
            self._server_mentions.cancel()

    def names_resource(self, word: str) -> bool:
        """Return whether an `@word` names a resource of a tool server."""
        return self._server_mentions is not None and self._server_mentions.names_resource(word)

    def use_folders(self, added: tuple[Path, ...], root: Path) -> None:
        """Replace the added folders that the tools may work in; `root` is the folder of the project."""
        self.workspace.use_folders(added)
        if self._sandbox is not None:
            self._sandbox.use_folders(added)
        if self.servers is not None:
            self.servers.use_folders((root, *added))

    def use_servers(self, servers: Servers) -> None:
        """Offer the tools of these servers. The toolbox must not have servers yet."""
        from qcode.agent.mcp.mentions import ServerMentions

        self.servers = servers
        self._server_mentions = ServerMentions(servers, lambda: self.workspace.scratch)
        self._tools |= {tool.spec.name: tool for tool in (servers.find_tools, servers.use_tool)}

    def trust_folder(self) -> None:
        """Start the tool servers that were held back because the folder was not trusted."""
        if self.servers is not None:
            self.servers.trust()

    def asks_user(self, name: str) -> bool:
        """Return whether the result of this tool is an answer of the user."""
        return self.spec(name).asks_user

    def only_reads(self, name: str, arguments: JsonObject) -> bool:
        """Return whether a call changes nothing, according to its tool; claims of server tools are not trusted."""
        return self.spec(name).only_reads(arguments)

    def has_sandbox(self) -> bool:
        """Return whether commands can be sandboxed here; the first call runs a few short processes."""
        return self._sandbox is not None and self._sandbox.sandbox is not None

    def is_backgroundable(self, name: str) -> bool:
        """Return whether a running call of this tool can be moved to the background."""
        return self.spec(name).is_backgroundable

    async def resolve_call(self, name: str, arguments: JsonObject) -> CallToRun:
        """Return the call to run instead, such as a shell command or the tool of a server; by default the same call."""
        tool = self._tools.get(name)
        other_call: CallToRun | None = None
        with suppress(Refused):  # the run of the same call reports the reason
            if self._skill_tool is not None and tool is self._skill_tool:
                # A skill may ask to run in a sub-agent.
                if self.subagent_tool is not None and self.is_offered(self.subagent_tool.spec):
                    other_call = await asyncio.to_thread(self._skill_tool.agent_call, arguments)
            elif self.servers is not None and tool is self.servers.use_tool:
                other_call = self.servers.use_tool.resolve(arguments)
            elif isinstance(tool, Diagnostics):
                command = await asyncio.to_thread(tool.shell_arguments, arguments, self.workspace)
                other_call = CallToRun(Shell.spec.name, command)
        return other_call or CallToRun(name, arguments)

    async def preview(self, name: str, arguments: JsonObject) -> Preview:
        """Return a preview of the call, read from files in a thread."""
        if self.servers is not None and self.servers.has(name):
            return self.servers.preview(name, arguments)
        tool = self._tools[name]
        return await asyncio.to_thread(tool.preview, arguments, self.workspace)

    def target_paths(self, name: str, arguments: JsonObject) -> frozenset[str]:
        """Return the real paths, on disk now, that a call to a file tool refers to; none if one is impossible."""
        safety = self.spec(name).safety
        if not isinstance(safety, FileAccess):
            return frozenset()
        paths = safety.paths_of(arguments)
        if isinstance(paths, str):  # the reason why the call is invalid
            return frozenset()
        try:
            return frozenset(self.workspace.target(path) for path in paths if path)
        except ValueError:  # a path with a NUL character or half of a character, which the path layer denies
            return frozenset()

    async def run(
        self,
        name: str,
        arguments: JsonObject,
        output: Callable[[str], None],
        level: Level | None = None,
        allowed_targets: frozenset[str] | None = None,
        *,
        background_requested: asyncio.Event | None = None,
        ask: Ask | None = None,
    ) -> ToolOutcome:
        """Run a call, sandboxed at `level`. After `tools.tool_timeout_s` the call is stopped and fails.

        See `Workspace.allow_targets` for `allowed_targets`. When `background_requested` is set, a command continues in
        the background and the call ends. `ask` asks the user on behalf of a tool server.
        """
        max_chars = self.max_output_chars
        context = ToolRunContext(
            output,
            self._settings.shell_timeout_s,
            max_chars,
            self._env,
            columns=self.output_columns(),
            jobs=self.jobs,
            background_requested=background_requested,
            launch=lambda argv: self._launch(level, argv),
            confinement=_LEVEL_DESCRIPTIONS[level] if level is not None else "",
            shell_variables=self._shell_variables if level != "read-only" else self._variables_without_home,
            sandbox=lambda: level or ("outside" if self.has_sandbox() else ""),
            masked_names=self._masked_names if level == "read-only" else frozenset,
            transcript=self.transcript,
        )
        limit = self._settings.tool_timeout_s
        try:
            async with asyncio.timeout(limit) as timer:
                with self.workspace.allow_targets(allowed_targets), self._accept_changes(allowed_targets):
                    return await self._run(name, arguments, max_chars, context, ask)
        except TimeoutError as error:
            if not timer.expired():  # a timeout inside the tool, for example of a file on a network drive
                return failed(f"{name}: {error.strerror or 'an operation timed out'}")
            text = f"Stopped: the `{name}` call ran longer than {limit:g} s (tools.tool_timeout_s)."
            return ToolOutcome(text, is_error=True, summary="timed out")

    def _masked_names(self) -> frozenset[str]:
        return frozenset() if self._sandbox is None else self._sandbox.masked_names()

    def _variables_without_home(self, command: str) -> Mapping[str, str]:
        """Return the variables of a sandbox without the home folder: git must not read its settings there."""
        return {**self._shell_variables(command), **_NO_HOME_SETTINGS}

    def _accept_changes(self, targets: frozenset[str] | None) -> AbstractContextManager[None]:
        """Wrap an approved change of these files, so that the guards of running commands do not restore them."""
        if self._sandbox is None or not targets:
            return nullcontext()
        return self._sandbox.accept_changes(targets)

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
        self, name: str, arguments: JsonObject, max_chars: int, context: ToolRunContext, ask: Ask | None
    ) -> ToolOutcome:
        if self.servers is not None and self.servers.has(name):
            return await self.servers.run(
                name, arguments, context.output, max_chars, lambda: self.workspace.scratch, ask
            )
        return await self._tools[name].run(arguments, self.workspace, context)

    async def run_user_command(
        self, line: str, output: Callable[[str], None], background_requested: asyncio.Event | None = None
    ) -> ToolOutcome:
        """Run a command line that the user typed, in the environment of the shell tool, without a timeout.

        The command needs no approval, because the user runs it. See `run` for `background_requested`.
        """
        context = ToolRunContext(
            output,
            MAX_COMMAND_S,
            self.max_output_chars,
            self._env,
            columns=self.output_columns(),
            jobs=self.jobs,
            background_requested=background_requested,
        )
        return await Shell().run({"command": line}, self.workspace, context)

    @property
    def steps_to_confirm(self) -> frozenset[Literal["stop", "compact"]]:
        """The transitions of a turn that must be confirmed: its end, because tests of edits may fail."""
        return frozenset() if self.edit_checks is None else frozenset({"stop"})

    async def confirm(self, ask_hooks: Callable[[Confirm], Awaitable[Confirmed]] | None, request: Confirm) -> Confirmed:
        """Return whether a turn may end or compact: not while tests of its edits fail, otherwise as hooks decide."""
        checks = self.edit_checks if request.step == "stop" else None
        if checks is not None and (reason := await checks.reason_to_continue()):
            return Confirmed(reason)
        return Confirmed() if ask_hooks is None else await ask_hooks(request)

    async def end_servers(self) -> None:
        """Stop the tool servers gracefully, and the language servers; `close` kills those that still run."""
        if self.edit_checks is not None:
            await self.edit_checks.close()
        if self.servers is not None:
            await self.servers.close()

    def close(self) -> None:
        """Stop jobs and servers at once, and remove the temporary files of this session."""
        self.jobs.end_all()
        if self.edit_checks is not None:
            self.edit_checks.kill()
        if self.servers is not None:
            self.servers.kill()
        self.workspace.close()
        if self._scratch is not None:
            self._scratch.close()


class EditChecks:
    """The formatter, checks and tests of a session, created with the first edit because many sessions only read."""

    def __init__(self, create: Callable[[], AfterEdit]) -> None:
        self._create = create
        self._after_edit: AfterEdit | None = None

    async def finish(
        self, outcome: ToolOutcome, policy: Policy, workspace: Workspace, run: RunCommand, ask: Ask | None
    ) -> ToolOutcome:
        """Return the outcome of a call with the results of checks of its edits, and late results of earlier edits."""
        if not outcome.edits:
            return outcome if self._after_edit is None else self._after_edit.with_late_findings(outcome)
        from qcode.agent.after_edit.commands import CommandScope

        if self._after_edit is None:
            self._after_edit = self._create()
        return await self._after_edit.finish(outcome, CommandScope(policy, workspace, run, ask))

    async def reason_to_continue(self) -> str:
        """Return why the turn must not end yet; empty if the turn may end."""
        return "" if self._after_edit is None else await self._after_edit.reason_to_continue()

    def end_turn(self) -> None:
        if self._after_edit is not None:
            self._after_edit.end_turn()

    def take_warnings(self) -> tuple[str, ...]:
        return () if self._after_edit is None else self._after_edit.take_warnings()

    async def close(self) -> None:
        if self._after_edit is not None:
            await self._after_edit.close()

    def kill(self) -> None:
        if self._after_edit is not None:
            self._after_edit.kill()


class FetchGate:
    """The `Gate` of `fetch`: decides which URLs and addresses it may open. `policy` returns the current rules."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy

    def target(self, url: str) -> RequestTarget | str:
        from qcode.safety.addresses import read_url  # loads with the first URL, not at start

        parsed = read_url(url)
        return parsed if isinstance(parsed, str) else RequestTarget(parsed.scheme, parsed.host, parsed.port)

    def refusal(self, url: str) -> str:
        verdict = self._policy().judge_url(url)
        return "" if verdict.is_allowed else verdict.reason

    def accepts(self, target: RequestTarget, address: str) -> bool:
        """Return whether an address is public, or a loopback address of a URL that names this machine."""
        from qcode.safety.addresses import is_global, read_url

        try:
            ip_address = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if is_global(ip_address):
            return True
        url = read_url(f"{target.scheme}://{target.host}:{target.port}/")
        return not isinstance(url, str) and url.is_loopback and ip_address.is_loopback


class BackgroundCalls:
    """The running calls that can be moved to the background."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._requests: dict[str, asyncio.Event] = {}

    @property
    def calls(self) -> tuple[str, ...]:
        """The ids of the calls that could continue in the background, in the order in which they began."""
        return tuple(call_id for call_id, requested in self._requests.items() if not requested.is_set())

    def move(self, call_id: str) -> None:
        """End a call now with its output so far. The command continues as a job of the session.

        Raise `ValueError` with one line if that is not possible; a finished call is ignored.
        """
        requested = self._requests.get(call_id)
        if requested is None:
            return
        try:
            self._toolbox.jobs.check_limit()
        except Refused as refused:
            from qcode.text.sentences import capitalized

            raise ValueError(f"{capitalized(str(refused))}.") from None
        requested.set()

    @contextmanager
    def track_call(self, call_id: str, name: str) -> Iterator[asyncio.Event | None]:
        """Yield the event that moves this call to the background, None if its tool does not support that."""
        if not self._toolbox.is_backgroundable(name):
            yield None
            return
        self._requests[call_id] = asyncio.Event()
        try:
            yield self._requests[call_id]
        finally:
            del self._requests[call_id]
