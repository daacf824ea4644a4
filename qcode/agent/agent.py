"""The agent as one object: a conversation with its model, tools, rules, sessions and servers, opened for one run.

A front end opens an `Agent` and talks to its `conversation`. Opening reads files, sends nothing, and never writes to
stdout. If it fails, it raises `QcodeError`.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.context.environment import read_environment
from qcode.agent.context.memory import Memory
from qcode.agent.context.system_prompt import Prompts
from qcode.agent.conversation import Conversation
from qcode.agent.models.client import Clients
from qcode.agent.models.selection import Selection, begin_with, provider_failures
from qcode.agent.options import LATEST, Options, RunContext
from qcode.agent.permissions import Permissions, origins_of, policy_of
from qcode.agent.sandbox import SessionSandbox
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore
from qcode.agent.subagent_kinds import KINDS, SubagentKind, offered_agent, own_kind
from qcode.agent.toolbox import FetchGate, Toolbox, search_key
from qcode.agent.trust import TrustService
from qcode.config.paths import AGENTS_FOLDER, MCP_FILE, PROJECT_FOLDER, may_exist
from qcode.config.settings import Settings
from qcode.protocol.errors import ExitCode, InputError, QcodeError
from qcode.protocol.events import Notice
from qcode.protocol.messages import Message
from qcode.safety.paths import SandboxScope
from qcode.safety.policy import Policy
from qcode.tools.workspace import Scratch, sweep_scratch

if TYPE_CHECKING:
    from qcode.agent.context.clipboard import Clip
    from qcode.agent.context.file_index import FileIndex
    from qcode.agent.context.pictures import Picture
    from qcode.agent.keys.connect import KeysService
    from qcode.agent.mcp.servers import Servers
    from qcode.agent.models.asides import Asides
    from qcode.agent.models.offered import ModelsService
    from qcode.agent.offered_tools import OfferedTool
    from qcode.agent.sessions.library import Library
    from qcode.agent.settings import SettingsService
    from qcode.agent.telemetry import DebugLog
    from qcode.config.definitions import CustomCommands
    from qcode.tools.web_search import SearchService, WebSearch

_SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)


class Agent:
    """A conversation and everything that it needs, owned until `close` or `release`."""

    def __init__(self, context: RunContext, selection: Selection) -> None:
        """Raise `QcodeError`, or `ProviderError` if the model cannot be connected."""
        self.context = context
        self.selection = selection
        self._secrets = _header_secrets(context.settings)
        self._store = SessionStore(context.paths.state_dir, context.root, redact=self._redact)
        scratch, search = Scratch(), search_key(context.settings, context.env)
        policy, sandbox = self._confined(self._searching(policy_of(context), search), scratch)
        self.permissions = Permissions(policy, origins_of(context))
        self.memory = Memory(
            context.folder,
            context.root,
            context.user_folder,
            lambda: self.permissions.is_trusted,
            self._may_import,
        )
        self.prompts = self._prompts()
        self._clients = clients = Clients(context, self.prompts, self._secrets, self._debug_log())
        client = clients.connect(selection)
        clients.check_budget(client)
        self.provider = client.provider
        kinds, problems = kinds_of(context)
        session, messages, notices = self._session(client.name)
        self._prune(session.session_id)
        # Removing may take long, and nothing waits for it.
        threading.Thread(target=sweep_scratch, name="sweep", daemon=True).start()
        self.toolbox = self._toolbox(scratch, sandbox, search, kinds)
        self.conversation = Conversation(
            context, clients, client, self.toolbox, self.permissions, self._store, session, messages, kinds
        )
        self.notices = problems + notices

    @classmethod
    def begin(cls, options: Options | RunContext, selection: Selection | None = None) -> Agent:
        """Open an agent on the model of `selection`, by default the one that the options and settings choose.

        Raise `QcodeError`. This blocks: use `open` in a running event loop.
        """
        context = options if isinstance(options, RunContext) else RunContext.read(options, dict(os.environ))
        with provider_failures(context.keys):
            return cls(context, selection or begin_with(context))

    @classmethod
    @asynccontextmanager
    async def open(cls, options: Options | RunContext, selection: Selection | None = None) -> AsyncIterator[Agent]:
        """Open an agent as `begin` does, in a thread, and close it at the end."""
        agent = await asyncio.to_thread(cls.begin, options, selection)
        try:
            yield agent
        finally:
            await agent.close()

    @cached_property
    def models(self) -> ModelsService:
        from qcode.agent.models.offered import ModelsService

        return ModelsService(self.context)

    @cached_property
    def settings(self) -> SettingsService:
        from qcode.agent.settings import SettingsService

        return SettingsService(self.context)

    @cached_property
    def keys(self) -> KeysService:
        from qcode.agent.keys.connect import KeysService

        return KeysService(self.context, self.selection)

    @cached_property
    def trust(self) -> TrustService:
        conversation, context = self.conversation, self.context
        return TrustService(
            context.root, context.paths.state_dir, lambda: conversation.policy.is_trusted, conversation.trust_folder
        )

    @cached_property
    def sessions(self) -> Library:
        from qcode.agent.sessions.library import Library  # loads with the first look at other sessions

        store = self._store if not self.context.options.no_session else None
        return Library(self.conversation, store, self.context.folder, self._clients)

    @cached_property
    def asides(self) -> Asides:
        from qcode.agent.models.asides import Asides

        return Asides(self.conversation, self.context.options.budget_usd)

    @property
    def servers(self) -> Servers | None:
        return self.toolbox.servers

    @cached_property
    def files(self) -> FileIndex:
        """The files of the folder, for completing a path."""
        from qcode.agent.context.file_index import FileIndex

        context = self.context
        return FileIndex(context.folder, context.root, context.env, lambda: self.permissions.is_trusted)

    def start_notices(self) -> tuple[Notice, ...]:
        """Return what the user should know before the first prompt: ignored settings, unreadable keys, lost trust."""
        context = self.context
        texts = (
            *context.settings.warnings,
            *context.keys.complaints,
            *self.notices,
            *self.prompts.instructions.notices,
        )
        return (*(Notice("warning", text) for text in texts), *self.trust.notices())

    def custom_commands(self, taken: Sequence[str] = ()) -> CustomCommands:
        """Read the commands from files; a front end has commands of the names in `taken` itself."""
        from qcode.config.definitions import load_custom_commands

        context = self.context
        return load_custom_commands(context.user_folder, context.root, is_trusted=context.is_trusted, taken=taken)

    def offered_tools(self) -> tuple[OfferedTool, ...]:
        """Return the tools as the model is offered them now."""
        from qcode.agent.offered_tools import offered_tools

        statuses = self.servers.statuses() if self.servers is not None else ()
        servers = {tool.name: status.name for status in statuses for tool in status.tools}
        return offered_tools(self.conversation.tools, self.permissions.policy, servers)

    def findings(self, *, is_in_app: bool = False) -> tuple[str, ...]:
        """Return the report of the doctor as lines; it blocks. `is_in_app`: a screen has replaced the streams."""
        from qcode.agent.doctor import report

        return tuple(report(self.context, is_in_app=is_in_app, is_trusted=self.permissions.is_trusted))

    def report_file_texts(self) -> None:
        """Let approvals and results carry the whole texts of changed files, as `ToolApproval.changes`."""
        self.toolbox.workspace.has_file_texts = True

    def warm_up(self) -> None:
        """Load what the first request needs, if it needs an SDK; it blocks."""
        self.provider.warm_up()

    def read_picture(self, path: str) -> Picture:
        """Read the image at `path`, relative to the folder; raise `InputError`."""
        from qcode.agent.context.pictures import picture_at

        return picture_at(path, self.context.folder)

    def read_clipboard(self) -> Clip:
        """Read the clipboard of the system; it blocks."""
        from qcode.agent.context.clipboard import read_clipboard

        return read_clipboard(self.context.env, self.context.root, system=sys.platform)

    def report_crash(self, failure: BaseException) -> str:
        """Keep the details of an unforeseen failure; return in one line what it was and where they are."""
        from qcode.agent.crash import report_crash

        return report_crash(failure, self.context.env)

    async def close(self) -> None:
        """Stop the tool servers, and release the session file and every connection."""
        await self.conversation.close()

    def release(self) -> None:
        """Release all files, for a process that exits now; safe to call twice."""
        self.conversation.release()

    def _prompts(self) -> Prompts:
        context, options = self.context, self.context.options
        environment = read_environment(
            context.folder,
            context.root,
            context.env,
            datetime.now().astimezone().date(),
            is_trusted=context.is_trusted,
            added_folders=context.added,
        )
        return Prompts(
            environment,
            self.memory,
            is_attended=context.is_attended,
            replacement=options.system_prompt or "",
            addition=options.append_system_prompt or "",
        )

    def _may_import(self, path: Path) -> bool:
        """Return whether a project's instruction file may be or import `path`: the model may read it without asking."""
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
        search: tuple[SearchService, str] | None,
        kinds: tuple[SubagentKind, ...],
    ) -> Toolbox:
        """Return the tools. They ask for the policy at each call, so that a change of mode applies at once."""
        context, permissions = self.context, self.permissions
        gate = FetchGate(lambda: permissions.policy)
        return Toolbox(
            context.folder,
            context.added,
            context.settings.tools,
            context.env,
            judge=lambda path, access: permissions.policy.judge_file(path, access),
            scratch=scratch,
            one_way=context.exit_tools,
            servers=self._servers(),
            shell_settings=lambda command: _git_overrides() if permissions.policy.only_reads(command) else {},
            sandbox=sandbox,
            gate=gate,
            search=None if search is None else _web_search(search, gate),
            is_offered=context.options.offers,
            agent=offered_agent(kinds, has_small=context.settings.small_model is not None),
        )

    def _searching(self, policy: Policy, search: tuple[SearchService, str] | None) -> Policy:
        """Return the policy for searches with this service, and register the key of the service as a secret."""
        if search is None:
            return policy
        service, key = search
        self._secrets.add(key)
        return replace(policy, search_url=service.url)

    def _servers(self) -> Servers | None:
        """Return the tool servers of this run, not started; None if there are neither servers nor complaints."""
        context = self.context
        files = tuple(map(Path, context.options.mcp_config))
        in_project = context.is_trusted and may_exist(context.root / MCP_FILE)
        if not (context.settings.mcp_servers or files or in_project):
            return None
        from qcode.agent.mcp.identity import ServerContext
        from qcode.agent.mcp.pins import Pins
        from qcode.agent.mcp.servers import Servers
        from qcode.agent.mcp.spec import header_values, named_servers

        named = named_servers(context.settings, files, context.root, is_trusted=context.is_trusted)
        if not named.specs and not named.complaints:
            return None
        self._secrets.update(value for value in header_values(named.specs, context.env) if value)
        return Servers(
            named.specs,
            Pins(context.paths.state_dir),
            ServerContext(context.folder, context.env, roots=(context.root, *context.added)),
            is_trusted=context.is_trusted,
            complaints=named.complaints,
        )

    def _prune(self, open_id: str) -> None:
        """Remove sessions that are older than the user wants to keep."""
        days = self.context.settings.sessions.retention_days
        if days and not self.context.options.no_session:
            self._store.prune(datetime.now(UTC) - timedelta(days=days), (open_id,))

    def _session(self, model: str) -> tuple[Session, tuple[Message, ...], tuple[str, ...]]:
        options, folder = self.context.options, self.context.folder
        wanted = options.resume
        notices: tuple[str, ...] = ()
        if wanted == LATEST:
            wanted = self._store.latest()
            if wanted is None:
                notices = ("no session to resume in this folder; starting a new one",)
        if wanted is None:
            return self._store.create(model, folder, is_kept=not options.no_session), (), notices
        if options.no_session:
            loaded = self._store.load(wanted)
            return self._store.create(model, folder, is_kept=False), loaded.messages, loaded.notices
        if options.fork_session:
            session, loaded = self._store.fork(wanted, cwd=folder)
        else:
            session, loaded = self._store.resume(wanted)
        return session, loaded.messages, loaded.notices

    def _debug_log(self) -> DebugLog | None:
        path = self.context.options.debug_log
        if path is None:
            return None
        from qcode.agent.telemetry import DebugLog

        try:
            return DebugLog(Path(path), self._redact)
        except OSError as error:
            raise InputError(f"cannot write --debug-log {path}: {error.strerror}") from None

    def _confined(self, policy: Policy, scratch: Scratch) -> tuple[Policy, SessionSandbox]:
        """Return the policy with the sandbox of this machine; raise `QcodeError` if one is required and none works."""
        settings, home = self.context.settings, self.context.env.get("HOME", "")
        at_home = Path(home) if home else None
        scope = SandboxScope(policy.root, policy.added, scratch.path, at_home, policy.own, policy.search_path)
        sandbox = SessionSandbox(settings.tools.sandbox, scope)
        if settings.tools.sandbox == "required" and sandbox.sandbox is None:
            where = settings.origin("tools.sandbox")
            text = f'{where}: tools.sandbox is "required", but no sandbox works here; run qcode doctor for details'
            raise QcodeError(text, ExitCode.BAD_CONFIG)
        probes = replace(policy.probes, sandbox=lambda: sandbox.support, contents=lambda: sandbox.index.look())
        return replace(policy, read_only=(scratch.path,), probes=probes), sandbox

    def _redact(self, text: str) -> str:
        from qcode.safety.redaction import Redactor

        return Redactor((*self._secrets, *self.context.keys.known())).redact(text)


def _header_secrets(settings: Settings) -> set[str]:
    """Return the values of the configured headers that carry a key, by their names."""
    headers = (item for provider in settings.providers.values() for item in provider.headers.items())
    secret = [value for name, value in headers if _SECRET_HEADER.search(name)]
    return {part for value in secret for part in (value, value.split()[-1])}


def _web_search(search: tuple[SearchService, str], gate: FetchGate) -> WebSearch:
    from qcode.tools.web_search import WebSearch  # few users have a key for a search service

    return WebSearch(*search, gate)


def _git_overrides() -> dict[str, str]:
    from qcode.safety.git_repository import overrides  # loads with the first command

    return overrides()


def kinds_of(context: RunContext) -> tuple[tuple[SubagentKind, ...], tuple[str, ...]]:
    """Return the kinds of sub-agents, and a line for each file that cannot be used."""
    if not context.settings.tools.agents:
        return (), ()
    folders = (context.user_folder, context.root / PROJECT_FOLDER if context.is_trusted else None)
    if not any(may_exist(folder / AGENTS_FOLDER) for folder in folders if folder is not None):
        return KINDS, ()
    from qcode.config.definitions import load_custom_agents

    taken = tuple(kind.name for kind in KINDS)
    found = load_custom_agents(context.user_folder, context.root, is_trusted=context.is_trusted, taken=taken)
    return (*KINDS, *map(own_kind, found.agents)), found.problems
