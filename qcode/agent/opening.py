"""Opening an agent: policy, prompts, model, session, tools and conversation, created in the order of dependence.

Separate from `agent`, which a program imports before it opens anything: this loads most of the library.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.context.environment import read_environment
from qcode.agent.context.memory import InstructionFiles
from qcode.agent.context.system_prompt import Prompts
from qcode.agent.conversation import Conversation
from qcode.agent.definitions import kinds_of, may_have_skills
from qcode.agent.models.client import Clients, ModelClient
from qcode.agent.models.selection import Selection
from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.permissions import Permissions, origins_of, policy_of
from qcode.agent.sandbox import SessionSandbox
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore, new_session_id
from qcode.agent.subagent_kinds import SubagentKind, subagent_tool
from qcode.agent.toolbox import FetchGate, Toolbox
from qcode.config.paths import MCP_FILE, exists_or_unknown
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, InputError, QcodeError, UsageError
from qcode.protocol.messages import Message
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.text.pattern import lazy_pattern
from qcode.tools.processes import DEPTH_VARIABLE
from qcode.tools.registry import all_names
from qcode.tools.tool import Tool
from qcode.tools.workspace import Scratch, Workspace, sweep_scratch
from qcode.values import dataclass

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ErrorData

    from qcode.agent.after_edit.session import AfterEdit
    from qcode.agent.hooks.events import Hook
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.mcp.spec import ServerSpec
    from qcode.agent.models.recording import Recording
    from qcode.agent.models.sampling import Sampling
    from qcode.agent.models.web_search import SearchAccess
    from qcode.agent.programs.function_tools import FunctionTool
    from qcode.agent.skills.library import SkillLibrary
    from qcode.agent.skills.tool import SkillTool
    from qcode.agent.telemetry import Observer
    from qcode.agent.telemetry.tracing import Tracing
    from qcode.protocol.approvals import Ask
    from qcode.protocol.provider import Provider
    from qcode.safety.redaction import Redactor
    from qcode.tools.web_search import WebSearch

MAX_DEPTH = 3
"""The maximum number of nested qcode processes above this process."""

_SECRET_HEADER = lazy_pattern("auth|key|token|secret|cookie", re.IGNORECASE)


def _check_depth(context: RunContext) -> None:
    """Raise `QcodeError` if qcode starts itself endlessly, such as through a prompt hook that runs `qcode -p`."""
    depth = context.env.get(DEPTH_VARIABLE, "")
    if depth.isdecimal() and (len(depth) > 3 or int(depth) > MAX_DEPTH):  # `int` refuses 5,000 digits
        raise QcodeError(
            f"qcode was started by itself {depth} times in a row (QCODE_DEPTH={depth}): a hook, a command or a tool "
            "server starts it again and again; start it there with --no-hooks, or without that server"
        )


class AgentParts:
    """The objects of one agent, created when it is opened. `Agent` explains the arguments."""

    def __init__(
        self,
        context: RunContext,
        selection: Selection,
        program_tools: Sequence[FunctionTool] = (),
        history: Sequence[Message] = (),
        wrap: Callable[[Provider], Provider] | None = None,
        hooks: Mapping[str, Sequence[Hook]] | None = None,
    ) -> None:
        """Raise `QcodeError`, or `ProviderError` if the model cannot be connected."""
        _check_depth(context)
        self.context = context
        self._secrets = _header_secrets(context.settings)
        self._tracing: Tracing | None = None
        self._sampling: Sampling | None = None
        self._on_failure = ExitStack()  # closes what is open if a later step fails
        self.store = SessionStore(
            context.paths.state_dir,
            context.root,
            new_id=session_ids(context.options),
            redact=self.redact,
            partial_secret_length=self.partial_secret_length,
        )
        scratch = Scratch()
        search = _search_access(context)
        policy = self._policy_for_search(policy_of(context), search)
        sandbox = self._open_sandbox(policy, scratch)
        self.permissions = Permissions(_with_sandbox(policy, sandbox, scratch), origins_of(context))
        self.memory = self._memory()
        self.prompts = self._prompts()
        subagents = kinds_of(context)
        kinds = subagents.kinds
        self.skills = self._skills(kinds, sandbox)
        with self._on_failure:
            client = self._connect(selection, wrap)
            self.provider = client.provider
            skill = self._skill_tool(kinds, client.model.window)
            bound_tools = self._bind_tools(program_tools) if program_tools else ()
            self.toolbox = self._toolbox(scratch, sandbox, search, kinds, bound_tools, skill)
            first = self._first_session(client.name)
            self.conversation = self._new_conversation(first.session, client, tuple(history) or first.messages, kinds)
            self._on_failure.callback(self.conversation.release)
            self._remove_old_files(first.session.session_id)
            self._connect_session()
            self.notices = (*_unused_settings(context, selection), *subagents.problems, *first.notices)
            if self.skills is not None:
                self.notices += self.skills.notices()
            self.notices += self._use_hooks(hooks or {}, scratch)
            self._on_failure.pop_all()

    def _new_conversation(
        self, session: Session, client: ModelClient, messages: tuple[Message, ...], kinds: tuple[SubagentKind, ...]
    ) -> Conversation:
        return Conversation(
            self.context, self.clients, client, self.toolbox, self.permissions, self.store, session, messages, kinds
        )

    def _connect(self, selection: Selection, wrap: Callable[[Provider], Provider] | None) -> ModelClient:
        """Return a client for the model of `selection`, whose requests are observed and recorded."""
        recording = self._open_recording(selection.name)
        observer = self._observer()
        self.clients = Clients(self.context, self.prompts, self._secrets, observer, recording, wrap)
        client = self.clients.connect(selection)
        self.clients.check_budget(client)
        return client

    def _use_hooks(self, program_hooks: Mapping[str, Sequence[Hook]], scratch: Scratch) -> tuple[str, ...]:
        """Connect the configured hooks and `program_hooks`; return lines about hooks that cannot be used."""
        if not program_hooks and not self.context.settings.hooks.has_any:
            return ()
        from qcode.agent.hooks.connect import connect_hooks
        from qcode.agent.hooks.session import SessionFacts

        conversation = self.conversation
        source = "resume" if conversation.messages else "startup"
        if self.context.options.fork_session:
            source = "fork"
        connected = connect_hooks(
            self.context,
            program_hooks,
            lambda: SessionFacts(conversation.session_id, conversation.mode, conversation.model),
            scratch=lambda: scratch.path,
            redact=self.redact,
            source=source,
        )
        if connected.hooks is not None:
            conversation.use_hooks(connected.hooks)
        return connected.problems

    def _memory(self) -> InstructionFiles:
        context = self.context
        return InstructionFiles(
            context.folder,
            context.root,
            context.user_folder,
            lambda: self.permissions.is_trusted,
            self._may_import,
            context.home,
            includes_project=context.options.reads_project,
        )

    def _bind_tools(self, tools: Sequence[FunctionTool]) -> tuple[Tool, ...]:
        """Return the tools of a program for this agent; raise `UsageError` if a name is already used."""
        from qcode.agent.programs.function_tools import BoundTool, FunctionTool

        used_names = {*all_names(), *(spec.name for spec in self.context.exit_tools)}
        for tool in tools:
            if not isinstance(tool, FunctionTool):
                raise UsageError(f"tools: {tool!r} is not a tool; decorate the function with @tool")
            if tool.spec.name in used_names:
                raise UsageError(f'the tool name "{tool.spec.name}" is already used; choose another: @tool(name=...)')
            used_names.add(tool.spec.name)
        return tuple(BoundTool(tool, lambda: self.conversation.session_id) for tool in tools)

    def _prompts(self) -> Prompts:
        context, options = self.context, self.context.options
        environment = read_environment(
            context.folder,
            context.root,
            context.env,
            datetime.now().astimezone().date(),
            is_trusted=context.is_trusted,
            added_folders=context.added_folders,
        )
        return Prompts(
            environment,
            self.memory,
            is_attended=context.is_attended,
            replacement=options.system_prompt,
            addition=options.append_system_prompt or "",
            plan_instructions=context.plan_instructions,
        )

    def _may_import(self, path: Path) -> bool:
        """Return whether instructions may be read from `path`: whether the model may read that file without asking."""
        policy = self.permissions.policy
        verdict = policy.judge_file(str(path), "read")
        if path.is_relative_to(policy.root.resolve()):
            return verdict.is_allowed
        # Instruction files may be anywhere in the project, also above the folder that the session works in.
        project = replace(policy, root=self.context.root)
        return verdict.verdict != "deny" and project.judge_file(str(path), "read").is_allowed

    def _toolbox(
        self,
        scratch: Scratch,
        sandbox: SessionSandbox,
        search: SearchAccess | None,
        kinds: tuple[SubagentKind, ...],
        program_tools: tuple[Tool, ...],
        skill: SkillTool | None,
    ) -> Toolbox:
        """Return the tools. Each call reads the current policy, so that a change of mode applies at once."""
        context, permissions = self.context, self.permissions
        gate = FetchGate(lambda: permissions.policy)
        return Toolbox(
            context.folder,
            context.added_folders,
            context.settings.tools,
            context.env,
            judge=lambda path, access: permissions.policy.judge_file(path, access),
            scratch=scratch,
            exit_tools=context.exit_tools,
            servers=self._servers(),
            shell_variables=lambda command: _git_overrides() if permissions.policy.only_reads(command) else {},
            sandbox=sandbox,
            gate=gate,
            web_search=None if search is None else _web_search(search, gate),
            is_offered=context.options.offers,
            subagent_tool=subagent_tool(kinds, has_small_model=context.settings.small_model is not None),
            program_tools=program_tools,
            nested=self.memory.nested,
            after_edit=None if context.settings.after_edit.is_off else partial(_after_edit, context, sandbox),
            skill=skill,
            offers_patches=context.offers_patches,
        )

    def _skills(self, kinds: tuple[SubagentKind, ...], sandbox: SessionSandbox) -> SkillLibrary | None:
        """Return the skills of this run, None if no folder can have any."""
        if not may_have_skills(self.context):
            return None
        from qcode.agent.skills.library import SkillLibrary

        def make_readable(folder: Path) -> None:
            self.permissions.make_readable(folder)
            self.toolbox.workspace.add_readable_folder(folder)
            sandbox.make_readable(folder)

        names = [kind.name for kind in kinds]
        return SkillLibrary(self.context, make_readable, lambda: self.conversation.session_id, names)

    def _skill_tool(self, kinds: tuple[SubagentKind, ...], window: int | None) -> SkillTool | None:
        """Return the tool that loads skills, and list them in the prompts; None if the model is offered no skills."""
        if self.skills is None or not self.skills.for_model:
            return None
        from qcode.agent.skills.tool import SkillTool

        tool = SkillTool(self.skills, [kind.name for kind in kinds if kind.only_reads])
        if not self.context.options.offers(tool.spec):
            return None
        self.prompts.skills = self.skills.make_catalog(window)
        return tool

    def _policy_for_search(self, policy: Policy, search: SearchAccess | None) -> Policy:
        """Return the policy for searches with this service, and register the key of the service as a secret."""
        if search is None:
            return policy
        self._secrets.add(search.key)
        return replace(policy, search_url=search.service.url)

    def _servers(self) -> Servers | None:
        """Return the tool servers of this run, not started; None if there are neither servers nor problems."""
        context = self.context
        files = context.options.mcp_config
        settings = context.settings
        if context.options.strict_mcp_config:
            settings = replace(settings, mcp_servers={})
        reads_project_file = context.reads_project and not context.options.strict_mcp_config
        has_project_file = reads_project_file and exists_or_unknown(context.root / MCP_FILE)
        configured = settings.mcp_servers or files or has_project_file
        if not configured and not context.client_servers and not context.program_servers:
            return None
        from qcode.agent.mcp.spec import configured_servers

        servers = configured_servers(
            settings,
            files,
            context.root,
            reads_project_file=has_project_file,
            client_servers=context.client_servers,
            program_servers=context.program_servers,
        )
        if not servers.specs and not servers.problems:
            return None
        return self.open_servers(servers.specs, servers.problems)

    def open_servers(self, specs: Sequence[ServerSpec], problems: Sequence[str] = ()) -> Servers:
        """Return these tool servers, not started."""
        from qcode.agent.mcp.context import ServerContext
        from qcode.agent.mcp.pins import Pins
        from qcode.agent.mcp.servers import Servers

        context = self.context
        self.add_server_secrets(specs)
        return Servers(
            specs,
            Pins(context.paths.state_dir),
            ServerContext(
                context.folder,
                context.env,
                roots=(context.root, *context.added_folders),
                keys=lambda: context.keys.store,
                sample=self._sample,
            ),
            is_trusted=context.is_trusted,
            problems=problems,
            defer=context.settings.mcp.defer,
        )

    async def _sample(
        self, server: str, params: CreateMessageRequestParams, ask: Ask | None
    ) -> CreateMessageResult | ErrorData:
        """Ask the model on behalf of a tool server."""
        if self._sampling is None:
            from qcode.agent.models.sampling import Sampling
            from qcode.agent.models.side_questions import SideQuestions

            side_questions = SideQuestions(self.conversation, self.context.options.budget_usd)
            self._sampling = Sampling(self.conversation, side_questions)
        return await self._sampling.sample(server, params, ask)

    def add_server_secrets(self, specs: Sequence[ServerSpec]) -> None:
        """Redact the values of these servers that may be secrets, such as headers."""
        from qcode.agent.mcp.spec import possible_secrets

        self._secrets.update(value for value in possible_secrets(specs, self.context.env) if value)

    def _remove_old_files(self, open_id: str) -> None:
        """Remove old scratch folders, and sessions older than `sessions.retention_days`, but not session `open_id`."""
        days = self.context.settings.sessions.retention_days
        if days and not self.context.options.no_session:
            self.store.prune(datetime.now(UTC) - timedelta(days=days), (open_id,))
        # In a thread, because this may take long.
        threading.Thread(target=sweep_scratch, name="sweep", daemon=True).start()

    def _first_session(self, model: str) -> _FirstSession:
        """Return the session with which the conversation begins: a new one, or the one that the options name."""
        options = self.context.options
        folder = self.context.folder
        requested = options.resume
        notices: tuple[str, ...] = ()
        if requested == LATEST:
            requested = self.store.latest()
            if requested is None:
                notices = ("No session to resume in this folder; starting a new one.",)
        if requested is None:
            if options.session_id is not None and options.session_id in self.store.ids():
                raise InputError(f"session {options.session_id} exists already; resume it with -r")
            new = self.store.create(model, folder, is_saved=not options.no_session)
            return _FirstSession(new, notices=notices)
        if options.no_session:
            loaded = self.store.load(requested)
            return _FirstSession(self.store.create(model, folder, is_saved=False), loaded.messages, loaded.notices)
        is_copy = options.fork_session
        opened = self.store.fork(requested, cwd=folder) if is_copy else self.store.resume(requested)
        return _FirstSession(opened.session, opened.loaded.messages, opened.loaded.notices)

    def _connect_session(self) -> None:
        """Let the session record the mode, and give the traces the id of the session."""
        self.permissions.record_mode_in(self.conversation.session)
        if self._tracing is not None:
            self._tracing.session_id = lambda: self.conversation.session.session_id

    def _observer(self) -> Observer | None:
        """Return the observer of the run: the debug log, the traces, or both; None if neither is configured."""
        path, env = self.context.options.debug_log, self.context.env
        if path is None and not any(name.startswith("OTEL_EXPORTER_") for name in env):
            return None
        from qcode.agent.telemetry import Observers, wants_tracing

        observers: list[Observer] = [] if path is None else [self._debug_log(Path(path))]
        if wants_tracing(env):
            from qcode.agent.telemetry.tracing import open_tracing

            self._tracing = open_tracing(env, self.redact)
            if self._tracing is not None:
                observers.append(self._tracing)
        for observer in observers:
            self._on_failure.callback(observer.close)
        return Observers(observers) if len(observers) > 1 else next(iter(observers), None)

    def _debug_log(self, path: Path) -> Observer:
        from qcode.agent.telemetry.debug_log import DebugLog

        try:
            return DebugLog(path, self.redact)
        except OSError as error:
            raise InputError(f"cannot write --debug-log {path}: {error.strerror}") from None

    def _open_recording(self, model: str) -> Recording | None:
        path = self.context.options.record
        if path is None:
            return None
        from qcode.agent.models.recording import Recording

        try:
            recording = Recording(Path(path), self.redact, model)
        except OSError as error:
            raise InputError(f"cannot write --record {path}: {error.strerror}") from None
        self._on_failure.callback(recording.close)
        return recording

    def _open_sandbox(self, policy: Policy, scratch: Scratch) -> SessionSandbox:
        """Return the sandbox of this machine; raise `QcodeError` if the settings require one and none works."""
        settings = self.context.settings
        home = self.context.env.get("HOME", "")
        home_path = Path(home) if home else None
        scope = SandboxScope(
            policy.root, policy.added_folders, scratch.path, home_path, policy.qcode_folders, policy.search_path
        )
        sandbox = SessionSandbox(settings.tools.sandbox, scope)
        if settings.tools.sandbox == "required" and sandbox.sandbox is None:
            origin = settings.origin("tools.sandbox")
            text = f'{origin}: tools.sandbox is "required", but no sandbox works here; run qcode doctor for details'
            raise QcodeError(text, ExitCode.BAD_CONFIG)
        return sandbox

    def redact(self, text: str) -> str:
        """Return a text without the keys of this run."""
        return self._redactor().redact(text)

    def partial_secret_length(self, text: str) -> int:
        """Return the length of the suffix of a text that may be the start of a key."""
        return self._redactor().partial_secret_length(text)

    def _redactor(self) -> Redactor:
        from qcode.safety.redaction import Redactor

        return Redactor((*self._secrets, *self.context.keys.known_keys()))


def _with_sandbox(policy: Policy, sandbox: SessionSandbox, scratch: Scratch) -> Policy:
    """Return the policy with what the sandbox supports. Writing to the scratch folder needs approval."""
    probes = replace(policy.probes, sandbox=lambda: sandbox.support, contents=lambda: sandbox.index.refresh())
    return replace(policy, read_only=(scratch.path,), probes=probes)


@dataclass(frozen=True, slots=True)
class _FirstSession:
    """The session with which a conversation begins."""

    session: Session
    messages: tuple[Message, ...] = ()
    """The messages that were loaded from a file."""
    notices: tuple[str, ...] = ()
    """Lines for the user about the file."""


def _unused_settings(context: RunContext, selection: Selection) -> tuple[str, ...]:
    """Return lines about settings of this run that cannot take effect."""
    problems: tuple[str, ...] = ()
    if context.options.base_url and (selection.spec.protocol == "demo" or selection.provider is not None):
        problems = (f"--base-url is not used: {selection.name} has no address",)
    if context.settings.fallback:
        from qcode.agent.models.fallback import fallback_problems

        problems += fallback_problems(context.settings, context.keys)
    return problems


def _header_secrets(settings: Settings) -> set[str]:
    """Return the values of the configured headers whose names look like those of credentials."""
    headers = (item for provider in settings.providers.values() for item in provider.headers.items())
    values = [value for name, value in headers if _SECRET_HEADER.search(name)]
    # `Bearer KEY` is a secret, and so is the key alone.
    return {secret for value in values for secret in (value, value.split()[-1])}


def _after_edit(context: RunContext, sandbox: SessionSandbox, workspace: Workspace) -> AfterEdit:
    """Return the formatter, checks and tests that follow edits."""
    from qcode.agent.after_edit.session import AfterEdit  # loads with the first edit

    return AfterEdit(context, workspace, sandbox)


def _search_access(context: RunContext) -> SearchAccess | None:
    """Return the search service of the user, None without one; raise `QcodeError` if its key is missing."""
    if context.settings.tools.web_search == "off":
        return None
    from qcode.agent.models.web_search import search_access  # few users search the web

    return search_access(context.settings, context.env)


def _web_search(search: SearchAccess, gate: FetchGate) -> WebSearch:
    from qcode.tools.web_search import WebSearch  # few users have a key for a search service

    return WebSearch(search.service, search.key, gate)


def _git_overrides() -> dict[str, str]:
    from qcode.safety.git_repository import override_variables  # loads with the first command

    return override_variables()


def session_ids(options: Options) -> Callable[[datetime], str]:
    """Return a function that creates the id of each new session. The first session gets the id of `--session-id`."""
    ids = [] if options.session_id is None else [options.session_id]
    return lambda now: ids.pop() if ids else new_session_id(now)
